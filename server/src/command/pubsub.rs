//! Publish and subscribe: channels by name, by pattern, and sharded ones.

use super::*;
use crate::{
    bytestr::ByteStr,
    command::spec::{Flags, KeySpec},
    glob,
    pubsub::Channels,
};

const SENDS: Flags = Flags::of([
    Flags::PUBSUB,
    Flags::LOADING,
    Flags::STALE,
    Flags::FAST,
    Flags::MAY_REPLICATE,
]);

pub const COMMANDS: &[Command] = &[
    Command {
        name: "psubscribe",
        arity: -2,
        flags: Flags::of([Flags::PUBSUB, Flags::NOSCRIPT, Flags::LOADING, Flags::STALE]),
        group: "pubsub",
        since: "2.0.0",
        summary: "Listens to the channels that match patterns.",
        complexity: "O(N) where N is the number of patterns",
        args: "pattern:pattern...",
        handler: psubscribe,
        ..Command::BASE
    },
    Command {
        name: "publish",
        arity: 3,
        flags: SENDS,
        group: "pubsub",
        since: "2.0.0",
        summary: "Sends a message to a channel.",
        complexity: "O(N+M) where N is the channel's subscribers and M all patterns",
        args: "channel:string message:string",
        handler: publish,
        ..Command::BASE
    },
    Command {
        name: "pubsub",
        arity: -2,
        group: "pubsub",
        since: "2.8.0",
        summary: "Holds the commands that look at subscriptions.",
        complexity: "that of the subcommand",
        subcommands: &[
            Command {
                name: "pubsub|channels",
                arity: -2,
                flags: Flags::of([Flags::PUBSUB, Flags::LOADING, Flags::STALE]),
                group: "pubsub",
                since: "2.8.0",
                summary: "Returns the channels that have subscribers.",
                complexity: "O(N) where N is the number of active channels",
                args: "[pattern:pattern]",
                handler: pubsub_channels,
                ..Command::BASE
            },
            Command {
                name: "pubsub|help",
                arity: 2,
                flags: Flags::of([Flags::LOADING, Flags::STALE]),
                group: "pubsub",
                since: "6.2.0",
                summary: "Lists the subcommands with a line about each.",
                handler: help::help,
                ..Command::BASE
            },
            Command {
                name: "pubsub|numpat",
                arity: 2,
                flags: Flags::of([Flags::PUBSUB, Flags::LOADING, Flags::STALE]),
                group: "pubsub",
                since: "2.8.0",
                summary: "Counts the patterns subscribed to.",
                handler: pubsub_numpat,
                ..Command::BASE
            },
            Command {
                name: "pubsub|numsub",
                arity: -2,
                flags: Flags::of([Flags::PUBSUB, Flags::LOADING, Flags::STALE]),
                group: "pubsub",
                since: "2.8.0",
                summary: "Counts the subscribers of each given channel.",
                complexity: "O(N) where N is the number of channels asked for",
                args: "[channel:string...]",
                handler: pubsub_numsub,
                ..Command::BASE
            },
            Command {
                name: "pubsub|shardchannels",
                arity: -2,
                flags: Flags::of([Flags::PUBSUB, Flags::LOADING, Flags::STALE]),
                group: "pubsub",
                since: "7.0.0",
                summary: "Returns the shard channels that have subscribers.",
                complexity: "O(N) where N is the number of active shard channels",
                args: "[pattern:pattern]",
                handler: pubsub_shardchannels,
                ..Command::BASE
            },
            Command {
                name: "pubsub|shardnumsub",
                arity: -2,
                flags: Flags::of([Flags::PUBSUB, Flags::LOADING, Flags::STALE]),
                group: "pubsub",
                since: "7.0.0",
                summary: "Counts the subscribers of each given shard channel.",
                complexity: "O(N) where N is the number of channels asked for",
                args: "[shardchannel:string...]",
                handler: pubsub_shardnumsub,
                ..Command::BASE
            },
        ],
        ..Command::BASE
    },
    Command {
        name: "punsubscribe",
        arity: -1,
        flags: Flags::of([Flags::PUBSUB, Flags::NOSCRIPT, Flags::LOADING, Flags::STALE]),
        group: "pubsub",
        since: "2.0.0",
        summary: "Stops listening to patterns, to all when none is given.",
        complexity: "O(N) where N is the number of patterns",
        args: "[pattern:pattern...]",
        handler: punsubscribe,
        ..Command::BASE
    },
    Command {
        name: "spublish",
        arity: 3,
        flags: SENDS,
        keys: &[KeySpec::one("not_key", 1)],
        group: "pubsub",
        since: "7.0.0",
        summary: "Sends a message to a shard channel.",
        complexity: "O(N) where N is the number of subscribers",
        args: "shardchannel:string message:string",
        handler: spublish,
        ..Command::BASE
    },
    Command {
        name: "ssubscribe",
        arity: -2,
        flags: Flags::of([Flags::PUBSUB, Flags::NOSCRIPT, Flags::LOADING, Flags::STALE]),
        keys: &[KeySpec::range("not_key", 1, -1, 1)],
        group: "pubsub",
        since: "7.0.0",
        summary: "Listens to shard channels.",
        complexity: "O(N) where N is the number of channels",
        args: "shardchannel:string...",
        handler: ssubscribe,
        ..Command::BASE
    },
    Command {
        name: "subscribe",
        arity: -2,
        flags: Flags::of([Flags::PUBSUB, Flags::NOSCRIPT, Flags::LOADING, Flags::STALE]),
        group: "pubsub",
        since: "2.0.0",
        summary: "Listens to channels.",
        complexity: "O(N) where N is the number of channels",
        args: "channel:string...",
        handler: subscribe,
        ..Command::BASE
    },
    Command {
        name: "sunsubscribe",
        arity: -1,
        flags: Flags::of([Flags::PUBSUB, Flags::NOSCRIPT, Flags::LOADING, Flags::STALE]),
        keys: &[KeySpec::range("not_key", 1, -1, 1)],
        group: "pubsub",
        since: "7.0.0",
        summary: "Stops listening to shard channels, to all when none is given.",
        complexity: "O(N) where N is the number of channels",
        args: "[shardchannel:string...]",
        handler: sunsubscribe,
        ..Command::BASE
    },
    Command {
        name: "unsubscribe",
        arity: -1,
        flags: Flags::of([Flags::PUBSUB, Flags::NOSCRIPT, Flags::LOADING, Flags::STALE]),
        group: "pubsub",
        since: "2.0.0",
        summary: "Stops listening to channels, to all when none is given.",
        complexity: "O(N) where N is the number of channels",
        args: "[channel:string...]",
        handler: unsubscribe,
        ..Command::BASE
    },
];

