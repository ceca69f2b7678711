//! What a command took, and where that is written down. Reading the clock costs as much as a
//! tenth of a quick command, so those share one reading.

use std::time::{Duration, Instant};

use super::Engine;
use crate::{
    command::{Command, Flags},
    session::Session,
};

/// After a command that took so long a script looks at the time.
const SLOW_IN_SCRIPT: Duration = Duration::from_millis(1);

impl Engine {
    pub(super) fn account(
        &mut self,
        session: &Session,
        command: &'static Command,
        args: &[&[u8]],
        failed: bool,
        replied: usize,
        start: Option<Instant>,
    ) {
        let took = if let Some(start) = start {
            let took = self.read_clock() - start;
            let (now, tracked) = (self.keys.now(), self.config.hot.latency_tracking);
            self.stats
                .commands(command, 1, took, u64::from(failed), now, tracked);
            took
        } else {
            self.count_unclocked(command, failed);
            Duration::ZERO
        };
        if took >= SLOW_IN_SCRIPT {
            self.scripting.control.note_slow();
        }
        let fast = command.flags.has(Flags::FAST);
        self.note_latency(if fast { "fast-command" } else { "command" }, took);
        let at = self.keys.now();
        if command.flags.has(Flags::SKIP_SLOWLOG) {
            return;
        }
        let asked: usize = args.iter().map(|arg| arg.len()).sum();
        let [slow, large_request, large_reply] = self.config.hot.logs;
        for (log, limits, value) in [
            (&mut self.slowlog, slow, took.as_micros() as i64),
            (&mut self.large_requests, large_request, asked as i64),
            (&mut self.large_replies, large_reply, replied as i64),
        ] {
            if limits.threshold >= 0 && value >= limits.threshold {
                log.add(session, args, value, at, limits.max_len);
            }
        }
    }

    /// Takes note of what took so long that LATENCY is to tell of it.
    fn note_latency(&mut self, event: &'static str, took: Duration) {
        let threshold = self.config.hot.latency_threshold;
        let millis = took.as_millis() as u64;
        if threshold > 0 && millis >= threshold {
            self.latency.note(event, millis, self.keys.now());
        }
    }

    /// Does something that is no command, with an eye on how long it takes.
    pub(super) fn watched<T>(
        &mut self,
        event: &'static str,
        work: impl FnOnce(&mut Engine) -> T,
    ) -> T {
        if self.config.hot.latency_threshold == 0 {
            return work(self);
        }
        let start = Instant::now();
        let result = work(self);
        self.note_latency(event, start.elapsed());
        result
    }

    /// When a command starts. One that a client sends starts where the one before it ended, so
    /// that a pipeline needs one reading for each; one within a script or EXEC needs its own.
    pub(super) fn start_clock(&mut self) -> Instant {
        if self.depth == 0 && self.unclocked.is_none() {
            self.stopwatch
        } else {
            self.read_clock()
        }
    }

    /// Reads the clock, and shares the time since the last reading among the quick commands that
    /// ran meanwhile without one of their own.
    pub(super) fn read_clock(&mut self) -> Instant {
        let now = Instant::now();
        let since = now - std::mem::replace(&mut self.stopwatch, now);
        if let Some(Unclocked {
            command,
            calls,
            failed,
        }) = self.unclocked.take()
        {
            let tracked = self.config.hot.latency_tracking;
            self.stats
                .commands(command, calls, since, failed, self.keys.now(), tracked);
        }
        now
    }

    /// Counts a quick command whose time is measured together with its like. Reading the clock
    /// costs as much as a tenth of such a command.
    fn count_unclocked(&mut self, command: &'static Command, failed: bool) {
        match &mut self.unclocked {
            Some(unclocked) if std::ptr::eq(unclocked.command, command) => {
                unclocked.calls += 1;
                unclocked.failed += u64::from(failed);
            }
            _ => {
                // A script that has only begun took no time worth a reading.
                if self.unclocked.is_some() || self.scripting.control.has_looked() {
                    self.read_clock();
                }
                self.unclocked = Some(Unclocked {
                    command,
                    calls: 1,
                    failed: u64::from(failed),
                });
            }
        }
    }

    /// Is the slow log after nothing that a quick command could be?
    pub(super) fn is_slowlog_coarse(&self) -> bool {
        const QUICK_MAX_MICROS: i64 = 1000;
        let threshold = self.config.hot.logs[0].threshold;
        let watched = self.config.hot.latency_threshold > 0;
        !watched && !(0..QUICK_MAX_MICROS).contains(&threshold)
    }

    /// Ends a turn: what was counted so far shows in the statistics.
    pub fn end_turn(&mut self) {
        if self.unclocked.is_some() {
            self.read_clock();
        }
    }
}

/// Quick commands of one kind since the clock was read.
pub(super) struct Unclocked {
    command: &'static Command,
    calls: u64,
    failed: u64,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{clock::Time, config::Config};

    #[test]
    fn only_what_is_as_slow_as_the_threshold_is_noted() {
        let mut config = Config::default();
        config.set("latency-monitor-threshold", "5").unwrap();
        let mut engine = Engine::new(config, Time::from_millis(1_000));
        engine.note_latency("expire-cycle", Duration::from_micros(4_999));
        assert!(engine.latency.get(b"expire-cycle").is_none());
        engine.note_latency("expire-cycle", Duration::from_millis(5));
        let samples = &engine.latency.get(b"expire-cycle").unwrap().samples;
        assert_eq!(*samples, [(1, 5)]);
    }
}
