//! What a holder can know: its fencing token, how long it may still work, and that it has lost.

use std::fmt;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use tokio::sync::watch;

use crate::clock::{Clock, later};
use crate::error::{Error, Loss};
use crate::resource::{Extended, Grant, SharedResource, Standing};
use crate::telemetry;
use crate::token::Token;
use crate::ttl::Ttl;

/// A view of a held lock that can be cloned into the tasks that work under it.
///
/// It says only what it can prove: validity counts from before the request that obtained it, on
/// this process's monotonic clock, less the drift that two clocks may have.
/// It cannot know what the server does not tell: a paused process or a fail-over can still make
/// two holders overlap, and then only [`Lease::fencing_token`], checked by the protected
/// resource, keeps the late one out.
#[derive(Clone)]
pub struct Lease(Arc<Inner>);

/// A view that keeps nothing alive.
pub(crate) struct WeakLease(Weak<Inner>);

impl WeakLease {
    pub(crate) fn upgrade(&self) -> Option<Lease> {
        self.0.upgrade().map(Lease)
    }
}

struct Inner {
    resource: SharedResource,
    token: Token,
    fence: u64,
    ttl: Ttl,
    label: Vec<u8>,
    clock: Clock,
    acquired_at: Instant,
    validity: watch::Sender<Validity>,
    /// Puts extension and release in an order, so that neither reports the other as a loss.
    turnstile: tokio::sync::Mutex<()>,
}

#[derive(Clone, Copy)]
struct Validity {
    until: Instant,
    /// What it means when that moment comes.
    at_end: Loss,
    over: Option<Over>,
}

#[derive(Clone, Copy, PartialEq)]
enum Over {
    Lost(Loss),
    Released,
}

impl Lease {
    pub(crate) fn new(
        resource: SharedResource,
        token: Token,
        ttl: Ttl,
        label: &[u8],
        clock: Clock,
        grant: Grant,
    ) -> Self {
        let validity = Validity {
            until: grant.valid_until,
            at_end: Loss::Expired,
            over: None,
        };
        Self(Arc::new(Inner {
            resource,
            token,
            fence: grant.fence,
            ttl,
            label: label.to_vec(),
            acquired_at: clock.now(),
            clock,
            validity: watch::Sender::new(validity),
            turnstile: tokio::sync::Mutex::new(()),
        }))
    }

    /// A number above that of every earlier holder of this name.
    ///
    /// Send it with each write to the protected resource, and let the resource refuse a number
    /// below the highest it has seen; see [the guide](crate::guide::promises).
    pub fn fencing_token(&self) -> u64 {
        self.0.fence
    }

    /// The random token of this acquisition.
    pub fn token(&self) -> &Token {
        &self.0.token
    }

    /// The key that is held.
    pub fn key(&self) -> &[u8] {
        self.0.resource.name().key()
    }

    /// What this holder is called by those who [look](crate::Manager::inspect); see
    /// [`Lock::label`](crate::Lock::label).
    pub fn label(&self) -> &[u8] {
        &self.0.label
    }

    /// How long the holder may still work; zero once that cannot be proven.
    pub fn remaining(&self) -> Duration {
        let validity = self.validity();
        if validity.over.is_some() {
            return Duration::ZERO;
        }
        validity.until.saturating_duration_since(self.0.clock.now())
    }

    /// The moment up to which the holder may work, unless the lease is extended.
    pub fn valid_until(&self) -> Instant {
        self.validity().until
    }

    /// How long this lease has been held.
    pub fn held_for(&self) -> Duration {
        self.0
            .clock
            .now()
            .saturating_duration_since(self.0.acquired_at)
    }

    /// Whether the holder may work at this moment.
    pub fn is_valid(&self) -> bool {
        !self.remaining().is_zero()
    }

    /// Whether the lease ended without being released.
    pub fn is_lost(&self) -> bool {
        match self.validity().over {
            Some(over) => over != Over::Released,
            None => !self.is_valid(),
        }
    }

    /// The lease if it is still valid, as an error otherwise: for the head of a critical step.
    pub fn check(&self) -> Result<(), Error> {
        if self.is_valid() {
            return Ok(());
        }
        self.end_if_due();
        Err(Error::Lost {
            reason: self.loss(),
        })
    }

    /// Completes when the lease is lost, the moment that its validity cannot be proven any more.
    /// It never completes for a lease that was released.
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing.
    pub async fn lost(&self) -> Loss {
        let mut changes = self.0.validity.subscribe();
        loop {
            let validity = *changes.borrow_and_update();
            match validity.over {
                Some(Over::Lost(reason)) => return reason,
                Some(Over::Released) => std::future::pending().await,
                None => {}
            }
            tokio::select! {
                () = self.0.clock.sleep_until(validity.until) => self.end_if_due(),
                _ = changes.changed() => {}
            }
        }
    }

