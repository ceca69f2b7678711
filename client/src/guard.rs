//! Proof of holding: it is released by hand, or given back in the background when it is dropped.

use std::ops::Deref;
use std::time::Duration;

use tokio::runtime::Handle;
use tokio::task::AbortHandle;

use crate::cleanup::Cleanup;
use crate::clock::later;
use crate::error::Error;
use crate::lease::Lease;
use crate::resource::Standing;
use crate::telemetry;
use crate::watchdog;

/// How long a release is tried before it reports its failure; the clean-up goes on after that.
const RELEASE_PATIENCE: Duration = Duration::from_secs(5);
const RELEASE_PAUSE: Duration = Duration::from_millis(20);

/// A held lock.
///
/// Dropping it gives the lock back without waiting: the request is sent from a background task
/// when the runtime it was acquired on still runs, and otherwise the lock ends with its TTL.
/// [`Guard::release`] also tells how it went.
#[must_use = "the lock is given back as soon as the guard is dropped"]
#[derive(Debug)]
pub struct Guard {
    lease: Lease,
    watchdog: Option<AbortHandle>,
    runtime: Handle,
    done: bool,
}

/// What a release found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Released {
    /// The lock was this guard's and is free now, or has passed to the next waiter.
    Released,
    /// The lease had already ended, and the lock was free.
    Expired,
    /// The lease had already ended, and another holds the lock, which was left alone.
    TakenByAnother,
}

impl Guard {
    pub(crate) fn new(lease: Lease, runtime: Handle, renew_up_to: Option<Duration>) -> Self {
        let watchdog = renew_up_to.map(|most| {
            let watchdog = runtime.spawn(watchdog::keep(lease.clone(), most));
            watchdog.abort_handle()
        });
        Self {
            lease,
            watchdog,
            runtime,
            done: false,
        }
    }

    /// A view that can be cloned into the tasks that work under this guard.
    pub fn lease(&self) -> Lease {
        self.lease.clone()
    }

    /// Gives the lock back, and tells what was found.
    ///
    /// Lost connections are tried again for up to five seconds. An error means that the server
    /// did not confirm; the release is still tried in the background until the TTL is over.
    ///
    /// # Cancel safety
    /// Dropping the future leaves the release to the background, as dropping the guard does.
    pub async fn release(mut self) -> Result<Released, Error> {
        self.stop_renewing();
        let was_valid_until = self.lease.valid_until();
        self.lease.released();
        let turn = self.lease.turnstile().await;
        let clock = self.lease.clock();
        let deadline = later(clock.now(), RELEASE_PATIENCE);
        let mut in_doubt = false;
        let standing = loop {
            match self
                .lease
                .resource()
                .release(self.lease.token(), b"", deadline)
                .await
            {
                Ok(standing) => break standing,
                Err(error) if !error.is_transient() || clock.now() + RELEASE_PAUSE >= deadline => {
                    return Err(error);
                }
                Err(error) => in_doubt |= error.outcome_is_unknown(),
            }
            clock.sleep(RELEASE_PAUSE).await;
        };
        // A key that is gone before its time went by a request whose answer was lost.
        let ours = in_doubt && standing == Standing::Gone && clock.now() < was_valid_until;
        drop(turn);
        self.done = true;
        let released = if ours {
            Released::Released
        } else {
            Released::from(standing)
        };
        telemetry::released(&self.lease, Some(released));
        Ok(released)
    }

    /// Ends the guard without a request, when another one has ended the hold already.
    pub(crate) fn leave(mut self) {
        self.stop_renewing();
        self.lease.released();
        self.done = true;
    }

    fn stop_renewing(&mut self) {
        if let Some(watchdog) = self.watchdog.take() {
            watchdog.abort();
        }
    }
}

impl From<Standing> for Released {
    fn from(standing: Standing) -> Self {
        match standing {
            Standing::Held => Self::Released,
            Standing::Gone => Self::Expired,
            Standing::Foreign => Self::TakenByAnother,
        }
    }
}

impl Deref for Guard {
    type Target = Lease;

    fn deref(&self) -> &Lease {
        &self.lease
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.stop_renewing();
        if self.done {
            return;
        }
        self.lease.released();
        telemetry::released(&self.lease, None);
        let cleanup = Cleanup {
            resource: self.lease.resource().clone(),
            token: self.lease.token().clone(),
            address: Vec::new(),
            clock: self.lease.clock().clone(),
            until: self.lease.latest_end(),
            may_be_overtaken: false,
        };
        cleanup.spawn(&self.runtime);
    }
}
