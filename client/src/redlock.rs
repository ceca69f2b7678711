//! One lock over several independent servers: it is held where a majority of them says so.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use redis::IntoConnectionInfo;

use crate::cleanup::Cleanup;
use crate::clock::{Clock, later};
use crate::connection::BoxFuture;
use crate::error::Error;
use crate::lock::Lock;
use crate::manager::Manager;
use crate::name::Name;
use crate::resource::{Attempt, Bid, Extended, Grant, Resource, Scripted, Standing, millis};
use crate::scripts;
use crate::token::Token;
use crate::ttl::Ttl;
use crate::wakeup::Hub;

/// Independent servers, of which a majority must agree.
///
/// A minority of them may fail, or hang, without stopping anyone: the rest are asked in parallel
/// and the majority decides. It does not make a lease more than a lease: a paused holder is still
/// late, so its writes still need the fencing token.
///
/// Servers must not be replicas of one another, and one that lost its data must stay away for
/// as long as the longest TTL, or two majorities may meet in it.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = khoa_server::Server::start;
/// # let (a, b, c) = (server()?, server()?, server()?);
/// // Of servers that know nothing of one another.
/// let redlock = khoa::Redlock::open([a.url(), b.url(), c.url()])?;
/// let guard = redlock.lock("ledger").acquire().await?;
/// guard.release().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Redlock {
    managers: Vec<Manager>,
    hub: Arc<Hub>,
    node_timeout: Duration,
}

impl Redlock {
    /// Over the servers at these URLs, with default settings. It does not connect yet.
    pub fn open<U: IntoConnectionInfo>(urls: impl IntoIterator<Item = U>) -> Result<Self, Error> {
        let managers = urls
            .into_iter()
            .enumerate()
            .map(|(index, url)| Manager::builder().index(index).open(url))
            .collect::<Result<Vec<_>, _>>()?;
        Self::new(managers)
    }

    /// Over managers of independent servers, which must agree on prefix and clock.
    ///
    /// # Errors
    /// [`Error::InvalidOption`] when there are none, or an even number: the fourth server would
    /// only be one more that can fail.
    pub fn new(managers: impl IntoIterator<Item = Manager>) -> Result<Self, Error> {
        let managers: Vec<Manager> = managers.into_iter().collect();
        if managers.len().is_multiple_of(2) {
            return Err(Error::InvalidOption {
                reason: "an odd number of servers is needed",
            });
        }
        let nodes: Vec<_> = managers.iter().map(|m| m.node().clone()).collect();
        let needed = nodes.len() / 2 + 1;
        let hub = Arc::new(Hub::new(nodes, needed, managers[0].prefix())?);
        Ok(Self {
            managers,
            hub,
            node_timeout: Duration::from_millis(50),
        })
    }

    /// How long a single server may take; it must be short beside the TTL. Default: 50 ms.
    #[must_use]
    pub fn node_timeout(mut self, timeout: Duration) -> Self {
        self.node_timeout = timeout;
        self
    }

    /// A lock of this name over all the servers, with default options. Waiters stand in a queue on
    /// each server and ask again when a majority of the servers says that it is their turn. Where
    /// requests crossed the queues differ, so their order is that of arrival only as a rule.
    pub fn lock(&self, name: impl AsRef<[u8]>) -> Lock {
        let [first, ..] = &self.managers[..] else {
            unreachable!("an odd number is not zero")
        };
        let clock = first.node().clock().clone();
        let resource = self
            .quorum(name.as_ref())
            .map(|quorum| Arc::new(quorum) as _);
        Lock::new(resource, Some(Arc::clone(&self.hub)), clock, first.label())
    }

    fn quorum(&self, name: &[u8]) -> Result<Quorum, Error> {
        let nodes = self
            .managers
            .iter()
            .map(|manager| Ok(Arc::new(manager.plain(manager.name(name)?))))
            .collect::<Result<Vec<_>, Error>>()?;
        Ok(Quorum {
            needed: nodes.len() / 2 + 1,
            nodes,
            hub: Arc::clone(&self.hub),
            node_timeout: self.node_timeout,
            longest_ms: AtomicU64::new(0),
        })
    }
}

/// A lock on each of several servers, of which a majority counts.
struct Quorum {
    nodes: Vec<Arc<Scripted>>,
    needed: usize,
    hub: Arc<Hub>,
    node_timeout: Duration,
    /// The longest lease that was asked for, in milliseconds: clean-up goes on for that long.
    longest_ms: AtomicU64,
}

impl Quorum {
    fn longest(&self) -> Ttl {
        let longest = Duration::from_millis(self.longest_ms.load(Ordering::Relaxed));
        Ttl::new(longest).unwrap_or(Ttl::SHORTEST)
    }

    fn clock(&self) -> &Clock {
        self.nodes[0].node.clock()
    }

    fn limit(&self, deadline: Option<Instant>) -> Instant {
        let limit = later(self.clock().now(), self.node_timeout);
        deadline.map_or(limit, |deadline| limit.min(deadline))
    }

