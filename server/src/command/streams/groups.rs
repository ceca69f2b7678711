//! Consumer groups: making them, acknowledging, looking at what is pending, taking it over.

use super::{
    XGROUP_CREATE, XGROUP_CREATECONSUMER, XGROUP_DELCONSUMER, XGROUP_DESTROY, XGROUP_SETID, ids,
    shape::{write_entry, write_id},
    trimming::References,
};
use crate::{
    bytestr::ByteStr,
    command::{Call, Options, Stop},
    error::Error,
    keyspace::Touch,
    number::parse_i64,
    reply::Reply,
    value::stream::{Group, Pending, Stream, StreamId},
};

const KEY_REQUIRED: Error = Error::text(
    "ERR The XGROUP subcommand requires the key to exist. Note that for CREATE you may want to \
     use the MKSTREAM option to create an empty stream automatically.",
);
const BUSY_GROUP: Error = Error::text("BUSYGROUP Consumer Group name already exists");
const ENTRIES_READ: Error = Error::text("ERR value for ENTRIESREAD must be positive or -1");
const COUNT: Error = Error::text("ERR COUNT must be > 0");

/// How many pending entries XAUTOCLAIM looks at for each one that it may return.
const ATTEMPTS_FACTOR: usize = 10;
const AUTOCLAIM_COUNT: usize = 100;
/// More than this XAUTOCLAIM cannot be asked for.
const AUTOCLAIM_COUNT_MAX: i64 = i64::MAX / 16;

// ---- XGROUP ----

pub fn xgroup_create(call: &mut Call<'_>) -> Result<(), Stop> {
    let options = GroupOptions::parse(call, true)?;
    let (key, name) = (call.arg(2), call.arg(3));
    let exists = call.engine.keys.read_as::<Stream>(key)?.is_some();
    if !exists && !options.make_stream {
        return Err(KEY_REQUIRED.into());
    }
    let last_id = group_start(call, key)?;
    let group = Group::new(last_id, options.entries_read);
    let event = if exists { None } else { Some(XGROUP_CREATE) };
    let created = call.engine.keys.upsert(key, |stream: &mut Stream| {
        (stream.add_group(name, group), event)
    })?;
    if !created {
        return Err(BUSY_GROUP.into());
    }
    if exists {
        call.engine.keys.announce(key, XGROUP_CREATE);
    }
    call.reply.ok();
    Ok(())
}

pub fn xgroup_setid(call: &mut Call<'_>) -> Result<(), Stop> {
    let options = GroupOptions::parse(call, false)?;
    let (key, name) = (call.arg(2), call.arg(3));
    require_group(call, key, name)?;
    let last_id = group_start(call, key)?;
    in_group(call, key, name, |group| {
        group.last_id = last_id;
        group.entries_read = options.entries_read;
    })?;
    call.engine.keys.announce(key, XGROUP_SETID);
    call.reply.ok();
    Ok(())
}

pub fn xgroup_destroy(call: &mut Call<'_>) -> Result<(), Stop> {
    let (key, name) = (call.arg(2), call.arg(3));
    let removed = call
        .engine
        .keys
        .update(key, |stream: &mut Stream| (stream.remove_group(name), None))?
        .ok_or(KEY_REQUIRED)?;
    if removed {
        call.engine.keys.announce(key, XGROUP_DESTROY);
        // Whoever waits in the group has to hear that it is gone.
        let db = call.engine.keys.selected();
        let key = ByteStr::new(key);
        call.engine.waiters.key_touched(db, &key, Touch::Changed);
    }
    call.reply.integer(removed.into());
    Ok(())
}

pub fn xgroup_createconsumer(call: &mut Call<'_>) -> Result<(), Stop> {
    let (key, name, consumer, now_ms) = (call.arg(2), call.arg(3), call.arg(4), call.now_ms());
    require_group(call, key, name)?;
    let created = in_group(call, key, name, |group| {
        group.add_consumer(consumer, now_ms)
    })?;
    if created == Some(true) {
        call.engine.keys.announce(key, XGROUP_CREATECONSUMER);
    }
    call.reply.integer((created == Some(true)).into());
    Ok(())
}

