//! A stream: entries in the order of their IDs, and consumer groups that work through them.
//!
//! Entries lie in nodes of some kilobytes, each a packed run in the references' own layout, under
//! the ID of its first entry in a B-tree. So an ID is found in logarithmic time, trimming drops
//! whole nodes, DUMP writes them as they are, and approximate trimming leaves behind exactly what
//! the references leave.

mod group;
mod node;

use std::{
    collections::{BTreeMap, btree_map},
    fmt,
};

pub use group::{Consumer, Group, Pending};
pub use node::Entry;

use self::node::{Cursor, Node};
use crate::{bytestr::ByteStr, value::packed::Packed};

/// The ID of an entry: a time in milliseconds, and a number among those of that time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId {
    /// Usually milliseconds since 1970.
    pub ms: u64,
    /// The number within the millisecond.
    pub seq: u64,
}

impl StreamId {
    /// The least ID, which no entry can have.
    pub const MIN: StreamId = StreamId { ms: 0, seq: 0 };
    /// The greatest ID.
    pub const MAX: StreamId = StreamId {
        ms: u64::MAX,
        seq: u64::MAX,
    };

    /// The ID right after; `None` for the greatest.
    pub fn next(self) -> Option<StreamId> {
        match self.seq.checked_add(1) {
            Some(seq) => Some(StreamId { seq, ..self }),
            None => Some(StreamId {
                ms: self.ms.checked_add(1)?,
                seq: 0,
            }),
        }
    }

    /// The ID right before; `None` for the least.
    pub fn previous(self) -> Option<StreamId> {
        match self.seq.checked_sub(1) {
            Some(seq) => Some(StreamId { seq, ..self }),
            None => Some(StreamId {
                ms: self.ms.checked_sub(1)?,
                seq: u64::MAX,
            }),
        }
    }

    /// The sixteen bytes that sort as IDs do.
    pub fn to_bytes(self) -> [u8; 16] {
        (u128::from(self.ms) << 64 | u128::from(self.seq)).to_be_bytes()
    }

    /// Reads what `to_bytes` wrote.
    pub fn from_bytes(bytes: [u8; 16]) -> StreamId {
        let both = u128::from_be_bytes(bytes);
        StreamId {
            ms: (both >> 64) as u64,
            seq: both as u64,
        }
    }
}

impl fmt::Display for StreamId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.ms, self.seq)
    }
}

/// When a node is full: the settings `stream-node-max-bytes` and `stream-node-max-entries`, zero
/// for no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NodeLimits {
    /// In bytes.
    pub bytes: usize,
    /// In entries, deleted ones included.
    pub entries: usize,
}

impl Default for NodeLimits {
    fn default() -> NodeLimits {
        NodeLimits {
            bytes: 4096,
            entries: 100,
        }
    }
}

/// What a trimmed stream keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keep {
    /// So many of the latest entries.
    Latest(u64),
    /// The entry with this ID and later ones.
    From(StreamId),
}

/// How far trimming goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Trim {
    /// What must stay.
    pub keep: Keep,
    /// Whether to drop whole nodes only.
    pub approximate: bool,
    /// How many entries to drop at most; `None` for any number.
    pub limit: Option<u64>,
}

/// What a stream remembers beside its entries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct History {
    /// The greatest ID that an entry ever had.
    pub last_id: StreamId,
    /// The greatest ID that was deleted.
    pub max_deleted_id: StreamId,
    /// How many entries were ever added.
    pub entries_added: u64,
}

/// A stream.
#[derive(Clone, Default)]
pub struct Stream {
    nodes: BTreeMap<StreamId, Node>,
    len: u64,
    first_id: StreamId,
    history: History,
    groups: BTreeMap<ByteStr, Group>,
}

impl Stream {
    /// How many entries there are.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether there is no entry. Such a stream is still a value.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// What is remembered beside the entries.
    pub fn history(&self) -> History {
        self.history
    }

    /// Changes what is remembered (XSETID).
    pub fn set_history(&mut self, history: History) {
        self.history = history;
    }

    /// The ID of the first entry, or the least one.
    pub fn first_id(&self) -> StreamId {
        self.first_id
    }

    /// The greatest ID that an entry ever had.
    pub fn last_id(&self) -> StreamId {
        self.history.last_id
    }

    /// The ID for an entry that is added now; `None` when the greatest one is taken.
    pub fn next_id(&self, now_ms: u64) -> Option<StreamId> {
        let last = self.history.last_id;
        if now_ms > last.ms {
            Some(StreamId { ms: now_ms, seq: 0 })
        } else {
            last.next()
        }
    }

