//! Loads a server in every way that it must bear, and prints what it took.
//!
//! `load [--short] [--server PATH] [NAME...]`: every scenario, or those whose names contain one
//! of the words. The long form has the full numbers and judges timings, so it wants a machine of
//! its own; `--short` is for `.ci/run`. The server is the release build unless a path is given,
//! which may be a reference's.

use std::{path::Path, process::ExitCode, time::Instant};

use khoa_tests::load::{Ground, Outcome, SCENARIOS};

fn main() -> ExitCode {
    match run() {
        Ok(0) => ExitCode::SUCCESS,
        Ok(failed) => {
            println!("{failed} scenarios failed");
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("load: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Outcome<usize> {
    let (ground, words) = arguments()?;
    let unknown = |word: &&String| !SCENARIOS.iter().any(|one| one.name.contains(*word));
    if let Some(word) = words.iter().find(unknown) {
        return Err(format!("no scenario's name contains '{word}'").into());
    }
    let mut failed = 0;
    for scenario in SCENARIOS {
        if !words.is_empty() && !words.iter().any(|word| scenario.name.contains(word)) {
            continue;
        }
        println!("== {}", scenario.name);
        let start = Instant::now();
        let outcome = (scenario.run)(&ground);
        let took = start.elapsed().as_secs_f64();
        match outcome {
            Ok(()) => println!("   passed in {took:.1} s"),
            Err(error) => {
                failed += 1;
                println!("   FAILED after {took:.1} s: {error}");
            }
        }
    }
    Ok(failed)
}

fn arguments() -> Outcome<(Ground, Vec<String>)> {
    let built = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/release/khoa-server");
    let mut ground = Ground {
        server: built,
        short: false,
    };
    let mut words = Vec::new();
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--short" => ground.short = true,
            "--server" => ground.server = args.next().ok_or("--server takes a path")?.into(),
            option if option.starts_with('-') => {
                return Err(format!("unknown option {option}").into());
            }
            _ => words.push(arg),
        }
    }
    if !ground.server.exists() {
        return Err("build it first: cargo build --release -p khoa-server".into());
    }
    Ok((ground, words))
}
