//! The core: one request after the other, in an order that everything observable follows.
//!
//! It is plain data and plain functions: no socket, no task, no clock. Whoever drives it hands
//! it the time, the requests and the closing of connections, and writes out what it leaves in
//! the clients' outboxes. A request passes the gates that its row calls for, then `call` runs it;
//! EXEC and scripts come back to the same `call`. What a request changed is told to WATCH,
//! notifications and waiting clients afterwards, so no handler has to think of them.

use std::{
    collections::{HashMap, VecDeque},
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    time::{Duration, Instant},
};

use crate::{
    acl::{Denied, Request, Users},
    blocking::{Wait, Waiters, Waiting},
    bytestr::ByteStr,
    clock::Time,
    cluster,
    command::{
        self, Call, Categories, Command, Flags, Stop,
        acl::log_denied,
        diagnostics::protected,
        key_positions::key_positions,
        scripting::{RecentCommands, busy},
    },
    config::{Config, OutputLimit},
    error::Error,
    eviction::{self, Order},
    faults::{Faults, Verdict},
    info::Identity,
    keyspace::{Change, Class, Keyspace},
    latency::Latency,
    monitor,
    pubsub::{Message, PubSub},
    random::Random,
    reply::{Protocol, Reply},
    resp::Encoder,
    script::{Control, Functions, Scripts},
    session::{ClientId, Handle, Queued, ReplyMode, Session, Sessions},
    slowlog::SlowLog,
    stats::Stats,
    tracking::{self, Tracking},
    visits::{Visit, Visits},
};

/// How many expired keys one turn of the engine removes before others get theirs.
pub const EXPIRE_BUDGET: usize = 512;
pub const TOO_FEW_REPLICAS: Error = Error::text("NOREPLICAS Not enough good replicas to write.");
/// After a command that took so long a script looks at the time.
const SLOW_IN_SCRIPT: Duration = Duration::from_millis(1);
/// What the queue of a transaction may hold, in bytes.
const TRANSACTION_MAX: usize = 512 << 20;

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

