//! What the rest of the server may know of a running script, and ask of it, without a lock.
//!
//! The script's thread holds the engine for as long as it runs, so other connections reach it
//! only through these atomics: they see that it is busy and leave a request to end it, and the
//! script's own hook finds the request.

use std::{
    sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering::Relaxed},
    time::{Duration, Instant},
};

use parking_lot::Mutex;

use crate::error::Error;

/// Who asks a script to end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Killer {
    /// `SCRIPT KILL`
    Script,
    /// `FUNCTION KILL`
    Function,
    /// `SHUTDOWN NOSAVE`, which ends even a script that has written.
    Shutdown,
}

/// Why a script is not ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    NothingRuns,
    /// It has written, so half of its work would stay.
    HasWritten,
    /// `FUNCTION KILL` for a script or `SCRIPT KILL` for a function.
    OtherKind,
}

/// What a run is, for statistics and for the right kind of kill.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Running {
    /// The function's name; empty for a script.
    pub name: Vec<u8>,
    /// The command that started it, with its arguments.
    pub command: Vec<Vec<u8>>,
}

/// The control block of a scripting engine; one is enough, since scripts do not run at once.
pub struct Control {
    runs: AtomicBool,
    is_function: AtomicBool,
    wrote: AtomicBool,
    busy: AtomicBool,
    was_busy: AtomicBool,
    request: AtomicU8,
    killed: AtomicBool,
    /// A command took long, so that the script is to look at the time at once.
    slow: AtomicBool,
    threshold_ms: AtomicU64,
    base: Instant,
    /// When the hook first looked at this run, which is well within a millisecond of its
    /// start, in nanoseconds from `base`; zero before.
    since: AtomicU64,
    running: Mutex<Running>,
    libraries: AtomicU64,
    functions: AtomicU64,
    /// Is what runs the source of a library that is being loaded?
    loads: AtomicBool,
}

/// What the hook does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Continue,
    /// Go on, and the threshold was passed before.
    StillBusy,
    /// Go on, and the threshold was passed just now.
    NowBusy,
    End,
}

/// The default of `busy-reply-threshold`, in milliseconds.
pub const BUSY_THRESHOLD_MS: u64 = 5000;

/// How long the source of a library may run when it is loaded.
const LOAD_TIME_MAX: Duration = Duration::from_millis(500);

impl Default for Control {
    fn default() -> Self {
        Control {
            runs: AtomicBool::new(false),
            is_function: AtomicBool::new(false),
            wrote: AtomicBool::new(false),
            busy: AtomicBool::new(false),
            was_busy: AtomicBool::new(false),
            request: AtomicU8::new(0),
            killed: AtomicBool::new(false),
            slow: AtomicBool::new(false),
            threshold_ms: AtomicU64::new(BUSY_THRESHOLD_MS),
            base: Instant::now(),
            since: AtomicU64::new(0),
            running: Mutex::new(Running::default()),
            libraries: AtomicU64::new(0),
            functions: AtomicU64::new(0),
            loads: AtomicBool::new(false),
        }
    }
}

impl Control {
    /// Sets `busy-reply-threshold`; zero or less means never.
    pub fn set_threshold_ms(&self, threshold_ms: i64) {
        self.threshold_ms
            .store(u64::try_from(threshold_ms).unwrap_or(0), Relaxed);
    }

    /// Is a script running longer than the threshold? Then other clients get `-BUSY`.
    pub fn is_busy(&self) -> bool {
        self.busy.load(Relaxed)
    }

    /// Has a busy script ended since this was last asked? Others may wait to hear of it.
    pub fn take_was_busy(&self) -> bool {
        self.was_busy.load(Relaxed) && self.was_busy.swap(false, Relaxed)
    }

    /// Is what runs a function, so that `FUNCTION KILL` is the way to end it?
    pub fn is_function(&self) -> bool {
        self.is_function.load(Relaxed)
    }

    /// What a request is told that comes while a script has been running for too long.
    pub fn busy_error(&self) -> Error {
        const SCRIPT: Error = Error::text(
            "BUSY Valkey is busy running a script. You can only call SCRIPT KILL or SHUTDOWN \
             NOSAVE.",
        );
        const FUNCTION: Error = Error::text(
            "BUSY Valkey is busy running a script. You can only call FUNCTION KILL or SHUTDOWN \
             NOSAVE.",
        );
        if self.is_function() { FUNCTION } else { SCRIPT }
    }

    /// Notes that the script changed the data and can no longer be killed.
    pub fn note_write(&self) {
        self.wrote.store(true, Relaxed);
    }