pub fn xgroup_delconsumer(call: &mut Call<'_>) -> Result<(), Stop> {
    let (key, name, consumer) = (call.arg(2), call.arg(3), call.arg(4));
    require_group(call, key, name)?;
    let pending = in_group(call, key, name, |group| group.remove_consumer(consumer))?.flatten();
    if pending.is_some() {
        call.engine.keys.announce(key, XGROUP_DELCONSUMER);
    }
    call.reply.integer(pending.unwrap_or(0) as i64);
    Ok(())
}

/// What XGROUP CREATE and SETID take behind the ID.
struct GroupOptions {
    make_stream: bool,
    entries_read: Option<u64>,
}

impl GroupOptions {
    fn parse(call: &mut Call<'_>, create: bool) -> Result<GroupOptions, Error> {
        let mut parsed = GroupOptions {
            make_stream: false,
            entries_read: None,
        };
        let mut options = call.options(5);
        let too_many = match options.len() {
            more if create => more > 3,
            more => !matches!(more, 0 | 2),
        };
        while !options.is_empty() {
            if create && options.take("MKSTREAM") {
                parsed.make_stream = true;
            } else if options.len() > 1 && options.take("ENTRIESREAD") {
                parsed.entries_read = match options.int()? {
                    -1 => None,
                    read => Some(u64::try_from(read).map_err(|_| ENTRIES_READ)?),
                };
            } else {
                return Err(call.subcommand_syntax());
            }
        }
        // A wrong number and a key of another type are told before there being too much.
        if too_many {
            call.engine.keys.check::<Stream>(call.arg(2))?;
            return Err(call.subcommand_syntax());
        }
        Ok(parsed)
    }
}

/// The ID that a group starts behind.
fn group_start(call: &mut Call<'_>, key: &[u8]) -> Result<StreamId, Error> {
    match call.arg(4) {
        b"$" => {
            let stream = call.engine.keys.read_as::<Stream>(key)?;
            Ok(stream.map_or(StreamId::MIN, Stream::last_id))
        }
        b"-" | b"+" if call.command.own_name() == "setid" => ids::start(call.arg(4)),
        id => ids::exact(id, 0),
    }
}

fn require_group(call: &mut Call<'_>, key: &[u8], name: &[u8]) -> Result<(), Error> {
    let stream = call
        .engine
        .keys
        .read_as::<Stream>(key)?
        .ok_or(KEY_REQUIRED)?;
    stream
        .group(name)
        .map(|_| ())
        .ok_or_else(|| no_such_group(key, name))
}

/// Changes a group, if it is there. No command on groups counts as a change of the key.
fn in_group<R>(
    call: &mut Call<'_>,
    key: &[u8],
    name: &[u8],
    change: impl FnOnce(&mut Group) -> R,
) -> Result<Option<R>, Error> {
    let changed = call.engine.keys.update(key, |stream: &mut Stream| {
        (stream.group_mut(name).map(change), None)
    })?;
    Ok(changed.flatten())
}

pub fn no_such_group(key: &[u8], name: &[u8]) -> Error {
    Error::quoting([
        b"NOGROUP No such consumer group '",
        name,
        b"' for key name '",
        key,
        b"'",
    ])
}

fn no_key_or_group(key: &[u8], name: &[u8]) -> Error {
    Error::quoting([
        b"NOGROUP No such key '",
        key,
        b"' or consumer group '",
        name,
        b"'",
    ])
}

// ---- What is pending ----

pub fn xack(call: &mut Call<'_>) -> Result<(), Stop> {
    let (key, name) = (call.arg(1), call.arg(2));
    // Key and group are looked at before the IDs are.
    if in_group(call, key, name, |_| ())?.is_none() {
        call.reply.integer(0);
        return Ok(());
    }
    let ids = parse_ids(&call.args[3..])?;
    let count = in_group(call, key, name, |group| {
        ids.into_iter().filter(|&id| group.acknowledge(id)).count()
    })?;
    call.reply.integer(count.unwrap_or(0) as i64);
    Ok(())
}

