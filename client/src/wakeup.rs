//! The subscriptions of a manager, over which a release wakes exactly the waiter whose turn it is.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

use futures_util::StreamExt;
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::task::AbortHandle;

use crate::clock::later;
use crate::connection::{Messages, Node};
use crate::error::Error;
use crate::lengthener::Lengthener;
use crate::name::Name;
use crate::resource::{Grant, Offer, Seen};
use crate::token::Token;
use crate::ttl::Ttl;
use crate::wait::random_fraction;

/// How long a subscription without waiters is kept open for the next one.
const LINGER: Duration = Duration::from_secs(30);
/// How often at most a subscription that is missing on one of several servers is tried again.
const MEND_PAUSE: Duration = Duration::from_secs(1);

/// How long the first of several servers to speak is followed by silence before it is enough.
const STRAGGLERS: Duration = Duration::from_millis(20);

type Channel = Arc<[u8]>;
/// One of the servers and a channel there.
type Place = (usize, Channel);

/// Those who wait with one manager, or with one quorum of them, and the channel on which they are
/// woken; in a cluster there is a channel beside each name that is waited for.
///
/// The subscription also tells the server that the waiters are alive: publishing to a channel
/// that nobody listens to answers zero, so a dead process loses its places at once.
pub(crate) struct Hub {
    nodes: Vec<Node>,
    /// How many of the servers must speak before it is worth asking.
    needed: usize,
    prefix: String,
    id: Token,
    state: Mutex<State>,
    opening: tokio::sync::Mutex<()>,
    lengthener: Arc<Lengthener>,
    /// Tells listeners apart that follow one another at one place.
    next_id: AtomicUsize,
}

#[derive(Default)]
struct State {
    waiters: HashMap<Box<str>, Arc<Waiter>>,
    listeners: HashMap<Place, Listener>,
    mend_after: Option<Instant>,
}

struct Listener {
    id: usize,
    task: AbortHandle,
    /// Set by each waiter that comes, cleared by each tick of the listener.
    used: bool,
}

/// One who waits, and what it has heard.
#[derive(Debug)]
struct Waiter {
    channel: Channel,
    woken: Notify,
    /// How many messages have come since it last asked.
    heard: AtomicUsize,
    /// What it was offered last, and when that was heard.
    offer: Mutex<Option<(Offer, Instant)>>,
}

impl Hub {
    /// Over one server, or over several of which so many must speak.
    pub(crate) fn new(nodes: Vec<Node>, needed: usize, prefix: &str) -> Result<Self, Error> {
        Ok(Self {
            nodes,
            needed,
            prefix: prefix.to_owned(),
            id: Token::random()?,
            state: Mutex::default(),
            opening: tokio::sync::Mutex::new(()),
            lengthener: Arc::default(),
            next_id: AtomicUsize::new(0),
        })
    }

    /// Where waiters for this name listen.
    pub(crate) fn channel(&self, name: &Name) -> Channel {
        if self.is_sharded() {
            return name.helper(&format!("wake:{}", self.id)).into();
        }
        format!("{}wake:{}", self.prefix, self.id)
            .into_bytes()
            .into()
    }

    /// Where a script reaches those who listen there; see [`Seat::address`].
    pub(crate) fn address(&self, channel: &[u8], hold: Option<(Ttl, &[u8])>) -> Vec<u8> {
        let publish = if self.is_sharded() { 's' } else { 'p' };
        let (ttl, label) = hold.map_or((0, &b""[..]), |(ttl, label)| (ttl.millis(), label));
        let head = format!("{publish}{} {ttl} ", channel.len());
        [head.as_bytes(), channel, label].concat()
    }

    /// What becomes of leases that its messages bring.
    pub(crate) fn lengthener(&self) -> &Arc<Lengthener> {
        &self.lengthener
    }

    fn is_sharded(&self) -> bool {
        self.nodes[0].link().is_sharded()
    }

    /// Takes a seat: from now on a message that names the token wakes it.
    pub(crate) fn seat(self: &Arc<Self>, token: &Token, name: &Name) -> Seat {
        let channel = self.channel(name);
        let waiter = Arc::new(Waiter {
            channel: Arc::clone(&channel),
            woken: Notify::new(),
            heard: AtomicUsize::new(0),
            offer: Mutex::default(),
        });
        let mut state = self.state();
        state
            .waiters
            .insert(token.as_str().into(), Arc::clone(&waiter));
        for ((_, listened), listener) in &mut state.listeners {
            listener.used |= *listened == channel;
        }
        Seat {
            hub: Arc::clone(self),
            token: token.clone(),
            waiter,
        }
    }

