//! What every held thing has in common: it is asked for, lengthened and given up, by token.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use redis::Value;

use crate::clock::later;
use crate::connection::{BoxFuture, Node};
use crate::error::Error;
use crate::name::Name;
use crate::scripts::ScriptSet;
use crate::token::Token;
use crate::ttl::Ttl;

/// How long what a waiter was offered lasts without another sign of life from it. The simulation
/// makes it shorter than most of its leases, so that they have to be lengthened.
pub(crate) const TURN_KEPT: Duration = Duration::from_millis(if cfg!(test) { 400 } else { 2000 });
/// How long a queue outlives the last sign of life of its waiters.
pub(crate) const QUEUE_KEPT: Duration = Duration::from_secs(120);

/// A lock, permit or leadership, on one server or several.
///
/// Every request may be repeated with the same token: it then finds what the first one did.
pub(crate) trait Resource: Send + Sync + fmt::Debug {
    fn name(&self) -> &Name;

    fn attempt<'a>(&'a self, bid: &'a Bid<'a>) -> BoxFuture<'a, Result<Attempt, Error>>;

    /// Whether an attempt that was not granted may have sent a release of its token. That release
    /// may arrive late, so then the token must never be used again.
    fn spends_tokens(&self) -> bool {
        false
    }

    fn extend<'a>(
        &'a self,
        token: &'a Token,
        ttl: Ttl,
        deadline: Instant,
    ) -> BoxFuture<'a, Result<Extended, Error>>;

    /// Whether a waiter may be granted it by a message, without asking again.
    fn offers(&self) -> bool {
        false
    }

    /// How many replicas have what this process wrote last; it waits for so many, or so long.
    fn acknowledged(
        &self,
        _replicas: u32,
        _within: Duration,
        _deadline: Option<Instant>,
    ) -> BoxFuture<'_, Result<u32, Error>> {
        let what = "wait for replicas of several servers";
        Box::pin(std::future::ready(Err(Error::Unsupported { what })))
    }

    /// Gives up whatever the token holds; with an address, also its place in the queue.
    fn release<'a>(
        &'a self,
        token: &'a Token,
        address: &'a [u8],
        deadline: Instant,
    ) -> BoxFuture<'a, Result<Standing, Error>>;
}

/// One request for a resource.
#[derive(Debug)]
pub(crate) struct Bid<'a> {
    pub(crate) token: &'a Token,
    pub(crate) ttl: Ttl,
    pub(crate) label: &'a [u8],
    /// Where to be woken, and with what; empty when the caller does not want to queue.
    pub(crate) address: &'a [u8],
    pub(crate) deadline: Option<Instant>,
}

#[derive(Debug)]
pub(crate) enum Attempt {
    Granted(Grant),
    /// Another holds it; its remaining time when it is known, and the caller's place in the
    /// queue, zero when it does not stand in one.
    Busy {
        holder_left: Option<Duration>,
        place: u32,
        seen: Option<Seen>,
        /// Whether the token must not be used again.
        spent: bool,
    },
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Grant {
    pub(crate) fence: u64,
    pub(crate) valid_until: Instant,
    /// Whether it lasts as long as was asked for.
    pub(crate) whole: bool,
}

/// What a waiter learnt with its place in the queue, to judge what it is offered later.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen {
    /// When the request was sent that was answered.
    pub(crate) sent: Instant,
    /// The server's clock when it answered, in microseconds.
    pub(crate) clock_us: u64,
    /// The number that was issued last.
    pub(crate) fence: u64,
}

/// A lease that a release has given to a waiter, as its message says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Offer {
    pub(crate) fence: u64,
    /// The server's clock when the lease began, in microseconds.
    pub(crate) clock_us: u64,
    pub(crate) lease: Ttl,
}

impl Offer {
    /// The grant that it proves, if it proves a useful one.
    ///
    /// The message may have been on its way for any time, so what counts is what the server's
    /// clock says has passed since its last answer, which was on its way for a known time. Both
    /// clocks may run apart by a hundredth. That the server's clock was set meanwhile cannot be
    /// seen, but then the moment at which the message came is the latest that is believed.
    pub(crate) fn grant(self, seen: Seen, heard: Instant, ttl: Ttl) -> Option<Grant> {
        // A lower number was granted, and is over, before the last answer: the message is late.
        if self.fence <= seen.fence {
            return None;
        }
        let passed = self.clock_us.saturating_sub(seen.clock_us);
        let at_least = Duration::from_micros(passed - passed / 100);
        let began = later(seen.sent, at_least).min(heard);
        let valid_until = later(began, self.lease.provable());
        let left = valid_until.saturating_duration_since(heard);
        (left >= self.lease.duration() / 2).then_some(Grant {
            fence: self.fence,
            valid_until,
            whole: self.lease >= ttl,
        })
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Extended {
    Until(Instant),
    Not(Standing),
}

/// What the server says about a token's hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    Held,
    Gone,
    Foreign,
}

impl Standing {
    fn from_reply(reply: i64) -> Self {
        match reply {
            1 => Self::Held,
            0 => Self::Gone,
            _ => Self::Foreign,
        }
    }
}

/// A resource that lives on one server and is driven by three scripts.
pub(crate) struct Scripted {
    pub(crate) node: Node,
    pub(crate) name: Name,
    pub(crate) scripts: &'static ScriptSet,
    pub(crate) acquire_keys: Vec<Vec<u8>>,
    pub(crate) extend_keys: Vec<Vec<u8>>,
    pub(crate) release_keys: Vec<Vec<u8>>,
    /// Arguments after those that all kinds have.
    pub(crate) acquire_extra: Vec<Vec<u8>>,
    pub(crate) extend_extra: Vec<Vec<u8>>,
    pub(crate) release_extra: Vec<Vec<u8>>,
    pub(crate) fence_kept: Duration,
    /// What the last grant brought besides its number.
    pub(crate) more: Mutex<Vec<Value>>,
}

impl Scripted {
    async fn ask(&self, bid: &Bid<'_>) -> Result<Attempt, Error> {
        let ttl = bid.ttl.millis().to_string();
        let (fence_kept, turn, queue) = (
            millis(self.fence_kept),
            millis(TURN_KEPT),
            millis(QUEUE_KEPT),
        );
        let mut args: Vec<&[u8]> = vec![
            bid.token.as_str().as_bytes(),
            ttl.as_bytes(),
            bid.address,
            bid.label,
            fence_kept.as_bytes(),
            turn.as_bytes(),
            queue.as_bytes(),
        ];
        args.extend(self.acquire_extra.iter().map(Vec::as_slice));
        // The lease is measured from before the request: its answer may have been on the way long.
        let sent = self.node.clock().now();
        let reply = self
            .node
            .run(
                &self.scripts.acquire,
                &self.acquire_keys,
                &args,
                bid.deadline,
            )
            .await?;
        self.read_attempt(reply, sent, bid.ttl)
    }

