//! The words that requests are made of: few enough to meet again, with the edges of each kind among them.

use std::sync::LazyLock;

use fastrand::Rng;

use super::Words;

/// Keys come by kind, so that most commands meet a value of their own type.
const KEYS_OF_A_KIND: usize = 4;
/// Far enough in the future that nothing expires by itself while a sequence runs; beyond 2^32, so
/// that it is no bit offset that could be served.
const FUTURE_SECONDS: u64 = 4_400_000_000;

/// Words that are wrong or extreme almost anywhere. None is a number that a server would serve by
/// reserving memory for it.
const EDGES: &[&[u8]] = &[
    b"",
    b"0",
    b"-1",
    b"1",
    b"abc",
    b"1.5",
    b"-0",
    b"nan",
    b"inf",
    b"-inf",
    b"9223372036854775807",
    b"-9223372036854775808",
    b"9223372036854775808",
    b"18446744073709551615",
    b"18446744073709551616",
    b"4294967296",
    b"1e400",
    b"0x10",
    b" 1",
    b"1 ",
    b"01",
    b"+5",
    b"$",
    b"\x00\xff\r\n",
];

const NUMBERS: &[&[u8]] = &[
    b"9223372036854775807",
    b"-9223372036854775808",
    b"9223372036854775808",
    b"3.0e3",
    b"1.5",
    b"-0.25",
    b"0.1",
    b"-0",
    b"1e17",
    b"123456789.123456789",
    b"32768",
    b"-129",
    b"-2147483649",
    b"4294967296",
];

const SCORES: &[&[u8]] = &[
    b"0",
    b"1",
    b"2",
    b"3",
    b"1.5",
    b"-1",
    b"2.25",
    b"0.1",
    b"1e3",
    b"inf",
    b"-inf",
    b"1e308",
    b"-1e308",
    b"3.141592653589793",
    b"9007199254740993",
    b"5e-324",
];

const LONGITUDES: &[&[u8]] = &[
    b"13.361389",
    b"15.087269",
    b"2.35",
    b"-0.1",
    b"0",
    b"-180",
    b"179.99",
    b"12.5",
    b"105.85",
];
const LATITUDES: &[&[u8]] = &[
    b"38.115556",
    b"37.502669",
    b"48.85",
    b"51.5",
    b"0",
    b"-85",
    b"85.05",
    b"41.9",
    b"21.03",
];

const PATTERNS: &[&[u8]] = &[
    b"*", b"s*", b"?1", b"[a-h]*", b"[^s]*", b"nothing", b"*1", b"\\*", b"[", b"h?", b"",
];
const CHANNELS: &[&[u8]] = &[
    b"ch1",
    b"ch2",
    b"news",
    b"",
    b"__keyspace@0__:s1",
    b"__keyevent@0__:del",
];
const CHANNEL_PATTERNS: &[&[u8]] = &[b"ch*", b"n?ws", b"__key*@*__:*", b"*", b"[cn]*"];
const BY_PATTERNS: &[&[u8]] = &[
    b"nosort", b"s*", b"h1->*", b"n*", b"#", b"z*", b"*", b"h*->a",
];

/// Scripts; those in front run the request that stands in their arguments.
pub const SCRIPTS: &[&[u8]] = &[
    b"return redis.call(unpack(ARGV))",
    b"return redis.pcall(unpack(ARGV))",
    b"redis.setresp(3) return redis.call(unpack(ARGV))",
    b"local r = redis.pcall(unpack(ARGV)) if type(r) == 'table' and r.err then return {'failed', r.err} end return r",
    b"return {KEYS, ARGV, #KEYS}",
    b"return {1, 2.9, 'x', {3, true, false}, nil, 5}",
    b"return redis.status_reply('FINE')",
    b"return redis.error_reply('MY error')",
    b"return redis.error_reply('no code')",
    b"return {err = 'CODE text', ok = 'fine'}",
    b"redis.setresp(3) return {map = {a = 1}}",
    b"redis.setresp(3) return {double = 1.25}",
    b"return true",
    b"error('out of luck')",
    b"error({err = 'ERR by table'})",
    b"return tostring(tonumber(ARGV[1]))",
    b"return redis.sha1hex(ARGV[1] or '')",
    b"return cjson.encode({KEYS, ARGV})",
    b"return undefined_name",
    b"this is no Lua",
    b"#!lua flags=no-writes\nreturn redis.call(unpack(ARGV))",
    b"#!lua flags=allow-cross-slot-keys\nreturn #ARGV",
    b"#!lua flags=unheard-of\nreturn 1",
    b"for i, key in ipairs(KEYS) do redis.call('DEL', key) end return #KEYS",
];
/// How many of [`SCRIPTS`], from the first, run the request in their arguments.
const RUNNERS: usize = 4;

