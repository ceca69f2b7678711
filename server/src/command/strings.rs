//! Strings: values, counters, ranges, and the conditional writes that locks are made of.

use std::borrow::Cow;

use super::*;
use crate::{
    bytestr::ByteStr,
    command::spec::{Categories, Flags, KeySpec},
    extended::Extended,
    keyspace::{Event, Keyspace, Ttl},
    lcs,
    value::{StringValue, Value},
};

pub const COMMANDS: &[Command] = &[
    Command {
        name: "append",
        arity: 3,
        flags: Flags::of([Flags::WRITE, Flags::DENYOOM, Flags::FAST]),
        categories: Categories::STRING,
        keys: &[KeySpec::one("RW insert", 1)],
        group: "string",
        since: "2.0.0",
        summary: "Adds bytes at the end of a string, created if missing.",
        complexity: "O(1) amortised",
        args: "key:key value:string",
        handler: append,
        ..Command::BASE
    },
    Command {
        name: "decr",
        arity: 2,
        flags: Flags::of([Flags::WRITE, Flags::DENYOOM, Flags::FAST]),
        categories: Categories::STRING,
        keys: &[KeySpec::one("RW access update", 1)],
        group: "string",
        summary: "Lowers an integer by one.",
        args: "key:key",
        handler: decr,
        ..Command::BASE
    },
    Command {
        name: "decrby",
        arity: 3,
        flags: Flags::of([Flags::WRITE, Flags::DENYOOM, Flags::FAST]),
        categories: Categories::STRING,
        keys: &[KeySpec::one("RW access update", 1)],
        group: "string",
        summary: "Lowers an integer by a given amount.",
        args: "key:key decrement:integer",
        handler: decrby,
        ..Command::BASE
    },
    Command {
        name: "delex",
        arity: -2,
        flags: Flags::of([Flags::WRITE, Flags::FAST]),
        categories: Categories::STRING,
        keys: &[KeySpec::one("RW delete variable_flags", 1)
            .noted("reads the key too, with a condition")],
        group: "string",
        since: "8.4.0",
        summary: "Deletes a key, if asked only when its value or digest is or is not the given \
            one.",
        complexity: "O(1), O(N) for digests where N is the length of the value",
        args: "key:key [condition<IFEQ@ifeq-value:string|IFNE@ifne-value:string|\
            IFDEQ@ifdeq-digest:string|IFDNE@ifdne-digest:string>]",
        handler: delex,
        ..Command::BASE
    },
    Command {
        name: "delifeq",
        arity: 3,
        flags: Flags::of([Flags::WRITE, Flags::FAST]),
        categories: Categories::STRING,
        keys: &[KeySpec::one("RM delete", 1)],
        group: "string",
        since: "9.0.0",
        summary: "Deletes a string key if it holds the given value.",
        args: "key:key value:string",
        handler: delifeq,
        ..Command::BASE
    },
    Command {
        name: "digest",
        arity: 2,
        flags: Flags::of([Flags::READONLY, Flags::FAST]),
        categories: Categories::STRING,
        keys: &[KeySpec::one("RO access", 1)],
        group: "string",
        since: "8.4.0",
        summary: "Returns the hexadecimal XXH3 digest of a string.",
        complexity: "O(N) where N is the length of the string",
        args: "key:key",
        handler: digest,
        ..Command::BASE
    },
    Command {
        name: "get",
        arity: 2,
        flags: Flags::of([Flags::READONLY, Flags::FAST]),
        categories: Categories::STRING,
        keys: &[KeySpec::one("RO access", 1)],
        group: "string",
        summary: "Returns the string at a key.",
        args: "key:key",
        handler: get,
        ..Command::BASE
    },
    Command {
        name: "getdel",
        arity: 2,
        flags: Flags::of([Flags::WRITE, Flags::FAST]),
        categories: Categories::STRING,
        keys: &[KeySpec::one("RW access delete", 1)],
        group: "string",
        since: "6.2.0",
        summary: "Returns the string at a key and deletes the key.",
        args: "key:key",
        handler: getdel,
        ..Command::BASE
    },
    Command {
        name: "getex",
        arity: -2,
        flags: Flags::of([Flags::WRITE, Flags::FAST]),
        categories: Categories::STRING,
        keys: &[KeySpec::one("RW access update", 1).noted("changes the deadline")],
        group: "string",
        since: "6.2.0",
        summary: "Returns the string at a key and changes or removes its deadline.",
        args: "key:key [expiration<EX@seconds:integer|PX@milliseconds:integer|\
            EXAT@unix-time-seconds:unix-time|PXAT@unix-time-milliseconds:unix-time|PERSIST>]",
        handler: getex,
        ..Command::BASE
    },
    Command {
        name: "getrange",
        arity: 4,
        flags: Flags::READONLY,
        categories: Categories::STRING,
        keys: &[KeySpec::one("RO access", 1)],
        group: "string",
        since: "2.4.0",
        summary: "Returns the part of a string between two offsets.",
        complexity: "O(N) where N is the length of the part",
        args: "key:key start:integer end:integer",
        handler: getrange,
        ..Command::BASE
    },
    Command {
        name: "getset",
        arity: 3,
        flags: Flags::of([Flags::WRITE, Flags::DENYOOM, Flags::FAST]),
        categories: Categories::STRING,
        keys: &[KeySpec::one("RW access update", 1)],
        group: "string",
        summary: "Sets a string and returns what the key held before.",
        args: "key:key value:string",
        handler: getset,
        ..Command::BASE
    },
    Command {
        name: "incr",
        arity: 2,
        flags: Flags::of([Flags::WRITE, Flags::DENYOOM, Flags::FAST]),
        categories: Categories::STRING,
        keys: &[KeySpec::one("RW access update", 1)],
        group: "string",
        summary: "Raises an integer by one.",
        args: "key:key",
        handler: incr,
        ..Command::BASE
    },
    Command {
        name: "incrby",
        arity: 3,
        flags: Flags::of([Flags::WRITE, Flags::DENYOOM, Flags::FAST]),
        categories: Categories::STRING,
        keys: &[KeySpec::one("RW access update", 1)],
        group: "string",
        summary: "Raises an integer by a given amount.",
        args: "key:key increment:integer",
        handler: incrby,
        ..Command::BASE
    },
    Command {
        name: "incrbyfloat",
        arity: 3,
        flags: Flags::of([Flags::WRITE, Flags::DENYOOM, Flags::FAST]),
        categories: Categories::STRING,
        keys: &[KeySpec::one("RW access update", 1)],
        group: "string",
        since: "2.6.0",
        summary: "Raises a number by a given fractional amount.",
        args: "key:key increment:double",
        handler: incrbyfloat,
        ..Command::BASE
    },
    Command {
        name: "lcs",
        arity: -3,
        flags: Flags::READONLY,
        categories: Categories::STRING,
        keys: &[KeySpec::range("RO access", 1, 1, 1)],
        group: "string",
        since: "7.0.0",
        summary: "Finds the longest common subsequence of two strings.",
        complexity: "O(N*M) where N and M are the lengths of the strings",
        args: "key1:key key2:key [LEN] [IDX] [MINMATCHLEN@min-match-len:integer] [WITHMATCHLEN]",
        handler: lcs,
        ..Command::BASE
    },
    Command {
        name: "mget",
        arity: -2,
        flags: Flags::of([Flags::READONLY, Flags::FAST]),
        categories: Categories::STRING,
        keys: &[KeySpec::range("RO access", 1, -1, 1)],
        tips: &["request_policy:multi_shard"],
        group: "string",
        summary: "Returns the strings at several keys.",
        complexity: "O(N) where N is the number of keys",
        args: "key:key...",
        handler: mget,
        ..Command::BASE
    },
    Command {
        name: "mset",
        arity: -3,
        flags: Flags::of([Flags::WRITE, Flags::DENYOOM]),
        categories: Categories::STRING,
        keys: &[KeySpec::range("OW update", 1, -1, 2)],
        tips: &[
            "request_policy:multi_shard",
            "response_policy:all_succeeded",
        ],
        group: "string",
        since: "1.0.1",
        summary: "Sets several keys at once.",
        complexity: "O(N) where N is the number of keys",
        args: "data(key:key value:string)...",
        handler: mset,
        ..Command::BASE
    },
    Command {
        name: "msetex",
        arity: -4,
        flags: Flags::of([Flags::WRITE, Flags::DENYOOM, Flags::MOVABLEKEYS]),
        categories: Categories::STRING,
        keys: &[KeySpec {
            flags: "OW update",
            notes: "",
            begin: Begin::Index(1),
            find: Find::Counted {
                at: 0,
                first: 1,
                step: 2,
            },
        }],
        tips: &[
            "request_policy:multi_shard",
            "response_policy:all_succeeded",
        ],
        group: "string",
        since: "9.1.0",
        summary: "Sets several keys at once, with a condition and a deadline if asked.",
        complexity: "O(N) where N is the number of keys",
        args: "numkeys:integer data(key:key value:string)... [condition<NX|XX>] \
            [expiration<EX@seconds:integer|PX@milliseconds:integer|\
            EXAT@unix-time-seconds:unix-time|PXAT@unix-time-milliseconds:unix-time|KEEPTTL>]",
        handler: msetex,
        ..Command::BASE
    },
    Command {
        name: "msetnx",
        arity: -3,
        flags: Flags::of([Flags::WRITE, Flags::DENYOOM]),
        categories: Categories::STRING,
        keys: &[KeySpec::range("OW insert", 1, -1, 2)],
        group: "string",
        since: "1.0.1",
        summary: "Sets several keys at once, unless one of them exists.",
        complexity: "O(N) where N is the number of keys",
        args: "data(key:key value:string)...",
        handler: msetnx,
        ..Command::BASE
    },
    Command {
        name: "psetex",
        arity: 4,
        flags: Flags::of([Flags::WRITE, Flags::DENYOOM]),
        categories: Categories::STRING,
        keys: &[KeySpec::one("OW update", 1)],
        group: "string",
        since: "2.6.0",
        summary: "Sets a string with a time to live in milliseconds.",
        args: "key:key milliseconds:integer value:string",
        handler: psetex,
        ..Command::BASE
    },
    Command {
        name: "set",
        arity: -3,
        flags: Flags::of([Flags::WRITE, Flags::DENYOOM]),
        categories: Categories::STRING,
        keys: &[KeySpec::one("RW access update variable_flags", 1)
            .noted("reads the key too, with GET or a condition")],
        group: "string",
        history: &[
            ("2.6.12", "Knows `EX`, `PX`, `NX` and `XX`."),
            ("6.0.0", "Knows `KEEPTTL`."),
            ("6.2.0", "Knows `GET`, `EXAT` and `PXAT`."),
            ("7.0.0", "Takes `NX` and `GET` together."),
            ("8.1.0", "Knows `IFEQ`."),
        ],
        summary: "Sets a string, with a condition and a deadline if asked.",
        args: "key:key value:string [condition<NX{2.6.12}|XX{2.6.12}|\
               IFEQ@comparison-value:string{8.1.0}|IFNE@comparison-value:string|\
               IFDEQ@comparison-digest:string|IFDNE@comparison-digest:string>] [GET{6.2.0}] \
               [expiration<EX@seconds:integer{2.6.12}|PX@milliseconds:integer{2.6.12}|\
               EXAT@unix-time-seconds:unix-time{6.2.0}|\
               PXAT@unix-time-milliseconds:unix-time{6.2.0}|KEEPTTL{6.0.0}>]",
        handler: set,
        ..Command::BASE
    },
    Command {
        name: "setex",
        arity: 4,
        flags: Flags::of([Flags::WRITE, Flags::DENYOOM]),
        categories: Categories::STRING,
        keys: &[KeySpec::one("OW update", 1)],
        group: "string",
        since: "2.0.0",
        summary: "Sets a string with a time to live in seconds.",
        args: "key:key seconds:integer value:string",
        handler: setex,
        ..Command::BASE
    },
    Command {
        name: "setnx",
        arity: 3,
        flags: Flags::of([Flags::WRITE, Flags::DENYOOM, Flags::FAST]),
        categories: Categories::STRING,
        keys: &[KeySpec::one("OW insert", 1)],
        group: "string",
        summary: "Sets a string unless the key exists.",
        args: "key:key value:string",
        handler: setnx,
        ..Command::BASE
    },
    Command {
        name: "setrange",
        arity: 4,
        flags: Flags::of([Flags::WRITE, Flags::DENYOOM]),
        categories: Categories::STRING,
        keys: &[KeySpec::one("RW update", 1)],
        group: "string",
        since: "2.2.0",
        summary: "Overwrites part of a string from an offset on.",
        complexity: "O(M) where M is the length of the new part",
        args: "key:key offset:integer value:string",
        handler: setrange,
        ..Command::BASE
    },
    Command {
        name: "strlen",
        arity: 2,
        flags: Flags::of([Flags::READONLY, Flags::FAST]),
        categories: Categories::STRING,
        keys: &[KeySpec::one("RO", 1)],
        group: "string",
        since: "2.2.0",
        summary: "Returns the length of a string in bytes.",
        args: "key:key",
        handler: strlen,
        ..Command::BASE
    },
    Command {
        name: "substr",
        arity: 4,
        flags: Flags::READONLY,
        categories: Categories::STRING,
        keys: &[KeySpec::one("RO access", 1)],
        group: "string",
        summary: "Returns the part of a string between two offsets, as GETRANGE does.",
        complexity: "O(N) where N is the length of the part",
        args: "key:key start:integer end:integer",
        handler: substr,
        ..Command::BASE
    },
];

