//! The embedded server answers every transcript as the servers did from which it was recorded.

use std::collections::VecDeque;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::thread;

use khoa_tests::transcript::document;
use khoa_tests::transcript::files;
use khoa_tests::transcript::run::play;
use khoa_tests::transcript::target::Embedded;

/// The families that the server has; the others come with their commands.
const FAMILIES: &[&str] = &["bitmap", "string"];

/// How many transcripts are played at the same time.
const PLAYERS: usize = 4;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("transcripts")
}

#[test]
fn the_embedded_server_answers_as_recorded() {
    let families = FAMILIES
        .iter()
        .map(|family| files(&root().join(family)).unwrap());
    let queue: Mutex<VecDeque<PathBuf>> = Mutex::new(families.flatten().collect());
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