    /// Asks every server at once.
    fn ask<'a, F>(&'a self, each: impl Fn(&'a Arc<Scripted>) -> F) -> FuturesUnordered<F>
    where
        F: Future,
    {
        self.nodes.iter().map(each).collect()
    }

    async fn acquire(&self, bid: &Bid<'_>) -> Result<Attempt, Error> {
        self.longest_ms
            .fetch_max(bid.ttl.millis(), Ordering::Relaxed);
        let bid = &Bid {
            deadline: Some(self.limit(bid.deadline)),
            ..*bid
        };
        let queues = !bid.address.is_empty();
        let mut answers = self.ask(|node| async move { (node, node.attempt(bid).await) });
        let mut tally = Tally::new(self.clock().now(), bid.ttl);
        while let Some((node, answer)) = answers.next().await {
            tally.count(node, answer);
            let hopeless = tally.granted.len() + answers.len() < self.needed;
            // Who queues needs to know on which servers it stands.
            if tally.granted.len() >= self.needed || hopeless && !queues {
                break;
            }
        }
        let unanswered = !answers.is_empty();
        // A request that is still on its way was sent before any later one of this token, so
        // what it does will be undone by the release, which goes to every server.
        drop(answers);
        let enough = tally.granted.len() >= self.needed;
        if enough && self.raise_fence(&tally, bid.deadline).await {
            return Ok(Attempt::Granted(tally.grant()));
        }
        if queues && !enough && !unanswered && tally.errors.is_empty() {
            // Where it was granted it is given back, and the places in the other queues stay.
            let kept = self
                .give_back(&tally.granted, bid.token, b"", bid.ttl)
                .await;
            return tally.refusal(self.needed, !kept);
        }
        let all: Vec<_> = self.nodes.iter().collect();
        self.give_back(&all, bid.token, bid.address, bid.ttl).await;
        tally.refusal(self.needed, true)
    }

    /// Writes the highest number back to a majority, so that every later majority knows it.
    async fn raise_fence(&self, tally: &Tally<'_>, deadline: Option<Instant>) -> bool {
        let number = tally.fence.to_string();
        let deadline = self.limit(deadline);
        let mut answers = self.ask(|node| {
            let keys = [node.name.helper("fence")];
            let (number, kept) = (number.clone(), millis(node.fence_kept));
            async move {
                let args = [number.as_bytes(), kept.as_bytes()];
                node.node
                    .run(&scripts::RAISE_FENCE, &keys, &args, Some(deadline))
                    .await
            }
        });
        let mut raised = 0;
        while let Some(answer) = answers.next().await {
            raised += usize::from(answer.is_ok());
            if raised >= self.needed {
                return true;
            }
        }
        false
    }

    /// Whether all of the servers have confirmed it.
    async fn give_back(
        &self,
        nodes: &[&Arc<Scripted>],
        token: &Token,
        address: &[u8],
        ttl: Ttl,
    ) -> bool {
        let deadline = self.limit(None);
        let mut answers: FuturesUnordered<_> = nodes
            .iter()
            .map(|node| self.release_one(node, token, address, ttl, deadline))
            .collect();
        let mut all = true;
        while let Some(answer) = answers.next().await {
            all &= answer.is_ok();
        }
        all
    }

    /// Releases one server, and goes on in the background when it does not answer.
    async fn release_one(
        &self,
        node: &Arc<Scripted>,
        token: &Token,
        address: &[u8],
        ttl: Ttl,
        deadline: Instant,
    ) -> Result<Standing, Error> {
        let answer = node.release(token, address, deadline).await;
        if answer.is_err() {
            let cleanup = Cleanup {
                resource: Arc::clone(node) as _,
                token: token.clone(),
                address: address.to_vec(),
                clock: self.clock().clone(),
                until: later(self.clock().now(), ttl.duration()),
                may_be_overtaken: true,
            };
            cleanup.spawn(&tokio::runtime::Handle::current());
        }
        answer
    }

    async fn lengthen(
        &self,
        token: &Token,
        ttl: Ttl,
        deadline: Instant,
    ) -> Result<Extended, Error> {
        let deadline = self.limit(Some(deadline));
        let mut answers =
            self.ask(|node| async move { (node, node.extend(token, ttl, deadline).await) });
        let mut untils = Vec::new();
        let mut errors = Vec::new();
        let mut standing = Standing::Gone;
        let mut restarted = Vec::new();
        while let Some((node, answer)) = answers.next().await {
            match answer {
                Ok(Extended::Until(until)) => untils.push(until),
                Ok(Extended::Not(other)) => {
                    standing = if other == Standing::Foreign {
                        other
                    } else {
                        standing
                    };
                    restarted.extend((other == Standing::Gone).then_some(node));
                }
                Err(error) => errors.push(error),
            }
        }
        drop(answers);
        if untils.len() >= self.needed {
            self.regain(&restarted, token, ttl, deadline).await;
            // A majority holds up to the moment that the last of its latest-ending members ends.
            untils.sort_unstable_by(|a, b| b.cmp(a));
            return Ok(Extended::Until(untils[self.needed - 1]));
        }
        if untils.len() + errors.len() < self.needed {
            return Ok(Extended::Not(standing));
        }
        Err(Error::Quorum {
            granted: untils.len(),
            needed: self.needed,
            errors,
        })
    }

    /// Takes the lock again on servers that lost it while the majority did not: they count for
    /// the next extension, never for this one.
    async fn regain(&self, nodes: &[&Arc<Scripted>], token: &Token, ttl: Ttl, deadline: Instant) {
        let bid = Bid {
            token,
            ttl,
            label: b"",
            address: b"",
            deadline: Some(deadline),
        };
        let mut answers: FuturesUnordered<_> =
            nodes.iter().map(|node| node.attempt(&bid)).collect();
        while answers.next().await.is_some() {}
    }
}

/// The answers to one attempt.
struct Tally<'a> {
    granted: Vec<&'a Arc<Scripted>>,
    busy: usize,
    place: u32,
    fence: u64,
    valid_until: Instant,
    holder_left: Option<Duration>,
    errors: Vec<Error>,
}

