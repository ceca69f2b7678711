//! Diagnosis: what takes memory, what was slow, which modules there are (none).

use std::collections::VecDeque;

use super::*;
use crate::{
    command::spec::{Flags, KeySpec},
    machine,
    stats::CommandStats,
};

pub const COMMANDS: &[Command] = &[
    Command {
        name: "latency",
        arity: -2,
        group: "server",
        since: "2.8.13",
        summary: "Holds the commands about delays.",
        complexity: "that of the subcommand",
        subcommands: &[
            Command {
                name: "latency|doctor",
                arity: 2,
                flags: Flags::of([Flags::ADMIN, Flags::NOSCRIPT, Flags::LOADING, Flags::STALE]),
                tips: &[
                    "nondeterministic_output",
                    "request_policy:all_nodes",
                    "response_policy:special",
                ],
                group: "server",
                since: "2.8.13",
                summary: "Returns a report about delays in words.",
                handler: latency_doctor,
                ..Command::BASE
            },
            Command {
                name: "latency|graph",
                arity: 3,
                flags: Flags::of([Flags::ADMIN, Flags::NOSCRIPT, Flags::LOADING, Flags::STALE]),
                tips: &[
                    "nondeterministic_output",
                    "request_policy:all_nodes",
                    "response_policy:special",
                ],
                group: "server",
                since: "2.8.13",
                summary: "Draws an event's delays over time.",
                args: "event:string",
                handler: latency_graph,
                ..Command::BASE
            },
            Command {
                name: "latency|help",
                arity: 2,
                flags: Flags::of([Flags::LOADING, Flags::STALE]),
                group: "server",
                since: "2.8.13",
                summary: "Lists the subcommands with a line about each.",
                handler: help::help,
                ..Command::BASE
            },
            Command {
                name: "latency|histogram",
                arity: -2,
                flags: Flags::of([Flags::ADMIN, Flags::NOSCRIPT, Flags::LOADING, Flags::STALE]),
                tips: &[
                    "nondeterministic_output",
                    "request_policy:all_nodes",
                    "response_policy:special",
                ],
                group: "server",
                since: "7.0.0",
                summary: "Returns how long commands took, as a histogram each.",
                complexity: "O(N) where N is the number of commands",
                args: "[command:string...]",
                handler: latency_histogram,
                ..Command::BASE
            },
            Command {
                name: "latency|history",
                arity: 3,
                flags: Flags::of([Flags::ADMIN, Flags::NOSCRIPT, Flags::LOADING, Flags::STALE]),
                tips: &[
                    "nondeterministic_output",
                    "request_policy:all_nodes",
                    "response_policy:special",
                ],
                group: "server",
                since: "2.8.13",
                summary: "Returns the delays noted for an event.",
                args: "event:string",
                handler: latency_history,
                ..Command::BASE
            },
            Command {
                name: "latency|latest",
                arity: 2,
                flags: Flags::of([Flags::ADMIN, Flags::NOSCRIPT, Flags::LOADING, Flags::STALE]),
                tips: &[
                    "nondeterministic_output",
                    "request_policy:all_nodes",
                    "response_policy:special",
                ],
                group: "server",
                since: "2.8.13",
                summary: "Returns the latest delay of every event.",
                handler: latency_latest,
                ..Command::BASE
            },
            Command {
                name: "latency|reset",
                arity: -2,
                flags: Flags::of([Flags::ADMIN, Flags::NOSCRIPT, Flags::LOADING, Flags::STALE]),
                tips: &["request_policy:all_nodes", "response_policy:agg_sum"],
                group: "server",
                since: "2.8.13",
                summary: "Forgets the delays of events, of all when none is named.",
                args: "[event:string...]",
                handler: latency_reset,
                ..Command::BASE
            },
        ],
        ..Command::BASE
    },
    Command {
        name: "memory",
        arity: -2,
        group: "server",
        since: "4.0.0",
        summary: "Holds the commands about the use of memory.",
        complexity: "that of the subcommand",
        subcommands: &[
            Command {
                name: "memory|doctor",
                arity: 2,
                tips: &[
                    "nondeterministic_output",
                    "request_policy:all_shards",
                    "response_policy:special",
                ],
                group: "server",
                since: "4.0.0",
                summary: "Returns a report about the use of memory in words.",
                handler: memory_doctor,
                ..Command::BASE
            },
            Command {
                name: "memory|help",
                arity: 2,
                flags: Flags::of([Flags::LOADING, Flags::STALE]),
                group: "server",
                since: "4.0.0",
                summary: "Lists the subcommands with a line about each.",
                handler: help::help,
                ..Command::BASE
            },
            Command {
                name: "memory|malloc-stats",
                arity: 2,
                flags: Flags::LOADING,
                tips: &[
                    "nondeterministic_output",
                    "request_policy:all_shards",
                    "response_policy:special",
                ],
                group: "server",
                since: "4.0.0",
                summary: "Returns the allocator's own figures.",
                complexity: "that of the allocator",
                handler: memory_malloc_stats,
                ..Command::BASE
            },
            Command {
                name: "memory|purge",
                arity: 2,
                flags: Flags::LOADING,
                tips: &["request_policy:all_shards", "response_policy:all_succeeded"],
                group: "server",
                since: "4.0.0",
                summary: "Asks the allocator to return what is free.",
                complexity: "that of the allocator",
                handler: memory_purge,
                ..Command::BASE
            },
            Command {
                name: "memory|stats",
                arity: 2,
                tips: &[
                    "nondeterministic_output",
                    "request_policy:all_shards",
                    "response_policy:special",
                ],
                group: "server",
                since: "4.0.0",
                summary: "Returns figures about the use of memory.",
                handler: memory_stats,
                ..Command::BASE
            },
            Command {
                name: "memory|usage",
                arity: -3,
                flags: Flags::READONLY,
                keys: &[KeySpec::one("RO", 2)],
                group: "server",
                since: "4.0.0",
                summary: "Estimates the bytes that a key and its value take.",
                complexity: "O(N) where N is the number of samples",
                args: "key:key [SAMPLES@count:integer]",
                handler: memory_usage,
                ..Command::BASE
            },
        ],
        ..Command::BASE
    },
    Command {
        name: "module",
        arity: -2,
        group: "server",
        since: "4.0.0",
        summary: "Holds the commands about modules.",
        complexity: "that of the subcommand",
        subcommands: &[
            Command {
                name: "module|help",
                arity: 2,
                flags: Flags::of([Flags::LOADING, Flags::STALE]),
                group: "server",
                since: "5.0.0",
                summary: "Lists the subcommands with a line about each.",
                handler: help::help,
                ..Command::BASE
            },
            Command {
                name: "module|list",
                arity: 2,
                flags: Flags::of([Flags::ADMIN, Flags::NOSCRIPT]),
                tips: &["nondeterministic_output_order"],
                group: "server",
                since: "4.0.0",
                summary: "Returns the loaded modules.",
                complexity: "O(N) where N is the number of modules",
                handler: module_list,
                ..Command::BASE
            },
            Command {
                name: "module|load",
                arity: -3,
                flags: Flags::of([Flags::ADMIN, Flags::NOSCRIPT, Flags::NO_ASYNC_LOADING]),
                group: "server",
                since: "4.0.0",
                summary: "Loads a module.",
                args: "path:string [arg:string...]",
                handler: module_load,
                ..Command::BASE
            },
            Command {
                name: "module|loadex",
                arity: -3,
                flags: Flags::of([Flags::ADMIN, Flags::NOSCRIPT, Flags::NO_ASYNC_LOADING]),
                group: "server",
                since: "7.0.0",
                summary: "Loads a module with settings.",
                args: "path:string [CONFIG@configs(name:string value:string).!.] \
                    [ARGS@args:string...]",
                handler: module_loadex,
                ..Command::BASE
            },
            Command {
                name: "module|unload",
                arity: 3,
                flags: Flags::of([Flags::ADMIN, Flags::NOSCRIPT, Flags::NO_ASYNC_LOADING]),
                group: "server",
                since: "4.0.0",
                summary: "Unloads a module.",
                args: "name:string",
                handler: module_unload,
                ..Command::BASE
            },
        ],
        ..Command::BASE
    },
];

