//! XREAD and XREADGROUP: what comes after given IDs, at once or when it comes.

use super::{
    XGROUP_CREATECONSUMER, ids,
    shape::{write_entries, write_entry, write_id},
};
use crate::{
    blocking::{OnTimeout, Wait, parse_timeout_ms},
    bytestr::ByteStr,
    clock::Time,
    command::{Call, Stop},
    error::Error,
    reply::{Protocol, Reply},
    value::stream::{Entry, Pending, Stream, StreamId},
};

const GROUP_OPTION: Error =
    Error::text("ERR The GROUP option is only supported by XREADGROUP. You called XREAD instead.");
const NOACK_OPTION: Error =
    Error::text("ERR The NOACK option is only supported by XREADGROUP. You called XREAD instead.");
const NO_GROUP_OPTION: Error = Error::text("ERR Missing GROUP option for XREADGROUP");
const NEW_ID: Error = Error::text(
    "ERR The > ID can be specified only when calling XREADGROUP using the GROUP <group> \
     <consumer> option.",
);

/// What both commands are asked for.
struct Request<'a> {
    keys: &'a [&'a [u8]],
    ids: &'a [&'a [u8]],
    /// How many entries of each stream at most.
    count: usize,
    patience: Patience,
    group: Option<(&'a [u8], &'a [u8])>,
    acknowledged: bool,
}

/// Whether to wait for entries, and until when.
#[derive(Clone, Copy)]
enum Patience {
    None,
    Until(Time),
    Endless,
}

/// From where a group's consumer reads a stream.
#[derive(Clone, Copy)]
enum From {
    /// What the group has not delivered yet.
    New,
    /// What is pending with the consumer, after an ID.
    Pending(StreamId),
}

pub fn xread(call: &mut Call<'_>) -> Result<(), Stop> {
    let request = Request::parse(call)?;
    let mut after = Vec::with_capacity(request.keys.len());
    for (key, id) in request.keys.iter().zip(request.ids) {
        let stream = call.engine.keys.read_as::<Stream>(key)?;
        after.push(resolve(stream, id)?);
    }
    let mut served = Vec::new();
    for (&key, &after) in request.keys.iter().zip(&after) {
        let stream = call.engine.keys.read_as::<Stream>(key)?;
        if stream.is_some_and(|stream| last_entry(stream).is_some_and(|last| last > after)) {
            served.push((key, after));
        }
    }
    if served.is_empty() {
        return nothing(call, &request, Some(&after));
    }
    open(call.reply, served.len());
    for (key, after) in served {
        open_stream(call.reply, key);
        if let Some(stream) = call.engine.keys.read_as::<Stream>(key)? {
            write_entries(call.reply, entries_after(stream, after, request.count));
        }
    }
    Ok(())
}

pub fn xreadgroup(call: &mut Call<'_>) -> Result<(), Stop> {
    let request = Request::parse(call)?;
    let (group, consumer) = request.group.ok_or(NO_GROUP_OPTION)?;
    let mut from = Vec::with_capacity(request.keys.len());
    for (key, id) in request.keys.iter().zip(request.ids) {
        let stream = call.engine.keys.read_as::<Stream>(key)?;
        if stream.is_none_or(|stream| stream.group(group).is_none()) {
            return Err(no_group(key, group).into());
        }
        from.push(resolve_in_group(id)?);
    }
    let mut served = Vec::new();
    for (&key, &from) in request.keys.iter().zip(&from) {
        meet_consumer(call, key, group, consumer)?;
        // The same stream may be named twice, and then goes on where the first part ends.
        let before = served
            .iter()
            .filter(|&&(other, from)| other == key && matches!(from, From::New))
            .count();
        let skip = before.saturating_mul(request.count);
        let stream = call.engine.keys.read_as::<Stream>(key)?;
        if stream.is_some_and(|stream| has_any(stream, group, from, skip)) {
            served.push((key, from));
        }
    }
    if served.is_empty() {
        return nothing(call, &request, None);
    }
    open(call.reply, served.len());
    let now_ms = call.now_ms();
    for (key, from) in served {
        open_stream(call.reply, key);
        let reply = &mut *call.reply;
        call.engine.keys.update(key, |stream: &mut Stream| {
            let mut delivery = Delivery {
                stream,
                group,
                consumer,
                now_ms,
                count: request.count,
                reply,
            };
            match from {
                From::New => delivery.new_entries(request.acknowledged),
                From::Pending(after) => delivery.pending_entries(after),
            }
            ((), None)
        })?;
    }
    Ok(())
}

