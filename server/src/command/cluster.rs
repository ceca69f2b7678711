//! What cluster clients ask: answers of a server without a cluster, or of one that is all of it.

use std::fmt::Write;

use super::*;
use crate::{
    cluster::{self, SLOTS, check_enabled, keys_in_slot, parse_slot, slot_of},
    command::{
        keys::{ScanOptions, Scanned},
        spec::{Categories, Flags, KeySpec},
    },
    info::hex_id,
};

pub const COMMANDS: &[Command] = &[
    Command {
        name: "asking",
        arity: 1,
        flags: Flags::FAST,
        categories: Categories::CONNECTION,
        group: "cluster",
        since: "3.0.0",
        summary: "Allows the next command to touch a slot that is being imported.",
        handler: asking,
        ..Command::BASE
    },
    Command {
        name: "cluster",
        arity: -2,
        group: "cluster",
        since: "3.0.0",
        summary: "Holds the commands about the cluster.",
        complexity: "that of the subcommand",
        subcommands: &[
            Command {
                name: "cluster|addslots",
                arity: -3,
                flags: Flags::of([Flags::ADMIN, Flags::STALE, Flags::NO_ASYNC_LOADING]),
                group: "cluster",
                since: "3.0.0",
                summary: "Gives slots to this node.",
                complexity: "O(N) where N is the number of slots",
                args: "slot:integer...",
                handler: cluster_addslots,
                ..Command::BASE
            },
            Command {
                name: "cluster|addslotsrange",
                arity: -4,
                flags: Flags::of([Flags::ADMIN, Flags::STALE, Flags::NO_ASYNC_LOADING]),
                group: "cluster",
                since: "7.0.0",
                summary: "Gives ranges of slots to this node.",
                complexity: "O(N) where N is the number of slots",
                args: "range(start-slot:integer end-slot:integer)...",
                handler: cluster_addslotsrange,
                ..Command::BASE
            },
            Command {
                name: "cluster|bumpepoch",
                arity: 2,
                flags: Flags::of([Flags::ADMIN, Flags::STALE, Flags::NO_ASYNC_LOADING]),
                tips: &["nondeterministic_output"],
                group: "cluster",
                since: "3.0.0",
                summary: "Raises the node's configuration epoch.",
                handler: cluster_bumpepoch,
                ..Command::BASE
            },
            Command {
                name: "cluster|cancelslotmigrations",
                arity: 2,
                flags: Flags::of([
                    Flags::ADMIN,
                    Flags::STALE,
                    Flags::NO_ASYNC_LOADING,
                    Flags::ALL_DBS,
                ]),
                group: "cluster",
                since: "9.0.0",
                summary: "Stops the moves of slots that this node began.",
                complexity: "O(N) where N is the number of moves",
                handler: cluster_cancelslotmigrations,
                ..Command::BASE
            },
            Command {
                name: "cluster|count-failure-reports",
                arity: 3,
                flags: Flags::of([Flags::ADMIN, Flags::STALE]),
                tips: &["nondeterministic_output"],
                group: "cluster",
                since: "3.0.0",
                history: &[(
                    "9.0.0",
                    "Counts no more reports once the node is said to have failed.",
                )],
                summary: "Counts the nodes that hold a node for failed.",
                complexity: "O(N) where N is the number of reports",
                args: "node-id:string",
                handler: cluster_count_failure_reports,
                ..Command::BASE
            },
            Command {
                name: "cluster|countkeysinslot",
                arity: 3,
                flags: Flags::STALE,
                group: "cluster",
                since: "3.0.0",
                summary: "Counts the keys in a slot.",
                args: "slot:integer",
                handler: cluster_countkeysinslot,
                ..Command::BASE
            },
            Command {
                name: "cluster|delslots",
                arity: -3,
                flags: Flags::of([Flags::ADMIN, Flags::STALE, Flags::NO_ASYNC_LOADING]),
                group: "cluster",
                since: "3.0.0",
                summary: "Takes slots away from this node.",
                complexity: "O(N) where N is the number of slots",
                args: "slot:integer...",
                handler: cluster_delslots,
                ..Command::BASE
            },
            Command {
                name: "cluster|delslotsrange",
                arity: -4,
                flags: Flags::of([Flags::ADMIN, Flags::STALE, Flags::NO_ASYNC_LOADING]),
                group: "cluster",
                since: "7.0.0",
                summary: "Takes ranges of slots away from this node.",
                complexity: "O(N) where N is the number of slots",
                args: "range(start-slot:integer end-slot:integer)...",
                handler: cluster_delslotsrange,
                ..Command::BASE
            },
            Command {
                name: "cluster|failover",
                arity: -2,
                flags: Flags::of([Flags::ADMIN, Flags::STALE, Flags::NO_ASYNC_LOADING]),
                group: "cluster",
                since: "3.0.0",
                summary: "Makes this replica the primary of its slots.",
                args: "[options<FORCE|TAKEOVER>]",
                handler: cluster_failover,
                ..Command::BASE
            },
            Command {
                name: "cluster|flushslot",
                arity: -3,
                flags: Flags::of([
                    Flags::WRITE,
                    Flags::ADMIN,
                    Flags::NO_ASYNC_LOADING,
                    Flags::ALL_DBS,
                ]),
                categories: Categories::KEYSPACE,
                group: "cluster",
                since: "9.0.0",
                summary: "Deletes all keys of a slot.",
                complexity: "O(N) where N is the number of keys in the slot",
                args: "slot:integer [flush-type<ASYNC|SYNC>]",
                handler: cluster_flushslot,
                ..Command::BASE
            },
            Command {
                name: "cluster|flushslots",
                arity: 2,
                flags: Flags::of([Flags::ADMIN, Flags::STALE, Flags::NO_ASYNC_LOADING]),
                group: "cluster",
                since: "3.0.0",
                summary: "Takes all slots away from this node.",
                handler: cluster_flushslots,
                ..Command::BASE
            },
            Command {
                name: "cluster|forget",
                arity: 3,
                flags: Flags::of([Flags::ADMIN, Flags::STALE, Flags::NO_ASYNC_LOADING]),
                group: "cluster",
                since: "3.0.0",
                summary: "Drops a node from the list of known ones.",
                args: "node-id:string",
                handler: cluster_forget,
                ..Command::BASE
            },
            Command {
                name: "cluster|getkeysinslot",
                arity: 4,
                flags: Flags::STALE,
                tips: &["nondeterministic_output"],
                group: "cluster",
                since: "3.0.0",
                summary: "Returns key names of a slot.",
                complexity: "O(N) where N is the number of names asked for",
                args: "slot:integer count:integer",
                handler: cluster_getkeysinslot,
                ..Command::BASE
            },
            Command {
                name: "cluster|getslotmigrations",
                arity: 2,
                flags: Flags::of([Flags::ADMIN, Flags::STALE, Flags::NO_ASYNC_LOADING]),
                group: "cluster",
                since: "9.0.0",
                summary: "Describes the moves of slots, running and past.",
                complexity: "O(N) where N is the number of moves",
                handler: cluster_getslotmigrations,
                ..Command::BASE
            },
            Command {
                name: "cluster|help",
                arity: 2,
                flags: Flags::of([Flags::LOADING, Flags::STALE]),
                group: "cluster",
                since: "5.0.0",
                summary: "Lists the subcommands with a line about each.",
                handler: cluster_help,
                ..Command::BASE
            },
            Command {
                name: "cluster|info",
                arity: 2,
                flags: Flags::of([Flags::LOADING, Flags::STALE]),
                tips: &["nondeterministic_output"],
                group: "cluster",
                since: "3.0.0",
                summary: "Returns figures about the cluster as this node sees it.",
                handler: cluster_info,
                ..Command::BASE
            },
            Command {
                name: "cluster|keyslot",
                arity: 3,
                flags: Flags::STALE,
                group: "cluster",
                since: "3.0.0",
                summary: "Returns the slot of a key name.",
                complexity: "O(N) where N is the length of the name",
                args: "key:string",
                handler: cluster_keyslot,
                ..Command::BASE
            },
            Command {
                name: "cluster|links",
                arity: 2,
                flags: Flags::STALE,
                tips: &["nondeterministic_output"],
                group: "cluster",
                since: "7.0.0",
                summary: "Describes the connections between this node and the others.",
                complexity: "O(N) where N is the number of nodes",
                handler: cluster_links,
                ..Command::BASE
            },
            Command {
                name: "cluster|meet",
                arity: -4,
                flags: Flags::of([Flags::ADMIN, Flags::STALE, Flags::NO_ASYNC_LOADING]),
                group: "cluster",
                since: "3.0.0",
                history: &[("4.0.0", "Takes the port of the cluster bus.")],
                summary: "Makes this node join another.",
                args: "ip:string port:integer [cluster-bus-port:integer{4.0.0}]",
                handler: cluster_meet,
                ..Command::BASE
            },
            Command {
                name: "cluster|migrateslots",
                arity: -4,
                flags: Flags::of([
                    Flags::ADMIN,
                    Flags::STALE,
                    Flags::NO_ASYNC_LOADING,
                    Flags::ALL_DBS,
                ]),
                group: "cluster",
                since: "9.0.0",
                summary: "Begins to move slots to other nodes.",
                complexity: "O(N) where N is the number of slots",
                args: "migration-group(slotsrange-token=SLOTSRANGE range(start-slot:integer \
                    end-slot:integer)... node-token=NODE node-id:string)...",
                handler: cluster_migrateslots,
                ..Command::BASE
            },
            Command {
                name: "cluster|myid",
                arity: 2,
                flags: Flags::of([Flags::LOADING, Flags::STALE]),
                group: "cluster",
                since: "3.0.0",
                summary: "Returns the id of this node.",
                handler: cluster_myid,
                ..Command::BASE
            },
            Command {
                name: "cluster|myshardid",
                arity: 2,
                flags: Flags::of([Flags::LOADING, Flags::STALE]),
                tips: &["nondeterministic_output"],
                group: "cluster",
                since: "7.2.0",
                summary: "Returns the id of this node's shard.",
                handler: cluster_myshardid,
                ..Command::BASE
            },
            Command {
                name: "cluster|nodes",
                arity: 2,
                flags: Flags::of([Flags::LOADING, Flags::STALE]),
                tips: &["nondeterministic_output"],
                group: "cluster",
                since: "3.0.0",
                summary: "Returns a line for every node that this one knows.",
                complexity: "O(N) where N is the number of nodes",
                handler: cluster_nodes,
                ..Command::BASE
            },
            Command {
                name: "cluster|replicas",
                arity: 3,
                flags: Flags::of([Flags::ADMIN, Flags::STALE]),
                tips: &["nondeterministic_output"],
                group: "cluster",
                since: "5.0.0",
                summary: "Returns a line for every replica of a primary.",
                complexity: "O(N) where N is the number of replicas",
                args: "node-id:string",
                handler: cluster_replicas,
                ..Command::BASE
            },
            Command {
                name: "cluster|replicate",
                arity: -3,
                flags: Flags::of([Flags::ADMIN, Flags::STALE, Flags::NO_ASYNC_LOADING]),
                group: "cluster",
                since: "3.0.0",
                history: &[("9.0.0", "Makes a replica stand alone with `NO ONE`.")],
                summary: "Makes this node a replica of another.",
                args: "args<node-id:string|no-one(NO ONE){9.0.0}>",
                handler: cluster_replicate,
                ..Command::BASE
            },
            Command {
                name: "cluster|reset",
                arity: -2,
                flags: Flags::of([Flags::ADMIN, Flags::NOSCRIPT, Flags::STALE]),
                group: "cluster",
                since: "3.0.0",
                summary: "Makes this node forget the cluster.",
                complexity: "O(N) where N is the number of nodes, plus the keys deleted",
                args: "[reset-type<HARD|SOFT>]",
                handler: cluster_reset,
                ..Command::BASE
            },
            Command {
                name: "cluster|saveconfig",
                arity: 2,
                flags: Flags::of([Flags::ADMIN, Flags::STALE, Flags::NO_ASYNC_LOADING]),
                group: "cluster",
                since: "3.0.0",
                summary: "Writes this node's view of the cluster to disk.",
                handler: cluster_saveconfig,
                ..Command::BASE
            },
            Command {
                name: "cluster|set-config-epoch",
                arity: 3,
                flags: Flags::of([Flags::ADMIN, Flags::STALE, Flags::NO_ASYNC_LOADING]),
                group: "cluster",
                since: "3.0.0",
                summary: "Sets the configuration epoch of a new node.",
                args: "config-epoch:integer",
                handler: cluster_set_config_epoch,
                ..Command::BASE
            },
            Command {
                name: "cluster|setslot",
                arity: -4,
                flags: Flags::of([Flags::ADMIN, Flags::STALE, Flags::NO_ASYNC_LOADING]),
                group: "cluster",
                since: "3.0.0",
                history: &[("8.0.0", "Knows `TIMEOUT`.")],
                summary: "Binds a slot to a node, or marks it as moving.",
                args: "slot:integer subcommand<IMPORTING@importing:string{=node-id}|\
                       MIGRATING@migrating:string{=node-id}|NODE@node:string{=node-id}|STABLE> \
                       [TIMEOUT@timeout:integer{8.0.0}]",
                handler: cluster_setslot,
                ..Command::BASE
            },
            Command {
                name: "cluster|shards",
                arity: 2,
                flags: Flags::of([Flags::LOADING, Flags::STALE]),
                tips: &["nondeterministic_output"],
                group: "cluster",
                since: "7.0.0",
                history: &[(
                    "9.1.0",
                    "Tells the `id` of a shard and the `availability-zone` of a node.",
                )],
                summary: "Returns which nodes serve which slots, by shard.",
                complexity: "O(N) where N is the number of nodes",
                handler: cluster_shards,
                ..Command::BASE
            },
            Command {
                name: "cluster|slaves",
                arity: 3,
                flags: Flags::of([Flags::ADMIN, Flags::STALE]),
                tips: &["nondeterministic_output"],
                group: "cluster",
                since: "3.0.0",
                deprecated: Some(("5.0.0", "`CLUSTER REPLICAS`")),
                summary: "Returns a line for every replica of a primary, under its old name.",
                complexity: "O(N) where N is the number of replicas",
                args: "node-id:string",
                handler: cluster_slaves,
                ..Command::BASE
            },
            Command {
                name: "cluster|slot-stats",
                arity: -4,
                flags: Flags::of([Flags::LOADING, Flags::STALE]),
                tips: &["nondeterministic_output", "request_policy:all_shards"],
                group: "cluster",
                since: "8.0.0",
                summary: "Returns the figures of slots.",
                complexity: "O(N) where N is the number of slots, O(N*log(N)) when ordered",
                args: "filter<SLOTSRANGE@slotsrange(start-slot:integer \
                    end-slot:integer)|ORDERBY@orderby(metric:string [LIMIT@limit:integer] \
                    [order<ASC|DESC>])>",
                handler: cluster_slot_stats,
                ..Command::BASE
            },
            Command {
                name: "cluster|slots",
                arity: 2,
                flags: Flags::of([Flags::LOADING, Flags::STALE]),
                tips: &["nondeterministic_output"],
                group: "cluster",
                since: "3.0.0",
                history: &[
                    ("4.0.0", "Tells the ids of nodes."),
                    ("7.0.0", "Tells more of how a node is reached."),
                    ("9.1.0", "Tells the `availability-zone` of a node."),
                ],
                summary: "Returns which nodes serve which ranges of slots.",
                complexity: "O(N) where N is the number of nodes",
                handler: cluster_slots,
                ..Command::BASE
            },
            Command {
                name: "cluster|syncslots",
                arity: -3,
                flags: Flags::of([Flags::ADMIN, Flags::STALE, Flags::NO_ASYNC_LOADING]),
                group: "cluster",
                since: "9.0.0",
                internal: true,
                summary: "Moves slots between nodes, sent by the nodes themselves.",
                complexity: "that of the step",
                handler: cluster_syncslots,
                ..Command::BASE
            },
        ],
        ..Command::BASE
    },
    Command {
        name: "clusterscan",
        arity: -2,
        flags: Flags::READONLY,
        categories: Categories::KEYSPACE,
        keys: &[KeySpec::one("not_key", 1)],
        tips: &[
            "nondeterministic_output",
            "request_policy:special",
            "response_policy:special",
        ],
        group: "cluster",
        since: "9.1.0",
        summary: "Walks over the key names of the whole cluster, some with each call.",
        complexity: "O(N) where N is the number of names returned",
        args: "cursor:string [MATCH@match-pattern:pattern] [COUNT@count:integer] \
            [TYPE@type:string] [SLOT@slot:integer]",
        handler: clusterscan,
        ..Command::BASE
    },
    Command {
        name: "readonly",
        arity: 1,
        flags: Flags::of([Flags::LOADING, Flags::STALE, Flags::FAST]),
        categories: Categories::CONNECTION,
        group: "cluster",
        since: "3.0.0",
        summary: "Allows reads on this replica of a cluster.",
        handler: readonly,
        ..Command::BASE
    },
    Command {
        name: "readwrite",
        arity: 1,
        flags: Flags::of([Flags::LOADING, Flags::STALE, Flags::FAST]),
        categories: Categories::CONNECTION,
        group: "cluster",
        since: "3.0.0",
        summary: "Ends the permission to read on this replica of a cluster.",
        handler: readwrite,
        ..Command::BASE
    },
];