/// How often clients are looked through while there is a reason to.
const SWEEP: Duration = Duration::from_secs(1);

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
    /// The script cache; none while no script has come, or while one runs.
    pub scripts: Option<Box<Scripts>>,
    /// The function libraries; none while none was loaded, or while a function runs.
    pub functions: Option<Box<Functions>>,
    pub script_control: Arc<Control>,
    /// What others ask while a script has the engine to itself.
    pub visits: Arc<Visits>,
    pub recent_commands: RecentCommands,
    /// Called once when a script turns out to run for long, from within it.
    pub on_busy: Option<fn()>,
    /// A client asked for the end of the server (SHUTDOWN).
    pub shutdown: bool,
    watchers: HashMap<(usize, ByteStr), Vec<ClientId>>,
    /// Messages for clients that are taken out at the moment.
    deferred: Vec<Deferred>,
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
            scripts: None,
            functions: None,
            script_control: Arc::new(Control::default()),
            visits: Arc::default(),
            recent_commands: RecentCommands::default(),
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

    // ---- Clients ----

    /// A new client; `addr` and `laddr` are what CLIENT LIST shows.
    pub fn connect(&mut self, handle: Arc<Handle>, addr: String, laddr: String) -> ClientId {
        let now = self.keys.now();
        let id = self.sessions.add(handle, addr, laddr, now);
        self.stats.connections += 1;
        let authenticated = self.is_open();
        if let Some(session) = self.sessions.get_mut(id) {
            session.authenticated = authenticated;
        }
        id
    }

    /// The client is gone, and all that it held with it.
    pub fn disconnect(&mut self, id: ClientId) {
        if let Some(mut session) = self.sessions.take(id) {
            self.reset_session(&mut session);
            self.sessions.retire(id);
        }
    }

    /// Ends a client's connection at once. It is gone when this returns.
    pub fn kill(&mut self, id: ClientId) {
        if let Some(session) = self.sessions.get(id) {
            session.handle.kill();
            self.disconnect(id);
        }
    }

    /// Whether a client may begin without a password.
    pub fn is_open(&self) -> bool {
        self.users.default_is_open()
    }

    /// A request as the rights of users see it.
    pub fn request<'a>(
        &self,
        session: &Session,
        command: &'static Command,
        args: &'a [&'a [u8]],
    ) -> Request<'a> {
        Request {
            command,
            args,
            db: session.db,
            databases: self.keys.databases(),
        }
    }

    /// Whether a session's user may make a request now. If not, it is written down.
    pub fn permit(
        &mut self,
        session: &Session,
        command: &'static Command,
        args: &[&[u8]],
        context: &'static str,
    ) -> Result<(), Denied> {
        let request = self.request(session, command, args);
        self.users
            .check(&session.user, request)
            .inspect_err(|denied| {
                let user = session.user.clone();
                log_denied(self, session, &user, context, denied.logged(command, args));
            })
    }

    /// Ends the connections of users that are gone, and of those that listen to what they no
    /// longer may. The session that asked for it is told to end by itself.
    pub fn end_unfit_sessions(&mut self, current: &mut Session) {
        if self.is_unfit(current) {
            current.closing = true;
        }
        let others = self.sessions.iter();
        let unfit = others.filter(|other| self.is_unfit(other));
        let ids: Vec<_> = unfit.map(|other| other.id).collect();
        for id in ids {
            self.kill(id);
        }
    }

    fn is_unfit(&self, session: &Session) -> bool {
        let admits = |channel: &ByteStr, is_pattern| {
            self.users.admit_channel(&session.user, channel, is_pattern)
        };
        self.users.get(session.user.as_bytes()).is_none()
            || !session.channels.iter().all(|name| admits(name, false))
            || !session
                .shard_channels
                .iter()
                .all(|name| admits(name, false))
            || !session.patterns.iter().all(|name| admits(name, true))
    }

    /// Holds clients back. Two pauses are one, as long as the longer and as strict as the
    /// stricter.
    pub fn pause(&mut self, pause: Pause) {
        let pause = match self.pause {
            Some(old) if old.until > self.keys.now() => Pause {
                until: old.until.max(pause.until),
                writes_only: old.writes_only && pause.writes_only,
            },
            _ => pause,
        };
        self.pause = Some(pause);
    }

    /// Ends whatever a session is in the middle of: wait, transaction, watches, subscriptions.
    pub fn reset_session(&mut self, session: &mut Session) {
        if let Some(waiting) = session.waiting.take() {
            self.waiters.remove(session.id, &waiting);
        }
        session.transaction = None;
        self.unwatch(session);
        for channel in session.channels.drain() {
            self.pubsub.channels.remove(&channel, session.id);
        }
        for pattern in session.patterns.drain() {
            self.pubsub.patterns.remove(&pattern, session.id);
        }
        for channel in session.shard_channels.drain() {
            self.pubsub.shard_channels.remove(&channel, session.id);
        }
        if std::mem::take(&mut session.tracking) {
            self.tracking.stop(session.id);
        }
        session.caching = None;
        if std::mem::take(&mut session.monitor) {
            self.monitors.retain(|&id| id != session.id);
        }
        self.refresh_observed();
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
        let mut done = self.keys.expire_due(EXPIRE_BUDGET);
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

    /// As `next_deadline`, perhaps too early; for a quick look after every batch.
    pub fn earliest(&self) -> Time {
        let keys = Time::from_millis(self.keys.earliest());
        let waits = self.waiters.next_deadline().unwrap_or(Time(u64::MAX));
        let pause = self.pause.map_or(Time(u64::MAX), |pause| pause.until);
        let sweep = self.next_sweep.unwrap_or(Time(u64::MAX));
        keys.min(waits).min(pause).min(sweep)
    }

    pub fn unpause(&mut self) {
        self.pause = None;
        for session in self.sessions.iter_mut().filter(|session| session.postponed) {
            session.postponed = false;
            session.handle.signal();
        }
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
        if !self.script_control.is_busy() {
            self.settle();
            self.send_broadcasts();
            if !self.deferred.is_empty() {
                self.send_deferred(Some((session, out)));
            }
        }
        if session.closing { Flow::Close } else { flow }
    }

    /// Is an ordinary client with so many bytes of replies over its limit?
    fn leaves_too_much_unread(&mut self, session: &mut Session, unread: usize) -> bool {
        let limit = self.config.hot.output_normal;
        if limit == OutputLimit::default() || session.subscriptions() > 0 {
            return false;
        }
        let now = self.keys.now();
        let exceeded = limit.is_exceeded(unread, &mut session.over_limit_since, now);
        if session.over_limit_since.is_some() {
            self.sweep_soon();
        }
        exceeded
    }

    /// Decides by the row alone whether a request may run now, then runs it.
    fn gated(&mut self, session: &mut Session, args: &[&[u8]], out: &mut Vec<u8>) -> Flow {
        const NO_AUTH: Error = Error::text("NOAUTH Authentication required.");
        let command = match command::lookup_after(session.last_command, args) {
            Ok(command) => command,
            // A browser that was tricked into talking to this port: whatever follows is not ours.
            Err(_) if is_http(args) => return Flow::Drop,
            // Who has not logged in learns nothing about what there is.
            Err(_) if !session.authenticated => return self.refuse(session, &NO_AUTH, out),
            Err(error) => return self.refuse(session, &error, out),
        };
        if !session.authenticated && !command.flags.has(Flags::NO_AUTH) {
            return self.turn_away(session, command, &NO_AUTH, out);
        }
        if !command.accepts(args.len()) {
            self.stats.rejected(command);
            let error = command::wrong_arity(command);
            return self.turn_away(session, command, &error, out);
        }
        session.last_command = Some(command);
        if command.flags.has(Flags::ADMIN)
            && let Some(error) = protected(self, session, command)
        {
            return self.turn_away(session, command, &error, out);
        }
        if session.transaction.is_some() && command.flags.has(Flags::NO_MULTI) {
            let error = Error::owned(format!(
                "ERR Command '{}' not allowed inside a transaction",
                command.name
            ));
            return self.refuse(session, &error, out);
        }
        let context = if session.transaction.is_some() {
            "multi"
        } else {
            "toplevel"
        };
        if let Err(denied) = self.permit(session, command, args, context) {
            let error = denied.error(&session.user, command);
            return self.turn_away(session, command, &error, out);
        }
        if let Some(error) = refused_while_subscribed(session, command) {
            return self.turn_away(session, command, &error, out);
        }
        if let Err(flow) = self.check_circumstances(session, command, args, out) {
            return flow;
        }
        if self.is_held_back(session, command) {
            return Flow::Postpone;
        }
        if session.transaction.is_some()
            && !matches!(command.name, "exec" | "discard" | "quit" | "reset")
        {
            return self.queue(session, command, args, out);
        }
        self.run(session, command, args, out)
    }

    /// Refuses what neither row nor session but the state of the server forbids.
    fn check_circumstances(
        &mut self,
        session: &mut Session,
        command: &'static Command,
        args: &[&[u8]],
        out: &mut Vec<u8>,
    ) -> Result<(), Flow> {
        if self.config.hot.cluster {
            match check_slots(session, command, args) {
                Ok(slot) => session.slot = slot,
                Err(error) => {
                    if command.name == "exec" {
                        session.transaction = None;
                        self.unwatch(session);
                    }
                    return Err(self.refuse(session, &error, out));
                }
            }
        }
        if self.script_control.is_busy() {
            if command.flags.has(Flags::ALLOW_BUSY) {
                return Ok(());
            }
            let busy = busy(&self.script_control);
            return Err(self.turn_away(session, command, &busy, out));
        }
        self.script_short_of_memory = false;
        if self.config.hot.max_memory > 0 {
            let short = self.is_short_of_memory();
            if self.keys.has_changes() {
                self.absorb(Some(session));
            }
            self.script_short_of_memory = short;
            if short && needs_memory(session, command) {
                return Err(self.turn_away(session, command, &OUT_OF_MEMORY, out));
            }
        }
        if self.config.hot.min_replicas > 0 && command.is_write() {
            return Err(self.refuse(session, &TOO_FEW_REPLICAS, out));
        }
        Ok(())
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
        // What the command itself changed, such as a count that it keeps, was never cached. Of a
        // script only what its commands read is.
        let reads =
            command.flags.has(Flags::READONLY) && !command.categories.has(Categories::SCRIPTING);
        if session.tracking && reads {
            self.remember_keys(session, command, args);
        }
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

    fn account(
        &mut self,
        session: &Session,
        command: &'static Command,
        args: &[&[u8]],
        failed: bool,
        replied: usize,
        start: Option<Instant>,
    ) {
        let took = if let Some(start) = start {
            let took = self.read_clock() - start;
            let (now, tracked) = (self.keys.now(), self.config.hot.latency_tracking);
            self.stats
                .commands(command, 1, took, u64::from(failed), now, tracked);
            took
        } else {
            self.count_unclocked(command, failed);
            Duration::ZERO
        };
        if took >= SLOW_IN_SCRIPT {
            self.script_control.note_slow();
        }
        let at = self.keys.now();
        let threshold = self.config.hot.latency_threshold;
        if threshold > 0 && took.as_millis() as u64 >= threshold {
            let fast = command.flags.has(Flags::FAST);
            let name = if fast { "fast-command" } else { "command" };
            self.latency.note(name, took.as_millis() as u64, at);
        }
        if command.flags.has(Flags::SKIP_SLOWLOG) {
            return;
        }
        let asked: usize = args.iter().map(|arg| arg.len()).sum();
        let [slow, large_request, large_reply] = self.config.hot.logs;
        for (log, limits, value) in [
            (&mut self.slowlog, slow, took.as_micros() as i64),
            (&mut self.large_requests, large_request, asked as i64),
            (&mut self.large_replies, large_reply, replied as i64),
        ] {
            if limits.threshold >= 0 && value >= limits.threshold {
                log.add(session, args, value, at, limits.max_len);
            }
        }
    }

    /// When a command starts. One that a client sends starts where the one before it ended, so
    /// that a pipeline needs one reading for each; one within a script or EXEC needs its own.
    fn start_clock(&mut self) -> Instant {
        if self.depth == 0 && self.unclocked.is_none() {
            self.stopwatch
        } else {
            self.read_clock()
        }
    }

    /// Reads the clock, and shares the time since the last reading among the quick commands that
    /// ran meanwhile without one of their own.
    fn read_clock(&mut self) -> Instant {
        let now = Instant::now();
        let since = now - std::mem::replace(&mut self.stopwatch, now);
        if let Some(Unclocked {
            command,
            calls,
            failed,
        }) = self.unclocked.take()
        {
            let tracked = self.config.hot.latency_tracking;
            self.stats
                .commands(command, calls, since, failed, self.keys.now(), tracked);
        }
        now
    }

    /// Counts a quick command whose time is measured together with its like. Reading the clock
    /// costs as much as a tenth of such a command.
    fn count_unclocked(&mut self, command: &'static Command, failed: bool) {
        match &mut self.unclocked {
            Some(unclocked) if std::ptr::eq(unclocked.command, command) => {
                unclocked.calls += 1;
                unclocked.failed += u64::from(failed);
            }
            _ => {
                // A script that has only begun took no time worth a reading.
                if self.unclocked.is_some() || self.script_control.has_looked() {
                    self.read_clock();
                }
                self.unclocked = Some(Unclocked {
                    command,
                    calls: 1,
                    failed: u64::from(failed),
                });
            }
        }
    }

    /// Is the slow log after nothing that a quick command could be?
    fn is_slowlog_coarse(&self) -> bool {
        const QUICK_MAX_MICROS: i64 = 1000;
        let threshold = self.config.hot.logs[0].threshold;
        let watched = self.config.hot.latency_threshold > 0;
        !watched && !(0..QUICK_MAX_MICROS).contains(&threshold)
    }

    /// Ends a turn: what was counted so far shows in the statistics.
    pub fn end_turn(&mut self) {
        if self.unclocked.is_some() {
            self.read_clock();
        }
    }

    /// Answers a request that a gate turned away, and fails the transaction that it is part of.
    fn refuse(&mut self, session: &mut Session, error: &Error, out: &mut Vec<u8>) -> Flow {
        if let Some(transaction) = &mut session.transaction {
            transaction.aborted = true;
        }
        self.stats.error(error.code());
        Encoder::new(out, session.protocol).error(error);
        Flow::Continue
    }

    /// Refuses a known command; an EXEC that is turned away ends the transaction.
    fn turn_away(
        &mut self,
        session: &mut Session,
        command: &Command,
        why: &Error,
        out: &mut Vec<u8>,
    ) -> Flow {
        if command.name != "exec" {
            return self.refuse(session, why, out);
        }
        session.transaction = None;
        self.unwatch(session);
        let why = why.as_bytes();
        let mut text = b"EXECABORT Transaction discarded because of: ".to_vec();
        text.extend(why.strip_prefix(b"ERR ").unwrap_or(why));
        self.refuse(session, &Error::owned(text), out)
    }

    fn queue(
        &mut self,
        session: &mut Session,
        command: &'static Command,
        args: &[&[u8]],
        out: &mut Vec<u8>,
    ) -> Flow {
        let protocol = session.protocol;
        if let Some(transaction) = &mut session.transaction {
            let args: Vec<Vec<u8>> = args.iter().map(|arg| arg.to_vec()).collect();
            let bytes: usize = args.iter().map(Vec::len).sum();
            transaction.args_size += bytes;
            transaction.size += bytes + args.len() * 32;
            if transaction.size > TRANSACTION_MAX {
                const TOO_LARGE: Error = Error::text("ERR the transaction holds too many bytes");
                return self.refuse(session, &TOO_LARGE, out);
            }
            // What a failed transaction queues is never run, so it need not be kept.
            if !transaction.aborted {
                transaction.queue.push(Queued { command, args });
            }
        }
        Encoder::new(out, protocol).simple("QUEUED");
        Flow::Continue
    }

    fn is_held_back(&self, session: &Session, command: &Command) -> bool {
        let Some(pause) = self.pause else {
            return false;
        };
        if pause.until <= self.keys.now() {
            return false;
        }
        // As in the references, CLIENT UNPAUSE too waits for the end of a pause of everything.
        if !pause.writes_only {
            return true;
        }
        let writes =
            |command: &Command| command.is_write() || command.flags.has(Flags::MAY_REPLICATE);
        match &session.transaction {
            Some(transaction) if command.name == "exec" => transaction
                .queue
                .iter()
                .any(|queued| writes(queued.command)),
            _ => writes(command),
        }
    }

    // ---- Watching ----

    pub fn watch(&mut self, session: &mut Session, key: &[u8]) {
        let watched = (session.db, ByteStr::new(key));
        // Asked of the key, not of the session, which may watch a great many keys.
        if let Some(ids) = self.watchers.get(&watched)
            && ids.contains(&session.id)
        {
            return;
        }
        // A key whose time has passed is gone already, and its going must not trip the watch.
        self.keys.exists(key);
        self.absorb(Some(session));
        self.watchers
            .entry(watched.clone())
            .or_default()
            .push(session.id);
        session.watched.push(watched);
        self.keys.observed = true;
    }

    pub fn unwatch(&mut self, session: &mut Session) {
        for watched in session.watched.drain(..) {
            if let Some(ids) = self.watchers.get_mut(&watched) {
                ids.retain(|&id| id != session.id);
                if ids.is_empty() {
                    self.watchers.remove(&watched);
                }
            }
        }
        session.watch_tripped = false;
        self.refresh_observed();
    }

    /// Lets watched keys whose time has passed trip their watches.
    pub fn check_watched(&mut self, session: &mut Session) {
        for (db, key) in session.watched.clone() {
            self.keys.select(db);
            self.keys.exists(&key);
        }
        self.keys.select(session.db);
        self.absorb(Some(session));
    }

    /// Trips every watch on a key that exists in either of two databases about to be exchanged.
    pub fn trip_swapped(&mut self, session: &mut Session, one: usize, other: usize) {
        let named: Vec<_> = self
            .watchers
            .keys()
            .filter(|(db, _)| *db == one || *db == other)
            .cloned()
            .collect();
        for (db, key) in named {
            let exists = [one, other].into_iter().any(|db| {
                self.keys.select(db);
                self.keys.exists(&key)
            });
            if exists {
                self.trip(Some(&mut *session), db, &key);
            }
        }
        self.keys.select(session.db);
    }

    /// Empties a database, which changes the keys that it holds and no others.
    pub fn flush(&mut self, session: &mut Session, db: usize) {
        self.trip_swapped(session, db, db);
        self.keys.flush(db);
    }

    fn trip(&mut self, current: Option<&mut Session>, db: usize, key: &ByteStr) {
        let Some(ids) = self.watchers.get(&(db, key.clone())) else {
            return;
        };
        let current_id = current.as_ref().map(|session| session.id);
        for &id in ids {
            if let Some(session) = self.sessions.get_mut(id) {
                session.watch_tripped = true;
            }
        }
        if let (Some(session), Some(id)) = (current, current_id)
            && ids.contains(&id)
        {
            session.watch_tripped = true;
        }
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

    // ---- What follows from changes ----

    /// Tells watchers, listeners and waiters what the keyspace noted.
    fn absorb(&mut self, mut current: Option<&mut Session>) {
        for change in self.keys.take_changes() {
            match change {
                Change::Key {
                    db,
                    key,
                    touched,
                    event,
                } => {
                    if touched {
                        self.trip(current.as_deref_mut(), db, &key);
                        self.waiters.key_changed(db, &key);
                        if self.tracking.is_active() {
                            let by = current.as_ref().map(|session| session.id);
                            let messages = self.tracking.key_changed(&key, by);
                            self.send_invalidations(messages);
                        }
                    }
                    if let Some(event) = event {
                        self.notify(db, &key, event.name);
                    }
                }
                Change::Flushed { db } => self.waiters.database_changed(db),
            }
        }
    }

    /// As after a command, when there was none: for the timer and for direct access.
    pub fn after_changes(&mut self) {
        self.absorb(None);
        self.settle();
        self.send_broadcasts();
        self.send_deferred(None);
    }

    /// Runs waiting requests again whose keys changed, oldest first.
    fn settle(&mut self) {
        while let Some((db, key, waiting)) = self.waiters.next_ready() {
            for id in waiting {
                self.keys.select(db);
                let found = self.keys.peek(&key).map(|entry| entry.value.type_name());
                self.rerun(id, found);
            }
        }
    }

    /// Runs a waiting request again, a key of which now holds a value of the type `found`.
    fn rerun(&mut self, id: ClientId, found: Option<&str>) {
        let Some(mut session) = self.sessions.take(id) else {
            return;
        };
        // A value of another type does not end a wait: the right one may still come. To run a
        // request of many keys for each of them would take the square of their number.
        if let Some(waiting) = session
            .waiting
            .take_if(|waiting| waiting.wait.on_loss || found == Some(waiting.awaited()))
        {
            self.rerun_waiting(&mut session, waiting);
        }
        self.sessions.put(session);
    }

    fn rerun_waiting(&mut self, session: &mut Session, waiting: Waiting) {
        let args: Vec<&[u8]> = waiting.args.iter().map(Vec::as_slice).collect();
        let mut outbox = std::mem::take(&mut session.outbox);
        let start = outbox.len();
        let protocol = session.protocol;
        let db = std::mem::replace(&mut session.db, waiting.db);
        let mut encoder = Encoder::new(&mut outbox, protocol);
        // What it may do can have changed while it waited.
        let result = match self.permit(session, waiting.command, &args, "toplevel") {
            Ok(()) => {
                self.rerunning = true;
                let result = self.call(session, waiting.command, &args, &mut encoder);
                self.rerunning = false;
                result
            }
            Err(denied) => {
                encoder.error(&denied.error(&session.user, waiting.command));
                Ok(())
            }
        };
        session.db = db;
        // One of the right type ends it even with an error, as when BLMOVE cannot store what it
        // would take.
        if result.is_err() {
            outbox.truncate(start);
            session.outbox = outbox;
            session.waiting = Some(waiting);
            return;
        }
        self.waiters.remove(session.id, &waiting);
        session.outbox = outbox;
        self.finish_wait(session, start);
    }

    /// Ends a client's wait with a reply of its own making, if it waits.
    pub fn end_wait(
        &mut self,
        id: ClientId,
        answer: impl FnOnce(&Waiting, &mut dyn Reply),
    ) -> bool {
        let Some(session) = self.sessions.get_mut(id) else {
            return false;
        };
        let Some(waiting) = session.waiting.take() else {
            return false;
        };
        let start = session.outbox.len();
        answer(
            &waiting,
            &mut Encoder::new(&mut session.outbox, session.protocol),
        );
        self.waiters.remove(id, &waiting);
        if let Some(mut session) = self.sessions.take(id) {
            self.finish_wait(&mut session, start);
            self.sessions.put(session);
        }
        true
    }

    fn finish_wait(&mut self, session: &mut Session, reply_from: usize) {
        if session.reply_mode != ReplyMode::On {
            session.outbox.truncate(reply_from);
        }
        if session.reply_mode == ReplyMode::SkipThis {
            session.reply_mode = ReplyMode::On;
        }
        session.handle.signal();
        self.refresh_observed();
    }

    /// How many keys are watched.
    pub fn watched_keys(&self) -> usize {
        self.watchers.len()
    }

    pub fn refresh_observed(&mut self) {
        self.keys.observed =
            !self.watchers.is_empty() || !self.waiters.is_empty() || self.tracking.is_active();
    }

    // ---- Memory ----

    /// What counts against `maxmemory`, in bytes; what the process occupies when there is none.
    pub fn used_memory(&self) -> usize {
        if self.memory_base > 0 {
            self.memory_base + self.keys.bytes()
        } else {
            crate::machine::resident() as usize
        }
    }

    /// Evicts keys until the data fits; tells whether it still does not.
    fn is_short_of_memory(&mut self) -> bool {
        /// A request evicts at most so many; the next ones go on where it stopped.
        const EVICTIONS: usize = 1000;
        let hot = &self.config.hot;
        let (limit, policy) = (hot.max_memory, hot.eviction);
        for _ in 0..EVICTIONS {
            if self.used_memory() <= limit {
                return false;
            }
            if !eviction::evict_one(&mut self.keys, policy, &mut self.random) {
                return true;
            }
        }
        false
    }

    // ---- Tracking ----

    /// Remembers the keys that a request of a tracking client has read.
    fn remember_keys(&mut self, session: &Session, command: &Command, args: &[&[u8]]) {
        let Some(mode) = self.tracking.mode(session.id) else {
            return;
        };
        let cached = if mode.opt_in {
            session.caching == Some(true)
        } else {
            !(mode.opt_out && session.caching == Some(false))
        };
        if mode.broadcast || !cached {
            return;
        }
        for position in key_positions(command, args).unwrap_or_default() {
            if let Some(key) = args.get(position.index) {
                self.tracking.remember(session.id, key);
                self.keys.observed = true;
            }
        }
        let messages = self.tracking.shrink(self.config.hot.tracking_keys_max);
        self.send_invalidations(messages);
    }

    /// All keys are gone: tells everybody who tracks.
    pub fn invalidate_all(&mut self) {
        let messages = self.tracking.flushed();
        self.send_invalidations(messages);
    }

    fn send_broadcasts(&mut self) {
        if self.tracking.has_broadcasts() {
            let messages = self.tracking.take_broadcasts();
            self.send_invalidations(messages);
        }
    }

    fn send_invalidations(&mut self, messages: Vec<tracking::Message>) {
        for message in messages {
            let keys = message.keys.as_deref();
            let redirect = self
                .tracking
                .mode(message.to)
                .and_then(|mode| mode.redirect);
            let Some(number) = redirect else {
                self.send(message.to, |encoder| tracking::write(encoder, keys, false));
                continue;
            };
            match self.sessions.by_number(number) {
                Some(target) => {
                    let session = self.sessions.get(target);
                    let subscriber = session.is_some_and(|session| session.subscriptions() > 0);
                    self.send(target, |encoder| tracking::write(encoder, keys, subscriber));
                }
                None => self.report_broken_redirect(message.to, number),
            }
        }
    }

    fn report_broken_redirect(&mut self, id: ClientId, number: u64) {
        self.tracking.set_broken(id);
        self.send(id, |encoder| {
            if encoder.protocol() == Protocol::Resp3 {
                encoder.push(2);
                encoder.bulk(b"tracking-redir-broken");
                encoder.integer(number as i64);
            }
        });
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
        self.script_control.set_threshold_ms(threshold_ms);
        if self.config.hot.timeout > 0 {
            self.sweep_soon();
        }
        if let Some(changed) = &self.on_settings {
            changed(&self.config);
        }
    }

    /// Takes the function libraries out, to be put back.
    #[expect(
        clippy::unnecessary_box_returns,
        reason = "it goes back into its place as it is"
    )]
    pub fn take_functions(&mut self) -> Box<Functions> {
        let control = &self.script_control;
        self.functions
            .take()
            .unwrap_or_else(|| Box::new(Functions::new(Arc::clone(control))))
    }

    /// Takes the scripts out, to be put back; makes their cache when the first one comes.
    pub fn take_scripts(&mut self) -> Box<Scripts> {
        let control = &self.script_control;
        self.scripts
            .take()
            .unwrap_or_else(|| Box::new(Scripts::new(Arc::clone(control))))
    }

    // ---- Messages ----

    /// Tells a keyspace event on the channels that the settings select.
    fn notify(&mut self, db: usize, key: &[u8], event: &'static str) {
        let notify = self.config.hot.notify;
        if notify & Class::KEYSPACE.0 != 0 {
            let channel = [format!("__keyspace@{db}__:").as_bytes(), key].concat();
            self.publish(&channel, event.as_bytes());
        }
        if notify & Class::KEYEVENT.0 != 0 {
            let channel = format!("__keyevent@{db}__:{event}");
            self.publish(channel.as_bytes(), key);
        }
    }

    /// Sends a message to all who listen to the channel, and tells how many that were.
    pub fn publish(&mut self, channel: &[u8], payload: &[u8]) -> usize {
        let direct = self.pubsub.channels.of(channel).to_vec();
        let by_pattern: Vec<(ByteStr, Vec<ClientId>)> = if self.pubsub.patterns.is_empty() {
            Vec::new()
        } else {
            let matching = self.pubsub.patterns.matching(channel);
            matching
                .map(|(pattern, ids)| (pattern.clone(), ids.to_vec()))
                .collect()
        };
        for &id in &direct {
            self.send_message(id, b"message", None, channel, payload);
        }
        let mut receivers = direct.len();
        for (pattern, ids) in &by_pattern {
            for &id in ids {
                self.send_message(id, b"pmessage", Some(pattern), channel, payload);
            }
            receivers += ids.len();
        }
        receivers
    }

    /// As `publish`, for the channels of sharded pub/sub.
    pub fn publish_sharded(&mut self, channel: &[u8], payload: &[u8]) -> usize {
        let ids = self.pubsub.shard_channels.of(channel).to_vec();
        for &id in &ids {
            self.send_message(id, b"smessage", None, channel, payload);
        }
        ids.len()
    }

    fn send_message(
        &mut self,
        id: ClientId,
        kind: &[u8],
        pattern: Option<&[u8]>,
        channel: &[u8],
        payload: &[u8],
    ) {
        if let Some(local) = self
            .sessions
            .get(id)
            .and_then(|session| session.local.as_ref())
        {
            let pattern = pattern.map(<[u8]>::to_vec);
            let message = Message {
                channel: channel.to_vec(),
                pattern,
                payload: payload.to_vec(),
            };
            // A subscriber that was dropped is unsubscribed by its own drop.
            let _ = local.send(message);
            return;
        }
        self.send(id, |encoder| {
            encoder.push(if pattern.is_some() { 4 } else { 3 });
            encoder.bulk(kind);
            if let Some(pattern) = pattern {
                encoder.bulk(pattern);
            }
            encoder.bulk(channel);
            encoder.bulk(payload);
        });
    }

    /// Appends to a client's outbox. One that leaves too much unread is dropped.
    pub fn send(&mut self, id: ClientId, write: impl Fn(&mut Encoder<'_>)) {
        let now = self.keys.now();
        let Some(session) = self.sessions.get_mut(id) else {
            // It is taken out: its own request, or the one that it waited with, is running.
            let mut deferred = Deferred {
                id,
                resp2: Vec::new(),
                resp3: Vec::new(),
            };
            write(&mut Encoder::new(&mut deferred.resp2, Protocol::Resp2));
            write(&mut Encoder::new(&mut deferred.resp3, Protocol::Resp3));
            self.deferred.push(deferred);
            return;
        };
        if session.handle.is_killed() {
            return;
        }
        write(&mut Encoder::new(&mut session.outbox, session.protocol));
        let unread = session.outbox.len()
            + session
                .handle
                .unwritten
                .load(std::sync::atomic::Ordering::Relaxed);
        let hot = &self.config.hot;
        // Who is sent messages must have a limit, whatever holds for its own replies.
        let subscribed = session.subscriptions() > 0 || hot.output_normal == OutputLimit::default();
        let limit = if subscribed {
            hot.output_pubsub
        } else {
            hot.output_normal
        };
        let exceeded = limit.is_exceeded(unread, &mut session.over_limit_since, now);
        let slow = session.over_limit_since.is_some();
        if exceeded {
            self.stats.output_limit_disconnections += 1;
            self.kill(id);
        } else {
            session.handle.signal();
            if slow {
                self.sweep_soon();
            }
        }
    }

    fn sweep_soon(&mut self) {
        let soon = Time(self.keys.now().0 + SWEEP.as_micros() as u64);
        self.next_sweep.get_or_insert(soon);
    }

    /// Ends connections that were idle or slow for too long.
    fn sweep(&mut self) {
        let (now, timeout) = (self.keys.now(), self.config.hot.timeout);
        let (normal, pubsub) = (self.config.hot.output_normal, self.config.hot.output_pubsub);
        let (mut idle, mut slow, mut again) = (Vec::new(), Vec::new(), timeout > 0);
        for session in self.sessions.iter_mut() {
            let subscribed = session.subscriptions() > 0;
            let idle_for = now.seconds().saturating_sub(session.last_active.seconds());
            let busy = subscribed || session.waiting.is_some() || session.monitor;
            if timeout > 0 && idle_for > timeout && !busy {
                idle.push(session.id);
            }
            if session.over_limit_since.is_some() {
                let unread = session.unread();
                let limit = if subscribed || normal == OutputLimit::default() {
                    pubsub
                } else {
                    normal
                };
                if limit.is_exceeded(unread, &mut session.over_limit_since, now) {
                    slow.push(session.id);
                }
                again |= session.over_limit_since.is_some();
            }
        }
        self.stats.output_limit_disconnections += slow.len() as u64;
        for id in idle.into_iter().chain(slow) {
            self.kill(id);
        }
        if again {
            self.sweep_soon();
        }
    }

    /// Sends what could not be sent while its receiver was taken out; what is for the current
    /// client follows the reply to its request.
    fn send_deferred(&mut self, mut current: Option<(&Session, &mut Vec<u8>)>) {
        for deferred in std::mem::take(&mut self.deferred) {
            match &mut current {
                Some((session, out)) if session.id == deferred.id => {
                    out.extend_from_slice(deferred.bytes(session.protocol));
                }
                _ => {
                    if let Some(session) = self.sessions.get_mut(deferred.id) {
                        session
                            .outbox
                            .extend_from_slice(deferred.bytes(session.protocol));
                        session.handle.signal();
                    }
                }
            }
        }
    }
}

/// Quick commands of one kind since the clock was read.
struct Unclocked {
    command: &'static Command,
    calls: u64,
    failed: u64,
}

/// A message whose receiver is taken out: it is encoded for either protocol.
struct Deferred {
    id: ClientId,
    resp2: Vec<u8>,
    resp3: Vec<u8>,
}

impl Deferred {
    fn bytes(&self, protocol: Protocol) -> &[u8] {
        match protocol {
            Protocol::Resp2 => &self.resp2,
            Protocol::Resp3 => &self.resp3,
        }
    }
}

/// Would the request add to the data, now or when the transaction runs?
fn needs_memory(session: &Session, command: &Command) -> bool {
    match &session.transaction {
        Some(transaction) if command.name == "exec" => transaction
            .queue
            .iter()
            .any(|queued| queued.command.flags.has(Flags::DENYOOM)),
        _ => command.flags.has(Flags::DENYOOM),
    }
}

/// The slot of a request's keys, which a cluster wants to be the same for all of them.
fn check_slots(session: &Session, command: &Command, args: &[&[u8]]) -> Result<Option<u16>, Error> {
    match &session.transaction {
        Some(transaction) if command.name == "exec" && !transaction.aborted => {
            let queue = transaction.queue.iter();
            cluster::check_together(queue.map(|queued| (queued.command, &*queued.args)))?;
            Ok(None)
        }
        _ => cluster::slot_of_request(command, args),
    }
}

/// Is it the start of an HTTP request, or one of its headers?
fn is_http(args: &[&[u8]]) -> bool {
    let name = args.first().copied().unwrap_or_default();
    name.eq_ignore_ascii_case(b"post") || name.eq_ignore_ascii_case(b"host:")
}

/// A RESP2 client that subscribed may only do what concerns its subscriptions.
fn refused_while_subscribed(session: &Session, command: &Command) -> Option<Error> {
    if session.protocol == Protocol::Resp3 || session.subscriptions() == 0 {
        return None;
    }
    let allowed = [
        "ping",
        "subscribe",
        "ssubscribe",
        "sunsubscribe",
        "psubscribe",
        "unsubscribe",
        "punsubscribe",
        "quit",
        "reset",
    ];
    if allowed.contains(&command.name) {
        return None;
    }
    Some(Error::owned(format!(
        "ERR Can't execute '{}': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are allowed in this context",
        command.name
    )))
}