pub fn parse_ids(args: &[&[u8]]) -> Result<Vec<StreamId>, Error> {
    args.iter().map(|id| ids::exact(id, 0)).collect()
}

pub fn xpending(call: &mut Call<'_>) -> Result<(), Stop> {
    let filter = if call.args.len() == 3 {
        None
    } else {
        Some(PendingFilter::parse(call)?)
    };
    let (key, name, now_ms) = (call.arg(1), call.arg(2), call.now_ms());
    let stream = call.engine.keys.read_as::<Stream>(key)?;
    let group = stream.and_then(|stream| stream.group(name));
    let group = group.ok_or_else(|| no_key_or_group(key, name))?;
    match filter {
        None => summarize(call.reply, group),
        Some(filter) => filter.show(call.reply, group, now_ms),
    }
    Ok(())
}

fn summarize(reply: &mut dyn Reply, group: &Group) {
    reply.array(4);
    reply.integer(group.pending().len() as i64);
    let (Some((&first, _)), Some((&last, _))) = (
        group.pending().first_key_value(),
        group.pending().last_key_value(),
    ) else {
        reply.null();
        reply.null();
        reply.null_array();
        return;
    };
    write_id(reply, first);
    write_id(reply, last);
    let busy = || {
        group
            .consumers()
            .iter()
            .filter(|(_, consumer)| !consumer.pending().is_empty())
    };
    reply.array(busy().count());
    for (name, consumer) in busy() {
        reply.array(2);
        reply.bulk(name);
        reply.bulk(consumer.pending().len().to_string().as_bytes());
    }
}

/// Which pending entries XPENDING shows.
struct PendingFilter<'a> {
    idle_min_ms: u64,
    start: StreamId,
    end: StreamId,
    count: usize,
    consumer: Option<&'a [u8]>,
}

impl<'a> PendingFilter<'a> {
    fn parse(call: &Call<'a>) -> Result<PendingFilter<'a>, Error> {
        let mut options = call.options(3);
        if !(3..=6).contains(&options.len()) {
            return Err(Error::SYNTAX);
        }
        let mut idle_min_ms = 0;
        if options.take("IDLE") {
            idle_min_ms = options.int()?.max(0) as u64;
        }
        let (start, end, count, consumer) = match *options.rest() {
            [start, end, count] => (start, end, count, None),
            [start, end, count, consumer, ..] => (start, end, count, Some(consumer)),
            _ => return Err(Error::SYNTAX),
        };
        let count = parse_i64(count).ok_or(Error::NOT_AN_INTEGER)?;
        Ok(PendingFilter {
            idle_min_ms,
            start: ids::start(start)?,
            end: ids::end(end)?,
            count: usize::try_from(count).unwrap_or(0),
            consumer,
        })
    }

    fn show(&self, reply: &mut dyn Reply, group: &Group, now_ms: u64) {
        let mark = self.matching(group, now_ms);
        reply.array(mark.len());
        for (id, pending) in mark {
            reply.array(4);
            write_id(reply, id);
            reply.bulk(&pending.consumer);
            reply.integer(now_ms.saturating_sub(pending.delivered_ms) as i64);
            reply.integer(pending.deliveries as i64);
        }
    }

    fn matching<'g>(&self, group: &'g Group, now_ms: u64) -> Vec<(StreamId, &'g Pending)> {
        if self.start > self.end {
            return Vec::new();
        }
        let idle_enough =
            |pending: &Pending| now_ms.saturating_sub(pending.delivered_ms) >= self.idle_min_ms;
        let Some(consumer) = self.consumer else {
            let all = group.pending().range(self.start..=self.end);
            let matching = all.filter(|(_, pending)| idle_enough(pending));
            return matching
                .map(|(&id, pending)| (id, pending))
                .take(self.count)
                .collect();
        };
        let Some(consumer) = group.consumers().get(consumer) else {
            return Vec::new();
        };
        let own = consumer.pending().range(self.start..=self.end);
        let own = own.filter_map(|id| Some((*id, group.pending().get(id)?)));
        own.filter(|(_, pending)| idle_enough(pending))
            .take(self.count)
            .collect()
    }
}

