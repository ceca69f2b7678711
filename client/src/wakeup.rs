//! One subscription per manager, over which a release wakes exactly the waiter whose turn it is.

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use tokio::sync::Notify;
use tokio::task::AbortHandle;

use crate::connection::{Messages, Node};
use crate::error::Error;
use crate::token::Token;

/// How long a subscription without waiters is kept open for the next one.
const LINGER: Duration = Duration::from_secs(30);

/// The waiters of one manager and the channel on which the server wakes them.
///
/// The subscription also tells the server that the waiters are alive: publishing to a channel
/// that nobody listens to answers zero, so a dead process loses its places at once.
pub(crate) struct Hub {
    node: Node,
    channel: String,
    state: Mutex<State>,
    opening: tokio::sync::Mutex<()>,
}

#[derive(Default)]
struct State {
    waiters: HashMap<Box<str>, Arc<Notify>>,
    listener: Option<AbortHandle>,
    /// Set by each waiter that comes, cleared by each tick of the listener.
    used: bool,
}

impl Hub {
    pub(crate) fn new(node: Node, prefix: &str) -> Result<Self, Error> {
        let channel = format!("{prefix}wake:{}", Token::random()?);
        Ok(Self {
            node,
            channel,
            state: Mutex::default(),
            opening: tokio::sync::Mutex::new(()),
        })
    }

    /// Takes a seat: from now on a message that names the token wakes it.
    pub(crate) fn seat(self: &Arc<Self>, token: &Token) -> Seat {
        let notify = Arc::new(Notify::new());
        let mut state = self.state();
        state
            .waiters
            .insert(token.as_str().into(), Arc::clone(&notify));
        state.used = true;
        Seat {
            hub: Arc::clone(self),
            token: token.clone(),
            notify,
        }
    }

    pub(crate) fn is_open(&self) -> bool {
        self.state().listener.is_some()
    }

    /// Subscribes unless that is done already. Only when this has answered may a waiter queue.
    pub(crate) async fn open(self: &Arc<Self>, deadline: Option<Instant>) -> Result<(), Error> {
        let limit = self.node.limit(deadline);
        let opened = self.node.clock().before(limit, self.subscribe()).await;
        opened.unwrap_or(Err(Error::Unanswered {
            node: self.node.index(),
            after: limit.saturating_duration_since(self.node.clock().now()),
        }))
    }

    async fn subscribe(self: &Arc<Self>) -> Result<(), Error> {
        let _opening = self.opening.lock().await;
        if self.is_open() {
            return Ok(());
        }
        let Some(listening) = self.node.link().listen(self.channel.clone()) else {
            return Err(Error::Unsupported { what: "subscribe" });
        };
        let messages = listening.await.map_err(Error::backend(self.node.index()))?;
        let task = tokio::spawn(listen(Closing(Arc::downgrade(self)), messages));
        self.state().listener = Some(task.abort_handle());
        Ok(())
    }

    fn wake(&self, token: &[u8]) {
        let state = self.state();
        let waiter = std::str::from_utf8(token)
            .ok()
            .and_then(|token| state.waiters.get(token));
        // A token without a seat has given up; its clean-up passes the turn on.
        if let Some(waiter) = waiter {
            waiter.notify_one();
        }
    }

    /// Whether nobody waited since the last tick; then the listener is taken down.
    fn close_if_idle(&self) -> bool {
        let mut state = self.state();
        let idle = state.waiters.is_empty() && !state.used;
        state.used = false;
        if idle {
            state.listener = None;
        }
        idle
    }

    fn closed(&self) {
        let mut state = self.state();
        state.listener = None;
        // Whoever waits must look again: its turn may have been lost with the connection.
        state
            .waiters
            .values()
            .for_each(|waiter| waiter.notify_one());
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Hub {
    fn drop(&mut self) {
        if let Some(listener) = self.state().listener.take() {
            listener.abort();
        }
    }
}

impl fmt::Debug for Hub {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Hub({})", self.channel)
    }
}

/// Tells the hub that its listener is gone, even when the runtime under it was shut down.
struct Closing(Weak<Hub>);

impl Drop for Closing {
    fn drop(&mut self) {
        if let Some(hub) = self.0.upgrade() {
            hub.closed();
        }
    }
}

async fn listen(hub: Closing, mut messages: Messages) {
    let Some(clock) = hub.0.upgrade().map(|hub| hub.node.clock().clone()) else {
        return;
    };
    loop {
        let tick = clock.sleep(LINGER);
        let message = tokio::select! {
            message = messages.next() => message,
            () = tick => {
                if hub.0.upgrade().is_none_or(|hub| hub.close_if_idle()) {
                    return;
                }
                continue;
            }
        };
        let (Some(message), Some(hub)) = (message, hub.0.upgrade()) else {
            return;
        };
        hub.wake(&message);
    }
}

/// A waiter's registration, which ends when it is dropped.
#[derive(Debug)]
pub(crate) struct Seat {
    hub: Arc<Hub>,
    token: Token,
    notify: Arc<Notify>,
}

impl Seat {
    pub(crate) fn channel(&self) -> &str {
        &self.hub.channel
    }

    /// Completes when the waiter was woken since the last call.
    pub(crate) async fn woken(&self) {
        self.notify.notified().await;
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.hub.state().waiters.remove(self.token.as_str());
    }
}
