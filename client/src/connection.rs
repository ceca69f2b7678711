//! One server as the library sees it: it takes a command within a deadline, reconnects, and may listen.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use futures_util::{Stream, StreamExt};
use redis::aio::{ConnectionLike, MultiplexedConnection, PubSub, PubSubSink};
use redis::{AsyncConnectionConfig, Client, Cmd, RedisConnectionInfo, RedisResult, Value};
use tokio::io::{AsyncRead, AsyncWrite};

use crate::clock::{Clock, later};
use crate::error::Error;
use crate::scripts::Script;

pub(crate) type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;
pub(crate) type Messages = Pin<Box<dyn Stream<Item = Vec<u8>> + Send>>;

/// What a connection kind must offer; everything else is built on it.
pub(crate) trait Link: Send + Sync {
    fn request<'a>(&'a self, command: &'a Cmd) -> BoxFuture<'a, RedisResult<Value>>;

    /// Forgets a connection that went silent, so that the next request opens another.
    fn reset(&self) {}

    /// Messages on a channel, from a connection of their own; `None` when the kind has none.
    fn listen(&self, _channel: String) -> Option<BoxFuture<'_, RedisResult<Messages>>> {
        None
    }

    /// A connection nobody else uses, for what holds state on it; `None` when the kind has none.
    fn dedicated(&self) -> Option<BoxFuture<'_, RedisResult<MultiplexedConnection>>> {
        None
    }
}

/// A server, the clock by which it is given up on, and how long that takes.
#[derive(Clone)]
pub(crate) struct Node {
    link: Arc<dyn Link>,
    index: usize,
    clock: Clock,
    timeout: Duration,
}

impl Node {
    pub(crate) fn new(link: Arc<dyn Link>, index: usize, clock: Clock, timeout: Duration) -> Self {
        Self {
            link,
            index,
            clock,
            timeout,
        }
    }

    pub(crate) fn clock(&self) -> &Clock {
        &self.clock
    }

    pub(crate) fn link(&self) -> &Arc<dyn Link> {
        &self.link
    }

    pub(crate) fn index(&self) -> usize {
        self.index
    }

    /// The moment at which a request sent now is given up, at the latest at `deadline`.
    pub(crate) fn limit(&self, deadline: Option<Instant>) -> Instant {
        let limit = later(self.clock.now(), self.timeout);
        deadline.map_or(limit, |deadline| deadline.min(limit))
    }

    /// Sends a command once.
    pub(crate) async fn send(&self, cmd: &Cmd, deadline: Option<Instant>) -> Result<Value, Error> {
        let started = self.clock.now();
        let answer = self
            .clock
            .before(self.limit(deadline), self.link.request(cmd))
            .await;
        let Some(answer) = answer else {
            self.link.reset();
            let after = self.clock.now().saturating_duration_since(started);
            return Err(Error::Unanswered {
                node: self.index,
                after,
            });
        };
        answer.map_err(Error::backend(self.index))
    }

    /// Runs a script by its digest, and by its text when the server does not know the digest.
    ///
    /// A script may be sent twice when its connection broke under it, so it must do the same
    /// thing when it runs again; those that name a token do.
    pub(crate) async fn run(
        &self,
        script: &Script,
        keys: &[Vec<u8>],
        args: &[&[u8]],
        deadline: Option<Instant>,
    ) -> Result<Value, Error> {
        let first = self.run_once(script, keys, args, deadline).await;
        match first {
            Err(Error::Backend { source, .. }) if source.is_connection_dropped() => {
                self.run_once(script, keys, args, deadline).await
            }
            answer => answer,
        }
    }

    /// As [`Node::run`], for scripts that must not run twice.
    pub(crate) async fn run_once(
        &self,
        script: &Script,
        keys: &[Vec<u8>],
        args: &[&[u8]],
        deadline: Option<Instant>,
    ) -> Result<Value, Error> {
        match self.send(&script.by_digest(keys, args), deadline).await {
            Err(Error::Backend { source, .. }) if source.code() == Some("NOSCRIPT") => {
                self.send(&script.by_text(keys, args), deadline).await
            }
            answer => answer,
        }
    }

    /// The reply as a Rust value; a reply of another shape is the server's error.
    pub(crate) fn read<T: redis::FromRedisValue>(&self, value: Value) -> Result<T, Error> {
        redis::from_redis_value(value).map_err(|e| Error::backend(self.index)(e.into()))
    }

    /// Sends a command and reads its reply.
    pub(crate) async fn query<T: redis::FromRedisValue>(
        &self,
        cmd: &Cmd,
        deadline: Option<Instant>,
    ) -> Result<T, Error> {
        self.read(self.send(cmd, deadline).await?)
    }
}

impl fmt::Debug for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Node({})", self.index)
    }
}

