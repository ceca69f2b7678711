//! Clients that cache what they read are told when it changes.

use super::Engine;
use crate::{
    command::{Command, key_positions::key_positions},
    reply::{Protocol, Reply},
    session::{ClientId, Session},
    tracking,
};

impl Engine {
    /// Remembers the keys that a request of a tracking client has read.
    pub(super) fn remember_keys(&mut self, session: &Session, command: &Command, args: &[&[u8]]) {
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

    pub(super) fn send_broadcasts(&mut self) {
        if self.tracking.has_broadcasts() {
            let messages = self.tracking.take_broadcasts();
            self.send_invalidations(messages);
        }
    }

    pub(super) fn send_invalidations(&mut self, messages: Vec<tracking::Message>) {
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
}
