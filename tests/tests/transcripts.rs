//! The embedded server answers every transcript as the servers did from which it was recorded.

use std::collections::{HashSet, VecDeque};
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::thread;

use khoa_tests::transcript::document::{self, Kind};
use khoa_tests::transcript::files;
use khoa_tests::transcript::run::play;
use khoa_tests::transcript::target::Embedded;

/// How many transcripts are played at the same time.
const PLAYERS: usize = 4;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("transcripts")
}

#[test]
fn the_embedded_server_answers_as_recorded() {
    let queue = Mutex::new(files(&root()).unwrap().into());
    let failures = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..PLAYERS {
            scope.spawn(|| {
                while let Some(file) = next(&queue) {
                    if let Err(failure) = answers_as_recorded(&file) {
                        failures.lock().unwrap().push(failure);
                    }
                }
            });
        }
    });
    let mut failures = failures.into_inner().unwrap();
    failures.sort();
    assert!(
        failures.is_empty(),
        "{} transcripts differ\n{}",
        failures.len(),
        failures.join("\n")
    );
}

fn next(queue: &Mutex<VecDeque<PathBuf>>) -> Option<PathBuf> {
    queue
        .lock()
        .unwrap_or_else(PoisonError::into_inner)
        .pop_front()
}

fn answers_as_recorded(file: &Path) -> Result<(), String> {
    let failed = |error: String| format!("{}: {error}", file.display());
    let source = fs::read_to_string(file).map_err(|error| failed(error.to_string()))?;
    let items = document::parse(&source).map_err(failed)?;
    let settings = document::settings(&items).map_err(failed)?;
    let outcome = play(&items, &Embedded::start(&settings).map_err(failed)?, false);
    if outcome.is_same() {
        Ok(())
    } else {
        Err(format!("{}\n{outcome}", file.display()))
    }
}

#[test]
fn every_command_has_a_transcript() {
    let files = files(&root()).unwrap();
    let stems: HashSet<&str> = files
        .iter()
        .filter_map(|file| file.file_stem()?.to_str())
        .collect();
    let requested: HashSet<String> = files.iter().flat_map(|file| requested(file)).collect();
    let mut missing = Vec::new();
    for command in khoa_server::command::all() {
        if !stems.contains(command.name) {
            missing.push(format!("no file {}.txt", command.name));
        }
        let names = command.subcommands.iter().map(|subcommand| subcommand.name);
        let asked = names.filter(|name| !requested.contains(*name));
        missing.extend(asked.map(|name| format!("no request of {name}")));
    }
    assert!(missing.is_empty(), "{}", missing.join("\n"));
}

/// What a file asks for, as `parent|child` in lower case.
fn requested(file: &Path) -> Vec<String> {
    let items = document::parse(&fs::read_to_string(file).unwrap()).unwrap();
    let requests = items.into_iter().filter_map(|item| match item.kind {
        Kind::Request(text) => Some(text),
        _ => None,
    });
    requests
        .map(|text| {
            let words: Vec<&str> = text.splitn(3, ' ').take(2).collect();
            words.join("|").to_lowercase()
        })
        .collect()
}
