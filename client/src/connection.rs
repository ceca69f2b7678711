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
use tokio::sync::watch;

use crate::clock::{Clock, later};
use crate::error::Error;
use crate::scripts::Script;

pub(crate) type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;
pub(crate) type Messages = Pin<Box<dyn Stream<Item = Vec<u8>> + Send>>;

/// One of several servers that hold keys of their own, by the first slot that it serves.
pub(crate) type Shard = u16;

/// What a connection kind must offer; everything else is built on it.
pub(crate) trait Link: Send + Sync {
    fn request<'a>(&'a self, command: &'a Cmd) -> BoxFuture<'a, RedisResult<Value>>;

    /// As [`Link::request`], for a command that is about a key without naming it.
    fn request_at<'a>(
        &'a self,
        _key: &'a [u8],
        command: &'a Cmd,
    ) -> BoxFuture<'a, RedisResult<Value>> {
        self.request(command)
    }

    /// The servers that hold keys of their own, where there is more than one.
    fn servers(&self) -> BoxFuture<'_, RedisResult<Vec<Option<Shard>>>> {
        Box::pin(std::future::ready(Ok(vec![None])))
    }

    /// As [`Link::request`], on one of those [servers](Link::servers).
    fn request_on<'a>(
        &'a self,
        _server: Option<Shard>,
        command: &'a Cmd,
    ) -> BoxFuture<'a, RedisResult<Value>> {
        self.request(command)
    }

    /// Whether those who are to be woken about a key must listen on the key's own server.
    fn is_sharded(&self) -> bool {
        false
    }

    /// Forgets a connection that went silent, so that the next request opens another.
    fn reset(&self) {}

    /// Messages on a channel, a sharded one or one that reaches everybody; `None` when the kind
    /// of connection has none. It ends when some may have been missed.
    fn listen(
        &self,
        _channel: Vec<u8>,
        _sharded: bool,
    ) -> Option<BoxFuture<'_, RedisResult<Messages>>> {
        None
    }

    /// A connection nobody else uses, for what holds state on it about a key; `None` when the kind
    /// has none.
    fn dedicated<'a>(
        &'a self,
        _key: &'a [u8],
    ) -> Option<BoxFuture<'a, RedisResult<MultiplexedConnection>>> {
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
        let request = self.link.request(cmd);
        self.answer_before(self.limit(deadline), request).await
    }

    async fn answer_before(
        &self,
        limit: Instant,
        request: BoxFuture<'_, RedisResult<Value>>,
    ) -> Result<Value, Error> {
        let started = self.clock.now();
        let answer = self.clock.before(limit, request).await;
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

    /// Sends a command that makes the server wait for so long before it answers.
    pub(crate) async fn wait(
        &self,
        key: &[u8],
        cmd: &Cmd,
        within: Duration,
        deadline: Option<Instant>,
    ) -> Result<Value, Error> {
        let limit = later(self.limit(None), within);
        let limit = deadline.map_or(limit, |deadline| deadline.min(limit));
        self.answer_before(limit, self.link.request_at(key, cmd))
            .await
    }

    /// Sends a command to one of the [servers](Link::servers).
    pub(crate) async fn send_to(&self, server: Option<Shard>, cmd: &Cmd) -> Result<Value, Error> {
        let request = self.link.request_on(server, cmd);
        self.answer_before(self.limit(None), request).await
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
    /// The master that the sentinels name at the moment.
    #[cfg(feature = "sentinel")]
    Sentinel(tokio::sync::Mutex<redis::sentinel::SentinelClient>),
}

pub(crate) type BoxedStream = Pin<Box<dyn ByteStream>>;

/// Both directions of a connection.
pub(crate) trait ByteStream: AsyncRead + AsyncWrite + Send {}
impl<S: AsyncRead + AsyncWrite + Send> ByteStream for S {}

impl Source {
    /// Whether the server behind it may become another one.
    fn moves(&self) -> bool {
        match self {
            #[cfg(feature = "sentinel")]
            Self::Sentinel(_) => true,
            _ => false,
        }
    }

    pub(crate) async fn dial(&self) -> RedisResult<MultiplexedConnection> {
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
            #[cfg(feature = "sentinel")]
            Self::Sentinel(sentinel) => {
                let client = sentinel.lock().await.async_get_client().await?;
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
            #[cfg(feature = "sentinel")]
            Self::Sentinel(sentinel) => {
                let client = sentinel.lock().await.async_get_client().await?;
                client.get_async_pubsub().await
            }
            Self::Streams(open) => PubSub::new(&RedisConnectionInfo::default(), open()).await,
        }
    }
}

/// Connections that come from a [`Source`] and are replaced when they break.
pub(crate) struct ClientLink {
    source: Source,
    current: Mutex<Current>,
    /// Counts the connections that were given up.
    broken: watch::Sender<u64>,
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
            broken: watch::Sender::new(0),
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
            self.broken.send_modify(|broken| *broken += 1);
        }
    }

    /// What a master that was deposed answers is that it is gone: the next one may do the work.
    fn without_deposed(&self, answer: RedisResult<Value>) -> RedisResult<Value> {
        let read_only = redis::ErrorKind::Server(redis::ServerErrorKind::ReadOnly);
        match answer {
            Err(error) if self.source.moves() && error.kind() == read_only => {
                let gone = std::io::Error::new(std::io::ErrorKind::ConnectionReset, error);
                Err(gone.into())
            }
            answer => answer,
        }
    }
}

impl Link for ClientLink {
    fn request<'a>(&'a self, command: &'a Cmd) -> BoxFuture<'a, RedisResult<Value>> {
        Box::pin(async move {
            let (mut connection, generation) = self.connection().await?;
            let answer = connection.req_packed_command(command).await;
            let answer = self.without_deposed(answer.and_then(Value::extract_error));
            if answer
                .as_ref()
                .is_err_and(redis::RedisError::is_unrecoverable_error)
            {
                self.forget(generation);
            }
            answer
        })
    }

    fn reset(&self) {
        self.current().connection = None;
        self.broken.send_modify(|broken| *broken += 1);
    }

    fn listen(
        &self,
        channel: Vec<u8>,
        _sharded: bool,
    ) -> Option<BoxFuture<'_, RedisResult<Messages>>> {
        let mut broken = self.broken.subscribe();
        Some(Box::pin(async move {
            let (mut sink, stream) = self.source.pubsub().await?.split();
            sink.subscribe(channel).await?;
            let messages = messages(sink, stream);
            if !self.source.moves() {
                return Ok(messages);
            }
            // A replica repeats what its master publishes, but nobody is counted there.
            let moved = async move { broken.changed().await.is_ok() };
            Ok(Box::pin(messages.take_until(Box::pin(moved))) as Messages)
        }))
    }

    fn dedicated<'a>(
        &'a self,
        _key: &'a [u8],
    ) -> Option<BoxFuture<'a, RedisResult<MultiplexedConnection>>> {
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