const SET: Event = Event::string("set");
const EXPIRE: Event = Event::generic("expire");
const DEL: Event = Event::generic("del");
const OVERFLOW: Error = Error::text("ERR increment or decrement would overflow");

// ---- Whole values ----

fn append(call: &mut Call<'_>) -> Result<(), Stop> {
    let (key, suffix) = (call.arg(1), call.arg(2));
    let old_len = call
        .engine
        .keys
        .read_as::<StringValue>(key)?
        .map(StringValue::len);
    let len = match old_len {
        None => {
            call.engine.keys.put(
                key,
                Value::string(suffix),
                Ttl::Clear,
                Event::string("append"),
            );
            suffix.len()
        }
        Some(old_len) => {
            check_len(call.engine, old_len, suffix.len())?;
            let grown = call.engine.keys.update(key, |value: &mut StringValue| {
                let buffer = value.buffer();
                buffer.extend_from_slice(suffix);
                (buffer.len(), Some(Event::string("append")))
            })?;
            grown.unwrap_or_default()
        }
    };
    call.reply.integer(len as i64);
    Ok(())
}

fn decr(call: &mut Call<'_>) -> Result<(), Stop> {
    add(call, -1)
}

fn decrby(call: &mut Call<'_>) -> Result<(), Stop> {
    let by = call.int(2)?;
    let by = by
        .checked_neg()
        .ok_or(Error::text("ERR decrement would overflow"))?;
    add(call, by)
}

