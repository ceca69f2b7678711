//! Measures khoa-server beside reference servers in one run, and prints the ratios.
//!
//! `cargo run --release -p khoa-tests --bin side_by_side` builds khoa-server and takes the
//! references that it finds; `--help` lists the options. Rounds alternate between the servers. The
//! cost of a command is the CPU time of the server's process, user and system, so that a busy
//! machine blurs it less than wall time. It judges nothing: timings decide no test.

mod chart;
mod cores;
mod growth;
mod load;
mod machine;
mod options;
mod program;
mod rounds;
mod run;
mod silent;
mod table;
mod workloads;

use std::{error::Error, fs, process::ExitCode, time::Instant};

use khoa_server::Server;

use crate::{
    machine::Machine,
    options::Options,
    program::{Program, Running},
    rounds::{Row, Sample, Spread},
    run::Scale,
    workloads::Part,
};

type Outcome<T> = Result<T, Box<dyn Error>>;

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("side_by_side: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Outcome<()> {
    let Some(options) = Options::parse(std::env::args().skip(1))? else {
        println!("{}", options::HELP);
        return Ok(());
    };
    if let Some(port) = options.silent_port {
        return silent::serve(port);
    }
    // Before this process keeps to its half of the cores.
    let machine = Machine::describe(&options.benchmark);
    let servers = start(&options)?;
    println!("{machine}\n");
    for server in &servers {
        println!("- {}: {}", server.name, server.program.path.display());
    }
    println!();
    let begun = Instant::now();
    let mut all = Vec::new();
    for part in &options.parts {
        let rows = measure(*part, &servers, &options)?;
        println!("{}", table::of_part(*part, &servers, &rows));
        all.extend(rows);
    }
    // Built without optimisation this binary would measure its own slowness.
    if options.parts.contains(&Part::Starts) && !cfg!(debug_assertions) {
        println!("{}\n", embedded_starts(options.rounds));
    }
    println!(
        "{} rounds; all of it took {:.0} s",
        options.rounds,
        begun.elapsed().as_secs_f64()
    );
    if let Some(path) = &options.output {
        fs::write(path, chart::draw(&servers, &all, &machine, options.rounds))?;
    }
    Ok(())
}

/// khoa-server first, then the references, then the server that does nothing.
fn start(options: &Options) -> Outcome<Vec<Running>> {
    let mut programs = vec![options.khoa()?];
    programs.extend(options.references.iter().map(|path| Program::redis(path)));
    if options.floor {
        programs.push(Program::silent()?);
    }
    cores::split()?;
    programs.into_iter().map(Running::start).collect()
}

fn measure(part: Part, servers: &[Running], options: &Options) -> Outcome<Vec<Row>> {
    let scale = Scale::of(options);
    if part == Part::Growth {
        return growth::measure(servers, options, scale);
    }
    let mut rows = Vec::new();
    for workload in workloads::of_part(part) {
        rounds::announce(&workload.name);
        let rounds = workload.rounds(options.rounds);
        let results = rounds::alternate(servers, rounds, |server| {
            workload
                .run(server, options, scale)
                .map_err(|error| format!("{} on {}: {error}", workload.name, server.name).into())
        })?;
        rows.push(Row::new(part, workload.name, results));
    }
    Ok(rows)
}

/// How long an embedded server takes to start and to stop again; no reference can be embedded.
fn embedded_starts(rounds: usize) -> String {
    let times = (0..rounds * 20).map(|_| {
        let start = Instant::now();
        drop(Server::start());
        Sample::of_time(start.elapsed().as_secs_f64() * 1e3)
    });
    let spread = Spread::of(times.map(|sample| sample.cost));
    format!("Embedded in a process, `Server::start()` and its stop take {spread} ms.")
}