// ---- Taking over ----

pub fn xclaim(call: &mut Call<'_>) -> Result<(), Stop> {
    let (key, name, consumer, now_ms) = (call.arg(1), call.arg(2), call.arg(3), call.now_ms());
    let stream = call.engine.keys.read_as::<Stream>(key)?;
    if stream.is_none_or(|stream| stream.group(name).is_none()) {
        return Err(no_key_or_group(key, name).into());
    }
    let idle_min_ms = idle_arg(call, "XCLAIM")?;
    let ids: Vec<StreamId> = call.args[5..]
        .iter()
        .map_while(|arg| ids::exact(arg, 0).ok())
        .collect();
    let claim = Claim::parse(call.options(5 + ids.len()), now_ms, idle_min_ms)?;
    let reply = &mut *call.reply;
    let created = call.engine.keys.update(key, |stream: &mut Stream| {
        let mut takeover = Takeover {
            stream,
            group: name,
            consumer,
            now_ms,
        };
        let created = takeover.meet(claim.last_id);
        let claimed: Vec<StreamId> = ids
            .into_iter()
            .filter(|&id| takeover.claim(id, &claim))
            .collect();
        takeover.show(reply, &claimed, claim.just_id);
        (created, None)
    })?;
    if created == Some(true) {
        call.engine.keys.announce(key, XGROUP_CREATECONSUMER);
    }
    Ok(())
}

pub fn xautoclaim(call: &mut Call<'_>) -> Result<(), Stop> {
    let (key, name, consumer, now_ms) = (call.arg(1), call.arg(2), call.arg(3), call.now_ms());
    let idle_min_ms = idle_arg(call, "XAUTOCLAIM")?;
    let start = ids::start(call.arg(5))?;
    let (mut count, mut just_id) = (AUTOCLAIM_COUNT, false);
    let mut options = call.options(6);
    while !options.is_empty() {
        if options.len() > 1 && options.take("COUNT") {
            let asked = options
                .int()
                .ok()
                .filter(|asked| (1..=AUTOCLAIM_COUNT_MAX).contains(asked));
            count = asked.ok_or(COUNT)? as usize;
        } else if options.take("JUSTID") {
            just_id = true;
        } else {
            return Err(Error::SYNTAX.into());
        }
    }
    let stream = call.engine.keys.read_as::<Stream>(key)?;
    if stream.is_none_or(|stream| stream.group(name).is_none()) {
        return Err(no_key_or_group(key, name).into());
    }
    let claim = Claim {
        idle_min_ms,
        just_id,
        ..Claim::new(now_ms)
    };
    let reply = &mut *call.reply;
    let created = call.engine.keys.update(key, |stream: &mut Stream| {
        let mut takeover = Takeover {
            stream,
            group: name,
            consumer,
            now_ms,
        };
        let created = takeover.meet(None);
        takeover.sweep(reply, start, count, &claim);
        (created, None)
    })?;
    if created == Some(true) {
        call.engine.keys.announce(key, XGROUP_CREATECONSUMER);
    }
    Ok(())
}

fn idle_arg(call: &Call<'_>, command: &str) -> Result<u64, Error> {
    let idle = parse_i64(call.arg(4))
        .ok_or_else(|| Error::owned(format!("ERR Invalid min-idle-time argument for {command}")))?;
    Ok(idle.max(0) as u64)
}

/// How pending entries are taken over.
struct Claim {
    idle_min_ms: u64,
    delivered_ms: u64,
    deliveries: Option<u64>,
    force: bool,
    just_id: bool,
    last_id: Option<StreamId>,
}

impl Claim {
    fn new(now_ms: u64) -> Claim {
        Claim {
            idle_min_ms: 0,
            delivered_ms: now_ms,
            deliveries: None,
            force: false,
            just_id: false,
            last_id: None,
        }
    }

