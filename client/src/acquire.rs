//! The way to a guard: attempt, queue, wait for one's turn, and leave nothing behind on any exit.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::runtime::Handle;
use tracing::Instrument;

use crate::cleanup::Cleanup;
use crate::clock::{Clock, later};
use crate::error::{Error, Loss};
use crate::guard::Guard;
use crate::lease::Lease;
use crate::resource::{Attempt, Bid, Grant, SharedResource};
use crate::telemetry;
use crate::token::Token;
use crate::ttl::Ttl;
use crate::wait::Wait;
use crate::wakeup::{Hub, Seat};

/// Everything an acquisition needs to know.
pub(crate) struct Plan {
    pub(crate) resource: SharedResource,
    pub(crate) hub: Option<Arc<Hub>>,
    pub(crate) clock: Clock,
    pub(crate) ttl: Ttl,
    pub(crate) label: Vec<u8>,
    pub(crate) wait: Wait,
    pub(crate) renew_up_to: Option<Duration>,
}

/// Exactly one attempt; `None` when another holds it.
pub(crate) async fn try_once(plan: &Plan) -> Result<Option<Guard>, Error> {
    let mut claim = Claim::new(plan)?;
    match claim.attempt(None).await? {
        Attempt::Granted(grant) => {
            let guard = claim.into_guard(grant)?;
            telemetry::tried(plan.resource.name(), Some(guard.fencing_token()));
            Ok(Some(guard))
        }
        Attempt::Busy { .. } => {
            claim.nothing_left();
            telemetry::tried(plan.resource.name(), None);
            Ok(None)
        }
    }
}

/// Attempts until it is granted, the time is over or the strategy allows no more.
pub(crate) async fn acquire(plan: &Plan, limit: Option<Duration>) -> Result<Guard, Error> {
    let span = telemetry::acquiring(plan.resource.name());
    let started = plan.clock.now();
    let outcome = wait_for(plan, limit).instrument(span.clone()).await;
    let waited = plan.clock.now().saturating_duration_since(started);
    telemetry::acquired(&span, waited, &outcome);
    outcome
}

async fn wait_for(plan: &Plan, limit: Option<Duration>) -> Result<Guard, Error> {
    let started = plan.clock.now();
    let deadline = limit.map(|limit| later(started, limit));
    let mut claim = Claim::new(plan)?;
    claim.take_open_seat();
    let mut last = None;
    loop {
        let next = match claim.attempt(deadline).await {
            Ok(Attempt::Granted(grant)) => match claim.into_guard_or_back(grant) {
                Ok(guard) => return Ok(guard),
                Err(back) => {
                    claim = *back;
                    last = Some(Error::Lost {
                        reason: Loss::Expired,
                    });
                    Next::Pause(None)
                }
            },
            Ok(Attempt::Busy {
                holder_left,
                place: 0,
            }) => Next::Pause(holder_left),
            Ok(Attempt::Busy { holder_left, place }) => Next::Turn(place, holder_left),
            Err(error) if error.is_transient() => {
                last = Some(error);
                Next::Pause(None)
            }
            Err(error) => return Err(error),
        };
        claim.renew_spent_token()?;
        let over = deadline.is_some_and(|deadline| plan.clock.now() >= deadline);
        if over || !plan.wait.allows(claim.attempts) || !claim.wait(next, deadline).await {
            let waited = plan.clock.now().saturating_duration_since(started);
            let last = last.map(Box::new);
            return Err(Error::TimedOut {
                waited,
                attempts: claim.attempts,
                last,
            });
        }
    }
}

/// What to wait for after an attempt that was not granted.
enum Next {
    /// A place in the queue: be woken.
    Turn(u32, Option<Duration>),
    /// No place: ask again after a pause, or when the holder's lease ends.
    Pause(Option<Duration>),
}

/// A token on its way to a guard. Dropped before it arrives, it gives back in the background
/// whatever it may have left on the server: the lock, a kept turn, a place in the queue.
struct Claim<'a> {
    plan: &'a Plan,
    token: Token,
    seat: Option<Seat>,
    runtime: Handle,
    attempts: u32,
    /// Whether something may be left on the server.
    sent: bool,
    in_doubt: bool,
    /// Whether the hub refused; then this claim polls.
    deaf: bool,
}

impl<'a> Claim<'a> {
    fn new(plan: &'a Plan) -> Result<Self, Error> {
        Ok(Self {
            plan,
            token: Token::random()?,
            seat: None,
            runtime: Handle::current(),
            attempts: 0,
            sent: false,
            in_doubt: false,
            deaf: false,
        })
    }