/// Libraries for FUNCTION LOAD.
const LIBRARIES: &[&[u8]] = &[
    b"#!lua name=lib1\nredis.register_function('run', function(keys, args) return redis.call(unpack(args)) end)",
    b"#!lua name=lib2\nredis.register_function{function_name='look', callback=function(keys, args) return redis.pcall(unpack(args)) end, flags={'no-writes'}}",
    b"#!lua name=lib2\nredis.register_function('echo', function(keys, args) return {keys, args} end)",
    b"#!lua name=lib1\nredis.register_function('run', function() error('broken') end)",
    b"#!lua name=lib3\nreturn 1",
    b"#!lua\nreturn 1",
    b"#!lua name=bad name\n",
    b"no library",
];
const FUNCTIONS: &[&[u8]] = &[b"run", b"look", b"echo", b"absent"];

/// Requests that fill one key each of every kind; their DUMPs are the vocabulary of RESTORE.
pub const SAMPLES: &[&[&[u8]]] = &[
    &[b"SET", b"sample", b"abc"],
    &[b"SET", b"sample", b"12345"],
    &[b"RPUSH", b"sample", b"a", b"b", b"7"],
    &[b"SADD", b"sample", b"1", b"2", b"3"],
    &[b"SADD", b"sample", b"a"],
    &[b"HSET", b"sample", b"a", b"1", b"b", b"2"],
    &[b"ZADD", b"sample", b"1", b"a", b"2.5", b"b"],
    &[b"XADD", b"sample", b"1-1", b"a", b"1"],
];

/// What is drawn from: the random numbers and what earlier draws left behind.
pub struct Vocabulary {
    /// Where randomness comes from.
    pub rng: Rng,
    /// Payloads for RESTORE, as the reference serialises [`SAMPLES`].
    payloads: Words,
    /// The newest stream id handed out, so that most new ones are larger.
    stream_clock: u64,
    /// Is anything wrong on purpose now and then?
    pub spoils: bool,
}

impl Vocabulary {
    /// The same seed draws the same words.
    pub fn new(seed: u64, payloads: Words) -> Self {
        Self {
            rng: Rng::with_seed(seed),
            payloads,
            stream_clock: 0,
            spoils: true,
        }
    }

    /// True in `percent` of the cases.
    pub fn chance(&mut self, percent: u32) -> bool {
        self.rng.u32(0..100) < percent
    }

    /// One of some words.
    pub fn one_of(&mut self, words: &[&[u8]]) -> Vec<u8> {
        words[self.rng.usize(0..words.len())].to_vec()
    }

    /// A whole number of a range, as a word.
    pub fn number(&mut self, range: std::ops::RangeInclusive<i64>) -> Vec<u8> {
        self.rng.i64(range).to_string().into_bytes()
    }

    /// A word that is wrong or extreme almost anywhere.
    pub fn edge(&mut self) -> Vec<u8> {
        self.one_of(EDGES)
    }

    /// A key for a command of this group.
    pub fn key(&mut self, command: &str, group: &str) -> Vec<u8> {
        let kind = match group {
            _ if command.ends_with("lex") || command == "zlexcount" => b'y',
            _ if self.chance(8) => *self.rng.choice(b"snlehzxpg").unwrap_or(&b's'),
            "string" if is_counter(command) => b'n',
            "string" | "bitmap" => b's',
            "list" => b'l',
            "set" => b'e',
            "hash" => b'h',
            "sorted-set" => b'z',
            "stream" => b'x',
            "hyperloglog" => b'p',
            "geo" => b'g',
            _ if command.starts_with("sort") => *self.rng.choice(b"lez").unwrap_or(&b'l'),
            _ => *self.rng.choice(b"snlehzxpg").unwrap_or(&b's'),
        };
        let number = self.rng.usize(1..=KEYS_OF_A_KIND);
        format!("{}{number}", char::from(kind)).into_bytes()
    }

    /// A key for members of one score.
    pub fn lex_key(&mut self) -> Vec<u8> {
        format!("y{}", self.rng.usize(1..=KEYS_OF_A_KIND)).into_bytes()
    }

