//! DEBUG: what test suites use to look into the server and to put it to the test.

use std::time::Duration;

use sha1_smol::Sha1;

use super::*;
use crate::{
    command::{serialization::encode, spec::Flags},
    config::parse_memory,
    glob,
    info::hex_id,
    keyspace::{Entry, Event, Ttl},
    number::DoubleBuffer,
    reply::Protocol,
    value::Value,
};

pub const COMMANDS: &[Command] = &[Command {
    name: "debug",
    arity: -2,
    flags: Flags::of([Flags::ADMIN, Flags::NOSCRIPT, Flags::LOADING, Flags::STALE]),
    group: "server",
    internal: true,
    summary: "Holds commands for tests of the server itself.",
    complexity: "that of the subcommand",
    handler: debug,
    ..Command::BASE
}];

/// The longest sleep that DEBUG SLEEP grants, in seconds: everybody waits for its end.
const SLEEP_MAX: f64 = 3600.0;

fn debug(call: &mut Call<'_>) -> Result<(), Stop> {
    let (name, args) = (call.arg(1).to_ascii_lowercase(), call.args.len() - 2);
    match (name.as_slice(), args) {
        (b"help", 0) => help(call),
        (b"object", 1 | 2) => object(call)?,
        (b"sleep", 1) => sleep(call),
        (b"set-active-expire", 1) => {
            call.engine.keys.active_expire = number::parse_i64(call.arg(2)).unwrap_or(0) != 0;
            call.reply.ok();
        }
        (b"change-repl-id", 0) => {
            call.engine.identity.replication_id = hex_id(&mut call.engine.random);
            call.reply.ok();
        }
        (b"populate", 1..=3) => populate(call)?,
        (b"protocol", 1) => protocol(call)?,
        (b"digest", 0) => digest_all(call),
        (b"digest-value", _) => digest_values(call),
        (b"error", 1) => return Err(Error::owned(call.arg(2)).into()),
        (b"log", 1) => {
            tracing::warn!("DEBUG LOG: {}", String::from_utf8_lossy(call.arg(2)));
            call.reply.ok();
        }
        (b"listpack", 1) => listpack(call)?,
        (b"quicklist", 1 | 2) => quicklist(call)?,
        (b"sdslen", 1) => string_len(call)?,
        (b"htstats", 1 | 2) => table_stats(call)?,
        (b"htstats-key", 1 | 2) => value_table_stats(call)?,
        (b"stringmatch-test", 0) => test_matching(call),
        (b"client-eviction", 0) => {
            return Err(Error::text("ERR maxmemory-clients is disabled.").into());
        }
        (b"clusterlink", 3) if !call.engine.config.hot.cluster => {
            return Err(Error::text(
                "ERR Debug option only available for cluster mode enabled setup!",
            )
            .into());
        }
        (b"quicklist-packed-threshold", 1) => {
            let text = std::str::from_utf8(call.arg(2)).unwrap_or("?");
            let valid = parse_memory(text).is_some_and(|bytes| (0..1 << 32).contains(&bytes));
            if !valid {
                return Err(Error::text(
                    "ERR argument must be a memory value bigger than 1 and smaller than 4gb",
                )
                .into());
            }
            call.reply.ok();
        }
        // The data is in memory only, so loading it anew finds it as it is. The others tune
        // parts of the references that have no like here.
        (b"reload" | b"loadaof", _)
        | (b"replicate", 1..)
        | (
            b"dict-resizing"
            | b"disable-cluster-reconnection"
            | b"disable-cluster-random-ping"
            | b"close-cluster-link-on-packet-drop"
            | b"pause-after-fork"
            | b"force-free-primary-async"
            | b"aof-flush-sleep"
            | b"hashtable-can-abort-shrink"
            | b"pause-cron"
            | b"client-enforce-reply-list"
            | b"set-disable-deny-scripts"
            | b"drop-cluster-packet-filter"
            | b"set-skip-checksum-validation",
            1,
        ) => call.reply.ok(),
        (b"replybuffer", 2) if is_one_of(call.arg(2), &["resizing", "peak-reset-time"]) => {
            call.reply.ok();
        }
        (b"slotmigration", 2) if is_one_of(call.arg(2), &["prevent-pause", "prevent-failover"]) => {
            call.reply.ok();
        }
        _ => return Err(call.subcommand_syntax().into()),
    }
    Ok(())
}