fn delex(call: &mut Call<'_>) -> Result<(), Stop> {
    let mut options = call.options(2);
    let condition = match options.next() {
        None => Condition::Always,
        Some(word) => {
            let given = options.next().ok_or_else(|| call.wrong_arity())?;
            Condition::comparing(word, given)?.ok_or(Error::SYNTAX)?
        }
    };
    if !options.is_empty() {
        return Err(call.wrong_arity().into());
    }
    delete_if(call, condition)
}

fn delifeq(call: &mut Call<'_>) -> Result<(), Stop> {
    delete_if(call, Condition::Equals(call.arg(2)))
}

fn delete_if(call: &mut Call<'_>, condition: Condition<'_>) -> Result<(), Stop> {
    let key = call.arg(1);
    let holds = match condition {
        Condition::Always => true,
        _ => match call.engine.keys.read_as::<StringValue>(key)? {
            Some(value) => condition.holds(Some(value)),
            None => false,
        },
    };
    let deleted = holds && call.engine.keys.delete(key, DEL);
    call.reply.integer(i64::from(deleted));
    Ok(())
}

fn digest(call: &mut Call<'_>) -> Result<(), Stop> {
    match call.engine.keys.read_as::<StringValue>(call.arg(1))? {
        Some(value) => call.reply.bulk(digest_of(value).as_bytes()),
        None => call.reply.null(),
    }
    Ok(())
}