fn asking(call: &mut Call<'_>) -> Result<(), Stop> {
    check_enabled(call)?;
    call.reply.ok();
    Ok(())
}

fn cluster_addslots(call: &mut Call<'_>) -> Result<(), Stop> {
    check_enabled(call)?;
    let mut slots = Vec::new();
    for arg in &call.args[2..] {
        slots.push(parse_slot(arg)?);
    }
    Err(slot_is_taken(slots[0]).into())
}

fn slot_is_taken(slot: u16) -> Error {
    Error::owned(format!("ERR Slot {slot} is already busy"))
}

fn cluster_addslotsrange(call: &mut Call<'_>) -> Result<(), Stop> {
    let ranges = parse_ranges(call)?;
    Err(slot_is_taken(ranges[0].0).into())
}

fn parse_ranges(call: &Call<'_>) -> Result<Vec<(u16, u16)>, Error> {
    check_enabled(call)?;
    let args = &call.args[2..];
    if !args.len().is_multiple_of(2) {
        return Err(call.wrong_arity());
    }
    let mut ranges = Vec::new();
    for pair in args.chunks(2) {
        let (first, last) = (parse_slot(pair[0])?, parse_slot(pair[1])?);
        if first > last {
            return Err(Error::owned(format!(
                "ERR start slot number {first} is greater than end slot number {last}"
            )));
        }
        ranges.push((first, last));
    }
    Ok(ranges)
}

