//! The same commands on a thousand, a hundred thousand and ten million keys.

use crate::{
    Outcome,
    load::{self, Fill},
    options::Options,
    program::Running,
    rounds::{self, Row, Sample, Samples},
    run::{Scale, run_benchmark},
    workloads::{Benchmark, Part, random_key},
};

const SIZES: [(&str, u32); 3] = [
    ("1 thousand", 1_000),
    ("100 thousand", 100_000),
    ("10 million", 10_000_000),
];

const KEY: &str = "key:__rand_int__";

/// What is asked, and how often; none of it changes the number of keys by much. SWAPDB is asked an
/// even number of times.
const COMMANDS: [(&[&str], u32); 12] = [
    (&["GET", KEY], 100_000),
    (&["SET", KEY, "yyy"], 100_000),
    (&["EXPIRE", KEY, "10000"], 100_000),
    (
        &["SET", "lock:__rand_int__", "token", "NX", "PX", "1"],
        100_000,
    ),
    (&["UNLINK", "lock:__rand_int__"], 100_000),
    (&["RANDOMKEY"], 100_000),
    (&["SCAN", "0", "COUNT", "10"], 100_000),
    (&["DBSIZE"], 100_000),
    (&["SWAPDB", "0", "1"], 100_000),
    (&["MEMORY", "USAGE", KEY], 100_000),
    (&["INFO"], 5_000),
    (&["PING"], 100_000),
];

pub fn measure(servers: &[Running], options: &Options, scale: Scale) -> Outcome<Vec<Row>> {
    let mut rows = Vec::new();
    for (size, keys) in SIZES {
        let keys = scale.down(keys);
        let (mut filled, mut waits) = (Vec::new(), Vec::new());
        for server in servers {
            rounds::announce(&format!("{size} keys into {}", server.name));
            let server = Running::start(server.program.clone())?;
            waits.push(fill(&server, keys)?);
            filled.push(server);
        }
        for (args, operations) in COMMANDS {
            let benchmark = Benchmark {
                args,
                keys,
                operations,
                ..Benchmark::PLAIN
            };
            let command = args.join(" ").replace(":__rand_int__", "");
            let name = format!("{size}: {command}");
            rounds::announce(&name);
            let results = rounds::alternate(&filled, options.rounds, |server| {
                run_benchmark(server, options, scale, benchmark).map(Some)
            })?;
            rows.push(Row::new(Part::Growth, name, results));
        }
        let name = format!("{size}: longest wait of 1,000 SETs while filling, ms");
        rows.push(Row::new(Part::Growth, name, waits));
    }
    Ok(rows)
}

/// Fills a real server, and returns how long the slowest pipeline took.
fn fill(server: &Running, keys: u32) -> Outcome<Samples> {
    if !server.is_real() {
        return Ok(Samples::new());
    }
    let fill = Fill {
        commands: keys,
        words: |number| {
            let words = ["SET", &random_key("key", number), "xxx"];
            words.map(str::to_owned).to_vec()
        },
    };
    let wait = load::fill(server, fill)?;
    Ok(vec![Sample::of_time(wait * 1e3)])
}