/// The digest by which conditions compare large values without sending them: XXH3, 64 bits.
fn digest_of(value: &StringValue) -> String {
    format!("{:016x}", value.with_bytes(xxhash_rust::xxh3::xxh3_64))
}

fn get(call: &mut Call<'_>) -> Result<(), Stop> {
    match call.engine.keys.read_as::<StringValue>(call.arg(1))? {
        Some(value) => value.with_bytes(|bytes| call.reply.bulk(bytes)),
        None => call.reply.null(),
    }
    Ok(())
}

fn getdel(call: &mut Call<'_>) -> Result<(), Stop> {
    get(call)?;
    call.engine.keys.delete(call.arg(1), DEL);
    Ok(())
}

fn getex(call: &mut Call<'_>) -> Result<(), Stop> {
    let mut options = call.options(2);
    let mut ttl = None;
    while !options.is_empty() {
        let persist = options.take("PERSIST");
        if persist && ttl.is_some_and(|ttl| !matches!(ttl, Expiry::Persist)) {
            return Err(Error::SYNTAX.into());
        }
        let new = if persist {
            Expiry::Persist
        } else {
            take_expiry(&mut options, ttl)?
        };
        ttl = Some(new);
    }
    let ttl = ttl.map(|ttl| ttl.deadline(call)).transpose()?;
    get(call)?;
    let (key, now) = (call.arg(1), call.now_ms());
    let keys = &mut call.engine.keys;
    match (ttl, keys.deadline(key)) {
        (None, _) | (_, None) | (Some(None), Some(None)) => {}
        (Some(None), Some(Some(_))) => {
            keys.set_deadline(key, None, Event::generic("persist"));
        }
        (Some(Some(at)), Some(_)) if at <= now => {
            keys.expire_at_once(key);
        }
        (Some(at), Some(_)) => {
            keys.set_deadline(key, at, EXPIRE);
        }
    }
    Ok(())
}

fn getrange(call: &mut Call<'_>) -> Result<(), Stop> {
    let (start, end) = (call.int(2)?, call.int(3)?);
    let Some(value) = call.engine.keys.read_as::<StringValue>(call.arg(1))? else {
        call.reply.bulk(b"");
        return Ok(());
    };
    value.with_bytes(|bytes| call.reply.bulk(slice(bytes, start, end)));
    Ok(())
}

/// The bytes from `start` to `end`, both included; negative positions count from the end.
fn slice(bytes: &[u8], start: i64, end: i64) -> &[u8] {
    let len = bytes.len() as i64;
    let from_end = |at: i64| if at < 0 { at.saturating_add(len) } else { at };
    if start < 0 && end < 0 && start > end {
        return b"";
    }
    let start = from_end(start).max(0);
    let end = from_end(end).max(0).min(len - 1);
    if start > end {
        b""
    } else {
        &bytes[start as usize..=end as usize]
    }
}

fn getset(call: &mut Call<'_>) -> Result<(), Stop> {
    get(call)?;
    call.engine
        .keys
        .put(call.arg(1), Value::string(call.arg(2)), Ttl::Clear, SET);
    Ok(())
}

