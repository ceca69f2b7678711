//! What works on keys of any type: deletion, expiry, renaming, scanning.

use super::*;
use crate::{
    command::spec::{Categories, Flags, KeySpec},
    glob,
    keyspace::{Entry, Event},
};

pub const COMMANDS: &[Command] = &[
    Command {
        name: "copy",
        arity: -3,
        flags: Flags::of([Flags::WRITE, Flags::DENYOOM]),
        categories: Categories::KEYSPACE,
        keys: &[KeySpec::one("RO access", 1), KeySpec::one("OW update", 2)],
        since: "6.2.0",
        summary: "Copies a key's value, type and deadline to another key.",
        complexity: "O(N) where N is the number of elements, O(1) for strings",
        args: "source:key destination:key [DB@destination-db:integer] [REPLACE]",
        handler: copy,
        ..Command::BASE
    },
    Command {
        name: "del",
        arity: -2,
        flags: Flags::WRITE,
        categories: Categories::KEYSPACE,
        keys: &[KeySpec::range("RM delete", 1, -1, 1)],
        tips: &["request_policy:multi_shard", "response_policy:agg_sum"],
        summary: "Deletes keys.",
        complexity: "O(N) where N is the number of keys, plus the elements they hold",
        args: "key:key...",
        handler: del,
        ..Command::BASE
    },
    Command {
        name: "exists",
        arity: -2,
        flags: Flags::of([Flags::READONLY, Flags::FAST]),
        categories: Categories::KEYSPACE,
        keys: &[KeySpec::range("RO", 1, -1, 1)],
        tips: &["request_policy:multi_shard", "response_policy:agg_sum"],
        history: &[("3.0.3", "Takes several keys.")],
        summary: "Counts how many of the keys exist.",
        complexity: "O(N) where N is the number of keys",
        args: "key:key...",
        handler: exists,
        ..Command::BASE
    },
    Command {
        name: "expire",
        arity: -3,
        flags: Flags::of([Flags::WRITE, Flags::FAST]),
        categories: Categories::KEYSPACE,
        keys: &[KeySpec::one("RW update", 1)],
        history: &[("7.0.0", "Knows `NX`, `XX`, `GT` and `LT`.")],
        summary: "Gives a key a time to live, in seconds.",
        args: "key:key seconds:integer [condition<NX|XX|GT|LT>{7.0.0}]",
        handler: expire,
        ..Command::BASE
    },
    Command {
        name: "expireat",
        arity: -3,
        flags: Flags::of([Flags::WRITE, Flags::FAST]),
        categories: Categories::KEYSPACE,
        keys: &[KeySpec::one("RW update", 1)],
        since: "1.2.0",
        history: &[("7.0.0", "Knows `NX`, `XX`, `GT` and `LT`.")],
        summary: "Gives a key a deadline, as a Unix time in seconds.",
        args: "key:key unix-time-seconds:unix-time [condition<NX|XX|GT|LT>{7.0.0}]",
        handler: expireat,
        ..Command::BASE
    },
    Command {
        name: "expiretime",
        arity: 2,
        flags: Flags::of([Flags::READONLY, Flags::FAST]),
        categories: Categories::KEYSPACE,
        keys: &[KeySpec::one("RO access", 1)],
        since: "7.0.0",
        summary: "Returns a key's deadline, as a Unix time in seconds.",
        args: "key:key",
        handler: expiretime,
        ..Command::BASE
    },
    Command {
        name: "keys",
        arity: 2,
        flags: Flags::READONLY,
        categories: Categories::of([Categories::KEYSPACE, Categories::DANGEROUS]),
        tips: &["request_policy:all_shards", "nondeterministic_output_order"],
        summary: "Returns every key name that matches a pattern.",
        complexity: "O(N) where N is the number of keys in the database",
        args: "pattern:pattern",
        handler: keys,
        ..Command::BASE
    },
    Command {
        name: "move",
        arity: 3,
        flags: Flags::of([Flags::WRITE, Flags::FAST]),
        categories: Categories::KEYSPACE,
        keys: &[KeySpec::one("RW access update", 1)],
        summary: "Moves a key to another database.",
        args: "key:key db:integer",
        handler: move_,
        ..Command::BASE
    },
    Command {
        name: "object",
        arity: -2,
        since: "2.2.3",
        summary: "Holds the commands that look at how a value is kept.",
        complexity: "that of the subcommand",
        subcommands: &[
            Command {
                name: "object|encoding",
                arity: 3,
                flags: Flags::READONLY,
                categories: Categories::KEYSPACE,
                keys: &[KeySpec::one("RO", 2)],
                tips: &["nondeterministic_output"],
                since: "2.2.3",
                summary: "Returns the name of the form in which the value is kept.",
                args: "key:key",
                handler: object_encoding,
                ..Command::BASE
            },
            Command {
                name: "object|freq",
                arity: 3,
                flags: Flags::READONLY,
                categories: Categories::KEYSPACE,
                keys: &[KeySpec::one("RO", 2)],
                tips: &["nondeterministic_output"],
                since: "4.0.0",
                summary: "Returns the key's logarithmic count of uses.",
                args: "key:key",
                handler: object_freq,
                ..Command::BASE
            },
            Command {
                name: "object|help",
                arity: 2,
                flags: Flags::of([Flags::LOADING, Flags::STALE]),
                categories: Categories::KEYSPACE,
                since: "6.2.0",
                summary: "Lists the subcommands with a line about each.",
                handler: help::help,
                ..Command::BASE
            },
            Command {
                name: "object|idletime",
                arity: 3,
                flags: Flags::READONLY,
                categories: Categories::KEYSPACE,
                keys: &[KeySpec::one("RO", 2)],
                tips: &["nondeterministic_output"],
                since: "2.2.3",
                summary: "Returns the seconds since the key was last used.",
                args: "key:key",
                handler: object_idletime,
                ..Command::BASE
            },
            Command {
                name: "object|refcount",
                arity: 3,
                flags: Flags::READONLY,
                categories: Categories::KEYSPACE,
                keys: &[KeySpec::one("RO", 2)],
                tips: &["nondeterministic_output"],
                since: "2.2.3",
                summary: "Returns how many references the value has.",
                args: "key:key",
                handler: object_refcount,
                ..Command::BASE
            },
        ],
        ..Command::BASE
    },
    Command {
        name: "persist",
        arity: 2,
        flags: Flags::of([Flags::WRITE, Flags::FAST]),
        categories: Categories::KEYSPACE,
        keys: &[KeySpec::one("RW update", 1)],
        since: "2.2.0",
        summary: "Takes a key's deadline away.",
        args: "key:key",
        handler: persist,
        ..Command::BASE
    },
    Command {
        name: "pexpire",
        arity: -3,
        flags: Flags::of([Flags::WRITE, Flags::FAST]),
        categories: Categories::KEYSPACE,
        keys: &[KeySpec::one("RW update", 1)],
        since: "2.6.0",
        history: &[("7.0.0", "Knows `NX`, `XX`, `GT` and `LT`.")],
        summary: "Gives a key a time to live, in milliseconds.",
        args: "key:key milliseconds:integer [condition<NX|XX|GT|LT>{7.0.0}]",
        handler: pexpire,
        ..Command::BASE
    },
    Command {
        name: "pexpireat",
        arity: -3,
        flags: Flags::of([Flags::WRITE, Flags::FAST]),
        categories: Categories::KEYSPACE,
        keys: &[KeySpec::one("RW update", 1)],
        since: "2.6.0",
        history: &[("7.0.0", "Knows `NX`, `XX`, `GT` and `LT`.")],
        summary: "Gives a key a deadline, as a Unix time in milliseconds.",
        args: "key:key unix-time-milliseconds:unix-time [condition<NX|XX|GT|LT>{7.0.0}]",
        handler: pexpireat,
        ..Command::BASE
    },
    Command {
        name: "pexpiretime",
        arity: 2,
        flags: Flags::of([Flags::READONLY, Flags::FAST]),
        categories: Categories::KEYSPACE,
        keys: &[KeySpec::one("RO access", 1)],
        since: "7.0.0",
        summary: "Returns a key's deadline, as a Unix time in milliseconds.",
        args: "key:key",
        handler: pexpiretime,
        ..Command::BASE
    },
    Command {
        name: "pttl",
        arity: 2,
        flags: Flags::of([Flags::READONLY, Flags::FAST]),
        categories: Categories::KEYSPACE,
        keys: &[KeySpec::one("RO access", 1)],
        tips: &["nondeterministic_output"],
        since: "2.6.0",
        history: &[("2.8.0", "Answers -2 when there is no key.")],
        summary: "Returns how many milliseconds a key has left.",
        args: "key:key",
        handler: pttl,
        ..Command::BASE
    },
    Command {
        name: "randomkey",
        arity: 1,
        flags: Flags::READONLY,
        categories: Categories::KEYSPACE,
        tips: &[
            "request_policy:all_shards",
            "response_policy:special",
            "nondeterministic_output",
        ],
        summary: "Returns a key name picked at random.",
        handler: randomkey,
        ..Command::BASE
    },
    Command {
        name: "rename",
        arity: 3,
        flags: Flags::WRITE,
        categories: Categories::KEYSPACE,
        keys: &[
            KeySpec::one("RW access delete", 1),
            KeySpec::one("OW update", 2),
        ],
        summary: "Renames a key and overwrites what the new name held.",
        args: "key:key newkey:key",
        handler: rename,
        ..Command::BASE
    },
    Command {
        name: "renamenx",
        arity: 3,
        flags: Flags::of([Flags::WRITE, Flags::FAST]),
        categories: Categories::KEYSPACE,
        keys: &[
            KeySpec::one("RW access delete", 1),
            KeySpec::one("OW insert", 2),
        ],
        history: &[("3.2.0", "Takes the same name twice without an error.")],
        summary: "Renames a key unless the new name is taken.",
        args: "key:key newkey:key",
        handler: renamenx,
        ..Command::BASE
    },
    Command {
        name: "scan",
        arity: -2,
        flags: Flags::READONLY,
        categories: Categories::KEYSPACE,
        tips: &[
            "nondeterministic_output",
            "request_policy:special",
            "response_policy:special",
        ],
        since: "2.8.0",
        history: &[("6.0.0", "Knows `TYPE`.")],
        summary: "Walks over the key names, some with each call.",
        complexity: "O(1) per call, O(N) for a full walk over N keys",
        args: "cursor:integer [MATCH@pattern:pattern] [COUNT@count:integer] \
               [TYPE@type:string{6.0.0}]",
        handler: scan,
        ..Command::BASE
    },
    Command {
        name: "touch",
        arity: -2,
        flags: Flags::of([Flags::READONLY, Flags::FAST]),
        categories: Categories::KEYSPACE,
        keys: &[KeySpec::range("RO", 1, -1, 1)],
        tips: &["request_policy:multi_shard", "response_policy:agg_sum"],
        since: "3.2.1",
        summary: "Counts the keys that exist and marks them as used now.",
        complexity: "O(N) where N is the number of keys",
        args: "key:key...",
        handler: touch,
        ..Command::BASE
    },
    Command {
        name: "ttl",
        arity: 2,
        flags: Flags::of([Flags::READONLY, Flags::FAST]),
        categories: Categories::KEYSPACE,
        keys: &[KeySpec::one("RO access", 1)],
        tips: &["nondeterministic_output"],
        history: &[("2.8.0", "Answers -2 when there is no key.")],
        summary: "Returns how many seconds a key has left.",
        args: "key:key",
        handler: ttl,
        ..Command::BASE
    },
    Command {
        name: "type",
        arity: 2,
        flags: Flags::of([Flags::READONLY, Flags::FAST]),
        categories: Categories::KEYSPACE,
        keys: &[KeySpec::one("RO", 1)],
        summary: "Returns the name of the type of a key's value.",
        args: "key:key",
        handler: type_,
        ..Command::BASE
    },
    Command {
        name: "unlink",
        arity: -2,
        flags: Flags::of([Flags::WRITE, Flags::FAST]),
        categories: Categories::KEYSPACE,
        keys: &[KeySpec::range("RM delete", 1, -1, 1)],
        tips: &["request_policy:multi_shard", "response_policy:agg_sum"],
        since: "4.0.0",
        summary: "Deletes keys and frees their memory in the background.",
        complexity: "O(N) where N is the number of keys",
        args: "key:key...",
        handler: unlink,
        ..Command::BASE
    },
];

