//! Hashes: fields with values, counters in them, and fields that end at a deadline of their own.

mod deadlines;

use self::deadlines::*;
use super::{
    draws,
    keys::{ScanOptions, Scanned, scan_cursor},
    scanning, *,
};
use crate::{
    command::spec::{Categories, Flags, KeySpec},
    extended::Extended,
    keyspace::{Event, Keyspace},
    reply::Protocol,
    value::{hash::Hash, limits::Limits, packed::Item},
};

/// The hash commands.
pub const COMMANDS: &[Command] = &[
    Command {
        name: "hdel",
        arity: -3,
        flags: Flags::of([Flags::WRITE, Flags::FAST]),
        categories: Categories::HASH,
        keys: &[KeySpec::one("RW delete", 1)],
        group: "hash",
        since: "2.0.0",
        history: &[("2.4.0", "Takes several fields.")],
        summary: "Deletes fields of a hash.",
        complexity: "O(N) where N is the number of fields",
        args: "key:key field:string...",
        handler: hdel,
        ..Command::BASE
    },
    Command {
        name: "hexists",
        arity: 3,
        flags: Flags::of([Flags::READONLY, Flags::FAST]),
        categories: Categories::HASH,
        keys: &[KeySpec::one("RO", 1)],
        group: "hash",
        since: "2.0.0",
        summary: "Says whether a hash has a field.",
        args: "key:key field:string",
        handler: hexists,
        ..Command::BASE
    },
    Command {
        name: "hexpire",
        arity: -6,
        flags: Flags::of([Flags::WRITE, Flags::FAST]),
        categories: Categories::HASH,
        keys: &[KeySpec::one("RW update", 1)],
        group: "hash",
        since: "9.0.0",
        summary: "Gives fields a time to live, in seconds.",
        complexity: "O(N) where N is the number of fields",
        args: "key:key seconds:integer [condition<NX|XX|GT|LT>] FIELDS@fields(numfields:integer \
            field:string...)",
        handler: hexpire,
        ..Command::BASE
    },
    Command {
        name: "hexpireat",
        arity: -6,
        flags: Flags::of([Flags::WRITE, Flags::FAST]),
        categories: Categories::HASH,
        keys: &[KeySpec::one("RW update", 1)],
        group: "hash",
        since: "9.0.0",
        summary: "Gives fields a deadline, as a Unix time in seconds.",
        complexity: "O(N) where N is the number of fields",
        args: "key:key unix-time-seconds:integer [condition<NX|XX|GT|LT>{9.0.0}] \
               FIELDS@fields(numfields:integer{#0} field:string...)",
        handler: hexpireat,
        ..Command::BASE
    },
    Command {
        name: "hexpiretime",
        arity: -5,
        flags: Flags::of([Flags::READONLY, Flags::FAST]),
        categories: Categories::HASH,
        keys: &[KeySpec::one("RO access", 1)],
        group: "hash",
        since: "9.0.0",
        summary: "Returns the deadlines of fields, as Unix times in seconds.",
        complexity: "O(N) where N is the number of fields",
        args: "key:key FIELDS@fields(numfields:integer{#0} field:string...)",
        handler: hexpiretime,
        ..Command::BASE
    },
    Command {
        name: "hget",
        arity: 3,
        flags: Flags::of([Flags::READONLY, Flags::FAST]),
        categories: Categories::HASH,
        keys: &[KeySpec::one("RO access", 1)],
        group: "hash",
        since: "2.0.0",
        summary: "Returns the value of a field.",
        args: "key:key field:string",
        handler: hget,
        ..Command::BASE
    },
    Command {
        name: "hgetall",
        arity: 2,
        flags: Flags::READONLY,
        categories: Categories::HASH,
        keys: &[KeySpec::one("RO access", 1)],
        tips: &["nondeterministic_output_order"],
        group: "hash",
        since: "2.0.0",
        summary: "Returns all fields with their values.",
        complexity: "O(N) where N is the size of the hash",
        args: "key:key",
        handler: hgetall,
        ..Command::BASE
    },
    Command {
        name: "hgetdel",
        arity: -5,
        flags: Flags::of([Flags::WRITE, Flags::FAST]),
        categories: Categories::HASH,
        keys: &[KeySpec::one("RW access delete", 1)],
        group: "hash",
        since: "9.1.0",
        summary: "Returns the values of fields and deletes the fields.",
        complexity: "O(N) where N is the number of fields",
        args: "key:key FIELDS@fields(numfields:integer{#0} field:string...)",
        handler: hgetdel,
        ..Command::BASE
    },
    Command {
        name: "hgetex",
        arity: -5,
        flags: Flags::of([Flags::WRITE, Flags::FAST]),
        categories: Categories::HASH,
        keys: &[KeySpec::one("RW access update", 1)],
        group: "hash",
        since: "9.0.0",
        summary: "Returns the values of fields and changes or removes their deadlines.",
        complexity: "O(N) where N is the number of fields",
        args: "key:key [expiration<EX@seconds:integer|PX@milliseconds:integer|\
               EXAT@unix-time-seconds:unix-time|PXAT@unix-time-milliseconds:unix-time|PERSIST>] \
               FIELDS@fields(numfields:integer{#0} field:string...)",
        handler: hgetex,
        ..Command::BASE
    },
    Command {
        name: "hincrby",
        arity: 4,
        flags: Flags::of([Flags::WRITE, Flags::DENYOOM, Flags::FAST]),
        categories: Categories::HASH,
        keys: &[KeySpec::one("RW access update", 1)],
        group: "hash",
        since: "2.0.0",
        summary: "Raises the integer in a field by a given amount.",
        args: "key:key field:string increment:integer",
        handler: hincrby,
        ..Command::BASE
    },
    Command {
        name: "hincrbyfloat",
        arity: 4,
        flags: Flags::of([Flags::WRITE, Flags::DENYOOM, Flags::FAST]),
        categories: Categories::HASH,
        keys: &[KeySpec::one("RW access update", 1)],
        group: "hash",
        since: "2.6.0",
        summary: "Raises the number in a field by a given fractional amount.",
        args: "key:key field:string increment:double",
        handler: hincrbyfloat,
        ..Command::BASE
    },
    Command {
        name: "hkeys",
        arity: 2,
        flags: Flags::READONLY,
        categories: Categories::HASH,
        keys: &[KeySpec::one("RO access", 1)],
        tips: &["nondeterministic_output_order"],
        group: "hash",
        since: "2.0.0",
        summary: "Returns the names of all fields.",
        complexity: "O(N) where N is the size of the hash",
        args: "key:key",
        handler: hkeys,
        ..Command::BASE
    },
    Command {
        name: "hlen",
        arity: 2,
        flags: Flags::of([Flags::READONLY, Flags::FAST]),
        categories: Categories::HASH,
        keys: &[KeySpec::one("RO", 1)],
        group: "hash",
        since: "2.0.0",
        summary: "Returns the number of fields.",
        args: "key:key",
        handler: hlen,
        ..Command::BASE
    },
    Command {
        name: "hmget",
        arity: -3,
        flags: Flags::of([Flags::READONLY, Flags::FAST]),
        categories: Categories::HASH,
        keys: &[KeySpec::one("RO access", 1)],
        group: "hash",
        since: "2.0.0",
        summary: "Returns the values of several fields.",
        complexity: "O(N) where N is the number of fields",
        args: "key:key field:string...",
        handler: hmget,
        ..Command::BASE
    },
    Command {
        name: "hmset",
        arity: -4,
        flags: Flags::of([Flags::WRITE, Flags::DENYOOM, Flags::FAST]),
        categories: Categories::HASH,
        keys: &[KeySpec::one("RW update", 1)],
        group: "hash",
        since: "2.0.0",
        summary: "Sets several fields, under the name that HSET made needless.",
        complexity: "O(N) where N is the number of fields",
        args: "key:key data(field:string value:string)...",
        handler: hmset,
        ..Command::BASE
    },
    Command {
        name: "hpersist",
        arity: -5,
        flags: Flags::of([Flags::WRITE, Flags::FAST]),
        categories: Categories::HASH,
        keys: &[KeySpec::one("RW update", 1)],
        group: "hash",
        since: "9.0.0",
        summary: "Takes the deadlines of fields away.",
        complexity: "O(N) where N is the number of fields",
        args: "key:key FIELDS@fields(numfields:integer{#0} field:string...)",
        handler: hpersist,
        ..Command::BASE
    },
    Command {
        name: "hpexpire",
        arity: -6,
        flags: Flags::of([Flags::WRITE, Flags::FAST]),
        categories: Categories::HASH,
        keys: &[KeySpec::one("RW update", 1)],
        group: "hash",
        since: "9.0.0",
        summary: "Gives fields a time to live, in milliseconds.",
        complexity: "O(N) where N is the number of fields",
        args: "key:key milliseconds:integer [condition<NX|XX|GT|LT>{9.0.0}] \
               FIELDS@fields(numfields:integer{#0} field:string...)",
        handler: hpexpire,
        ..Command::BASE
    },
    Command {
        name: "hpexpireat",
        arity: -6,
        flags: Flags::of([Flags::WRITE, Flags::FAST]),
        categories: Categories::HASH,
        keys: &[KeySpec::one("RW update", 1)],
        group: "hash",
        since: "9.0.0",
        summary: "Gives fields a deadline, as a Unix time in milliseconds.",
        complexity: "O(N) where N is the number of fields",
        args: "key:key unix-time-milliseconds:integer [condition<NX|XX|GT|LT>{9.0.0}] \
               FIELDS@fields(numfields:integer{#0} field:string...)",
        handler: hpexpireat,
        ..Command::BASE
    },
    Command {
        name: "hpexpiretime",
        arity: -5,
        flags: Flags::of([Flags::READONLY, Flags::FAST]),
        categories: Categories::HASH,
        keys: &[KeySpec::one("RO access", 1)],
        group: "hash",
        since: "9.0.0",
        summary: "Returns the deadlines of fields, as Unix times in milliseconds.",
        complexity: "O(N) where N is the number of fields",
        args: "key:key FIELDS@fields(numfields:integer{#0} field:string...)",
        handler: hpexpiretime,
        ..Command::BASE
    },
    Command {
        name: "hpttl",
        arity: -5,
        flags: Flags::of([Flags::READONLY, Flags::FAST]),
        categories: Categories::HASH,
        keys: &[KeySpec::one("RO access", 1)],
        group: "hash",
        since: "9.0.0",
        summary: "Returns how many milliseconds fields have left.",
        complexity: "O(N) where N is the number of fields",
        args: "key:key FIELDS@fields(numfields:integer{#0} field:string...)",
        handler: hpttl,
        ..Command::BASE
    },
    Command {
        name: "hrandfield",
        arity: -2,
        flags: Flags::READONLY,
        categories: Categories::HASH,
        keys: &[KeySpec::one("RO access", 1)],
        tips: &["nondeterministic_output"],
        group: "hash",
        since: "6.2.0",
        summary: "Returns fields picked at random.",
        complexity: "O(N) where N is the number of fields returned",
        args: "key:key [options(count:integer [WITHVALUES])]",
        handler: hrandfield,
        ..Command::BASE
    },
    Command {
        name: "hscan",
        arity: -3,
        flags: Flags::READONLY,
        categories: Categories::HASH,
        keys: &[KeySpec::one("RO access", 1)],
        tips: &["nondeterministic_output"],
        group: "hash",
        since: "2.8.0",
        summary: "Walks over the fields, some with each call.",
        complexity: "O(1) per call, O(N) for a full walk over N fields",
        args: "key:key cursor:integer [MATCH@pattern:pattern] [COUNT@count:integer] [NOVALUES]",
        handler: hscan,
        ..Command::BASE
    },
    Command {
        name: "hset",
        arity: -4,
        flags: Flags::of([Flags::WRITE, Flags::DENYOOM, Flags::FAST]),
        categories: Categories::HASH,
        keys: &[KeySpec::one("RW update", 1)],
        group: "hash",
        since: "2.0.0",
        history: &[("4.0.0", "Takes several fields with their values.")],
        summary: "Sets fields.",
        complexity: "O(N) where N is the number of fields",
        args: "key:key data(field:string value:string)...",
        handler: hset,
        ..Command::BASE
    },
    Command {
        name: "hsetex",
        arity: -6,
        flags: Flags::of([Flags::WRITE, Flags::DENYOOM, Flags::FAST]),
        categories: Categories::HASH,
        keys: &[KeySpec::one("RW insert", 1)],
        group: "hash",
        since: "9.0.0",
        summary: "Sets fields, with a condition and a deadline if asked.",
        complexity: "O(N) where N is the number of fields",
        args: "key:key [key-condition<NX|XX>] [fields-condition<FNX|FXX>] \
               [expiration<EX@seconds:integer|PX@milliseconds:integer|\
               EXAT@unix-time-seconds:unix-time|PXAT@unix-time-milliseconds:unix-time|KEEPTTL>] \
               FIELDS@fields(numfields:integer{#0} data(field:string value:string)...)",
        handler: hsetex,
        ..Command::BASE
    },
    Command {
        name: "hsetnx",
        arity: 4,
        flags: Flags::of([Flags::WRITE, Flags::DENYOOM, Flags::FAST]),
        categories: Categories::HASH,
        keys: &[KeySpec::one("RW insert", 1)],
        group: "hash",
        since: "2.0.0",
        summary: "Sets a field unless it exists.",
        args: "key:key field:string value:string",
        handler: hsetnx,
        ..Command::BASE
    },
    Command {
        name: "hstrlen",
        arity: 3,
        flags: Flags::of([Flags::READONLY, Flags::FAST]),
        categories: Categories::HASH,
        keys: &[KeySpec::one("RO", 1)],
        group: "hash",
        since: "3.2.0",
        summary: "Returns the length of a field's value in bytes.",
        args: "key:key field:string",
        handler: hstrlen,
        ..Command::BASE
    },
    Command {
        name: "httl",
        arity: -5,
        flags: Flags::of([Flags::READONLY, Flags::FAST]),
        categories: Categories::HASH,
        keys: &[KeySpec::one("RO access", 1)],
        group: "hash",
        since: "9.0.0",
        summary: "Returns how many seconds fields have left.",
        complexity: "O(N) where N is the number of fields",
        args: "key:key FIELDS@fields(numfields:integer{#0} field:string...)",
        handler: httl,
        ..Command::BASE
    },
    Command {
        name: "hvals",
        arity: 2,
        flags: Flags::READONLY,
        categories: Categories::HASH,
        keys: &[KeySpec::one("RO access", 1)],
        tips: &["nondeterministic_output_order"],
        group: "hash",
        since: "2.0.0",
        summary: "Returns the values of all fields.",
        complexity: "O(N) where N is the size of the hash",
        args: "key:key",
        handler: hvals,
        ..Command::BASE
    },
];

