//! What a request must pass before it runs: its row, its client and the state of the server
//! decide, and nobody reads its arguments but for what user and keys they name.

use super::{Engine, Flow, OUT_OF_MEMORY, Pause, TOO_FEW_REPLICAS};
use crate::{
    cluster,
    command::{self, Command, Flags, diagnostics::protected},
    error::Error,
    eviction,
    reply::{Protocol, Reply},
    resp::Encoder,
    session::{Queued, Session},
};

/// What the queue of a transaction may hold, in bytes.
const TRANSACTION_MAX: usize = 512 << 20;

impl Engine {
    /// Decides by the row alone whether a request may run now, then runs it.
    pub(super) fn gated(
        &mut self,
        session: &mut Session,
        args: &[&[u8]],
        out: &mut Vec<u8>,
    ) -> Flow {
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
        if self.scripting.control.is_busy() {
            if command.flags.has(Flags::ALLOW_BUSY) {
                return Ok(());
            }
            let busy = self.scripting.control.busy_error();
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

    pub fn unpause(&mut self) {
        self.pause = None;
        for session in self.sessions.iter_mut().filter(|session| session.postponed) {
            session.postponed = false;
            session.handle.signal();
        }
    }

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
        if self.used_memory() <= self.config.hot.max_memory {
            return false;
        }
        self.watched("eviction-cycle", Engine::evict)
    }

    fn evict(&mut self) -> bool {
        /// A request evicts at most so many; the next ones go on where it stopped.
        const EVICTIONS: usize = 1000;
        let hot = &self.config.hot;
        let (limit, policy) = (hot.max_memory, hot.eviction);
        for _ in 0..EVICTIONS {
            let evicted = self.watched("eviction-del", |engine| {
                eviction::evict_one(&mut engine.keys, policy, &mut engine.random)
            });
            if !evicted {
                return true;
            }
            if self.used_memory() <= limit {
                return false;
            }
        }
        false
    }

    /// Answers a request that a gate turned away, and fails the transaction that it is part of.
    pub(super) fn refuse(
        &mut self,
        session: &mut Session,
        error: &Error,
        out: &mut Vec<u8>,
    ) -> Flow {
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