const DEL: Event = Event::generic("del");
const EXPIRE: Event = Event::generic("expire");
const SAME_OBJECT: Error = Error::text("ERR source and destination objects are the same");
const NO_SUCH_DB: Error = Error::text("ERR DB index is out of range");

// ---- Whole keys ----

fn copy(call: &mut Call<'_>) -> Result<(), Stop> {
    let (from, to) = (call.arg(1), call.arg(2));
    let mut options = call.options(3);
    let (mut db, mut replace) = (call.session.db, false);
    while !options.is_empty() {
        if options.take("REPLACE") {
            replace = true;
        } else if options.len() > 1 && options.take("DB") {
            db = database(call.engine, options.int()?)?;
        } else {
            return Err(Error::SYNTAX.into());
        }
    }
    if db == call.session.db && from == to {
        return Err(SAME_OBJECT.into());
    }
    let keys = &mut call.engine.keys;
    let Some(entry) = keys.peek(from) else {
        call.reply.integer(0);
        return Ok(());
    };
    let (value, deadline) = (entry.value.clone(), entry.deadline());
    keys.select(db);
    let copied = replace || !keys.exists(to);
    if copied {
        keys.put_entry(to, value, deadline, Event::generic("copy_to"));
    }
    keys.select(call.session.db);
    call.reply.integer(i64::from(copied));
    Ok(())
}

