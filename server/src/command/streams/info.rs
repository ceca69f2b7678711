//! XINFO: what a stream, its groups and their consumers are like.

use super::{
    groups::no_such_group,
    ids,
    shape::{write_count, write_entries, write_entry_or_null, write_id},
};
use crate::{
    command::{Call, Stop},
    error::Error,
    reply::Reply,
    value::stream::{Consumer, Group, Pending, Stream, StreamId},
};

/// How many entries and pending ones the full description shows unless asked otherwise.
const SHOWN: usize = 10;

pub fn xinfo_stream(call: &mut Call<'_>) -> Result<(), Stop> {
    let missing = call.engine.keys.read_as::<Stream>(call.args[2])?.is_none();
    if missing {
        return Err(Error::NO_SUCH_KEY.into());
    }
    let mut options = call.options(3);
    let full = options.take("FULL");
    let mut shown = SHOWN;
    if full && options.len() == 2 && options.take("COUNT") {
        shown = match options.int()? {
            0 => usize::MAX,
            count => usize::try_from(count).unwrap_or(SHOWN),
        };
    }
    if !options.is_empty() {
        return Err(call.subcommand_syntax().into());
    }
    let reply = &mut *call.reply;
    let stream = call
        .engine
        .keys
        .read_as::<Stream>(call.args[2])?
        .ok_or(Error::NO_SUCH_KEY)?;
    reply.map(if full { 9 } else { 10 });
    describe(reply, stream);
    if full {
        describe_in_full(reply, stream, shown);
        return Ok(());
    }
    reply.bulk(b"groups");
    reply.integer(stream.groups().len() as i64);
    reply.bulk(b"first-entry");
    write_entry_or_null(reply, stream.iter().next());
    reply.bulk(b"last-entry");
    write_entry_or_null(
        reply,
        stream.range_back(StreamId::MIN, StreamId::MAX).next(),
    );
    Ok(())
}

fn describe(reply: &mut dyn Reply, stream: &Stream) {
    let history = stream.history();
    let keys: Vec<[u8; 16]> = stream.node_ids().map(StreamId::to_bytes).collect();
    reply.bulk(b"length");
    reply.integer(stream.len() as i64);
    reply.bulk(b"radix-tree-keys");
    reply.integer(keys.len() as i64);
    reply.bulk(b"radix-tree-nodes");
    reply.integer(radix_nodes(&keys, 0).max(1));
    reply.bulk(b"last-generated-id");
    write_id(reply, history.last_id);
    reply.bulk(b"max-deleted-entry-id");
    write_id(reply, history.max_deleted_id);
    reply.bulk(b"entries-added");
    reply.integer(history.entries_added as i64);
    reply.bulk(b"recorded-first-entry-id");
    write_id(reply, stream.first_id());
}

/// How many nodes a radix tree has that holds these sorted keys: the references keep one.
fn radix_nodes(keys: &[[u8; 16]], depth: usize) -> i64 {
    let [first, .., last] = keys else {
        // The rest of a lone key is one compressed node, and the end another.
        return keys.len() as i64 * if depth < 16 { 2 } else { 1 };
    };
    let common = (depth..16).take_while(|&at| first[at] == last[at]).count();
    let fork = depth + common;
    let branches = keys.chunk_by(|one, other| one[fork] == other[fork]);
    let below: i64 = branches.map(|branch| radix_nodes(branch, fork + 1)).sum();
    i64::from(common > 0) + 1 + below
}

fn describe_in_full(reply: &mut dyn Reply, stream: &Stream, shown: usize) {
    reply.bulk(b"entries");
    write_entries(reply, stream.iter().take(shown));
    reply.bulk(b"groups");
    reply.array(stream.groups().len());
    for (name, group) in stream.groups() {
        reply.map(7);
        reply.bulk(b"name");
        reply.bulk(name);
        describe_progress(reply, stream, group);
        reply.bulk(b"pel-count");
        reply.integer(group.pending().len() as i64);
        reply.bulk(b"pending");
        reply.array(group.pending().len().min(shown));
        for (id, pending) in group.pending().iter().take(shown) {
            reply.array(4);
            write_id(reply, *id);
            reply.bulk(&pending.consumer);
            describe_delivery(reply, Some(pending));
        }
        reply.bulk(b"consumers");
        reply.array(group.consumers().len());
        for (name, consumer) in group.consumers() {
            reply.map(5);
            reply.bulk(b"name");
            reply.bulk(name);
            describe_consumer_in_full(reply, group, consumer, shown);
        }
    }
}

fn describe_consumer_in_full(
    reply: &mut dyn Reply,
    group: &Group,
    consumer: &Consumer,
    shown: usize,
) {
    reply.bulk(b"seen-time");
    reply.integer(consumer.seen_ms as i64);
    reply.bulk(b"active-time");
    reply.integer(consumer.active_ms.map_or(-1, |active| active as i64));
    reply.bulk(b"pel-count");
    reply.integer(consumer.pending().len() as i64);
    reply.bulk(b"pending");
    reply.array(consumer.pending().len().min(shown));
    for id in consumer.pending().iter().take(shown) {
        reply.array(3);
        write_id(reply, *id);
        describe_delivery(reply, group.pending().get(id));
    }
}

