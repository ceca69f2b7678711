//! Replication, from a server that has no part in it: the answers of a lone primary.

use super::*;
use crate::{command::spec::Flags, info::hex_id};

pub const COMMANDS: &[Command] = &[
    Command {
        name: "failover",
        arity: -1,
        flags: Flags::of([Flags::ADMIN, Flags::NOSCRIPT, Flags::STALE]),
        group: "server",
        since: "6.2.0",
        summary: "Hands the primary's role over to a replica.",
        args: "[TO@target(host:string port:integer [FORCE])] [ABORT] \
            [TIMEOUT@milliseconds:integer]",
        handler: failover,
        ..Command::BASE
    },
    Command {
        name: "psync",
        arity: -3,
        flags: Flags::of([
            Flags::ADMIN,
            Flags::NOSCRIPT,
            Flags::NO_ASYNC_LOADING,
            Flags::NO_MULTI,
        ]),
        group: "server",
        since: "2.8.0",
        summary: "Begins or resumes replication, sent by a replica.",
        complexity: "",
        args: "replicationid:string offset:integer",
        handler: psync,
        ..Command::BASE
    },
    Command {
        name: "replconf",
        arity: -1,
        flags: Flags::of([
            Flags::ADMIN,
            Flags::NOSCRIPT,
            Flags::LOADING,
            Flags::STALE,
            Flags::ALLOW_BUSY,
        ]),
        group: "server",
        since: "3.0.0",
        internal: true,
        summary: "Sets up replication, sent by a replica.",
        handler: replconf,
        ..Command::BASE
    },
    Command {
        name: "replicaof",
        arity: 3,
        flags: Flags::of([
            Flags::ADMIN,
            Flags::NOSCRIPT,
            Flags::STALE,
            Flags::NO_ASYNC_LOADING,
        ]),
        group: "server",
        since: "5.0.0",
        summary: "Makes the server a replica of another, or a primary again.",
        args: "args<host-port(host:string port:integer)|no-one(NO ONE)>",
        handler: replicaof,
        ..Command::BASE
    },
    Command {
        name: "slaveof",
        arity: 3,
        flags: Flags::of([
            Flags::ADMIN,
            Flags::NOSCRIPT,
            Flags::STALE,
            Flags::NO_ASYNC_LOADING,
        ]),
        group: "server",
        deprecated: Some(("5.0.0", "`REPLICAOF`")),
        summary: "Makes the server a replica of another, under its old name.",
        args: "args<host-port(host:string port:integer)|no-one(NO ONE)>",
        handler: slaveof,
        ..Command::BASE
    },
    Command {
        name: "sync",
        arity: 1,
        flags: Flags::of([
            Flags::ADMIN,
            Flags::NOSCRIPT,
            Flags::NO_ASYNC_LOADING,
            Flags::NO_MULTI,
        ]),
        group: "server",
        summary: "Begins replication in its oldest form, sent by a replica.",
        complexity: "",
        handler: sync,
        ..Command::BASE
    },
];

/// What any attempt to replicate gets.
const NOT_SERVED: Error = Error::text("ERR replication is not served");

fn failover(call: &mut Call<'_>) -> Result<(), Stop> {
    if call.engine.config.hot.cluster {
        return Err(Error::text(
            "ERR FAILOVER not allowed in cluster mode. Use CLUSTER FAILOVER command instead.",
        )
        .into());
    }
    let mut options = call.options(1);
    while let Some(word) = options.next() {
        if is_word(word, "TO") && options.len() >= 2 {
            options.next();
            options.int()?;
        } else if is_word(word, "TIMEOUT") && !options.is_empty() {
            if options.int()? <= 0 {
                let text = "ERR FAILOVER timeout must be greater than 0";
                return Err(Error::text(text).into());
            }
        } else if is_word(word, "ABORT") {
            return Err(Error::text("ERR No failover in progress.").into());
        } else if !is_word(word, "FORCE") {
            return Err(Error::SYNTAX.into());
        }
    }
    Err(Error::text("ERR FAILOVER requires connected replicas.").into())
}

fn psync(call: &mut Call<'_>) -> Result<(), Stop> {
    call.int(2)?;
    Err(NOT_SERVED.into())
}

fn replconf(call: &mut Call<'_>) -> Result<(), Stop> {
    let pairs = &call.args[1..];
    if !pairs.len().is_multiple_of(2) {
        return Err(Error::SYNTAX.into());
    }
    for pair in pairs.chunks(2) {
        let (name, value) = (pair[0], pair[1]);
        if is_word(name, "LISTENING-PORT") || is_word(name, "RDB-ONLY") {
            number::parse_i64(value).ok_or(Error::NOT_AN_INTEGER)?;
        } else if !is_word(name, "CAPA") && !is_word(name, "IP-ADDRESS") {
            return Err(Error::quoting([b"ERR Unrecognized REPLCONF option: ", name]).into());
        }
    }
    call.reply.ok();
    Ok(())
}

fn replicaof(call: &mut Call<'_>) -> Result<(), Stop> {
    let (host, port) = (call.arg(1), call.arg(2));
    if call.engine.config.hot.cluster {
        let text = "ERR REPLICAOF not allowed in cluster mode.";
        return Err(Error::text(text).into());
    }
    if is_word(host, "NO") && is_word(port, "ONE") {
        // Whoever stops following starts a history of its own.
        call.engine.identity.replication_id = hex_id(&mut call.engine.random);
        call.reply.ok();
        return Ok(());
    }
    match number::parse_i64(port) {
        Some(0..=65535) => Err(NOT_SERVED.into()),
        _ => Err(Error::text("ERR Invalid master port").into()),
    }
}

fn slaveof(call: &mut Call<'_>) -> Result<(), Stop> {
    replicaof(call)
}

fn sync(_call: &mut Call<'_>) -> Result<(), Stop> {
    Err(NOT_SERVED.into())
}