// ---- Counters ----

fn incr(call: &mut Call<'_>) -> Result<(), Stop> {
    add(call, 1)
}

fn incrby(call: &mut Call<'_>) -> Result<(), Stop> {
    let by = call.int(2)?;
    add(call, by)
}

/// Subscribers hear `incrby` of a subtraction too.
fn add(call: &mut Call<'_>, by: i64) -> Result<(), Stop> {
    let key = call.arg(1);
    let old = match call.engine.keys.read_as::<StringValue>(key)? {
        Some(value) => value.integer().ok_or(Error::NOT_AN_INTEGER)?,
        None => 0,
    };
    let new = old.checked_add(by).ok_or(OVERFLOW)?;
    let value = Value::String(StringValue::Int(new));
    call.engine
        .keys
        .put(key, value, Ttl::Keep, Event::string("incrby"));
    call.reply.integer(new);
    Ok(())
}

fn incrbyfloat(call: &mut Call<'_>) -> Result<(), Stop> {
    let key = call.arg(1);
    let old = match call.engine.keys.read_as::<StringValue>(key)? {
        Some(value) => value
            .with_bytes(Extended::parse)
            .ok_or(Error::NOT_A_FLOAT)?,
        None => Extended::ZERO,
    };
    let by = Extended::parse(call.arg(2)).ok_or(Error::NOT_A_FLOAT)?;
    let sum = old.add(by).filter(Extended::is_finite);
    let sum = sum.ok_or(Error::text("ERR increment would produce NaN or Infinity"))?;
    let text = sum.to_text();
    let event = Event::string("incrbyfloat");
    // Even a whole number is kept as text, as OBJECT ENCODING shows.
    let value = Value::String(StringValue::Fixed(ByteStr::new(text.as_bytes())));
    call.engine.keys.put(key, value, Ttl::Keep, event);
    call.reply.bulk(text.as_bytes());
    Ok(())
}

// ---- The longest common subsequence ----

fn lcs(call: &mut Call<'_>) -> Result<(), Stop> {
    let one = lcs_operand(call, 1)?;
    let other = lcs_operand(call, 2)?;
    let mut options = call.options(3);
    let (mut len_only, mut index, mut with_len, mut min_len) = (false, false, false, 0);
    while !options.is_empty() {
        if options.take("IDX") {
            index = true;
        } else if options.take("LEN") {
            len_only = true;
        } else if options.take("WITHMATCHLEN") {
            with_len = true;
        } else if options.take("MINMATCHLEN") {
            min_len = options.int()?.max(0);
        } else {
            return Err(Error::SYNTAX.into());
        }
    }
    if len_only && index {
        const BOTH: Error =
            Error::text("ERR If you want both the length and indexes, please just use IDX.");
        return Err(BOTH.into());
    }
    let found = lcs::find(&one, &other, call.engine.config.hot.bulk_len_max as usize)?;
    if len_only {
        call.reply.integer(found.len() as i64);
    } else if index {
        reply_matches(call.reply, &found, min_len, with_len);
    } else {
        let text: Vec<u8> = found.text(&one);
        call.reply.bulk(&text);
    }
    Ok(())
}

fn lcs_operand(call: &mut Call<'_>, index: usize) -> Result<Vec<u8>, Error> {
    const NOT_STRINGS: Error = Error::text("ERR The specified keys must contain string values");
    let value = call.engine.keys.read_as::<StringValue>(call.arg(index));
    let value = value.map_err(|_| NOT_STRINGS)?;
    Ok(value
        .map(StringValue::bytes)
        .map(Cow::into_owned)
        .unwrap_or_default())
}

fn reply_matches(reply: &mut dyn Reply, found: &lcs::Found, min_len: i64, with_len: bool) {
    let matches: Vec<&lcs::Match> = found
        .matches()
        .iter()
        .filter(|found| found.len as i64 >= min_len)
        .collect();
    reply.map(2);
    reply.bulk(b"matches");
    reply.array(matches.len());
    for found in matches {
        reply.array(2 + usize::from(with_len));
        for start in [found.one, found.other] {
            reply.array(2);
            reply.integer(start as i64);
            reply.integer((start + found.len - 1) as i64);
        }
        if with_len {
            reply.integer(found.len as i64);
        }
    }
    reply.bulk(b"len");
    reply.integer(found.len() as i64);
}

// ---- Many keys at once ----

fn mget(call: &mut Call<'_>) -> Result<(), Stop> {
    call.reply.array(call.args.len() - 1);
    for key in &call.args[1..] {
        match call.engine.keys.read_as::<StringValue>(key) {
            Ok(Some(value)) => value.with_bytes(|bytes| call.reply.bulk(bytes)),
            _ => call.reply.null(),
        }
    }
    Ok(())
}

