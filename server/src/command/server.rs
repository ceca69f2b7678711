//! The server as a whole: its settings, its figures, its logs, all of its keys, and its end.

use std::fmt::Write;

use super::*;
use crate::{
    acl::User,
    blocking::{self, OnTimeout},
    bytestr::ByteStr,
    command::{
        scripting::Killer,
        spec::{Categories, Flags},
    },
    config::{Config, Refusal},
    engine::Saved,
    info, machine,
    slowlog::SlowLog,
};

pub const COMMANDS: &[Command] = &[
    Command {
        name: "bgrewriteaof",
        arity: 1,
        flags: Flags::of([Flags::ADMIN, Flags::NOSCRIPT, Flags::NO_ASYNC_LOADING]),
        group: "server",
        summary: "Rewrites the append-only file in the background.",
        handler: bgrewriteaof,
        ..Command::BASE
    },
    Command {
        name: "bgsave",
        arity: -1,
        flags: Flags::of([Flags::ADMIN, Flags::NOSCRIPT, Flags::NO_ASYNC_LOADING]),
        group: "server",
        history: &[("3.2.2", "Knows `SCHEDULE`."), ("8.1.0", "Knows `CANCEL`.")],
        summary: "Saves all data to disk in the background.",
        args: "[operation<SCHEDULE{3.2.2}|CANCEL{8.1.0}>]",
        handler: bgsave,
        ..Command::BASE
    },
    Command {
        name: "commandlog",
        arity: -2,
        group: "server",
        since: "8.1.0",
        summary: "Holds the commands about the logs of slow and of large commands.",
        complexity: "that of the subcommand",
        subcommands: &[
            Command {
                name: "commandlog|get",
                arity: 4,
                flags: Flags::of([Flags::ADMIN, Flags::LOADING, Flags::STALE]),
                tips: &["request_policy:all_nodes", "nondeterministic_output"],
                group: "server",
                since: "8.1.0",
                summary: "Returns the newest entries of one of the logs.",
                complexity: "O(N) where N is the number of entries returned",
                args: "count:integer type<SLOW|LARGE-REQUEST|LARGE-REPLY>",
                handler: commandlog_get,
                ..Command::BASE
            },
            Command {
                name: "commandlog|help",
                arity: 2,
                flags: Flags::of([Flags::LOADING, Flags::STALE]),
                group: "server",
                since: "8.1.0",
                summary: "Lists the subcommands with a line about each.",
                handler: help::help,
                ..Command::BASE
            },
            Command {
                name: "commandlog|len",
                arity: 3,
                flags: Flags::of([Flags::ADMIN, Flags::LOADING, Flags::STALE]),
                tips: &[
                    "request_policy:all_nodes",
                    "response_policy:agg_sum",
                    "nondeterministic_output",
                ],
                group: "server",
                since: "8.1.0",
                summary: "Returns the number of entries in one of the logs.",
                args: "type<SLOW|LARGE-REQUEST|LARGE-REPLY>",
                handler: commandlog_len,
                ..Command::BASE
            },
            Command {
                name: "commandlog|reset",
                arity: 3,
                flags: Flags::of([Flags::ADMIN, Flags::LOADING, Flags::STALE]),
                tips: &["request_policy:all_nodes", "response_policy:all_succeeded"],
                group: "server",
                since: "8.1.0",
                summary: "Empties one of the logs.",
                complexity: "O(N) where N is the number of entries",
                args: "type<SLOW|LARGE-REQUEST|LARGE-REPLY>",
                handler: commandlog_reset,
                ..Command::BASE
            },
        ],
        ..Command::BASE
    },
    Command {
        name: "config",
        arity: -2,
        group: "server",
        since: "2.0.0",
        summary: "Holds the commands about settings.",
        complexity: "that of the subcommand",
        subcommands: &[
            Command {
                name: "config|get",
                arity: -3,
                flags: Flags::of([Flags::ADMIN, Flags::NOSCRIPT, Flags::LOADING, Flags::STALE]),
                group: "server",
                since: "2.0.0",
                history: &[("7.0.0", "Takes several patterns.")],
                summary: "Returns the settings whose names match.",
                complexity: "O(N) where N is the number of names given",
                args: "parameter:string...",
                handler: config_get,
                ..Command::BASE
            },
            Command {
                name: "config|help",
                arity: 2,
                flags: Flags::of([Flags::LOADING, Flags::STALE]),
                group: "server",
                since: "5.0.0",
                summary: "Lists the subcommands with a line about each.",
                handler: help::help,
                ..Command::BASE
            },
            Command {
                name: "config|resetstat",
                arity: 2,
                flags: Flags::of([Flags::ADMIN, Flags::NOSCRIPT, Flags::LOADING, Flags::STALE]),
                tips: &["request_policy:all_nodes", "response_policy:all_succeeded"],
                group: "server",
                since: "2.0.0",
                summary: "Sets the counters of INFO back to zero.",
                handler: config_resetstat,
                ..Command::BASE
            },
            Command {
                name: "config|rewrite",
                arity: 2,
                flags: Flags::of([Flags::ADMIN, Flags::NOSCRIPT, Flags::LOADING, Flags::STALE]),
                tips: &["request_policy:all_nodes", "response_policy:all_succeeded"],
                group: "server",
                since: "2.8.0",
                summary: "Writes the present settings into the configuration file.",
                handler: config_rewrite,
                ..Command::BASE
            },
            Command {
                name: "config|set",
                arity: -4,
                flags: Flags::of([Flags::ADMIN, Flags::NOSCRIPT, Flags::LOADING, Flags::STALE]),
                tips: &["request_policy:all_nodes", "response_policy:all_succeeded"],
                group: "server",
                since: "2.0.0",
                history: &[("7.0.0", "Sets several settings at once.")],
                summary: "Changes settings.",
                complexity: "O(N) where N is the number of settings given",
                args: "data(parameter:string value:string)...",
                handler: config_set,
                ..Command::BASE
            },
        ],
        ..Command::BASE
    },
    Command {
        name: "dbsize",
        arity: 1,
        flags: Flags::of([Flags::READONLY, Flags::FAST]),
        categories: Categories::KEYSPACE,
        tips: &["request_policy:all_shards", "response_policy:agg_sum"],
        group: "server",
        summary: "Returns the number of keys in the database.",
        handler: dbsize,
        ..Command::BASE
    },
    Command {
        name: "flushall",
        arity: -1,
        flags: Flags::WRITE.with(Flags::ALL_DBS),
        categories: Categories::of([Categories::KEYSPACE, Categories::DANGEROUS]),
        tips: &["request_policy:all_shards", "response_policy:all_succeeded"],
        group: "server",
        history: &[("4.0.0", "Knows `ASYNC`."), ("6.2.0", "Knows `SYNC`.")],
        summary: "Deletes all keys of all databases.",
        complexity: "O(N) where N is the number of keys in all databases",
        args: "[flush-type<ASYNC{4.0.0}|SYNC{6.2.0}>]",
        handler: flushall,
        ..Command::BASE
    },
    Command {
        name: "flushdb",
        arity: -1,
        flags: Flags::WRITE,
        categories: Categories::of([Categories::KEYSPACE, Categories::DANGEROUS]),
        tips: &["request_policy:all_shards", "response_policy:all_succeeded"],
        group: "server",
        history: &[("4.0.0", "Knows `ASYNC`."), ("6.2.0", "Knows `SYNC`.")],
        summary: "Deletes all keys of the database.",
        complexity: "O(N) where N is the number of keys in the database",
        args: "[flush-type<ASYNC{4.0.0}|SYNC{6.2.0}>]",
        handler: flushdb,
        ..Command::BASE
    },
    Command {
        name: "info",
        arity: -1,
        flags: Flags::of([Flags::LOADING, Flags::STALE]),
        categories: Categories::DANGEROUS,
        tips: &[
            "nondeterministic_output",
            "request_policy:all_shards",
            "response_policy:special",
        ],
        group: "server",
        history: &[("7.0.0", "Takes several sections.")],
        summary: "Returns figures about the server.",
        args: "[section:string...]",
        handler: info,
        ..Command::BASE
    },
    Command {
        name: "lastsave",
        arity: 1,
        flags: Flags::of([Flags::LOADING, Flags::STALE, Flags::FAST]),
        categories: Categories::of([Categories::ADMIN, Categories::DANGEROUS]),
        tips: &["nondeterministic_output"],
        group: "server",
        summary: "Returns the Unix time of the last save to disk.",
        handler: lastsave,
        ..Command::BASE
    },
    Command {
        name: "lolwut",
        arity: -1,
        flags: Flags::of([Flags::READONLY, Flags::FAST]),
        group: "server",
        since: "5.0.0",
        summary: "Draws something and tells the version.",
        complexity: "",
        args: "[VERSION@version:integer]",
        handler: lolwut,
        ..Command::BASE
    },
    Command {
        name: "monitor",
        arity: 1,
        flags: Flags::of([Flags::ADMIN, Flags::NOSCRIPT, Flags::LOADING, Flags::STALE]),
        group: "server",
        summary: "Streams every command as the server runs it.",
        complexity: "",
        handler: monitor,
        ..Command::BASE
    },
    Command {
        name: "role",
        arity: 1,
        flags: Flags::of([Flags::NOSCRIPT, Flags::LOADING, Flags::STALE, Flags::FAST]),
        categories: Categories::of([Categories::ADMIN, Categories::DANGEROUS]),
        group: "server",
        since: "2.8.12",
        summary: "Returns the server's role in replication.",
        handler: role,
        ..Command::BASE
    },
    Command {
        name: "save",
        arity: 1,
        flags: Flags::of([
            Flags::ADMIN,
            Flags::NOSCRIPT,
            Flags::NO_ASYNC_LOADING,
            Flags::NO_MULTI,
        ]),
        group: "server",
        summary: "Saves all data to disk and lets all wait for it.",
        complexity: "O(N) where N is the number of keys in all databases",
        handler: save,
        ..Command::BASE
    },
    Command {
        name: "shutdown",
        arity: -1,
        flags: Flags::of([
            Flags::ADMIN,
            Flags::NOSCRIPT,
            Flags::LOADING,
            Flags::STALE,
            Flags::NO_MULTI,
            Flags::ALLOW_BUSY,
        ]),
        group: "server",
        history: &[
            ("7.0.0", "Knows `NOW`, `FORCE` and `ABORT`."),
            ("9.0.0", "Knows `SAFE` and `FAILOVER`."),
        ],
        summary: "Saves if asked and stops the server.",
        complexity: "O(N) with a save, where N is the number of keys",
        args: "[abort-selector<save-selector-block([save-selector<NOSAVE|SAVE>] [NOW{7.0.0}] \
               [FORCE{7.0.0}] [SAFE{9.0.0}] [FAILOVER{9.0.0}])|ABORT{7.0.0}>]",
        handler: shutdown,
        ..Command::BASE
    },
    Command {
        name: "slowlog",
        arity: -2,
        group: "server",
        since: "2.2.12",
        summary: "Holds the commands about the log of slow commands.",
        complexity: "that of the subcommand",
        subcommands: &[
            Command {
                name: "slowlog|get",
                arity: -2,
                flags: Flags::of([Flags::ADMIN, Flags::LOADING, Flags::STALE]),
                tips: &["request_policy:all_nodes", "nondeterministic_output"],
                group: "server",
                since: "2.2.12",
                history: &[("4.0.0", "Tells who asked: address, port and name.")],
                summary: "Returns the newest entries of the log.",
                complexity: "O(N) where N is the number of entries returned",
                args: "[count:integer]",
                handler: slowlog_get,
                ..Command::BASE
            },
            Command {
                name: "slowlog|help",
                arity: 2,
                flags: Flags::of([Flags::LOADING, Flags::STALE]),
                group: "server",
                since: "6.2.0",
                summary: "Lists the subcommands with a line about each.",
                handler: help::help,
                ..Command::BASE
            },
            Command {
                name: "slowlog|len",
                arity: 2,
                flags: Flags::of([Flags::ADMIN, Flags::LOADING, Flags::STALE]),
                tips: &[
                    "request_policy:all_nodes",
                    "response_policy:agg_sum",
                    "nondeterministic_output",
                ],
                group: "server",
                since: "2.2.12",
                summary: "Returns the number of entries in the log.",
                handler: slowlog_len,
                ..Command::BASE
            },
            Command {
                name: "slowlog|reset",
                arity: 2,
                flags: Flags::of([Flags::ADMIN, Flags::LOADING, Flags::STALE]),
                tips: &["request_policy:all_nodes", "response_policy:all_succeeded"],
                group: "server",
                since: "2.2.12",
                summary: "Empties the log.",
                complexity: "O(N) where N is the number of entries",
                handler: slowlog_reset,
                ..Command::BASE
            },
        ],
        ..Command::BASE
    },
    Command {
        name: "swapdb",
        arity: 3,
        flags: Flags::of([Flags::WRITE, Flags::FAST]),
        categories: Categories::of([Categories::KEYSPACE, Categories::DANGEROUS]),
        group: "server",
        since: "4.0.0",
        summary: "Exchanges the contents of two databases.",
        complexity: "O(N) where N is the number of clients that watch or wait in them",
        args: "index1:integer index2:integer",
        handler: swapdb,
        ..Command::BASE
    },
    Command {
        name: "time",
        arity: 1,
        flags: Flags::of([Flags::LOADING, Flags::STALE, Flags::FAST]),
        tips: &["nondeterministic_output"],
        group: "server",
        since: "2.6.0",
        summary: "Returns the server's time.",
        handler: time,
        ..Command::BASE
    },
    Command {
        name: "wait",
        arity: 3,
        flags: Flags::BLOCKING,
        categories: Categories::CONNECTION,
        tips: &["request_policy:all_shards", "response_policy:agg_min"],
        since: "3.0.0",
        summary: "Waits until enough replicas have this connection's writes.",
        args: "numreplicas:integer timeout:integer",
        handler: wait,
        ..Command::BASE
    },
    Command {
        name: "waitaof",
        arity: 4,
        flags: Flags::BLOCKING,
        categories: Categories::CONNECTION,
        tips: &["request_policy:all_shards", "response_policy:agg_min"],
        since: "7.2.0",
        summary: "Waits until enough servers have this connection's writes on disk.",
        args: "numlocal:integer numreplicas:integer timeout:integer",
        handler: waitaof,
        ..Command::BASE
    },
];

