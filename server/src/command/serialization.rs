//! DUMP and RESTORE: values to bytes that any server of the family reads, and back.

use super::*;
use crate::{
    command::spec::{Categories, Flags, KeySpec},
    eviction::Frequency,
    keyspace::Event,
    rdb::{self, Dumped, HashField, Layout, VersionCheck},
    value::{
        Kind, Value,
        hash::Hash,
        limits::Limits,
        list::{End, List},
        set::Set,
        sorted_set::SortedSet,
    },
};

pub const COMMANDS: &[Command] = &[
    Command {
        name: "dump",
        arity: 2,
        flags: Flags::READONLY,
        categories: Categories::KEYSPACE,
        keys: &[KeySpec::one("RO access", 1)],
        tips: &["nondeterministic_output"],
        since: "2.6.0",
        summary: "Returns a value as RESTORE takes it.",
        complexity: "O(N) where N is the size of the value in bytes",
        args: "key:key",
        handler: dump,
        ..Command::BASE
    },
    Command {
        name: "restore",
        arity: -4,
        flags: Flags::of([Flags::WRITE, Flags::DENYOOM]),
        categories: Categories::of([Categories::KEYSPACE, Categories::DANGEROUS]),
        keys: &[KeySpec::one("OW update", 1)],
        since: "2.6.0",
        history: &[
            ("3.0.0", "Knows `REPLACE`."),
            ("5.0.0", "Knows `ABSTTL`."),
            ("5.0.0", "Knows `IDLETIME` and `FREQ`."),
        ],
        summary: "Makes a key from what DUMP returned.",
        complexity: "O(N) where N is the size of the value in bytes; O(N log N) for sorted sets",
        args: "key:key ttl:integer serialized-value:string [REPLACE{3.0.0}] [ABSTTL{5.0.0}] \
               [IDLETIME@seconds:integer{5.0.0}] [FREQ@frequency:integer{5.0.0}]",
        handler: restore,
        ..Command::BASE
    },
    Command {
        name: "restore-asking",
        arity: -4,
        flags: Flags::of([Flags::WRITE, Flags::DENYOOM, Flags::ASKING]),
        categories: Categories::of([Categories::KEYSPACE, Categories::DANGEROUS]),
        keys: &[KeySpec::one("OW update", 1)],
        group: "server",
        since: "3.0.0",
        history: &[
            ("3.0.0", "Knows `REPLACE`."),
            ("5.0.0", "Knows `ABSTTL`."),
            ("5.0.0", "Knows `IDLETIME` and `FREQ`."),
        ],
        internal: true,
        summary: "Makes a key from what DUMP returned, while a slot moves.",
        complexity: "O(N) where N is the size of the value in bytes; O(N log N) for sorted sets",
        args: "key:key ttl:integer serialized-value:string [REPLACE{3.0.0}] [ABSTTL{5.0.0}] \
               [IDLETIME@seconds:integer{5.0.0}] [FREQ@frequency:integer{5.0.0}]",
        handler: restore,
        ..Command::BASE
    },
];

const BUSY_KEY: Error = Error::text("BUSYKEY Target key name already exists.");
const TTL: Error = Error::text("ERR Invalid TTL value, must be >= 0");
const IDLE_TIME: Error = Error::text("ERR Invalid IDLETIME value, must be >= 0");
const FREQUENCY: Error = Error::text("ERR Invalid FREQ value, must be >= 0 and <= 255");

fn dump(call: &mut Call<'_>) -> Result<(), Stop> {
    let limits = call.engine.config.hot.limits;
    match call.engine.keys.read(call.arg(1)) {
        Some(value) => call.reply.bulk(&encode(value, limits)),
        None => call.reply.null(),
    }
    Ok(())
}

fn restore(call: &mut Call<'_>) -> Result<(), Stop> {
    let options = RestoreOptions::parse(call.options(4))?;
    let key = call.arg(1);
    if !options.replace && call.engine.keys.exists(key) {
        return Err(BUSY_KEY.into());
    }
    let ttl = u64::try_from(call.int(2)?).map_err(|_| TTL)?;
    let bad_format = |bad: rdb::BadFormat| Error::owned(format!("ERR {bad}"));
    let dumped = rdb::decode(call.arg(3), version_check(call)).map_err(bad_format)?;
    let deadline = options.deadline(ttl, call.now_ms());
    let value = decode(dumped, call.engine.config.hot.limits, call.now_ms());
    match value {
        Some(value) if !is_past(deadline, call.now_ms()) => {
            let event = Event::generic("restore");
            call.engine.keys.put_entry(key, value, deadline, event);
            if let Some(access) = options.access(call) {
                call.engine.keys.set_access(key, access);
            }
        }
        // It is over before it began, but what it replaces is gone all the same.
        _ => {
            call.engine.keys.delete(key, Event::generic("del"));
        }
    }
    call.reply.ok();
    Ok(())
}

