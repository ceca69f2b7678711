//! What the engine knows of a client, and the one thread-safe piece of it: its handle.

use std::{
    collections::{HashMap, HashSet},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
        mpsc,
    },
    task::Waker,
};

use parking_lot::Mutex;

use crate::{blocking::Waiting, bytestr::ByteStr, clock::Time, command::Command, reply::Protocol};

/// Names a client: the number that CLIENT ID shows, and its place in the engine.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ClientId {
    pub number: u64,
    slot: u32,
}

/// A client as the engine sees it.
pub struct Session {
    pub id: ClientId,
    pub handle: Arc<Handle>,
    /// As CLIENT LIST shows them: `127.0.0.1:50000`, a path, or empty.
    pub addr: String,
    pub laddr: String,
    pub name: Vec<u8>,
    pub lib_name: Vec<u8>,
    pub lib_ver: Vec<u8>,
    pub user: Arc<str>,
    pub authenticated: bool,
    pub protocol: Protocol,
    pub db: usize,
    pub created: Time,
    pub last_active: Time,
    pub last_command: Option<&'static Command>,
    pub reply_mode: ReplyMode,
    pub transaction: Option<Transaction>,
    pub watched: Vec<(usize, ByteStr)>,
    /// A watched key was changed: the next EXEC does nothing.
    pub watch_tripped: bool,
    pub channels: HashSet<ByteStr>,
    pub patterns: HashSet<ByteStr>,
    pub shard_channels: HashSet<ByteStr>,
    pub monitor: bool,
    pub no_evict: bool,
    pub no_touch: bool,
    pub waiting: Option<Waiting>,
    /// A pause holds its next request back.
    pub postponed: bool,
    /// Does it track keys? How it does is noted beside the keys.
    pub tracking: bool,
    /// What CLIENT CACHING said of the next request.
    pub caching: Option<bool>,
    /// The slot of the keys that its request named, in a cluster.
    pub slot: Option<u16>,
    /// The script that it runs may use keys of several slots.
    pub cross_slots: bool,
    /// Does it know what to do when it is sent elsewhere (CLIENT CAPA)?
    pub follows_redirects: bool,
    /// How many requests the transaction has that EXEC is running.
    pub executing: Option<usize>,
    /// Has it ever begun a transaction or watched a key?
    pub knows_transactions: bool,
    /// Bytes for the client that no request of its own asked for, or that came after a wait.
    pub outbox: Vec<u8>,
    /// Since when it leaves more unread than the soft limit allows.
    pub over_limit_since: Option<Time>,
    /// The connection ends once the replies so far are written.
    pub closing: bool,
    /// Is the request part of a transaction or a script, so that it must not wait?
    pub deny_blocking: bool,
    /// A subscriber inside the process, which takes messages and not bytes.
    pub local: Option<mpsc::Sender<crate::pubsub::Message>>,
    pub commands: u64,
    pub bytes_in: u64,
    pub bytes_out: u64,
}

/// Which replies a client wants (CLIENT REPLY).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplyMode {
    On,
    Off,
    /// The next request gets no reply.
    SkipNext,
    /// The request that is running or waiting gets no reply.
    SkipThis,
}

/// Requests queued since MULTI.
#[derive(Default)]
pub struct Transaction {
    pub queue: Vec<Queued>,
    /// A request was refused while queueing.
    pub aborted: bool,
    /// Bytes that the queue holds.
    pub size: usize,
    /// Bytes of the arguments alone.
    pub args_size: usize,
}

/// A request kept for later.
pub struct Queued {
    pub command: &'static Command,
    pub args: Vec<Vec<u8>>,
}

impl Session {
    pub fn subscriptions(&self) -> usize {
        self.channels.len() + self.patterns.len() + self.shard_channels.len()
    }

    /// What its queued requests occupy, in bytes, as CLIENT LIST counts it.
    pub fn queue_size(&self) -> usize {
        /// What the references need for a request beside its arguments.
        const REQUEST: usize = 24;
        self.transaction.as_ref().map_or(0, |transaction| {
            transaction.args_size + transaction.queue.len() * REQUEST
        })
    }

    /// How many requests its transaction holds, if it is in one.
    pub fn queued(&self) -> Option<usize> {
        let queued = self.transaction.as_ref();
        queued.map(|queued| queued.queue.len()).or(self.executing)
    }

    /// Bytes that it has not read yet, as far as this side of the socket knows.
    pub fn unread(&self) -> usize {
        self.outbox.len() + self.handle.unwritten.load(Ordering::Relaxed)
    }

    /// The address without the port, or a path.
    pub fn ip(&self) -> &str {
        let ip = self.addr.rsplit_once(':').map_or(&*self.addr, |(ip, _)| ip);
        ip.trim_start_matches('[').trim_end_matches(']')
    }

    /// Does it come from this machine?
    pub fn is_near(&self) -> bool {
        let ip: Option<std::net::IpAddr> = self.ip().parse().ok();
        self.addr.is_empty() || self.is_local_socket() || ip.is_some_and(|ip| ip.is_loopback())
    }

    /// Did it come by a Unix socket?
    pub fn is_local_socket(&self) -> bool {
        self.addr.ends_with(":0")
    }

    /// May a request of it wait for a key now?
    pub fn may_block(&self) -> bool {
        !self.deny_blocking
    }
}