fn describe_delivery(reply: &mut dyn Reply, pending: Option<&Pending>) {
    reply.integer(pending.map_or(0, |pending| pending.delivered_ms as i64));
    reply.integer(pending.map_or(0, |pending| pending.deliveries as i64));
}

fn describe_progress(reply: &mut dyn Reply, stream: &Stream, group: &Group) {
    reply.bulk(b"last-delivered-id");
    write_id(reply, group.last_id);
    reply.bulk(b"entries-read");
    write_count(reply, group.entries_read.map(|read| read as i64));
    reply.bulk(b"lag");
    write_count(reply, stream.lag(group));
}

pub fn xinfo_groups(call: &mut Call<'_>) -> Result<(), Stop> {
    let reply = &mut *call.reply;
    let stream = call
        .engine
        .keys
        .read_as::<Stream>(call.args[2])?
        .ok_or(Error::NO_SUCH_KEY)?;
    reply.array(stream.groups().len());
    for (name, group) in stream.groups() {
        reply.map(6);
        reply.bulk(b"name");
        reply.bulk(name);
        reply.bulk(b"consumers");
        reply.integer(group.consumers().len() as i64);
        reply.bulk(b"pending");
        reply.integer(group.pending().len() as i64);
        describe_progress(reply, stream, group);
    }
    Ok(())
}

pub fn xinfo_consumers(call: &mut Call<'_>) -> Result<(), Stop> {
    let (now_ms, key, name) = (call.now_ms(), call.arg(2), call.arg(3));
    let stream = call
        .engine
        .keys
        .read_as::<Stream>(key)?
        .ok_or(Error::NO_SUCH_KEY)?;
    let group = stream.group(name).ok_or_else(|| no_such_group(key, name))?;
    call.reply.array(group.consumers().len());
    for (name, consumer) in group.consumers() {
        let since = |ms: u64| now_ms.saturating_sub(ms) as i64;
        call.reply.map(4);
        call.reply.bulk(b"name");
        call.reply.bulk(name);
        call.reply.bulk(b"pending");
        call.reply.integer(consumer.pending().len() as i64);
        call.reply.bulk(b"idle");
        call.reply.integer(since(consumer.seen_ms));
        call.reply.bulk(b"inactive");
        call.reply.integer(consumer.active_ms.map_or(-1, since));
    }
    Ok(())
}

pub fn xsetid(call: &mut Call<'_>) -> Result<(), Stop> {
    const ENTRIES_ADDED: Error = Error::text("ERR entries_added must be positive");
    let id = ids::exact(call.arg(2), 0)?;
    let (mut added, mut deleted) = (None, None);
    let mut options = call.options(3);
    while !options.is_empty() {
        if options.len() > 1 && options.take("ENTRIESADDED") {
            added = Some(u64::try_from(options.int()?).map_err(|_| ENTRIES_ADDED)?);
        } else if options.len() > 1 && options.take("MAXDELETEDID") {
            let max = ids::exact(options.value()?, 0)?;
            if id < max {
                let text = "ERR The ID specified in XSETID is smaller than the provided \
                            max_deleted_entry_id";
                return Err(Error::text(text).into());
            }
            deleted = Some(max).filter(|&max| max != StreamId::MIN);
        } else {
            return Err(Error::SYNTAX.into());
        }
    }
    let result = call
        .engine
        .keys
        .update(call.args[1], |stream: &mut Stream| {
            let result = set_history(stream, id, added, deleted);
            (result, None)
        })?;
    result.ok_or(Error::NO_SUCH_KEY)??;
    call.engine.keys.announce(call.args[1], super::XSETID);
    call.reply.ok();
    Ok(())
}

fn set_history(
    stream: &mut Stream,
    id: StreamId,
    added: Option<u64>,
    deleted: Option<StreamId>,
) -> Result<(), Error> {
    let mut history = stream.history();
    if id < history.max_deleted_id {
        let text = "ERR The ID specified in XSETID is smaller than current max_deleted_entry_id";
        return Err(Error::text(text));
    }
    if let Some(last) = stream.range_back(StreamId::MIN, StreamId::MAX).next() {
        if id < last.id() {
            let text = "ERR The ID specified in XSETID is smaller than the target stream top item";
            return Err(Error::text(text));
        }
        if added.is_some_and(|added| added < stream.len()) {
            let text = "ERR The entries_added specified in XSETID is smaller than the target \
                        stream length";
            return Err(Error::text(text));
        }
    }
    history.last_id = id;
    history.entries_added = added.unwrap_or(history.entries_added);
    history.max_deleted_id = deleted.unwrap_or(history.max_deleted_id);
    stream.set_history(history);
    Ok(())
}