/// Where connections come from.
pub(crate) enum Source {
    Client(Client),
    /// Anything that can be read and written, made anew for each connection.
    Streams(Box<dyn Fn() -> BoxedStream + Send + Sync>),
}

pub(crate) type BoxedStream = Pin<Box<dyn ByteStream>>;

/// Both directions of a connection.
pub(crate) trait ByteStream: AsyncRead + AsyncWrite + Send {}
impl<S: AsyncRead + AsyncWrite + Send> ByteStream for S {}

impl Source {
    async fn dial(&self) -> RedisResult<MultiplexedConnection> {
        // The library has one clock for its deadlines; a second timer below it would only blur them.
        let config = AsyncConnectionConfig::new()
            .set_response_timeout(None)
            .set_connection_timeout(None);
        match self {
            Self::Client(client) => {
                client
                    .get_multiplexed_async_connection_with_config(&config)
                    .await
            }
            Self::Streams(open) => {
                let info = RedisConnectionInfo::default();
                let (connection, driver) =
                    MultiplexedConnection::new_with_config(&info, open(), config).await?;
                tokio::spawn(driver);
                Ok(connection)
            }
        }
    }

    async fn pubsub(&self) -> RedisResult<PubSub> {
        match self {
            Self::Client(client) => client.get_async_pubsub().await,
            Self::Streams(open) => PubSub::new(&RedisConnectionInfo::default(), open()).await,
        }
    }
}

/// Connections that come from a [`Source`] and are replaced when they break.
pub(crate) struct ClientLink {
    source: Source,
    current: Mutex<Current>,
    dialing: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct Current {
    connection: Option<MultiplexedConnection>,
    generation: u64,
}

impl ClientLink {
    pub(crate) fn new(source: Source) -> Self {
        Self {
            source,
            current: Mutex::default(),
            dialing: tokio::sync::Mutex::new(()),
        }
    }

    fn current(&self) -> std::sync::MutexGuard<'_, Current> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn established(&self) -> (Option<MultiplexedConnection>, u64) {
        let current = self.current();
        (current.connection.clone(), current.generation)
    }

    /// The live connection, or a new one; callers who come meanwhile wait for the same one.
    async fn connection(&self) -> RedisResult<(MultiplexedConnection, u64)> {
        if let (Some(connection), generation) = self.established() {
            return Ok((connection, generation));
        }
        let _dialing = self.dialing.lock().await;
        if let (Some(connection), generation) = self.established() {
            return Ok((connection, generation));
        }
        let connection = self.source.dial().await?;
        let mut current = self.current();
        current.generation += 1;
        current.connection = Some(connection.clone());
        Ok((connection, current.generation))
    }

    fn forget(&self, generation: u64) {
        let mut current = self.current();
        if current.generation == generation {
            current.connection = None;
        }
    }
}

impl Link for ClientLink {
    fn request<'a>(&'a self, command: &'a Cmd) -> BoxFuture<'a, RedisResult<Value>> {
        Box::pin(async move {
            let (mut connection, generation) = self.connection().await?;
            let answer = connection.req_packed_command(command).await;
            if answer
                .as_ref()
                .is_err_and(redis::RedisError::is_unrecoverable_error)
            {
                self.forget(generation);
            }
            answer.and_then(Value::extract_error)
        })
    }

    fn reset(&self) {
        self.current().connection = None;
    }

    fn listen(&self, channel: String) -> Option<BoxFuture<'_, RedisResult<Messages>>> {
        Some(Box::pin(async move {
            let (mut sink, stream) = self.source.pubsub().await?.split();
            sink.subscribe(channel).await?;
            Ok(messages(sink, stream))
        }))
    }

    fn dedicated(&self) -> Option<BoxFuture<'_, RedisResult<MultiplexedConnection>>> {
        Some(Box::pin(self.source.dial()))
    }
}

/// The payloads of a subscription; the sink goes along because its end would end the connection.
fn messages(sink: PubSubSink, stream: redis::aio::PubSubStream) -> Messages {
    Box::pin(futures_util::stream::unfold(
        (sink, stream),
        |(sink, mut stream)| async move {
            let message = stream.next().await?;
            Some((message.get_payload_bytes().to_vec(), (sink, stream)))
        },
    ))
}

/// A connection that somebody else made and keeps alive.
pub(crate) struct SharedLink<C>(pub(crate) C);

impl<C: ConnectionLike + Clone + Send + Sync> Link for SharedLink<C> {
    fn request<'a>(&'a self, command: &'a Cmd) -> BoxFuture<'a, RedisResult<Value>> {
        let mut connection = self.0.clone();
        Box::pin(async move {
            connection
                .req_packed_command(command)
                .await
                .and_then(Value::extract_error)
        })
    }
}