    /// A value, member, field or element.
    pub fn text(&mut self) -> Vec<u8> {
        match self.rng.u32(0..100) {
            0..45 => vec![self.rng.u8(b'a'..=b'h')],
            45..70 => self.number(-3..=20),
            70..78 => self.one_of(NUMBERS),
            78..82 => self.one_of(&[b"", b"\x00\xff", b"a b\r\n", "é".as_bytes(), b"A"]),
            82..86 => {
                let length = self.rng.choice([44, 45, 64, 65, 200]).unwrap_or(64);
                vec![self.rng.u8(b'x'..=b'z'); length]
            }
            86 => vec![b'v'; 3000],
            _ => (0..self.rng.usize(2..6))
                .map(|_| self.rng.u8(b'a'..=b'e'))
                .collect(),
        }
    }

    /// The value of an argument, by what its row says of it.
    pub fn value(&mut self, command: &str, group: &str, kind: &str, name: &str) -> Vec<u8> {
        if kind != "key" && self.spoils && self.chance(3) {
            return self.edge();
        }
        match kind {
            "key" => self.key(command, group),
            "pattern" => self.pattern(command, name),
            "double" => self.double(name),
            "unix-time" => self.unix_time(name),
            "integer" => self.integer(command, name),
            _ => self.string(command, group, name),
        }
    }

    fn pattern(&mut self, command: &str, name: &str) -> Vec<u8> {
        match name {
            "by-pattern" | "get-pattern" => self.one_of(BY_PATTERNS),
            _ if command.ends_with("subscribe") || command.starts_with("pubsub") => {
                self.one_of(CHANNEL_PATTERNS)
            }
            _ => self.one_of(PATTERNS),
        }
    }

    fn double(&mut self, name: &str) -> Vec<u8> {
        match name {
            "timeout" => self.one_of(&[b"0", b"0.01", b"0.01", b"0.01", b"1000", b"-1", b"inf"]),
            "longitude" => self.one_of(LONGITUDES),
            "latitude" => self.one_of(LATITUDES),
            "radius" | "width" | "height" => {
                self.one_of(&[b"0", b"100", b"200", b"1000", b"20000", b"-1", b"0.5"])
            }
            "min" | "max" => self.score_bound(),
            _ => self.score(),
        }
    }

    fn score(&mut self) -> Vec<u8> {
        if self.chance(50) {
            self.number(-5..=20)
        } else {
            self.one_of(SCORES)
        }
    }

    fn score_bound(&mut self) -> Vec<u8> {
        match self.rng.u32(0..10) {
            0..3 => self.one_of(&[b"-inf", b"+inf", b"inf", b"(-inf", b"(inf"]),
            3..6 => [b"(".to_vec(), self.score()].concat(),
            _ => self.score(),
        }
    }

    fn lex_bound(&mut self) -> Vec<u8> {
        match self.rng.u32(0..10) {
            0..4 => self.one_of(&[b"-", b"+"]),
            4..7 => [b"[".to_vec(), self.text()].concat(),
            7..9 => [b"(".to_vec(), self.text()].concat(),
            _ => self.text(),
        }
    }

    fn unix_time(&mut self, name: &str) -> Vec<u8> {
        match self.rng.u32(0..10) {
            0 => self.one_of(&[b"0", b"1", b"-1"]),
            1 => self.one_of(&[b"1000", b"1700000000"]),
            _ => {
                let seconds = FUTURE_SECONDS + self.rng.u64(0..20);
                if name.contains("milli") {
                    (seconds * 1000 + self.rng.u64(0..1000)).to_string()
                } else {
                    seconds.to_string()
                }
                .into_bytes()
            }
        }
    }

    /// A time to live. Long ones never repeat, so that GT and LT are not decided by the moment at
    /// which each server ran the two requests.
    fn time_to_live(&mut self, unit: u64) -> Vec<u8> {
        match self.rng.u32(0..20) {
            0 => b"0".to_vec(),
            1 => b"-1".to_vec(),
            2 => self.one_of(&[
                b"9223372036854775807",
                b"-9223372036854775808",
                b"99999999999999999",
            ]),
            _ => (self.rng.u64(2000..1_000_000) * unit)
                .to_string()
                .into_bytes(),
        }
    }