    /// Whether enough of the servers are listened to.
    pub(crate) fn is_open(&self, channel: &Channel) -> bool {
        self.listening(channel) >= self.needed
    }

    fn listening(&self, channel: &Channel) -> usize {
        let state = self.state();
        let nodes = 0..self.nodes.len();
        nodes
            .filter(|node| state.listeners.contains_key(&(*node, Arc::clone(channel))))
            .count()
    }

    /// Subscribes where that is not done already. Only when this has answered may a waiter queue.
    pub(crate) async fn open(
        self: &Arc<Self>,
        channel: &Channel,
        deadline: Option<Instant>,
    ) -> Result<(), Error> {
        let node = &self.nodes[0];
        let limit = node.limit(deadline);
        let opened = node.clock().before(limit, self.subscribe(channel)).await;
        opened.unwrap_or(Err(Error::Unanswered {
            node: node.index(),
            after: limit.saturating_duration_since(node.clock().now()),
        }))
    }

    async fn subscribe(self: &Arc<Self>, channel: &Channel) -> Result<(), Error> {
        let _opening = self.opening.lock().await;
        let (sender, mut answers) = mpsc::unbounded_channel();
        for index in 0..self.nodes.len() {
            if self
                .state()
                .listeners
                .contains_key(&(index, Arc::clone(channel)))
            {
                continue;
            }
            // Detached, since a server that is slow must not keep the others' waiters.
            let (hub, channel, sender) = (Arc::clone(self), Arc::clone(channel), sender.clone());
            tokio::spawn(async move {
                let _ = sender.send(hub.subscribe_one(index, channel).await);
            });
        }
        drop(sender);
        let mut failure = None;
        while !self.is_open(channel) {
            match answers.recv().await {
                Some(answer) => failure = answer.err().or(failure),
                None => return Err(failure.unwrap_or(Error::Unsupported { what: "subscribe" })),
            }
        }
        Ok(())
    }

    async fn subscribe_one(self: Arc<Self>, index: usize, channel: Channel) -> Result<(), Error> {
        let node = &self.nodes[index];
        let Some(listening) = node.link().listen(channel.to_vec(), self.is_sharded()) else {
            return Err(Error::Unsupported { what: "subscribe" });
        };
        let limit = node.limit(None);
        let messages = node.clock().before(limit, listening).await;
        let messages = messages.ok_or(Error::Unanswered {
            node: node.index(),
            after: Duration::ZERO,
        })?;
        let messages = messages.map_err(Error::backend(node.index()))?;
        let place = (index, Arc::clone(&channel));
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let closing = Closing(Arc::downgrade(&self), place.clone(), id);
        // Not under the lock: a runtime that shuts down drops the task, and that takes the lock.
        let (begin, begun) = oneshot::channel();
        let task = tokio::spawn(async move {
            if begun.await.is_ok() {
                listen(closing, messages).await;
            }
        });
        let task = task.abort_handle();
        match self.state().listeners.entry(place) {
            Entry::Vacant(vacant) if !task.is_finished() => {
                let used = true;
                vacant.insert(Listener { id, task, used });
            }
            _ => return Ok(()),
        }
        let _ = begin.send(());
        Ok(())
    }

    /// Subscribes in the background where one of several servers is missing.
    pub(crate) fn mend(self: &Arc<Self>, channel: &Channel) {
        if self.listening(channel) == self.nodes.len() {
            return;
        }
        let now = self.nodes[0].clock().now();
        let due = self.state().mend_after.is_none_or(|after| now >= after);
        if due {
            self.state().mend_after = Some(later(now, MEND_PAUSE));
            for index in 0..self.nodes.len() {
                tokio::spawn(Arc::clone(self).subscribe_one(index, Arc::clone(channel)));
            }
        }
    }

    /// Reads `token`, or `token fence µs lease` from a release that has granted a lease by it.
    fn wake(&self, message: &[u8]) {
        let heard = self.nodes[0].clock().now();
        let mut words = std::str::from_utf8(message).unwrap_or_default().split(' ');
        let token = words.next().unwrap_or_default();
        let numbers: Vec<u64> = words.map_while(|word| word.parse().ok()).collect();
        // A token without a seat has given up; its clean-up passes the turn on.
        let Some(waiter) = self.state().waiters.get(token).cloned() else {
            return;
        };
        if let [fence, clock_us, lease] = numbers[..]
            && let Ok(lease) = Ttl::new(Duration::from_millis(lease))
        {
            let offer = Offer {
                fence,
                clock_us,
                lease,
            };
            *waiter.offer() = Some((offer, heard));
        }
        waiter.heard.fetch_add(1, Ordering::Relaxed);
        waiter.woken.notify_one();
    }