impl<'a> Request<'a> {
    fn parse(call: &Call<'a>) -> Result<Request<'a>, Error> {
        let in_group = call.command.name == "xreadgroup";
        let mut options = call.options(1);
        let mut request = Request {
            keys: &[],
            ids: &[],
            count: usize::MAX,
            patience: Patience::None,
            group: None,
            acknowledged: false,
        };
        loop {
            let behind = options.len().saturating_sub(1);
            if behind > 0 && options.take("BLOCK") {
                let until = parse_timeout_ms(options.value()?, call.engine.keys.now())?;
                request.patience = until.map_or(Patience::Endless, Patience::Until);
            } else if behind > 0 && options.take("COUNT") {
                let count = usize::try_from(options.int()?).unwrap_or(0);
                request.count = if count == 0 { usize::MAX } else { count };
            } else if behind > 0 && options.take("STREAMS") {
                [request.keys, request.ids] = halves(call, options.rest())?;
                break;
            } else if behind > 1 && options.take("GROUP") {
                if !in_group {
                    return Err(GROUP_OPTION);
                }
                request.group = Some((options.value()?, options.value()?));
            } else if options.take("NOACK") {
                if !in_group {
                    return Err(NOACK_OPTION);
                }
                request.acknowledged = true;
            } else {
                return Err(Error::SYNTAX);
            }
        }
        if in_group && request.group.is_none() {
            return Err(NO_GROUP_OPTION);
        }
        Ok(request)
    }
}

/// Keys first, then as many IDs.
fn halves<'a>(call: &Call<'_>, rest: &'a [&'a [u8]]) -> Result<[&'a [&'a [u8]]; 2], Error> {
    if rest.len().is_multiple_of(2) {
        return Ok(rest.split_at(rest.len() / 2).into());
    }
    let name = call.command.name;
    let newest = if name == "xread" { '$' } else { '>' };
    Err(Error::owned(format!(
        "ERR Unbalanced '{name}' list of streams: for each stream key an ID or '{newest}' must be \
         specified."
    )))
}

fn resolve(stream: Option<&Stream>, id: &[u8]) -> Result<StreamId, Error> {
    match id {
        b"$" => Ok(stream.map_or(StreamId::MIN, Stream::last_id)),
        // The last entry is what comes after the ID before its own. One that was deleted is not
        // made up for.
        b"+" => {
            let last = stream.map_or(StreamId::MIN, Stream::last_id);
            Ok(last.previous().unwrap_or(StreamId::MIN))
        }
        b">" => Err(NEW_ID),
        id => ids::exact(id, 0),
    }
}

fn resolve_in_group(id: &[u8]) -> Result<From, Error> {
    match id {
        b">" => Ok(From::New),
        b"$" | b"+" => {
            let id = char::from(id[0]);
            Err(Error::owned(format!(
                "ERR The {id} ID is meaningless in the context of XREADGROUP: you want to read \
                 the history of this consumer by specifying a proper ID, or use the > ID to get \
                 new messages. The {id} ID would just return an empty result set."
            )))
        }
        // The references keep `>` as the greatest ID, so that one asks for the new entries too.
        id => match ids::exact(id, 0)? {
            StreamId::MAX => Ok(From::New),
            id => Ok(From::Pending(id)),
        },
    }
}

pub fn no_group(key: &[u8], group: &[u8]) -> Error {
    Error::quoting([
        b"NOGROUP No such key '",
        key,
        b"' or consumer group '",
        group,
        b"' in XREADGROUP with GROUP option",
    ])
}

/// Makes the consumer if it is new, and notes that it was seen.
fn meet_consumer(
    call: &mut Call<'_>,
    key: &[u8],
    group: &[u8],
    consumer: &[u8],
) -> Result<(), Error> {
    let now_ms = call.now_ms();
    let created = call.engine.keys.update(key, |stream: &mut Stream| {
        let group = stream.group_mut(group);
        (
            group.is_some_and(|group| group.meet(consumer, now_ms)),
            None,
        )
    })?;
    if created == Some(true) {
        call.engine.keys.announce(key, XGROUP_CREATECONSUMER);
    }
    Ok(())
}

