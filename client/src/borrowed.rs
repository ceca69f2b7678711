//! Connections that somebody else made and keeps alive, one that is shared or a pool of them.

use std::error::Error;
use std::future::Future;
use std::io;
use std::ops::DerefMut;

use redis::aio::{ConnectionLike, MultiplexedConnection};
use redis::{Client, Cmd, RedisResult, Value};

use crate::connection::{BoxFuture, ClientLink, Link, Messages, Source};

/// One connection, which is cloned for each request.
pub(crate) struct SharedLink<C>(pub(crate) C);

impl<C: ConnectionLike + Clone + Send + Sync> Link for SharedLink<C> {
    fn request<'a>(&'a self, command: &'a Cmd) -> BoxFuture<'a, RedisResult<Value>> {
        let mut connection = self.0.clone();
        Box::pin(async move { ask(&mut connection, command).await })
    }
}

/// A pool, from which a connection is borrowed for each request.
pub(crate) struct PoolLink<F>(pub(crate) F);

impl<F, W, P, E> Link for PoolLink<F>
where
    F: Fn() -> W + Send + Sync,
    W: Future<Output = Result<P, E>> + Send,
    P: DerefMut<Target: ConnectionLike + Send> + Send,
    E: Into<Box<dyn Error + Send + Sync>>,
{
    fn request<'a>(&'a self, command: &'a Cmd) -> BoxFuture<'a, RedisResult<Value>> {
        Box::pin(async move {
            let mut connection = (self.0)().await.map_err(io::Error::other)?;
            ask(&mut *connection, command).await
        })
    }
}

async fn ask(connection: &mut (impl ConnectionLike + ?Sized), command: &Cmd) -> RedisResult<Value> {
    let answer = connection.req_packed_command(command).await;
    answer.and_then(Value::extract_error)
}

/// Requests go over one link, and what a connection must be had for oneself for over another.
pub(crate) struct Assisted<L> {
    pub(crate) requests: L,
    pub(crate) rest: ClientLink,
}

impl<L> Assisted<L> {
    pub(crate) fn new(requests: L, client: Client) -> Self {
        let rest = ClientLink::new(Source::Client(client));
        Self { requests, rest }
    }
}

impl<L: Link> Link for Assisted<L> {
    fn request<'a>(&'a self, command: &'a Cmd) -> BoxFuture<'a, RedisResult<Value>> {
        self.requests.request(command)
    }

    fn listen(
        &self,
        channel: Vec<u8>,
        sharded: bool,
    ) -> Option<BoxFuture<'_, RedisResult<Messages>>> {
        self.rest.listen(channel, sharded)
    }

    fn dedicated<'a>(
        &'a self,
        key: &'a [u8],
    ) -> Option<BoxFuture<'a, RedisResult<MultiplexedConnection>>> {
        self.rest.dedicated(key)
    }
}