/// Errors that several commands share.
const FIELD_COUNT: Error =
    Error::text("ERR numfields should be greater than 0 and match the provided number of fields");
const NOT_AN_INTEGER: Error = Error::text("ERR hash value is not an integer");
const NOT_A_FLOAT: Error = Error::text("ERR hash value is not a float");

fn hdel(call: &mut Call<'_>) -> Result<(), Stop> {
    let fields = &call.args[2..];
    let deleted = call.engine.keys.update(call.arg(1), |hash: &mut Hash| {
        let deleted = fields
            .iter()
            .filter(|field| hash.remove(field).is_some())
            .count();
        (deleted, (deleted > 0).then_some(Event::hash("hdel")))
    })?;
    call.reply.integer(deleted.unwrap_or(0) as i64);
    Ok(())
}

fn hexists(call: &mut Call<'_>) -> Result<(), Stop> {
    let hash = call.engine.keys.read_as::<Hash>(call.arg(1))?;
    let found = hash.is_some_and(|hash| hash.contains(call.args[2]));
    call.reply.integer(i64::from(found));
    Ok(())
}

fn hexpire(call: &mut Call<'_>) -> Result<(), Stop> {
    expire_fields(call, Unit::Seconds, Origin::Now)
}

fn hexpireat(call: &mut Call<'_>) -> Result<(), Stop> {
    expire_fields(call, Unit::Seconds, Origin::Epoch)
}

