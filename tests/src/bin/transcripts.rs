//! Plays transcripts on a server by address, and shows or accepts the differences.
//!
//! `transcripts --server 127.0.0.1:6379 [--accept] [path ...]`: without paths all transcripts of
//! this crate; without `--server` on an embedded one. `--accept` writes what the server said into the files. Files that were recorded
//! from another kind of server are left out; the server's own INFO says which kind it is.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::{env, fs};

use khoa_tests::transcript::document::{self, Item, Kind};
use khoa_tests::transcript::run::play;
use khoa_tests::transcript::target::{Embedded, Real};
use khoa_tests::transcript::wire::{Body, Client};

fn main() -> ExitCode {
    match run() {
        Ok(0) => ExitCode::SUCCESS,
        Ok(failed) => {
            println!("{failed} transcripts differ");
            ExitCode::FAILURE
        }
        Err(error) => {
            eprintln!("transcripts: {error}");
            ExitCode::FAILURE
        }
    }
}

struct Arguments {
    server: Option<SocketAddr>,
    accept: bool,
    paths: Vec<PathBuf>,
}

fn run() -> Result<usize, String> {
    let arguments = arguments()?;
    let kind = arguments.server.map_or(Ok("khoa"), server_kind)?;
    let (mut played, mut failed) = (0, 0);
    for path in &arguments.paths {
        for file in khoa_tests::transcript::files(path).map_err(|error| error.to_string())? {
            match play_file(&file, &arguments, kind) {
                Ok(None) => {}
                Ok(Some(same)) => {
                    played += 1;
                    failed += usize::from(!same);
                }
                Err(error) => {
                    played += 1;
                    failed += 1;
                    println!("{}: {error}", file.display());
                }
            }
        }
    }
    println!("{played} transcripts played on {kind}");
    Ok(failed)
}

fn arguments() -> Result<Arguments, String> {
    let mut server: Option<SocketAddr> = None;
    let mut accept = false;
    let mut paths = Vec::new();
    let mut words = env::args().skip(1);
    while let Some(word) = words.next() {
        match word.as_str() {
            "--accept" => accept = true,
            "--server" => {
                let addr = words.next().ok_or("--server needs an address")?;
                let parsed = addr.parse().map_err(|error| format!("{addr}: {error}"));
                server = Some(parsed?);
            }
            _ => paths.push(PathBuf::from(word)),
        }
    }
    if paths.is_empty() {
        paths.push(Path::new(env!("CARGO_MANIFEST_DIR")).join("transcripts"));
    }
    if accept && server.is_none() {
        return Err("--accept needs the --server to record from".to_owned());
    }
    Ok(Arguments {
        server,
        accept,
        paths,
    })
}

/// The name that `@server` lines use for the server at `addr`.
fn server_kind(addr: SocketAddr) -> Result<&'static str, String> {
    let reply = Client::connect(addr)?.call(&["INFO"])?;
    let Body::Text(info) = reply.body else {
        return Err("INFO gave no text".to_owned());
    };
    let info = String::from_utf8_lossy(&info);
    let has = |text: &str| info.contains(text);
    Ok(match () {
        () if has("server_name:valkey") && has("cluster_enabled:1") => "valkey-cluster",
        () if has("server_name:valkey") => "valkey",
        () if has("server_name:khoa") => "khoa",
        () if has("redis_version:8") => "redis82",
        () => "redis7",
    })
}

/// Whether the file was played without difference; none if it is not for this kind of server.
fn play_file(file: &Path, arguments: &Arguments, kind: &str) -> Result<Option<bool>, String> {
    let source = fs::read_to_string(file).map_err(|error| error.to_string())?;
    let items = document::parse(&source)?;
    if kind != "khoa" && !is_for(&items, kind) {
        return Ok(None);
    }
    let settings = document::settings(&items)?;
    let outcome = match arguments.server {
        Some(addr) => play(&items, &Real::prepare(addr, &settings)?, arguments.accept),
        None => play(&items, &Embedded::start(&settings)?, false),
    };
    if arguments.accept && outcome.stopped.is_none() {
        if outcome.rewritten != source {
            fs::write(file, &outcome.rewritten).map_err(|error| error.to_string())?;
            println!(
                "{}: {} replies written",
                file.display(),
                outcome.differences.len()
            );
        }
        return Ok(Some(true));
    }
    if !outcome.is_same() {
        print!("{}\n{outcome}", file.display());
    }
    Ok(Some(outcome.is_same()))
}

/// Whether the file says that it was recorded from this kind; one that says nothing is for all.
fn is_for(items: &[Item], kind: &str) -> bool {
    items.iter().all(|item| match &item.kind {
        Kind::Server(kinds) => kinds.iter().any(|one| one == kind),
        _ => true,
    })
}