fn is_one_of(word: &[u8], words: &[&str]) -> bool {
    words.iter().any(|name| is_word(word, name))
}

/// Matches random texts with random patterns, which must end, whatever comes of it.
fn test_matching(call: &mut Call<'_>) {
    const ROUNDS: usize = 10_000;
    const LEN_MAX: usize = 32;
    let random = &mut call.engine.random;
    let mut sample = || -> Vec<u8> {
        let len = random.below(LEN_MAX);
        (0..len)
            .map(|_| b"*?[]^-\\abc\0\xff"[random.below(12)])
            .collect()
    };
    for _ in 0..ROUNDS {
        glob::matches(&sample(), &sample());
    }
    call.reply
        .simple("Apparently the server did not crash: test passed");
}

fn help(call: &mut Call<'_>) {
    let lines = [
        "DEBUG <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
        "CHANGE-REPL-ID",
        "    Gives the server a new replication id.",
        "DIGEST",
        "    Returns a digest of all data.",
        "DIGEST-VALUE <key> [<key> ...]",
        "    Returns a digest of the value of each key.",
        "ERROR <string>",
        "    Answers with an error of that text.",
        "HTSTATS <db> [full]",
        "    Tells how full the table of a database's keys is.",
        "HTSTATS-KEY <key> [full]",
        "    As HTSTATS, of a value that is kept in a table.",
        "LISTPACK <key>",
        "    Tells whether the value is kept in its compact form.",
        "LOG <message>",
        "    Writes a message to the log.",
        "OBJECT <key> [fast]",
        "    Describes how the value of a key is kept.",
        "POPULATE <count> [<prefix>] [<size>]",
        "    Creates so many strings that do not exist yet.",
        "PROTOCOL <type>",
        "    Answers with a reply of that type.",
        "QUICKLIST <key>",
        "    Tells whether a list is kept in several pieces.",
        "RELOAD [option ...]",
        "    Does nothing, since nothing is on disk.",
        "SDSLEN <key>",
        "    Tells how long a key and the string at it are.",
        "SET-ACTIVE-EXPIRE <0|1>",
        "    Keeps keys past their deadline until somebody looks, or no more.",
        "SLEEP <seconds>",
        "    Stops the whole server for a time.",
        "STRINGMATCH-TEST",
        "    Matches random texts with random patterns.",
        "HELP",
        "    Print this help.",
    ];
    call.reply.array(lines.len());
    for line in lines {
        call.reply.simple(line);
    }
}

fn object(call: &mut Call<'_>) -> Result<(), Error> {
    /// What a dump has beside the value: the type, the version and the checksum.
    const ENVELOPE: usize = 11;
    let (limits, now) = (call.engine.config.hot.limits, call.engine.keys.now());
    let entry = call
        .engine
        .keys
        .peek(call.arg(2))
        .ok_or(Error::NO_SUCH_KEY)?;
    // The length is what takes time.
    let fast = call.args.get(3).is_some_and(|word| is_word(word, "fast"));
    let len = if fast {
        String::new()
    } else {
        let len = encode(&entry.value, limits).len() - ENVELOPE;
        format!(" serializedlength:{len}")
    };
    let text = format!(
        "Value at:{:p} refcount:1 encoding:{}{len} lru:{} lru_seconds_idle:{}",
        std::ptr::from_ref(&entry.value),
        entry.value.encoding(entry.key()),
        entry.access,
        now.seconds().saturating_sub(entry.access.into()),
    );
    call.reply.simple(&text);
    Ok(())
}

/// Sleeps with the engine in hand: that the server stands still is what is asked for.
fn sleep(call: &mut Call<'_>) {
    let seconds = number::parse_f64(call.arg(2)).unwrap_or(0.0);
    std::thread::sleep(Duration::from_secs_f64(seconds.clamp(0.0, SLEEP_MAX)));
    call.reply.ok();
}

fn populate(call: &mut Call<'_>) -> Result<(), Error> {
    const NOT_POSITIVE: Error = Error::text("ERR value is out of range, must be positive");
    let positive = |at| {
        let number = number::parse_i64(call.arg(at)).unwrap_or(-1);
        usize::try_from(number).map_err(|_| NOT_POSITIVE)
    };
    let count = positive(2)?;
    let size = if call.args.len() > 4 {
        Some(positive(4)?)
    } else {
        None
    };
    let prefix = call.args.get(3).copied().unwrap_or(b"key");
    for number in 0..count {
        let key = [prefix, format!(":{number}").as_bytes()].concat();
        if call.engine.keys.exists(&key) {
            continue;
        }
        let mut value = format!("value:{number}").into_bytes();
        if let Some(size) = size {
            value.resize(size, 0);
        }
        let event = Event::string("set");
        call.engine
            .keys
            .put(&key, Value::string(&value), Ttl::Clear, event);
    }
    call.reply.ok();
    Ok(())
}