fn hexpiretime(call: &mut Call<'_>) -> Result<(), Stop> {
    tell_deadlines(call, |deadline, _| (deadline + 500) / 1000)
}

fn hget(call: &mut Call<'_>) -> Result<(), Stop> {
    let hash = call.engine.keys.read_as::<Hash>(call.arg(1))?;
    bulk_or_null(
        call.reply,
        hash.and_then(|hash| hash.get(call.args[2])).as_deref(),
    );
    Ok(())
}

fn hgetall(call: &mut Call<'_>) -> Result<(), Stop> {
    let Some(hash) = call.engine.keys.read_as::<Hash>(call.arg(1))? else {
        call.reply.map(0);
        return Ok(());
    };
    call.reply.map(hash.len());
    for (field, value) in hash {
        call.reply.bulk(&field);
        call.reply.bulk(&value);
    }
    Ok(())
}

fn hgetdel(call: &mut Call<'_>) -> Result<(), Stop> {
    let fields = field_list(call, 2, FIELD_COUNT)?;
    let taken = call.engine.keys.update(call.arg(1), |hash: &mut Hash| {
        let taken: Vec<_> = fields.iter().map(|field| hash.remove(field)).collect();
        let any = taken.iter().any(Option::is_some);
        (taken, any.then_some(Event::hash("hdel")))
    })?;
    call.engine.keys.count(taken.is_some());
    let taken = taken.unwrap_or_else(|| vec![None; fields.len()]);
    call.reply.array(taken.len());
    for value in taken {
        bulk_or_null(call.reply, value.as_deref());
    }
    Ok(())
}