fn bgrewriteaof(call: &mut Call<'_>) -> Result<(), Stop> {
    call.reply
        .simple("Background append only file rewriting started");
    Ok(())
}

fn bgsave(call: &mut Call<'_>) -> Result<(), Stop> {
    match *call.args {
        [_] => {}
        [_, word] if is_word(word, "SCHEDULE") => {}
        [_, word] if is_word(word, "CANCEL") => {
            return Err(Error::text(
                "ERR Background saving is currently not in progress or scheduled",
            )
            .into());
        }
        _ => return Err(Error::SYNTAX.into()),
    }
    note_saved(call.engine);
    call.reply.simple("Background saving started");
    Ok(())
}

/// There is no disk to save to, but clients ask whether and when it was done.
fn note_saved(engine: &mut Engine) {
    engine.saved = Saved {
        at: engine.keys.now(),
        dirty: engine.keys.dirty,
        times: engine.saved.times + 1,
    };
}

fn commandlog_get(call: &mut Call<'_>) -> Result<(), Stop> {
    let count = log_count(call.arg(2))?;
    let log = chosen_log(call.engine, call.arg(3))?;
    write_log(log, count, call.reply);
    Ok(())
}

fn commandlog_len(call: &mut Call<'_>) -> Result<(), Stop> {
    let len = chosen_log(call.engine, call.arg(2))?.len();
    call.reply.integer(len as i64);
    Ok(())
}

