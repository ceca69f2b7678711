//! What every connection of one server shares.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicI64, AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use dashmap::DashMap;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;

use crate::{
    clock::{Clock, Time},
    command::scripting::Control,
    engine::Engine,
    errand::Errand,
    keyspace::Trash,
    session::Handle,
    visits::Visits,
};

/// The engine behind its one lock, the clock, and what can be reached without the lock.
pub struct Shared {
    engine: Mutex<Engine>,
    /// What can be known of a running script while it has the engine to itself.
    pub script: Arc<Control>,
    /// Where to leave what is to be asked of the engine meanwhile.
    pub visits: Arc<Visits>,
    pub clock: Clock,
    /// Every connection by its number, reachable while the engine is busy.
    pub clients: DashMap<u64, Arc<Handle>>,
    /// Wakes the timer when a deadline came up that is earlier than the one it sleeps for.
    pub timer: Notify,
    /// When the timer will wake, in microseconds of the timeline.
    scheduled: AtomicU64,
    /// `proto-max-bulk-len`, which connections read while they decode.
    pub bulk_len_max: AtomicI64,
    /// `client-query-buffer-limit`, in bytes.
    pub query_buffer_max: AtomicUsize,
    /// `maxclients`, and a ticket of which each connection holds a copy.
    max_clients: AtomicUsize,
    tickets: Arc<()>,
    /// Wakes whoever waits for the end of the server.
    pub stop: Notify,
    pub stopping: AtomicBool,
    /// How often all connections were ended. One that was made before the last time is to join no
    /// more, however late its task begins; so this changes only while the engine is locked.
    epoch: AtomicU64,
    /// Must a client log in before it may end a script that keeps the engine busy?
    pub auth_required: AtomicBool,
}

impl Shared {
    pub fn new(engine: Engine, clock: Clock) -> Arc<Shared> {
        let bulk_len_max = AtomicI64::new(engine.config.hot.bulk_len_max);
        let query_buffer_max = AtomicUsize::new(engine.config.hot.query_buffer_max);
        let max_clients = AtomicUsize::new(engine.config.hot.max_clients);
        Arc::new(Shared {
            script: Arc::clone(&engine.scripting.control),
            visits: Arc::clone(&engine.visits),
            bulk_len_max,
            query_buffer_max,
            max_clients,
            tickets: Arc::default(),
            engine: Mutex::new(engine),
            clock,
            clients: DashMap::new(),
            timer: Notify::new(),
            scheduled: AtomicU64::new(u64::MAX),
            stop: Notify::new(),
            stopping: AtomicBool::new(false),
            epoch: AtomicU64::new(0),
            auth_required: AtomicBool::new(true),
        })
    }