fn mset(call: &mut Call<'_>) -> Result<(), Stop> {
    let pairs = pairs(call, 1)?;
    set_all(&mut call.engine.keys, pairs, Ttl::Clear);
    call.reply.ok();
    Ok(())
}

fn msetex(call: &mut Call<'_>) -> Result<(), Stop> {
    const BAD_COUNT: Error = Error::text("ERR invalid numkeys value or out of range");
    let count =
        number::parse_i64(call.arg(1)).filter(|count| (1..i64::from(i32::MAX)).contains(count));
    let end = 2 + count.ok_or(BAD_COUNT)? as usize * 2;
    let pairs = call.args.get(2..end).ok_or(Error::SYNTAX)?;
    let write = Write::parse(call.options(end), Allowed::MSETEX)?;
    let ttl = write.ttl(call)?;
    let keys = &mut call.engine.keys;
    let wanted = !matches!(write.condition, Condition::Missing);
    let blocked = !matches!(write.condition, Condition::Always)
        && pairs
            .chunks_exact(2)
            .any(|pair| keys.exists(pair[0]) != wanted);
    if !blocked {
        set_all(keys, pairs, ttl);
    }
    call.reply.integer(i64::from(!blocked));
    Ok(())
}

fn msetnx(call: &mut Call<'_>) -> Result<(), Stop> {
    let pairs = pairs(call, 1)?;
    let keys = &mut call.engine.keys;
    let free = !pairs.chunks_exact(2).any(|pair| keys.exists(pair[0]));
    if free {
        set_all(keys, pairs, Ttl::Clear);
    }
    call.reply.integer(i64::from(free));
    Ok(())
}

fn pairs<'a>(call: &Call<'a>, from: usize) -> Result<&'a [&'a [u8]], Error> {
    let pairs = call.options(from).rest();
    if pairs.len().is_multiple_of(2) {
        Ok(pairs)
    } else {
        Err(call.wrong_arity())
    }
}

fn set_all(keys: &mut Keyspace, pairs: &[&[u8]], ttl: Ttl) {
    for pair in pairs.chunks_exact(2) {
        store_anyway(keys, pair[0], pair[1], ttl);
    }
}

/// Stores a string, which is gone at the next look if its deadline has passed already.
fn store_anyway(keys: &mut Keyspace, key: &[u8], value: &[u8], ttl: Ttl) {
    keys.put(key, Value::string(value), ttl, SET);
    if matches!(ttl, Ttl::At(_)) {
        keys.announce(key, EXPIRE);
    }
}

/// Stores a string; a deadline that has passed already deletes the key instead.
fn store(keys: &mut Keyspace, key: &[u8], value: &[u8], ttl: Ttl) {
    store_if(keys, None, key, value, ttl);
}

/// As `store`, only if the key is there or is missing, as asked. Tells whether it did.
fn store_if(
    keys: &mut Keyspace,
    present: Option<bool>,
    key: &[u8],
    value: &[u8],
    ttl: Ttl,
) -> bool {
    if matches!(ttl, Ttl::At(at) if at <= keys.now().millis()) {
        let wanted = present.is_none_or(|present| keys.exists(key) == present);
        if wanted {
            keys.expire_at_once(key);
        }
        return wanted;
    }
    let Some(present) = present else {
        store_anyway(keys, key, value, ttl);
        return true;
    };
    let stored = keys.put_if(present, key, || Value::string(value), ttl, SET);
    if stored && matches!(ttl, Ttl::At(_)) {
        keys.announce(key, EXPIRE);
    }
    stored
}

// ---- SET and its kin ----

fn psetex(call: &mut Call<'_>) -> Result<(), Stop> {
    set_with_ttl(call, Unit::Millis)
}

fn set(call: &mut Call<'_>) -> Result<(), Stop> {
    let write = Write::parse(call.options(3), Allowed::SET)?;
    let ttl = write.ttl(call)?;
    let (key, value) = (call.arg(1), call.arg(2));
    if !write.get && !write.condition.compares() {
        let present = match write.condition {
            Condition::Missing => Some(false),
            Condition::Exists => Some(true),
            _ => None,
        };
        if store_if(&mut call.engine.keys, present, key, value, ttl) {
            call.reply.ok();
        } else {
            call.reply.null();
        }
        return Ok(());
    }
    let old = call.engine.keys.read_as::<StringValue>(key)?;
    let holds = write.condition.holds(old);
    match (write.get, old) {
        (true, Some(old)) => old.with_bytes(|bytes| call.reply.bulk(bytes)),
        (false, _) if holds => call.reply.ok(),
        _ => call.reply.null(),
    }
    if holds {
        store(&mut call.engine.keys, key, value, ttl);
    }
    Ok(())
}

fn setex(call: &mut Call<'_>) -> Result<(), Stop> {
    set_with_ttl(call, Unit::Seconds)
}

