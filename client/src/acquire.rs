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
use crate::resource::{Attempt, Bid, Grant, Seen, SharedResource};
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
    /// How many replicas must have a grant before it counts, and within what time.
    pub(crate) replicas: Option<(u32, Duration)>,
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
    let (mut last, mut granted) = (None, None);
    loop {
        let answer = match granted.take() {
            Some(grant) => Ok(Attempt::Granted(grant)),
            None => claim.attempt(deadline).await,
        };
        let next = match answer {
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
                ..
            }) => Next::Pause(holder_left),
            Ok(Attempt::Busy {
                holder_left,
                place,
                seen,
                ..
            }) => Next::Turn(place, holder_left, seen),
            Err(error) if error.is_transient() => {
                last = Some(error);
                Next::Pause(None)
            }
            Err(error) => return Err(error),
        };
        claim.renew_spent_token()?;
        let over = deadline.is_some_and(|deadline| plan.clock.now() >= deadline);
        let waited = if over || !plan.wait.allows(claim.attempts) {
            Waited::TooLong
        } else {
            claim.wait(next, deadline).await
        };
        match waited {
            Waited::Enough => {}
            Waited::Granted(grant) => granted = Some(grant),
            Waited::TooLong => return Err(claim.timed_out(started, last)),
        }
    }
}
/// What to wait for after an attempt that was not granted.
enum Next {
    /// A place in the queue: be woken.
    Turn(u32, Option<Duration>, Option<Seen>),
    /// No place: ask again after a pause, or when the holder's lease ends.
    Pause(Option<Duration>),
}

/// How a wait ended.
enum Waited {
    /// The server is to be asked again.
    Enough,
    /// A message brought the grant.
    Granted(Grant),
    /// The deadline came.
    TooLong,
}

/// A token on its way to a guard. Dropped before it arrives, it gives back in the background
/// whatever it may have left on the server: the lock, a kept turn, a place in the queue.
struct Claim<'a> {
    plan: &'a Plan,
    token: Token,
    seat: Option<Seat>,
    /// Where the seat can be reached; empty without one.
    address: Vec<u8>,
    runtime: Handle,
    attempts: u32,
    /// Whether something may be left on the server.
    sent: bool,
    in_doubt: bool,
    /// Whether the token must not be used again.
    spent: bool,
    /// Until this attempt it polls, because the hub refused.
    deaf_until: u32,
}

impl<'a> Claim<'a> {
    fn new(plan: &'a Plan) -> Result<Self, Error> {
        Ok(Self {
            plan,
            token: Token::random()?,
            seat: None,
            address: Vec::new(),
            runtime: Handle::current(),
            attempts: 0,
            sent: false,
            in_doubt: false,
            spent: false,
            deaf_until: 0,
        })
    }

    /// Queues with the very first request when the manager already listens.
    fn take_open_seat(&mut self) {
        let name = self.plan.resource.name();
        let Some(hub) = self.hub() else { return };
        let channel = hub.channel(name);
        if hub.is_open(&channel) {
            hub.mend(&channel);
            self.sit(hub.seat(&self.token, name));
        }
    }

    fn sit(&mut self, seat: Seat) {
        let plan = self.plan;
        let hold = (plan.ttl, &plan.label[..]);
        // Replicas are asked on the connection that wrote, so then this one must write.
        let by_message = plan.resource.offers() && plan.replicas.is_none();
        self.address = seat.address(by_message.then_some(hold));
        self.seat = Some(seat);
    }

