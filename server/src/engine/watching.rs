//! WATCH: who is to be told that a key changed before their EXEC.

use super::Engine;
use crate::{bytestr::ByteStr, session::Session};

impl Engine {
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

    pub(super) fn trip(&mut self, current: Option<&mut Session>, db: usize, key: &ByteStr) {
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

    /// How many keys are watched.
    pub fn watched_keys(&self) -> usize {
        self.watchers.len()
    }
}
