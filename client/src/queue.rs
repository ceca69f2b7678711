//! A work queue that loses no job when its worker dies: taken for a time, done only when said so.

use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use crate::acquire;
use crate::error::Error;
use crate::guard::{Guard, Released};
use crate::lease::Lease;
use crate::lock::Lock;
use crate::manager::Manager;
use crate::name::Name;
use crate::resource::{Scripted, millis};
use crate::scripts::{self, Script};
use crate::token::Token;

/// The largest payload of a job, in bytes: a queue carries work, not files.
pub const MAX_JOB_LEN: usize = 16 * 1024 * 1024;

/// A queue under a name: **at least once**, in the order of pushing as long as nothing fails.
///
/// A worker has a job for a time. When it says that the job is done the job is gone; when it
/// dies, or its time passes, another worker gets the job. So a job may run twice, and its effect
/// must be safe to repeat, or be guarded by its [`Lease::fencing_token`].
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = khoa_server::Server::start()?;
/// # let manager = khoa::Manager::open(server.url())?;
/// use std::time::Duration;
///
/// let queue = manager.queue("thumbnails")?;
/// queue.push("picture-17.png").await?;
///
/// let job = queue.take_within(Duration::from_secs(5)).await?;
/// println!("{} bytes of work, try {}", job.payload().len(), job.attempt());
/// job.done().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct Queue {
    manager: Manager,
    name: Name,
    lock: Lock,
    max_tries: u32,
    max_jobs: u64,
}

/// How many jobs a queue has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct QueueStatus {
    /// Jobs that wait for a worker.
    pub ready: u64,
    /// Jobs that workers have, those whose time has passed unnoticed and those put off included.
    pub taken: u64,
    /// Jobs that were tried too often.
    pub dead: u64,
}

impl Manager {
    /// The queue of this name.
    pub fn queue(&self, name: impl AsRef<[u8]>) -> Result<Queue, Error> {
        let name = self.name(name)?;
        let lock = self.lock(b"-").ttl(Duration::from_secs(30));
        Ok(Queue {
            manager: self.clone(),
            name,
            lock,
            max_tries: 10,
            max_jobs: 1_000_000,
        })
    }
}

impl Queue {
    /// How long a worker has a job before another gets it. Default: 30 s.
    #[must_use]
    pub fn visibility(mut self, visibility: Duration) -> Self {
        self.lock = self.lock.ttl(visibility);
        self
    }

    /// Whether a job in hand is renewed by itself, for jobs of unknown length. A worker that
    /// hangs keeps its job then, up to an hour. Default: no.
    #[must_use]
    pub fn auto_renew(mut self, renew: bool) -> Self {
        self.lock = self.lock.auto_renew(renew);
        self
    }

    /// How often a job is tried before it is set aside as dead. Default: 10.
    #[must_use]
    pub fn max_tries(mut self, tries: u32) -> Self {
        self.max_tries = tries.max(1);
        self
    }

    /// How many jobs the queue may have; a push beyond that is refused. Default: a million.
    #[must_use]
    pub fn max_jobs(mut self, jobs: u64) -> Self {
        self.max_jobs = jobs;
        self
    }

    /// Adds a job and returns its id. Lost connections do not double it.
    ///
    /// # Errors
    /// [`Error::InvalidOption`] when the payload is too large or the queue is full.
    ///
    /// # Cancel safety
    /// When the future is dropped the job may have been added.
    pub async fn push(&self, payload: impl AsRef<[u8]>) -> Result<String, Error> {
        let id = Token::random()?.to_string();
        self.push_as(&id, payload).await?;
        Ok(id)
    }

    /// Adds a job under an id of the caller's, unless one of that id is there; whether it was
    /// added. So a job that was perhaps pushed can be pushed again.
    ///
    /// # Errors
    /// As [`Queue::push`].
    ///
    /// # Cancel safety
    /// As [`Queue::push`].
    pub async fn push_as(&self, id: &str, payload: impl AsRef<[u8]>) -> Result<bool, Error> {
        let payload = payload.as_ref();
        if payload.len() > MAX_JOB_LEN {
            return Err(Error::InvalidOption {
                reason: "the job's payload is too large",
            });
        }
        let most = self.max_jobs.to_string();
        match self
            .call(
                &scripts::QUEUE_PUSH,
                &[id.as_bytes(), payload, most.as_bytes()],
            )
            .await?
        {
            -1 => Err(Error::InvalidOption {
                reason: "the queue is full",
            }),
            added => Ok(added == 1),
        }
    }

    /// Takes a job if one is ready.
    ///
    /// # Cancel safety
    /// Dropping the future gives a job that was taken back in the background.
    pub async fn try_take(&self) -> Result<Option<Job>, Error> {
        let resource = Arc::new(self.resource());
        let plan = self.lock.plan_for(Arc::clone(&resource) as _)?;
        match acquire::try_once(&plan).await? {
            Some(guard) => self.job(guard, &resource).map(Some),
            None => Ok(None),
        }
    }