fn protocol(call: &mut Call<'_>) -> Result<(), Error> {
    let name = call.arg(2).to_ascii_lowercase();
    let (id, resp3) = (call.session.id, call.reply.protocol() == Protocol::Resp3);
    let reply = &mut *call.reply;
    match name.as_slice() {
        b"string" => reply.bulk(b"Hello World"),
        b"integer" => reply.integer(12345),
        b"double" => reply.double(3141.0 / 1000.0),
        b"null" => reply.null(),
        b"bignum" => reply.big_number(b"1234567999999999999999999999999999999"),
        b"true" => reply.boolean(true),
        b"false" => reply.boolean(false),
        b"verbatim" => reply.verbatim(b"txt", b"This is a verbatim\nstring"),
        b"array" => {
            reply.array(3);
            (0..3).for_each(|number| reply.integer(number));
        }
        b"set" => {
            reply.set(3);
            (0..3).for_each(|number| reply.integer(number));
        }
        b"map" => {
            reply.map(3);
            for number in 0..3 {
                reply.integer(number);
                reply.boolean(number == 1);
            }
        }
        b"attrib" => {
            if reply.attribute(1) {
                reply.bulk(b"key-popularity");
                reply.array(2);
                reply.bulk(b"key:123");
                reply.integer(90);
            }
            reply.bulk(b"Some real reply following the attribute");
        }
        b"push" if !resp3 => {
            return Err(Error::text("ERR RESP2 is not supported by this command"));
        }
        b"push" => {
            reply.bulk(b"Some real reply following the push reply");
            call.engine.send(id, |encoder| {
                encoder.push(2);
                encoder.bulk(b"server-cpu-usage");
                encoder.integer(42);
            });
        }
        _ => {
            return Err(Error::text(
                "ERR Wrong protocol type name. Please use one of the following: string|integer|\
                double|bignum|null|array|set|map|attrib|push|verbatim|true|false",
            ));
        }
    }
    Ok(())
}

fn listpack(call: &mut Call<'_>) -> Result<(), Error> {
    let entry = call
        .engine
        .keys
        .peek(call.arg(2))
        .ok_or(Error::NO_SUCH_KEY)?;
    if entry.value.encoding(entry.key()) != "listpack" {
        return Err(Error::text("ERR Not a listpack encoded object."));
    }
    call.reply.simple("The value is kept as a listpack");
    Ok(())
}

fn quicklist(call: &mut Call<'_>) -> Result<(), Error> {
    let entry = peek(call)?;
    if entry.value.encoding(entry.key()) != "quicklist" {
        return Err(Error::text("ERR Not a quicklist encoded object."));
    }
    call.reply.simple("The value is kept as a quicklist");
    Ok(())
}

/// The entry of the key that is asked about.
fn peek<'a>(call: &'a mut Call<'_>) -> Result<&'a Entry, Error> {
    let key = call.arg(2);
    call.engine.keys.peek(key).ok_or(Error::NO_SUCH_KEY)
}

fn string_len(call: &mut Call<'_>) -> Result<(), Error> {
    let entry = peek(call)?;
    let string = match &entry.value {
        Value::String(string) if string.encoding(entry.key()) != "int" => string,
        _ => return Err(Error::text("ERR Not an sds encoded string.")),
    };
    let text = format!(
        "key_sds_len:{} key_sds_avail:0 obj_alloc:{} val_sds_len:{} val_sds_avail:0 val_alloc:{}",
        entry.key().len(),
        size_of::<Value>(),
        string.len(),
        string.heap_size()
    );
    call.reply.simple(&text);
    Ok(())
}

fn table_stats(call: &mut Call<'_>) -> Result<(), Error> {
    const OUT_OF_RANGE: Error = Error::text("ERR Out of range database");
    let db = usize::try_from(call.int(2)?).map_err(|_| OUT_OF_RANGE)?;
    if db >= call.engine.keys.databases() {
        return Err(OUT_OF_RANGE);
    }
    call.engine.keys.select(db);
    let len = call.engine.keys.len();
    let text = format!("[Dictionary HT]\n{}[Expires HT]\n", table_text(len));
    call.reply.verbatim(b"txt", text.as_bytes());
    Ok(())
}

