//! Counters that INFO shows and CONFIG RESETSTAT clears.

use std::{
    collections::{BTreeMap, HashMap},
    hash::BuildHasherDefault,
    time::Duration,
};

use crate::{clock::Time, command::Command, histogram::Histogram};

/// What became of one command.
#[derive(Clone, Debug, Default)]
pub struct CommandStats {
    pub calls: u64,
    pub time: Duration,
    pub rejected: u64,
    pub failed: u64,
    /// How long the calls took, in nanoseconds.
    pub latency: Histogram,
}

/// A counter that knows its own rate.
#[derive(Clone, Copy, Debug, Default)]
pub struct Meter {
    total: u64,
    /// The second that is being counted, with the total at its start.
    second: u64,
    at_start: u64,
    /// What the second before it brought.
    last: u64,
}

impl Meter {
    pub fn add(&mut self, amount: u64, second: u64) {
        if second != self.second {
            self.last = self.per_second(second);
            self.second = second;
            self.at_start = self.total;
        }
        self.total += amount;
    }

    pub fn total(&self) -> u64 {
        self.total
    }

    /// What the last whole second before `second` brought.
    pub fn per_second(&self, second: u64) -> u64 {
        match second.checked_sub(self.second) {
            Some(0) => self.last,
            Some(1) => self.total - self.at_start,
            _ => 0,
        }
    }
}

/// More kinds of errors than this are not counted one by one.
const ERROR_KINDS_MAX: usize = 128;

/// The counters of a server.
pub struct Stats {
    pub started: Time,
    pub connections: u64,
    pub rejected_connections: u64,
    pub commands: Meter,
    pub errors: u64,
    pub bytes_in: Meter,
    pub bytes_out: Meter,
    pub output_limit_disconnections: u64,
    pub query_limit_disconnections: u64,
    /// How often something was denied to a user, by the reason that the ACL log gives.
    pub denied: BTreeMap<&'static str, u64>,
    by_command: HashMap<usize, (&'static Command, CommandStats), BuildHasherDefault<Address>>,
    by_error: BTreeMap<Vec<u8>, u64>,
}

impl Stats {
    pub fn new(now: Time) -> Stats {
        Stats {
            started: now,
            connections: 0,
            rejected_connections: 0,
            commands: Meter::default(),
            errors: 0,
            bytes_in: Meter::default(),
            bytes_out: Meter::default(),
            output_limit_disconnections: 0,
            query_limit_disconnections: 0,
            denied: BTreeMap::new(),
            by_command: HashMap::default(),
            by_error: BTreeMap::new(),
        }
    }

    /// Counts a command that ran until `now`; its time goes into the histogram if `tracked`.
    pub fn commands(
        &mut self,
        command: &'static Command,
        calls: u64,
        took: Duration,
        failed: u64,
        now: Time,
        tracked: bool,
    ) {
        self.commands.add(calls, now.seconds());
        let stats = self.of(command);
        stats.calls += calls;
        stats.time += took;
        stats.failed += failed;
        if tracked {
            stats
                .latency
                .record(took.as_nanos() as u64 / calls.max(1), calls);
        }
    }

    /// Counts a command that a gate turned away.
    pub fn rejected(&mut self, command: &'static Command) {
        self.of(command).rejected += 1;
    }

    /// Counts an error reply by its code.
    pub fn error(&mut self, code: &[u8]) {
        self.errors += 1;
        if self.by_error.len() < ERROR_KINDS_MAX || self.by_error.contains_key(code) {
            *self.by_error.entry(code.to_vec()).or_default() += 1;
        }
    }

    pub fn by_command(&self) -> impl Iterator<Item = (&'static Command, &CommandStats)> {
        self.by_command
            .values()
            .map(|(command, stats)| (*command, stats))
    }

    pub fn by_error(&self) -> impl Iterator<Item = (&[u8], u64)> {
        self.by_error
            .iter()
            .map(|(code, count)| (code.as_slice(), *count))
    }

    /// Starts counting anew, from the same start of the server.
    pub fn reset(&mut self) {
        *self = Stats::new(self.started);
    }

    fn of(&mut self, command: &'static Command) -> &mut CommandStats {
        let address = std::ptr::from_ref(command) as usize;
        &mut self
            .by_command
            .entry(address)
            .or_insert((command, CommandStats::default()))
            .1
    }
}

/// Hashes the address of a row, of which there are a few hundred.
#[derive(Default)]
struct Address(u64);

impl std::hash::Hasher for Address {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            self.write_usize(usize::from(byte));
        }
    }

    fn write_usize(&mut self, address: usize) {
        self.0 = (self.0 ^ address as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_meter_tells_the_last_whole_second() {
        let mut meter = Meter::default();
        meter.add(5, 100);
        meter.add(2, 100);
        assert_eq!(meter.per_second(101), 7);
        meter.add(1, 101);
        assert_eq!((meter.per_second(101), meter.per_second(102)), (7, 1));
        assert_eq!((meter.per_second(110), meter.total()), (0, 8));
    }
}
