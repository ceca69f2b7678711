//! Anything that can be held, with the options of holding it.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use crate::acquire::{self, Plan};
use crate::clock::Clock;
use crate::error::{Error, Loss};
use crate::guard::Guard;
use crate::lease::Lease;
use crate::manager::Manager;
use crate::name::Name;
use crate::resource::{Scripted, SharedResource};
use crate::scripts;
use crate::ttl::Ttl;
use crate::wait::Wait;
use crate::wakeup::Hub;
use crate::watchdog;

/// The longest label that is stored with a lock, in bytes; a longer one is cut.
pub const MAX_LABEL_LEN: usize = 256;

/// A lock that is not held yet, and how it is to be held.
///
/// It is a value: making one sends nothing, clones are independent, and any number of tasks may
/// use one at the same time; each acquisition is its own, with its own token and lease.
///
/// Waiters are served in the order in which they came; one whose process died loses its place
/// when its turn comes, without anyone waiting for it.
#[derive(Clone)]
#[must_use = "a lock is not held before it is acquired"]
pub struct Lock {
    resource: Result<SharedResource, Error>,
    hub: Option<Arc<Hub>>,
    clock: Clock,
    label: Vec<u8>,
    ttl: Duration,
    max_wait: Option<Duration>,
    wait: Wait,
    renew: bool,
    max_hold: Duration,
    replicas: Option<(u32, Duration)>,
}

impl Lock {
    pub(crate) fn new(
        resource: Result<SharedResource, Error>,
        hub: Option<Arc<Hub>>,
        clock: Clock,
        label: &str,
    ) -> Self {
        Self {
            resource,
            hub,
            clock,
            ttl: Duration::from_secs(10),
            max_wait: Some(Duration::from_secs(30)),
            wait: Wait::default(),
            renew: false,
            max_hold: watchdog::DEFAULT_MAX_HOLD,
            label: Vec::new(),
            replicas: None,
        }
        .label(label)
    }

    /// How long the lock stays with a holder that says nothing more. Milliseconds, rounded up;
    /// zero and more than [`MAX_TTL`](crate::MAX_TTL) are refused. Default: 10 s.
    pub fn ttl(mut self, ttl: Duration) -> Self {
        self.ttl = ttl;
        self
    }

    /// How long [`Lock::acquire`] waits at most. Default: 30 s.
    pub fn max_wait(mut self, max_wait: Duration) -> Self {
        self.max_wait = Some(max_wait);
        self
    }

    /// Lets [`Lock::acquire`] wait until the lock is free, however long that takes.
    pub fn wait_forever(mut self) -> Self {
        self.max_wait = None;
        self
    }

    /// How to wait. Default: [`Wait::notified`].
    pub fn wait(mut self, wait: Wait) -> Self {
        self.wait = wait;
        self
    }

    /// Whether the guard renews its lease by itself, at a third of the TTL, until it is released
    /// or has been held for [`max_hold`](Self::max_hold). Default: no.
    pub fn auto_renew(mut self, renew: bool) -> Self {
        self.renew = renew;
        self
    }

    /// The longest total hold of a lease that renews itself: a holder that hangs loses the lock
    /// then. Default: an hour.
    pub fn max_hold(mut self, max_hold: Duration) -> Self {
        self.max_hold = max_hold;
        self
    }

    /// What the holder is called by those who inspect the lock, up to [`MAX_LABEL_LEN`] bytes.
    /// Default: the manager's label.
    pub fn label(mut self, label: impl AsRef<[u8]>) -> Self {
        let label = label.as_ref();
        self.label = label[..label.len().min(MAX_LABEL_LEN)].to_vec();
        self
    }

    /// Counts the lock as held only when so many replicas of its server have acknowledged it
    /// within a time; otherwise it is given back, and the error is [`Error::TooFewReplicas`].
    /// Default: no replica is asked.
    ///
    /// It makes it rarer that a fail-over forgets the lock, and not impossible: replication stays
    /// asynchronous, a replica that has it not may be the one that is promoted, and one that has
    /// it loses it when its own memory is lost. So fencing tokens are needed as ever.
    ///
    /// The server answers `WAIT` on the connection that wrote, so the other requests of this
    /// manager wait meanwhile; give such locks a manager of their own. Extensions are not waited
    /// for, and neither a [`Redlock`](crate::Redlock) nor a connection that was handed over as a
    /// whole cluster's can be asked.
    pub fn replicated(mut self, replicas: u32, within: Duration) -> Self {
        self.replicas = (replicas > 0).then_some((replicas, within.max(Duration::from_millis(1))));
        self
    }

    /// Makes exactly one attempt; `None` when another holds the lock, or has a turn before this
    /// caller.
    ///
    /// # Cancel safety
    /// Dropping the future leaves nothing behind: what the server may have done is undone in the
    /// background.
    pub async fn try_acquire(&self) -> Result<Option<Guard>, Error> {
        acquire::try_once(&self.plan()?).await
    }

