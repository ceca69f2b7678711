//! A consumer group: how far it has read, what its consumers have not acknowledged.

use std::collections::{BTreeMap, BTreeSet};

use super::StreamId;
use crate::bytestr::ByteStr;

/// A group of consumers that share the entries of a stream.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Group {
    /// The last entry that was delivered.
    pub last_id: StreamId,
    /// How many entries were read, where that is known.
    pub entries_read: Option<u64>,
    pending: BTreeMap<StreamId, Pending>,
    consumers: BTreeMap<ByteStr, Consumer>,
}

/// An entry that was delivered and not yet acknowledged.
#[derive(Clone, Debug, PartialEq)]
pub struct Pending {
    /// Who has it.
    pub consumer: ByteStr,
    /// When it was delivered last, in milliseconds since 1970.
    pub delivered_ms: u64,
    /// How often it was delivered.
    pub deliveries: u64,
}

/// A member of a group.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Consumer {
    /// When it last tried, in milliseconds since 1970.
    pub seen_ms: u64,
    /// When it last got or claimed something.
    pub active_ms: Option<u64>,
    pending: BTreeSet<StreamId>,
}

impl Consumer {
    /// The IDs of the entries that it has not acknowledged.
    pub fn pending(&self) -> &BTreeSet<StreamId> {
        &self.pending
    }
}

impl Group {
    /// A group that starts behind an entry.
    pub fn new(last_id: StreamId, entries_read: Option<u64>) -> Group {
        Group {
            last_id,
            entries_read,
            ..Group::default()
        }
    }

    /// All that is not acknowledged.
    pub fn pending(&self) -> &BTreeMap<StreamId, Pending> {
        &self.pending
    }

    /// The consumers, by name.
    pub fn consumers(&self) -> &BTreeMap<ByteStr, Consumer> {
        &self.consumers
    }

    /// A consumer by its name.
    pub fn consumer_mut(&mut self, name: &[u8]) -> Option<&mut Consumer> {
        self.consumers.get_mut(name)
    }

    /// Adds a consumer, seen now; false when there is one of that name.
    pub fn add_consumer(&mut self, name: &[u8], now_ms: u64) -> bool {
        if self.consumers.contains_key(name) {
            return false;
        }
        let consumer = Consumer {
            seen_ms: now_ms,
            ..Consumer::default()
        };
        self.consumers.insert(ByteStr::new(name), consumer);
        true
    }

    /// Notes that a consumer was seen, and adds it if it is new; true then.
    pub fn meet(&mut self, name: &[u8], now_ms: u64) -> bool {
        if let Some(consumer) = self.consumers.get_mut(name) {
            consumer.seen_ms = now_ms;
            return false;
        }
        self.add_consumer(name, now_ms)
    }

    /// Notes that a consumer got something.
    pub fn note_activity(&mut self, name: &[u8], now_ms: u64) {
        if let Some(consumer) = self.consumers.get_mut(name) {
            consumer.active_ms = Some(now_ms);
        }
    }

    /// Whether an entry was read and acknowledged.
    pub fn is_done(&self, id: StreamId) -> bool {
        id <= self.last_id && !self.pending.contains_key(&id)
    }

    /// Removes a consumer and forgets what it had; tells how much that was, if it existed.
    pub fn remove_consumer(&mut self, name: &[u8]) -> Option<usize> {
        let consumer = self.consumers.remove(name)?;
        for id in &consumer.pending {
            self.pending.remove(id);
        }
        Some(consumer.pending.len())
    }

    /// Hands an entry to a consumer, from whoever had it.
    pub fn assign(&mut self, id: StreamId, pending: Pending) {
        if let Some(consumer) = self.consumers.get_mut(&pending.consumer) {
            consumer.pending.insert(id);
        }
        let consumer = pending.consumer.clone();
        if let Some(before) = self.pending.insert(id, pending)
            && before.consumer != consumer
            && let Some(loser) = self.consumers.get_mut(&before.consumer)
        {
            loser.pending.remove(&id);
        }
    }

    /// An entry that is not acknowledged, for changes that leave its consumer.
    pub fn pending_mut(&mut self, id: StreamId) -> Option<&mut Pending> {
        self.pending.get_mut(&id)
    }

    /// Forgets an entry; false when it was not pending.
    pub fn acknowledge(&mut self, id: StreamId) -> bool {
        let Some(pending) = self.pending.remove(&id) else {
            return false;
        };
        if let Some(consumer) = self.consumers.get_mut(&pending.consumer) {
            consumer.pending.remove(&id);
        }
        true
    }

    /// An estimate of what it holds outside of itself, in bytes.
    pub fn heap_size(&self) -> usize {
        let pending = size_of::<(StreamId, Pending)>() + size_of::<StreamId>();
        let consumer = size_of::<(ByteStr, Consumer)>();
        self.pending.len() * pending + self.consumers.len() * consumer
    }
}