    fn parse(mut options: Options<'_>, now_ms: u64, idle_min_ms: u64) -> Result<Claim, Error> {
        let invalid =
            |option: &str| Error::owned(format!("ERR Invalid {option} option argument for XCLAIM"));
        let mut claim = Claim {
            idle_min_ms,
            ..Claim::new(now_ms)
        };
        while let Some(&next) = options.rest().first() {
            let has_value = options.len() > 1;
            if options.take("FORCE") {
                claim.force = true;
            } else if options.take("JUSTID") {
                claim.just_id = true;
            } else if has_value && options.take("IDLE") {
                let idle = options.int().map_err(|_| invalid("IDLE"))?;
                claim.delivered_ms = moment(now_ms, (now_ms as i64).checked_sub(idle));
            } else if has_value && options.take("TIME") {
                let time = options.int().map_err(|_| invalid("TIME"))?;
                claim.delivered_ms = moment(now_ms, Some(time));
            } else if has_value && options.take("RETRYCOUNT") {
                let deliveries = options.int().map_err(|_| invalid("RETRYCOUNT"))?;
                claim.deliveries = u64::try_from(deliveries).ok();
            } else if has_value && options.take("LASTID") {
                claim.last_id = Some(ids::exact(options.value()?, 0)?);
            } else {
                let parts: [&[u8]; 3] = [b"ERR Unrecognized XCLAIM option '", next, b"'"];
                return Err(Error::quoting(parts));
            }
        }
        Ok(claim)
    }
}

/// A time of delivery that was asked for; now, when it makes no sense.
fn moment(now_ms: u64, asked: Option<i64>) -> u64 {
    let asked = asked.and_then(|asked| u64::try_from(asked).ok());
    asked.filter(|&asked| asked <= now_ms).unwrap_or(now_ms)
}

/// Pending entries on their way to another consumer.
struct Takeover<'a> {
    stream: &'a mut Stream,
    group: &'a [u8],
    consumer: &'a [u8],
    now_ms: u64,
}

impl Takeover<'_> {
    /// Makes the consumer if it is new, and moves the group forward if asked.
    fn meet(&mut self, last_id: Option<StreamId>) -> bool {
        let Some(group) = self.stream.group_mut(self.group) else {
            return false;
        };
        group.last_id = group.last_id.max(last_id.unwrap_or_default());
        group.meet(self.consumer, self.now_ms)
    }

    /// Takes an entry over; false when that is not to be. One that is gone is forgotten.
    fn claim(&mut self, id: StreamId, claim: &Claim) -> bool {
        let exists = self.stream.contains(id);
        let Some(group) = self.stream.group_mut(self.group) else {
            return false;
        };
        if !exists {
            group.acknowledge(id);
            return false;
        }
        let deliveries = match group.pending().get(&id) {
            Some(pending) => {
                if self.now_ms.saturating_sub(pending.delivered_ms) < claim.idle_min_ms {
                    return false;
                }
                pending.deliveries
            }
            None if claim.force => 1,
            None => return false,
        };
        let counted = deliveries.wrapping_add(u64::from(!claim.just_id));
        let pending = Pending {
            consumer: ByteStr::new(self.consumer),
            delivered_ms: claim.delivered_ms,
            deliveries: claim.deliveries.unwrap_or(counted),
        };
        group.assign(id, pending);
        group.note_activity(self.consumer, self.now_ms);
        true
    }

    /// Goes through what is pending from an ID on, and writes where to go on from, what was
    /// claimed, and what is gone.
    fn sweep(&mut self, reply: &mut dyn Reply, start: StreamId, count: usize, claim: &Claim) {
        let group = self.stream.group(self.group);
        let looked_at = count.saturating_mul(ATTEMPTS_FACTOR);
        let ids: Vec<StreamId> = group.map_or_else(Vec::new, |group| {
            group
                .pending()
                .range(start..)
                .map(|(&id, _)| id)
                .take(looked_at + 1)
                .collect()
        });
        let (mut claimed, mut gone, mut next) = (Vec::new(), Vec::new(), 0);
        while next < ids.len().min(looked_at) && claimed.len() + gone.len() < count {
            let id = ids[next];
            next += 1;
            if self.claim(id, claim) {
                claimed.push(id);
            } else if !self.stream.contains(id) {
                gone.push(id);
            }
        }
        reply.array(3);
        write_id(reply, ids.get(next).copied().unwrap_or_default());
        self.show(reply, &claimed, claim.just_id);
        reply.array(gone.len());
        for id in gone {
            write_id(reply, id);
        }
    }

    fn show(&self, reply: &mut dyn Reply, claimed: &[StreamId], just_id: bool) {
        reply.array(claimed.len());
        for &id in claimed {
            let asked = (!just_id).then(|| self.stream.range(id, id).next());
            match asked.flatten() {
                Some(entry) => write_entry(reply, &entry),
                None => write_id(reply, id),
            }
        }
    }
}

