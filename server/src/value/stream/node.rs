//! A node: a packed run of entries that mostly have the same fields.
//!
//! At its head stand how many entries it holds, how many more are deleted, and the fields of its
//! first entry with their number before and a zero behind them. Then come the entries: flags, the
//! distance of the ID from the node's in both parts, then only the values where the fields are
//! those of the head, or else the number of fields and both; and at last the number of elements
//! of the entry, by which it is walked backwards.

use super::{NodeLimits, StreamId};
use crate::{
    number::parse_i64,
    value::packed::{Item, Packed},
};

const DELETED: i64 = 1;
const SAME_FIELDS: i64 = 2;
/// Flags and the two distances.
const PREFIX_LEN: usize = 3;
/// What no limit in bytes stands for: a node is never larger.
const BYTES_MAX: usize = 1 << 30;

/// A node. Its first ID is its key in the stream.
#[derive(Clone)]
pub struct Node {
    packed: Packed,
}

impl Node {
    /// A node with its first entry.
    pub fn new(id: StreamId, items: &[&[u8]]) -> Node {
        let mut node = Node {
            packed: Packed::new(),
        };
        node.push_integer(0);
        node.push_integer(0);
        node.push_integer((items.len() / 2) as i64);
        for field in items.iter().step_by(2) {
            node.packed.push_back(field);
        }
        node.push_integer(0);
        node.push(id, id, items);
        node
    }

    /// Takes a run that came from outside, if it has a head.
    pub fn from_packed(packed: Packed, first: StreamId) -> Option<Node> {
        let node = Node { packed };
        let fields = usize::try_from(node.integer(node.packed.seek(2)?)?).ok()?;
        let end_of_head = node.packed.seek(PREFIX_LEN.checked_add(fields)?)?;
        (node.integer(end_of_head)? == 0 && node.front(first).position.is_some()).then_some(node)
    }

    /// Checks every entry of a run that came from outside, and tells the last ID. IDs must
    /// ascend from the one before the node, and the counts must be right.
    pub fn check(&self, first: StreamId, previous: Option<StreamId>) -> Option<StreamId> {
        let (mut cursor, mut previous) = (self.front(first), previous);
        let (mut live, mut deleted) = (0, 0);
        while cursor.position.is_some() {
            let entry = cursor.next()?;
            let ascends = previous.is_none_or(|previous| previous < entry.id);
            if !ascends || entry.id < first || !entry.is_sound() {
                return None;
            }
            *(if entry.is_deleted() {
                &mut deleted
            } else {
                &mut live
            }) += 1;
            previous = Some(entry.id);
        }
        let counts = (
            self.integer(self.packed.seek(0)?)?,
            self.integer(self.packed.seek(1)?)?,
        );
        if counts == (live, deleted) {
            previous
        } else {
            None
        }
    }

    pub fn packed(&self) -> &Packed {
        &self.packed
    }