    /// Adds an entry, fields and values in turn, under an ID above all before.
    pub fn add(&mut self, id: StreamId, items: &[&[u8]], limits: NodeLimits) {
        debug_assert!(id > self.history.last_id);
        match self.nodes.last_entry() {
            Some(mut last) if last.get().has_room(items, limits) => {
                let first = *last.key();
                last.get_mut().push(first, id, items);
            }
            _ => {
                self.nodes.insert(id, Node::new(id, items));
            }
        }
        self.history.entries_added = self.history.entries_added.wrapping_add(1);
        self.history.last_id = id;
        self.len += 1;
        if self.len == 1 {
            self.first_id = id;
        }
    }

    /// Whether there is an entry with this ID.
    pub fn contains(&self, id: StreamId) -> bool {
        let node = self.nodes.range(..=id).next_back();
        node.is_some_and(|(&first, node)| node.contains(first, id))
    }

    /// Deletes an entry; false when there is none.
    pub fn delete(&mut self, id: StreamId) -> bool {
        let Some((&first, node)) = self.nodes.range_mut(..=id).next_back() else {
            return false;
        };
        let Some(at) = node.delete(first, id) else {
            return false;
        };
        self.len -= 1;
        self.history.max_deleted_id = self.history.max_deleted_id.max(id);
        if node.is_empty() {
            self.nodes.remove(&first);
            if id == self.first_id {
                self.find_first();
            }
        } else if id == self.first_id {
            // Nothing before it is left, so what follows in its node is the first.
            self.first_id = node.next_live(first, at).unwrap_or_default();
        }
        true
    }

    /// Drops entries from the front and tells how many.
    pub fn trim(&mut self, trim: Trim) -> u64 {
        let mut dropped = 0;
        while let Some(first) = self.nodes.first_entry() {
            let entries = first.get().len();
            let within_limit = trim.limit.is_none_or(|limit| dropped + entries <= limit);
            if !within_limit || self.len <= trim.keep.at_least() {
                break;
            }
            let droppable = match trim.keep {
                Keep::Latest(count) => self.len - entries >= count,
                Keep::From(id) => first.get().last_id(*first.key()) < id,
            };
            if !droppable {
                break;
            }
            first.remove();
            self.len -= entries;
            dropped += entries;
        }
        if !trim.approximate && trim.limit.is_none() {
            dropped += self.trim_first_node(trim.keep);
        }
        if dropped > 0 {
            self.find_first();
        }
        dropped
    }

    /// Drops entries from the front, one by one, as far as every group has read and acknowledged
    /// them; tells how many.
    pub fn trim_acknowledged(&mut self, trim: Trim) -> u64 {
        let surplus = self.len.saturating_sub(trim.keep.at_least());
        let doomed: Vec<StreamId> = self
            .droppable(trim.keep)
            .filter(|&id| self.is_done_everywhere(id))
            .take(surplus as usize)
            .collect();
        let max_deleted_id = self.history.max_deleted_id;
        let dropped = doomed.into_iter().filter(|&id| self.delete(id)).count() as u64;
        // Trimming is not deleting: it leaves no hole.
        self.history.max_deleted_id = max_deleted_id;
        dropped
    }

    /// Drops entries from the front, after which they are pending nowhere; tells how many.
    pub fn trim_with_references(&mut self, trim: Trim) -> u64 {
        let surplus = self.len.saturating_sub(trim.keep.at_least());
        let doomed: Vec<StreamId> = self.droppable(trim.keep).take(surplus as usize).collect();
        for id in doomed {
            self.forget_references(id);
        }
        self.trim(trim)
    }

    fn droppable(&self, keep: Keep) -> impl Iterator<Item = StreamId> {
        let below = match keep {
            Keep::Latest(_) => None,
            Keep::From(id) => Some(id),
        };
        let ids = self.iter().map(|entry| entry.id());
        ids.take_while(move |&id| below.is_none_or(|below| id < below))
    }

    /// Whether every group has read and acknowledged an entry.
    pub fn is_done_everywhere(&self, id: StreamId) -> bool {
        self.groups.values().all(|group| group.is_done(id))
    }

    /// Makes an entry pending nowhere.
    pub fn forget_references(&mut self, id: StreamId) {
        for group in self.groups.values_mut() {
            group.acknowledge(id);
        }
    }

