//! The core: one request after the other, in an order that everything observable follows.
//!
//! It is plain data and plain functions: no socket, no task, no clock. Whoever drives it hands
//! it the time, the requests and the closing of connections, and writes out what it leaves in
//! the clients' outboxes. A request passes the gates that its row calls for, then `call` runs it;
//! EXEC and scripts come back to the same `call`. What a request changed is told to WATCH,
//! notifications and waiting clients afterwards, so no handler has to think of them.

mod accounts;
mod aftermath;
mod clients;
mod gates;
mod invalidation;
mod messages;
mod watching;

use std::{
    collections::{HashMap, VecDeque},
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    time::{Duration, Instant},
};

use crate::{
    acl::Users,
    blocking::{Wait, Waiters, Waiting},
    bytestr::ByteStr,
    clock::Time,
    cluster,
    command::{Call, Command, Flags, Stop, scripting::Scripting},
    config::Config,
    error::Error,
    eviction::Order,
    faults::{Faults, Verdict},
    info::Identity,
    keyspace::Keyspace,
    latency::Latency,
    monitor,
    pubsub::PubSub,
    random::Random,
    reply::Reply,
    resp::Encoder,
    session::{ClientId, ReplyMode, Session, Sessions},
    slowlog::SlowLog,
    stats::Stats,
    tracking::Tracking,
    visits::{Visit, Visits},
};

use accounts::Unclocked;
use messages::Deferred;

/// How many expired keys one turn of the engine removes before others get theirs.
pub const EXPIRE_BUDGET: usize = 512;
pub const TOO_FEW_REPLICAS: Error = Error::text("NOREPLICAS Not enough good replicas to write.");

/// What the connection does after a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flow {
    /// The next request may follow.
    Continue,
    /// The request waits; no further one runs until the handle is signaled.
    Wait,
    /// A pause or an injected delay holds the request back: offer it again after the signal.
    Postpone,
    /// As `Postpone`, but after a delay that a test asked for.
    Delay(Duration),
    /// Write what there is, then end the connection.
    Close,
    /// End the connection at once, unwritten.
    Drop,
}

/// A pause that CLIENT PAUSE asked for.
#[derive(Clone, Copy, Debug)]
pub struct Pause {
    pub until: Time,
    pub writes_only: bool,
}

/// Whom to tell of changed settings.
pub type OnSettings = Box<dyn Fn(&Config) + Send>;

pub const OUT_OF_MEMORY: Error =
    Error::text("OOM command not allowed when used memory > 'maxmemory'.");

/// When the data was last said to be saved.
#[derive(Clone, Copy, Debug)]
pub struct Saved {
    pub at: Time,
    /// What the count of changes was then.
    pub dirty: u64,
    pub times: u64,
}

/// The whole state of a server.
pub struct Engine {
    pub keys: Keyspace,
    pub sessions: Sessions,
    pub pubsub: PubSub,
    pub waiters: Waiters,
    /// What waiting requests left for the shell to do.
    pub errands: Vec<crate::errand::Errand>,
    pub config: Config,
    pub users: Users,
    pub stats: Stats,
    pub slowlog: SlowLog,
    pub latency: Latency,
    pub large_requests: SlowLog,
    pub large_replies: SlowLog,
    pub faults: Faults,
    pub random: Random,
    pub pause: Option<Pause>,
    pub monitors: Vec<ClientId>,
    pub tracking: Tracking,
    pub identity: Identity,
    pub saved: Saved,
    /// What the process occupied beside the data when `maxmemory` was set, in bytes.
    pub memory_base: usize,
    /// There was too little memory when the script that runs began.
    pub script_short_of_memory: bool,
    /// The configuration epoch of a cluster of one node.
    pub cluster_epoch: u64,
    /// Told of every change of the settings.
    pub on_settings: Option<OnSettings>,
    /// When clients are looked through for those that are idle or slow for too long.
    next_sweep: Option<Time>,
    pub scripting: Scripting,
    /// What others ask while a script has the engine to itself.
    pub visits: Arc<Visits>,
    /// Called once when a script turns out to run for long, from within it.
    pub on_busy: Option<fn()>,
    /// A client asked for the end of the server (SHUTDOWN).
    pub shutdown: bool,
    watchers: HashMap<(usize, ByteStr), Vec<ClientId>>,
    /// Messages for clients that are taken out at the moment.
    deferred: Vec<Deferred>,
    /// How many messages were left for clients since the shell set it to zero.
    pub told: u32,
    /// Read at the end of each command, so that one reading serves two commands.
    stopwatch: Instant,
    unclocked: Option<Unclocked>,
    /// A waiting request is being run again.
    rerunning: bool,
    /// How deep `call` is nested: 1 for a request, 2 inside EXEC or a script.
    depth: u32,
}

