//! Server-assisted caching: who is to hear when keys change that it has read or asked about.
//!
//! A client that tracks is remembered under each key that it reads and is told once, at the
//! next change. One that broadcasts names prefixes instead, and hears of every change below
//! them; its keys are gathered while a request runs and told in one message.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::{
    bytestr::ByteStr,
    reply::{Protocol, Reply},
    resp::Encoder,
    session::ClientId,
};

/// How a client tracks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(clippy::struct_excessive_bools)] // Each is an option of its own.
pub struct Mode {
    pub broadcast: bool,
    /// Only keys of a request that follows CLIENT CACHING YES.
    pub opt_in: bool,
    /// All keys but those of a request that follows CLIENT CACHING NO.
    pub opt_out: bool,
    /// Its own changes are not told.
    pub no_loop: bool,
    /// The number of the client that gets the messages instead.
    pub redirect: Option<u64>,
    /// That client is gone.
    pub broken: bool,
}

struct Tracker {
    mode: Mode,
    prefixes: BTreeSet<ByteStr>,
    /// Keys to be told of in the next message of a broadcast.
    pending: BTreeSet<ByteStr>,
}

/// All that is tracked.
#[derive(Default)]
pub struct Tracking {
    trackers: HashMap<ClientId, Tracker>,
    readers: HashMap<ByteStr, Vec<ClientId>>,
    /// How many clients stand in `readers`, all keys together.
    items: usize,
    prefixes: BTreeMap<ByteStr, Vec<ClientId>>,
    /// Clients with pending keys.
    waiting: BTreeSet<ClientId>,
}

/// Whom to tell what.
pub struct Message {
    pub to: ClientId,
    /// `None` for all keys there are.
    pub keys: Option<Vec<ByteStr>>,
}

impl Tracking {
    /// Does anybody need to hear of changes?
    pub fn is_active(&self) -> bool {
        !self.readers.is_empty() || !self.prefixes.is_empty()
    }

    pub fn clients(&self) -> usize {
        self.trackers.len()
    }

    pub fn keys(&self) -> usize {
        self.readers.len()
    }

    pub fn items(&self) -> usize {
        self.items
    }

    pub fn prefix_count(&self) -> usize {
        self.prefixes.len()
    }

    pub fn mode(&self, id: ClientId) -> Option<Mode> {
        self.trackers.get(&id).map(|tracker| tracker.mode)
    }

    /// The prefixes of a client, in order.
    pub fn prefixes_of(&self, id: ClientId) -> Vec<ByteStr> {
        let tracker = self.trackers.get(&id);
        tracker.map_or(Vec::new(), |tracker| {
            tracker.prefixes.iter().cloned().collect()
        })
    }

    /// Starts tracking, or changes how it is done; further prefixes add to those there are.
    pub fn start(&mut self, id: ClientId, mode: Mode, prefixes: &[&[u8]]) {
        let tracker = self.trackers.entry(id).or_insert_with(|| Tracker {
            mode,
            prefixes: BTreeSet::new(),
            pending: BTreeSet::new(),
        });
        tracker.mode = mode;
        for prefix in prefixes {
            let prefix = ByteStr::new(prefix);
            if tracker.prefixes.insert(prefix.clone()) {
                self.prefixes.entry(prefix).or_default().push(id);
            }
        }
    }

    /// Ends it. What the client has read stays noted until it changes, but is not told.
    pub fn stop(&mut self, id: ClientId) {
        let Some(tracker) = self.trackers.remove(&id) else {
            return;
        };
        self.waiting.remove(&id);
        for prefix in tracker.prefixes {
            if let Some(clients) = self.prefixes.get_mut(&prefix) {
                clients.retain(|&other| other != id);
                if clients.is_empty() {
                    self.prefixes.remove(&prefix);
                }
            }
        }
        if self.trackers.is_empty() {
            self.readers.clear();
            self.items = 0;
        }
    }

    pub fn set_broken(&mut self, id: ClientId) {
        if let Some(tracker) = self.trackers.get_mut(&id) {
            tracker.mode.broken = true;
        }
    }

    /// Remembers that a client has read a key.
    pub fn remember(&mut self, id: ClientId, key: &[u8]) {
        let readers = self.readers.entry(ByteStr::new(key)).or_default();
        if !readers.contains(&id) {
            readers.push(id);
            self.items += 1;
        }
    }

    /// Forgets keys until there are no more than `max`; whoever read them is told, since it
    /// would not hear of changes any more.
    pub fn shrink(&mut self, max: usize) -> Vec<Message> {
        let mut messages = Vec::new();
        while max > 0 && self.readers.len() > max {
            let Some(key) = self.readers.keys().next().cloned() else {
                break;
            };
            self.invalidate(&key, None, &mut messages);
        }
        messages
    }

    /// Notes that a key was changed, by a client or by time; tells who is to hear of it at once.
    pub fn key_changed(&mut self, key: &ByteStr, by: Option<ClientId>) -> Vec<Message> {
        let mut messages = Vec::new();
        self.invalidate(key, by, &mut messages);
        for (prefix, clients) in &self.prefixes {
            if !key.starts_with(prefix) {
                continue;
            }
            for &id in clients {
                if let Some(tracker) = self.trackers.get_mut(&id)
                    && !(tracker.mode.no_loop && by == Some(id))
                {
                    tracker.pending.insert(key.clone());
                    self.waiting.insert(id);
                }
            }
        }
        messages
    }

