//! Messages to clients that did not ask just now: what is published, and keyspace events.

use super::Engine;
use crate::{
    bytestr::ByteStr,
    config::OutputLimit,
    keyspace::Class,
    pubsub::Message,
    reply::{Protocol, Reply},
    resp::Encoder,
    session::{ClientId, Session},
};

impl Engine {
    /// Tells a keyspace event on the channels that the settings select.
    pub(super) fn notify(&mut self, db: usize, key: &[u8], event: &'static str) {
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
            self.told += 1;
            if slow {
                self.sweep_soon();
            }
        }
    }

    /// Sends what could not be sent while its receiver was taken out; what is for the current
    /// client follows the reply to its request.
    pub(super) fn send_deferred(&mut self, mut current: Option<(&Session, &mut Vec<u8>)>) {
        for deferred in std::mem::take(&mut self.deferred) {
            match &mut current {
                Some((session, out)) if session.id == deferred.id => {
                    out.extend_from_slice(deferred.bytes(session.protocol));
                }
                _ => self.hand_over(&deferred),
            }
        }
    }

    /// Sends a client that is back what could not be sent while it was taken out.
    pub(super) fn send_deferred_to(&mut self, id: ClientId) {
        let all = std::mem::take(&mut self.deferred);
        let (its, others): (Vec<_>, Vec<_>) =
            all.into_iter().partition(|deferred| deferred.id == id);
        self.deferred = others;
        for deferred in its {
            self.hand_over(&deferred);
        }
    }

    fn hand_over(&mut self, deferred: &Deferred) {
        if let Some(session) = self.sessions.get_mut(deferred.id) {
            session
                .outbox
                .extend_from_slice(deferred.bytes(session.protocol));
            session.handle.signal();
        }
    }
}

/// A message whose receiver is taken out: it is encoded for either protocol.
pub(super) struct Deferred {
    id: ClientId,
    resp2: Vec<u8>,
    resp3: Vec<u8>,
}

impl Deferred {
    pub(super) fn bytes(&self, protocol: Protocol) -> &[u8] {
        match protocol {
            Protocol::Resp2 => &self.resp2,
            Protocol::Resp3 => &self.resp3,
        }
    }
}
