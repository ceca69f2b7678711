//! What was denied lately, as ACL LOG shows it.

use std::collections::VecDeque;

/// What was denied lately, the newest first.
#[derive(Default)]
pub struct Log {
    entries: VecDeque<LogEntry>,
    next_id: u64,
}

/// Something that was denied, once or several times.
#[derive(Clone, Debug)]
pub struct LogEntry {
    pub id: u64,
    pub count: u64,
    /// `auth`, `command`, `key`, `channel` or `database`.
    pub reason: &'static str,
    /// `toplevel`, `multi` or `lua`.
    pub context: &'static str,
    pub object: Vec<u8>,
    pub user: String,
    pub client: Vec<u8>,
    /// When it happened first and last, in milliseconds since 1970.
    pub created: u64,
    pub updated: u64,
}

impl Log {
    /// How long the same thing counts as one entry, in milliseconds.
    const SAME_WITHIN: u64 = 60_000;
    /// How many of the newest entries are looked through for the same thing.
    const SAME_AMONG: usize = 10;

    pub fn entries(&self) -> impl Iterator<Item = &LogEntry> {
        self.entries.iter()
    }

    pub fn clear(&mut self) {
        self.entries.clear();
    }

    /// Adds an entry and forgets the oldest beyond `max_len`.
    pub fn add(&mut self, mut entry: LogEntry, max_len: usize) {
        let same = |known: &LogEntry| {
            known.reason == entry.reason
                && known.context == entry.context
                && known.object == entry.object
                && known.user == entry.user
                && entry.updated.saturating_sub(known.updated) <= Log::SAME_WITHIN
        };
        let mut newest = self.entries.iter().take(Log::SAME_AMONG);
        if let Some(at) = newest.position(same)
            && let Some(known) = self.entries.remove(at)
        {
            (entry.id, entry.count) = (known.id, known.count + 1);
            entry.created = known.created;
        } else {
            entry.id = self.next_id;
            self.next_id += 1;
        }
        self.entries.push_front(entry);
        self.entries.truncate(max_len);
    }
}
