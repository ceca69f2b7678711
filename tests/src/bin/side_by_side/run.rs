//! How each kind of workload is run on a server.

use std::{sync::Arc, time::Duration};

use khoa::Manager;

use crate::{
    Outcome,
    load::{self, CLIENTS, Exchange, Fill, Wire},
    options::Options,
    program::Running,
    rounds::Sample,
    workloads::{Benchmark, Clock, Load, TOKEN, UNLOCK, Workload},
};

/// How much of the usual work is done.
#[derive(Clone, Copy)]
pub struct Scale(u32);

impl Scale {
    pub fn of(options: &Options) -> Scale {
        Scale(if options.short { 50 } else { 1 })
    }

    pub fn down(self, count: u32) -> u32 {
        count.div_ceil(self.0)
    }

    fn fill(self, fill: Fill) -> Fill {
        Fill {
            commands: self.down(fill.commands),
            ..fill
        }
    }
}

impl Workload {
    /// Memory is what it is: a second look only shows that it is.
    pub fn rounds(&self, rounds: usize) -> usize {
        match self.load {
            Load::Memory { .. } => rounds.min(2),
            Load::Start => rounds * 4,
            _ => rounds,
        }
    }

    /// One round; None where the floor has nothing to say.
    pub fn run(
        &self,
        server: &Running,
        options: &Options,
        scale: Scale,
    ) -> Outcome<Option<Sample>> {
        if let Load::Benchmark(benchmark) = self.load {
            let needs_script = benchmark.args.contains(&"{sha}");
            if needs_script && !server.is_real() {
                return Ok(None);
            }
            return fresh(server, options, scale, benchmark).map(Some);
        }
        if !server.is_real() {
            return Ok(None);
        }
        let sample = match self.load {
            Load::LockCycle { pipeline, cycles } => {
                lock_cycle(server, pipeline, scale.down(cycles))
            }
            Load::FanOut { messages } => fan_out(server, scale.down(messages)),
            Load::Contention { turns, by } => contend(server, scale.down(turns), by),
            Load::Memory { fill, elements } => {
                memory_of(server, scale.fill(fill), scale.down(elements))
            }
            Load::Start => server.program.time_to_start().map(Sample::of_time),
            Load::Benchmark(_) => unreachable!("ran above"),
        };
        sample.map(Some)
    }
}

/// On an emptied server that has been filled again.
fn fresh(
    server: &Running,
    options: &Options,
    scale: Scale,
    benchmark: Benchmark,
) -> Outcome<Sample> {
    if server.is_real() {
        load::clear(server)?;
        if let Some(fill) = benchmark.fill {
            load::fill(server, scale.fill(fill))?;
        }
    }
    run_benchmark(server, options, scale, benchmark)
}

/// On the server as it is.
pub fn run_benchmark(
    server: &Running,
    options: &Options,
    scale: Scale,
    benchmark: Benchmark,
) -> Outcome<Sample> {
    let mut args = benchmark
        .args
        .iter()
        .map(ToString::to_string)
        .collect::<Vec<_>>();
    if benchmark.args.contains(&"{sha}") {
        let sha = load_script(server, benchmark.script)?;
        args.iter_mut()
            .filter(|word| *word == "{sha}")
            .for_each(|word| word.clone_from(&sha));
    }
    server.settle()?;
    let volume = load::Volume {
        keys: benchmark.keys,
        pipeline: benchmark.pipeline,
        operations: scale.down(benchmark.operations),
    };
    let sample = load::benchmark(&options.benchmark, server, &args, volume)?;
    let steps = f64::from(benchmark.steps);
    Ok(Sample {
        cost: sample.cost / steps,
        rate: sample.rate.map(|rate| rate * steps),
    })
}

fn load_script(server: &Running, script: &str) -> Outcome<String> {
    let mut load = redis::cmd("SCRIPT");
    load.arg("LOAD").arg(script);
    Ok(load.query(&mut server.connect()?)?)
}

