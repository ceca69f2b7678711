//! Streams: entries in order, ranges of them, and groups of consumers that share them.

mod groups;
mod ids;
mod info;
mod reading;
mod shape;
mod trimming;

use self::{
    ids::NewId,
    shape::{write_entries, write_id},
    trimming::{Plan, Trimming},
};
use super::*;
use crate::{
    command::spec::{Categories, Flags, KeySpec},
    keyspace::Event,
    value::stream::{NodeLimits, Stream, StreamId},
};

pub const COMMANDS: &[Command] = &[
    Command {
        name: "xack",
        arity: -4,
        flags: Flags::of([Flags::WRITE, Flags::FAST]),
        categories: Categories::STREAM,
        keys: &[KeySpec::one("RW update", 1)],
        group: "stream",
        since: "5.0.0",
        summary: "Marks entries as done for a group and counts those that were pending.",
        complexity: "O(N) where N is the number of entries",
        args: "key:key group:string id:string...",
        handler: groups::xack,
        ..Command::BASE
    },
    Command {
        name: "xackdel",
        arity: -6,
        flags: Flags::of([Flags::WRITE, Flags::FAST]),
        categories: Categories::STREAM,
        keys: &[KeySpec::one("RW update delete", 1)],
        group: "stream",
        since: "8.2.0",
        summary: "Marks entries as done for a group and deletes them.",
        complexity: "O(log N) for each entry",
        args: "key:key group:string [condition<KEEPREF|DELREF|ACKED>] IDS@ids(numids:integer id:string...)",
        handler: groups::xackdel,
        ..Command::BASE
    },
    Command {
        name: "xadd",
        arity: -5,
        flags: Flags::of([Flags::WRITE, Flags::DENYOOM, Flags::FAST]),
        categories: Categories::STREAM,
        keys: &[KeySpec::one("RW update", 1).noted("the stream is changed, though not its entries")],
        tips: &["nondeterministic_output"],
        group: "stream",
        since: "5.0.0",
        history: &[
            (
                "6.2.0",
                "Knows `NOMKSTREAM`, and trims by `MINID` and up to a `LIMIT`.",
            ),
            ("7.0.0", "Takes ids of the form `<ms>-*`."),
        ],
        summary: "Adds an entry, makes the stream if it has to, trims it if asked.",
        complexity: "O(1), or O(N) when trimming where N is the number of entries dropped",
        args: "key:key [NOMKSTREAM{6.2.0}] [condition<KEEPREF|DELREF|ACKED>] \
               [trim(strategy<MAXLEN|MINID{6.2.0}> [operator<equal==|approximately=~>] \
               threshold:string [LIMIT@count:integer{6.2.0}])] id-selector<auto-id=*|id:string> \
               data(field:string value:string)...",
        handler: xadd,
        ..Command::BASE
    },
    Command {
        name: "xautoclaim",
        arity: -6,
        flags: Flags::of([Flags::WRITE, Flags::FAST]),
        categories: Categories::STREAM,
        keys: &[KeySpec::one("RW delete", 1)],
        tips: &["nondeterministic_output"],
        group: "stream",
        since: "6.2.0",
        history: &[(
            "7.0.0",
            "Tells which pending entries it dropped because they are deleted.",
        )],
        summary: "Takes over entries that have been pending for long, in the order of their IDs.",
        complexity: "O(N) where N is the number of entries looked at",
        args: "key:key group:string consumer:string min-idle-time:string start:string [COUNT@count:integer] [JUSTID]",
        handler: groups::xautoclaim,
        ..Command::BASE
    },
    Command {
        name: "xclaim",
        arity: -6,
        flags: Flags::of([Flags::WRITE, Flags::FAST]),
        categories: Categories::STREAM,
        keys: &[KeySpec::one("RW update", 1)],
        tips: &["nondeterministic_output"],
        group: "stream",
        since: "5.0.0",
        summary: "Takes over pending entries by their IDs.",
        complexity: "O(log N) for each entry where N is the number of pending entries",
        args: "key:key group:string consumer:string min-idle-time:string id:string... [IDLE@ms:integer] [TIME@unix-time-milliseconds:unix-time] [RETRYCOUNT@count:integer] [FORCE] [JUSTID] [LASTID@lastid:string]",
        handler: groups::xclaim,
        ..Command::BASE
    },
    Command {
        name: "xdel",
        arity: -3,
        flags: Flags::of([Flags::WRITE, Flags::FAST]),
        categories: Categories::STREAM,
        keys: &[KeySpec::one("RW delete", 1)],
        group: "stream",
        since: "5.0.0",
        summary: "Deletes entries and counts those that existed.",
        complexity: "O(log N) for each entry",
        args: "key:key id:string...",
        handler: xdel,
        ..Command::BASE
    },
    Command {
        name: "xdelex",
        arity: -5,
        flags: Flags::of([Flags::WRITE, Flags::FAST]),
        categories: Categories::STREAM,
        keys: &[KeySpec::one("RW delete", 1)],
        group: "stream",
        since: "8.2.0",
        summary: "Deletes entries, with regard to the groups that they are pending in.",
        complexity: "O(log N) for each entry",
        args: "key:key [condition<KEEPREF|DELREF|ACKED>] IDS@ids(numids:integer id:string...)",
        handler: groups::xdelex,
        ..Command::BASE
    },
    Command {
        name: "xgroup",
        arity: -2,
        group: "stream",
        since: "5.0.0",
        summary: "Holds the commands on consumer groups.",
        complexity: "Depends on the subcommand",
        subcommands: &[
            Command {
                name: "xgroup|create",
                arity: -5,
                flags: Flags::of([Flags::WRITE, Flags::DENYOOM]),
                categories: Categories::STREAM,
                keys: &[KeySpec::one("RW insert", 2)],
                group: "stream",
                since: "5.0.0",
                history: &[("7.0.0", "Knows `ENTRIESREAD`.")],
                summary: "Adds a consumer group to a stream.",
                args: "key:key group:string id-selector<id:string|new-id=$> [MKSTREAM] \
                       [ENTRIESREAD@entriesread:integer{=entries-read}]",
                handler: groups::xgroup_create,
                ..Command::BASE
            },
            Command {
                name: "xgroup|createconsumer",
                arity: 5,
                flags: Flags::of([Flags::WRITE, Flags::DENYOOM]),
                categories: Categories::STREAM,
                keys: &[KeySpec::one("RW insert", 2)],
                group: "stream",
                since: "6.2.0",
                summary: "Adds a consumer to a group.",
                args: "key:key group:string consumer:string",
                handler: groups::xgroup_createconsumer,
                ..Command::BASE
            },
            Command {
                name: "xgroup|delconsumer",
                arity: 5,
                flags: Flags::WRITE,
                categories: Categories::STREAM,
                keys: &[KeySpec::one("RW delete", 2)],
                group: "stream",
                since: "5.0.0",
                summary: "Removes a consumer and forgets what was pending with it.",
                complexity: "O(N) where N is the number of its pending entries",
                args: "key:key group:string consumer:string",
                handler: groups::xgroup_delconsumer,
                ..Command::BASE
            },
            Command {
                name: "xgroup|destroy",
                arity: 4,
                flags: Flags::WRITE,
                categories: Categories::STREAM,
                keys: &[KeySpec::one("RW delete", 2)],
                group: "stream",
                since: "5.0.0",
                summary: "Removes a consumer group.",
                complexity: "O(N) where N is the number of its pending entries",
                args: "key:key group:string",
                handler: groups::xgroup_destroy,
                ..Command::BASE
            },
            Command {
                name: "xgroup|help",
                arity: 2,
                flags: Flags::of([Flags::LOADING, Flags::STALE]),
                categories: Categories::STREAM,
                group: "stream",
                since: "5.0.0",
                summary: "Lists what the subcommands do.",
                handler: help::help,
                ..Command::BASE
            },
            Command {
                name: "xgroup|setid",
                arity: -5,
                flags: Flags::WRITE,
                categories: Categories::STREAM,
                keys: &[KeySpec::one("RW update", 2)],
                group: "stream",
                since: "5.0.0",
                history: &[("7.0.0", "Knows `ENTRIESREAD`.")],
                summary: "Sets the last entry that a group is taken to have read.",
                args: "key:key group:string id-selector<id:string|new-id=$> \
                       [ENTRIESREAD@entriesread:integer{=entries-read}]",
                handler: groups::xgroup_setid,
                ..Command::BASE
            },
        ],
        ..Command::BASE
    },
    Command {
        name: "xinfo",
        arity: -2,
        group: "stream",
        since: "5.0.0",
        summary: "Holds the commands that describe streams.",
        complexity: "Depends on the subcommand",
        subcommands: &[
            Command {
                name: "xinfo|consumers",
                arity: 4,
                flags: Flags::READONLY,
                categories: Categories::STREAM,
                keys: &[KeySpec::one("RO access", 2)],
                tips: &["nondeterministic_output"],
                group: "stream",
                since: "5.0.0",
                history: &[("7.2.0", "Tells `inactive`, and `idle` is told otherwise.")],
                summary: "Describes the consumers of a group.",
                complexity: "O(N) where N is the number of consumers",
                args: "key:key group:string",
                handler: info::xinfo_consumers,
                ..Command::BASE
            },
            Command {
                name: "xinfo|groups",
                arity: 3,
                flags: Flags::READONLY,
                categories: Categories::STREAM,
                keys: &[KeySpec::one("RO access", 2)],
                group: "stream",
                since: "5.0.0",
                history: &[("7.0.0", "Tells `entries-read` and `lag`.")],
                summary: "Describes the consumer groups of a stream.",
                complexity: "O(N) where N is the number of groups",
                args: "key:key",
                handler: info::xinfo_groups,
                ..Command::BASE
            },
            Command {
                name: "xinfo|help",
                arity: 2,
                flags: Flags::of([Flags::LOADING, Flags::STALE]),
                categories: Categories::STREAM,
                group: "stream",
                since: "5.0.0",
                summary: "Lists what the subcommands do.",
                handler: help::help,
                ..Command::BASE
            },
            Command {
                name: "xinfo|stream",
                arity: -3,
                flags: Flags::READONLY,
                categories: Categories::STREAM,
                keys: &[KeySpec::one("RO access", 2)],
                group: "stream",
                since: "5.0.0",
                history: &[
                    ("6.0.0", "Knows `FULL`."),
                    (
                        "7.0.0",
                        "Tells `max-deleted-entry-id`, `entries-added`, \
                         `recorded-first-entry-id`, `entries-read` and `lag`.",
                    ),
                    (
                        "7.2.0",
                        "Tells `active-time`, and `seen-time` is told otherwise.",
                    ),
                ],
                summary: "Describes a stream, in full if asked.",
                complexity: "O(1), or O(N) with FULL where N is what is shown",
                args: "key:key [full-block(FULL [COUNT@count:integer])]",
                handler: info::xinfo_stream,
                ..Command::BASE
            },
        ],
        ..Command::BASE
    },
    Command {
        name: "xlen",
        arity: 2,
        flags: Flags::of([Flags::READONLY, Flags::FAST]),
        categories: Categories::STREAM,
        keys: &[KeySpec::one("RO", 1)],
        group: "stream",
        since: "5.0.0",
        summary: "Counts the entries.",
        args: "key:key",
        handler: xlen,
        ..Command::BASE
    },
    Command {
        name: "xpending",
        arity: -3,
        flags: Flags::READONLY,
        categories: Categories::STREAM,
        keys: &[KeySpec::one("RO access", 1)],
        tips: &["nondeterministic_output"],
        group: "stream",
        since: "5.0.0",
        history: &[("6.2.0", "Knows `IDLE` and exclusive ranges.")],
        summary: "Shows what is pending in a group, in sum or entry by entry.",
        complexity: "O(N) where N is the number of entries shown",
        args: "key:key group:string [filters([IDLE@min-idle-time:integer{6.2.0}] start:string \
               end:string count:integer [consumer:string])]",
        handler: groups::xpending,
        ..Command::BASE
    },
    Command {
        name: "xrange",
        arity: -4,
        flags: Flags::READONLY,
        categories: Categories::STREAM,
        keys: &[KeySpec::one("RO access", 1)],
        group: "stream",
        since: "5.0.0",
        history: &[("6.2.0", "Knows exclusive ranges.")],
        summary: "Returns the entries between two IDs.",
        complexity: "O(N) where N is the number of entries returned",
        args: "key:key start:string end:string [COUNT@count:integer]",
        handler: xrange,
        ..Command::BASE
    },
    Command {
        name: "xread",
        arity: -4,
        flags: Flags::of([Flags::READONLY, Flags::BLOCKING, Flags::MOVABLEKEYS]),
        categories: Categories::STREAM,
        keys: &[KeySpec {
            flags: "RO access",
            notes: "",
            begin: Begin::Keyword {
                word: "STREAMS",
                from: 1,
            },
            find: Find::Range {
                last: -1,
                step: 1,
                limit: 2,
            },
        }],
        group: "stream",
        since: "5.0.0",
        summary: "Returns entries after given IDs from one or more streams, and may wait for them.",
        complexity: "",
        args: "[COUNT@count:integer] [BLOCK@milliseconds:integer] STREAMS@streams(key:key... id:string...)",
        handler: reading::xread,
        ..Command::BASE
    },
    Command {
        name: "xreadgroup",
        arity: -7,
        flags: Flags::of([Flags::WRITE, Flags::BLOCKING, Flags::MOVABLEKEYS]),
        categories: Categories::STREAM,
        keys: &[KeySpec {
            flags: "RO access",
            notes: "",
            begin: Begin::Keyword {
                word: "STREAMS",
                from: 4,
            },
            find: Find::Range {
                last: -1,
                step: 1,
                limit: 2,
            },
        }],
        group: "stream",
        since: "5.0.0",
        summary: "Returns entries to a consumer of a group, which then has to acknowledge them, and may wait for them.",
        complexity: "O(N) where N is the number of entries returned",
        args: "GROUP@group-block(group:string consumer:string) [COUNT@count:integer] [BLOCK@milliseconds:integer] [NOACK] STREAMS@streams(key:key... id:string...)",
        handler: reading::xreadgroup,
        ..Command::BASE
    },
    Command {
        name: "xrevrange",
        arity: -4,
        flags: Flags::READONLY,
        categories: Categories::STREAM,
        keys: &[KeySpec::one("RO access", 1)],
        group: "stream",
        since: "5.0.0",
        history: &[("6.2.0", "Knows exclusive ranges.")],
        summary: "Returns the entries between two IDs, last one first.",
        complexity: "O(N) where N is the number of entries returned",
        args: "key:key end:string start:string [COUNT@count:integer]",
        handler: xrevrange,
        ..Command::BASE
    },
    Command {
        name: "xsetid",
        arity: -3,
        flags: Flags::of([Flags::WRITE, Flags::DENYOOM, Flags::FAST]),
        categories: Categories::STREAM,
        keys: &[KeySpec::one("RW update", 1)],
        group: "stream",
        since: "5.0.0",
        history: &[(
            "7.0.0",
            "Takes how many entries were added and which was deleted last.",
        )],
        summary: "Sets the last ID of a stream and what it counts.",
        args: "key:key last-id:string [ENTRIESADDED@entries-added:integer{7.0.0}] \
               [MAXDELETEDID@max-deleted-id:string{7.0.0}]",
        handler: info::xsetid,
        ..Command::BASE
    },
    Command {
        name: "xtrim",
        arity: -4,
        flags: Flags::WRITE,
        categories: Categories::STREAM,
        keys: &[KeySpec::one("RW delete", 1)],
        tips: &["nondeterministic_output"],
        group: "stream",
        since: "5.0.0",
        history: &[("6.2.0", "Trims by `MINID` and up to a `LIMIT`.")],
        summary: "Drops entries from the front.",
        complexity: "O(N) where N is the number of entries dropped",
        args: "key:key trim(strategy<MAXLEN|MINID{6.2.0}> [operator<equal==|approximately=~>] \
               threshold:string [LIMIT@count:integer{6.2.0}]) [condition<KEEPREF|DELREF|ACKED>]",
        handler: xtrim,
        ..Command::BASE
    },
];

