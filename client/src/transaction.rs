//! Optimistic transactions: read, decide, write, and do it again when another was faster.

use std::future::Future;
use std::time::Duration;

use redis::aio::{ConnectionLike, MultiplexedConnection};
use redis::{FromRedisValue, Pipeline, RedisResult, ToRedisArgs};

use crate::error::Error;
use crate::manager::Manager;
use crate::wait::Wait;

/// A transaction that is committed only if none of its watched keys changed meanwhile.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = khoa_server::Server::start()?;
/// # let manager = khoa::Manager::open(server.url())?;
/// use khoa::redis::{self, AsyncCommands};
///
/// let done: khoa::Committed<Vec<String>> = manager
///     .transaction(&["counter"])
///     .run(|mut connection| async move {
///         let count: i64 = connection.get::<_, Option<i64>>("counter").await?.unwrap_or(0);
///         let mut writes = redis::pipe();
///         writes.set("counter", count + 1);
///         Ok(writes)
///     })
///     .await?;
/// println!("{} conflicts on the way to {:?}", done.conflicts, done.reply);
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
#[must_use = "a transaction does nothing before it is run"]
pub struct Transaction {
    manager: Manager,
    watch: redis::Cmd,
    /// One of the watched keys, by which the server is found where there are several.
    key: Vec<u8>,
    wait: Wait,
    limit: Duration,
}

/// A committed transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Committed<T> {
    /// The replies of the writes.
    pub reply: T,
    /// How often another was faster, and everything was read again.
    pub conflicts: u32,
}

impl Manager {
    /// A transaction that watches these keys, which are used as they are, without prefix.
    ///
    /// In a cluster all keys that it reads and writes must share a slot, and the manager must be
    /// able to open [a connection of its own](crate::ManagerBuilder::dedicated).
    pub fn transaction<K: ToRedisArgs>(&self, keys: &[K]) -> Transaction {
        let mut watch = redis::cmd("WATCH");
        watch.arg(keys);
        let key = keys.first().map(ToRedisArgs::to_redis_args);
        let wait = Wait::exponential(Duration::from_millis(1), Duration::from_millis(100));
        Transaction {
            manager: self.clone(),
            watch,
            key: key.unwrap_or_default().concat(),
            wait,
            limit: Duration::from_secs(10),
        }
    }
}

impl Transaction {
    /// How to wait between conflicts, and how many attempts to make at most. Default:
    /// exponential with full jitter from 1 ms to 100 ms, without a limit but that of time.
    pub fn wait(mut self, wait: Wait) -> Self {
        self.wait = wait;
        self
    }

    /// How long to go on at most. Default: 10 s.
    pub fn within(mut self, limit: Duration) -> Self {
        self.limit = limit;
        self
    }

    /// Reads and decides with `attempt`, on a connection of its own, until the pipeline that it
    /// returns is committed. It may run many times, so it must have no other effects.
    ///
    /// # Errors
    /// [`Error::TimedOut`] when others were always faster; an error of the server, of `attempt`
    /// or of one of the writes.
    ///
    /// # Cancel safety
    /// Dropping the future either commits everything or nothing, and says not which.
    pub async fn run<T, F, W>(self, mut attempt: F) -> Result<Committed<T>, Error>
    where
        T: FromRedisValue,
        F: FnMut(MultiplexedConnection) -> W,
        W: Future<Output = RedisResult<Pipeline>>,
    {
        let node = self.manager.node();
        let clock = node.clock();
        let started = clock.now();
        let deadline = crate::clock::later(started, self.limit);
        let (mut conflicts, mut last) = (0, None);
        let work = async {
            let mut connection = self.connect().await?;
            loop {
                let committed = once(&mut connection, &self.watch, &mut attempt).await;
                match committed {
                    Ok(Some(reply)) => return Ok(Some(reply)),
                    Ok(None) => {}
                    Err(error) => {
                        let has_moved = error.redirect_node().is_some();
                        let error = Error::backend(node.index())(error);
                        if !has_moved {
                            return Err(error);
                        }
                        last = Some(Box::new(error));
                        connection = self.connect().await?;
                    }
                }
                conflicts += 1;
                if !self.wait.allows(conflicts) {
                    return Ok(None);
                }
                clock.sleep(self.wait.pause(conflicts)).await;
            }
        };
        match clock.before(deadline, work).await.unwrap_or(Ok(None))? {
            Some(reply) => Ok(Committed { reply, conflicts }),
            None => Err(Error::TimedOut {
                waited: clock.now().saturating_duration_since(started),
                attempts: conflicts,
                last,
            }),
        }
    }

    /// A connection to the server of the keys that nobody else uses.
    async fn connect(&self) -> Result<MultiplexedConnection, Error> {
        let node = self.manager.node();
        let Some(dialing) = node.link().dedicated(&self.key) else {
            return Err(Error::Unsupported { what: "watch keys" });
        };
        dialing.await.map_err(Error::backend(node.index()))
    }
}

/// One round; `None` when a watched key changed before the commit.
async fn once<T, F, W>(
    connection: &mut MultiplexedConnection,
    watch: &redis::Cmd,
    attempt: &mut F,
) -> RedisResult<Option<T>>
where
    T: FromRedisValue,
    F: FnMut(MultiplexedConnection) -> W,
    W: Future<Output = RedisResult<Pipeline>>,
{
    connection
        .req_packed_command(watch)
        .await?
        .extract_error()?;
    let mut writes = attempt(connection.clone()).await?;
    writes.atomic().query_async(connection).await
}