impl Engine {
    pub fn new(config: Config, now: Time) -> Engine {
        let databases = config.hot.databases;
        let mut random = Random::from_entropy();
        let mut engine = Engine {
            identity: Identity::new(&mut random),
            saved: Saved {
                at: now,
                dirty: 0,
                times: 0,
            },
            memory_base: 0,
            script_short_of_memory: false,
            cluster_epoch: 0,
            on_settings: None,
            next_sweep: None,
            scripting: Scripting::default(),
            visits: Arc::default(),
            on_busy: None,
            shutdown: false,
            keys: Keyspace::new(databases, now),
            sessions: Sessions::default(),
            pubsub: PubSub::default(),
            waiters: Waiters::default(),
            errands: Vec::new(),
            config,
            users: Users::default(),
            stats: Stats::new(now),
            slowlog: SlowLog::default(),
            latency: Latency::default(),
            large_requests: SlowLog::default(),
            large_replies: SlowLog::default(),
            faults: Faults::default(),
            random,
            pause: None,
            monitors: Vec::new(),
            tracking: Tracking::default(),
            watchers: HashMap::new(),
            deferred: Vec::new(),
            told: 0,
            stopwatch: Instant::now(),
            unclocked: None,
            rerunning: false,
            depth: 0,
        };
        if engine.config.hot.cluster {
            engine.keys.keep_slots();
        }
        engine.apply_config();
        engine
    }

    // ---- Time ----

    /// Sets the time that requests see from here on.
    pub fn set_now(&mut self, now: Time) {
        self.keys.set_now(now);
        self.stopwatch = Instant::now();
    }

    /// Does the work that is due: expired keys, waits whose time is up, the end of a pause.
    /// Tells whether all of it was done; otherwise call again, others first.
    pub fn tick(&mut self) -> bool {
        let mut done = self.watched("expire-cycle", |engine| {
            engine.keys.expire_due(EXPIRE_BUDGET)
        });
        self.after_changes();
        let now = self.keys.now();
        for _ in 0..EXPIRE_BUDGET {
            let Some(id) = self.waiters.overdue(now) else {
                break;
            };
            self.end_wait(id, |waiting, reply| waiting.wait.on_timeout.write(reply));
        }
        done &= self.waiters.overdue(now).is_none();
        if self.pause.is_some_and(|pause| pause.until <= now) {
            self.unpause();
        }
        if self.next_sweep.is_some_and(|sweep| sweep <= now) {
            self.next_sweep = None;
            self.sweep();
        }
        done
    }

    /// The next moment at which [`Engine::tick`] has something to do.
    pub fn next_deadline(&mut self) -> Option<Time> {
        let keys = if self.keys.active_expire {
            self.keys.next_deadline().map(Time::from_millis)
        } else {
            None
        };
        let pause = self.pause.map(|pause| pause.until);
        [keys, self.waiters.next_deadline(), pause, self.next_sweep]
            .into_iter()
            .flatten()
            .min()
    }

    /// Whether [`Engine::tick`] has something to do now that others can see.
    pub fn is_due(&self) -> bool {
        let now = self.keys.now();
        let pause = self.pause.map(|pause| pause.until);
        let others = [self.waiters.next_deadline(), pause, self.next_sweep];
        self.keys.is_due() || others.into_iter().flatten().any(|deadline| deadline <= now)
    }

    /// As `next_deadline`, perhaps too early; for a quick look after every batch.
    pub fn earliest(&self) -> Time {
        let keys = Time::from_millis(self.keys.earliest());
        let waits = self.waiters.next_deadline().unwrap_or(Time(u64::MAX));
        let pause = self.pause.map_or(Time(u64::MAX), |pause| pause.until);
        let sweep = self.next_sweep.unwrap_or(Time(u64::MAX));
        keys.min(waits).min(pause).min(sweep)
    }

    // ---- Requests ----

    /// Runs one request of a client that was taken out of `sessions`, writing to `out`. One that
    /// comes back after `Flow::Delay` is `delayed`, and meets no more faults.
    pub fn execute(
        &mut self,
        session: &mut Session,
        args: &[&[u8]],
        out: &mut Vec<u8>,
        delayed: bool,
    ) -> Flow {
        if !self.faults.active() || delayed {
            return self.execute_request(session, args, out);
        }
        let before = self.faults.clone();
        let flow = self.execute_struck(session, args, out);
        if flow == Flow::Postpone {
            // It did not run and comes again, and so must what strikes it.
            self.faults = before;
        }
        flow
    }