fn commandlog_reset(call: &mut Call<'_>) -> Result<(), Stop> {
    chosen_log(call.engine, call.arg(2))?.clear();
    call.reply.ok();
    Ok(())
}

fn chosen_log<'a>(engine: &'a mut Engine, name: &[u8]) -> Result<&'a mut SlowLog, Error> {
    if is_word(name, "SLOW") {
        Ok(&mut engine.slowlog)
    } else if is_word(name, "LARGE-REQUEST") {
        Ok(&mut engine.large_requests)
    } else if is_word(name, "LARGE-REPLY") {
        Ok(&mut engine.large_replies)
    } else {
        Err(Error::text(
            "ERR type should be one of the following: slow, large-request, large-reply",
        ))
    }
}

/// How many entries are asked for; -1 for all.
fn log_count(arg: &[u8]) -> Result<usize, Error> {
    match number::parse_i64(arg) {
        Some(-1) => Ok(usize::MAX),
        Some(count @ 0..) => Ok(count as usize),
        _ => Err(Error::text(
            "ERR count should be greater than or equal to -1",
        )),
    }
}

fn write_log(log: &SlowLog, count: usize, reply: &mut dyn Reply) {
    reply.array(log.len().min(count));
    for entry in log.iter().take(count) {
        reply.array(6);
        reply.integer(entry.id as i64);
        reply.integer(entry.at.seconds() as i64);
        reply.integer(entry.value);
        reply.array(entry.args.len());
        for arg in &entry.args {
            reply.bulk(arg);
        }
        reply.bulk(entry.addr.as_bytes());
        reply.bulk(&entry.name);
    }
}