/// A database by its number.
pub fn database(engine: &Engine, number: i64) -> Result<usize, Error> {
    const NO_INT: Error =
        Error::text("ERR value is out of range, value must between -2147483648 and 2147483647");
    let number = i32::try_from(number).map_err(|_| NO_INT)?;
    let number = usize::try_from(number).map_err(|_| NO_SUCH_DB)?;
    if number < engine.keys.databases() {
        Ok(number)
    } else {
        Err(NO_SUCH_DB)
    }
}

fn del(call: &mut Call<'_>) -> Result<(), Stop> {
    let mut deleted = 0;
    for key in &call.args[1..] {
        deleted += i64::from(call.engine.keys.delete(key, DEL));
    }
    call.reply.integer(deleted);
    Ok(())
}

fn exists(call: &mut Call<'_>) -> Result<(), Stop> {
    let mut found = 0;
    for key in &call.args[1..] {
        let exists = call.engine.keys.exists(key);
        call.engine.keys.count_read(key, exists);
        found += i64::from(exists);
    }
    call.reply.integer(found);
    Ok(())
}

fn move_(call: &mut Call<'_>) -> Result<(), Stop> {
    let (key, db) = (call.arg(1), database(call.engine, call.int(2)?)?);
    if db == call.session.db {
        return Err(SAME_OBJECT.into());
    }
    let keys = &mut call.engine.keys;
    keys.select(db);
    let taken = keys.exists(key);
    keys.select(call.session.db);
    let entry = if taken {
        None
    } else {
        keys.take(key, Event::SILENT)
    };
    let moved = entry.is_some();
    if let Some(entry) = entry {
        let deadline = entry.deadline();
        keys.select(db);
        keys.put_entry(key, entry.value, deadline, Event::SILENT);
        // The new key is told of first.
        keys.select(call.session.db);
        keys.announce(key, Event::generic("move_from"));
        keys.select(db);
        keys.announce(key, Event::generic("move_to"));
        keys.select(call.session.db);
    }
    call.reply.integer(i64::from(moved));
    Ok(())
}