    /// Waits for a job.
    ///
    /// # Errors
    /// [`Error::TimedOut`] when none came in time.
    ///
    /// # Cancel safety
    /// As [`Queue::try_take`].
    pub async fn take_within(&self, limit: Duration) -> Result<Job, Error> {
        let resource = Arc::new(self.resource());
        let plan = self.lock.plan_for(Arc::clone(&resource) as _)?;
        let guard = acquire::acquire(&plan, Some(limit)).await?;
        self.job(guard, &resource)
    }

    /// How many jobs there are.
    ///
    /// # Cancel safety
    /// Only reads.
    pub async fn status(&self) -> Result<QueueStatus, Error> {
        Ok(self.count(b"0").await?.0)
    }

    /// Lets up to a thousand dead jobs be tried again, from their first try; how many there were.
    ///
    /// # Cancel safety
    /// When the future is dropped they may have been revived.
    pub async fn revive_dead(&self) -> Result<u64, Error> {
        Ok(self.count(b"1").await?.1)
    }

    async fn count(&self, revive: &[u8]) -> Result<(QueueStatus, u64), Error> {
        let node = self.manager.node();
        let reply = node
            .run(&scripts::QUEUE_STATUS, &self.keys(), &[revive], None)
            .await?;
        let (ready, taken, dead, revived) = node.read(reply)?;
        Ok((QueueStatus { ready, taken, dead }, revived))
    }

    fn job(&self, guard: Guard, resource: &Scripted) -> Result<Job, Error> {
        let node = self.manager.node();
        let mut more = resource.take_more().into_iter();
        let mut next = || more.next().unwrap_or(redis::Value::Nil);
        let (id, payload, attempt) = (node.read(next())?, node.read(next())?, node.read(next())?);
        Ok(Job {
            guard,
            queue: self.clone(),
            id,
            payload,
            attempt,
        })
    }

    async fn call(&self, script: &Script, args: &[&[u8]]) -> Result<i64, Error> {
        let node = self.manager.node();
        node.read(node.run(script, &self.keys(), args, None).await?)
    }

    fn resource(&self) -> Scripted {
        let tries = self.max_tries.to_string().into_bytes();
        Scripted {
            acquire_keys: self.keys(),
            extend_keys: self.keys(),
            release_keys: self.keys(),
            acquire_extra: vec![tries.clone()],
            release_extra: vec![tries],
            ..self.manager.scripted(self.name.clone(), &scripts::QUEUE)
        }
    }

    fn keys(&self) -> Vec<Vec<u8>> {
        [
            "ready", "jobs", "taken", "holders", "tries", "dead", "waiters", "fence",
        ]
        .map(|suffix| self.name.helper(&format!("q-{suffix}")))
        .to_vec()
    }
}

/// A job in a worker's hands, for a time that it can see and extend.
///
/// Dropping it gives the job back undone, in the background, for another worker to take.
#[must_use = "the job is given back undone as soon as it is dropped"]
#[derive(Debug)]
pub struct Job {
    guard: Guard,
    queue: Queue,
    id: String,
    payload: Vec<u8>,
    attempt: u32,
}

impl Job {
    /// The job's id.
    pub fn id(&self) -> &str {
        &self.id
    }

    /// What was pushed.
    pub fn payload(&self) -> &[u8] {
        &self.payload
    }

    /// Which try this is, counted from one.
    pub fn attempt(&self) -> u32 {
        self.attempt
    }

    /// Ends the job for good.
    ///
    /// # Errors
    /// [`Error::Lost`] when its time had passed: another worker has it or had it, too.
    ///
    /// # Cancel safety
    /// When the future is dropped the job is either done or given back.
    pub async fn done(self) -> Result<(), Error> {
        self.finish(String::new()).await
    }

    /// Gives the job back to be tried again, not before a time has passed.
    ///
    /// # Errors
    /// As [`Job::done`].
    ///
    /// # Cancel safety
    /// When the future is dropped the job is given back, put off or not.
    pub async fn retry_after(self, delay: Duration) -> Result<(), Error> {
        self.finish(millis(delay)).await
    }

    /// Gives the job back to be tried again at once.
    ///
    /// # Cancel safety
    /// As [`Guard::release`].
    pub async fn give_back(self) -> Result<Released, Error> {
        self.guard.release().await
    }

    async fn finish(self, put_off: String) -> Result<(), Error> {
        let args = [self.guard.token().as_str().as_bytes(), put_off.as_bytes()];
        let ended = self.queue.call(&scripts::QUEUE_DONE, &args).await?;
        self.guard.leave();
        if ended == 1 {
            Ok(())
        } else {
            Err(Error::Lost {
                reason: crate::Loss::Gone,
            })
        }
    }
}

impl Deref for Job {
    type Target = Lease;

    fn deref(&self) -> &Lease {
        &self.guard
    }
}