fn cluster_bumpepoch(call: &mut Call<'_>) -> Result<(), Stop> {
    check_enabled(call)?;
    call.engine.cluster_epoch += 1;
    let text = format!("BUMPED {}", call.engine.cluster_epoch);
    call.reply.simple(&text);
    Ok(())
}

fn cluster_cancelslotmigrations(call: &mut Call<'_>) -> Result<(), Stop> {
    check_enabled(call)?;
    Err(Error::text("ERR No migrations ongoing").into())
}

fn cluster_count_failure_reports(call: &mut Call<'_>) -> Result<(), Stop> {
    check_node(call, 2)?;
    call.reply.integer(0);
    Ok(())
}

/// The argument must be this node's id; there is no other.
fn check_node(call: &Call<'_>, index: usize) -> Result<(), Error> {
    check_enabled(call)?;
    let name = call.arg(index);
    if name == call.engine.identity.run_id.as_bytes() {
        return Ok(());
    }
    Err(Error::quoting([b"ERR Unknown node ", name]))
}

fn cluster_countkeysinslot(call: &mut Call<'_>) -> Result<(), Stop> {
    check_enabled(call)?;
    let slot = valid_slot(call.int(2)?).ok_or(Error::text("ERR Invalid slot"))?;
    let count = call.engine.keys.slots().map_or(0, |slots| slots.len(slot));
    call.reply.integer(count as i64);
    Ok(())
}