fn config_get(call: &mut Call<'_>) -> Result<(), Stop> {
    let mut found: Vec<(String, &str)> = Vec::new();
    for name in &call.args[2..] {
        let name = String::from_utf8_lossy(name);
        for (name, value) in call.engine.config.matching(&name) {
            if !found.iter().any(|(other, _)| *other == name) {
                found.push((name, value));
            }
        }
    }
    call.reply.map(found.len());
    for (name, value) in found {
        call.reply.bulk(name.as_bytes());
        // The references do not show the events of new keys beside `A`, which leaves them out.
        let shown = value
            .strip_prefix("An")
            .filter(|_| name == "notify-keyspace-events");
        match shown {
            Some(rest) => call.reply.bulk(format!("A{rest}").as_bytes()),
            None => call.reply.bulk(value.as_bytes()),
        }
    }
    Ok(())
}

fn config_resetstat(call: &mut Call<'_>) -> Result<(), Stop> {
    call.engine.stats.reset();
    call.engine.keys.stats = crate::keyspace::KeyStats::default();
    call.reply.ok();
    Ok(())
}

fn config_rewrite(call: &mut Call<'_>) -> Result<(), Stop> {
    if call.engine.config.file.is_empty() {
        return Err(Error::text("ERR The server is running without a config file").into());
    }
    let engine = &call.engine;
    let users: Vec<Vec<u8>> = if engine.config.get("aclfile").is_empty() {
        engine.users.iter().map(User::describe).collect()
    } else {
        Vec::new()
    };
    if let Err(error) = engine.config.rewrite(&users) {
        return Err(Error::owned(format!("ERR Rewriting config file: {error}")).into());
    }
    call.reply.ok();
    Ok(())
}