fn hgetex(call: &mut Call<'_>) -> Result<(), Stop> {
    let (options, fields) = FieldOptions::parse(call, FieldOptions::READING, 1)?;
    let (key, now) = (call.arg(1), call.now_ms());
    call.engine.keys.read_as::<Hash>(key)?;
    let change = options.expiry(call.command, now)?;
    call.reply.array(fields.len());
    let found = call.engine.keys.update(key, |hash: &mut Hash| {
        let mut changed = false;
        for field in fields {
            bulk_or_null(call.reply, hash.get(field).as_deref());
            changed |= retime(hash, field, change, now);
        }
        ((), retimed(change, now).filter(|_| changed))
    })?;
    if found.is_none() {
        for _ in fields {
            call.reply.null();
        }
    }
    Ok(())
}

fn hincrby(call: &mut Call<'_>) -> Result<(), Stop> {
    let (field, by, limits) = (call.arg(2), call.int(3)?, call.engine.config.hot.limits);
    let sum = call.engine.keys.upsert(call.arg(1), |hash: &mut Hash| {
        let sum = raised(hash, field, by);
        if let Ok(sum) = sum {
            hash.update(field, itoa::Buffer::new().format(sum).as_bytes(), limits);
        }
        let event = sum.is_ok().then_some(Event::hash("hincrby"));
        (sum, event)
    })??;
    call.reply.integer(sum);
    Ok(())
}