    fn invalidate(&mut self, key: &ByteStr, by: Option<ClientId>, messages: &mut Vec<Message>) {
        let Some(readers) = self.readers.remove(key) else {
            return;
        };
        self.items -= readers.len();
        for to in readers {
            let wanted = self
                .mode(to)
                .is_some_and(|mode| !(mode.broadcast || mode.no_loop && by == Some(to)));
            if wanted {
                let keys = Some(vec![key.clone()]);
                messages.push(Message { to, keys });
            }
        }
    }

    /// The broadcasts that have gathered since the last call.
    pub fn take_broadcasts(&mut self) -> Vec<Message> {
        let waiting = std::mem::take(&mut self.waiting);
        let mut messages = Vec::new();
        for to in waiting {
            if let Some(tracker) = self.trackers.get_mut(&to) {
                let keys = std::mem::take(&mut tracker.pending);
                let keys = Some(keys.into_iter().collect());
                messages.push(Message { to, keys });
            }
        }
        messages
    }

    pub fn has_broadcasts(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// All keys are gone: everybody who tracks is told.
    pub fn flushed(&mut self) -> Vec<Message> {
        self.readers.clear();
        self.items = 0;
        let mut ids: Vec<ClientId> = self.trackers.keys().copied().collect();
        ids.sort_unstable();
        let messages = ids.into_iter().map(|to| Message { to, keys: None });
        messages.collect()
    }
}

/// Writes a message to its receiver; one that speaks RESP2 can only take it as a subscriber.
///
/// That all keys are gone is told by a null of the protocol given.
pub fn write(
    encoder: &mut Encoder<'_>,
    keys: Option<&[ByteStr]>,
    null: Protocol,
    to_subscriber: bool,
) {
    if encoder.protocol() == Protocol::Resp3 {
        encoder.push(2);
        encoder.bulk(b"invalidate");
    } else if to_subscriber {
        encoder.push(3);
        encoder.bulk(b"message");
        encoder.bulk(b"__redis__:invalidate");
    } else {
        return;
    }
    match keys {
        Some(keys) => {
            encoder.array(keys.len());
            for key in keys {
                encoder.bulk(key);
            }
        }
        None => encoder.null_of(null),
    }
}

/// A prefix that begins like another one, and that one.
pub fn overlap<'a>(
    wanted: &[&'a [u8]],
    present: &'a [ByteStr],
) -> Option<(&'a [u8], &'a [u8], bool)> {
    let overlaps = |one: &[u8], other: &[u8]| one.starts_with(other) || other.starts_with(one);
    let mut sorted: Vec<&[u8]> = wanted.to_vec();
    sorted.extend(present.iter().map(|prefix| &**prefix));
    sorted.sort_unstable();
    for (at, &prefix) in wanted.iter().enumerate() {
        // Thousands of prefixes are asked for at once: only one that is known to overlap is
        // compared with all others.
        if !overlaps_any(prefix, &sorted) {
            continue;
        }
        if let Some(other) = present.iter().find(|other| overlaps(prefix, other)) {
            return Some((prefix, other, true));
        }
        let others = &wanted[at + 1..];
        if let Some(other) = others.iter().find(|other| overlaps(prefix, other)) {
            return Some((prefix, other, false));
        }
    }
    None
}

/// Does a prefix begin another one of a sorted list that holds it too, or does another begin it?
fn overlaps_any(prefix: &[u8], sorted: &[&[u8]]) -> bool {
    let at = sorted.partition_point(|other| *other < prefix);
    let begins = sorted
        .get(at + 1)
        .is_some_and(|next| next.starts_with(prefix));
    begins || (0..prefix.len()).any(|len| sorted.binary_search(&&prefix[..len]).is_ok())
}

#[cfg(test)]
mod overlap_tests {
    use super::*;

    #[track_caller]
    fn check(wanted: &[&[u8]], expect: Option<(&[u8], &[u8], bool)>) {
        assert_eq!(overlap(wanted, &[ByteStr::new(b"user:")]), expect);
    }

    #[test]
    fn the_first_prefix_that_overlaps_another_is_told() {
        check(&[b"a", b"b"], None);
        check(&[b"a", b"ab", b"b"], Some((b"a", b"ab", false)));
        check(&[b"x", b"x"], Some((b"x", b"x", false)));
        check(&[b"b", b"user:7"], Some((b"user:7", b"user:", true)));
        check(&[b"b", b""], Some((b"b", b"", false)));
    }

    #[test]
    fn many_prefixes_are_compared_soon() {
        let many: Vec<Vec<u8>> = (0..50_000)
            .map(|n| format!("{n:08}").into_bytes())
            .collect();
        let wanted: Vec<&[u8]> = many.iter().map(Vec::as_slice).collect();
        assert_eq!(overlap(&wanted, &[]), None);
    }
}
