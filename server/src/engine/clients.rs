//! Clients come and go, and what their users may do; those that are idle or slow for too long
//! are sent away.

use std::{sync::Arc, time::Duration};

use super::Engine;
use crate::{
    acl::{Denied, Request},
    bytestr::ByteStr,
    clock::Time,
    command::{Command, acl::log_denied},
    config::OutputLimit,
    session::{ClientId, Handle, Session},
};

/// How often clients are looked through while there is a reason to.
const SWEEP: Duration = Duration::from_secs(1);

impl Engine {
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

    /// Is an ordinary client with so many bytes of replies over its limit?
    pub(super) fn leaves_too_much_unread(&mut self, session: &mut Session, unread: usize) -> bool {
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

    pub(super) fn sweep_soon(&mut self) {
        let soon = Time(self.keys.now().0 + SWEEP.as_micros() as u64);
        self.next_sweep.get_or_insert(soon);
    }

    /// Ends connections that were idle or slow for too long.
    pub(super) fn sweep(&mut self) {
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
}