fn raised(hash: &Hash, field: &[u8], by: i64) -> Result<i64, Error> {
    const OVERFLOW: Error = Error::text("ERR increment or decrement would overflow");
    let old = match hash.get(field) {
        Some(value) => number::parse_i64(&value).ok_or(NOT_AN_INTEGER)?,
        None => 0,
    };
    old.checked_add(by).ok_or(OVERFLOW)
}

fn hincrbyfloat(call: &mut Call<'_>) -> Result<(), Stop> {
    const INFINITE: Error = Error::text("ERR value is NaN or Infinity");
    let (field, limits) = (call.arg(2), call.engine.config.hot.limits);
    let by = Extended::parse(call.arg(3)).ok_or(Error::NOT_A_FLOAT)?;
    if !by.is_finite() {
        return Err(INFINITE.into());
    }
    let sum = call.engine.keys.upsert(call.arg(1), |hash: &mut Hash| {
        let sum = raised_float(hash, field, by);
        if let Ok(sum) = &sum {
            hash.update(field, sum.as_bytes(), limits);
        }
        let event = sum.is_ok().then_some(Event::hash("hincrbyfloat"));
        (sum, event)
    })??;
    call.reply.bulk(sum.as_bytes());
    Ok(())
}

fn raised_float(hash: &Hash, field: &[u8], by: Extended) -> Result<String, Error> {
    const OVERFLOW: Error = Error::text("ERR increment would produce NaN or Infinity");
    let old = match hash.get(field) {
        Some(value) => Extended::parse(&value).ok_or(NOT_A_FLOAT)?,
        None => Extended::ZERO,
    };
    let sum = old.add(by).filter(Extended::is_finite).ok_or(OVERFLOW)?;
    Ok(sum.to_text())
}