    fn trim_first_node(&mut self, keep: Keep) -> u64 {
        let Some(mut first) = self.nodes.first_entry() else {
            return 0;
        };
        let first_id = *first.key();
        let surplus = self.len.saturating_sub(keep.at_least());
        let below = match keep {
            Keep::Latest(_) => StreamId::MAX,
            Keep::From(id) => id,
        };
        let dropped = first.get_mut().delete_front(first_id, surplus, below);
        self.len -= dropped;
        dropped
    }

    fn find_first(&mut self) {
        self.first_id = self.iter().next().map_or(StreamId::MIN, |entry| entry.id());
    }

    /// All entries.
    pub fn iter(&self) -> Range<'_> {
        self.range(StreamId::MIN, StreamId::MAX)
    }

    /// The entries from one ID to another, both included.
    pub fn range(&self, start: StreamId, end: StreamId) -> Range<'_> {
        let first_node = self
            .nodes
            .range(..=start)
            .next_back()
            .map_or(start, |(&id, _)| id);
        let nodes = if first_node <= end {
            Some(self.nodes.range(first_node..=end))
        } else {
            None
        };
        Range {
            nodes,
            cursor: None,
            start,
            end,
        }
    }

    /// The same entries, last one first.
    pub fn range_back(&self, start: StreamId, end: StreamId) -> RangeBack<'_> {
        RangeBack {
            range: self.range(start, end),
        }
    }

    /// How many nodes the entries lie in.
    pub fn node_count(&self) -> usize {
        self.nodes.len()
    }

    /// The first IDs of the nodes, in order.
    pub fn node_ids(&self) -> impl Iterator<Item = StreamId> {
        self.nodes.keys().copied()
    }

    /// The nodes as DUMP writes them.
    pub fn nodes(&self) -> impl Iterator<Item = (StreamId, &Packed)> {
        self.nodes.iter().map(|(&id, node)| (id, node.packed()))
    }

    /// Puts a stream together from nodes that came from outside; `None` when they do not hold
    /// sound entries in ascending order, none beyond the last ID.
    pub fn from_nodes(nodes: Vec<(StreamId, Packed)>, history: History) -> Option<Stream> {
        let mut stream = Stream {
            history,
            ..Stream::default()
        };
        let mut previous = None;
        for (first, packed) in nodes {
            let node = Node::from_packed(packed, first)?;
            let last = node.check(first, previous)?;
            previous = Some(last);
            stream.len += node.len();
            stream.nodes.insert(first, node);
        }
        stream.find_first();
        (previous.is_none_or(|last| last <= history.last_id)).then_some(stream)
    }

    /// The groups, by name.
    pub fn groups(&self) -> &BTreeMap<ByteStr, Group> {
        &self.groups
    }

    /// A group by its name.
    pub fn group(&self, name: &[u8]) -> Option<&Group> {
        self.groups.get(name)
    }

    /// A group by its name, for changes.
    pub fn group_mut(&mut self, name: &[u8]) -> Option<&mut Group> {
        self.groups.get_mut(name)
    }

    /// Adds a group; false when there is one of that name.
    pub fn add_group(&mut self, name: &[u8], group: Group) -> bool {
        match self.groups.entry(ByteStr::new(name)) {
            btree_map::Entry::Occupied(_) => false,
            btree_map::Entry::Vacant(place) => {
                place.insert(group);
                true
            }
        }
    }

    /// Removes a group; false when there is none.
    pub fn remove_group(&mut self, name: &[u8]) -> bool {
        self.groups.remove(name).is_some()
    }

    /// How many entries were added up to this ID, where that can be told.
    pub fn entries_up_to(&self, id: StreamId) -> Option<u64> {
        let History {
            last_id,
            max_deleted_id,
            entries_added,
        } = self.history;
        if entries_added == 0 {
            return Some(0);
        }
        if id == last_id || (self.len == 0 && id < last_id) {
            return Some(entries_added);
        }
        // With a hole in what follows, only the end is certain.
        let has_hole = max_deleted_id != StreamId::MIN && max_deleted_id >= self.first_id;
        let before_hole = id != StreamId::MIN && id < max_deleted_id;
        if id > last_id || has_hole || before_hole {
            return None;
        }
        match id.cmp(&self.first_id) {
            std::cmp::Ordering::Less => entries_added.checked_sub(self.len),
            std::cmp::Ordering::Equal => entries_added.wrapping_add(1).checked_sub(self.len),
            std::cmp::Ordering::Greater => None,
        }
    }

    /// Whether an entry after this ID was deleted from between others.
    pub fn has_hole_after(&self, id: StreamId) -> bool {
        let deleted = self.history.max_deleted_id;
        self.len > 0 && deleted != StreamId::MIN && deleted >= id
    }

    /// How many entries a group has not read yet, where that can be told; negative when XGROUP
    /// was told that it read more than there were.
    pub fn lag(&self, group: &Group) -> Option<i64> {
        let added = self.history.entries_added;
        if added == 0 {
            return Some(0);
        }
        let read = match group.entries_read {
            Some(read) if !self.has_hole_after(group.last_id) => Some(read),
            _ => self.entries_up_to(group.last_id),
        };
        read.map(|read| added.wrapping_sub(read) as i64)
    }

    /// Notes that a group read on to this entry.
    pub fn advance_group(&mut self, name: &[u8], id: StreamId) {
        let Some(group) = self.groups.get(name) else {
            return;
        };
        let read = match group.entries_read {
            Some(read) if group.last_id >= self.first_id && !self.has_hole_after(group.last_id) => {
                // The references keep "not known" as the number before zero.
                read.checked_add(1).filter(|&read| read != u64::MAX)
            }
            _ => self.entries_up_to(id),
        };
        if let Some(group) = self.groups.get_mut(name) {
            group.entries_read = read;
            group.last_id = id;
        }
    }

    /// An estimate of what it holds outside of itself, in bytes, from so many of its nodes.
    pub fn heap_size(&self, samples: usize) -> usize {
        let size = |node: &Node| node.packed().heap_size() + 64;
        // The last node is the one that grows.
        let mut nodes = self.nodes.values();
        let last = nodes.next_back().map_or(0, size);
        let (others, looked) = (nodes.len(), nodes.len().min(samples));
        let measured: usize = nodes.take(looked).map(size).sum();
        let groups: usize = self.groups.values().map(Group::heap_size).sum();
        last + measured * others / looked.max(1) + groups
    }
}

