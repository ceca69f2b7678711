//! What every scenario uses: claims printed one a line, a section that shows a broken lock, contending processes.

use std::error::Error;
use std::fmt::Debug;
use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// Bounds one scenario: a server that never answers is a failure, not a hang.
const DEADLINE: Duration = Duration::from_secs(60);
/// How many processes contend for a lock, and how often each takes it.
pub const CONTENDERS: usize = 3;
pub const TIMES: usize = 25;

pub type Outcome = Result<(), Box<dyn Error + Send + Sync>>;
type Story = for<'a> fn(&'a Probe, &'a Address) -> Pin<Box<dyn Future<Output = Outcome> + 'a>>;

/// One story played with one client library, named by its crate.
pub struct Scenario {
    pub name: &'static str,
    pub package: &'static str,
    pub topic: &'static str,
    pub story: Story,
}

/// Where the server under test listens.
pub struct Address {
    pub host: String,
    pub port: u16,
}

impl Address {
    pub fn new(host: &str, port: &str) -> Self {
        Self {
            host: host.to_owned(),
            port: port.parse().expect("the port is a number"),
        }
    }

    pub fn of_arguments(arguments: &[String]) -> Self {
        let given = |n: usize, name: &str| {
            arguments
                .get(n)
                .cloned()
                .or_else(|| std::env::var(name).ok())
                .unwrap_or_else(|| {
                    eprintln!("usage: rust-clients HOST PORT (or set KHOA_HOST and KHOA_PORT)");
                    std::process::exit(2)
                })
        };
        Self::new(&given(0, "KHOA_HOST"), &given(1, "KHOA_PORT"))
    }

    pub fn url(&self) -> String {
        format!("redis://{}:{}", self.host, self.port)
    }
}

/// Makes the claims of one scenario and counts those that do not hold.
pub struct Probe {
    label: String,
    prefix: String,
    failed: AtomicUsize,
}

impl Probe {
    /// A name that no other scenario and no other run uses.
    pub fn key(&self, name: &str) -> String {
        format!("{}{name}", self.prefix)
    }

    pub fn that(&self, claim: &str, holds: bool, detail: impl Debug) {
        if holds {
            println!("ok   {} | {claim}", self.label);
        } else {
            self.failed.fetch_add(1, Ordering::Relaxed);
            println!("FAIL {} | {claim} | got {detail:?}", self.label);
        }
    }

    pub fn equal<T: PartialEq + Debug>(&self, claim: &str, got: T, want: T) {
        self.that(claim, got == want, (got, want));
    }

    /// Runs this program again as several contending processes, each with connections of its own.
    pub async fn in_processes(&self, library: &str, address: &Address, key: &str) -> Outcome {
        let program = std::env::current_exe()?;
        let mut running = Vec::new();
        for _ in 0..CONTENDERS {
            let mut child = tokio::process::Command::new(&program);
            child.args([
                "contend",
                library,
                &address.host,
                &address.port.to_string(),
                key,
            ]);
            running.push(child.kill_on_drop(true).spawn()?);
        }
        let mut well = 0;
        for mut child in running {
            well += usize::from(child.wait().await?.success());
        }
        self.equal("3 processes lock 25 times each", well, CONTENDERS);
        Ok(())
    }
}

/// Plays a scenario and tells how many of its checks failed.
pub async fn play(scenario: Scenario, address: &Address) -> usize {
    let moment = std::time::UNIX_EPOCH
        .elapsed()
        .unwrap_or_default()
        .as_nanos();
    let probe = Probe {
        label: format!(
            "{} {} | {}",
            scenario.name,
            version(scenario.package),
            scenario.topic
        ),
        prefix: format!("interop:rust:{}:{moment}:", std::process::id()),
        failed: AtomicUsize::new(0),
    };
    match tokio::time::timeout(DEADLINE, (scenario.story)(&probe, address)).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => probe.that("runs to its end", false, error),
        Err(late) => probe.that("runs to its end", false, late),
    }
    probe.failed.into_inner()
}

/// Counts how many are inside at once and how many came through.
#[derive(Default)]
pub struct Section {
    inside: AtomicUsize,
    pub peak: AtomicUsize,
    pub passes: AtomicUsize,
}

impl Section {
    /// Stays inside for long enough that a broken lock would let another in.
    pub async fn pass(&self) {
        let now = self.inside.fetch_add(1, Ordering::SeqCst) + 1;
        self.peak.fetch_max(now, Ordering::SeqCst);
        tokio::time::sleep(Duration::from_millis(2)).await;
        self.passes.fetch_add(1, Ordering::SeqCst);
        self.inside.fetch_sub(1, Ordering::SeqCst);
    }

    /// How many came through, and how many were inside at most.
    pub fn figures(&self) -> (usize, usize) {
        (
            self.passes.load(Ordering::SeqCst),
            self.peak.load(Ordering::SeqCst),
        )
    }
}

/// The version that the lock file pins.
fn version(package: &str) -> &'static str {
    let lock = include_str!("../Cargo.lock");
    let entry = format!("name = \"{package}\"\nversion = \"");
    lock.split_once(&entry)
        .and_then(|(_, rest)| rest.split_once('"'))
        .map_or("?", |(v, _)| v)
}