    fn integer(&mut self, command: &str, name: &str) -> Vec<u8> {
        match name {
            "seconds" if command != "restore" => self.time_to_live(1),
            "milliseconds" if command.starts_with("xread") => {
                self.one_of(&[b"0", b"10", b"10", b"10", b"1000000", b"-1"])
            }
            "ttl" if self.chance(60) => b"0".to_vec(),
            "milliseconds" | "ttl" => self.time_to_live(1000),
            "unix-time-seconds" | "unix-time-milliseconds" => self.unix_time(name),
            "timeout" => b"10".to_vec(),
            "numreplicas" => self.one_of(&[b"0", b"0", b"1"]),
            "numlocal" => b"0".to_vec(),
            "cursor" if self.chance(90) => b"0".to_vec(),
            "cursor" => self.number(1..=50),
            "db" | "destination-db" | "index1" | "index2" => self.database(),
            "index" if command == "select" => self.database(),
            "count" | "limit" | "num-matches" | "len" => self.count(),
            "offset" if command.starts_with("bitfield") && self.chance(20) => {
                [b"#".to_vec(), self.number(0..=20)].concat()
            }
            "offset" => self.offset(),
            "bit" => self.one_of(&[b"0", b"1", b"1", b"2"]),
            "value" if command == "setbit" => self.one_of(&[b"0", b"1", b"1", b"2"]),
            "client-id" => self.client(),
            "ms" => self.number(0..=5000),
            "protover" => self.one_of(&[b"1", b"4", b"x"]),
            "slot" | "start-slot" | "end-slot" => self.number(-1..=16384),
            "rank" => self.one_of(&[b"1", b"2", b"-1", b"-2", b"0", b"5"]),
            _ if self.chance(90) => self.number(-4..=8),
            _ => self.one_of(NUMBERS),
        }
    }

    /// A database; some are none.
    pub fn database(&mut self) -> Vec<u8> {
        match self.rng.u32(0..20) {
            0 => self.one_of(&[b"16", b"-1", b"abc"]),
            1..14 => b"0".to_vec(),
            _ => self.number(1..=3),
        }
    }

    /// Large counts are far over what is stored, negative ones small: a server would make as many.
    fn count(&mut self) -> Vec<u8> {
        match self.rng.u32(0..20) {
            0 => self.number(-5..=-1),
            1..3 => b"0".to_vec(),
            3..6 => b"1000".to_vec(),
            6 => b"9223372036854775807".to_vec(),
            _ => self.number(1..=5),
        }
    }

    fn offset(&mut self) -> Vec<u8> {
        match self.rng.u32(0..20) {
            0 => self.one_of(&[b"-1", b"4294967296", b"9223372036854775807"]),
            1..4 => self.number(64..=600),
            _ => self.number(0..=20),
        }
    }

    /// A client's id, written as its place; see [`super::lockstep`].
    pub fn client(&mut self) -> Vec<u8> {
        let client = self.rng.u8(0..4);
        id_of(client.into())
    }

    fn string(&mut self, command: &str, group: &str, name: &str) -> Vec<u8> {
        match (name, group) {
            (
                "start" | "end" | "id" | "lastid" | "last-id" | "max-deleted-id" | "threshold",
                "stream",
            ) => self.stream_id(command, name),
            ("group", _) => self.one_of(&[b"g1", b"g1", b"g2", b"absent"]),
            ("consumer", _) => self.one_of(&[b"c1", b"c2", b"c3"]),
            ("min-idle-time", _) => self.one_of(&[b"0", b"0", b"0", b"3600000000", b"-1"]),
            ("start" | "stop", "sorted-set") => self.number(-4..=8),
            ("min" | "max", "sorted-set") if command == "zrangestore" => self.number(-4..=8),
            ("min" | "max", _) => self.lex_bound(),
            ("encoding", _) => self.one_of(&[
                b"u8", b"i8", b"u4", b"i5", b"u63", b"i64", b"u1", b"u64", b"i0", b"x8",
            ]),
            ("channel" | "shardchannel", _) => self.one_of(CHANNELS),
            ("script", _) => self.one_of(SCRIPTS),
            ("sha1", _) => self.sha(),
            ("function-code", _) => self.one_of(LIBRARIES),
            ("function", _) => self.one_of(FUNCTIONS),
            ("library-name", _) => self.one_of(&[b"lib1", b"lib2", b"lib3"]),
            ("library-name-pattern", _) => self.one_of(&[b"*", b"lib1", b"lib?"]),
            ("serialized-value", _) => self.payload(),
            ("username", _) => self.one_of(&[b"alice", b"bob", b"default", b"absent"]),
            ("command" | "command-name", _) => self.one_of(&[
                b"get",
                b"SET",
                b"xgroup|create",
                b"zadd",
                b"eval",
                b"nothing",
            ]),
            ("category", _) => self.one_of(&[b"read", b"keyspace", b"dangerous", b"nothing"]),
            ("connection-name" | "clientname", _) => self.one_of(&[b"one", b"two", b"a b", b""]),
            ("type", _) => self.one_of(&[
                b"string", b"list", b"SET", b"hash", b"zset", b"stream", b"nothing",
            ]),
            ("subcommand", "hyperloglog") => {
                self.one_of(&[b"ENCODING", b"GETREG", b"DECODE", b"TODENSE", b"nothing"])
            }
            ("prefix", _) => self.one_of(&[b"s", b"l", b"h1", b""]),
            ("rule", _) => self.one_of(&[
                b"on",
                b"off",
                b"+get",
                b"-@all",
                b"+@read",
                b"~s*",
                b"allkeys",
                b">secret",
                b"nopass",
                b"resetkeys",
                b"&ch*",
                b"nocommands",
                b"+xgroup|create",
                b"%R~l*",
                b"(+set ~n*)",
                b"nothing",
            ]),
            ("path" | "libname" | "libver", _) => self.one_of(&[b"lib", b"1.0"]),
            _ => self.text(),
        }
    }