fn valid_slot(number: i64) -> Option<u16> {
    u16::try_from(number).ok().filter(|&slot| slot < SLOTS)
}

/// Slots are neither given away nor taken: there is nobody to have them instead.
fn stays_whole() -> Error {
    Error::text("ERR a cluster of one node keeps all of its slots")
}

fn cluster_delslots(call: &mut Call<'_>) -> Result<(), Stop> {
    check_enabled(call)?;
    for arg in &call.args[2..] {
        parse_slot(arg)?;
    }
    Err(stays_whole().into())
}

fn cluster_delslotsrange(call: &mut Call<'_>) -> Result<(), Stop> {
    parse_ranges(call)?;
    Err(stays_whole().into())
}

fn cluster_failover(call: &mut Call<'_>) -> Result<(), Stop> {
    check_enabled(call)?;
    match *call.args {
        [_, _] => {}
        [_, _, word] if is_word(word, "FORCE") || is_word(word, "TAKEOVER") => {}
        _ => return Err(Error::SYNTAX.into()),
    }
    Err(Error::text("ERR You should send CLUSTER FAILOVER to a replica").into())
}

fn cluster_flushslot(call: &mut Call<'_>) -> Result<(), Stop> {
    check_enabled(call)?;
    let slot = parse_slot(call.arg(2))?;
    let when = call.options(3).rest();
    if !matches!(when, [])
        && !matches!(when, [word] if is_word(word, "SYNC") || is_word(word, "ASYNC"))
    {
        return Err(Error::SYNTAX.into());
    }
    let keys: Vec<Vec<u8>> = keys_in_slot(call.engine, slot, usize::MAX)
        .into_iter()
        .map(<[u8]>::to_vec)
        .collect();
    for key in keys {
        call.engine
            .keys
            .delete(&key, crate::keyspace::Event::generic("del"));
    }
    call.reply.ok();
    Ok(())
}