/// What RESTORE takes behind the payload.
#[derive(Clone, Copy, Default)]
struct RestoreOptions {
    replace: bool,
    absolute: bool,
    idle_seconds: Option<u64>,
    frequency: Option<u8>,
}

impl RestoreOptions {
    fn parse(mut options: Options<'_>) -> Result<RestoreOptions, Error> {
        let mut parsed = RestoreOptions::default();
        while !options.is_empty() {
            if options.take("REPLACE") {
                parsed.replace = true;
            } else if options.take("ABSTTL") {
                parsed.absolute = true;
            } else if parsed.frequency.is_none() && options.len() > 1 && options.take("IDLETIME") {
                let seconds = u64::try_from(options.int()?).map_err(|_| IDLE_TIME)?;
                parsed.idle_seconds = Some(seconds);
            } else if parsed.idle_seconds.is_none() && options.len() > 1 && options.take("FREQ") {
                let count = u8::try_from(options.int()?).map_err(|_| FREQUENCY)?;
                parsed.frequency = Some(count);
            } else {
                return Err(Error::SYNTAX);
            }
        }
        Ok(parsed)
    }

    /// When or how often the key counts as used; what the eviction policy does not ask about is
    /// not kept.
    fn access(self, call: &Call<'_>) -> Option<u32> {
        let (keys, now) = (&call.engine.keys, call.engine.keys.now());
        if keys.frequency.is_some() {
            let millis = now.millis();
            let counted = self
                .frequency
                .map(|count| Frequency::counted(count, millis));
            return counted.or_else(|| Some(Frequency::first(millis)));
        }
        self.idle_seconds
            .map(|idle| now.seconds().saturating_sub(idle) as u32)
    }

    /// In milliseconds since 1970. What lies beyond the end of time counts as past.
    fn deadline(self, ttl: u64, now_ms: u64) -> Option<u64> {
        match ttl {
            0 => None,
            ttl if self.absolute => Some(ttl),
            ttl => {
                let deadline = ttl.checked_add(now_ms);
                Some(
                    deadline
                        .filter(|&deadline| i64::try_from(deadline).is_ok())
                        .unwrap_or(0),
                )
            }
        }
    }
}

fn is_past(deadline: Option<u64>, now_ms: u64) -> bool {
    deadline.is_some_and(|deadline| deadline <= now_ms)
}

fn version_check(call: &Call<'_>) -> VersionCheck {
    match call.engine.config.get("rdb-version-check") {
        "relaxed" => VersionCheck::Relaxed,
        _ => VersionCheck::Strict,
    }
}

/// The payload for a value.
/// The payload of DUMP for a value.
pub fn encode(value: &Value, limits: Limits) -> Vec<u8> {
    match value {
        Value::String(string) => string.with_bytes(rdb::encode_string),
        Value::List(list) => rdb::encode_list(list.chunks(), limits),
        Value::Set(set) => rdb::encode_set(
            set.iter().map(|member| member.to_vec()),
            layout(set.encoding()),
        ),
        Value::SortedSet(set) => {
            let pairs = set.iter().map(|(member, score)| (member.to_vec(), score));
            rdb::encode_sorted_set(pairs, layout(set.encoding()))
        }
        Value::Hash(hash) => {
            let fields = hash.iter().map(|(field, value)| {
                let deadline = hash.deadline(&field);
                (field.to_vec(), value.to_vec(), deadline)
            });
            rdb::encode_hash(fields, layout(hash.encoding()))
        }
        Value::Stream(stream) => rdb::encode_stream(stream),
    }
}

fn layout(encoding: &str) -> Layout {
    match encoding {
        "intset" => Layout::Integers,
        "listpack" => Layout::Packed,
        _ => Layout::Table,
    }
}

/// The value that a payload holds, or `None` when all of it has expired.
fn decode(dumped: Dumped, limits: Limits, now_ms: u64) -> Option<Value> {
    Some(match dumped {
        Dumped::String(content) => Value::string(&content),
        Dumped::List(elements) => {
            let mut list = List::new();
            for element in elements {
                list.push(End::Back, &element, limits);
            }
            list.into_value()
        }
        Dumped::Set(members) => {
            let mut set = Set::new();
            for member in members {
                set.insert(&member, limits);
            }
            set.into_value()
        }
        Dumped::SortedSet(pairs) => {
            let mut set = SortedSet::new();
            for (member, score) in pairs {
                set.insert(&member, score, limits);
            }
            set.into_value()
        }
        Dumped::Hash(fields) => decode_hash(fields, limits, now_ms)?,
        Dumped::Stream(stream) => Value::Stream(stream),
    })
}

fn decode_hash(fields: Vec<HashField>, limits: Limits, now_ms: u64) -> Option<Value> {
    let mut hash = Hash::new();
    for (field, value, deadline) in fields {
        if is_past(deadline, now_ms) {
            continue;
        }
        hash.set(&field, &value, limits);
        if let Some(deadline) = deadline {
            hash.set_deadline(&field, deadline);
        }
    }
    (!hash.is_empty()).then(|| hash.into_value())
}