    /// Has the hook looked at the running script yet, so that it may have run for long?
    pub fn has_looked(&self) -> bool {
        self.since.load(Relaxed) != 0
    }

    /// Notes that a command of the script's took long, which its hook cannot see.
    pub fn note_slow(&self) {
        self.slow.store(true, Relaxed);
    }

    pub(super) fn take_slow(&self) -> bool {
        self.slow.load(Relaxed) && self.slow.swap(false, Relaxed)
    }

    /// Asks the running script to end. It does within some ten thousand instructions.
    pub fn kill(&self, killer: Killer) -> Result<(), Refusal> {
        if !self.runs.load(Relaxed) || !self.is_busy() && killer != Killer::Shutdown {
            return Err(Refusal::NothingRuns);
        }
        let kind = if self.is_function() {
            Killer::Function
        } else {
            Killer::Script
        };
        if killer != Killer::Shutdown {
            if self.wrote.load(Relaxed) {
                return Err(Refusal::HasWritten);
            }
            if killer != kind {
                return Err(Refusal::OtherKind);
            }
        }
        self.request.store(1, Relaxed);
        Ok(())
    }

    /// What has been running past the threshold, and for how long.
    pub fn busy_with(&self) -> Option<(Running, Duration)> {
        if !self.is_busy() {
            return None;
        }
        Some((self.running.lock().clone(), self.elapsed()))
    }

    /// How many function libraries there are, and functions in them.
    pub fn libraries(&self) -> (u64, u64) {
        (self.libraries.load(Relaxed), self.functions.load(Relaxed))
    }

    pub(super) fn set_libraries(&self, libraries: usize, functions: usize) {
        self.libraries.store(libraries as u64, Relaxed);
        self.functions.store(functions as u64, Relaxed);
    }

    /// The source of a library begins to run, which must not take long.
    pub(super) fn begin_load(&self) {
        self.begin(true);
        self.loads.store(true, Relaxed);
    }

    /// How long the script has been running, from the first look on.
    fn elapsed(&self) -> Duration {
        let now = self.base.elapsed();
        match self.since.load(Relaxed) {
            0 => {
                self.since.store((now.as_nanos() as u64).max(1), Relaxed);
                Duration::ZERO
            }
            since => now.saturating_sub(Duration::from_nanos(since)),
        }
    }

    /// A run begins.
    pub(super) fn begin(&self, is_function: bool) {
        self.is_function.store(is_function, Relaxed);
        self.wrote.store(false, Relaxed);
        self.request.store(0, Relaxed);
        self.killed.store(false, Relaxed);
        self.runs.store(true, Relaxed);
    }

    /// The run is over.
    pub(super) fn end(&self) {
        self.runs.store(false, Relaxed);
        self.loads.store(false, Relaxed);
        if self.busy.swap(false, Relaxed) {
            self.was_busy.store(true, Relaxed);
            *self.running.lock() = Running::default();
        }
        self.since.store(0, Relaxed);
    }

    /// Tells what runs; asked for once, when the run turns out to be long.
    pub(super) fn describe(&self, running: Running) {
        *self.running.lock() = running;
    }

    pub(super) fn runs(&self) -> bool {
        self.runs.load(Relaxed)
    }

    pub(super) fn is_killed(&self) -> bool {
        self.killed.load(Relaxed)
    }

    /// The hook's look at the clock and the requests.
    pub(super) fn look(&self) -> Verdict {
        if self.request.load(Relaxed) != 0 {
            self.killed.store(true, Relaxed);
        }
        if self.is_killed() {
            return Verdict::End;
        }
        if self.is_busy() {
            return Verdict::StillBusy;
        }
        let elapsed = self.elapsed();
        if self.loads.load(Relaxed) {
            if elapsed < LOAD_TIME_MAX {
                return Verdict::Continue;
            }
            self.killed.store(true, Relaxed);
            return Verdict::End;
        }
        let threshold = self.threshold_ms.load(Relaxed);
        if threshold == 0 || elapsed < Duration::from_millis(threshold) {
            return Verdict::Continue;
        }
        self.busy.store(true, Relaxed);
        Verdict::NowBusy
    }

    /// The error that a killed script ends with.
    pub(super) fn killed_message(&self) -> &'static str {
        if self.loads.load(Relaxed) {
            "FUNCTION LOAD timeout"
        } else if self.is_function() {
            "Script killed by user with FUNCTION KILL."
        } else {
            "Script killed by user with SCRIPT KILL."
        }
    }
}