impl<'a> Tally<'a> {
    fn new(started: Instant, ttl: Ttl) -> Self {
        Self {
            granted: Vec::new(),
            busy: 0,
            place: 0,
            fence: 0,
            valid_until: later(started, ttl.provable()),
            holder_left: None,
            errors: Vec::new(),
        }
    }

    fn count(&mut self, node: &'a Arc<Scripted>, answer: Result<Attempt, Error>) {
        match answer {
            Ok(Attempt::Granted(grant)) => {
                self.granted.push(node);
                self.fence = self.fence.max(grant.fence);
                self.valid_until = self.valid_until.min(grant.valid_until);
            }
            Ok(Attempt::Busy {
                holder_left, place, ..
            }) => {
                self.busy += 1;
                self.place = self.place.max(place);
                self.holder_left = self.holder_left.max(holder_left);
            }
            Err(error) => self.errors.push(error),
        }
    }

    fn grant(&self) -> Grant {
        Grant {
            fence: self.fence,
            valid_until: self.valid_until,
            whole: true,
        }
    }

    /// Busy when others stand in the way; an error when the servers do. Who has spent its token
    /// stands in no queue any more.
    fn refusal(self, needed: usize, spent: bool) -> Result<Attempt, Error> {
        if self.busy > 0 || self.errors.is_empty() {
            return Ok(Attempt::Busy {
                holder_left: self.holder_left,
                place: if spent { 0 } else { self.place },
                seen: None,
                spent,
            });
        }
        Err(Error::Quorum {
            granted: self.granted.len(),
            needed,
            errors: self.errors,
        })
    }
}

impl Resource for Quorum {
    fn name(&self) -> &Name {
        self.nodes[0].name()
    }

    fn attempt<'a>(&'a self, bid: &'a Bid<'a>) -> BoxFuture<'a, Result<Attempt, Error>> {
        Box::pin(self.acquire(bid))
    }

    fn spends_tokens(&self) -> bool {
        true
    }

    fn extend<'a>(
        &'a self,
        token: &'a Token,
        ttl: Ttl,
        deadline: Instant,
    ) -> BoxFuture<'a, Result<Extended, Error>> {
        Box::pin(self.lengthen(token, ttl, deadline))
    }

    fn release<'a>(
        &'a self,
        token: &'a Token,
        _address: &'a [u8],
        deadline: Instant,
    ) -> BoxFuture<'a, Result<Standing, Error>> {
        Box::pin(async move {
            let deadline = self.limit(Some(deadline));
            let ttl = self.longest();
            // It may still stand in the queue of a server whose grant it did not need.
            let address = &self.hub.address(&self.hub.channel(self.name()), None);
            let mut answers =
                self.ask(|node| self.release_one(node, token, address, ttl, deadline));
            let (mut released, mut foreign, mut errors) = (0_usize, 0_usize, Vec::new());
            while let Some(answer) = answers.next().await {
                match answer {
                    Ok(Standing::Held) => released += 1,
                    Ok(Standing::Foreign) => foreign += 1,
                    Ok(Standing::Gone) => {}
                    Err(error) => errors.push(error),
                }
            }
            if errors.len() >= self.needed {
                return Err(Error::Quorum {
                    granted: released,
                    needed: self.needed,
                    errors,
                });
            }
            Ok(if released > 0 && foreign < self.needed {
                Standing::Held
            } else if foreign > 0 {
                Standing::Foreign
            } else {
                Standing::Gone
            })
        })
    }
}

impl fmt::Debug for Quorum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} on {} servers",
            self.nodes[0].name(),
            self.nodes.len()
        )
    }
}