fn set_with_ttl(call: &mut Call<'_>, unit: Unit) -> Result<(), Stop> {
    let expiry = Expiry::In(call.arg(2), unit);
    let ttl = expiry.deadline(call)?.map_or(Ttl::Clear, Ttl::At);
    let (key, value) = (call.arg(1), call.arg(3));
    store(&mut call.engine.keys, key, value, ttl);
    call.reply.ok();
    Ok(())
}

fn setnx(call: &mut Call<'_>) -> Result<(), Stop> {
    let (key, value) = (call.arg(1), call.arg(2));
    let stored = store_if(&mut call.engine.keys, Some(false), key, value, Ttl::Clear);
    call.reply.integer(i64::from(stored));
    Ok(())
}

fn setrange(call: &mut Call<'_>) -> Result<(), Stop> {
    let (key, offset, patch) = (call.arg(1), call.int(2)?, call.arg(3));
    let offset = usize::try_from(offset).map_err(|_| Error::text("ERR offset is out of range"))?;
    let old_len = call
        .engine
        .keys
        .read_as::<StringValue>(key)?
        .map_or(0, StringValue::len);
    if patch.is_empty() {
        call.reply.integer(old_len as i64);
        return Ok(());
    }
    check_len(call.engine, offset, patch.len())?;
    let len = call.engine.keys.upsert(key, |value: &mut StringValue| {
        let buffer = value.buffer();
        let end = offset + patch.len();
        if buffer.len() < end {
            buffer.resize(end, 0);
        }
        buffer[offset..end].copy_from_slice(patch);
        (buffer.len(), Some(Event::string("setrange")))
    })?;
    call.reply.integer(len as i64);
    Ok(())
}

fn strlen(call: &mut Call<'_>) -> Result<(), Stop> {
    let len = call
        .engine
        .keys
        .read_as::<StringValue>(call.arg(1))?
        .map_or(0, StringValue::len);
    call.reply.integer(len as i64);
    Ok(())
}

fn substr(call: &mut Call<'_>) -> Result<(), Stop> {
    getrange(call)
}

/// Refuses to let a string grow beyond `proto-max-bulk-len`.
pub fn check_len(engine: &Engine, offset: usize, more: usize) -> Result<(), Error> {
    const TOO_LONG: Error =
        Error::text("ERR string exceeds maximum allowed size (proto-max-bulk-len)");
    let max = engine.config.hot.bulk_len_max as usize;
    match offset.checked_add(more) {
        Some(len) if len <= max => Ok(()),
        _ => Err(TOO_LONG),
    }
}

// ---- Options of writes, read before any key is touched ----

