//! What is measured, and how it is printed.

use std::{
    fmt,
    time::{Duration, Instant},
};

use super::Outcome;

pub fn megabytes(bytes: u64) -> String {
    format!("{:.1} MB", bytes as f64 / f64::from(1 << 20))
}

/// So many in such a time.
pub fn rate(count: usize, took: Duration) -> String {
    let each = count as f64 / took.as_secs_f64();
    format!(
        "{:.2} s, {:.0} thousand a second",
        took.as_secs_f64(),
        each / 1000.0
    )
}

/// How long requests took.
#[derive(Default)]
pub struct Latencies {
    micros: Vec<u64>,
}

impl Latencies {
    /// Runs a request and notes how long it took.
    pub fn measure<T>(&mut self, request: impl FnOnce() -> Outcome<T>) -> Outcome<T> {
        let start = Instant::now();
        let result = request()?;
        self.add(start.elapsed());
        Ok(result)
    }

    pub fn add(&mut self, took: Duration) {
        self.micros.push(took.as_micros() as u64);
    }

    pub fn append(&mut self, mut other: Latencies) {
        self.micros.append(&mut other.micros);
    }

    pub fn len(&self) -> usize {
        self.micros.len()
    }

    /// The time within which this part of the requests was answered.
    pub fn within(&self, part: f64) -> Duration {
        let mut sorted = self.micros.clone();
        sorted.sort_unstable();
        let at = ((sorted.len() as f64 * part).ceil() as usize).clamp(1, sorted.len().max(1));
        Duration::from_micros(sorted.get(at - 1).copied().unwrap_or(0))
    }
}

impl fmt::Display for Latencies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = |part| self.within(part).as_secs_f64() * 1e3;
        write!(
            f,
            "{} requests; p50 {:.2} ms, p99 {:.2} ms, p99.9 {:.2} ms, longest {:.2} ms",
            self.len(),
            at(0.5),
            at(0.99),
            at(0.999),
            at(1.0)
        )
    }
}
