//! The one place where the library reads time or sleeps, so that a test can hold time in its hand.

use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

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
pub struct ManualClock(Arc<Mutex<Manual>>);

#[derive(Debug)]
struct Manual {
    now: Instant,
    /// Who waits for which moment. Only those whose moment has come are woken: with many sleepers
    /// and small steps most of them have nothing to do.
    sleepers: BTreeMap<(Instant, u64), Waker>,
    next_sleeper: u64,
}

impl ManualClock {
    /// A clock that stands at an arbitrary moment.
    pub fn new() -> Self {
        Self(Arc::new(Mutex::new(Manual {
            now: Instant::now(),
            sleepers: BTreeMap::new(),
            next_sleeper: 0,
        })))
    }

    /// The handle to give to a manager.
    pub fn clock(&self) -> Clock {
        Clock(Source::Manual(self.clone()))
    }

    /// Moves time forward and wakes whoever waited for a moment that has now come.
    pub fn advance(&self, by: Duration) {
        let mut manual = self.manual();
        manual.now += by;
        let later = manual.now + Duration::from_nanos(1);
        let waiting = manual.sleepers.split_off(&(later, 0));
        let due = std::mem::replace(&mut manual.sleepers, waiting);
        // Not under the lock: what is woken may look at the clock at once.
        drop(manual);
        due.into_values().for_each(Waker::wake);
    }

    /// How many timers wait on this clock: a test can wait for one before it advances.
    pub fn sleepers(&self) -> usize {
        self.manual().sleepers.len()
    }

    fn now(&self) -> Instant {
        self.manual().now
    }

    fn reaches(&self, moment: Instant) -> Reaches<'_> {
        Reaches {
            clock: self,
            moment,
            sleeper: None,
        }
    }

    fn manual(&self) -> MutexGuard<'_, Manual> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Waits for a moment on a [`ManualClock`].
struct Reaches<'a> {
    clock: &'a ManualClock,
    moment: Instant,
    /// Its number among the sleepers, once it is one.
    sleeper: Option<u64>,
}

impl Future for Reaches<'_> {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let mut manual = self.clock.manual();
        if manual.now >= self.moment {
            return Poll::Ready(());
        }
        let number = self.sleeper.unwrap_or(manual.next_sleeper);
        manual.next_sleeper = manual.next_sleeper.max(number + 1);
        let waker = context.waker().clone();
        let before = manual.sleepers.insert((self.moment, number), waker);
        drop(manual);
        // A waker may be the last to hold its task, which may hold sleepers of this clock.
        drop(before);
        self.sleeper = Some(number);
        Poll::Pending
    }
}

impl Drop for Reaches<'_> {
    fn drop(&mut self) {
        if let Some(number) = self.sleeper {
            let waker = self.clock.manual().sleepers.remove(&(self.moment, number));
            drop(waker);
        }
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