    fn read_attempt(&self, reply: Value, sent: Instant, ttl: Ttl) -> Result<Attempt, Error> {
        let mut reply: Vec<Value> = self.node.read(reply)?;
        if reply.len() < 2 {
            return Err(self.unexpected());
        }
        let more = reply.split_off(2);
        let (granted, number): (bool, i64) = self.node.read(Value::Array(reply))?;
        if granted {
            *self.more() = more;
            return Ok(Attempt::Granted(Grant {
                fence: number.unsigned_abs(),
                valid_until: later(sent, ttl.provable()),
                whole: true,
            }));
        }
        let more: Vec<u64> = self.node.read(Value::Array(more))?;
        let seen = |(clock_us, fence): (&u64, &u64)| Seen {
            sent,
            clock_us: *clock_us,
            fence: *fence,
        };
        Ok(Attempt::Busy {
            holder_left: u64::try_from(number).ok().map(Duration::from_millis),
            place: more
                .first()
                .map_or(0, |place| u32::try_from(*place).unwrap_or(u32::MAX)),
            seen: more.get(1).zip(more.get(2)).map(seen),
            spent: false,
        })
    }

    pub(crate) fn take_more(&self) -> Vec<Value> {
        std::mem::take(&mut *self.more())
    }

    fn more(&self) -> std::sync::MutexGuard<'_, Vec<Value>> {
        self.more.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn unexpected(&self) -> Error {
        let kind = redis::ErrorKind::UnexpectedReturnType;
        Error::backend(self.node.index())((kind, "a script answered in another shape").into())
    }
}

impl Resource for Scripted {
    fn name(&self) -> &Name {
        &self.name
    }

    fn attempt<'a>(&'a self, bid: &'a Bid<'a>) -> BoxFuture<'a, Result<Attempt, Error>> {
        Box::pin(self.ask(bid))
    }

    fn offers(&self) -> bool {
        self.scripts.offers
    }

    fn acknowledged(
        &self,
        replicas: u32,
        within: Duration,
        deadline: Option<Instant>,
    ) -> BoxFuture<'_, Result<u32, Error>> {
        Box::pin(async move {
            let mut wait = redis::cmd("WAIT");
            wait.arg(replicas).arg(millis(within));
            let reply = self.node.wait(self.name.key(), &wait, within, deadline);
            self.node.read(reply.await?)
        })
    }

    fn extend<'a>(
        &'a self,
        token: &'a Token,
        ttl: Ttl,
        deadline: Instant,
    ) -> BoxFuture<'a, Result<Extended, Error>> {
        Box::pin(async move {
            let millis = ttl.millis().to_string();
            let mut args = vec![token.as_str().as_bytes(), millis.as_bytes()];
            args.extend(self.extend_extra.iter().map(Vec::as_slice));
            let keys = &self.extend_keys;
            let sent = self.node.clock().now();
            let reply = self
                .node
                .run(&self.scripts.extend, keys, &args, Some(deadline))
                .await?;
            Ok(match Standing::from_reply(self.node.read(reply)?) {
                Standing::Held => Extended::Until(sent + ttl.provable()),
                other => Extended::Not(other),
            })
        })
    }

    fn release<'a>(
        &'a self,
        token: &'a Token,
        address: &'a [u8],
        deadline: Instant,
    ) -> BoxFuture<'a, Result<Standing, Error>> {
        Box::pin(async move {
            let (turn, fence_kept) = (millis(TURN_KEPT), millis(self.fence_kept));
            let mut args = vec![
                token.as_str().as_bytes(),
                address,
                turn.as_bytes(),
                fence_kept.as_bytes(),
            ];
            args.extend(self.release_extra.iter().map(Vec::as_slice));
            let keys = &self.release_keys;
            let reply = self
                .node
                .run(&self.scripts.release, keys, &args, Some(deadline))
                .await?;
            Ok(Standing::from_reply(self.node.read(reply)?))
        })
    }
}

impl fmt::Debug for Scripted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} on {:?}", self.name, self.node)
    }
}

pub(crate) type SharedResource = Arc<dyn Resource>;

pub(crate) fn millis(duration: Duration) -> String {
    crate::ttl::millis_rounded_up(duration).to_string()
}