/// When a write is to happen.
#[derive(Clone, Copy)]
enum Condition<'a> {
    Always,
    Missing,
    Exists,
    Equals(&'a [u8]),
    Differs(&'a [u8]),
    DigestEquals(&'a [u8]),
    DigestDiffers(&'a [u8]),
}

impl<'a> Condition<'a> {
    /// The condition that compares with what is stored, if the word is one; a digest has 16
    /// hexadecimal digits.
    fn comparing(word: &[u8], given: &'a [u8]) -> Result<Option<Condition<'a>>, Error> {
        const BAD_DIGEST: Error =
            Error::text("ERR digest must be exactly 16 hexadecimal characters");
        let condition = if is_word(word, "IFEQ") {
            Condition::Equals(given)
        } else if is_word(word, "IFNE") {
            Condition::Differs(given)
        } else if is_word(word, "IFDEQ") {
            Condition::DigestEquals(given)
        } else if is_word(word, "IFDNE") {
            Condition::DigestDiffers(given)
        } else {
            return Ok(None);
        };
        let by_digest = matches!(
            condition,
            Condition::DigestEquals(_) | Condition::DigestDiffers(_)
        );
        if by_digest && (given.len() != 16 || !given.iter().all(u8::is_ascii_hexdigit)) {
            return Err(BAD_DIGEST);
        }
        Ok(Some(condition))
    }

    fn compares(self) -> bool {
        !matches!(
            self,
            Condition::Always | Condition::Missing | Condition::Exists
        )
    }

    /// Does it hold for what is stored? A missing key equals nothing and differs from all.
    fn holds(self, stored: Option<&StringValue>) -> bool {
        let equals = |given: &[u8]| stored.is_some_and(|old| old.with_bytes(|old| old == given));
        let same_digest = |given: &[u8]| {
            stored.is_some_and(|old| digest_of(old).as_bytes().eq_ignore_ascii_case(given))
        };
        match self {
            Condition::Always => true,
            Condition::Missing => stored.is_none(),
            Condition::Exists => stored.is_some(),
            Condition::Equals(given) => equals(given),
            Condition::Differs(given) => !equals(given),
            Condition::DigestEquals(given) => same_digest(given),
            Condition::DigestDiffers(given) => !same_digest(given),
        }
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Unit {
    Seconds,
    Millis,
}

/// When a key is to expire, as the options say it: their number is read when all are known.
#[derive(Clone, Copy)]
enum Expiry<'a> {
    In(&'a [u8], Unit),
    At(&'a [u8], Unit),
    Persist,
}

impl Expiry<'_> {
    fn is_like(self, other: Expiry<'_>) -> bool {
        match (self, other) {
            (Expiry::In(_, unit), Expiry::In(_, other))
            | (Expiry::At(_, unit), Expiry::At(_, other)) => unit == other,
            _ => false,
        }
    }

    /// The deadline in milliseconds since 1970; `None` for none. What is not after 1970, or
    /// further than 64 bits reach, is refused.
    fn deadline(self, call: &Call<'_>) -> Result<Option<u64>, Error> {
        let (value, unit, base) = match self {
            Expiry::In(value, unit) => (value, unit, call.now_ms() as i64),
            Expiry::At(value, unit) => (value, unit, 0),
            Expiry::Persist => return Ok(None),
        };
        let value = number::parse_i64(value).ok_or(Error::NOT_AN_INTEGER)?;
        let factor = if unit == Unit::Seconds { 1000 } else { 1 };
        let at = value
            .checked_mul(factor)
            .and_then(|millis| millis.checked_add(base));
        match at {
            Some(at) if value > 0 && at > 0 => Ok(Some(at as u64)),
            _ => Err(Error::owned(format!(
                "ERR invalid expire time in '{}' command",
                call.command.name
            ))),
        }
    }
}

/// An expiry of a number in the unit that its word says.
type MakeExpiry = for<'a> fn(&'a [u8]) -> Expiry<'a>;

/// Takes one of the four words for an expiry with its number. A second one replaces the first,
/// if it is the same word; others exclude each other.
fn take_expiry<'a>(
    options: &mut Options<'a>,
    taken: Option<Expiry<'_>>,
) -> Result<Expiry<'a>, Error> {
    let kinds: [(&str, MakeExpiry); 4] = [
        ("EX", |value| Expiry::In(value, Unit::Seconds)),
        ("PX", |value| Expiry::In(value, Unit::Millis)),
        ("EXAT", |value| Expiry::At(value, Unit::Seconds)),
        ("PXAT", |value| Expiry::At(value, Unit::Millis)),
    ];
    for (word, expiry) in kinds {
        let free = taken.is_none_or(|taken| taken.is_like(expiry(b"")));
        if free && options.len() > 1 && options.take(word) {
            return Ok(expiry(options.value()?));
        }
    }
    Err(Error::SYNTAX)
}

/// Which options a command takes beside an expiry, KEEPTTL, NX and XX.
struct Allowed {
    get: bool,
    compare: bool,
}

impl Allowed {
    const SET: Allowed = Allowed {
        get: true,
        compare: true,
    };
    const MSETEX: Allowed = Allowed {
        get: false,
        compare: false,
    };
}

/// The options of SET.
struct Write<'a> {
    condition: Condition<'a>,
    get: bool,
    keep_ttl: bool,
    expiry: Option<Expiry<'a>>,
}

impl<'a> Write<'a> {
    fn parse(mut options: Options<'a>, allowed: Allowed) -> Result<Write<'a>, Error> {
        let mut write = Write {
            condition: Condition::Always,
            get: false,
            keep_ttl: false,
            expiry: None,
        };
        while !options.is_empty() {
            if options.take("NX") && !write.excludes(&Condition::Missing) {
                write.condition = Condition::Missing;
            } else if options.take("XX") && !write.excludes(&Condition::Exists) {
                write.condition = Condition::Exists;
            } else if allowed.get && options.take("GET") {
                write.get = true;
            } else if write.expiry.is_none() && options.take("KEEPTTL") {
                write.keep_ttl = true;
            } else if allowed.compare && write.take_comparison(&mut options)? {
            } else if write.keep_ttl {
                return Err(Error::SYNTAX);
            } else {
                write.expiry = Some(take_expiry(&mut options, write.expiry)?);
            }
        }
        Ok(write)
    }

    /// Does a condition given before exclude this one?
    fn excludes(&self, other: &Condition<'_>) -> bool {
        !matches!(
            (&self.condition, other),
            (Condition::Always, _)
                | (Condition::Missing, Condition::Missing)
                | (Condition::Exists, Condition::Exists)
        )
    }

    fn take_comparison(&mut self, options: &mut Options<'a>) -> Result<bool, Error> {
        let [word, given, ..] = options.rest() else {
            return Ok(false);
        };
        let Some(condition) = Condition::comparing(word, given)? else {
            return Ok(false);
        };
        if !matches!(self.condition, Condition::Always) {
            return Err(Error::SYNTAX);
        }
        self.condition = condition;
        options.next();
        options.next();
        Ok(true)
    }

    fn ttl(&self, call: &Call<'_>) -> Result<Ttl, Error> {
        match self.expiry {
            None if self.keep_ttl => Ok(Ttl::Keep),
            None => Ok(Ttl::Clear),
            Some(expiry) => Ok(expiry.deadline(call)?.map_or(Ttl::Clear, Ttl::At)),
        }
    }
}
