//! Publish and subscribe, with a subscription that comes back and says when it may have missed something.

use std::fmt;
use std::time::Duration;

use futures_util::StreamExt;
use redis::ToRedisArgs;

use crate::connection::{Messages, Node};
use crate::error::Error;
use crate::manager::Manager;
use crate::wait::Wait;

/// What a subscription receives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A message, as it was published.
    Message(Vec<u8>),
    /// The connection was lost and is back: messages published meanwhile are gone for ever.
    Gap,
}

/// A subscription to one channel, on a connection of its own.
///
/// Publish and subscribe keeps nothing: who is not there does not hear. So use it to say that
/// something changed, and keep what changed elsewhere.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = khoa_server::Server::start()?;
/// # let manager = khoa::Manager::open(server.url())?;
/// let mut news = manager.subscribe("news").await?;
/// manager.publish("news", "hello").await?;
/// assert_eq!(news.next().await?, khoa::Event::Message(b"hello".to_vec()));
/// # Ok(())
/// # }
/// ```
pub struct Subscription {
    node: Node,
    channel: String,
    messages: Option<Messages>,
    wait: Wait,
}

impl Manager {
    /// Publishes a message on a channel, which is used as it is, and tells how many clients of
    /// that server received it.
    ///
    /// # Cancel safety
    /// When the future is dropped the message may have been published.
    pub async fn publish(&self, channel: &str, message: impl ToRedisArgs) -> Result<u64, Error> {
        self.node()
            .query(redis::cmd("PUBLISH").arg(channel).arg(message), None)
            .await
    }

    /// Subscribes to a channel; every message published after this has answered is received,
    /// or its possible loss is told.
    ///
    /// # Cancel safety
    /// Dropping the future closes the connection.
    pub async fn subscribe(&self, channel: impl Into<String>) -> Result<Subscription, Error> {
        let wait = Wait::exponential(Duration::from_millis(20), Duration::from_secs(2));
        let (node, channel) = (self.node().clone(), channel.into());
        let messages = Some(listen(&node, channel.as_bytes()).await?);
        Ok(Subscription {
            node,
            channel,
            messages,
            wait,
        })
    }
}

impl Subscription {
    /// The next message, or that some may have been missed. A lost connection is opened again,
    /// as often as it takes.
    ///
    /// # Errors
    /// Only such as do not go away by themselves, e.g. a refused password.
    ///
    /// # Cancel safety
    /// Dropping the future loses no message.
    pub async fn next(&mut self) -> Result<Event, Error> {
        if let Some(messages) = &mut self.messages {
            if let Some(message) = messages.next().await {
                return Ok(Event::Message(message));
            }
            self.messages = None;
        }
        let mut failures = 0;
        loop {
            match listen(&self.node, self.channel.as_bytes()).await {
                Ok(messages) => {
                    self.messages = Some(messages);
                    return Ok(Event::Gap);
                }
                Err(error) if error.is_transient() => failures += 1,
                Err(error) => return Err(error),
            }
            self.node.clock().sleep(self.wait.pause(failures)).await;
        }
    }
}

/// Listens to a channel, within the time that a request may take.
pub(crate) async fn listen(node: &Node, channel: &[u8]) -> Result<Messages, Error> {
    let Some(listening) = node.link().listen(channel.to_vec(), false) else {
        return Err(Error::Unsupported { what: "subscribe" });
    };
    let started = node.clock().now();
    let answer = node.clock().before(node.limit(None), listening).await;
    let after = node.clock().now().saturating_duration_since(started);
    let answer = answer.ok_or(Error::Unanswered {
        node: node.index(),
        after,
    })?;
    answer.map_err(Error::backend(node.index()))
}

impl fmt::Debug for Subscription {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Subscription")
            .field("channel", &self.channel)
            .finish_non_exhaustive()
    }
}