fn cluster_flushslots(call: &mut Call<'_>) -> Result<(), Stop> {
    check_enabled(call)?;
    if !call.engine.keys.is_empty() {
        let text = "ERR DB must be empty to perform CLUSTER FLUSHSLOTS.";
        return Err(Error::text(text).into());
    }
    Err(stays_whole().into())
}

fn cluster_forget(call: &mut Call<'_>) -> Result<(), Stop> {
    check_node(call, 2)?;
    Err(Error::text("ERR I tried hard but I can't forget myself...").into())
}

fn cluster_getkeysinslot(call: &mut Call<'_>) -> Result<(), Stop> {
    check_enabled(call)?;
    let (slot, count) = (call.int(2)?, call.int(3)?);
    let (Some(slot), Ok(count)) = (valid_slot(slot), usize::try_from(count)) else {
        return Err(Error::text("ERR Invalid slot or number of keys").into());
    };
    let keys = keys_in_slot(call.engine, slot, count);
    call.reply.array(keys.len());
    for key in keys {
        call.reply.bulk(key);
    }
    Ok(())
}

fn cluster_getslotmigrations(call: &mut Call<'_>) -> Result<(), Stop> {
    nothing(call)
}

fn nothing(call: &mut Call<'_>) -> Result<(), Stop> {
    check_enabled(call)?;
    call.reply.array(0);
    Ok(())
}

