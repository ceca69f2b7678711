//! The one place where the library reads time or sleeps, so that a test can hold time in its hand.

use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::sync::watch;

/// Where a manager takes its time from: the machine's monotonic clock, or a [`ManualClock`].
///
/// No decision in this library ever compares the wall clocks of two machines; a lease is measured
/// with this clock alone, from before the request that obtained it.
#[derive(Clone, Debug, Default)]
pub struct Clock(Source);

#[derive(Clone, Debug, Default)]
enum Source {
    #[default]
    System,
    Manual(ManualClock),
}

impl Clock {
    /// The machine's monotonic clock (Tokio's, so that a paused runtime pauses it too).
    pub fn system() -> Self {
        Self::default()
    }

    /// The present moment.
    pub fn now(&self) -> Instant {
        match &self.0 {
            Source::System => tokio::time::Instant::now().into_std(),
            Source::Manual(manual) => manual.now(),
        }
    }

    pub(crate) async fn sleep(&self, duration: Duration) {
        self.sleep_until(later(self.now(), duration)).await;
    }

    pub(crate) async fn sleep_until(&self, moment: Instant) {
        match &self.0 {
            Source::System => tokio::time::sleep_until(moment.into()).await,
            Source::Manual(manual) => manual.reaches(moment).await,
        }
    }

    /// What the future gives, or `None` when the moment comes first.
    pub(crate) async fn before<F: Future>(&self, moment: Instant, work: F) -> Option<F::Output> {
        tokio::select! {
            biased;
            output = work => Some(output),
            () = self.sleep_until(moment) => None,
        }
    }
}

/// A clock that stands still until it is told to move: for tests of code that holds locks.
///
/// Give [`ManualClock::clock`] to the manager and advance it together with the server's clock;
/// then a lease ends, a watchdog renews and a wait times out exactly when the test says so.
///
/// ```
/// use std::time::Duration;
/// let manual = khoa::ManualClock::new();
/// let clock = manual.clock();
/// let before = clock.now();
/// manual.advance(Duration::from_secs(5));
/// assert_eq!(clock.now() - before, Duration::from_secs(5));
/// ```
#[derive(Clone, Debug)]
pub struct ManualClock {
    now: Arc<watch::Sender<Instant>>,
}

impl ManualClock {
    /// A clock that stands at an arbitrary moment.
    pub fn new() -> Self {
        Self {
            now: Arc::new(watch::Sender::new(Instant::now())),
        }
    }

    /// The handle to give to a manager.
    pub fn clock(&self) -> Clock {
        Clock(Source::Manual(self.clone()))
    }

    /// Moves time forward and wakes whoever waited for a moment that has now come.
    pub fn advance(&self, by: Duration) {
        self.now.send_modify(|now| *now += by);
    }

    /// How many timers wait on this clock: a test can wait for one before it advances.
    pub fn sleepers(&self) -> usize {
        self.now.receiver_count()
    }

    fn now(&self) -> Instant {
        *self.now.borrow()
    }

    async fn reaches(&self, moment: Instant) {
        // The sender lives as long as `self`, so waiting cannot fail before the moment comes.
        let _ = self.now.subscribe().wait_for(|now| *now >= moment).await;
    }
}

impl Default for ManualClock {
    fn default() -> Self {
        Self::new()
    }
}

/// A moment so far away that no process lives to see it, without overflowing.
const FAR: Duration = Duration::from_secs(60 * 60 * 24 * 365 * 30);

/// `moment + by`, or a moment far in the future when that cannot be said.
pub(crate) fn later(moment: Instant, by: Duration) -> Instant {
    moment.checked_add(by).unwrap_or_else(|| moment + FAR)
}