    /// How many entries there are.
    pub fn len(&self) -> u64 {
        self.count(0)
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether another entry may join.
    pub fn has_room(&self, items: &[&[u8]], limits: NodeLimits) -> bool {
        let bytes: usize = items.iter().map(|item| item.len()).sum();
        let bytes_max = if limits.bytes == 0 {
            BYTES_MAX
        } else {
            limits.bytes.min(BYTES_MAX)
        };
        let entries = self.count(0) + self.count(1);
        self.packed.listpack_size() + bytes < bytes_max
            && (limits.entries == 0 || entries < limits.entries as u64)
    }

    /// Adds an entry, fields and values in turn.
    pub fn push(&mut self, first: StreamId, id: StreamId, items: &[&[u8]]) {
        let same = self.has_fields(items);
        self.push_integer(if same { SAME_FIELDS } else { 0 });
        self.push_integer(id.ms.wrapping_sub(first.ms) as i64);
        self.push_integer(id.seq.wrapping_sub(first.seq) as i64);
        if same {
            for value in items.iter().skip(1).step_by(2) {
                self.packed.push_back(value);
            }
        } else {
            self.push_integer((items.len() / 2) as i64);
            for item in items {
                self.packed.push_back(item);
            }
        }
        let content = if same {
            items.len() / 2
        } else {
            items.len() + 1
        };
        self.push_integer((PREFIX_LEN + content) as i64);
        self.add_to_counts(1, 0);
    }

    /// Marks an entry as deleted and tells where it lies, if it is there.
    pub fn delete(&mut self, first: StreamId, id: StreamId) -> Option<usize> {
        let (at, flags) = self.find(first, id)?;
        self.mark_deleted(at, flags);
        self.add_to_counts(-1, 1);
        Some(at)
    }

    pub fn contains(&self, first: StreamId, id: StreamId) -> bool {
        self.find(first, id).is_some()
    }

    /// Where an entry that is not deleted lies, and its flags. It looks at nothing else of those
    /// before it.
    fn find(&self, first: StreamId, id: StreamId) -> Option<(usize, i64)> {
        let (packed, fields) = (&self.packed, self.field_count());
        let mut at = packed.seek(PREFIX_LEN + fields + 1)?;
        loop {
            let flags = self.integer(at)?;
            let ms_at = packed.next(at)?;
            let seq_at = packed.next(ms_at)?;
            let here = StreamId {
                ms: first.ms.wrapping_add(self.integer(ms_at)? as u64),
                seq: first.seq.wrapping_add(self.integer(seq_at)? as u64),
            };
            if here >= id {
                return (here == id && flags & DELETED == 0).then_some((at, flags));
            }
            let mut next = packed.next(seq_at)?;
            let mut left = fields;
            if flags & SAME_FIELDS == 0 {
                left = usize::try_from(self.integer(next)?).ok()?;
                left = left.checked_mul(2)?;
                next = packed.next(next)?;
            }
            for _ in 0..left {
                next = packed.next(next)?;
            }
            at = packed.next(next)?;
        }
    }

    /// The first entry behind a place that is not deleted.
    pub fn next_live(&self, first: StreamId, at: usize) -> Option<StreamId> {
        let cursor = Cursor {
            position: Some(at),
            ..self.front(first)
        };
        cursor
            .skip(1)
            .find(|entry| !entry.is_deleted())
            .map(|entry| entry.id)
    }

    /// Marks up to so many entries from the front as deleted, below an ID; tells how many.
    pub fn delete_front(&mut self, first: StreamId, limit: u64, below: StreamId) -> u64 {
        let doomed: Vec<(usize, i64)> = self
            .front(first)
            .take_while(|entry| entry.id < below)
            .filter(|entry| !entry.is_deleted())
            .take(limit as usize)
            .map(|entry| (entry.at, entry.flags))
            .collect();
        // Flags never change their width, so the places stay right.
        for &(at, flags) in &doomed {
            self.mark_deleted(at, flags);
        }
        self.add_to_counts(-(doomed.len() as i64), doomed.len() as i64);
        doomed.len() as u64
    }

    /// The ID of the last entry, deleted or not.
    pub fn last_id(&self, first: StreamId) -> StreamId {
        self.back(first).next_back().map_or(first, |entry| entry.id)
    }

    /// A cursor before the first entry.
    pub fn front(&self, first: StreamId) -> Cursor<'_> {
        let fields = self.field_count();
        let position = self.packed.seek(PREFIX_LEN + fields + 1);
        Cursor {
            node: self,
            first,
            position,
            entries_start: position,
            fields,
        }
    }

    /// A cursor behind the last entry.
    pub fn back(&self, first: StreamId) -> Cursor<'_> {
        Cursor {
            position: None,
            ..self.front(first)
        }
    }

    fn mark_deleted(&mut self, at: usize, flags: i64) {
        self.packed
            .replace(at, itoa::Buffer::new().format(flags | DELETED).as_bytes());
    }

    fn add_to_counts(&mut self, live: i64, deleted: i64) {
        for (nth, change) in [(0, live), (1, deleted)] {
            let count = self.count(nth).saturating_add_signed(change);
            if change != 0
                && let Some(at) = self.packed.seek(nth)
            {
                self.packed
                    .replace(at, itoa::Buffer::new().format(count).as_bytes());
            }
        }
    }

    fn has_fields(&self, items: &[&[u8]]) -> bool {
        items.len() / 2 == self.field_count()
            && self
                .packed
                .iter_from(PREFIX_LEN)
                .zip(items.iter().step_by(2))
                .all(|(field, other)| *field == **other)
    }

    fn field_count(&self) -> usize {
        self.count(2) as usize
    }

    fn count(&self, nth: usize) -> u64 {
        let integer = self.packed.seek(nth).and_then(|at| self.integer(at));
        integer
            .and_then(|integer| u64::try_from(integer).ok())
            .unwrap_or(0)
    }

    fn integer(&self, at: usize) -> Option<i64> {
        let number = self.packed.number(at);
        number.or_else(|| parse_i64(&self.packed.item(at)))
    }

    fn push_integer(&mut self, integer: i64) {
        self.packed
            .push_back(itoa::Buffer::new().format(integer).as_bytes());
    }
}

/// A place between two entries of a node.
pub struct Cursor<'a> {
    node: &'a Node,
    first: StreamId,
    /// Where the next entry starts; `None` at the end.
    position: Option<usize>,
    entries_start: Option<usize>,
    /// How many fields the head has.
    fields: usize,
}