const XADD: Event = Event::stream("xadd");
const XDEL: Event = Event::stream("xdel");
const XTRIM: Event = Event::stream("xtrim");
const XSETID: Event = Event::stream("xsetid");
const XGROUP_CREATE: Event = Event::stream("xgroup-create");
const XGROUP_SETID: Event = Event::stream("xgroup-setid");
const XGROUP_DESTROY: Event = Event::stream("xgroup-destroy");
const XGROUP_CREATECONSUMER: Event = Event::stream("xgroup-createconsumer");
const XGROUP_DELCONSUMER: Event = Event::stream("xgroup-delconsumer");

const ZERO_ID: Error = Error::text("ERR The ID specified in XADD must be greater than 0-0");
const SMALL_ID: Error =
    Error::text("ERR The ID specified in XADD is equal or smaller than the target stream top item");
const EXHAUSTED: Error =
    Error::text("ERR The stream has exhausted the last possible ID, unable to add more items");
const TOO_LARGE: Error = Error::text("ERR Elements are too large to be stored");

/// The largest entry, in bytes: what one node can hold.
const ENTRY_BYTES_MAX: usize = 1 << 30;

fn xadd(call: &mut Call<'_>) -> Result<(), Stop> {
    let request = Addition::parse(call)?;
    let (key, now_ms) = (call.arg(1), call.now_ms());
    let exists = call.engine.keys.read_as::<Stream>(key)?.is_some();
    if !exists && request.only_existing {
        call.reply.null();
        return Ok(());
    }
    let result = call.engine.keys.upsert(key, |stream: &mut Stream| {
        match request.run(stream, now_ms) {
            Ok(done) => (Ok(done), Some(XADD)),
            Err(error) => (Err(error), None),
        }
    })?;
    let (id, dropped) = result?;
    if dropped > 0 {
        call.engine.keys.announce(key, XTRIM);
    }
    write_id(call.reply, id);
    Ok(())
}