    fn stream_id(&mut self, command: &str, name: &str) -> Vec<u8> {
        let newest = self.stream_clock;
        let is_new = command == "xadd" && name == "id";
        match self.rng.u32(0..20) {
            0 => self.one_of(&[
                b"0-0",
                b"5-*",
                b"abc",
                b"18446744073709551615-18446744073709551615",
                b"1-x",
            ]),
            1..4 if !is_new => self.one_of(&[b"-", b"+", b"$", b">", b"0"]),
            4..6 if name == "id" && command == "xreadgroup" => b"0".to_vec(),
            4..14 if name == "id" && command == "xreadgroup" => b">".to_vec(),
            4..12 if name == "start" => self.one_of(&[b"-", b"0"]),
            4..12 if name == "end" => b"+".to_vec(),
            12 if matches!(name, "start" | "end") => format!("({newest}-1").into_bytes(),
            _ if is_new => {
                self.stream_clock += self.rng.u64(0..2);
                match self.rng.u32(0..4) {
                    0 => format!("{}-*", self.stream_clock),
                    _ => format!("{}-{}", self.stream_clock, self.rng.u32(0..4)),
                }
                .into_bytes()
            }
            _ => {
                let near = newest.saturating_sub(self.rng.u64(0..8));
                match self.rng.u32(0..4) {
                    0 => near.to_string(),
                    _ => format!("{near}-{}", self.rng.u32(0..4)),
                }
                .into_bytes()
            }
        }
    }

    fn sha(&mut self) -> Vec<u8> {
        let script = self.one_of(SCRIPTS);
        match self.rng.u32(0..10) {
            0 => b"0123456789012345678901234567890123456789".to_vec(),
            1 => b"abc".to_vec(),
            _ => sha_of(&script),
        }
    }

    fn payload(&mut self) -> Vec<u8> {
        if self.payloads.is_empty() || self.chance(10) {
            return self.text();
        }
        let at = self.rng.usize(0..self.payloads.len());
        let mut payload = self.payloads[at].clone();
        if self.chance(5) {
            let at = self.rng.usize(0..payload.len());
            payload[at] ^= 1;
        }
        payload
    }

    /// A script that runs the request in its arguments.
    pub fn runner(&mut self) -> Vec<u8> {
        self.one_of(&SCRIPTS[..RUNNERS])
    }

    /// Bounds of the kind that BYSCORE and BYLEX take.
    pub fn bound_by(&mut self, word: &[u8]) -> Option<Vec<u8>> {
        match word.to_ascii_uppercase().as_slice() {
            b"BYSCORE" => Some(self.score_bound()),
            b"BYLEX" => Some(self.lex_bound()),
            _ => None,
        }
    }
}

fn is_counter(command: &str) -> bool {
    command.starts_with("incr") || command.starts_with("decr")
}

/// The name by which EVALSHA knows a script.
pub fn sha_of(script: &[u8]) -> Vec<u8> {
    sha1_smol::Sha1::from(script)
        .digest()
        .to_string()
        .into_bytes()
}

/// The word that stands for a client's id, which each server gives for itself.
pub fn id_of(client: usize) -> Vec<u8> {
    format!("<id of {client}>").into_bytes()
}

/// The client whose id a word stands for.
pub fn client_of(word: &[u8]) -> Option<usize> {
    let number = word.strip_prefix(b"<id of ")?.strip_suffix(b">")?;
    std::str::from_utf8(number).ok()?.parse().ok()
}

/// Whether a script, by its text or its SHA1, or a function runs the request in its arguments.
pub fn is_runner(script: &[u8]) -> bool {
    static NAMES: LazyLock<Vec<Vec<u8>>> = LazyLock::new(|| {
        let runners = &SCRIPTS[..RUNNERS];
        let shas = runners.iter().map(|script| sha_of(script));
        let texts = runners
            .iter()
            .chain(&FUNCTIONS[..2])
            .map(|text| text.to_vec());
        texts.chain(shas).collect()
    });
    NAMES.iter().any(|name| name == script)
}