/// Each of the connections takes locks of its own and gives them back, and every reply is checked.
fn lock_cycle(server: &Running, pipeline: u32, cycles: u32) -> Outcome<Sample> {
    load::clear(server)?;
    let sha = load_script(server, UNLOCK)?;
    let mut wires = Vec::new();
    let (mut takes, mut releases) = (Vec::new(), Vec::new());
    // At -P 16 a batch is 8 locks taken and 8 given back; without, the two go one by one.
    let locks = (pipeline / 2).max(1);
    for client in 0..CLIENTS {
        let (mut take, mut release) = (Exchange::default(), Exchange::default());
        for lock in 0..locks {
            let key = format!("lock:{client}:{lock}");
            take.expect(&["SET", &key, TOKEN, "NX", "PX", "30000"], "+OK\r\n");
            let unlock = ["EVALSHA", &sha, "1", &key, TOKEN];
            if pipeline == 1 {
                release.expect(&unlock, ":1\r\n");
            } else {
                take.expect(&unlock, ":1\r\n");
            }
        }
        wires.push(Wire::open(server)?);
        takes.push(take);
        releases.push(release);
    }
    server.settle()?;
    let turns = cycles.div_ceil(CLIENTS as u32 * locks);
    load::timed(server, turns * CLIENTS as u32 * locks, || {
        for _ in 0..turns {
            load::all_at_once(&mut wires, &takes)?;
            if pipeline == 1 {
                load::all_at_once(&mut wires, &releases)?;
            }
        }
        Ok(())
    })
}

/// One client publishes 16 messages at a time, and 50 read them.
fn fan_out(server: &Running, messages: u32) -> Outcome<Sample> {
    const BATCH: u32 = 16;
    const MESSAGE: &str = "*3\r\n$7\r\nmessage\r\n$4\r\nnews\r\n$8\r\nreleased\r\n";
    let mut subscribe = Exchange::default();
    subscribe.expect(
        &["SUBSCRIBE", "news"],
        "*3\r\n$9\r\nsubscribe\r\n$4\r\nnews\r\n:1\r\n",
    );
    let mut wires = Vec::new();
    for _ in 0..CLIENTS {
        let mut wire = Wire::open(server)?;
        wire.exchange(&subscribe)?;
        wires.push(wire);
    }
    let mut publisher = Wire::open(server)?;
    let (mut publish, mut heard) = (Exchange::default(), Exchange::default());
    for _ in 0..BATCH {
        publish.expect(&["PUBLISH", "news", "released"], ":50\r\n");
        heard.hear(MESSAGE);
    }
    server.settle()?;
    let batches = messages.div_ceil(BATCH);
    load::timed(server, batches * BATCH * CLIENTS as u32, || {
        for _ in 0..batches {
            publisher.exchange(&publish)?;
            for wire in &mut wires {
                wire.receive(&heard)?;
            }
        }
        Ok(())
    })
}

/// 50 tasks of one client process take one lock in turn, each so many times.
fn contend(server: &Running, turns: u32, by: Clock) -> Outcome<Sample> {
    load::clear(server)?;
    server.settle()?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let manager = Arc::new(Manager::open(("127.0.0.1", server.port))?);
    let all = turns * CLIENTS as u32;
    let sample = load::timed(server, all, || {
        runtime.block_on(async {
            let mut tasks = Vec::new();
            for _ in 0..CLIENTS {
                let lock = manager.lock("contended").ttl(Duration::from_secs(30));
                tasks.push(tokio::spawn(async move {
                    for _ in 0..turns {
                        let guard = lock.acquire().await?;
                        guard.release().await?;
                    }
                    Ok::<(), khoa::Error>(())
                }));
            }
            for task in tasks {
                task.await??;
            }
            Ok(())
        })
    })?;
    let rate = sample.rate.unwrap_or(f64::NAN);
    Ok(Sample {
        cost: match by {
            Clock::Wall => 1e6 / rate,
            Clock::Cpu => sample.cost,
        },
        rate: Some(rate),
    })
}

/// What filling adds to a new server of this kind.
fn memory_of(server: &Running, fill: Fill, elements: u32) -> Outcome<Sample> {
    let server = Running::start(server.program.clone())?;
    let before = server.resident()?;
    load::fill(&server, fill)?;
    server.settle()?;
    let grown = server.resident()?.saturating_sub(before);
    Ok(Sample::of_time(grown as f64 / f64::from(elements)))
}