/// What XADD is asked for.
struct Addition<'a> {
    only_existing: bool,
    plan: Option<Plan>,
    id: NewId,
    items: &'a [&'a [u8]],
    nodes: NodeLimits,
}

impl<'a> Addition<'a> {
    fn parse(call: &Call<'a>) -> Result<Addition<'a>, Error> {
        let nodes = call.engine.config.hot.stream_nodes;
        let (mut trimming, mut only_existing) = (Trimming::default(), false);
        let mut options = call.options(2);
        let id = loop {
            if options.rest().first().is_some_and(|arg| *arg != b"*") {
                if trimming.take(&mut options)? {
                    continue;
                }
                if options.take("NOMKSTREAM") {
                    only_existing = true;
                    continue;
                }
            }
            break options.next().map(NewId::parse);
        };
        let id = id.transpose()?;
        let plan = trimming.finish(false, nodes)?;
        let items = options.rest();
        let id = id.filter(|_| !items.is_empty() && items.len().is_multiple_of(2));
        let id = id.ok_or_else(|| call.wrong_arity())?;
        if id == NewId::Given(StreamId::MIN) {
            return Err(ZERO_ID);
        }
        if items.iter().map(|item| item.len()).sum::<usize>() > ENTRY_BYTES_MAX {
            return Err(TOO_LARGE);
        }
        Ok(Addition {
            only_existing,
            plan,
            id,
            items,
            nodes,
        })
    }

    /// Adds the entry and trims; tells its ID and how many entries were dropped.
    fn run(&self, stream: &mut Stream, now_ms: u64) -> Result<(StreamId, u64), Error> {
        let last = stream.last_id();
        if last == StreamId::MAX {
            return Err(EXHAUSTED);
        }
        let id = match self.id {
            NewId::Next => stream.next_id(now_ms),
            NewId::NextOf(ms) if ms == last.ms => last.next().filter(|next| next.ms == ms),
            NewId::NextOf(ms) => Some(StreamId { ms, seq: 0 }),
            NewId::Given(id) => Some(id),
        };
        let id = id.filter(|&id| id > last).ok_or(SMALL_ID)?;
        stream.add(id, self.items, self.nodes);
        let dropped = self.plan.map_or(0, |plan| plan.run(stream));
        Ok((id, dropped))
    }
}

fn xtrim(call: &mut Call<'_>) -> Result<(), Stop> {
    let mut trimming = Trimming::default();
    let mut options = call.options(2);
    while !options.is_empty() {
        if !trimming.take(&mut options)? {
            return Err(Error::SYNTAX.into());
        }
    }
    let plan = trimming.finish(true, call.engine.config.hot.stream_nodes)?;
    let dropped = call
        .engine
        .keys
        .update(call.arg(1), |stream: &mut Stream| {
            let dropped = plan.map_or(0, |plan| plan.run(stream));
            (dropped, (dropped > 0).then_some(XTRIM))
        })?;
    call.reply.integer(dropped.unwrap_or(0) as i64);
    Ok(())
}

fn xdel(call: &mut Call<'_>) -> Result<(), Stop> {
    // The key is looked at before the IDs are.
    if call.engine.keys.read_as::<Stream>(call.arg(1))?.is_none() {
        call.reply.integer(0);
        return Ok(());
    }
    let ids = groups::parse_ids(&call.args[2..])?;
    let deleted = call
        .engine
        .keys
        .update(call.arg(1), |stream: &mut Stream| {
            let deleted = ids.into_iter().filter(|&id| stream.delete(id)).count();
            (deleted, (deleted > 0).then_some(XDEL))
        })?;
    call.reply.integer(deleted.unwrap_or(0) as i64);
    Ok(())
}

fn xlen(call: &mut Call<'_>) -> Result<(), Stop> {
    let stream = call.engine.keys.read_as::<Stream>(call.arg(1))?;
    call.reply
        .integer(stream.map_or(0, |stream| stream.len() as i64));
    Ok(())
}

fn xrange(call: &mut Call<'_>) -> Result<(), Stop> {
    let (start, end) = (ids::start(call.arg(2))?, ids::end(call.arg(3))?);
    range(call, start, end, false)
}

fn xrevrange(call: &mut Call<'_>) -> Result<(), Stop> {
    let (start, end) = (ids::start(call.arg(3))?, ids::end(call.arg(2))?);
    range(call, start, end, true)
}

fn range(call: &mut Call<'_>, start: StreamId, end: StreamId, back: bool) -> Result<(), Stop> {
    let mut count = None;
    let mut options = call.options(4);
    while !options.is_empty() {
        if options.len() < 2 || !options.take("COUNT") {
            return Err(Error::SYNTAX.into());
        }
        count = Some(usize::try_from(options.int()?).unwrap_or(0));
    }
    let reply = &mut *call.reply;
    let Some(stream) = call.engine.keys.read_as::<Stream>(call.args[1])? else {
        reply.array(0);
        return Ok(());
    };
    match count.unwrap_or(usize::MAX) {
        0 => reply.null_array(),
        count if back => write_entries(reply, stream.range_back(start, end).take(count)),
        count => write_entries(reply, stream.range(start, end).take(count)),
    }
    Ok(())
}
