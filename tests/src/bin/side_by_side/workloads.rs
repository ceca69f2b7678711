//! The workloads, a table for each part: what is there before, what is asked, and how often.

use crate::load::{Fill, KEYS};

/// A group of workloads with one unit.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Part {
    Commands,
    Lock,
    Scripts,
    Pubsub,
    Contention,
    Memory,
    Starts,
    Families,
    Growth,
}

impl Part {
    pub const USUAL: [Part; 7] = [
        Part::Commands,
        Part::Lock,
        Part::Scripts,
        Part::Pubsub,
        Part::Contention,
        Part::Memory,
        Part::Starts,
    ];
    pub const ALL: [Part; 9] = [
        Part::Commands,
        Part::Lock,
        Part::Scripts,
        Part::Pubsub,
        Part::Contention,
        Part::Memory,
        Part::Starts,
        Part::Families,
        Part::Growth,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Part::Commands => "commands",
            Part::Lock => "lock",
            Part::Scripts => "scripts",
            Part::Pubsub => "pubsub",
            Part::Contention => "contention",
            Part::Memory => "memory",
            Part::Starts => "starts",
            Part::Families => "families",
            Part::Growth => "growth",
        }
    }

    /// What is measured, for people.
    pub fn title(self) -> &'static str {
        match self {
            Part::Commands => "redis-benchmark's default set: CPU µs per operation",
            Part::Lock => "Lock cycle, SET NX PX and the unlock script: CPU µs per cycle",
            Part::Scripts => "Scripts: CPU µs",
            Part::Pubsub => "Publish to 50 subscribers: CPU µs per message received",
            Part::Contention => "50 tasks that want one lock, by the khoa library: µs per turn",
            Part::Memory => "Memory: resident bytes per key or element",
            Part::Starts => "Start: ms from running the binary to PONG",
            Part::Families => "Other commands, -P 16: CPU µs per operation",
            Part::Growth => "With the number of keys, -P 16: CPU µs per operation",
        }
    }
}

pub struct Workload {
    pub name: String,
    pub load: Load,
}

#[derive(Clone, Copy)]
pub enum Load {
    Benchmark(Benchmark),
    LockCycle { pipeline: u32, cycles: u32 },
    FanOut { messages: u32 },
    Contention { turns: u32, by: Clock },
    Memory { fill: Fill, elements: u32 },
    Start,
}

/// A load that redis-benchmark makes.
#[derive(Clone, Copy)]
pub struct Benchmark {
    pub fill: Option<Fill>,
    /// Its arguments; `{sha}` stands for the hash of the script.
    pub args: &'static [&'static str],
    pub script: &'static str,
    /// Of how many keys, fields or members it takes one at random.
    pub keys: u32,
    pub pipeline: u32,
    pub operations: u32,
    /// What one operation does several times, and the cost is divided by.
    pub steps: u32,
}

impl Benchmark {
    pub const PLAIN: Benchmark = Benchmark {
        fill: None,
        args: &[],
        script: "",
        keys: KEYS,
        pipeline: 16,
        operations: 100_000,
        steps: 1,
    };
}

#[derive(Clone, Copy)]
pub enum Clock {
    Wall,
    Cpu,
}

pub fn of_part(part: Part) -> Vec<Workload> {
    match part {
        Part::Commands => commands(),
        Part::Lock => lock_cycles(),
        Part::Scripts => scripts(),
        Part::Pubsub => vec![one("fan-out", Load::FanOut { messages: 4_000 })],
        Part::Contention => contention(),
        Part::Memory => memory(),
        Part::Starts => vec![one("binary", Load::Start)],
        Part::Families => families(),
        Part::Growth => Vec::new(),
    }
}

fn one(name: &str, load: Load) -> Workload {
    Workload {
        name: name.to_owned(),
        load,
    }
}

pub const TOKEN: &str = "0123456789abcdef0123456789abcdef";
pub const UNLOCK: &str =
    "if redis.call('GET',KEYS[1])==ARGV[1] then return redis.call('DEL',KEYS[1]) else return 0 end";
const SET_LOCK: &[&str] = &["SET", "key:__rand_int__", TOKEN, "NX", "PX", "30000"];

/// Operations of a round without pipelining and at `-P 16`; long replies take more.
const MANY: [u32; 2] = [20_000, 160_000];
const FEWER: [u32; 2] = [10_000, 60_000];
const FEW: [u32; 2] = [6_000, 15_000];

