//! Who listens to which channel or pattern.
//!
//! Publishing appends to the listeners' outboxes and never waits for any of them.

use std::collections::HashMap;

use crate::{bytestr::ByteStr, glob, session::ClientId};

/// A message as a subscriber inside the process gets it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// The channel that it was published to.
    pub channel: Vec<u8>,
    /// The pattern that it came by, if it was not subscribed to by name.
    pub pattern: Option<Vec<u8>>,
    /// What was published.
    pub payload: Vec<u8>,
}

/// Channels that ordinary clients share, or those of sharded pub/sub.
#[derive(Default)]
pub struct Channels {
    listeners: HashMap<ByteStr, Vec<ClientId>>,
}

impl Channels {
    pub fn is_empty(&self) -> bool {
        self.listeners.is_empty()
    }

    pub fn len(&self) -> usize {
        self.listeners.len()
    }

    pub fn add(&mut self, name: &[u8], id: ClientId) {
        self.listeners
            .entry(ByteStr::new(name))
            .or_default()
            .push(id);
    }

    pub fn remove(&mut self, name: &[u8], id: ClientId) {
        if let Some(listeners) = self.listeners.get_mut(name) {
            listeners.retain(|&other| other != id);
            if listeners.is_empty() {
                self.listeners.remove(name);
            }
        }
    }

    /// Who listens to a name, in the order in which they came.
    pub fn of(&self, name: &[u8]) -> &[ClientId] {
        self.listeners.get(name).map_or(&[], Vec::as_slice)
    }

    pub fn names(&self) -> impl Iterator<Item = &ByteStr> {
        self.listeners.keys()
    }

    /// The names, taken as patterns, that match a channel, each with its listeners.
    pub fn matching<'a>(
        &'a self,
        channel: &'a [u8],
    ) -> impl Iterator<Item = (&'a ByteStr, &'a [ClientId])> {
        self.listeners
            .iter()
            .filter(move |(pattern, _)| glob::matches(pattern, channel))
            .map(|(pattern, ids)| (pattern, ids.as_slice()))
    }
}

/// All subscriptions.
#[derive(Default)]
pub struct PubSub {
    pub channels: Channels,
    pub patterns: Channels,
    pub shard_channels: Channels,
}
