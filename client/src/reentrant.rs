//! A lock that its owner may take again while it holds it; the owner is a handle, not a thread.

use std::ops::Deref;
use std::sync::{Arc, Weak};

use tokio::sync::Mutex;

use crate::error::Error;
use crate::guard::{Guard, Released};
use crate::lease::Lease;
use crate::lock::Lock;

/// An owner of a lock. Clones are the same owner, in whatever task or thread they are; a second
/// [`Lock::reentrant`] is another.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = khoa_server::Server::start()?;
/// # let manager = khoa::Manager::open(server.url())?;
/// let owner = manager.lock("tree").reentrant();
/// let outer = owner.acquire().await?;
/// let inner = owner.clone().acquire().await?; // at once: the owner holds it already
/// assert_eq!(outer.fencing_token(), inner.fencing_token());
/// inner.release().await?; // still held
/// outer.release().await?; // free now
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use = "a lock is not held before it is acquired"]
pub struct ReentrantLock {
    lock: Lock,
    held: Arc<Mutex<Weak<Guard>>>,
}

impl Lock {
    /// A new owner that may take this lock again while it holds it.
    pub fn reentrant(&self) -> ReentrantLock {
        ReentrantLock {
            lock: self.clone(),
            held: Arc::default(),
        }
    }
}

impl ReentrantLock {
    /// Joins what the owner holds, or waits for the lock as [`Lock::acquire`] does.
    ///
    /// # Errors
    /// [`Error::Lost`] when the owner holds a lease that is over: the work around this call is
    /// no longer protected, and a new lease would hide that. Else those of [`Lock::acquire`].
    ///
    /// # Cancel safety
    /// As [`Lock::acquire`]; what the owner holds already stays held.
    pub async fn acquire(&self) -> Result<ReentrantGuard, Error> {
        let mut held = self.held.lock().await;
        if let Some(guard) = held.upgrade() {
            guard.check()?;
            return Ok(ReentrantGuard(guard));
        }
        let guard = Arc::new(self.lock.acquire().await?);
        *held = Arc::downgrade(&guard);
        Ok(ReentrantGuard(guard))
    }

    /// As [`ReentrantLock::acquire`], with exactly one attempt.
    ///
    /// # Cancel safety
    /// As [`ReentrantLock::acquire`].
    pub async fn try_acquire(&self) -> Result<Option<ReentrantGuard>, Error> {
        let Ok(mut held) = self.held.try_lock() else {
            return Ok(None);
        };
        if let Some(guard) = held.upgrade() {
            guard.check()?;
            return Ok(Some(ReentrantGuard(guard)));
        }
        let Some(guard) = self.lock.try_acquire().await? else {
            return Ok(None);
        };
        let guard = Arc::new(guard);
        *held = Arc::downgrade(&guard);
        Ok(Some(ReentrantGuard(guard)))
    }

    /// How often the owner holds it at this moment.
    pub async fn depth(&self) -> usize {
        self.held.lock().await.strong_count()
    }
}

/// One of the holds of an owner; the lock is free when the last one ends.
#[must_use = "the hold ends as soon as the guard is dropped"]
#[derive(Debug)]
pub struct ReentrantGuard(Arc<Guard>);

impl ReentrantGuard {
    /// Ends this hold. When it was the owner's last one the lock is released, and the result
    /// says what was found; otherwise it is `None`.
    ///
    /// # Cancel safety
    /// As [`Guard::release`].
    pub async fn release(self) -> Result<Option<Released>, Error> {
        match Arc::into_inner(self.0) {
            Some(guard) => guard.release().await.map(Some),
            None => Ok(None),
        }
    }
}

impl Deref for ReentrantGuard {
    type Target = Lease;

    fn deref(&self) -> &Lease {
        &self.0
    }
}