fn hkeys(call: &mut Call<'_>) -> Result<(), Stop> {
    tell_all(call, |(field, _)| field)
}

fn hlen(call: &mut Call<'_>) -> Result<(), Stop> {
    let len = call
        .engine
        .keys
        .read_as::<Hash>(call.arg(1))?
        .map_or(0, Hash::len);
    call.reply.integer(len as i64);
    Ok(())
}

fn hmget(call: &mut Call<'_>) -> Result<(), Stop> {
    let fields = &call.args[2..];
    let hash = call.engine.keys.read_as::<Hash>(call.arg(1))?;
    call.reply.array(fields.len());
    for field in fields {
        bulk_or_null(call.reply, hash.and_then(|hash| hash.get(field)).as_deref());
    }
    Ok(())
}

fn hmset(call: &mut Call<'_>) -> Result<(), Stop> {
    set_pairs(call)?;
    call.reply.ok();
    Ok(())
}

fn hpersist(call: &mut Call<'_>) -> Result<(), Stop> {
    let fields = field_list(call, 2, FIELD_COUNT)?;
    let outcomes = call.engine.keys.update(call.arg(1), |hash: &mut Hash| {
        let outcomes: Vec<i64> = fields.iter().map(|field| persist(hash, field)).collect();
        let any = outcomes.contains(&1);
        (outcomes, any.then_some(Event::hash("hpersist")))
    })?;
    answer_outcomes(call.reply, outcomes, fields.len());
    Ok(())
}

fn persist(hash: &mut Hash, field: &[u8]) -> i64 {
    match (hash.contains(field), hash.persist(field)) {
        (false, _) => NO_FIELD,
        (true, false) => NO_DEADLINE,
        (true, true) => 1,
    }
}

fn hpexpire(call: &mut Call<'_>) -> Result<(), Stop> {
    expire_fields(call, Unit::Milliseconds, Origin::Now)
}

fn hpexpireat(call: &mut Call<'_>) -> Result<(), Stop> {
    expire_fields(call, Unit::Milliseconds, Origin::Epoch)
}

fn hpexpiretime(call: &mut Call<'_>) -> Result<(), Stop> {
    tell_deadlines(call, |deadline, _| deadline)
}

fn hpttl(call: &mut Call<'_>) -> Result<(), Stop> {
    tell_deadlines(call, u64::saturating_sub)
}