/// What the connection's task and the engine share without a lock on the engine.
#[derive(Default)]
pub struct Handle {
    waker: Mutex<Option<Waker>>,
    signaled: AtomicBool,
    killed: AtomicBool,
    /// Is it served by a runtime that is not the server's own?
    pub foreign: bool,
    /// How often all connections had been ended when this one was made.
    pub epoch: u64,
    /// Bytes taken from the outbox and not yet written to the socket.
    pub unwritten: AtomicUsize,
    /// Bytes read that belong to requests behind the one that runs.
    pub unread: AtomicUsize,
    /// What the buffers of requests and of replies have room for, in bytes.
    pub input_room: AtomicUsize,
    pub output_room: AtomicUsize,
    /// The system's number for the socket, if it is one.
    pub socket: Option<i32>,
    /// Held for as long as the connection is there.
    _ticket: Arc<()>,
}

impl Handle {
    pub fn new(foreign: bool, epoch: u64, ticket: Arc<()>) -> Handle {
        Handle {
            foreign,
            epoch,
            _ticket: ticket,
            ..Handle::default()
        }
    }

    /// For a client that comes by a socket with this number.
    #[must_use]
    pub fn with_socket(self, socket: Option<i32>) -> Handle {
        Handle { socket, ..self }
    }

    /// Something waits for the connection in the engine: output, or the end of a wait.
    pub fn signal(&self) {
        if !self.signaled.swap(true, Ordering::AcqRel) {
            self.wake();
        }
    }

    /// The connection is to end at once.
    pub fn kill(&self) {
        self.killed.store(true, Ordering::Release);
        self.wake();
    }

    pub fn is_killed(&self) -> bool {
        self.killed.load(Ordering::Acquire)
    }

    /// Takes the signal, if there was one since the last call.
    pub fn take_signal(&self) -> bool {
        self.signaled.swap(false, Ordering::AcqRel)
    }

    pub fn has_signal(&self) -> bool {
        self.signaled.load(Ordering::Acquire)
    }

    /// Whom to wake at the next signal.
    pub fn register(&self, waker: &Waker) {
        let mut slot = self.waker.lock();
        if slot.as_ref().is_none_or(|old| !old.will_wake(waker)) {
            *slot = Some(waker.clone());
        }
    }

    fn wake(&self) {
        if let Some(waker) = self.waker.lock().as_ref() {
            waker.wake_by_ref();
        }
    }
}

/// All clients. The one whose request runs is taken out for that while.
#[derive(Default)]
pub struct Sessions {
    slots: Vec<Option<Box<Session>>>,
    free: Vec<u32>,
    /// The slots by number.
    numbers: HashMap<u64, u32>,
    last_number: u64,
    len: usize,
}

impl Sessions {
    pub fn len(&self) -> usize {
        self.len
    }

    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub fn add(&mut self, handle: Arc<Handle>, addr: String, laddr: String, now: Time) -> ClientId {
        self.last_number += 1;
        self.len += 1;
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(None);
            self.slots.len() as u32 - 1
        });
        let id = ClientId {
            number: self.last_number,
            slot,
        };
        self.numbers.insert(id.number, slot);
        self.slots[slot as usize] = Some(Box::new(new_session(id, handle, addr, laddr, now)));
        id
    }

    /// Takes a session out to work with it; it is put back with [`Sessions::put`].
    pub fn take(&mut self, id: ClientId) -> Option<Box<Session>> {
        self.slots
            .get_mut(id.slot as usize)?
            .take_if(|session| session.id == id)
    }

    pub fn put(&mut self, session: Box<Session>) {
        let slot = session.id.slot as usize;
        self.slots[slot] = Some(session);
    }

    /// Forgets a session that was taken out.
    pub fn retire(&mut self, id: ClientId) {
        self.len -= 1;
        self.numbers.remove(&id.number);
        self.free.push(id.slot);
    }

    pub fn get(&self, id: ClientId) -> Option<&Session> {
        self.slots
            .get(id.slot as usize)?
            .as_deref()
            .filter(|session| session.id == id)
    }

    pub fn get_mut(&mut self, id: ClientId) -> Option<&mut Session> {
        self.slots
            .get_mut(id.slot as usize)?
            .as_deref_mut()
            .filter(|session| session.id == id)
    }

    /// The client with a number, also while it is taken out.
    pub fn by_number(&self, number: u64) -> Option<ClientId> {
        let slot = *self.numbers.get(&number)?;
        Some(ClientId { number, slot })
    }

    /// All but those taken out, in no particular order.
    pub fn iter(&self) -> impl Iterator<Item = &Session> {
        self.slots.iter().filter_map(Option::as_deref)
    }

    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut Session> {
        self.slots.iter_mut().filter_map(Option::as_deref_mut)
    }
}

fn new_session(
    id: ClientId,
    handle: Arc<Handle>,
    addr: String,
    laddr: String,
    now: Time,
) -> Session {
    Session {
        id,
        handle,
        addr,
        laddr,
        name: Vec::new(),
        lib_name: Vec::new(),
        lib_ver: Vec::new(),
        user: Arc::from("default"),
        authenticated: false,
        protocol: Protocol::Resp2,
        db: 0,
        created: now,
        last_active: now,
        last_command: None,
        reply_mode: ReplyMode::On,
        transaction: None,
        watched: Vec::new(),
        watch_tripped: false,
        channels: HashSet::new(),
        patterns: HashSet::new(),
        shard_channels: HashSet::new(),
        monitor: false,
        no_evict: false,
        no_touch: false,
        waiting: None,
        postponed: false,
        tracking: false,
        caching: None,
        slot: None,
        cross_slots: false,
        follows_redirects: false,
        executing: None,
        knows_transactions: false,
        outbox: Vec::new(),
        over_limit_since: None,
        closing: false,
        deny_blocking: false,
        local: None,
        commands: 0,
        bytes_in: 0,
        bytes_out: 0,
    }
}