fn config_set(call: &mut Call<'_>) -> Result<(), Stop> {
    let words = &call.args[2..];
    if !words.len().is_multiple_of(2) {
        return Err(Error::SYNTAX.into());
    }
    let mut pairs = Vec::with_capacity(words.len() / 2);
    for pair in words.chunks(2) {
        let name = std::str::from_utf8(pair[0]).map_err(|_| unknown_setting(pair[0]))?;
        let value = std::str::from_utf8(pair[1])
            .map_err(|_| refused_setting(pair[0], "argument must be text in UTF-8"))?;
        pairs.push((name, value));
    }
    let before = call.engine.config.clone();
    call.engine
        .config
        .change(&pairs)
        .map_err(|(index, refusal)| match refusal {
            Refusal::Unknown => unknown_setting(pairs[index].0.as_bytes()),
            refusal => refused_setting(pairs[index].0.as_bytes(), &refusal.to_string()),
        })?;
    if let Err(error) = make_room(&before, &call.engine.config) {
        call.engine.config = before;
        return Err(error.into());
    }
    if pairs
        .iter()
        .any(|(name, _)| name.eq_ignore_ascii_case("requirepass"))
    {
        let password = call.engine.config.get("requirepass").as_bytes();
        call.engine.users.set_default_password(password);
    }
    call.engine.apply_config();
    call.reply.ok();
    Ok(())
}

/// More clients must find room in the system.
fn make_room(before: &Config, config: &Config) -> Result<(), Error> {
    let wanted = config.hot.max_clients;
    if wanted <= before.hot.max_clients {
        return Ok(());
    }
    let room = machine::room_for_clients(wanted);
    if room >= wanted {
        return Ok(());
    }
    let why = format!(
        "The operating system is not able to handle the specified number of clients, try with {room}"
    );
    Err(refused_setting(b"maxclients", &why))
}

fn unknown_setting(name: &[u8]) -> Error {
    let text = b"ERR Unknown option or number of arguments for CONFIG SET - '";
    Error::quoting([text, name, b"'"])
}

fn refused_setting(name: &[u8], why: &str) -> Error {
    let text = b"ERR CONFIG SET failed (possibly related to argument '";
    Error::quoting([text, name, b"') - ", why.as_bytes()])
}

fn dbsize(call: &mut Call<'_>) -> Result<(), Stop> {
    let len = call.engine.keys.len();
    call.reply.integer(len as i64);
    Ok(())
}