fn rename(call: &mut Call<'_>) -> Result<(), Stop> {
    let (from, to) = (call.arg(1), call.arg(2));
    if !call.engine.keys.exists(from) {
        return Err(Error::NO_SUCH_KEY.into());
    }
    if from != to {
        move_key(call, from, to);
    }
    call.reply.ok();
    Ok(())
}

fn renamenx(call: &mut Call<'_>) -> Result<(), Stop> {
    let (from, to) = (call.arg(1), call.arg(2));
    if !call.engine.keys.exists(from) {
        return Err(Error::NO_SUCH_KEY.into());
    }
    let free = !call.engine.keys.exists(to);
    if free {
        move_key(call, from, to);
    }
    call.reply.integer(i64::from(free));
    Ok(())
}

fn move_key(call: &mut Call<'_>, from: &[u8], to: &[u8]) {
    let keys = &mut call.engine.keys;
    if let Some(entry) = keys.take(from, Event::SILENT) {
        let deadline = entry.deadline();
        keys.put_entry(to, entry.value, deadline, Event::SILENT);
        // The new key is told of first.
        keys.announce(from, Event::generic("rename_from"));
        keys.announce(to, Event::generic("rename_to"));
    }
}

fn touch(call: &mut Call<'_>) -> Result<(), Stop> {
    let mut touched = 0;
    for key in &call.args[1..] {
        let found = call.engine.keys.touch(key);
        call.engine.keys.count_read(key, found);
        touched += i64::from(found);
    }
    call.reply.integer(touched);
    Ok(())
}