fn cluster_help(call: &mut Call<'_>) -> Result<(), Stop> {
    check_enabled(call)?;
    help::help(call)
}

fn cluster_info(call: &mut Call<'_>) -> Result<(), Stop> {
    check_enabled(call)?;
    let epoch = call.engine.cluster_epoch;
    let mut text = String::new();
    for (name, value) in [
        ("cluster_slots_assigned", u64::from(SLOTS)),
        ("cluster_slots_ok", u64::from(SLOTS)),
        ("cluster_slots_pfail", 0),
        ("cluster_slots_fail", 0),
        ("cluster_nodes_pfail", 0),
        ("cluster_nodes_fail", 0),
        ("cluster_known_nodes", 1),
        ("cluster_size", 1),
        ("cluster_current_epoch", epoch),
        ("cluster_my_epoch", epoch),
        ("cluster_stats_messages_sent", 0),
        ("cluster_stats_messages_received", 0),
        ("total_cluster_links_buffer_limit_exceeded", 0),
    ] {
        let _ = write!(text, "{name}:{value}\r\n");
    }
    let text = format!("cluster_state:ok\r\n{text}");
    call.reply.verbatim(b"txt", text.as_bytes());
    Ok(())
}

fn cluster_keyslot(call: &mut Call<'_>) -> Result<(), Stop> {
    call.reply.integer(slot_of(call.arg(2)).into());
    Ok(())
}

fn cluster_links(call: &mut Call<'_>) -> Result<(), Stop> {
    nothing(call)
}

fn cluster_meet(call: &mut Call<'_>) -> Result<(), Stop> {
    check_enabled(call)?;
    let (host, port) = (call.arg(2), call.arg(3));
    if number::parse_i64(port).is_none() {
        return Err(Error::quoting([b"ERR Invalid base port specified: ", port]).into());
    }
    Err(Error::quoting([b"ERR Invalid node address specified: ", host, b":", port]).into())
}

fn cluster_migrateslots(call: &mut Call<'_>) -> Result<(), Stop> {
    check_enabled(call)?;
    Err(stays_whole().into())
}

fn cluster_myid(call: &mut Call<'_>) -> Result<(), Stop> {
    check_enabled(call)?;
    call.reply.bulk(call.engine.identity.run_id.as_bytes());
    Ok(())
}

fn cluster_myshardid(call: &mut Call<'_>) -> Result<(), Stop> {
    check_enabled(call)?;
    call.reply
        .bulk(call.engine.identity.replication_id.as_bytes());
    Ok(())
}

fn cluster_nodes(call: &mut Call<'_>) -> Result<(), Stop> {
    check_enabled(call)?;
    let engine = &*call.engine;
    let (ip, port) = cluster::endpoint(engine);
    let host = match engine.config.get("cluster-announce-hostname") {
        "" => String::new(),
        host => format!(",{host}"),
    };
    let text = format!(
        "{} {ip}:{port}@{}{host} myself,master - 0 0 {} connected 0-{}\n",
        engine.identity.run_id,
        cluster::bus_port(engine),
        engine.cluster_epoch,
        SLOTS - 1,
    );
    call.reply.verbatim(b"txt", text.as_bytes());
    Ok(())
}

fn cluster_replicas(call: &mut Call<'_>) -> Result<(), Stop> {
    check_node(call, 2)?;
    call.reply.array(0);
    Ok(())
}

fn cluster_replicate(call: &mut Call<'_>) -> Result<(), Stop> {
    check_enabled(call)?;
    if let [_, _, no, one] = *call.args
        && is_word(no, "NO")
        && is_word(one, "ONE")
    {
        call.reply.ok();
        return Ok(());
    }
    check_node(call, 2)?;
    Err(Error::text("ERR Can't replicate myself").into())
}