/// The three kinds of subscriptions, with the words that their confirmations begin with.
#[derive(Clone, Copy)]
enum Kind {
    Channel,
    Pattern,
    Shard,
}

impl Kind {
    fn joined(self) -> &'static [u8] {
        match self {
            Kind::Channel => b"subscribe",
            Kind::Pattern => b"psubscribe",
            Kind::Shard => b"ssubscribe",
        }
    }

    fn left(self) -> &'static [u8] {
        match self {
            Kind::Channel => b"unsubscribe",
            Kind::Pattern => b"punsubscribe",
            Kind::Shard => b"sunsubscribe",
        }
    }

    fn index(self, engine: &mut Engine) -> &mut Channels {
        match self {
            Kind::Channel => &mut engine.pubsub.channels,
            Kind::Pattern => &mut engine.pubsub.patterns,
            Kind::Shard => &mut engine.pubsub.shard_channels,
        }
    }

    fn names(self, session: &mut Session) -> &mut std::collections::HashSet<ByteStr> {
        match self {
            Kind::Channel => &mut session.channels,
            Kind::Pattern => &mut session.patterns,
            Kind::Shard => &mut session.shard_channels,
        }
    }

    /// How many subscriptions a confirmation counts: those of sharded channels by themselves.
    fn count(self, session: &Session) -> i64 {
        let count = match self {
            Kind::Shard => session.shard_channels.len(),
            _ => session.channels.len() + session.patterns.len(),
        };
        count as i64
    }
}

fn psubscribe(call: &mut Call<'_>) -> Result<(), Stop> {
    join(call, Kind::Pattern)
}