fn type_(call: &mut Call<'_>) -> Result<(), Stop> {
    let name = call
        .engine
        .keys
        .peek(call.arg(1))
        .map(|entry| entry.value.type_name());
    call.engine.keys.count_read(call.arg(1), name.is_some());
    call.reply.simple(name.unwrap_or("none"));
    Ok(())
}

/// Deletes as DEL does: what is costly to free is freed off the engine's lock either way.
fn unlink(call: &mut Call<'_>) -> Result<(), Stop> {
    del(call)
}

// ---- Looking inside ----

fn object_encoding(call: &mut Call<'_>) -> Result<(), Stop> {
    match call.engine.keys.peek(call.arg(2)) {
        Some(entry) => {
            let encoding = entry.value.encoding(entry.key());
            call.reply.bulk(encoding.as_bytes());
        }
        None => call.reply.null(),
    }
    Ok(())
}

fn object_freq(call: &mut Call<'_>) -> Result<(), Stop> {
    const NOT_TRACKED: Error = Error::text(
        "ERR An LFU maxmemory policy is not selected, access frequency not tracked. Please note that when switching between policies at runtime LRU and LFU data will take some time to adjust.",
    );
    let (frequency, now) = (call.engine.keys.frequency, call.now_ms());
    match call.engine.keys.peek(call.arg(2)) {
        Some(entry) => {
            let frequency = frequency.ok_or(NOT_TRACKED)?;
            call.reply
                .integer(frequency.count(entry.access, now).into());
        }
        None => call.reply.null(),
    }
    Ok(())
}

fn object_idletime(call: &mut Call<'_>) -> Result<(), Stop> {
    const NOT_TRACKED: Error = Error::text(
        "ERR An LFU maxmemory policy is selected, idle time not tracked. Please note that when switching between policies at runtime LRU and LFU data will take some time to adjust.",
    );
    let now = call.engine.keys.now().seconds();
    let by_frequency = call.engine.keys.frequency.is_some();
    match call.engine.keys.peek(call.arg(2)) {
        Some(_) if by_frequency => return Err(NOT_TRACKED.into()),
        Some(entry) => call
            .reply
            .integer(now.saturating_sub(u64::from(entry.access)) as i64),
        None => call.reply.null(),
    }
    Ok(())
}

fn object_refcount(call: &mut Call<'_>) -> Result<(), Stop> {
    if call.engine.keys.exists(call.arg(2)) {
        call.reply.integer(1);
    } else {
        call.reply.null();
    }
    Ok(())
}

// ---- Expiry ----

fn expire(call: &mut Call<'_>) -> Result<(), Stop> {
    expire_in(call, Some(call.now_ms()), 1000)
}

fn expireat(call: &mut Call<'_>) -> Result<(), Stop> {
    expire_in(call, None, 1000)
}

fn expiretime(call: &mut Call<'_>) -> Result<(), Stop> {
    reply_deadline(call, |at, _| (at + 500) / 1000)
}

fn persist(call: &mut Call<'_>) -> Result<(), Stop> {
    let key = call.arg(1);
    let keys = &mut call.engine.keys;
    let persisted = keys.deadline(key).flatten().is_some();
    if persisted {
        keys.set_deadline(key, None, Event::generic("persist"));
    }
    call.reply.integer(i64::from(persisted));
    Ok(())
}

fn pexpire(call: &mut Call<'_>) -> Result<(), Stop> {
    expire_in(call, Some(call.now_ms()), 1)
}

fn pexpireat(call: &mut Call<'_>) -> Result<(), Stop> {
    expire_in(call, None, 1)
}