fn cluster_reset(call: &mut Call<'_>) -> Result<(), Stop> {
    check_enabled(call)?;
    let hard = match *call.args {
        [_, _] => false,
        [_, _, word] if is_word(word, "SOFT") => false,
        [_, _, word] if is_word(word, "HARD") => true,
        _ => return Err(Error::SYNTAX.into()),
    };
    if !call.engine.keys.is_empty() {
        let text = "ERR CLUSTER RESET can't be called with master nodes containing keys";
        return Err(Error::text(text).into());
    }
    if hard {
        call.engine.identity.run_id = hex_id(&mut call.engine.random);
        call.engine.cluster_epoch = 0;
    }
    call.reply.ok();
    Ok(())
}

fn cluster_saveconfig(call: &mut Call<'_>) -> Result<(), Stop> {
    check_enabled(call)?;
    call.reply.ok();
    Ok(())
}

fn cluster_set_config_epoch(call: &mut Call<'_>) -> Result<(), Stop> {
    check_enabled(call)?;
    let epoch = call.int(2)?;
    let Ok(epoch) = u64::try_from(epoch) else {
        return Err(Error::owned(format!("ERR Invalid config epoch specified: {epoch}")).into());
    };
    if call.engine.cluster_epoch != 0 {
        return Err(Error::text("ERR Node config epoch is already non-zero").into());
    }
    call.engine.cluster_epoch = epoch;
    call.reply.ok();
    Ok(())
}

fn cluster_setslot(call: &mut Call<'_>) -> Result<(), Stop> {
    check_enabled(call)?;
    let slot = parse_slot(call.arg(2))?;
    match *call.args {
        [_, _, _, word] if is_word(word, "STABLE") => {}
        [_, _, _, word, name] if is_word(word, "MIGRATING") => {
            let text = [b"ERR I don't know about node ", name].concat();
            return Err(Error::owned(text).into());
        }
        [_, _, _, word, _] if is_word(word, "IMPORTING") => {
            let text = format!("ERR I'm already the owner of hash slot {slot}");
            return Err(Error::owned(text).into());
        }
        [_, _, _, word, _] if is_word(word, "NODE") => check_node(call, 4)?,
        _ => {
            return Err(Error::text(
                "ERR Invalid CLUSTER SETSLOT action or number of arguments. Try CLUSTER HELP",
            )
            .into());
        }
    }
    call.reply.ok();
    Ok(())
}

fn cluster_shards(call: &mut Call<'_>) -> Result<(), Stop> {
    check_enabled(call)?;
    let (ip, port) = cluster::endpoint(call.engine);
    let (engine, identity) = (&*call.engine, &call.engine.identity);
    let host = engine.config.get("cluster-announce-hostname");
    let reply = &mut *call.reply;
    reply.array(1);
    reply.map(3);
    reply.bulk(b"slots");
    reply.array(2);
    reply.integer(0);
    reply.integer(i64::from(SLOTS) - 1);
    reply.bulk(b"nodes");
    reply.array(1);
    reply.map(7 + usize::from(!host.is_empty()));
    let pair = |reply: &mut dyn Reply, name: &str, value: &str| {
        reply.bulk(name.as_bytes());
        reply.bulk(value.as_bytes());
    };
    pair(reply, "id", &identity.run_id);
    reply.bulk(b"port");
    reply.integer(port);
    pair(reply, "ip", ip);
    let endpoint = cluster::preferred_endpoint(engine).unwrap_or_default();
    pair(reply, "endpoint", endpoint);
    if !host.is_empty() {
        pair(reply, "hostname", host);
    }
    pair(reply, "role", "master");
    reply.bulk(b"replication-offset");
    reply.integer(0);
    pair(reply, "health", "online");
    pair(reply, "id", &identity.replication_id);
    Ok(())
}

fn cluster_slaves(call: &mut Call<'_>) -> Result<(), Stop> {
    cluster_replicas(call)
}

fn cluster_slot_stats(call: &mut Call<'_>) -> Result<(), Stop> {
    check_enabled(call)?;
    let mut slots = match *call.args {
        [_, _, word, first, last] if is_word(word, "SLOTSRANGE") => {
            let (first, last) = (parse_slot(first)?, parse_slot(last)?);
            if first > last {
                return Err(Error::owned(format!(
                    "ERR Start slot number {first} is greater than end slot number {last}"
                ))
                .into());
            }
            let counts = slot_counts(call.engine);
            (first..=last)
                .map(|slot| (slot, counts[usize::from(slot)]))
                .collect()
        }
        [_, _, word, ..] if is_word(word, "ORDERBY") => ordered_slots(call)?,
        _ => return Err(Error::SYNTAX.into()),
    };
    let reply = &mut *call.reply;
    reply.array(slots.len());
    for (slot, count) in slots.drain(..) {
        reply.array(2);
        reply.integer(slot.into());
        reply.map(1);
        reply.bulk(b"key-count");
        reply.integer(count);
    }
    Ok(())
}