// ---- Deleting with regard to groups ----

/// What became of an entry that was to be deleted.
#[derive(Clone, Copy)]
enum Fate {
    Missing = -1,
    Deleted = 1,
    StillReferenced = 2,
}

pub fn xdelex(call: &mut Call<'_>) -> Result<(), Stop> {
    let (references, ids) = parse_ids_block(call, 2)?;
    delete_with_references(call, ids, |stream, id| drop_entry(stream, id, references))
}

pub fn xackdel(call: &mut Call<'_>) -> Result<(), Stop> {
    let (references, ids) = parse_ids_block(call, 3)?;
    let name = call.arg(2);
    delete_with_references(call, ids, |stream, id| {
        if !stream
            .group_mut(name)
            .is_some_and(|group| group.acknowledge(id))
        {
            return Fate::Missing;
        }
        match drop_entry(stream, id, references) {
            Fate::StillReferenced => Fate::StillReferenced,
            // It was pending, so it was there once.
            Fate::Deleted | Fate::Missing => Fate::Deleted,
        }
    })
}

fn delete_with_references(
    call: &mut Call<'_>,
    ids: Vec<StreamId>,
    mut delete: impl FnMut(&mut Stream, StreamId) -> Fate,
) -> Result<(), Stop> {
    let count = ids.len();
    let fates = call
        .engine
        .keys
        .update(call.args[1], |stream: &mut Stream| {
            let before = stream.len();
            let fates: Vec<Fate> = ids.into_iter().map(|id| delete(stream, id)).collect();
            let event = (stream.len() < before).then_some(super::XDEL);
            (fates, event)
        })?;
    call.reply.array(count);
    for fate in fates.unwrap_or_else(|| vec![Fate::Missing; count]) {
        call.reply.integer(fate as i64);
    }
    Ok(())
}

fn drop_entry(stream: &mut Stream, id: StreamId, references: References) -> Fate {
    match references {
        References::Acknowledged if !stream.is_done_everywhere(id) => {
            return Fate::StillReferenced;
        }
        References::Delete => stream.forget_references(id),
        _ => {}
    }
    if stream.delete(id) {
        Fate::Deleted
    } else {
        Fate::Missing
    }
}

/// `[KEEPREF | DELREF | ACKED] IDS count id...`
fn parse_ids_block(call: &Call<'_>, from: usize) -> Result<(References, Vec<StreamId>), Error> {
    const NUMBER: Error = Error::text("ERR Number of IDs must be a positive integer");
    const MISMATCH: Error =
        Error::text("ERR The `numids` parameter must match the number of arguments");
    let mut options = call.options(from);
    let references = References::take(&mut options).unwrap_or_default();
    if options.len() < 2 || !options.take("IDS") {
        return Err(Error::SYNTAX);
    }
    let count = options
        .int()
        .ok()
        .and_then(|count| usize::try_from(count).ok());
    let count = count.filter(|&count| count > 0).ok_or(NUMBER)?;
    if count != options.len() {
        return Err(MISMATCH);
    }
    Ok((references, parse_ids(options.rest())?))
}