    /// Locks the engine and shows it the time.
    pub fn lock(&self) -> MutexGuard<'_, Engine> {
        let mut engine = self.engine.lock();
        engine.set_now(self.clock.now());
        engine
    }

    /// As `lock`, but gives up while a script has the engine to itself for too long.
    pub fn lock_unless_busy(&self) -> Option<MutexGuard<'_, Engine>> {
        const PATIENCE: Duration = Duration::from_millis(10);
        while !self.script.is_busy() {
            if let Some(mut engine) = self.engine.try_lock_for(PATIENCE) {
                engine.set_now(self.clock.now());
                return Some(engine);
            }
        }
        None
    }

    /// As `lock`, without keeping a thread while a script has the engine to itself for too long.
    async fn lock_after_script(&self) -> MutexGuard<'_, Engine> {
        const PAUSE: Duration = Duration::from_millis(20);
        loop {
            if let Some(engine) = self.lock_unless_busy() {
                return engine;
            }
            tokio::time::sleep(PAUSE).await;
        }
    }

    /// Lets go of the engine, sees that the timer wakes in time, and frees what was left to free.
    pub fn unlock(self: &Arc<Self>, mut engine: MutexGuard<'_, Engine>) {
        engine.end_turn();
        let earliest = engine.earliest();
        let trash = engine.keys.take_trash();
        self.bulk_len_max
            .store(engine.config.hot.bulk_len_max, Ordering::Relaxed);
        self.query_buffer_max
            .store(engine.config.hot.query_buffer_max, Ordering::Relaxed);
        self.max_clients
            .store(engine.config.hot.max_clients, Ordering::Relaxed);
        let auth_required = !engine.is_open();
        self.auth_required.store(auth_required, Ordering::Relaxed);
        let shutdown = std::mem::take(&mut engine.shutdown);
        let errands = std::mem::take(&mut engine.errands);
        drop(engine);
        if shutdown {
            self.begin_stop();
        }
        if self.script.take_was_busy() {
            for client in &self.clients {
                client.signal();
            }
        }
        if earliest.micros() < self.scheduled.load(Ordering::Relaxed) {
            self.timer.notify_one();
        }
        self.send_on(errands);
        free(trash);
    }

    /// Does what waiting requests need a socket for, each in a task of its own.
    fn send_on(self: &Arc<Self>, errands: Vec<Errand>) {
        for errand in errands {
            let shared = self.clone();
            // Only a connection's task can have left one, so there is a runtime.
            tokio::spawn(async move {
                let outcome = errand.run().await;
                let mut engine = shared.lock_after_script().await;
                errand.finish(&mut engine, &outcome);
                shared.unlock(engine);
            });
        }
    }

    /// Does all the work that is due, in turns so that others get theirs, and tells when to come
    /// again.
    pub fn tick(&self) -> (bool, Option<Time>) {
        let Some(mut engine) = self.lock_unless_busy() else {
            // Nothing can be done until the script ends.
            let soon = Time::from_millis(self.clock.now().millis() + 20);
            return (true, Some(soon));
        };
        let done = engine.tick();
        let next = engine.next_deadline();
        let scheduled = next.map_or(u64::MAX, Time::micros);
        self.scheduled.store(scheduled, Ordering::Relaxed);
        let trash = engine.keys.take_trash();
        drop(engine);
        free(trash);
        (done, next)
    }

    /// Moves the clock on, stopping at every deadline on the way so that each is met in order.
    pub fn advance_to(self: &Arc<Self>, target: Time) {
        loop {
            let mut engine = self.lock();
            let next = loop {
                let next = engine.next_deadline().filter(|&next| next <= target);
                let at = next.unwrap_or(target).max(engine.keys.now());
                engine.set_now(at);
                if next.is_none() || engine.is_due() {
                    self.clock.set(at);
                    break next;
                }
                // Deadlines are only sorted anew: a moment that nobody is to see.
                while !engine.tick() {}
            };
            while !engine.tick() {}
            self.unlock(engine);
            if next.is_none() {
                return;
            }
        }
    }

    /// The handle of a connection that is made now; `foreign` is one that another runtime serves.
    pub fn new_handle(&self, foreign: bool) -> Handle {
        let ticket = Arc::clone(&self.tickets);
        Handle::new(foreign, self.epoch.load(Ordering::Acquire), ticket)
    }

    /// Whether there are as many connections as there may be, so that a new one is turned away.
    pub fn is_full(&self) -> bool {
        if let Some(mut engine) = self.lock_unless_busy() {
            let full = engine.sessions.len() >= engine.config.hot.max_clients;
            engine.stats.rejected_connections += u64::from(full);
            return full;
        }
        // A script has the engine to itself, which has yet to learn of those who came meanwhile.
        let connections = Arc::strong_count(&self.tickets) - 1;
        let full = connections >= self.max_clients.load(Ordering::Relaxed);
        if full {
            let note = |engine: &mut Engine| engine.stats.rejected_connections += 1;
            // It may have ended since; then nobody counts this one.
            let _ = self.visits.leave(Box::new(note));
        }
        full
    }

    /// Whether all connections were ended since this one was made.
    pub fn is_ended(&self, handle: &Handle) -> bool {
        handle.epoch != self.epoch.load(Ordering::Acquire)
    }

    /// Ends every connection: when this returns, none of them is served any more nor waits for
    /// anything, whichever runtime its task is in.
    pub fn end_connections(self: &Arc<Self>) {
        let mut engine = self.lock();
        self.epoch.fetch_add(1, Ordering::Release);
        self.kill_clients(&mut engine);
        // Those of another runtime may need this very thread to notice.
        self.clients.retain(|_, client| !client.foreign);
        self.unlock(engine);
    }

    /// Cuts every connection that the engine knows.
    pub fn kill_clients(&self, engine: &mut Engine) {
        for client in &self.clients {
            if let Some(id) = engine.sessions.by_number(*client.key()) {
                engine.kill(id);
            }
        }
    }

    /// Begins the end of the server.
    pub fn begin_stop(&self) {
        self.stopping.store(true, Ordering::Release);
        // Each connection sees that it is to end once it has written its replies.
        for client in &self.clients {
            client.signal();
        }
        self.stop.notify_waiters();
    }
}

/// Frees large values where it holds nobody up.
fn free(trash: Vec<Trash>) {
    if trash.is_empty() {
        return;
    }
    match tokio::runtime::Handle::try_current() {
        Ok(runtime) => drop(runtime.spawn_blocking(move || drop(trash))),
        Err(_) => drop(trash),
    }
}