fn pexpiretime(call: &mut Call<'_>) -> Result<(), Stop> {
    reply_deadline(call, |at, _| at)
}

fn pttl(call: &mut Call<'_>) -> Result<(), Stop> {
    reply_deadline(call, u64::saturating_sub)
}

fn ttl(call: &mut Call<'_>) -> Result<(), Stop> {
    reply_deadline(call, |at, now| (at.saturating_sub(now) + 500) / 1000)
}

fn reply_deadline(call: &mut Call<'_>, show: impl Fn(u64, u64) -> u64) -> Result<(), Stop> {
    let now = call.now_ms();
    let deadline = call.engine.keys.deadline(call.arg(1));
    call.engine.keys.count_read(call.arg(1), deadline.is_some());
    call.reply.integer(match deadline {
        None => -2,
        Some(None) => -1,
        Some(Some(at)) => show(at, now) as i64,
    });
    Ok(())
}

/// When EXPIRE and its kin are to act, by the deadline that the key has.
#[derive(Clone, Copy, Default)]
pub struct ExpireIf {
    pub none: bool,
    pub some: bool,
    pub later: bool,
    pub earlier: bool,
}

impl ExpireIf {
    /// Takes one of the words NX, XX, GT and LT.
    pub fn take(&mut self, options: &mut Options<'_>) -> bool {
        let words = [
            ("NX", &mut self.none),
            ("XX", &mut self.some),
            ("GT", &mut self.later),
            ("LT", &mut self.earlier),
        ];
        for (word, flag) in words {
            if options.take(word) {
                *flag = true;
                return true;
            }
        }
        false
    }

    /// Refuses words that contradict each other.
    pub fn check(self) -> Result<(), Error> {
        const EXCLUSIVE: Error =
            Error::text("ERR NX and XX, GT or LT options at the same time are not compatible");
        const OPPOSED: Error =
            Error::text("ERR GT and LT options at the same time are not compatible");
        if self.none && (self.some || self.later || self.earlier) {
            return Err(EXCLUSIVE);
        }
        if self.later && self.earlier {
            Err(OPPOSED)
        } else {
            Ok(())
        }
    }

    /// Do the words allow this deadline? No deadline counts as one that never comes.
    pub fn allows(self, old: Option<u64>, new: i64) -> bool {
        let old_is_earlier = old.is_some_and(|old| (old as i64) < new);
        let old_is_later = old.is_none_or(|old| old as i64 > new);
        !(self.none && old.is_some()
            || self.some && old.is_none()
            || self.later && !old_is_earlier
            || self.earlier && !old_is_later)
    }
}

/// Sets a deadline given as a number of `unit` milliseconds after `base`, or since 1970.
fn expire_in(call: &mut Call<'_>, base: Option<u64>, unit: i64) -> Result<(), Stop> {
    let key = call.arg(1);
    let mut options = call.options(3);
    let mut only_if = ExpireIf::default();
    while !options.is_empty() {
        if !only_if.take(&mut options) {
            let option = options.next().unwrap_or_default();
            return Err(Error::quoting([b"ERR Unsupported option ", option]).into());
        }
    }
    only_if.check()?;
    let value = call.int(2)?;
    let at = deadline_of(call.command, value, unit, base)?;
    let now = call.now_ms();
    let keys = &mut call.engine.keys;
    let done = match keys.deadline(key) {
        Some(old) if only_if.allows(old, at) => {
            if at <= now as i64 {
                keys.expire_at_once(key);
            } else {
                keys.set_deadline(key, Some(at as u64), EXPIRE);
            }
            true
        }
        _ => false,
    };
    call.reply.integer(i64::from(done));
    Ok(())
}

/// A deadline in milliseconds since 1970, which may lie in the past, or the error that it cannot
/// be told in 64 bits.
pub fn deadline_of(
    command: &Command,
    value: i64,
    unit: i64,
    base: Option<u64>,
) -> Result<i64, Error> {
    value
        .checked_mul(unit)
        .and_then(|at| at.checked_add(base.unwrap_or(0) as i64))
        .ok_or_else(|| {
            Error::owned(format!(
                "ERR invalid expire time in '{}' command",
                command.name
            ))
        })
}

