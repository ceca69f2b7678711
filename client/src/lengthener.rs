//! Makes leases that were handed over as long as was asked for, away from the hand-over itself.
//!
//! Such a lease begins short, in case that the waiter is dead. Most are given back before half of
//! that is over, so nothing is sent for them and no task is begun: one task looks after all of a
//! manager's, and ends when there are none.

use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use tokio::runtime::Handle;

use crate::clock::{Clock, later};
use crate::lease::{Lease, WeakLease};
use crate::resource::TURN_KEPT;
use crate::watchdog;

/// How long a lease is left as it is; at least half of what was granted is left when it comes.
const UNTOUCHED: Duration = TURN_KEPT.checked_div(4).unwrap();

#[derive(Default)]
pub(crate) struct Lengthener {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    /// In the order in which they are due.
    begun: VecDeque<Begun>,
    at_work: bool,
}

/// A lease that is not whole yet, and the runtime of its guard.
struct Begun {
    due: Instant,
    lease: WeakLease,
    runtime: Handle,
}

impl Begun {
    /// On its own runtime, which may be another than this one's.
    fn lengthen(self) {
        if let Some(lease) = self.lease.upgrade().filter(Lease::is_valid) {
            self.runtime.spawn(watchdog::complete(lease));
        }
    }
}

impl Lengthener {
    /// Lengthens the lease if it is still held in a while.
    pub(crate) fn later(self: &Arc<Self>, lease: &Lease, runtime: &Handle) {
        let clock = lease.clock();
        let begun = Begun {
            due: later(clock.now(), UNTOUCHED),
            lease: lease.downgrade(),
            runtime: runtime.clone(),
        };
        let mut state = self.state();
        state.begun.push_back(begun);
        if !std::mem::replace(&mut state.at_work, true) {
            drop(state);
            let lengthener = Arc::clone(self);
            let done = false;
            runtime.spawn(AtWork { lengthener, done }.work(clock.clone()));
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// When the next one is due; without one the work is over.
    fn next_due(&self) -> Option<Instant> {
        let mut state = self.state();
        let next = state.begun.front().map(|begun| begun.due);
        state.at_work = next.is_some();
        next
    }

    fn take_due(&self, now: Instant) -> Option<Begun> {
        let mut state = self.state();
        let due = state.begun.front().is_some_and(|begun| begun.due <= now);
        due.then(|| state.begun.pop_front()).flatten()
    }
}

impl fmt::Debug for Lengthener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Lengthener({} leases)", self.state().begun.len())
    }
}

/// The task, which its runtime may drop at any moment while guards of other runtimes go on.
struct AtWork {
    lengthener: Arc<Lengthener>,
    done: bool,
}

impl AtWork {
    async fn work(mut self, clock: Clock) {
        while let Some(due) = self.lengthener.next_due() {
            clock.sleep_until(due).await;
            while let Some(begun) = self.lengthener.take_due(clock.now()) {
                begun.lengthen();
            }
        }
        self.done = true;
    }
}

impl Drop for AtWork {
    fn drop(&mut self) {
        if self.done {
            return;
        }
        let left = {
            let mut state = self.lengthener.state();
            state.at_work = false;
            std::mem::take(&mut state.begun)
        };
        left.into_iter().for_each(Begun::lengthen);
    }
}
