//! How entries and their IDs are written into replies.

use crate::{
    reply::Reply,
    value::stream::{Entry, StreamId},
};

pub fn write_id(reply: &mut dyn Reply, id: StreamId) {
    let (mut ms, mut seq) = (itoa::Buffer::new(), itoa::Buffer::new());
    let (ms, seq) = (ms.format(id.ms).as_bytes(), seq.format(id.seq).as_bytes());
    let mut text = [b'-'; 41];
    text[..ms.len()].copy_from_slice(ms);
    let len = ms.len() + 1 + seq.len();
    text[ms.len() + 1..len].copy_from_slice(seq);
    reply.bulk(&text[..len]);
}

/// An entry: its ID and its fields with their values in one array.
pub fn write_entry(reply: &mut dyn Reply, entry: &Entry<'_>) {
    reply.array(2);
    write_id(reply, entry.id());
    reply.array(entry.len() * 2);
    for (field, value) in entry.pairs() {
        reply.bulk(&field);
        reply.bulk(&value);
    }
}

pub fn write_entries<'a>(reply: &mut dyn Reply, entries: impl Iterator<Item = Entry<'a>>) {
    let entries: Vec<Entry<'_>> = entries.collect();
    reply.array(entries.len());
    for entry in &entries {
        write_entry(reply, entry);
    }
}

/// An entry, or nil where there is none.
pub fn write_entry_or_null(reply: &mut dyn Reply, entry: Option<Entry<'_>>) {
    match entry {
        Some(entry) => write_entry(reply, &entry),
        None => reply.null(),
    }
}

/// A counter, or nil where it is not known.
pub fn write_count(reply: &mut dyn Reply, count: Option<i64>) {
    match count {
        Some(count) => reply.integer(count),
        None => reply.null(),
    }
}