// ---- Finding keys ----

fn keys(call: &mut Call<'_>) -> Result<(), Stop> {
    let pattern = call.arg(1);
    let found: Vec<&Entry> = call
        .engine
        .keys
        .entries()
        .filter(|entry| pattern == b"*" || glob::matches(pattern, entry.key()))
        .collect();
    call.reply.array(found.len());
    for entry in found {
        call.reply.bulk(entry.key());
    }
    Ok(())
}

fn randomkey(call: &mut Call<'_>) -> Result<(), Stop> {
    let random = &mut call.engine.random;
    match call.engine.keys.random(|bound| random.below(bound)) {
        Some(key) => call.reply.bulk(key),
        None => call.reply.null(),
    }
    Ok(())
}

fn scan(call: &mut Call<'_>) -> Result<(), Stop> {
    let cursor = scan_cursor(call.arg(1))?;
    let options = ScanOptions::parse(call.options(2), Scanned::Keys)?;
    let mut found: Vec<Vec<u8>> = Vec::new();
    let next = call.engine.keys.scan(cursor, options.count, |entry| {
        let right_type = options
            .type_name
            .is_none_or(|name| entry.value.type_name() == name);
        if right_type && options.wants(entry.key()) {
            found.push(entry.key().to_vec());
        }
    });
    call.reply.array(2);
    call.reply.bulk(next.to_string().as_bytes());
    call.reply.array(found.len());
    for key in found {
        call.reply.bulk(&key);
    }
    Ok(())
}

/// What a SCAN walks over; each kind has options of its own.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Scanned {
    Keys,
    Hash,
    Set,
    SortedSet,
}

/// The options that all SCANs share.
pub struct ScanOptions<'a> {
    pub pattern: Option<&'a [u8]>,
    pub count: usize,
    pub type_name: Option<&'static str>,
    /// Leaves values out, or scores.
    pub no_values: bool,
}

/// The cursor of a SCAN.
pub fn scan_cursor(arg: &[u8]) -> Result<u64, Error> {
    number::parse_lenient_u64(arg).ok_or(Error::text("ERR invalid cursor"))
}

impl<'a> ScanOptions<'a> {
    pub fn parse(mut options: Options<'a>, scanned: Scanned) -> Result<ScanOptions<'a>, Error> {
        let mut parsed = ScanOptions {
            pattern: None,
            count: 10,
            type_name: None,
            no_values: false,
        };
        while !options.is_empty() {
            if options.len() > 1 && options.take("COUNT") {
                let count = options.int()?;
                parsed.count = usize::try_from(count)
                    .ok()
                    .filter(|&count| count > 0)
                    .ok_or(Error::SYNTAX)?;
            } else if options.len() > 1 && options.take("MATCH") {
                // A star alone is no pattern: it lets an empty name through.
                parsed.pattern = options.next().filter(|pattern| *pattern != b"*");
            } else if scanned == Scanned::Keys && options.len() > 1 && options.take("TYPE") {
                parsed.type_name = Some(known_type(options.value()?)?);
            } else if options.take("NOVALUES") {
                const ONLY_HASHES: Error =
                    Error::text("ERR NOVALUES option can only be used in HSCAN");
                if scanned != Scanned::Hash {
                    return Err(ONLY_HASHES);
                }
                parsed.no_values = true;
            } else if options.take("NOSCORES") {
                const ONLY_SORTED: Error =
                    Error::text("ERR NOSCORES option can only be used in ZSCAN");
                if scanned != Scanned::SortedSet {
                    return Err(ONLY_SORTED);
                }
                parsed.no_values = true;
            } else {
                return Err(Error::SYNTAX);
            }
        }
        Ok(parsed)
    }

    pub fn wants(&self, name: &[u8]) -> bool {
        self.pattern
            .is_none_or(|pattern| glob::matches(pattern, name))
    }
}

fn known_type(name: &[u8]) -> Result<&'static str, Error> {
    const TYPES: [&str; 6] = ["string", "list", "set", "zset", "hash", "stream"];
    let known = TYPES
        .into_iter()
        .find(|known| name.eq_ignore_ascii_case(known.as_bytes()));
    known.ok_or_else(|| Error::quoting([b"ERR unknown type name '", name, b"'"]))
}