    /// Whether nobody waited on it since the last tick; then the listener is taken down.
    fn close_if_idle(&self, place: &Place) -> bool {
        let mut state = self.state();
        let waited = state
            .waiters
            .values()
            .any(|waiter| waiter.channel == place.1);
        let Some(listener) = state.listeners.get_mut(place) else {
            return true;
        };
        let idle = !waited && !listener.used;
        listener.used = false;
        if idle {
            state.listeners.remove(place);
        }
        idle
    }

    fn closed(&self, place: &Place, id: usize) {
        let mut state = self.state();
        if state
            .listeners
            .get(place)
            .is_some_and(|listener| listener.id == id)
        {
            state.listeners.remove(place);
        }
        // Whoever waits must look again: its turn may have been lost with the connection.
        let waiters = state.waiters.values();
        waiters
            .filter(|waiter| waiter.channel == place.1)
            .for_each(|waiter| waiter.woken.notify_one());
    }

    fn state(&self) -> std::sync::MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Hub {
    fn drop(&mut self) {
        for (_, listener) in self.state().listeners.drain() {
            listener.task.abort();
        }
    }
}

impl fmt::Debug for Hub {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Hub({:?})", self.id)
    }
}

/// Tells the hub that a listener is gone, even when the runtime under it was shut down.
struct Closing(Weak<Hub>, Place, usize);

impl Drop for Closing {
    fn drop(&mut self) {
        if let Some(hub) = self.0.upgrade() {
            hub.closed(&self.1, self.2);
        }
    }
}

async fn listen(closing: Closing, mut messages: Messages) {
    let Closing(hub, place, _) = &closing;
    let Some(clock) = hub.upgrade().map(|hub| hub.nodes[0].clock().clone()) else {
        return;
    };
    loop {
        let tick = clock.sleep(LINGER);
        let message = tokio::select! {
            message = messages.next() => message,
            () = tick => {
                if hub.upgrade().is_none_or(|hub| hub.close_if_idle(place)) {
                    return;
                }
                continue;
            }
        };
        let (Some(message), Some(hub)) = (message, hub.upgrade()) else {
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
    waiter: Arc<Waiter>,
}

impl Seat {
    /// Where a script reaches this waiter, as `wake.lua` reads it: its channel, and for how long
    /// and under which label it wants to hold, unless it has to ask by itself.
    pub(crate) fn address(&self, hold: Option<(Ttl, &[u8])>) -> Vec<u8> {
        self.hub.address(&self.waiter.channel, hold)
    }

    /// Completes when the waiter was woken since the last call, and, over several servers, when
    /// enough of them have spoken or the rest take too long.
    pub(crate) async fn woken(&self) {
        let woken = &self.waiter.woken;
        woken.notified().await;
        if self.hub.needed == 1 {
            return;
        }
        let rest = async {
            while self.waiter.heard.load(Ordering::Relaxed) < self.hub.needed {
                woken.notified().await;
            }
        };
        let clock = self.hub.nodes[0].clock();
        // Jitter parts those who have each heard of some servers and stand in each other's way.
        let grace = STRAGGLERS.mul_f64(1.0 + random_fraction());
        let _ = clock.before(later(clock.now(), grace), rest).await;
    }

    /// Begins to wait anew: what was heard before is about to be asked for.
    pub(crate) fn forget(&self) {
        self.waiter.heard.store(0, Ordering::Relaxed);
    }

    pub(crate) fn is_open(&self) -> bool {
        self.hub.is_open(&self.waiter.channel)
    }

    pub(crate) async fn open(&self, deadline: Option<Instant>) -> Result<(), Error> {
        self.hub.open(&self.waiter.channel, deadline).await
    }

    /// The grant that a message brought, if what it says and what was seen before prove one.
    pub(crate) fn granted(&self, seen: Seen, ttl: Ttl) -> Option<Grant> {
        let (offer, heard) = self.waiter.offer().take()?;
        offer.grant(seen, heard, ttl)
    }
}

impl Waiter {
    fn offer(&self) -> std::sync::MutexGuard<'_, Option<(Offer, Instant)>> {
        self.offer.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.hub.state().waiters.remove(self.token.as_str());
    }
}
