//! What follows from changes: the keyspace notes them, and here they reach watchers, listeners,
//! clients that cache and waiting requests, which are run again.

use super::Engine;
use crate::{
    blocking::Waiting,
    keyspace::{Change, Touch},
    reply::Reply,
    resp::Encoder,
    session::{ClientId, ReplyMode, Session},
};

impl Engine {
    /// Tells watchers, listeners and waiters what the keyspace noted.
    pub(super) fn absorb(&mut self, mut current: Option<&mut Session>) {
        for change in self.keys.take_changes() {
            match change {
                Change::Key {
                    db,
                    key,
                    touch,
                    event,
                } => {
                    if touch != Touch::No {
                        self.trip(current.as_deref_mut(), db, &key);
                        self.waiters.key_touched(db, &key, touch);
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
    pub(super) fn settle(&mut self) {
        while let Some(ready) = self.waiters.next_ready() {
            for id in ready.waiting {
                self.keys.select(ready.db);
                let entry = self.keys.peek(&ready.key);
                let found = entry.map(|entry| entry.value.type_name());
                self.rerun(id, found.filter(|_| ready.touch == Touch::Changed));
            }
        }
    }

    /// Runs a waiting request again, a key of which now holds a value of the type `found` that may
    /// end its wait.
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
        // What it is told of its own request comes before what others do next.
        self.send_deferred_to(id);
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

    pub fn refresh_observed(&mut self) {
        self.keys.observed =
            !self.watchers.is_empty() || !self.waiters.is_empty() || self.tracking.is_active();
    }
}