fn hrandfield(call: &mut Call<'_>) -> Result<(), Stop> {
    if call.args.len() == 2 {
        return one_random_field(call);
    }
    let count = draws::count(call.arg(2))?;
    let mut options = call.options(3);
    let values = options.take("WITHVALUES");
    if !options.is_empty() {
        return Err(Error::SYNTAX.into());
    }
    if values {
        draws::check_pairs(count)?;
    }
    let Engine { keys, random, .. } = &mut *call.engine;
    let Some(hash) = keys.read_as::<Hash>(call.args[1])? else {
        call.reply.array(0);
        return Ok(());
    };
    let places = draws::places(random, count, hash.len())?;
    let nested = values && call.reply.protocol() == Protocol::Resp3;
    call.reply
        .array(places.len() * if values && !nested { 2 } else { 1 });
    for (field, value) in places.into_iter().filter_map(|place| hash.pick(place)) {
        if nested {
            call.reply.array(2);
        }
        call.reply.bulk(&field);
        if values {
            call.reply.bulk(&value);
        }
    }
    Ok(())
}

fn one_random_field(call: &mut Call<'_>) -> Result<(), Stop> {
    let Engine { keys, random, .. } = &mut *call.engine;
    let hash = keys.read_as::<Hash>(call.args[1])?;
    let drawn = hash.and_then(|hash| hash.pick(random.below(hash.len())));
    bulk_or_null(call.reply, drawn.map(|(field, _)| field).as_deref());
    Ok(())
}

fn hscan(call: &mut Call<'_>) -> Result<(), Stop> {
    let cursor = scan_cursor(call.arg(2))?;
    let options = ScanOptions::parse(call.options(3), Scanned::Hash);
    let mut found = Vec::new();
    let Some(hash) = call.engine.keys.read_as::<Hash>(call.args[1])? else {
        return scanning::answer(call.reply, 0, &found);
    };
    let options = options?;
    let next = hash.scan(cursor, options.count, |field, value| {
        if options.wants(&field) {
            found.push(field);
            if !options.no_values {
                found.push(value);
            }
        }
    });
    scanning::answer(call.reply, next, &found)
}

fn hset(call: &mut Call<'_>) -> Result<(), Stop> {
    let new = set_pairs(call)?;
    call.reply.integer(new as i64);
    Ok(())
}

fn set_pairs(call: &mut Call<'_>) -> Result<usize, Error> {
    let (pairs, limits) = (&call.args[2..], call.engine.config.hot.limits);
    if !pairs.len().is_multiple_of(2) {
        return Err(call.wrong_arity());
    }
    call.engine.keys.upsert(call.arg(1), |hash: &mut Hash| {
        (
            assign(hash, pairs, limits, Hash::set),
            Some(Event::hash("hset")),
        )
    })
}

/// Gives fields values, in the encoding that suits all of them. Returns how many are new.
fn assign(
    hash: &mut Hash,
    pairs: &[&[u8]],
    limits: Limits,
    set: impl Fn(&mut Hash, &[u8], &[u8], Limits) -> bool,
) -> usize {
    let longest = pairs.iter().map(|text| text.len()).max().unwrap_or(0);
    hash.expect(pairs.len() / 2, longest, limits);
    set_each(hash, pairs, limits, set)
}

fn set_each(
    hash: &mut Hash,
    pairs: &[&[u8]],
    limits: Limits,
    set: impl Fn(&mut Hash, &[u8], &[u8], Limits) -> bool,
) -> usize {
    pairs
        .chunks_exact(2)
        .filter(|pair| set(hash, pair[0], pair[1], limits))
        .count()
}