    fn hub(&self) -> Option<&'a Arc<Hub>> {
        self.plan
            .hub
            .as_ref()
            .filter(|_| self.plan.wait.is_notified() && self.attempts >= self.deaf_until)
    }

    async fn attempt(&mut self, deadline: Option<Instant>) -> Result<Attempt, Error> {
        self.attempts = self.attempts.saturating_add(1);
        self.sent = true;
        let bid = Bid {
            token: &self.token,
            ttl: self.plan.ttl,
            label: &self.plan.label,
            address: &self.address,
            deadline,
        };
        if let Some(seat) = &self.seat {
            seat.forget();
        }
        // Until the answer is there nobody knows: the future may be dropped while it waits.
        let doubted = std::mem::replace(&mut self.in_doubt, true);
        let answer = self.plan.resource.attempt(&bid).await;
        self.in_doubt = doubted || answer.as_ref().is_err_and(Error::outcome_is_unknown);
        let refused = matches!(answer, Ok(Attempt::Busy { place: 0, .. }));
        self.sent = !refused || self.in_doubt || self.seat.is_some();
        self.spent = matches!(answer, Ok(Attempt::Busy { spent: true, .. }) | Err(_));
        match (answer, self.plan.replicas) {
            (Ok(Attempt::Granted(grant)), Some(replicas)) => {
                self.replicated(grant, replicas, deadline).await
            }
            (answer, _) => answer,
        }
    }

    /// The grant once enough replicas have it; without them it is given back.
    async fn replicated(
        &self,
        grant: Grant,
        (needed, within): (u32, Duration),
        deadline: Option<Instant>,
    ) -> Result<Attempt, Error> {
        let resource = &self.plan.resource;
        let acknowledged = resource.acknowledged(needed, within, deadline).await;
        if acknowledged
            .as_ref()
            .is_ok_and(|replicas| *replicas >= needed)
        {
            return Ok(Attempt::Granted(grant));
        }
        let until = later(self.plan.clock.now(), self.plan.ttl.duration());
        if let Err(error) = resource.release(&self.token, b"", until).await {
            tracing::debug!(%error, "giving back was not answered");
        }
        Err(Error::TooFewReplicas {
            acknowledged: acknowledged?,
            needed,
        })
    }

    /// Waits as `next` says.
    async fn wait(&mut self, next: Next, deadline: Option<Instant>) -> Waited {
        let clock = &self.plan.clock;
        if let Some(seat) = &self.seat
            && !seat.is_open()
            && seat.open(deadline).await.is_ok()
        {
            // What happened while nobody listened can only be asked for.
            return Waited::Enough;
        }
        let (pause, seen) = match next {
            Next::Turn(place, left, seen) => (self.plan.wait.patience(place, left), Some(seen)),
            Next::Pause(_) if self.seat.is_none() && self.listen(deadline).await => {
                return Waited::Enough;
            }
            Next::Pause(left) => (self.polling_pause(left), None),
        };
        let wake_up = later(clock.now(), pause);
        let limit = deadline.map_or(wake_up, |deadline| deadline.min(wake_up));
        match (&self.seat, seen) {
            (Some(seat), Some(seen)) => {
                // Woken or not, the server is asked again, unless the message was proof enough.
                let _ = clock.before(limit, seat.woken()).await;
                let granted = seen.and_then(|seen| seat.granted(seen, self.plan.ttl));
                if let Some(grant) = granted {
                    return Waited::Granted(grant);
                }
            }
            _ => clock.sleep_until(limit).await,
        }
        match deadline {
            Some(deadline) if clock.now() >= deadline => Waited::TooLong,
            _ => Waited::Enough,
        }
    }

    fn timed_out(&self, started: Instant, last: Option<Error>) -> Error {
        Error::TimedOut {
            waited: self.plan.clock.now().saturating_duration_since(started),
            attempts: self.attempts,
            last: last.map(Box::new),
        }
    }

    /// Subscribes, so that the next attempt can queue; polls for a while when that fails, and for
    /// good when it would always fail.
    async fn listen(&mut self, deadline: Option<Instant>) -> bool {
        let Some(hub) = self.hub() else { return false };
        let seat = hub.seat(&self.token, self.plan.resource.name());
        match seat.open(deadline).await {
            Ok(()) => {
                self.sit(seat);
                true
            }
            Err(error) => {
                tracing::debug!(%error, "no wake-ups, polling instead");
                let again = self.attempts.saturating_mul(2);
                self.deaf_until = if error.is_transient() {
                    again
                } else {
                    u32::MAX
                };
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
        if self.spent && self.plan.resource.spends_tokens() {
            self.give_back();
            self.token = Token::random()?;
            self.in_doubt = false;
            if let Some(seat) = self.seat.take() {
                self.address = Vec::new();
                drop(seat);
                self.take_open_seat();
            }
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
            address: self.address.clone(),
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
        let stays_short = !grant.whole && plan.renew_up_to.is_none();
        let lease = Lease::new(
            Arc::clone(&plan.resource),
            self.token.clone(),
            plan.ttl,
            &plan.label,
            plan.clock.clone(),
            grant,
        );
        if let (true, Some(hub)) = (stays_short, &plan.hub) {
            hub.lengthener().later(&lease, &self.runtime);
        }
        Ok(Guard::new(lease, self.runtime.clone(), plan.renew_up_to))
    }
}

impl Drop for Claim<'_> {
    fn drop(&mut self) {
        self.give_back();
    }
}