fn flushall(call: &mut Call<'_>) -> Result<(), Stop> {
    check_flush(call)?;
    for db in 0..call.engine.keys.databases() {
        call.engine.flush(call.session, db);
    }
    call.engine.invalidate_all(call.session);
    call.reply.ok();
    Ok(())
}

fn flushdb(call: &mut Call<'_>) -> Result<(), Stop> {
    check_flush(call)?;
    call.engine.flush(call.session, call.session.db);
    call.engine.invalidate_all(call.session);
    call.reply.ok();
    Ok(())
}

/// Either way the keys are gone at once, and their memory is freed off the engine's lock.
fn check_flush(call: &Call<'_>) -> Result<(), Error> {
    match *call.args {
        [_] => Ok(()),
        [_, word] if is_word(word, "SYNC") || is_word(word, "ASYNC") => Ok(()),
        _ => Err(Error::SYNTAX),
    }
}

fn info(call: &mut Call<'_>) -> Result<(), Stop> {
    let text = info::text(call.engine, call.session, &call.args[1..]);
    call.reply.verbatim(b"txt", text.as_bytes());
    Ok(())
}

fn lastsave(call: &mut Call<'_>) -> Result<(), Stop> {
    call.reply.integer(call.engine.saved.at.seconds() as i64);
    Ok(())
}

fn lolwut(call: &mut Call<'_>) -> Result<(), Stop> {
    if let [_, word, rest @ ..] = call.args {
        let version = rest.first().and_then(|version| number::parse_i64(version));
        if !is_word(word, "VERSION") || version.is_none() {
            return Err(Error::text("ERR Syntax error. Use: LOLWUT [VERSION <version>]").into());
        }
    }
    let picture = padlock(&mut call.engine.random);
    call.reply.verbatim(b"txt", picture.as_bytes());
    Ok(())
}

/// A padlock, on whose body a beetle walks at random and leaves a darker trace the more often
/// it comes by. No two locks look alike.
fn padlock(random: &mut crate::random::Random) -> String {
    const WIDTH: usize = 29;
    const HEIGHT: usize = 11;
    const SHADES: &[u8] = b" .:-=+*#%@";
    let mut visits = [[0usize; WIDTH]; HEIGHT];
    let (mut x, mut y) = (WIDTH / 2, HEIGHT / 2);
    for _ in 0..WIDTH * HEIGHT * 2 {
        visits[y][x] += 1;
        let step = random.below(4);
        x = if step & 1 == 0 {
            x.saturating_sub(1)
        } else {
            (x + 1).min(WIDTH - 1)
        };
        y = if step & 2 == 0 {
            y.saturating_sub(1)
        } else {
            (y + 1).min(HEIGHT - 1)
        };
    }
    let mut picture = String::new();
    for line in [
        "   .-'''''''''-.",
        "  /  .-------.  \\",
        "  |  |       |  |",
    ] {
        let _ = writeln!(picture, "       {line}");
    }
    let edge = format!(" +{}+\n", "-".repeat(WIDTH));
    picture.push_str(&edge);
    for row in visits {
        picture.push_str(" |");
        for count in row {
            picture.push(char::from(SHADES[count.min(SHADES.len() - 1)]));
        }
        picture.push_str("|\n");
    }
    picture.push_str(&edge);
    let _ = write!(
        picture,
        "\nNo key fits twice, and yours only for a while. khoa ver. {}\n",
        info::VERSION
    );
    picture
}

fn monitor(call: &mut Call<'_>) -> Result<(), Stop> {
    if !std::mem::replace(&mut call.session.monitor, true) {
        call.engine.monitors.push(call.session.id);
    }
    call.reply.ok();
    Ok(())
}

fn role(call: &mut Call<'_>) -> Result<(), Stop> {
    call.reply.array(3);
    call.reply.bulk(b"master");
    call.reply.integer(0);
    call.reply.array(0);
    Ok(())
}

fn save(call: &mut Call<'_>) -> Result<(), Stop> {
    note_saved(call.engine);
    call.reply.ok();
    Ok(())
}