fn publish(call: &mut Call<'_>) -> Result<(), Stop> {
    let receivers = call.engine.publish(call.arg(1), call.arg(2));
    call.reply.integer(receivers as i64);
    Ok(())
}

fn pubsub_channels(call: &mut Call<'_>) -> Result<(), Stop> {
    list(call, Kind::Channel)
}

fn pubsub_numpat(call: &mut Call<'_>) -> Result<(), Stop> {
    call.reply.integer(call.engine.pubsub.patterns.len() as i64);
    Ok(())
}

fn pubsub_numsub(call: &mut Call<'_>) -> Result<(), Stop> {
    count_listeners(call, Kind::Channel)
}

fn pubsub_shardchannels(call: &mut Call<'_>) -> Result<(), Stop> {
    list(call, Kind::Shard)
}

fn pubsub_shardnumsub(call: &mut Call<'_>) -> Result<(), Stop> {
    count_listeners(call, Kind::Shard)
}

fn punsubscribe(call: &mut Call<'_>) -> Result<(), Stop> {
    leave(call, Kind::Pattern)
}

fn spublish(call: &mut Call<'_>) -> Result<(), Stop> {
    let receivers = call.engine.publish_sharded(call.arg(1), call.arg(2));
    call.reply.integer(receivers as i64);
    Ok(())
}

fn ssubscribe(call: &mut Call<'_>) -> Result<(), Stop> {
    if call.session.deny_blocking {
        let text = "ERR SSUBSCRIBE isn't allowed for a DENY BLOCKING client";
        return Err(Error::text(text).into());
    }
    join(call, Kind::Shard)
}

fn subscribe(call: &mut Call<'_>) -> Result<(), Stop> {
    join(call, Kind::Channel)
}

fn sunsubscribe(call: &mut Call<'_>) -> Result<(), Stop> {
    leave(call, Kind::Shard)
}

fn unsubscribe(call: &mut Call<'_>) -> Result<(), Stop> {
    leave(call, Kind::Channel)
}

fn join(call: &mut Call<'_>, kind: Kind) -> Result<(), Stop> {
    for name in &call.args[1..] {
        if kind.names(call.session).insert(ByteStr::new(name)) {
            kind.index(call.engine).add(name, call.session.id);
        }
        confirm(call, kind.joined(), Some(name), kind.count(call.session));
    }
    Ok(())
}

fn leave(call: &mut Call<'_>, kind: Kind) -> Result<(), Stop> {
    let named: Vec<ByteStr> = match call.args {
        [_] => kind.names(call.session).iter().cloned().collect(),
        [_, names @ ..] => names.iter().map(|name| ByteStr::new(name)).collect(),
        [] => Vec::new(),
    };
    if named.is_empty() {
        confirm(call, kind.left(), None, kind.count(call.session));
    }
    for name in named {
        if kind.names(call.session).remove(&name) {
            kind.index(call.engine).remove(&name, call.session.id);
        }
        confirm(call, kind.left(), Some(&name), kind.count(call.session));
    }
    Ok(())
}

/// A confirmation is a message of its own: a command with three names gets three.
fn confirm(call: &mut Call<'_>, word: &[u8], name: Option<&[u8]>, count: i64) {
    call.reply.push(3);
    call.reply.bulk(word);
    match name {
        Some(name) => call.reply.bulk(name),
        None => call.reply.null(),
    }
    call.reply.integer(count);
}

fn list(call: &mut Call<'_>, kind: Kind) -> Result<(), Stop> {
    if call.args.len() > 3 {
        return Err(call.subcommand_syntax().into());
    }
    let pattern = call.args.get(2).copied();
    let names: Vec<ByteStr> = kind
        .index(call.engine)
        .names()
        .filter(|name| pattern.is_none_or(|pattern| glob::matches(pattern, name)))
        .cloned()
        .collect();
    call.reply.array(names.len());
    for name in names {
        call.reply.bulk(&name);
    }
    Ok(())
}

fn count_listeners(call: &mut Call<'_>, kind: Kind) -> Result<(), Stop> {
    let names = &call.args[2..];
    call.reply.array(names.len() * 2);
    for name in names {
        call.reply.bulk(name);
        call.reply
            .integer(kind.index(call.engine).of(name).len() as i64);
    }
    Ok(())
}
