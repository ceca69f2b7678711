//! How a waiter spends its time, as a value: once, fixed, exponential with jitter, or woken.

use std::time::Duration;

/// The shortest pause between two requests: no strategy may turn into a busy loop.
const SHORTEST: Duration = Duration::from_millis(1);

/// How to wait for what another holds.
///
/// The first attempt is always made at once. However the waiting is done, its length is bounded
/// by the deadline of the call.
///
/// ```
/// use std::time::Duration;
/// use khoa::Wait;
///
/// let patient = Wait::notified(); // the default
/// let polite = Wait::exponential(Duration::from_millis(10), Duration::from_secs(1)).at_most(20);
/// let impatient = Wait::once();
/// # let _ = (patient, polite, impatient);
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wait {
    notified: bool,
    first: Duration,
    most: Duration,
    jitter: bool,
    attempts: Option<u32>,
    fallback: Duration,
}

impl Wait {
    /// Queues on the server and is woken when it is this waiter's turn; looks for itself when the
    /// holder's lease ends, and after the [fallback](Self::fallback) time in any case.
    ///
    /// Where the connection cannot subscribe, it polls, starting at 5 ms and slowing to 250 ms.
    pub fn notified() -> Self {
        let polling = Self::exponential(Duration::from_millis(5), Duration::from_millis(250));
        Self {
            notified: true,
            ..polling
        }
    }

    /// Exactly one attempt.
    pub fn once() -> Self {
        Self::fixed(SHORTEST).at_most(1)
    }

    /// Asks again after a fixed pause. Many waiters with equal pauses meet again and again;
    /// prefer [`Wait::exponential`] where there may be many.
    pub fn fixed(pause: Duration) -> Self {
        Self {
            notified: false,
            first: pause,
            most: pause,
            jitter: false,
            attempts: None,
            fallback: Duration::from_secs(1),
        }
    }

    /// Asks again after a random pause below a limit that doubles from `first` up to `most`.
    pub fn exponential(first: Duration, most: Duration) -> Self {
        Self {
            jitter: true,
            first,
            most,
            ..Self::fixed(first)
        }
    }

    /// Makes at most this many attempts. Default: no limit but the deadline.
    #[must_use]
    pub fn at_most(mut self, attempts: u32) -> Self {
        self.attempts = Some(attempts.max(1));
        self
    }

    /// How long a queued waiter sleeps at most before it looks for itself. Waiters further back
    /// in the queue look less often. Default: 1 s.
    #[must_use]
    pub fn fallback(mut self, fallback: Duration) -> Self {
        self.fallback = fallback.max(SHORTEST);
        self
    }

    pub(crate) fn is_notified(&self) -> bool {
        self.notified
    }

    pub(crate) fn allows(&self, attempts_made: u32) -> bool {
        self.attempts.is_none_or(|most| attempts_made < most)
    }

    /// The pause after the attempt of this number, counted from one.
    pub(crate) fn pause(&self, attempt: u32) -> Duration {
        let doublings = 1_u32
            .checked_shl(attempt.saturating_sub(1))
            .unwrap_or(u32::MAX);
        let limit = self.first.saturating_mul(doublings).min(self.most);
        let pause = if self.jitter {
            limit.mul_f64(random_fraction())
        } else {
            limit
        };
        pause.max(SHORTEST)
    }

    /// How long a waiter at a place in the queue sleeps unless it is woken.
    ///
    /// The first in line looks when the holder's lease ends, since nobody else may be alive to
    /// wake it. Those behind need not: whoever is before them will wake them.
    pub(crate) fn patience(&self, place: u32, holder_left: Option<Duration>) -> Duration {
        if place > 1 {
            return self.fallback.saturating_mul(10 + place) / 10;
        }
        holder_left.map_or(self.fallback, |left| (left + SHORTEST).min(self.fallback))
    }
}

impl Default for Wait {
    fn default() -> Self {
        Self::notified()
    }
}

/// A number in `[0, 1)`. Without randomness waiters only lose their jitter, so that is no error.
pub(crate) fn random_fraction() -> f64 {
    #[cfg(test)]
    if let Some(fraction) = crate::simulation::fraction() {
        return fraction;
    }
    let bits = getrandom::u64().unwrap_or(u64::MAX / 2) >> 11;
    bits as f64 / (1_u64 << 53) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn exponential_pauses_stay_below_a_limit_that_doubles() {
        let wait = Wait::exponential(10 * MS, 100 * MS);
        for (attempt, limit) in [(1, 10), (2, 20), (3, 40), (4, 80), (5, 100), (4000, 100)] {
            assert!(
                (0..200).all(|_| wait.pause(attempt) <= limit * MS),
                "attempt {attempt}"
            );
        }
    }

    #[test]
    fn jitter_spreads_pauses_over_the_whole_range() {
        let wait = Wait::exponential(1000 * MS, 1000 * MS);
        let pauses: Vec<_> = (0..400).map(|_| wait.pause(1)).collect();
        assert!(pauses.iter().any(|p| *p < 200 * MS));
        assert!(pauses.iter().any(|p| *p > 800 * MS));
    }

    #[test]
    fn no_pause_is_a_busy_loop() {
        assert_eq!(Wait::fixed(Duration::ZERO).pause(1), SHORTEST);
        assert!(Wait::exponential(Duration::ZERO, Duration::ZERO).pause(9) >= SHORTEST);
    }

    #[test]
    fn once_allows_no_second_attempt() {
        assert!(Wait::once().allows(0));
        assert!(!Wait::once().allows(1));
    }

    #[test]
    fn the_first_in_line_looks_when_the_lease_ends_and_the_others_take_their_time() {
        let wait = Wait::notified();
        assert_eq!(wait.patience(1, Some(300 * MS)), 301 * MS);
        assert_eq!(wait.patience(1, Some(30_000 * MS)), 1000 * MS);
        assert_eq!(wait.patience(1, None), 1000 * MS);
        assert_eq!(wait.patience(1000, Some(MS)), 101_000 * MS);
    }
}
