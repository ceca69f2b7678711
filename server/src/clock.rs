//! One timeline for everything: milliseconds since 1970 that only tests can bend.
//!
//! Wall time is read once, when the clock is made; from there on monotonic time carries it. So
//! a jump of the machine's clock neither frees nor freezes a lock.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;

/// A moment on the server's timeline, in microseconds since 1970.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Time(pub u64);

impl Time {
    pub fn from_millis(millis: u64) -> Time {
        Time(millis.saturating_mul(1000))
    }

    pub fn millis(self) -> u64 {
        self.0 / 1000
    }

    pub fn seconds(self) -> u64 {
        self.0 / 1_000_000
    }

    pub fn micros(self) -> u64 {
        self.0
    }
}

/// The clock that a server reads.
pub struct Clock {
    state: Mutex<State>,
}

enum State {
    /// `origin` is the time shown at `since`.
    Running { origin: Time, since: Beat },
    /// `beat` is taken up again when the clock may run on.
    Frozen { at: Time, beat: Beat },
}

/// Where the beats come from.
#[derive(Clone, Copy)]
enum Beat {
    Real(Instant),
    /// Tokio's time, which stands still while its runtime is paused.
    Tokio(tokio::time::Instant),
}

impl Beat {
    fn now(self) -> Beat {
        match self {
            Beat::Real(_) => Beat::Real(Instant::now()),
            Beat::Tokio(_) => Beat::Tokio(tokio::time::Instant::now()),
        }
    }

    fn elapsed(self) -> Duration {
        match self {
            Beat::Real(since) => since.elapsed(),
            Beat::Tokio(since) => since.elapsed(),
        }
    }
}

impl Clock {
    /// A clock that follows real time.
    pub fn real() -> Clock {
        Clock::running(Beat::Real(Instant::now()))
    }

    /// A clock that follows the time of the Tokio runtime of whoever reads it.
    pub fn tokio() -> Clock {
        Clock::running(Beat::Tokio(tokio::time::Instant::now()))
    }

    fn running(since: Beat) -> Clock {
        let wall = SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap_or_default();
        let origin = Time(wall.as_micros() as u64);
        Clock {
            state: Mutex::new(State::Running { origin, since }),
        }
    }

    pub fn now(&self) -> Time {
        match &*self.state.lock() {
            State::Running { origin, since } => {
                Time(origin.0.saturating_add(since.elapsed().as_micros() as u64))
            }
            State::Frozen { at, .. } => *at,
        }
    }

    pub fn is_frozen(&self) -> bool {
        matches!(&*self.state.lock(), State::Frozen { .. })
    }

    /// Stops the clock where it is.
    pub fn freeze(&self) {
        let now = self.now();
        let mut state = self.state.lock();
        if let State::Running { since: beat, .. } = *state {
            *state = State::Frozen { at: now, beat };
        }
    }

    /// Lets a frozen clock go on from where it stands.
    pub fn unfreeze(&self) {
        let mut state = self.state.lock();
        if let State::Frozen { at, beat } = *state {
            *state = State::Running {
                origin: at,
                since: beat.now(),
            };
        }
    }

    /// Moves the clock to a moment; a running clock goes on from there.
    pub fn set(&self, time: Time) {
        match &mut *self.state.lock() {
            State::Running { origin, since } => {
                *origin = time;
                *since = since.now();
            }
            State::Frozen { at, .. } => *at = time,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frozen_clock_moves_only_by_hand() {
        let clock = Clock::real();
        clock.freeze();
        let before = clock.now();
        assert_eq!(clock.now(), before);
        clock.set(Time(before.0 + 5));
        assert_eq!(clock.now(), Time(before.0 + 5));
    }

    #[test]
    fn a_clock_set_while_running_goes_on() {
        let clock = Clock::real();
        clock.set(Time::from_millis(1_000));
        assert!(clock.now() >= Time::from_millis(1_000));
        assert!(clock.now() < Time::from_millis(100_000));
    }
}
