//! Makes histories of concurrent clients under faults and checks that they are linearizable.
//!
//! `linearizability [--histories N] [--seed N] [--times N] [--jobs N] [--bug NAME]`: so many
//! histories, each with the next seed, and each seed so many times. A failure prints its seed and
//! its history; `--histories 1 --seed N --times 100` runs that seed alone. `--bug get-then-del` or
//! `--bug acquire-without-nx` puts a mistake in, which must be found.

use std::process::ExitCode;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use khoa_tests::linearizability::Campaign;
use khoa_tests::linearizability::program::Bug;

fn main() -> ExitCode {
    let campaign = match arguments() {
        Ok(campaign) => campaign,
        Err(error) => {
            eprintln!("linearizability: {error}");
            return ExitCode::FAILURE;
        }
    };
    println!(
        "seed {}, {} histories",
        campaign.seed,
        campaign.histories * campaign.times
    );
    let begun = Instant::now();
    let report = campaign.run(|seed, failure| println!("seed {seed}: {failure}"));
    println!("the store:\n{}", report.store);
    println!("the lock library:\n{}", report.locks);
    println!(
        "{} violations in {:.0?}",
        report.failures.len(),
        begun.elapsed()
    );
    for (seed, _) in &report.failures {
        println!("again: --histories 1 --times 100 --seed {seed}");
    }
    if report.failures.is_empty() {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

fn arguments() -> Result<Campaign, String> {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    let mut campaign = Campaign {
        seed: since.map_or(0, |since| since.as_secs()),
        histories: 1000,
        times: 1,
        jobs: 2,
        bug: None,
    };
    let mut words = std::env::args().skip(1);
    while let Some(name) = words.next() {
        let value = words.next().ok_or(format!("{name} needs a value"))?;
        let number = || {
            value
                .parse::<u64>()
                .map_err(|error| format!("{name} {value}: {error}"))
        };
        match name.as_str() {
            "--histories" => campaign.histories = number()?,
            "--seed" => campaign.seed = number()?,
            "--times" => campaign.times = number()?.max(1),
            "--jobs" => campaign.jobs = number()?.max(1),
            "--bug" => {
                campaign.bug = Some(match value.as_str() {
                    "get-then-del" => Bug::GetThenDel,
                    "acquire-without-nx" => Bug::AcquireWithoutNx,
                    _ => return Err(format!("no such bug: {value}")),
                });
            }
            _ => return Err(format!("no such option: {name}")),
        }
    }
    Ok(campaign)
}