/// Is there anything to deliver, beyond so many entries that are new?
fn has_any(stream: &Stream, group: &[u8], from: From, skip: usize) -> bool {
    match from {
        From::Pending(_) => true,
        From::New => stream.group(group).is_some_and(|group| {
            let mut new = entries_after(stream, group.last_id, usize::MAX);
            new.nth(skip).is_some()
        }),
    }
}

fn last_entry(stream: &Stream) -> Option<StreamId> {
    stream
        .range_back(StreamId::MIN, StreamId::MAX)
        .next()
        .map(|entry| entry.id())
}

fn entries_after(
    stream: &Stream,
    after: StreamId,
    count: usize,
) -> impl Iterator<Item = Entry<'_>> {
    let start = after.next();
    let range = start.map(|start| stream.range(start, StreamId::MAX));
    range.into_iter().flatten().take(count)
}

fn open(reply: &mut dyn Reply, streams: usize) {
    match reply.protocol() {
        Protocol::Resp2 => reply.array(streams),
        Protocol::Resp3 => reply.map(streams),
    }
}

fn open_stream(reply: &mut dyn Reply, key: &[u8]) {
    if reply.protocol() == Protocol::Resp2 {
        reply.array(2);
    }
    reply.bulk(key);
}

/// Nil, or a wait where one is asked for. IDs that were resolved now are waited for as such.
fn nothing(
    call: &mut Call<'_>,
    request: &Request<'_>,
    resolved: Option<&[StreamId]>,
) -> Result<(), Stop> {
    let until = match request.patience {
        Patience::None => {
            call.reply.null_array();
            return Ok(());
        }
        Patience::Until(time) => Some(time),
        Patience::Endless => None,
    };
    let args = resolved.map(|ids| {
        let unchanged = &call.args[..call.args.len() - ids.len()];
        let ids = ids.iter().map(|id| id.to_string().into_bytes());
        unchanged
            .iter()
            .map(|arg| arg.to_vec())
            .chain(ids)
            .collect()
    });
    Err(Stop::Wait(Wait {
        keys: request.keys.iter().map(|key| ByteStr::new(key)).collect(),
        until,
        on_timeout: OnTimeout::NullArray,
        on_loss: request.group.is_some(),
        args,
    }))
}

/// Entries on their way to a consumer.
struct Delivery<'a> {
    stream: &'a mut Stream,
    group: &'a [u8],
    consumer: &'a [u8],
    now_ms: u64,
    count: usize,
    reply: &'a mut dyn Reply,
}

impl Delivery<'_> {
    /// Delivers what the group has not read yet; what is acknowledged at once is never pending.
    fn new_entries(&mut self, acknowledged: bool) {
        let after = self
            .stream
            .group(self.group)
            .map_or(StreamId::MAX, |group| group.last_id);
        let entries: Vec<Entry<'_>> = entries_after(self.stream, after, self.count).collect();
        let ids: Vec<StreamId> = entries.iter().map(Entry::id).collect();
        self.reply.array(entries.len());
        for entry in &entries {
            write_entry(self.reply, entry);
        }
        for id in ids {
            self.stream.advance_group(self.group, id);
            if !acknowledged && let Some(group) = self.stream.group_mut(self.group) {
                let consumer = ByteStr::new(self.consumer);
                let pending = Pending {
                    consumer,
                    delivered_ms: self.now_ms,
                    deliveries: 1,
                };
                group.assign(id, pending);
                group.note_activity(self.consumer, self.now_ms);
            }
        }
    }

    /// Delivers again what is pending with the consumer; nil for an entry that is gone.
    fn pending_entries(&mut self, after: StreamId) {
        let group = self.stream.group(self.group);
        let consumer = group.and_then(|group| group.consumers().get(self.consumer));
        let ids: Vec<StreamId> = match (consumer, after.next()) {
            (Some(consumer), Some(start)) => consumer
                .pending()
                .range(start..)
                .take(self.count)
                .copied()
                .collect(),
            _ => Vec::new(),
        };
        self.reply.array(ids.len());
        for id in ids {
            let entry = self.stream.range(id, id).next();
            let exists = entry.is_some();
            if let Some(entry) = entry {
                write_entry(self.reply, &entry);
            } else {
                self.reply.array(2);
                write_id(self.reply, id);
                self.reply.null_array();
            }
            let group = self.stream.group_mut(self.group).filter(|_| exists);
            if let Some(pending) = group.and_then(|group| group.pending_mut(id)) {
                pending.delivered_ms = self.now_ms;
                pending.deliveries = pending.deliveries.wrapping_add(1);
            }
        }
    }
}