fn shutdown(call: &mut Call<'_>) -> Result<(), Stop> {
    let mut options = call.options(1);
    let (mut save, mut nosave, mut abort) = (false, false, false);
    while let Some(word) = options.next() {
        match () {
            () if is_word(word, "SAVE") => save = true,
            () if is_word(word, "NOSAVE") => nosave = true,
            () if is_word(word, "ABORT") => abort = true,
            () if is_word(word, "NOW") || is_word(word, "FORCE") => {}
            () => return Err(Error::SYNTAX.into()),
        }
    }
    if save && nosave || abort && call.args.len() > 2 {
        return Err(Error::SYNTAX.into());
    }
    if abort {
        return Err(Error::text("ERR No shutdown in progress.").into());
    }
    let control = &call.engine.scripting.control;
    if control.is_busy() {
        if !nosave {
            return Err(control.busy_error().into());
        }
        let _ = control.kill(Killer::Shutdown);
    }
    // The end of the connection is the answer.
    call.engine.shutdown = true;
    call.session.closing = true;
    Ok(())
}

fn slowlog_get(call: &mut Call<'_>) -> Result<(), Stop> {
    const USUAL: usize = 10;
    let count = match *call.args {
        [_, _] => USUAL,
        [_, _, count] => log_count(count)?,
        _ => return Err(call.subcommand_syntax().into()),
    };
    write_log(&call.engine.slowlog, count, call.reply);
    Ok(())
}

fn slowlog_len(call: &mut Call<'_>) -> Result<(), Stop> {
    call.reply.integer(call.engine.slowlog.len() as i64);
    Ok(())
}

fn slowlog_reset(call: &mut Call<'_>) -> Result<(), Stop> {
    call.engine.slowlog.clear();
    call.reply.ok();
    Ok(())
}

fn swapdb(call: &mut Call<'_>) -> Result<(), Stop> {
    if call.engine.config.hot.cluster {
        return Err(Error::text("ERR SWAPDB is not allowed in cluster mode").into());
    }
    let index = |at, text| {
        number::parse_i64(call.arg(at))
            .and_then(|index| i32::try_from(index).ok())
            .ok_or(Error::text(text))
    };
    let one = index(1, "ERR invalid first DB index")?;
    let other = index(2, "ERR invalid second DB index")?;
    let databases = call.engine.keys.databases();
    let place = |index: i32| {
        usize::try_from(index)
            .ok()
            .filter(|&index| index < databases)
            .ok_or(Error::text("ERR DB index is out of range"))
    };
    let (one, other) = (place(one)?, place(other)?);
    if one != other {
        call.engine.trip_swapped(call.session, one, other);
        call.engine.keys.swap(one, other);
        call.engine.waiters.database_changed(one);
        call.engine.waiters.database_changed(other);
    }
    call.reply.ok();
    Ok(())
}

fn time(call: &mut Call<'_>) -> Result<(), Stop> {
    let now = call.engine.keys.now();
    call.reply.array(2);
    for part in [now.seconds(), now.micros() % 1_000_000] {
        call.reply.bulk(itoa::Buffer::new().format(part).as_bytes());
    }
    Ok(())
}

fn wait(call: &mut Call<'_>) -> Result<(), Stop> {
    let replicas = call.int(1)?;
    let until = blocking::parse_timeout_ms(call.arg(2), call.engine.keys.now())?;
    if waited_for(replicas) {
        return Err(in_vain(until, OnTimeout::Integer(0)));
    }
    call.reply.integer(0);
    Ok(())
}

fn waitaof(call: &mut Call<'_>) -> Result<(), Stop> {
    let local = call.int(1)?;
    if !(0..=1).contains(&local) {
        let text = "ERR value is out of range, value must between 0 and 1";
        return Err(Error::text(text).into());
    }
    let replicas = call.int(2).ok().filter(|&replicas| replicas >= 0);
    let replicas = replicas.ok_or(Error::text("ERR value is out of range, must be positive"))?;
    let until = blocking::parse_timeout_ms(call.arg(3), call.engine.keys.now())?;
    if local > 0 {
        return Err(Error::text(
            "ERR WAITAOF cannot be used when numlocal is set but appendonly is disabled.",
        )
        .into());
    }
    if waited_for(replicas) {
        return Err(in_vain(until, OnTimeout::Pair(0, 0)));
    }
    OnTimeout::Pair(0, 0).write(call.reply);
    Ok(())
}

/// Are so many replicas waited for? The references keep but the lower half of the number.
fn waited_for(replicas: i64) -> bool {
    replicas > 0 && replicas as i32 > 0
}

/// A wait for replicas, which only its deadline ends.
fn in_vain(until: Option<crate::clock::Time>, on_timeout: OnTimeout) -> Stop {
    Stop::Wait(Wait {
        keys: Vec::<ByteStr>::new(),
        until,
        on_timeout,
        on_loss: false,
        args: None,
    })
}
