//! Clients that cache what they read are told when it changes.

use super::Engine;
use crate::{
    command::{
        Command, is_word,
        key_positions::key_positions,
        spec::{Categories, Flags},
    },
    reply::{Protocol, Reply},
    session::{ClientId, Session},
    tracking,
};

impl Engine {
    /// Remembers the keys that a request of a tracking client reads, or waits to read. Of a script
    /// only what its commands read is remembered.
    pub(super) fn remember_keys(&mut self, session: &Session, command: &Command, args: &[&[u8]]) {
        let reads =
            command.flags.has(Flags::READONLY) && !command.categories.has(Categories::SCRIPTING);
        if !session.tracking || !reads {
            return;
        }
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
        if command.name == "xread" && !names_streams(args) {
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
    pub fn invalidate_all(&mut self, by: &Session) {
        for message in self.tracking.flushed() {
            // Whoever gets it, it has the null of the client that tracks.
            let own = self
                .sessions
                .get(message.to)
                .map(|session| session.protocol);
            self.send_invalidation(&message, own.unwrap_or(by.protocol));
        }
    }

    pub(super) fn send_broadcasts(&mut self) {
        if self.tracking.has_broadcasts() {
            let messages = self.tracking.take_broadcasts();
            self.send_invalidations(messages);
        }
    }

    pub(super) fn send_invalidations(&mut self, messages: Vec<tracking::Message>) {
        for message in messages {
            self.send_invalidation(&message, Protocol::Resp3);
        }
    }

    fn send_invalidation(&mut self, message: &tracking::Message, null: Protocol) {
        let keys = message.keys.as_deref();
        let mode = self.tracking.mode(message.to);
        let Some(number) = mode.and_then(|mode| mode.redirect) else {
            self.send(message.to, |encoder| {
                tracking::write(encoder, keys, null, false);
            });
            return;
        };
        let Some(target) = self.sessions.by_number(number) else {
            self.report_broken_redirect(message.to, number);
            return;
        };
        let session = self.sessions.get(target);
        let subscriber = session.is_some_and(|session| session.subscriptions() > 0);
        self.send(target, |encoder| {
            tracking::write(encoder, keys, null, subscriber);
        });
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

/// Does XREAD name streams as it should? Of one that does not nothing is remembered, though its
/// keys can be told.
fn names_streams(args: &[&[u8]]) -> bool {
    let mut at = 1;
    while let Some(word) = args.get(at) {
        at += match () {
            () if is_word(word, "STREAMS") => return (args.len() - at - 1).is_multiple_of(2),
            () if is_word(word, "COUNT") || is_word(word, "BLOCK") => 2,
            () if is_word(word, "GROUP") => 3,
            () if is_word(word, "NOACK") => 1,
            () => return false,
        };
    }
    false
}
