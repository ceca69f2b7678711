//! Histories of concurrent clients under faults, checked against sequential models.
//!
//! A history is what clients saw: each call with the moments before it was sent and after its
//! answer was there. [`checker`] decides whether one order of the calls explains all answers.
//! A seed says what clients do and what befalls them ([`program`]); how their threads interleave
//! is up to the machine, as that is what is tested, so a seed that failed is run several times.

pub mod checker;
pub mod client;
pub mod counts;
pub mod history;
pub mod locks;
mod play;
pub mod program;
mod random;
pub mod store;

use std::fmt::Debug;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use checker::{History, Model, Verdict, check};
use counts::Counts;
use locks::Register;
use program::{Bug, Program};
use store::Store;

/// One history of the lock library for so many of the store.
const ONE_IN: u64 = 5;

/// Which histories to make.
#[derive(Clone, Copy, Debug)]
pub struct Campaign {
    /// The first seed; each history has the next one.
    pub seed: u64,
    /// How many histories.
    pub histories: u64,
    /// How often each seed is run.
    pub times: u64,
    /// How many histories are made at the same time.
    pub jobs: u64,
    /// A mistake to be found; then all histories are of the store.
    pub bug: Option<Bug>,
}

/// What a campaign came to.
#[derive(Debug, Default)]
pub struct Report {
    /// What the histories of the store were made of.
    pub store: Counts,
    /// What the histories of the lock library were made of.
    pub locks: Counts,
    /// The histories that no order explains, or that could not be made or decided: the seed of
    /// each, and what there is to see.
    pub failures: Vec<(u64, String)>,
}

impl Campaign {
    /// Makes and checks all histories; tells of each failure as it comes.
    ///
    /// # Panics
    /// Where `tell` does.
    pub fn run(&self, tell: impl Fn(u64, &str) + Sync) -> Report {
        let next = AtomicU64::new(0);
        let report = Mutex::new(Report::default());
        thread::scope(|scope| {
            for _ in 0..self.jobs {
                scope.spawn(|| {
                    loop {
                        let number = next.fetch_add(1, Ordering::Relaxed);
                        if number >= self.histories * self.times {
                            return;
                        }
                        let seed = self.seed.wrapping_add(number / self.times);
                        let found = self.one(seed);
                        let mut report = report.lock().expect("nobody panics with it");
                        if found.locks {
                            report.locks.merge(&found.counts);
                        } else {
                            report.store.merge(&found.counts);
                        }
                        if let Some(failure) = found.failure {
                            tell(seed, &failure);
                            report.failures.push((seed, failure));
                        }
                    }
                });
            }
        });
        report.into_inner().expect("nobody panicked with it")
    }

    fn one(&self, seed: u64) -> Found {
        let locks = self.bug.is_none() && seed.is_multiple_of(ONE_IN);
        let made = catch_unwind(AssertUnwindSafe(|| {
            if locks {
                let (history, counts) = locks::play(seed);
                judge(&Register, &history, counts)
            } else {
                let (history, counts) = play::play(&Program::of(seed, self.bug));
                judge(&Store, &history, counts)
            }
        }));
        let (counts, failure) = made.unwrap_or_else(|_| {
            let why = "the history could not be made: see the panic above".to_owned();
            (Counts::default(), Some(why))
        });
        Found {
            locks,
            counts,
            failure,
        }
    }
}

struct Found {
    locks: bool,
    counts: Counts,
    failure: Option<String>,
}

/// Checks a history, counts what it is made of, and says what is wrong with it.
fn judge<M: Model>(model: &M, history: &History<M>, mut counts: Counts) -> (Counts, Option<String>)
where
    M::Call: Debug + Clone,
    M::Outcome: Debug + Clone,
{
    counts.add("histories", 1);
    counts.add("operations", history.len() as u64);
    counts.add(
        "operations that overlapped another",
        history::overlapping(history) as u64,
    );
    let failure = match check(model, history) {
        Verdict::Linearizable(_) => None,
        Verdict::Undecided => Some(format!("undecided:\n{}", history::table(history))),
        Verdict::Violation { furthest, left } => {
            let pick = |places: &[usize]| -> Vec<_> {
                places.iter().map(|&at| history[at].clone()).collect()
            };
            Some(format!(
                "not linearizable:\n{}as far as one can come, after {} calls, nothing fits of:\n{}",
                history::table(history),
                furthest.len(),
                history::table(&pick(&left)),
            ))
        }
    };
    (counts, failure)
}