/// What is there before a round of the default set.
#[derive(Clone, Copy)]
enum Before {
    Nothing,
    /// The keys that are then read.
    Keys,
    /// A list as long as the longest range that is read.
    List,
    /// As many elements as are then taken out.
    AsMany(fn(u32) -> Vec<String>),
}

impl Before {
    fn fill(self, operations: u32) -> Option<Fill> {
        let (commands, words): (u32, fn(u32) -> Vec<String>) = match self {
            Before::Nothing => return None,
            Before::Keys => (KEYS, |n| words(&["SET", &random_key("key", n), "xxx"])),
            Before::List => (600, push),
            Before::AsMany(words) => (operations, words),
        };
        Some(Fill { commands, words })
    }
}

fn push(_: u32) -> Vec<String> {
    words(&["RPUSH", "mylist", "xxx"])
}

fn add(number: u32) -> Vec<String> {
    words(&["SADD", "myset", &random_key("element", number)])
}

fn add_scored(number: u32) -> Vec<String> {
    let member = random_key("element", number);
    words(&["ZADD", "myzset", &number.to_string(), &member])
}

type DefaultTest = (&'static str, Before, &'static [&'static str], [u32; 2]);

/// What redis-benchmark runs by default, in its order. Its own tests are called by name, but two:
/// that of LRANGE would push a new list within the measured time, and old versions lack XADD's.
const DEFAULT_SET: [DefaultTest; 20] = [
    ("PING_INLINE", Before::Nothing, &["-t", "ping_inline"], MANY),
    ("PING_MBULK", Before::Nothing, &["-t", "ping_mbulk"], MANY),
    ("SET", Before::Nothing, &["-t", "set"], MANY),
    ("GET", Before::Keys, &["-t", "get"], MANY),
    ("INCR", Before::Nothing, &["-t", "incr"], MANY),
    ("LPUSH", Before::Nothing, &["-t", "lpush"], MANY),
    ("RPUSH", Before::Nothing, &["-t", "rpush"], MANY),
    ("LPOP", Before::AsMany(push), &["-t", "lpop"], MANY),
    ("RPOP", Before::AsMany(push), &["-t", "rpop"], MANY),
    ("SADD", Before::Nothing, &["-t", "sadd"], MANY),
    ("HSET", Before::Nothing, &["-t", "hset"], MANY),
    ("SPOP", Before::AsMany(add), &["-t", "spop"], MANY),
    ("ZADD", Before::Nothing, &["-t", "zadd"], MANY),
    (
        "ZPOPMIN",
        Before::AsMany(add_scored),
        &["-t", "zpopmin"],
        MANY,
    ),
    (
        "LRANGE_100",
        Before::List,
        &["LRANGE", "mylist", "0", "99"],
        FEWER,
    ),
    (
        "LRANGE_300",
        Before::List,
        &["LRANGE", "mylist", "0", "299"],
        FEW,
    ),
    (
        "LRANGE_500",
        Before::List,
        &["LRANGE", "mylist", "0", "499"],
        FEW,
    ),
    (
        "LRANGE_600",
        Before::List,
        &["LRANGE", "mylist", "0", "599"],
        FEW,
    ),
    ("MSET (10 keys)", Before::Nothing, &["-t", "mset"], FEWER),
    (
        "XADD",
        Before::Nothing,
        &["XADD", "mystream", "*", "myfield", "xxx"],
        MANY,
    ),
];

fn commands() -> Vec<Workload> {
    let row = |pipeline, (name, before, args, operations): DefaultTest| {
        let operations = operations[usize::from(pipeline > 1)];
        let benchmark = Benchmark {
            fill: before.fill(operations),
            args,
            pipeline,
            operations,
            ..Benchmark::PLAIN
        };
        one(&format!("{name} -P {pipeline}"), Load::Benchmark(benchmark))
    };
    let rows = [1, 16].map(|pipeline| DEFAULT_SET.map(|test| row(pipeline, test)));
    rows.into_iter().flatten().collect()
}

fn lock_cycles() -> Vec<Workload> {
    let cycle = |pipeline, cycles| {
        one(
            &format!("lock cycle -P {pipeline}"),
            Load::LockCycle { pipeline, cycles },
        )
    };
    let take = |pipeline, operations| {
        let benchmark = Benchmark {
            args: SET_LOCK,
            pipeline,
            operations,
            ..Benchmark::PLAIN
        };
        one(
            &format!("SET NX PX alone -P {pipeline}"),
            Load::Benchmark(benchmark),
        )
    };
    vec![
        cycle(1, 10_000),
        cycle(16, 50_000),
        take(1, MANY[0]),
        take(16, MANY[1]),
    ]
}

/// Unlocking is measured on 100,000 held locks of which one is taken at random, so some are
/// already free: 1 in 10 at `-P 1`, 1 in 3 at `-P 16`.
fn scripts() -> Vec<Workload> {
    const EVALSHA: &[&str] = &["EVALSHA", "{sha}", "1", "key:__rand_int__", TOKEN];
    const EVAL: &[&str] = &["EVAL", UNLOCK, "1", "key:__rand_int__", TOKEN];
    const CALLS: &str = "for i=1,1000 do redis.call('GET',KEYS[1]) end";
    const LOOP: &str = "local x=0 for i=1,1000000 do x=(x+i*3)%7 end return x";
    let locks = Fill {
        commands: KEYS,
        words: |n| words(&["SET", &random_key("key", n), TOKEN, "PX", "3600000"]),
    };
    let row = |name: &str, args, script, pipeline, operations, steps| {
        let benchmark = Benchmark {
            fill: (script == UNLOCK).then_some(locks),
            args,
            script,
            pipeline,
            operations,
            steps,
            ..Benchmark::PLAIN
        };
        one(name, Load::Benchmark(benchmark))
    };
    vec![
        row("unlock, EVALSHA -P 1", EVALSHA, UNLOCK, 1, 20_000, 1),
        row("unlock, EVALSHA -P 16", EVALSHA, UNLOCK, 16, 100_000, 1),
        row("unlock, EVAL -P 1", EVAL, UNLOCK, 1, 20_000, 1),
        row("unlock, EVAL -P 16", EVAL, UNLOCK, 16, 100_000, 1),
        row(
            "one of 1,000 redis.call('GET')",
            EVALSHA,
            CALLS,
            1,
            500,
            1_000,
        ),
        row("one turn of a tight loop", EVALSHA, LOOP, 1, 50, 1_000_000),
    ]
}

fn contention() -> Vec<Workload> {
    let row = |name, by| one(name, Load::Contention { turns: 20, by });
    vec![
        row("time", Clock::Wall),
        row("CPU of the server", Clock::Cpu),
    ]
}

fn memory() -> Vec<Workload> {
    let row = |name, elements, commands, words| {
        let fill = Fill { commands, words };
        one(name, Load::Memory { fill, elements })
    };
    const MILLION: u32 = 1_000_000;
    // Ten elements a command; of the small ones a key of its own for each ten.
    const TENTH: u32 = MILLION / 10;
    vec![
        row("1,000,000 lock keys", MILLION, MILLION, |n| {
            words(&[
                "SET",
                &format!("lock:resource:{n:07}"),
                TOKEN,
                "NX",
                "PX",
                "3600000",
            ])
        }),
        row("1,000,000 short strings", MILLION, MILLION, |n| {
            words(&["SET", &format!("key:{n:07}"), &n.to_string()])
        }),
        row("hashes of 10", MILLION, TENTH, |n| {
            pairs("HSET", &small(n), 0)
        }),
        row("hash of 1,000,000", MILLION, TENTH, |n| {
            pairs("HSET", "large", n)
        }),
        row("lists of 10", MILLION, TENTH, |n| {
            singles("RPUSH", &small(n), 0)
        }),
        row("list of 1,000,000", MILLION, TENTH, |n| {
            singles("RPUSH", "large", n)
        }),
        row("sets of 10", MILLION, TENTH, |n| {
            singles("SADD", &small(n), 0)
        }),
        row("set of 1,000,000", MILLION, TENTH, |n| {
            singles("SADD", "large", n)
        }),
        row("sorted sets of 10", MILLION, TENTH, |n| {
            scored(&small(n), 0)
        }),
        row("sorted set of 1,000,000", MILLION, TENTH, |n| {
            scored("large", n)
        }),
    ]
}

/// A command of each kind that the default set leaves out, on data of its own.
fn families() -> Vec<Workload> {
    const FIELD: &str = "element:__rand_int__";
    const KEY: &str = "key:__rand_int__";
    let fill = |commands, words| Some(Fill { commands, words });
    let strings = || fill(KEYS, |n| words(&["SET", &random_key("key", n), "xxx"]));
    let hash = || {
        fill(KEYS, |n| {
            words(&["HSET", "h", &random_key("element", n), "xxx"])
        })
    };
    let list = || fill(1_000, |n| words(&["RPUSH", "l", &n.to_string()]));
    let set = || fill(KEYS, |n| words(&["SADD", "s", &random_key("element", n)]));
    let sorted = || {
        fill(KEYS, |n| {
            words(&["ZADD", "z", &n.to_string(), &random_key("element", n)])
        })
    };
    let stream = || {
        fill(1_000, |n| {
            words(&["XADD", "x", &format!("{}-0", n + 1), "f", "v"])
        })
    };
    let nothing = || None;
    let row = |args: &'static [&'static str], fill: Option<Fill>| {
        let benchmark = Benchmark {
            fill,
            args,
            ..Benchmark::PLAIN
        };
        let name = args.join(" ").replace(":__rand_int__", "");
        one(&name, Load::Benchmark(benchmark))
    };
    vec![
        row(&["EXISTS", KEY], strings()),
        row(&["TTL", KEY], strings()),
        row(&["EXPIRE", KEY, "1000"], strings()),
        row(&["DEL", KEY], strings()),
        row(&["MGET", KEY, KEY, KEY, KEY, KEY], strings()),
        row(&["APPEND", KEY, "x"], strings()),
        row(&["SETRANGE", KEY, "1", "y"], strings()),
        row(&["GETDEL", KEY], strings()),
        row(&["SETBIT", KEY, "5", "1"], nothing()),
        row(&["PFADD", "hll", FIELD], nothing()),
        row(&["HGET", "h", FIELD], hash()),
        row(&["HINCRBY", "numbers", FIELD, "1"], nothing()),
        row(&["HDEL", "h", FIELD], hash()),
        row(&["LINDEX", "l", "500"], list()),
        row(&["LMOVE", "l", "l", "LEFT", "RIGHT"], list()),
        row(&["SISMEMBER", "s", FIELD], set()),
        row(&["SRANDMEMBER", "s", "5"], set()),
        row(&["ZSCORE", "z", FIELD], sorted()),
        row(&["ZRANK", "z", FIELD], sorted()),
        row(&["ZINCRBY", "z", "1", FIELD], sorted()),
        row(&["ZRANGEBYSCORE", "z", "5000", "5009"], sorted()),
        row(&["ZRANGE", "z", "50000", "50009"], sorted()),
        row(&["GEOADD", "places", "13.3", "38.1", FIELD], nothing()),
        row(&["XRANGE", "x", "500", "509"], stream()),
        row(&["XLEN", "x"], stream()),
        row(&["SCAN", "0", "COUNT", "10"], strings()),
        row(&["RANDOMKEY"], strings()),
        row(&["PUBLISH", "nobody", "xxx"], nothing()),
    ]
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(ToString::to_string).collect()
}

/// A name as redis-benchmark makes it: digits that stand for a number below its `-r`.
pub fn random_key(prefix: &str, number: u32) -> String {
    format!("{prefix}:{number:012}")
}

fn small(number: u32) -> String {
    format!("small:{number:06}")
}

/// The command with the ten elements behind ten times the number.
fn singles(command: &str, key: &str, tens: u32) -> Vec<String> {
    let elements = (0..10).map(|unit| format!("e:{}", tens * 10 + unit));
    words(&[command, key]).into_iter().chain(elements).collect()
}

fn pairs(command: &str, key: &str, tens: u32) -> Vec<String> {
    let numbers = (0..10).map(|unit| tens * 10 + unit);
    let pairs = numbers.flat_map(|number| [format!("e:{number}"), format!("v:{number}")]);
    words(&[command, key]).into_iter().chain(pairs).collect()
}

fn scored(key: &str, tens: u32) -> Vec<String> {
    let numbers = (0..10).map(|unit| tens * 10 + unit);
    let pairs = numbers.flat_map(|number| [number.to_string(), format!("e:{number}")]);
    words(&["ZADD", key]).into_iter().chain(pairs).collect()
}