fn hsetex(call: &mut Call<'_>) -> Result<(), Stop> {
    let (options, pairs) = FieldOptions::parse(call, FieldOptions::WRITING, 2)?;
    let (key, now) = (call.arg(1), call.now_ms());
    let limits = call.engine.config.hot.limits;
    let hash = call.engine.keys.read_as::<Hash>(key)?;
    if options
        .key_exists
        .is_some_and(|wanted| wanted != hash.is_some())
    {
        call.reply.integer(0);
        return Ok(());
    }
    let change = options.expiry(call.command, now)?;
    let fields = || pairs.chunks_exact(2).map(|pair| pair[0]);
    let there = |field| hash.is_some_and(|hash| hash.contains(field));
    if options
        .fields_exist
        .is_some_and(|wanted| fields().any(|field| there(field) != wanted))
    {
        call.reply.integer(0);
        return Ok(());
    }
    let set = if change == Some(Retime::Keep) {
        Hash::update
    } else {
        Hash::set
    };
    let keys = &mut call.engine.keys;
    match change {
        Some(Retime::At(deadline)) if deadline <= now => set_in_the_past(keys, key, fields())?,
        _ => keys.upsert(key, |hash: &mut Hash| {
            set_each(hash, pairs, limits, set);
            for field in fields() {
                retime(hash, field, change, now);
            }
            ((), Some(Event::hash("hset")))
        })?,
    }
    if let Some(Retime::At(deadline)) = change
        && deadline > now
    {
        keys.announce(key, Event::hash("hexpire"));
    }
    call.reply.integer(1);
    Ok(())
}

/// Sets fields whose time is over already: all is told as if they had been there, but only those
/// that were are gone now.
fn set_in_the_past<'a>(
    keys: &mut Keyspace,
    key: &[u8],
    fields: impl Iterator<Item = &'a [u8]>,
) -> Result<(), Error> {
    keys.announce(key, Event::hash("hset"));
    keys.announce(key, Event::hash("hexpire"));
    let removed = keys.update(key, |hash: &mut Hash| {
        let removed = fields.filter(|field| hash.remove(field).is_some()).count();
        (removed, (removed > 0).then_some(Event::HEXPIRED))
    })?;
    if removed.unwrap_or(0) == 0 {
        keys.announce(key, Event::HEXPIRED);
    }
    if removed.is_none() {
        keys.announce(key, Event::generic("del"));
    }
    Ok(())
}

fn hsetnx(call: &mut Call<'_>) -> Result<(), Stop> {
    let (field, value, limits) = (call.arg(2), call.arg(3), call.engine.config.hot.limits);
    let set = call.engine.keys.upsert(call.arg(1), |hash: &mut Hash| {
        let free = !hash.contains(field);
        if free {
            hash.set(field, value, limits);
        }
        (free, free.then_some(Event::hash("hset")))
    })?;
    call.reply.integer(i64::from(set));
    Ok(())
}

fn hstrlen(call: &mut Call<'_>) -> Result<(), Stop> {
    let hash = call.engine.keys.read_as::<Hash>(call.arg(1))?;
    let len = hash
        .and_then(|hash| hash.get(call.args[2]))
        .map_or(0, |value| value.len());
    call.reply.integer(len as i64);
    Ok(())
}

fn httl(call: &mut Call<'_>) -> Result<(), Stop> {
    tell_deadlines(call, |deadline, now| {
        (deadline.saturating_sub(now) + 500) / 1000
    })
}

fn hvals(call: &mut Call<'_>) -> Result<(), Stop> {
    tell_all(call, |(_, value)| value)
}

fn tell_all(
    call: &mut Call<'_>,
    choose: impl for<'a> Fn((Item<'a>, Item<'a>)) -> Item<'a>,
) -> Result<(), Stop> {
    let Some(hash) = call.engine.keys.read_as::<Hash>(call.arg(1))? else {
        call.reply.array(0);
        return Ok(());
    };
    call.reply.array(hash.len());
    for pair in hash {
        call.reply.bulk(&choose(pair));
    }
    Ok(())
}

fn bulk_or_null(reply: &mut dyn Reply, value: Option<&[u8]>) {
    match value {
        Some(value) => reply.bulk(value),
        None => reply.null(),
    }
}
