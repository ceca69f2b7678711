//! Several locks as one: atomic on one server, ordered and all-or-nothing across servers.

use std::time::{Duration, Instant};

use futures_util::future::select_all;

use crate::clock::later;
use crate::error::{Error, Loss};
use crate::guard::{Guard, Released};
use crate::lock::Lock;
use crate::manager::Manager;
use crate::resource::Scripted;
use crate::scripts;

/// The most locks that are taken at once.
pub const MAX_LOCKS: usize = 256;

impl Manager {
    /// All of these names or none of them, in one step on the server: no order to agree on and
    /// no deadlock. It excludes and is excluded by plain locks of the same names, and its
    /// fencing token is above those of all of them.
    ///
    /// In a cluster the names must share a slot: give them a common `{tag}`.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = khoa_server::Server::start()?;
    /// # let manager = khoa::Manager::open(server.url())?;
    /// let both = manager.lock_all(["account:7", "account:9"]).acquire().await?;
    /// both.release().await?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn lock_all<N: AsRef<[u8]>>(&self, names: impl IntoIterator<Item = N>) -> Lock {
        self.hold(self.several(names))
    }

    fn several<N: AsRef<[u8]>>(
        &self,
        names: impl IntoIterator<Item = N>,
    ) -> Result<Scripted, Error> {
        let mut names = names
            .into_iter()
            .take(MAX_LOCKS + 1)
            .map(|name| self.name(name))
            .collect::<Result<Vec<_>, _>>()?;
        names.sort_by(|a, b| a.key().cmp(b.key()));
        names.dedup();
        let first = names.first().filter(|_| names.len() <= MAX_LOCKS).cloned();
        let first = first.ok_or(Error::InvalidOption {
            reason: "between 1 and 256 names",
        })?;
        let mut resource = self.scripted(first, &scripts::MULTI);
        for name in &names {
            let (key, queue) = (name.key().to_vec(), name.helper("queue"));
            resource
                .acquire_keys
                .extend([key.clone(), name.helper("fence"), queue.clone()]);
            resource.extend_keys.push(key.clone());
            resource
                .release_keys
                .extend([key, queue, name.helper("fence")]);
        }
        Ok(resource)
    }
}

/// Several locks, perhaps on several servers or of several kinds, that are taken in a fixed
/// order and held together or not at all.
///
/// Everyone who takes some of the same locks must take them in the same order; sorting them by
/// key sees to that as long as all of them go through a `LockSet`.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let servers = (khoa_server::Server::start()?, khoa_server::Server::start()?);
/// # let east = khoa::Manager::open(servers.0.url())?;
/// # let west = khoa::Manager::open(servers.1.url())?;
/// let set = khoa::LockSet::new([east.lock("stock"), west.lock("stock")]);
/// let held = set.acquire().await?;
/// held.release().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use = "locks are not held before they are acquired"]
pub struct LockSet {
    locks: Vec<Lock>,
    max_wait: Duration,
}

impl LockSet {
    /// The set of these locks.
    pub fn new(locks: impl IntoIterator<Item = Lock>) -> Self {
        let mut locks: Vec<Lock> = locks.into_iter().collect();
        // Stable, so locks of equal keys on several servers keep the order they are given in.
        locks.sort_by_key(Lock::order);
        Self {
            locks,
            max_wait: Duration::from_secs(30),
        }
    }

    /// How long [`LockSet::acquire`] waits at most, for all of them together. Default: 30 s.
    pub fn max_wait(mut self, max_wait: Duration) -> Self {
        self.max_wait = max_wait;
        self
    }

    /// Takes all the locks, or none of them.
    ///
    /// # Cancel safety
    /// Dropping the future gives back, in the background, those that were taken already.
    pub async fn acquire(&self) -> Result<HeldSet, Error> {
        let Some(clock) = self.locks.first().map(Lock::clock) else {
            return Ok(HeldSet { guards: Vec::new() });
        };
        let deadline = later(clock.now(), self.max_wait);
        let mut guards = Vec::with_capacity(self.locks.len());
        for lock in &self.locks {
            let left = deadline.saturating_duration_since(clock.now());
            guards.push(lock.acquire_within(left).await?);
        }
        Ok(HeldSet { guards })
    }
}

/// Several locks that are held together.
#[must_use = "the locks are given back as soon as the set is dropped"]
#[derive(Debug)]
pub struct HeldSet {
    guards: Vec<Guard>,
}

impl HeldSet {
    /// The single guards, in the order in which they were taken.
    pub fn guards(&self) -> &[Guard] {
        &self.guards
    }

    /// Whether all of them are valid at this moment.
    pub fn is_valid(&self) -> bool {
        self.guards.iter().all(|guard| guard.is_valid())
    }

    /// The moment up to which all of them are valid; none for an empty set.
    pub fn valid_until(&self) -> Option<Instant> {
        self.guards.iter().map(|guard| guard.valid_until()).min()
    }

    /// Completes when the first of them is lost.
    ///
    /// # Cancel safety
    /// Dropping the future changes nothing.
    pub async fn lost(&self) -> Loss {
        if self.guards.is_empty() {
            std::future::pending::<()>().await;
        }
        select_all(self.guards.iter().map(|guard| Box::pin(guard.lost())))
            .await
            .0
    }

    /// Lengthens all of them.
    ///
    /// # Cancel safety
    /// As [`Lease::extend`](crate::Lease::extend).
    pub async fn extend(&self) -> Result<(), Error> {
        for guard in &self.guards {
            guard.extend().await?;
        }
        Ok(())
    }

    /// Gives all of them back, in the opposite order, and tells what was found.
    ///
    /// # Cancel safety
    /// Dropping the future leaves the rest to the background.
    pub async fn release(mut self) -> Result<Vec<Released>, Error> {
        let mut found = Vec::with_capacity(self.guards.len());
        while let Some(guard) = self.guards.pop() {
            found.push(guard.release().await?);
        }
        Ok(found)
    }
}
