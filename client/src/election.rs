//! Leader election: campaign, lead until resigned or lost, and observe who leads.

use std::fmt;
use std::future::Future;
use std::ops::Deref;
use std::time::Duration;

use futures_util::StreamExt;

use crate::clock::later;
use crate::connection::Messages;
use crate::error::{Error, Loss};
use crate::guard::{Guard, Released};
use crate::inspect::Holder;
use crate::lease::Lease;
use crate::lock::Lock;
use crate::manager::Manager;
use crate::name::Name;
use crate::pubsub;
use crate::resource::Scripted;

/// How often an observer looks at most and at least, told of a change or not.
const LOOK_AT_LEAST: Duration = Duration::from_secs(1);
const LOOK_AT_MOST: Duration = Duration::from_millis(20);

/// An election under a name. The leader is whoever holds a lease that renews itself; candidates
/// stand in a queue, and a leader that resigns or dies is followed by the next of them.
///
/// The lease proves leadership only to the leader itself, and only until
/// [`Lease::valid_until`]. A leader must stop **before** that moment, and must send its fencing
/// token with whatever it orders others to do.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = khoa_server::Server::start()?;
/// # let manager = khoa::Manager::open(server.url())?;
/// let election = manager.election("scheduler").candidate("host-3");
/// let leadership = election.campaign().await?;
/// println!("term {}", leadership.fencing_token());
/// leadership.resign().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Election {
    manager: Manager,
    name: Vec<u8>,
    lock: Lock,
}

impl Manager {
    /// An election of this name, with a term of 15 s that renews itself without end.
    pub fn election(&self, name: impl AsRef<[u8]>) -> Election {
        let name = name.as_ref().to_vec();
        let lock = self
            .hold(self.announced(&name))
            .ttl(Duration::from_secs(15));
        let lock = lock.auto_renew(true).max_hold(Duration::MAX).wait_forever();
        Election {
            manager: self.clone(),
            name,
            lock,
        }
    }
}

impl Manager {
    /// A lock whose new holders are announced.
    fn announced(&self, name: &[u8]) -> Result<Scripted, Error> {
        let name = self.name(name)?;
        let channel = news_channel(&name);
        Ok(Scripted {
            acquire_extra: vec![channel.clone()],
            release_extra: vec![channel],
            ..self.plain(name)
        })
    }
}

fn news_channel(name: &Name) -> Vec<u8> {
    name.helper("leader")
}

impl Election {
    /// What observers are shown of this candidate. Default: the manager's label.
    #[must_use]
    pub fn candidate(mut self, label: impl AsRef<[u8]>) -> Self {
        self.lock = self.lock.label(label);
        self
    }

    /// How long a leader that died stays leader. Default: 15 s.
    #[must_use]
    pub fn term(mut self, term: Duration) -> Self {
        self.lock = self.lock.ttl(term);
        self
    }

    /// How long [`Election::campaign`] waits at most. Default: without end.
    #[must_use]
    pub fn max_wait(mut self, max_wait: Duration) -> Self {
        self.lock = self.lock.max_wait(max_wait);
        self
    }

    /// Waits to become leader.
    ///
    /// # Cancel safety
    /// Dropping the future withdraws the candidate.
    pub async fn campaign(&self) -> Result<Leadership, Error> {
        Ok(Leadership {
            guard: self.lock.acquire().await?,
        })
    }

    /// Campaigns, leads with `work` and, when the leadership is lost, does it again, until the
    /// work ends by itself. It is dropped at its next await point when the leadership is lost.
    ///
    /// # Cancel safety
    /// Dropping the future drops the work and resigns in the background.
    pub async fn lead<F, W>(&self, mut work: F) -> Result<W::Output, Error>
    where
        F: FnMut(Lease) -> W,
        W: Future,
    {
        loop {
            let leadership = self.campaign().await?;
            let output = tokio::select! {
                biased;
                output = work(leadership.lease()) => output,
                reason = leadership.lost() => {
                    tracing::warn!(%reason, "leadership lost");
                    continue;
                }
            };
            if let Err(error) = leadership.resign().await {
                tracing::warn!(%error, "resignation was not confirmed");
            }
            return Ok(output);
        }
    }

    /// Who leads at this moment, as the server sees it.
    ///
    /// # Cancel safety
    /// Only reads.
    pub async fn leader(&self) -> Result<Option<Holder>, Error> {
        let holder = self.manager.inspect(&self.name).await?;
        // While a turn is kept nobody leads yet.
        Ok(holder.filter(|holder| holder.fencing_token.is_some()))
    }

    /// Watches who leads.
    pub fn observe(&self) -> Observer {
        Observer {
            election: self.clone(),
            last: None,
            started: false,
            news: None,
        }
    }
}

/// The succession of leaders, as seen by one observer. A short leadership may pass unseen.
///
/// It listens on a connection of its own and is told of each campaign that is won and of each
/// resignation. That a leader died it sees when the term ends; it looks once a second besides,
/// also where its connection cannot listen.
pub struct Observer {
    election: Election,
    last: Option<u64>,
    started: bool,
    news: Option<Messages>,
}

impl Observer {
    /// The leader at the first call; then waits until another leads, or none.
    ///
    /// # Cancel safety
    /// Dropping the future loses nothing: the next call still sees the change.
    pub async fn changed(&mut self) -> Result<Option<Holder>, Error> {
        let clock = self.election.manager.node().clock().clone();
        loop {
            if self.news.is_none() {
                self.news = listen(&self.election).await;
            }
            // After listening began, so that no change falls between the two.
            let leader = self.election.leader().await?;
            let term = leader.as_ref().and_then(|leader| leader.fencing_token);
            if !self.started || term != self.last {
                self.started = true;
                self.last = term;
                return Ok(leader);
            }
            let left = leader
                .and_then(|leader| leader.remaining)
                .unwrap_or(LOOK_AT_LEAST);
            let next_look = later(clock.now(), left.clamp(LOOK_AT_MOST, LOOK_AT_LEAST));
            let Some(news) = &mut self.news else {
                clock.sleep_until(next_look).await;
                continue;
            };
            if let Some(None) = clock.before(next_look, news.next()).await {
                self.news = None;
            }
        }
    }
}

async fn listen(election: &Election) -> Option<Messages> {
    let name = election.manager.name(&election.name).ok()?;
    pubsub::listen(election.manager.node(), &news_channel(&name))
        .await
        .ok()
}

impl Clone for Observer {
    fn clone(&self) -> Self {
        Self {
            election: self.election.clone(),
            last: self.last,
            started: self.started,
            news: None,
        }
    }
}

impl fmt::Debug for Observer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Observer")
            .field("election", &self.election)
            .field("last", &self.last)
            .finish_non_exhaustive()
    }
}

/// Being leader; dropping it resigns in the background.
#[must_use = "the leadership ends as soon as it is dropped"]
#[derive(Debug)]
pub struct Leadership {
    guard: Guard,
}

impl Leadership {
    /// Ends the leadership; the next candidate follows at once.
    ///
    /// # Cancel safety
    /// As [`Guard::release`].
    pub async fn resign(self) -> Result<Released, Error> {
        self.guard.release().await
    }

    /// Completes when the leadership cannot be proven any more.
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing.
    pub async fn lost(&self) -> Loss {
        self.guard.lost().await
    }

    /// A view that can be cloned into the leader's tasks.
    pub fn lease(&self) -> Lease {
        self.guard.lease()
    }
}

impl Deref for Leadership {
    type Target = Lease;

    fn deref(&self) -> &Lease {
        &self.guard
    }
}