fn latency_doctor(call: &mut Call<'_>) -> Result<(), Stop> {
    let engine = &*call.engine;
    let report = engine.latency.report(engine.keys.now());
    let text = if engine.config.hot.latency_threshold == 0 {
        "Nothing is watched: set latency-monitor-threshold to the milliseconds from which an \
        event is worth noting.\n"
            .to_owned()
    } else if report.is_empty() {
        "Nothing was slow since watching began.\n".to_owned()
    } else {
        format!("{report}\nSLOWLOG GET tells which commands it was.\n")
    };
    call.reply.verbatim(b"txt", text.as_bytes());
    Ok(())
}

fn latency_graph(call: &mut Call<'_>) -> Result<(), Stop> {
    let name = call.arg(2);
    let Some(event) = call.engine.latency.get(name) else {
        let text = [b"ERR No samples available for event '", name, b"'"].concat();
        return Err(Error::owned(text).into());
    };
    let graph = event.graph(call.engine.keys.now());
    let text = [name, b" - ", graph.as_bytes()].concat();
    call.reply.verbatim(b"txt", &text);
    Ok(())
}

fn latency_histogram(call: &mut Call<'_>) -> Result<(), Stop> {
    let asked = &call.args[2..];
    let mut found: Vec<(&'static str, &CommandStats)> = Vec::new();
    for (command, stats) in call.engine.stats.by_command() {
        let parent = command.name.split('|').next().unwrap_or_default();
        let wanted = asked.is_empty()
            || asked
                .iter()
                .any(|name| is_word(name, command.name) || is_word(name, parent));
        if wanted && !stats.latency.is_empty() {
            found.push((command.name, stats));
        }
    }
    found.sort_by_key(|&(name, _)| name);
    call.reply.map(found.len());
    for (name, stats) in found {
        call.reply.bulk(name.as_bytes());
        call.reply.map(2);
        call.reply.bulk(b"calls");
        call.reply.integer(stats.latency.total() as i64);
        call.reply.bulk(b"histogram_usec");
        let steps = stats.latency.doubling();
        call.reply.map(steps.len());
        for (limit, count) in steps {
            call.reply.integer(limit as i64);
            call.reply.integer(count as i64);
        }
    }
    Ok(())
}

fn latency_history(call: &mut Call<'_>) -> Result<(), Stop> {
    let event = call.engine.latency.get(call.arg(2));
    let samples = event.map(|event| &event.samples);
    call.reply.array(samples.map_or(0, VecDeque::len));
    for &(second, millis) in samples.into_iter().flatten() {
        call.reply.array(2);
        call.reply.integer(second as i64);
        call.reply.integer(millis as i64);
    }
    Ok(())
}

fn latency_latest(call: &mut Call<'_>) -> Result<(), Stop> {
    let events = call.engine.latency.iter();
    call.reply.array(events.len());
    for (name, event) in events {
        let (second, latest) = event.samples.back().copied().unwrap_or_default();
        call.reply.array(6);
        call.reply.bulk(name.as_bytes());
        for figure in [second, latest, event.max, event.sum, event.count] {
            call.reply.integer(figure as i64);
        }
    }
    Ok(())
}

fn latency_reset(call: &mut Call<'_>) -> Result<(), Stop> {
    let forgotten = if call.args.len() == 2 {
        call.engine.latency.clear()
    } else {
        let latency = &mut call.engine.latency;
        let names = call.args[2..].iter();
        names.filter(|name| latency.remove(name)).count()
    };
    call.reply.integer(forgotten as i64);
    Ok(())
}

fn memory_doctor(call: &mut Call<'_>) -> Result<(), Stop> {
    let memory = machine::memory();
    let text = if memory.peak > memory.resident * 3 / 2 {
        format!(
            "The process once took {} bytes and takes {} now: what was freed may not have gone \
            back to the system.\n",
            memory.peak, memory.resident
        )
    } else {
        "Nothing about the memory is out of the ordinary.\n".to_owned()
    };
    call.reply.verbatim(b"txt", text.as_bytes());
    Ok(())
}

fn memory_malloc_stats(call: &mut Call<'_>) -> Result<(), Stop> {
    call.reply
        .verbatim(b"txt", b"Stats not supported for the current allocator");
    Ok(())
}

fn memory_purge(call: &mut Call<'_>) -> Result<(), Stop> {
    call.reply.ok();
    Ok(())
}

fn memory_stats(call: &mut Call<'_>) -> Result<(), Stop> {
    let (memory, used) = (machine::memory(), call.engine.used_memory() as i64);
    let databases: Vec<(usize, usize, usize)> = (0..call.engine.keys.databases())
        .map(|db| (db, call.engine.keys.sizes(db)))
        .filter(|(_, (keys, _))| *keys > 0)
        .map(|(db, (keys, expires))| (db, keys, expires))
        .collect();
    let keys: usize = databases.iter().map(|(_, keys, _)| keys).sum();
    let dataset = estimated_dataset(call.engine, &databases) as i64;
    let figures = [
        ("peak.allocated", memory.peak as i64),
        ("total.allocated", used),
        ("startup.allocated", used - dataset),
        ("replication.backlog", 0),
        ("clients.slaves", 0),
        ("clients.normal", clients_memory(call) as i64),
        ("cluster.links", 0),
        ("aof.buffer", 0),
    ];
    let reply = &mut *call.reply;
    reply.map(figures.len() + databases.len() + 7);
    for (name, value) in figures {
        reply.bulk(name.as_bytes());
        reply.integer(value);
    }
    for (db, keys, expires) in databases {
        reply.bulk(format!("db.{db}").as_bytes());
        reply.map(2);
        reply.bulk(b"overhead.hashtable.main");
        reply.integer(keys as i64 * 8);
        reply.bulk(b"overhead.hashtable.expires");
        reply.integer(expires as i64 * 8);
    }
    let each = if keys == 0 { 0 } else { dataset / keys as i64 };
    for (name, value) in [
        ("overhead.total", used - dataset),
        ("keys.count", keys as i64),
        ("keys.bytes-per-key", each),
        ("dataset.bytes", dataset),
    ] {
        reply.bulk(name.as_bytes());
        reply.integer(value);
    }
    for (name, value) in [
        (
            "dataset.percentage",
            dataset as f64 * 100.0 / used.max(1) as f64,
        ),
        (
            "peak.percentage",
            used as f64 * 100.0 / memory.peak.max(1) as f64,
        ),
        ("fragmentation", memory.resident as f64 / used.max(1) as f64),
    ] {
        reply.bulk(name.as_bytes());
        reply.double(value);
    }
    Ok(())
}

fn clients_memory(call: &Call<'_>) -> usize {
    let others = call.engine.sessions.iter().map(Session::unread);
    others.sum::<usize>() + call.engine.sessions.len() * size_of::<Session>()
}

/// What the keys occupy, from the size of some of each database.
fn estimated_dataset(engine: &mut Engine, databases: &[(usize, usize, usize)]) -> usize {
    const LOOKED_AT: usize = 1000;
    const ELEMENTS: usize = 5;
    let selected = engine.keys.selected();
    let mut total = 0;
    for &(db, keys, _) in databases {
        engine.keys.select(db);
        let (mut sum, mut count) = (0, 0);
        for entry in engine.keys.entries().take(LOOKED_AT) {
            sum += entry.size(ELEMENTS);
            count += 1;
        }
        total += sum * keys / count.max(1);
    }
    engine.keys.select(selected);
    total
}

fn memory_usage(call: &mut Call<'_>) -> Result<(), Stop> {
    const USUAL: usize = 5;
    let (mut samples, mut options) = (USUAL, call.options(3));
    while let Some(word) = options.next() {
        if !is_word(word, "SAMPLES") || options.is_empty() {
            return Err(Error::SYNTAX.into());
        }
        samples = match options.int()? {
            0 => usize::MAX,
            count @ 1.. => count as usize,
            _ => return Err(Error::SYNTAX.into()),
        };
    }
    match call.engine.keys.peek(call.arg(2)) {
        Some(entry) => call.reply.integer(entry.size(samples) as i64),
        None => call.reply.null(),
    }
    Ok(())
}

fn module_list(call: &mut Call<'_>) -> Result<(), Stop> {
    call.reply.array(0);
    Ok(())
}

fn module_load(_call: &mut Call<'_>) -> Result<(), Stop> {
    const FAILED: Error =
        Error::text("ERR Error loading the extension. Please check the server logs.");
    Err(FAILED.into())
}

fn module_loadex(call: &mut Call<'_>) -> Result<(), Stop> {
    module_load(call)
}

fn module_unload(call: &mut Call<'_>) -> Result<(), Stop> {
    module_load(call)
}

/// Why the few commands are refused that a setting has to allow first.
pub fn protected(engine: &Engine, session: &Session, command: &Command) -> Option<Error> {
    let (name, setting) = match command.name {
        "debug" => ("DEBUG", "enable-debug-command"),
        "module|load" | "module|loadex" | "module|unload" => ("MODULE", "enable-module-command"),
        _ => return None,
    };
    let value = engine.config.get(setting);
    if value == "yes" || value == "local" && session.is_near() {
        return None;
    }
    Some(Error::owned(format!(
        "ERR {name} command not allowed. If the {setting} option is set to \"local\", you can \
        run it from a local connection, otherwise you need to set this option in the \
        configuration file, and then restart the server."
    )))
}