    /// Runs a request as the fault that strikes it says, if one does.
    fn execute_struck(&mut self, session: &mut Session, args: &[&[u8]], out: &mut Vec<u8>) -> Flow {
        match self.faults.judge(args) {
            Verdict::Pass => self.execute_request(session, args, out),
            Verdict::Delay(delay) => Flow::Delay(delay),
            Verdict::Drop => Flow::Drop,
            Verdict::Fail(error) => self.refuse(session, &error, out),
            Verdict::DropAfter => match self.execute_request(session, args, &mut Vec::new()) {
                Flow::Postpone => Flow::Postpone,
                _ => Flow::Drop,
            },
            Verdict::Swallow => {
                let flow = self.execute_request(session, args, &mut Vec::new());
                if flow == Flow::Wait && session.reply_mode == ReplyMode::On {
                    // The reply that its wait ends with is swallowed too.
                    session.reply_mode = ReplyMode::SkipThis;
                }
                flow
            }
        }
    }

    fn execute_request(
        &mut self,
        session: &mut Session,
        args: &[&[u8]],
        out: &mut Vec<u8>,
    ) -> Flow {
        let skipping = session.reply_mode == ReplyMode::SkipNext;
        if skipping {
            session.reply_mode = ReplyMode::SkipThis;
        }
        let start = out.len();
        let flow = self.gated(session, args, out);
        if flow == Flow::Postpone {
            if skipping {
                session.reply_mode = ReplyMode::SkipNext;
            }
            session.postponed = true;
            return flow;
        }
        // Confirmations of subscriptions are messages, which are sent all the same.
        let confirms = |command: &Command| command.name.ends_with("subscribe");
        if session.reply_mode != ReplyMode::On && !session.last_command.is_some_and(confirms) {
            out.truncate(start);
        }
        if session.reply_mode == ReplyMode::SkipThis && flow != Flow::Wait {
            session.reply_mode = ReplyMode::On;
        }
        if self.leaves_too_much_unread(session, out.len()) {
            self.stats.output_limit_disconnections += 1;
            return Flow::Drop;
        }
        if session.caching.is_some() && session.transaction.is_none() {
            // It was said of one request, and what CLIENT itself is asked does not count.
            let asked = session.last_command.map_or("", |command| command.name);
            if !asked.starts_with("client|") {
                session.caching = None;
            }
        }
        session.last_active = self.keys.now();
        // What follows from the changes of a script that still runs waits for its end.
        if !self.scripting.control.is_busy() {
            self.settle();
            self.send_broadcasts();
            if !self.deferred.is_empty() {
                self.send_deferred(Some((session, out)));
            }
        }
        if session.closing { Flow::Close } else { flow }
    }

    fn run(
        &mut self,
        session: &mut Session,
        command: &'static Command,
        args: &[&[u8]],
        out: &mut Vec<u8>,
    ) -> Flow {
        let protocol = session.protocol;
        match self.call(session, command, args, &mut Encoder::new(out, protocol)) {
            Ok(()) => Flow::Continue,
            Err(mut wait) => {
                let since = self.keys.now();
                let as_it_came = || args.iter().map(|arg| arg.to_vec()).collect();
                let args = wait.args.take().unwrap_or_else(as_it_came);
                self.waiters.add(session.id, session.db, &wait);
                session.waiting = Some(Waiting {
                    command,
                    args,
                    db: session.db,
                    wait,
                    since,
                });
                self.refresh_observed();
                Flow::Wait
            }
        }
    }