fn value_table_stats(call: &mut Call<'_>) -> Result<(), Error> {
    let entry = peek(call)?;
    let kept_in_table = matches!(entry.value.encoding(entry.key()), "hashtable" | "skiplist");
    let len = match &entry.value {
        Value::Hash(hash) if kept_in_table => hash.len(),
        Value::Set(set) if kept_in_table => set.len(),
        Value::SortedSet(set) if kept_in_table => set.len(),
        _ => {
            return Err(Error::text(
                "ERR The value stored at the specified key is not represented using an hash table",
            ));
        }
    };
    let text = table_text(len);
    call.reply.verbatim(b"txt", text.as_bytes());
    Ok(())
}

fn table_text(len: usize) -> String {
    if len == 0 {
        return String::new();
    }
    format!(
        "Hash table 0 stats (main hash table):\n table size: {}\n number of entries: {len}\n \
        rehashing index: -1\n",
        len.next_power_of_two()
    )
}

// ---- Digests ----

/// A sum over things whose order counts or does not, of twenty bytes.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct Digest([u8; 20]);

impl Digest {
    /// Adds something that may come in any order.
    fn add(&mut self, bytes: &[u8]) {
        for (sum, byte) in self.0.iter_mut().zip(Sha1::from(bytes).digest().bytes()) {
            *sum ^= byte;
        }
    }

    /// Adds something behind all that was added before.
    fn append(&mut self, bytes: &[u8]) {
        self.add(bytes);
        self.0 = Sha1::from(self.0).digest().bytes();
    }

    fn hex(&self) -> String {
        use std::fmt::Write;
        self.0.iter().fold(String::new(), |mut text, byte| {
            let _ = write!(text, "{byte:02x}");
            text
        })
    }
}

fn digest_all(call: &mut Call<'_>) {
    let selected = call.engine.keys.selected();
    let mut digest = Digest::default();
    for db in 0..call.engine.keys.databases() {
        call.engine.keys.select(db);
        if call.engine.keys.is_empty() {
            continue;
        }
        digest.append(&(db as u32).to_be_bytes());
        for entry in call.engine.keys.entries() {
            let mut key = Digest::default();
            key.append(entry.key());
            add_value(&mut key, entry);
            digest.add(&key.0);
        }
    }
    call.engine.keys.select(selected);
    call.reply.simple(&digest.hex());
}

fn digest_values(call: &mut Call<'_>) {
    call.reply.array(call.args.len() - 2);
    for key in &call.args[2..] {
        let mut digest = Digest::default();
        if let Some(entry) = call.engine.keys.peek(key) {
            add_value(&mut digest, entry);
        }
        call.reply.simple(&digest.hex());
    }
}

fn add_value(digest: &mut Digest, entry: &Entry) {
    /// The number of each type in the references.
    fn start(digest: &mut Digest, kind: u32) {
        digest.append(&kind.to_be_bytes());
    }
    match &entry.value {
        Value::String(string) => {
            start(digest, 0);
            digest.append(&string.bytes());
        }
        Value::List(list) => {
            start(digest, 1);
            list.iter().for_each(|element| digest.append(&element));
        }
        Value::Set(set) => {
            start(digest, 2);
            set.iter().for_each(|member| digest.add(&member));
        }
        Value::SortedSet(set) => {
            start(digest, 3);
            for (member, score) in set {
                let mut pair = Digest::default();
                pair.append(&member);
                pair.append(DoubleBuffer::new().format(score).as_bytes());
                digest.add(&pair.0);
            }
        }
        Value::Hash(hash) => {
            start(digest, 4);
            for (field, value) in hash {
                let mut pair = Digest::default();
                pair.append(&field);
                pair.append(&value);
                digest.add(&pair.0);
            }
        }
        Value::Stream(stream) => {
            start(digest, 6);
            for message in stream.iter() {
                let id = message.id().to_string().replace('-', ".");
                digest.append(id.as_bytes());
                for (field, value) in message.pairs() {
                    digest.append(&field.to_byte_str());
                    digest.append(&value.to_byte_str());
                }
            }
        }
    }
    if entry.deadline().is_some() {
        digest.add(b"!!expire!!");
    }
}
