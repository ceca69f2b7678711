//! Runs random sequences on khoa-server and on a reference, and writes every unexplained difference as a transcript.
//!
//! `differential --reference 127.0.0.1:7001 [--commands 20000] [--seed 1] [--resp 2|3] [--families list,set]`

use std::collections::HashSet;
use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Instant;

use clap::{Arg, ArgMatches, Command, value_parser};
use khoa_server::Server;
use khoa_tests::differential::differences::DIFFERENCES;
use khoa_tests::differential::grammar::Grammar;
use khoa_tests::differential::lockstep::{Found, Pair};
use khoa_tests::differential::peer::Peer;
use khoa_tests::differential::sequence::{Sequence, generate};
use khoa_tests::differential::vocabulary::Vocabulary;
use khoa_tests::differential::{documented, payloads, report, smallest};

struct Arguments {
    reference: SocketAddr,
    khoa: Option<SocketAddr>,
    seed: u64,
    commands: u64,
    length: usize,
    resp: Option<u8>,
    families: Vec<String>,
    most: usize,
    out: PathBuf,
}

fn arguments() -> Arguments {
    let matches = Command::new("differential")
        .about("Runs random sequences on khoa-server and on a reference, and compares every reply.")
        .args([
            option("reference", "The reference server")
                .required(true)
                .value_parser(value_parser!(SocketAddr)),
            option(
                "khoa",
                "A khoa-server that runs already; one inside this process by default",
            )
            .value_parser(value_parser!(SocketAddr)),
            option(
                "seed",
                "The seed of the first sequence; the next one has the next seed",
            )
            .default_value("1")
            .value_parser(value_parser!(u64)),
            option("commands", "How many requests to run")
                .default_value("20000")
                .value_parser(value_parser!(u64)),
            option("length", "How many requests a sequence has")
                .default_value("2000")
                .value_parser(value_parser!(usize)),
            option("resp", "The version of RESP; both in turn by default")
                .value_parser(value_parser!(u8).range(2..=3)),
            option(
                "families",
                "The groups of commands that take part, as COMMAND DOCS names them; all by default",
            )
            .value_delimiter(',')
            .num_args(1..),
            option("most", "Stops after so many different differences")
                .default_value("20")
                .value_parser(value_parser!(usize)),
            option("out", "Where differences are written as transcripts")
                .default_value("target/differential")
                .value_parser(value_parser!(PathBuf)),
        ])
        .get_matches();
    fn must<T: Clone + Send + Sync + 'static>(matches: &ArgMatches, name: &str) -> T {
        matches
            .get_one::<T>(name)
            .cloned()
            .expect("it is required or has a default")
    }
    Arguments {
        reference: must(&matches, "reference"),
        khoa: matches.get_one("khoa").copied(),
        seed: must(&matches, "seed"),
        commands: must(&matches, "commands"),
        length: must(&matches, "length"),
        resp: matches.get_one("resp").copied(),
        families: matches
            .get_many("families")
            .into_iter()
            .flatten()
            .cloned()
            .collect(),
        most: must(&matches, "most"),
        out: must(&matches, "out"),
    }
}

fn option(name: &'static str, help: &'static str) -> Arg {
    Arg::new(name).long(name).help(help)
}

fn main() -> ExitCode {
    match run(&arguments()) {
        Ok(0) => ExitCode::SUCCESS,
        Ok(_) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("differential: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Result<usize, String> {
    let embedded = match arguments.khoa {
        Some(_) => None,
        None => Some(Server::start().map_err(|error| error.to_string())?),
    };
    let ours = arguments
        .khoa
        .or(embedded.as_ref().map(Server::addr))
        .ok_or("no khoa-server")?;
    let mut theirs = Peer::connect(arguments.reference)?;
    let (documented, payloads) = (documented(&mut theirs)?, payloads(&mut theirs)?);
    let mut pair = Pair::connect(Peer::connect(ours)?, theirs)?;
    let grammar = Grammar::new(&arguments.families, pair.reference(), Some(&documented));
    let mut known = HashSet::new();
    let (start, mut seed, mut unstable) = (Instant::now(), arguments.seed, 0);
    while pair.requests < arguments.commands && known.len() < arguments.most {
        let protocol = arguments.resp.unwrap_or(2 + (seed % 2) as u8);
        let sequence = generate(
            &grammar,
            Vocabulary::new(seed, payloads.clone()),
            protocol,
            arguments.length,
        );
        if let Some(found) = pair.run(&sequence)? {
            let requests = pair.requests;
            match smallest(&mut pair, &sequence, &found) {
                None => {
                    unstable += 1;
                    println!(
                        "seed {seed}: not seen again: {}\n{}",
                        found.kind, found.story
                    );
                }
                Some((smallest, found)) => {
                    if known.insert(found.kind.clone()) {
                        tell(&mut pair, arguments, seed, known.len(), &smallest, &found)?;
                    }
                }
            }
            pair.requests = requests;
        }
        seed += 1;
    }
    println!(
        "{} requests in {} sequences (seeds {} to {}), {:.0} s: {} unexplained differences, {unstable} not seen again",
        pair.requests,
        seed - arguments.seed,
        arguments.seed,
        seed - 1,
        start.elapsed().as_secs_f64(),
        known.len()
    );
    for (row, used) in DIFFERENCES
        .iter()
        .zip(&pair.used)
        .filter(|(_, used)| **used > 0)
    {
        println!("{used:9} × {}: {}", row.commands.join(" "), row.reason);
    }
    Ok(known.len() + unstable)
}

fn tell(
    pair: &mut Pair,
    arguments: &Arguments,
    seed: u64,
    number: usize,
    smallest: &Sequence,
    found: &Found,
) -> Result<(), String> {
    let requests = report::requests(smallest);
    println!(
        "--- {number}: seed {seed}, {}\n{requests}{}\n",
        found.kind, found.story
    );
    fs::create_dir_all(&arguments.out).map_err(|error| error.to_string())?;
    let text = report::record(smallest, pair.theirs.addr())?;
    let file = arguments.out.join(format!("seed{seed}-{number}.txt"));
    let head = format!(
        "# {}\n# {}\n",
        found.kind,
        found.story.replace('\n', "\n# ")
    );
    fs::write(file, head + &text).map_err(|error| error.to_string())
}