impl<'a> Iterator for Cursor<'a> {
    type Item = Entry<'a>;

    fn next(&mut self) -> Option<Entry<'a>> {
        let at = self.position?;
        let (entry, end) = self.entry(at)?;
        // The count of elements stands behind.
        self.position = self.node.packed.next(end?);
        Some(entry)
    }
}

impl<'a> Cursor<'a> {
    /// The entry before, and steps back over it.
    pub fn next_back(&mut self) -> Option<Entry<'a>> {
        let packed = &self.node.packed;
        if self.position == self.entries_start {
            return None;
        }
        let mut at = match self.position {
            Some(position) => packed.prev(position)?,
            None => packed.last()?,
        };
        for _ in 0..self.node.integer(at)? {
            at = packed.prev(at)?;
        }
        self.position = Some(at);
        Some(self.entry(at)?.0)
    }

    /// The entry that starts here, and the position of the element behind its content.
    fn entry(&self, at: usize) -> Option<(Entry<'a>, Option<usize>)> {
        let packed = &self.node.packed;
        let flags = self.node.integer(at)?;
        let ms_at = packed.next(at)?;
        let seq_at = packed.next(ms_at)?;
        let (ms, seq) = (self.node.integer(ms_at)?, self.node.integer(seq_at)?);
        let id = StreamId {
            ms: self.first.ms.wrapping_add(ms as u64),
            seq: self.first.seq.wrapping_add(seq as u64),
        };
        let mut content = packed.next(seq_at);
        let mut fields = self.fields;
        if flags & SAME_FIELDS == 0 {
            fields = usize::try_from(self.node.integer(content?)?).ok()?;
            content = packed.next(content?);
        }
        let entry = Entry {
            node: self.node,
            at,
            flags,
            id,
            content,
            fields,
        };
        let mut end = content;
        for _ in 0..entry.element_count() {
            end = packed.next(end?);
        }
        Some((entry, end))
    }
}

/// An entry, where it lies.
#[derive(Clone, Copy)]
pub struct Entry<'a> {
    node: &'a Node,
    at: usize,
    flags: i64,
    id: StreamId,
    content: Option<usize>,
    fields: usize,
}

impl<'a> Entry<'a> {
    /// Its ID.
    pub fn id(&self) -> StreamId {
        self.id
    }

    /// How many fields it has.
    pub fn len(&self) -> usize {
        self.fields
    }

    /// Whether it has no field.
    pub fn is_empty(&self) -> bool {
        self.fields == 0
    }

    /// The fields with their values.
    pub fn pairs(&self) -> Pairs<'a> {
        let packed = &self.node.packed;
        let same = self.has_same_fields();
        let fields = if same {
            packed.seek(PREFIX_LEN)
        } else {
            self.content
        };
        Pairs {
            packed,
            same,
            field: fields,
            value: self.content,
            left: self.fields,
        }
    }

    pub(super) fn is_deleted(&self) -> bool {
        self.flags & DELETED != 0
    }

    fn has_same_fields(&self) -> bool {
        self.flags & SAME_FIELDS != 0
    }

    /// How many elements the content has.
    fn element_count(&self) -> usize {
        if self.has_same_fields() {
            self.fields
        } else {
            self.fields.saturating_mul(2)
        }
    }

    /// Whether all that it says of itself is there.
    fn is_sound(&self) -> bool {
        let packed = &self.node.packed;
        let mut at = self.content;
        for _ in 0..self.element_count() {
            at = at.and_then(|at| packed.next(at));
        }
        let prefix = if self.has_same_fields() {
            PREFIX_LEN
        } else {
            PREFIX_LEN + 1
        };
        let expected = (prefix + self.element_count()) as i64;
        at.and_then(|at| self.node.integer(at)) == Some(expected)
    }
}

/// The fields of an entry with their values.
pub struct Pairs<'a> {
    packed: &'a Packed,
    same: bool,
    field: Option<usize>,
    value: Option<usize>,
    left: usize,
}

impl<'a> Iterator for Pairs<'a> {
    type Item = (Item<'a>, Item<'a>);

    fn next(&mut self) -> Option<(Item<'a>, Item<'a>)> {
        self.left = self.left.checked_sub(1)?;
        let field = self.field?;
        let value = if self.same {
            self.value?
        } else {
            self.packed.next(field)?
        };
        if self.same {
            self.field = self.packed.next(field);
            self.value = self.packed.next(value);
        } else {
            self.field = self.packed.next(value);
        }
        Some((self.packed.item(field), self.packed.item(value)))
    }
}