    /// Makes the lease last at least its TTL from now. It never shortens a lease and never takes
    /// a lock again that was lost: then it answers [`Error::Lost`].
    ///
    /// Any other error leaves the lease as it was; what the server may have added is not counted.
    ///
    /// # Cancel safety
    /// Dropping the future leaves the lease held, with the validity that was proven before.
    pub async fn extend(&self) -> Result<(), Error> {
        self.lengthen(self.0.ttl).await
    }

    /// As [`Lease::extend`], with another length than the one it was acquired with.
    ///
    /// # Cancel safety
    /// As [`Lease::extend`].
    pub async fn extend_to(&self, ttl: Duration) -> Result<(), Error> {
        self.lengthen(Ttl::new(ttl)?).await
    }

    pub(crate) async fn lengthen(&self, ttl: Ttl) -> Result<(), Error> {
        let _turn = self.0.turnstile.lock().await;
        self.check()?;
        let deadline = self.valid_until();
        match self.0.resource.extend(&self.0.token, ttl, deadline).await {
            Ok(Extended::Until(until)) => self.prolong(until),
            Ok(Extended::Not(standing)) => self.end(Over::Lost(loss_of(standing))),
            Err(error) => {
                self.end_if_due();
                return Err(error);
            }
        }
        self.check()
    }

    /// Completes when the lease was released or lost.
    pub(crate) async fn over(&self) {
        let mut changes = self.0.validity.subscribe();
        // The sender lives as long as this lease.
        let _ = changes.wait_for(|validity| validity.over.is_some()).await;
    }

    pub(crate) fn downgrade(&self) -> WeakLease {
        WeakLease(Arc::downgrade(&self.0))
    }

    pub(crate) fn ttl(&self) -> Ttl {
        self.0.ttl
    }

    pub(crate) fn clock(&self) -> &Clock {
        &self.0.clock
    }

    pub(crate) fn resource(&self) -> &SharedResource {
        &self.0.resource
    }

    pub(crate) async fn turnstile(&self) -> tokio::sync::MutexGuard<'_, ()> {
        self.0.turnstile.lock().await
    }

    pub(crate) fn acquired_at(&self) -> Instant {
        self.0.acquired_at
    }

    /// When the server has let the key expire, whatever happened to the requests of this process.
    pub(crate) fn latest_end(&self) -> Instant {
        later(self.0.clock.now(), self.0.ttl.duration())
    }

    pub(crate) fn released(&self) {
        self.end(Over::Released);
    }

    /// From now on the lease ends by the hard cap on its hold, not for want of a renewal.
    pub(crate) fn ends_by_cap(&self) {
        self.0
            .validity
            .send_modify(|validity| validity.at_end = Loss::HeldTooLong);
    }

    pub(crate) fn end_if_due(&self) {
        let now = self.0.clock.now();
        self.0.validity.send_if_modified(|validity| {
            let due = validity.over.is_none() && now >= validity.until;
            if due {
                validity.over = Some(Over::Lost(validity.at_end));
                telemetry::lost(self.0.resource.name(), self.0.fence, validity.at_end);
            }
            due
        });
    }

    fn loss(&self) -> Loss {
        match self.validity().over {
            Some(Over::Lost(reason)) => reason,
            _ => Loss::Gone,
        }
    }

    fn validity(&self) -> Validity {
        *self.0.validity.borrow()
    }

    fn prolong(&self, until: Instant) {
        self.0
            .validity
            .send_modify(|validity| validity.until = validity.until.max(until));
    }

    fn end(&self, over: Over) {
        self.0.validity.send_if_modified(|validity| {
            let first = validity.over.is_none();
            if first {
                validity.over = Some(over);
                if let Over::Lost(reason) = over {
                    telemetry::lost(self.0.resource.name(), self.0.fence, reason);
                }
            }
            first
        });
    }
}

fn loss_of(standing: Standing) -> Loss {
    match standing {
        Standing::Foreign => Loss::TakenByAnother,
        Standing::Held | Standing::Gone => Loss::Gone,
    }
}

impl fmt::Debug for Lease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lease")
            .field("key", &self.0.resource.name())
            .field("fencing_token", &self.0.fence)
            .field("remaining", &self.remaining())
            .finish_non_exhaustive()
    }
}