fn slot_counts(engine: &Engine) -> Vec<i64> {
    let slots = engine.keys.slots();
    let count = |slot| slots.map_or(0, |slots| slots.len(slot) as i64);
    (0..SLOTS).map(count).collect()
}

/// `ORDERBY key-count [LIMIT n] [ASC|DESC]`: the fullest slots first unless asked otherwise.
fn ordered_slots(call: &Call<'_>) -> Result<Vec<(u16, i64)>, Error> {
    let mut options = call.options(3);
    if !options.take("KEY-COUNT") {
        return Err(Error::text("ERR Unrecognized sort metric for ORDERBY."));
    }
    let (mut limit, mut ascending) = (usize::from(SLOTS), false);
    while let Some(word) = options.next() {
        match () {
            () if is_word(word, "ASC") => ascending = true,
            () if is_word(word, "DESC") => ascending = false,
            () if is_word(word, "LIMIT") => {
                limit = usize::try_from(options.int()?)
                    .ok()
                    .filter(|limit| (1..=usize::from(SLOTS)).contains(limit))
                    .ok_or(Error::text(
                        "ERR Limit has to lie in between 1 and 16384 (maximum number of slots).",
                    ))?;
            }
            () => return Err(Error::SYNTAX),
        }
    }
    let counts = slot_counts(call.engine);
    let mut slots: Vec<(u16, i64)> = (0..).zip(counts).collect();
    slots.sort_by_key(|&(slot, count)| (if ascending { count } else { -count }, slot));
    slots.truncate(limit);
    Ok(slots)
}

fn cluster_slots(call: &mut Call<'_>) -> Result<(), Stop> {
    check_enabled(call)?;
    let engine = &*call.engine;
    let reply = &mut *call.reply;
    reply.array(1);
    reply.array(3);
    reply.integer(0);
    reply.integer(i64::from(SLOTS) - 1);
    reply.array(4);
    match cluster::preferred_endpoint(engine) {
        Some(name) => reply.bulk(name.as_bytes()),
        None => reply.null(),
    }
    reply.integer(cluster::endpoint(engine).1);
    reply.bulk(engine.identity.run_id.as_bytes());
    let others = cluster::other_endpoints(engine);
    reply.map(others.len());
    for (kind, name) in others {
        reply.bulk(kind.as_bytes());
        reply.bulk(name.as_bytes());
    }
    Ok(())
}

fn cluster_syncslots(call: &mut Call<'_>) -> Result<(), Stop> {
    check_enabled(call)?;
    Err(Error::SYNTAX.into())
}

/// The cursor tells where it stands in this node's keys, and, by a tag that hashes to it, the slot
/// by which a client finds the node.
fn clusterscan(call: &mut Call<'_>) -> Result<(), Stop> {
    const TAG: &str = "{06S}";
    check_enabled(call)?;
    let cursor = std::str::from_utf8(call.arg(1)).unwrap_or_default();
    let place = cursor.split('-').next().unwrap_or_default();
    let place = number::parse_u64(place.as_bytes()).ok_or(Error::text("ERR Invalid cursor"))?;
    let (mut others, mut slot, mut options) = (Vec::new(), None, call.options(2));
    while let Some(word) = options.next() {
        if is_word(word, "SLOT") {
            slot = Some(parse_slot(options.value()?)?);
        } else {
            others.push(word);
        }
    }
    let options = ScanOptions::parse(Options { rest: &others }, Scanned::Keys)?;
    let mut found: Vec<Vec<u8>> = Vec::new();
    let next = call.engine.keys.scan(place, options.count, |entry| {
        let right_type = options
            .type_name
            .is_none_or(|name| entry.value.type_name() == name);
        let right_slot = slot.is_none_or(|slot| slot_of(entry.key()) == slot);
        if right_type && right_slot && options.wants(entry.key()) {
            found.push(entry.key().to_vec());
        }
    });
    let next = if next == 0 {
        "0".to_owned()
    } else {
        format!("{next}-{TAG}-0")
    };
    call.reply.array(2);
    call.reply.bulk(next.as_bytes());
    call.reply.array(found.len());
    for key in found {
        call.reply.bulk(&key);
    }
    Ok(())
}

fn readonly(call: &mut Call<'_>) -> Result<(), Stop> {
    call.reply.ok();
    Ok(())
}

fn readwrite(call: &mut Call<'_>) -> Result<(), Stop> {
    call.reply.ok();
    Ok(())
}