    /// Queues with the very first request when the manager already listens.
    fn take_open_seat(&mut self) {
        let hub = self.hub().filter(|hub| hub.is_open());
        self.seat = hub.map(|hub| hub.seat(&self.token));
    }

    fn hub(&self) -> Option<&'a Arc<Hub>> {
        self.plan
            .hub
            .as_ref()
            .filter(|_| self.plan.wait.is_notified() && !self.deaf)
    }

    async fn attempt(&mut self, deadline: Option<Instant>) -> Result<Attempt, Error> {
        self.attempts = self.attempts.saturating_add(1);
        self.sent = true;
        let bid = Bid {
            token: &self.token,
            ttl: self.plan.ttl,
            label: &self.plan.label,
            channel: self.seat.as_ref().map_or("", Seat::channel),
            deadline,
        };
        // Until the answer is there nobody knows: the future may be dropped while it waits.
        let doubted = std::mem::replace(&mut self.in_doubt, true);
        let answer = self.plan.resource.attempt(&bid).await;
        self.in_doubt = doubted || answer.as_ref().is_err_and(Error::outcome_is_unknown);
        let refused = matches!(answer, Ok(Attempt::Busy { place: 0, .. }));
        self.sent = !refused || self.in_doubt || self.seat.is_some();
        answer
    }

    /// Waits as `next` says; false when the deadline came first.
    async fn wait(&mut self, next: Next, deadline: Option<Instant>) -> bool {
        let clock = &self.plan.clock;
        let (pause, place) = match next {
            Next::Turn(place, left) => (self.plan.wait.patience(place, left), place),
            Next::Pause(_) if self.seat.is_none() && self.listen(deadline).await => return true,
            Next::Pause(left) => (self.polling_pause(left), 0),
        };
        let wake_up = later(clock.now(), pause);
        let limit = deadline.map_or(wake_up, |deadline| deadline.min(wake_up));
        match &self.seat {
            Some(seat) if place > 0 => {
                // Woken or not, the server is asked again: the message is only a hint.
                let _ = clock.before(limit, seat.woken()).await;
            }
            _ => clock.sleep_until(limit).await,
        }
        deadline.is_none_or(|deadline| clock.now() < deadline)
    }

    /// Subscribes, so that the next attempt can queue; polls from now on when that fails.
    async fn listen(&mut self, deadline: Option<Instant>) -> bool {
        let Some(hub) = self.hub() else { return false };
        let seat = hub.seat(&self.token);
        match hub.open(deadline).await {
            Ok(()) => {
                self.seat = Some(seat);
                true
            }
            Err(error) => {
                tracing::debug!(%error, "no wake-ups, polling instead");
                self.deaf = true;
                false
            }
        }
    }

    fn polling_pause(&self, holder_left: Option<Duration>) -> Duration {
        let pause = self.plan.wait.pause(self.attempts);
        holder_left.map_or(pause, |left| pause.min(left + Duration::from_millis(1)))
    }

    /// Goes on under another name where the old one was given up on the server.
    fn renew_spent_token(&mut self) -> Result<(), Error> {
        if self.plan.resource.spends_tokens() {
            self.give_back();
            self.token = Token::random()?;
            self.in_doubt = false;
        }
        Ok(())
    }

    /// Undoes in the background whatever may be left on the server.
    fn give_back(&mut self) {
        if !std::mem::take(&mut self.sent) {
            return;
        }
        let cleanup = Cleanup {
            resource: Arc::clone(&self.plan.resource),
            token: self.token.clone(),
            channel: self
                .seat
                .as_ref()
                .map_or_else(String::new, |seat| seat.channel().to_owned()),
            clock: self.plan.clock.clone(),
            until: later(self.plan.clock.now(), self.plan.ttl.duration()),
            may_be_overtaken: self.in_doubt,
        };
        cleanup.spawn(&self.runtime);
    }

    fn nothing_left(&mut self) {
        self.sent = false;
    }

    fn into_guard(self, grant: Grant) -> Result<Guard, Error> {
        self.into_guard_or_back(grant).map_err(|_| Error::Lost {
            reason: Loss::Expired,
        })
    }

    /// A grant whose answer took longer than its lease proves nothing and becomes no guard.
    fn into_guard_or_back(mut self, grant: Grant) -> Result<Guard, Box<Self>> {
        if self.plan.clock.now() >= grant.valid_until {
            return Err(Box::new(self));
        }
        self.nothing_left();
        let plan = self.plan;
        let lease = Lease::new(
            Arc::clone(&plan.resource),
            self.token.clone(),
            plan.ttl,
            plan.clock.clone(),
            grant,
        );
        Ok(Guard::new(lease, self.runtime.clone(), plan.renew_up_to))
    }
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        self.give_back();
    }
}
