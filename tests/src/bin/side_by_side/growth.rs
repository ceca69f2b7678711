//! The same commands on a thousand, a hundred thousand and ten million keys.

use crate::{
    Outcome,
    load::{self, Fill},
    options::Options,
    program::Running,
    rounds::{self, Row, Sample},
    run::{Scale, run_benchmark},
    workloads::{Benchmark, Part, random_key},
};

const SIZES: [(&str, u32); 3] = [
    ("1 thousand", 1_000),
    ("100 thousand", 100_000),
    ("10 million", 10_000_000),
];

const KEY: &str = "key:__rand_int__";

/// None of them changes the number of keys by much.
const COMMANDS: [&[&str]; 9] = [
    &["GET", KEY],
    &["SET", KEY, "yyy"],
    &["EXPIRE", KEY, "10000"],
    &["SET", "lock:__rand_int__", "token", "NX", "PX", "1"],
    &["UNLINK", "lock:__rand_int__"],
    &["RANDOMKEY"],
    &["SCAN", "0", "COUNT", "10"],
    &["DBSIZE"],
    &["PING"],
];

pub fn measure(servers: &[Running], options: &Options, scale: Scale) -> Outcome<Vec<Row>> {
    let mut rows = Vec::new();
    for (name, keys) in SIZES {
        let keys = if scale.down(keys) == keys {
            keys
        } else {
            1_000
        };
        let mut filled = Vec::new();
        let mut stalls = Vec::new();
        for server in servers {
            let server = Running::start(server.program.clone())?;
            let mut stall = Vec::new();
            if server.is_real() {
                rounds::announce(&format!("{name} keys into {}", server.name));
                let words = |n| {
                    ["SET", &random_key("key", n), "xxx"]
                        .map(str::to_owned)
                        .to_vec()
                };
                let fill = Fill {
                    commands: keys,
                    words,
                };
                stall.push(Sample::of_time(load::fill(&server, fill)? * 1e3));
            }
            stalls.push(stall);
            filled.push(server);
        }
        for command in COMMANDS {
            let benchmark = Benchmark {
                args: command,
                keys,
                ..Benchmark::PLAIN
            };
            let results = rounds::alternate(&filled, options.rounds, |server| {
                run_benchmark(server, options, scale, benchmark).map(Some)
            })?;
            let command = command.join(" ").replace(":__rand_int__", "");
            rows.push(Row::new(
                Part::Growth,
                format!("{name}: {command}"),
                results,
            ));
        }
        let stall = format!("{name}: longest wait of 1,000 SETs while filling, ms");
        rows.push(Row::new(Part::Growth, stall, stalls));
    }
    Ok(rows)
}