    /// Waits for the lock, at most for [`max_wait`](Self::max_wait).
    ///
    /// Lost connections and servers that are loading or failing over count as waiting; any
    /// other error of the server is returned at once.
    ///
    /// # Errors
    /// [`Error::TimedOut`] when the time is over; it carries the last error on the way, if any.
    ///
    /// # Cancel safety
    /// Dropping the future leaves nothing behind: lock, kept turn and place in the queue are
    /// given back in the background.
    pub async fn acquire(&self) -> Result<Guard, Error> {
        acquire::acquire(&self.plan()?, self.max_wait).await
    }

    /// As [`Lock::acquire`], with another limit. A limit of zero is exactly one attempt.
    ///
    /// # Cancel safety
    /// As [`Lock::acquire`].
    pub async fn acquire_within(&self, limit: Duration) -> Result<Guard, Error> {
        if limit.is_zero() {
            let timed_out = Error::TimedOut {
                waited: limit,
                attempts: 1,
                last: None,
            };
            return self.try_acquire().await?.ok_or(timed_out);
        }
        acquire::acquire(&self.plan()?, Some(limit)).await
    }

    /// Acquires the lock, runs the work under a lease that renews itself, and gives it back.
    ///
    /// When the lease is lost the work is dropped at its next await point, and the error says
    /// why. So work that must not be cut off in the middle belongs into a task of its own, which
    /// the closure hands its [`Lease`].
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = khoa_server::Server::start()?;
    /// # let manager = khoa::Manager::open(server.url())?;
    /// let sum = manager
    ///     .lock("ledger")
    ///     .run(|lease| async move {
    ///         assert!(lease.is_valid());
    ///         1 + 1
    ///     })
    ///     .await?;
    /// assert_eq!(sum, 2);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Those of [`Lock::acquire`], and [`Error::Lost`].
    ///
    /// # Cancel safety
    /// Dropping the future drops the work and gives the lock back in the background; so does a
    /// panic in the work.
    pub async fn run<F, W>(&self, work: F) -> Result<W::Output, Error>
    where
        F: FnOnce(Lease) -> W,
        W: Future,
    {
        let guard = self.clone().auto_renew(true).acquire().await?;
        let output = tokio::select! {
            biased;
            output = work(guard.lease()) => Ok(output),
            reason = guard.lost() => Err(reason),
        };
        self.conclude(guard, output).await
    }

    async fn conclude<T>(&self, guard: Guard, output: Result<T, Loss>) -> Result<T, Error> {
        match output {
            Ok(output) => {
                // A process that was paused may finish its work before it notices the loss.
                guard.check()?;
                // The work is done, and was under the lease while it ran: an answer that is
                // late now must not turn it into a failure.
                if let Err(error) = guard.release().await {
                    tracing::warn!(%error, "release was not confirmed");
                }
                Ok(output)
            }
            Err(reason) => Err(Error::Lost { reason }),
        }
    }

    pub(crate) fn clock(&self) -> &Clock {
        &self.clock
    }

    /// What sets of locks are sorted by.
    pub(crate) fn order(&self) -> Vec<u8> {
        self.resource
            .as_ref()
            .map(|r| r.name().key().to_vec())
            .unwrap_or_default()
    }

    fn plan(&self) -> Result<Plan, Error> {
        self.plan_for(self.resource.clone()?)
    }

    /// This lock's options over another resource.
    pub(crate) fn plan_for(&self, resource: SharedResource) -> Result<Plan, Error> {
        Ok(Plan {
            resource,
            hub: self.hub.clone(),
            clock: self.clock.clone(),
            ttl: Ttl::new(self.ttl)?,
            label: self.label.clone(),
            wait: self.wait.clone(),
            renew_up_to: self.renew.then_some(self.max_hold),
            replicas: self.replicas,
        })
    }
}

impl Manager {
    /// A lock of this name, with default options. Nothing is sent yet.
    ///
    /// Names may be any bytes; a lock's helper keys always share its slot in a cluster.
    pub fn lock(&self, name: impl AsRef<[u8]>) -> Lock {
        self.hold(self.name(name).map(|name| self.plain(name)))
    }

    pub(crate) fn plain(&self, name: Name) -> Scripted {
        let (key, queue) = (name.key().to_vec(), name.helper("queue"));
        Scripted {
            acquire_keys: vec![key.clone(), name.helper("fence"), queue.clone()],
            extend_keys: vec![key.clone()],
            release_keys: vec![key, queue, name.helper("fence")],
            ..self.scripted(name, &scripts::LOCK)
        }
    }
}

impl fmt::Debug for Lock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Lock")
            .field("resource", &self.resource)
            .field("ttl", &self.ttl)
            .field("wait", &self.wait)
            .finish_non_exhaustive()
    }
}
