//! The library for code without `async`: calls that block, on a runtime that the manager keeps.
//!
//! ```
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let server = khoa_server::Server::start()?;
//! # let url = server.url();
//! let manager = khoa::blocking::Manager::open(url)?;
//! let guard = manager.lock("nightly-report").acquire()?;
//! println!("held for {:?} more", guard.remaining());
//! guard.release()?;
//! # Ok(())
//! # }
//! ```

use std::future::Future;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use redis::IntoConnectionInfo;
use tokio::runtime::{Builder, Handle, Runtime};

use crate::error::Error;
use crate::guard::Released;
use crate::lease::Lease;

/// A manager whose locks block. Clones share its runtime, which ends with the last of them and
/// of their guards.
#[derive(Clone, Debug)]
pub struct Manager {
    manager: crate::Manager,
    engine: Engine,
}

/// The runtime, with one thread of its own, on which renewals and clean-up go on.
#[derive(Clone, Debug)]
struct Engine(Arc<Runtime>);

impl Engine {
    fn start() -> Result<Self, Error> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(1)
            .thread_name("khoa")
            .enable_all()
            .build();
        let runtime = runtime.map_err(|e| Error::backend(0)(e.into()))?;
        Ok(Self(Arc::new(runtime)))
    }

    fn wait<T>(&self, work: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
        if Handle::try_current().is_ok() {
            return Err(Error::Unsupported {
                what: "block a thread of an async runtime",
            });
        }
        self.0.block_on(work)
    }
}

impl Manager {
    /// A manager for the server at a URL, with default settings. It does not connect yet.
    pub fn open(url: impl IntoConnectionInfo) -> Result<Self, Error> {
        Self::new(crate::Manager::open(url)?)
    }

    /// A blocking manager with the settings of another.
    pub fn new(manager: crate::Manager) -> Result<Self, Error> {
        Ok(Self {
            manager,
            engine: Engine::start()?,
        })
    }

    /// A lock of this name, with default options.
    pub fn lock(&self, name: impl AsRef<[u8]>) -> Lock {
        self.hold(|manager| manager.lock(name))
    }

    /// Anything that can be held, with any options:
    /// `manager.hold(|m| m.semaphore("workers", 3).ttl(ttl))`.
    pub fn hold(&self, make: impl FnOnce(&crate::Manager) -> crate::Lock) -> Lock {
        Lock {
            lock: make(&self.manager),
            engine: self.engine.clone(),
        }
    }

    /// Runs any other part of the library to its end:
    /// `manager.wait(|m| async move { m.inspect("orders").await })`.
    ///
    /// # Errors
    /// [`Error::Unsupported`] on a thread of an async runtime, which must not be blocked.
    pub fn wait<T, W>(&self, work: impl FnOnce(crate::Manager) -> W) -> Result<T, Error>
    where
        W: Future<Output = Result<T, Error>>,
    {
        self.engine.wait(async { work(self.manager.clone()).await })
    }
}

/// A lock that is not held yet; see [`crate::Lock`].
#[derive(Clone, Debug)]
#[must_use = "a lock is not held before it is acquired"]
pub struct Lock {
    lock: crate::Lock,
    engine: Engine,
}

impl Lock {
    /// Makes exactly one attempt; `None` when another holds it.
    pub fn try_acquire(&self) -> Result<Option<Guard>, Error> {
        let guard = self.engine.wait(self.lock.try_acquire())?;
        Ok(guard.map(|guard| self.guard(guard)))
    }

    /// Waits for it, at most for its [`max_wait`](crate::Lock::max_wait).
    pub fn acquire(&self) -> Result<Guard, Error> {
        Ok(self.guard(self.engine.wait(self.lock.acquire())?))
    }

    /// Waits for it, at most for this long.
    pub fn acquire_within(&self, limit: Duration) -> Result<Guard, Error> {
        Ok(self.guard(self.engine.wait(self.lock.acquire_within(limit))?))
    }

    /// Acquires it, runs the work under a lease that renews itself, and gives it back. Blocking
    /// work cannot be interrupted: it must look at [`Lease::check`] by itself, and its result is
    /// [`Error::Lost`] when the lease was lost meanwhile.
    pub fn run<T>(&self, work: impl FnOnce(&Lease) -> T) -> Result<T, Error> {
        let lock = Self {
            lock: self.lock.clone().auto_renew(true),
            engine: self.engine.clone(),
        };
        let guard = lock.acquire()?;
        let output = work(&guard);
        guard.check()?;
        guard.release()?;
        Ok(output)
    }

    fn guard(&self, guard: crate::Guard) -> Guard {
        Guard {
            guard,
            engine: self.engine.clone(),
        }
    }
}

/// A held lock; see [`crate::Guard`]. Dropping it never blocks.
#[must_use = "the lock is given back as soon as the guard is dropped"]
#[derive(Debug)]
pub struct Guard {
    // Before the engine, which must outlive the clean-up that this one's drop begins.
    guard: crate::Guard,
    engine: Engine,
}

impl Guard {
    /// Makes the lease last at least its TTL from now.
    pub fn extend(&self) -> Result<(), Error> {
        self.engine.wait(self.guard.extend())
    }

    /// Gives the lock back, and tells what was found.
    pub fn release(self) -> Result<Released, Error> {
        self.engine.wait(self.guard.release())
    }
}

impl Deref for Guard {
    type Target = Lease;

    fn deref(&self) -> &Lease {
        &self.guard
    }
}