/// Two streams are equal if nothing tells them apart but how entries lie in nodes.
impl PartialEq for Stream {
    fn eq(&self, other: &Stream) -> bool {
        self.history == other.history
            && self.groups == other.groups
            && self.len == other.len
            && self
                .iter()
                .zip(other.iter())
                .all(|(one, other)| one.id() == other.id() && one.pairs().eq(other.pairs()))
    }
}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut map = f.debug_map();
        for entry in self {
            map.entry(
                &format_args!("{}", entry.id()),
                &entry.pairs().collect::<Vec<_>>(),
            );
        }
        map.finish()
    }
}

impl Keep {
    fn at_least(self) -> u64 {
        match self {
            Keep::Latest(count) => count,
            Keep::From(_) => 0,
        }
    }
}

impl<'a> IntoIterator for &'a Stream {
    type Item = Entry<'a>;
    type IntoIter = Range<'a>;

    fn into_iter(self) -> Range<'a> {
        self.iter()
    }
}

/// Entries in ascending order.
pub struct Range<'a> {
    nodes: Option<btree_map::Range<'a, StreamId, Node>>,
    cursor: Option<Cursor<'a>>,
    start: StreamId,
    end: StreamId,
}

impl<'a> Iterator for Range<'a> {
    type Item = Entry<'a>;

    fn next(&mut self) -> Option<Entry<'a>> {
        loop {
            while let Some(entry) = self.cursor.as_mut().and_then(Cursor::next) {
                if entry.id() > self.end {
                    self.nodes = None;
                    self.cursor = None;
                    return None;
                }
                if entry.id() >= self.start && !entry.is_deleted() {
                    return Some(entry);
                }
            }
            let (&first, node) = self.nodes.as_mut()?.next()?;
            self.cursor = Some(node.front(first));
        }
    }
}

/// Entries in descending order.
pub struct RangeBack<'a> {
    range: Range<'a>,
}

impl<'a> Iterator for RangeBack<'a> {
    type Item = Entry<'a>;

    fn next(&mut self) -> Option<Entry<'a>> {
        let range = &mut self.range;
        loop {
            while let Some(entry) = range.cursor.as_mut().and_then(Cursor::next_back) {
                if entry.id() < range.start {
                    range.nodes = None;
                    range.cursor = None;
                    return None;
                }
                if entry.id() <= range.end && !entry.is_deleted() {
                    return Some(entry);
                }
            }
            let (&first, node) = range.nodes.as_mut()?.next_back()?;
            range.cursor = Some(node.back(first));
        }
    }
}

#[cfg(test)]
mod tests;