    /// The one call path: the wire, EXEC, scripts and waiting clients all run a command here.
    /// The arguments fit the row's arity. A reply is written unless the request is to wait.
    pub fn call(
        &mut self,
        session: &mut Session,
        command: &'static Command,
        args: &[&[u8]],
        reply: &mut dyn Reply,
    ) -> Result<(), Wait> {
        let from_script = self.depth > u32::from(session.executing.is_some());
        // What runs others is shown before them, all else with what it did, such as SELECT.
        let runs_others = command.flags.has(Flags::SKIP_MONITOR);
        if from_script && let Err(error) = self.check_in_script(session, command, args) {
            reply.error(&error);
            self.stats.error(error.code());
            return Ok(());
        }
        if runs_others && !self.monitors.is_empty() {
            monitor::feed(self, session, command, args, from_script);
        }
        self.keys.select(session.db);
        self.keys.no_touch = session.no_touch;
        let mark = reply.mark();
        // What runs other commands also takes the time that they take.
        let quick = command.is_quick(args) && self.is_slowlog_coarse();
        let start = (!quick).then(|| self.start_clock());
        let result = self.invoke(session, command, args, reply);
        let failed = match result {
            Ok(()) => false,
            Err(Stop::Error(error)) => {
                reply.rewind(mark);
                reply.error(&error);
                self.stats.error(error.code());
                true
            }
            Err(Stop::Wait(wait)) if session.may_block() => {
                // It is shown now, and not again when it is run again.
                if !self.rerunning && !self.monitors.is_empty() {
                    monitor::feed(self, session, command, args, from_script);
                }
                self.remember_keys(session, command, args);
                return Err(wait);
            }
            Err(Stop::Wait(wait)) => {
                wait.on_timeout.write(reply);
                false
            }
        };
        session.commands += u64::from(!from_script);
        let replied = reply.mark().saturating_sub(mark);
        self.account(session, command, args, failed, replied, start);
        if !runs_others && !self.rerunning && !self.monitors.is_empty() {
            monitor::feed(self, session, command, args, from_script);
        }
        if self.keys.has_changes() {
            self.absorb(Some(session));
        }
        // What the command itself changed, such as a count that it keeps, was never cached.
        self.remember_keys(session, command, args);
        Ok(())
    }

    /// Hands a request to its handler. One that panics has failed, and the server goes on.
    fn invoke(
        &mut self,
        session: &mut Session,
        command: &'static Command,
        args: &[&[u8]],
        reply: &mut dyn Reply,
    ) -> Result<(), Stop> {
        self.depth += 1;
        let result = {
            let mut call = Call {
                engine: &mut *self,
                session,
                command,
                args,
                reply,
            };
            catch_unwind(AssertUnwindSafe(|| (command.handler)(&mut call)))
        };
        self.depth -= 1;
        result.unwrap_or_else(|_| {
            tracing::error!(command = command.name, "a handler panicked");
            Err(Stop::Error(Error::text(
                "ERR internal error, the command was given up",
            )))
        })
    }

    /// What holds for a script's commands beside its own request.
    fn check_in_script(
        &mut self,
        session: &mut Session,
        command: &Command,
        args: &[&[u8]],
    ) -> Result<(), Error> {
        if self.script_short_of_memory && command.flags.has(Flags::DENYOOM) {
            return Err(OUT_OF_MEMORY);
        }
        if self.config.hot.cluster {
            let cross_slots = session.cross_slots;
            cluster::check_in_script(&mut session.slot, cross_slots, command, args)?;
        }
        Ok(())
    }

    // ---- While a script has the engine to itself ----

    /// Lets those at the engine who came while the script that runs has it to itself.
    pub fn receive_visits(&mut self) {
        let visits = self.visits.take();
        self.make(visits);
    }

    /// A script that may have been running for too long is over.
    pub fn end_visits(&mut self) {
        let visits = self.visits.close();
        self.make(visits);
    }

    fn make(&mut self, visits: VecDeque<Visit>) {
        for visit in visits {
            // A visitor's request is not one of the script's, and takes none of its time.
            let depth = std::mem::take(&mut self.depth);
            self.read_clock();
            visit(self);
            self.read_clock();
            self.depth = depth;
        }
    }

    /// Takes over settings that other parts keep for themselves.
    pub fn apply_config(&mut self) {
        self.keys.notify = self.config.hot.notify;
        let eviction = self.config.hot.eviction;
        let by_frequency = eviction.order == Order::LeastFrequentlyUsed;
        self.keys.frequency = by_frequency.then_some(eviction.frequency);
        let limited = self.config.hot.max_memory > 0;
        self.keys.count_sizes(limited);
        if limited && self.memory_base == 0 {
            let resident = crate::machine::resident() as usize;
            self.memory_base = resident.saturating_sub(self.keys.bytes()).max(1);
        } else if !limited {
            self.memory_base = 0;
        }
        let threshold_ms = self.config.int("busy-reply-threshold");
        self.scripting.control.set_threshold_ms(threshold_ms);
        let script_memory = self.config.int("script-memory-limit");
        self.scripting.set_memory_limit(script_memory as usize);
        if self.config.hot.timeout > 0 {
            self.sweep_soon();
        }
        if let Some(changed) = &self.on_settings {
            changed(&self.config);
        }
    }
}
