//! A run of short byte strings in one allocation, the compact form of every collection.
//!
//! Elements lie one after another in the listpack format, so that DUMP can copy them, size
//! thresholds mean the same bytes as in the references, and decimal integers take their binary
//! size. The run may have a gap in front, which makes both ends cheap. Equal strings have equal
//! encodings: a search compares encoded bytes and decodes nothing.

use std::ops::Deref;

use crate::{bytestr::ByteStr, number::parse_i64};

/// What the format adds around the elements of a run, in bytes: header and end mark.
const FRAME: usize = 7;
const END_MARK: u8 = 0xFF;
/// The longest decimal form of an `i64`, in bytes.
const MAX_DIGITS: usize = 20;

/// What stands before the elements in memory: spare bytes at the end and in front, two bytes
/// each, and the number of elements.
const HEADER: usize = 8;
/// More spare bytes than this do not stay at either end.
const SPARE_MAX: usize = u16::MAX as usize;

/// A run that can be walked from either end: its elements are those of a listpack.
pub type Packed = Run<true>;

/// A run that is walked from the front. Its elements do not end in their lengths, which saves a
/// byte each; going back costs a walk from the front.
pub type OneWay = Run<false>;

/// A run of elements, 16 bytes in size; an empty one holds no memory. Positions are byte offsets
/// and are valid until the next change.
#[derive(Clone, Default)]
pub struct Run<const TWO_WAY: bool>(Box<[u8]>);

/// An element read out of a collection: borrowed, or digits where it is kept as a number.
#[derive(Clone, Copy)]
pub enum Item<'a> {
    /// A string, where it is kept.
    Bytes(&'a [u8]),
    /// The decimal form of a number.
    Digits {
        /// How many of the bytes count.
        len: u8,
        /// The digits, left-aligned.
        digits: [u8; MAX_DIGITS],
    },
}

impl Item<'_> {
    /// The decimal form of a number.
    pub fn number(value: i64) -> Item<'static> {
        let mut buffer = itoa::Buffer::new();
        let text = buffer.format(value).as_bytes();
        let mut digits = [0; MAX_DIGITS];
        digits[..text.len()].copy_from_slice(text);
        Item::Digits {
            len: text.len() as u8,
            digits,
        }
    }

    /// A copy that stands alone.
    pub fn to_byte_str(self) -> ByteStr {
        ByteStr::new(&self)
    }
}

impl Deref for Item<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            Item::Bytes(bytes) => bytes,
            Item::Digits { len, digits } => &digits[..usize::from(*len)],
        }
    }
}

impl PartialEq for Item<'_> {
    fn eq(&self, other: &Self) -> bool {
        **self == **other
    }
}

impl Eq for Item<'_> {}

impl std::fmt::Debug for Item<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "\"{}\"", self.escape_ascii())
    }
}

impl<const TWO_WAY: bool> Run<TWO_WAY> {
    /// An empty run.
    pub fn new() -> Self {
        Self::default()
    }

    /// How many elements it holds.
    pub fn len(&self) -> usize {
        match self.0.get(4..HEADER) {
            Some(&[a, b, c, d]) => u32::from_le_bytes([a, b, c, d]) as usize,
            _ => 0,
        }
    }

    /// Whether it holds none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The size of this run as a complete listpack, in bytes. Thresholds are about this one.
    pub fn listpack_size(&self) -> usize {
        FRAME + self.end() - self.start()
    }

    /// What it holds outside of itself, in bytes.
    pub fn heap_size(&self) -> usize {
        self.0.len()
    }

    /// Adds an element after the others.
    pub fn push_back(&mut self, element: &[u8]) {
        self.insert(self.end(), element);
    }

    /// Adds an element before the others.
    pub fn push_front(&mut self, element: &[u8]) {
        let encoded = Encoded::new(element);
        let gap = self.widen_gap(encoded.len(TWO_WAY)) - encoded.len(TWO_WAY);
        self.set_spare(1, gap);
        let at = self.start();
        encoded.write(&mut self.0[at..], TWO_WAY);
        self.set_len(self.len() + 1);
    }

    /// Puts an element before the one at `at`, or last when `at` is the end.
    pub fn insert(&mut self, at: usize, element: &[u8]) {
        let encoded = Encoded::new(element);
        self.open(at, encoded.len(TWO_WAY));
        encoded.write(&mut self.0[at..], TWO_WAY);
        self.set_len(self.len() + 1);
    }

    /// Puts an element in the place of the one at `at`.
    pub fn replace(&mut self, at: usize, element: &[u8]) {
        let encoded = Encoded::new(element);
        let (old, new) = (self.entry_len(at), encoded.len(TWO_WAY));
        if new > old {
            self.open(at + old, new - old);
        } else {
            self.shut(at + new, old - new);
        }
        encoded.write(&mut self.0[at..], TWO_WAY);
    }

    /// Takes up to `count` elements out, from the one at `at` on.
    pub fn remove(&mut self, at: usize, count: usize) {
        let (mut end, mut removed) = (at, 0);
        while removed < count && end < self.end() {
            end += self.entry_len(end);
            removed += 1;
        }
        let left = self.len() - removed;
        if left == 0 {
            *self = Self::new();
            return;
        }
        self.set_len(left);
        // In front the bytes become a gap, unless that would outgrow what is left.
        let gap = end - HEADER;
        if at == self.start() && gap <= SPARE_MAX.min(self.end() - end) {
            self.set_spare(1, gap);
        } else {
            self.shut(at, end - at);
        }
    }

    /// Takes out up to `limit` elements equal to `element`, from the front on or from the back
    /// on, in one pass. Returns how many.
    pub fn remove_equal(&mut self, element: &[u8], limit: usize, from_back: bool) -> usize {
        let encoded = Encoded::new(element);
        let mut matches: Vec<usize> = Vec::new();
        let mut at = if from_back { self.last() } else { self.first() };
        while let Some(position) = at.filter(|_| matches.len() < limit) {
            if encoded.equals(&self.0[position..]) {
                matches.push(position);
            }
            at = if from_back {
                self.prev(position)
            } else {
                self.next(position)
            };
        }
        if from_back {
            matches.reverse();
        }
        self.cut(&matches, encoded.len(TWO_WAY));
        matches.len()
    }

    /// The position of the first element.
    pub fn first(&self) -> Option<usize> {
        (!self.is_empty()).then(|| self.start())
    }

    /// The position of the last element.
    pub fn last(&self) -> Option<usize> {
        (!self.is_empty()).then(|| self.before(self.end()))
    }

    /// The position after another.
    #[inline]
    pub fn next(&self, at: usize) -> Option<usize> {
        let next = at + self.entry_len(at);
        (next < self.end()).then_some(next)
    }

    /// The position before another.
    pub fn prev(&self, at: usize) -> Option<usize> {
        (at > self.start()).then(|| self.before(at))
    }

    /// The position of the element at an index, walking from the nearer end.
    pub fn seek(&self, index: usize) -> Option<usize> {
        if index >= self.len() {
            return None;
        }
        if !TWO_WAY || index <= self.len() / 2 {
            return (0..index).try_fold(self.first()?, |at, _| self.next(at));
        }
        (index + 1..self.len()).try_fold(self.last()?, |at, _| self.prev(at))
    }

    /// The element at a position that one of the walking functions returned.
    #[inline]
    pub fn item(&self, at: usize) -> Item<'_> {
        match self.0[at] {
            tag @ 0x80..0xC0 => Item::Bytes(&self.0[at + 1..at + 1 + usize::from(tag & 0x3F)]),
            _ => decode(&self.0[at..]),
        }
    }

    /// The number at a position, if it is kept as one.
    #[inline]
    pub fn number(&self, at: usize) -> Option<i64> {
        match self.0[at] {
            tag @ 0..0x80 => Some(i64::from(tag)),
            _ => decode_number(&self.0[at..]),
        }
    }

    /// The first element equal to `element`, looking at `from` and every `stride`th after it.
    pub fn find(&self, element: &[u8], from: Option<usize>, stride: usize) -> Option<usize> {
        let encoded = Encoded::new(element);
        let mut at = from?;
        loop {
            if encoded.equals(&self.0[at..]) {
                return Some(at);
            }
            for _ in 0..stride {
                at = self.next(at)?;
            }
        }
    }

    /// All elements in order, from either end.
    pub fn iter(&self) -> Iter<'_, TWO_WAY> {
        Iter {
            packed: self,
            front: self.start(),
            back: self.end(),
            left: self.len(),
        }
    }

    /// The elements from an index on, either way.
    pub fn iter_from(&self, index: usize) -> Iter<'_, TWO_WAY> {
        match self.seek(index) {
            None => Iter {
                packed: self,
                front: 0,
                back: 0,
                left: 0,
            },
            Some(front) => Iter {
                packed: self,
                front,
                back: self.end(),
                left: self.len() - index,
            },
        }
    }

    /// The first `len` elements, either way.
    pub fn iter_to(&self, len: usize) -> Iter<'_, TWO_WAY> {
        let back = self.seek(len).unwrap_or(self.end());
        Iter {
            packed: self,
            front: self.start(),
            back,
            left: len.min(self.len()),
        }
    }

    /// Cuts the run in two and returns the elements from `index` on.
    #[must_use]
    pub fn split_off(&mut self, index: usize) -> Self {
        let Some(at) = self.seek(index) else {
            return Self::new();
        };
        let tail = Self::from_entries(&self.0[at..self.end()], self.len() - index);
        *self = Self::from_entries(&self.0[self.start()..at], index);
        tail
    }

    /// Puts the elements of another run after its own.
    pub fn append(&mut self, other: &Self) {
        let (at, elements) = (self.end(), other.entries());
        self.open(at, elements.len());
        self.0[at..at + elements.len()].copy_from_slice(elements);
        self.set_len(self.len() + other.len());
    }

    /// Gives all spare room back, for a run that will hardly change.
    pub fn close(&mut self) {
        *self = Self::from_entries(self.entries(), self.len());
    }

    fn from_entries(entries: &[u8], count: usize) -> Self {
        let mut packed = Self::new();
        if count > 0 {
            packed.resize(rounded(HEADER + entries.len()));
            packed.set_spare(0, packed.0.len() - HEADER - entries.len());
            packed.0[HEADER..HEADER + entries.len()].copy_from_slice(entries);
            packed.set_len(count);
        }
        packed
    }

    fn entries(&self) -> &[u8] {
        self.0.get(self.start()..self.end()).unwrap_or_default()
    }

    #[inline]
    fn entry_len(&self, at: usize) -> usize {
        // Short strings and small numbers are what there is most of.
        match self.0[at] {
            0..0x80 => 1 + usize::from(TWO_WAY),
            tag @ 0x80..0xC0 => 1 + usize::from(tag & 0x3F) + usize::from(TWO_WAY),
            _ => {
                let body = body_len(&self.0[at..]);
                body + back_len_size(body, TWO_WAY)
            }
        }
    }

    /// Where the element starts that ends at `end`.
    fn before(&self, end: usize) -> usize {
        if !TWO_WAY {
            let mut at = self.start();
            while at + self.entry_len(at) < end {
                at += self.entry_len(at);
            }
            return at;
        }
        let (mut body, mut shift, mut at) = (0, 0, end - 1);
        loop {
            let byte = self.0[at];
            body |= usize::from(byte & 0x7F) << shift;
            if byte & 0x80 == 0 {
                return at - body;
            }
            shift += 7;
            at -= 1;
        }
    }

    /// Where the first element starts.
    fn start(&self) -> usize {
        HEADER + self.spare(1)
    }

    /// Where the last element ends.
    fn end(&self) -> usize {
        self.0.len().max(HEADER) - self.spare(0)
    }

    /// The spare bytes at the end (0) or in front (1).
    fn spare(&self, side: usize) -> usize {
        match self.0.get(2 * side..2 * side + 2) {
            Some(&[low, high]) => usize::from(u16::from_le_bytes([low, high])),
            _ => 0,
        }
    }

    fn set_spare(&mut self, side: usize, bytes: usize) {
        debug_assert!(bytes <= SPARE_MAX);
        self.0[2 * side..2 * side + 2].copy_from_slice(&(bytes as u16).to_le_bytes());
    }

    fn set_len(&mut self, count: usize) {
        self.0[4..HEADER].copy_from_slice(&(count as u32).to_le_bytes());
    }

    /// Closes the holes that elements of one length leave at ascending positions.
    fn cut(&mut self, positions: &[usize], len: usize) {
        let (end, count) = (self.end(), self.len() - positions.len());
        for (nth, &at) in positions.iter().enumerate() {
            let next = positions.get(nth + 1).copied().unwrap_or(end);
            self.0.copy_within(at + len..next, at - nth * len);
        }
        if count == 0 {
            *self = Self::new();
        } else {
            self.set_len(count);
            self.end_at(end - positions.len() * len);
        }
    }

    /// Makes room for `room` more bytes at `at`.
    fn open(&mut self, at: usize, room: usize) {
        let (end, spare) = (self.end(), self.spare(0));
        if room > spare {
            self.resize(allocation(end + room));
        }
        self.0.copy_within(at..end, at + room);
        self.set_spare(0, self.0.len() - end - room);
    }

    /// Takes `len` bytes out at `at`.
    fn shut(&mut self, at: usize, len: usize) {
        let end = self.end();
        self.0.copy_within(at + len..end, at);
        self.end_at(end - len);
    }

    /// Lets the elements end here, and gives memory back that lies mostly idle.
    fn end_at(&mut self, end: usize) {
        let spare = self.0.len() - end;
        if spare > SPARE_MAX || (spare > 64 && end < self.0.len() / 2) {
            self.resize(allocation(end));
        }
        self.set_spare(0, self.0.len() - end);
    }

    /// Makes the gap in front at least `room` bytes, and by some more so that the moves add up
    /// to a constant per byte. Returns how large it is; it is to be filled at once.
    fn widen_gap(&mut self, room: usize) -> usize {
        let gap = self.spare(1);
        if gap >= room {
            return gap;
        }
        let more = room - gap + (self.entries().len() / 8).min(SPARE_MAX);
        self.open(self.start(), more);
        gap + more
    }

    fn resize(&mut self, len: usize) {
        let mut bytes = std::mem::take(&mut self.0).into_vec();
        bytes.reserve_exact(len.saturating_sub(bytes.len()));
        bytes.resize(len, 0);
        self.0 = bytes.into_boxed_slice();
    }
}

impl Packed {
    /// The run as a complete listpack, as DUMP wants it.
    pub fn to_listpack(&self) -> Vec<u8> {
        let mut listpack = Vec::with_capacity(self.listpack_size());
        listpack.extend_from_slice(&(self.listpack_size() as u32).to_le_bytes());
        let count = u16::try_from(self.len()).unwrap_or(u16::MAX);
        listpack.extend_from_slice(&count.to_le_bytes());
        listpack.extend_from_slice(self.entries());
        listpack.push(END_MARK);
        listpack
    }

    /// Reads a complete listpack that came from outside; `None` when it is malformed.
    pub fn from_listpack(listpack: &[u8]) -> Option<Packed> {
        let (total, rest) = listpack.split_first_chunk::<4>()?;
        let (count, rest) = rest.split_first_chunk::<2>()?;
        let (end, mut rest) = rest.split_last()?;
        if u32::from_le_bytes(*total) as usize != listpack.len() || *end != END_MARK {
            return None;
        }
        let mut packed = Packed::new();
        while !rest.is_empty() {
            let len = checked_entry_len(rest)?;
            packed.push_back(&decode(rest));
            rest = &rest[len..];
        }
        let count = u16::from_le_bytes(*count);
        (count == u16::MAX || usize::from(count) == packed.len()).then_some(packed)
    }
}

/// How much to ask for when so much is needed: an eighth more where moving would cost more than
/// the spare room. Doubling would waste half.
fn allocation(needed: usize) -> usize {
    rounded(if needed > 512 {
        needed + (needed / 8).min(SPARE_MAX / 2)
    } else {
        needed
    })
}

/// What allocators hand out anyway when so much is asked for.
fn rounded(needed: usize) -> usize {
    (needed + 7) / 16 * 16 + 8
}

/// The elements of a run in order, from both ends.
#[derive(Clone)]
pub struct Iter<'a, const TWO_WAY: bool = true> {
    packed: &'a Run<TWO_WAY>,
    front: usize,
    back: usize,
    left: usize,
}

impl<'a, const TWO_WAY: bool> Iterator for Iter<'a, TWO_WAY> {
    type Item = Item<'a>;

    #[inline]
    fn next(&mut self) -> Option<Item<'a>> {
        self.left = self.left.checked_sub(1)?;
        let at = self.front;
        // Short strings are what there is most of.
        if let tag @ 0x80..0xC0 = self.packed.0[at] {
            let end = at + 1 + usize::from(tag & 0x3F);
            self.front = end + usize::from(TWO_WAY);
            return Some(Item::Bytes(&self.packed.0[at + 1..end]));
        }
        Some(self.next_of_any_kind())
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl<'a, const TWO_WAY: bool> Iter<'a, TWO_WAY> {
    #[inline(never)]
    fn next_of_any_kind(&mut self) -> Item<'a> {
        let at = self.front;
        self.front += self.packed.entry_len(at);
        self.packed.item(at)
    }
}

impl DoubleEndedIterator for Iter<'_> {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        self.back = self.packed.before(self.back);
        Some(self.packed.item(self.back))
    }
}

impl<const TWO_WAY: bool> ExactSizeIterator for Iter<'_, TWO_WAY> {}

impl<'a, const TWO_WAY: bool> IntoIterator for &'a Run<TWO_WAY> {
    type Item = Item<'a>;
    type IntoIter = Iter<'a, TWO_WAY>;

    fn into_iter(self) -> Iter<'a, TWO_WAY> {
        self.iter()
    }
}

/// One element encoded: what stands before the payload (for a number, all of it), the payload,
/// and how far back its start is.
struct Encoded<'a> {
    head: [u8; 9],
    head_len: usize,
    payload: &'a [u8],
}

impl Encoded<'_> {
    fn new(element: &[u8]) -> Encoded<'_> {
        match parse_i64(element) {
            Some(value) => Encoded::of_number(value),
            None => Encoded::of_string(element),
        }
    }

    fn of_number(value: i64) -> Encoded<'static> {
        let raw = value.to_le_bytes();
        match value {
            0..=127 => Encoded::assemble(&[raw[0]], &[]),
            -4096..=4095 => Encoded::assemble(&[0xC0 | (raw[1] & 0x1F), raw[0]], &[]),
            -0x8000..=0x7FFF => Encoded::assemble(&[0xF1, raw[0], raw[1]], &[]),
            -0x80_0000..=0x7F_FFFF => Encoded::assemble(&[0xF2, raw[0], raw[1], raw[2]], &[]),
            -0x8000_0000..=0x7FFF_FFFF => {
                Encoded::assemble(&[0xF3, raw[0], raw[1], raw[2], raw[3]], &[])
            }
            _ => {
                let mut head = [0xF4; 9];
                head[1..].copy_from_slice(&raw);
                Encoded::assemble(&head, &[])
            }
        }
    }

    fn of_string(element: &[u8]) -> Encoded<'_> {
        let raw = (element.len() as u32).to_le_bytes();
        match element.len() {
            0..=63 => Encoded::assemble(&[0x80 | raw[0]], element),
            64..=4095 => Encoded::assemble(&[0xE0 | raw[1], raw[0]], element),
            _ => Encoded::assemble(&[0xF0, raw[0], raw[1], raw[2], raw[3]], element),
        }
    }

    fn assemble<'a>(head: &[u8], payload: &'a [u8]) -> Encoded<'a> {
        let mut encoded = Encoded {
            head: [0; 9],
            head_len: head.len(),
            payload,
        };
        encoded.head[..head.len()].copy_from_slice(head);
        encoded
    }

    fn body(&self) -> usize {
        self.head_len + self.payload.len()
    }

    fn len(&self, two_way: bool) -> usize {
        self.body() + back_len_size(self.body(), two_way)
    }

    #[inline]
    fn equals(&self, entry: &[u8]) -> bool {
        // The first byte holds the length of a short string: it tells most strings apart.
        if entry[0] != self.head[0] {
            return false;
        }
        let head = &self.head[..self.head_len];
        entry.starts_with(head) && entry[self.head_len..].starts_with(self.payload)
    }

    fn write(&self, out: &mut [u8], two_way: bool) {
        let body = self.body();
        out[..self.head_len].copy_from_slice(&self.head[..self.head_len]);
        out[self.head_len..body].copy_from_slice(self.payload);
        for (byte, length) in out[body..].iter_mut().zip(back_len(body, two_way)) {
            *byte = length;
        }
    }
}

/// How far back the start of an element is, as it stands behind it: seven bits a byte, the
/// highest first, all but the first marked as having more before them.
fn back_len(body: usize, two_way: bool) -> impl Iterator<Item = u8> {
    let size = back_len_size(body, two_way);
    (0..size).map(move |nth| {
        let more = if nth > 0 { 0x80 } else { 0 };
        (body >> (7 * (size - 1 - nth)) & 0x7F) as u8 | more
    })
}

/// The length of head and payload of the element that starts here.
fn body_len(entry: &[u8]) -> usize {
    match entry[0] {
        0..0x80 => 1,
        tag @ 0x80..0xC0 => 1 + usize::from(tag & 0x3F),
        0xC0..0xE0 => 2,
        tag @ 0xE0..0xF0 => 2 + (usize::from(tag & 0x0F) << 8 | usize::from(entry[1])),
        0xF0 => 5 + u32::from_le_bytes([entry[1], entry[2], entry[3], entry[4]]) as usize,
        0xF1 => 3,
        0xF2 => 4,
        0xF3 => 5,
        _ => 9,
    }
}

/// How many bytes tell the length once more, behind the element.
fn back_len_size(body: usize, two_way: bool) -> usize {
    match body {
        _ if !two_way => 0,
        0..0x80 => 1,
        0x80..0x4000 => 2,
        0x4000..0x20_0000 => 3,
        0x20_0000..0x1000_0000 => 4,
        _ => 5,
    }
}

fn decode(entry: &[u8]) -> Item<'_> {
    if let Some(number) = decode_number(entry) {
        return Item::number(number);
    }
    let head = match entry[0] {
        0x80..0xC0 => 1,
        0xE0..0xF0 => 2,
        _ => 5,
    };
    Item::Bytes(&entry[head..body_len(entry)])
}

fn decode_number(entry: &[u8]) -> Option<i64> {
    match entry[0] {
        tag @ 0..0x80 => Some(i64::from(tag)),
        tag @ 0xC0..0xE0 => {
            let high = i16::from_be_bytes([tag << 3, 0]) >> 3;
            Some(i64::from(high | i16::from(entry[1])))
        }
        0xF1.. => Some(little_endian(&entry[1..body_len(entry)])),
        _ => None,
    }
}

/// A two's complement number of one to eight bytes.
fn little_endian(raw: &[u8]) -> i64 {
    let mut wide = [0; 8];
    wide[8 - raw.len()..].copy_from_slice(raw);
    i64::from_le_bytes(wide) >> (8 * (8 - raw.len()))
}

/// The whole length of an element in bytes that may be anything, if it is a sound one.
fn checked_entry_len(entry: &[u8]) -> Option<usize> {
    let head = match entry.first()? {
        0xE0..0xF0 => 2,
        0xF0 => 5,
        0xF5.. => return None,
        _ => 1,
    };
    entry.get(..head)?;
    let body = body_len(entry);
    let len = body + back_len_size(body, true);
    let sound = back_len(body, true).eq(entry.get(body..len)?.iter().copied());
    sound.then_some(len)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::random::Random;

    fn contents<const TWO_WAY: bool>(packed: &Run<TWO_WAY>) -> Vec<Vec<u8>> {
        packed.iter().map(|item| item.to_vec()).collect()
    }

    fn sample(random: &mut Random) -> Vec<u8> {
        match random.below(6) {
            0 => random.below(300).to_string().into_bytes(),
            1 => (random.draw() as i64).to_string().into_bytes(),
            2 => format!("-{}", random.below(100_000)).into_bytes(),
            3 => vec![b'x'; random.below(300) as usize],
            4 => vec![b'y'; random.below(20_000) as usize],
            _ => format!("item:{}", random.below(50)).into_bytes(),
        }
    }

    #[test]
    fn every_change_does_what_a_vector_does() {
        for seed in 1..60 {
            change_at_random::<true>(seed);
            change_at_random::<false>(seed);
        }
    }

    fn change_at_random<const TWO_WAY: bool>(seed: u64) {
        let mut random = Random::new(seed);
        let (mut packed, mut model) = (Run::<TWO_WAY>::new(), Vec::<Vec<u8>>::new());
        for _ in 0..150 {
            let index = random.below(model.len() as u64 + 1) as usize;
            let element = sample(&mut random);
            match (random.below(8), packed.seek(index)) {
                (0, _) => {
                    packed.push_front(&element);
                    model.insert(0, element);
                }
                (1 | 2, _) | (_, None) => {
                    packed.push_back(&element);
                    model.push(element);
                }
                (3, Some(at)) => {
                    packed.insert(at, &element);
                    model.insert(index, element);
                }
                (4, Some(at)) => {
                    packed.replace(at, &element);
                    model[index] = element;
                }
                (5, Some(at)) => {
                    let count = random.below(4) as usize;
                    packed.remove(at, count);
                    model.drain(index..(index + count).min(model.len()));
                }
                (6, Some(_)) => {
                    let tail = packed.split_off(index);
                    assert_eq!(tail.len(), model.len() - index);
                    packed.append(&tail);
                }
                (_, Some(_)) => {
                    packed.remove_equal(&model[index].clone(), 1, true);
                    let last = model.iter().rposition(|other| *other == model[index]);
                    model.remove(last.unwrap());
                }
            }
            assert_eq!(packed.len(), model.len(), "seed {seed}");
        }
        assert_eq!(contents(&packed), model, "seed {seed}");
        let mut at = packed.last();
        for element in model.iter().rev() {
            let position = at.unwrap();
            assert_eq!(&*packed.item(position), &element[..], "seed {seed}");
            at = packed.prev(position);
        }
        assert_eq!(at, None);
    }

    #[test]
    fn numbers_of_every_size_come_back_and_other_digits_stay_strings() {
        let mut elements: Vec<Vec<u8>> = Vec::new();
        for shift in 0..63 {
            for near in -2..=2 {
                let value = (1i64 << shift).wrapping_add(near);
                elements.push(value.to_string().into_bytes());
                elements.push(value.wrapping_neg().to_string().into_bytes());
            }
        }
        for text in [
            "0",
            "-0",
            "00",
            "01",
            "+1",
            "",
            "-",
            " 1",
            "1 ",
            "9223372036854775807",
        ] {
            elements.push(text.into());
        }
        for text in [
            "-9223372036854775808",
            "9223372036854775808",
            "-9223372036854775809",
        ] {
            elements.push(text.into());
        }
        let mut packed = Packed::new();
        for element in &elements {
            packed.push_back(element);
        }
        assert_eq!(contents(&packed), elements);
        for element in &elements {
            let at = packed.find(element, packed.first(), 1).unwrap();
            assert_eq!(&*packed.item(at), &element[..]);
        }
    }

    #[test]
    fn a_search_with_a_stride_does_not_take_a_value_for_a_field() {
        let mut packed = Packed::new();
        for element in ["a", "b", "b", "c"] {
            packed.push_back(element.as_bytes());
        }
        assert_eq!(packed.find(b"b", packed.first(), 2), packed.seek(2));
        assert_eq!(packed.find(b"c", packed.first(), 2), None);
    }

    #[test]
    fn equal_elements_leave_in_one_pass_from_either_end() {
        let fill = |packed: &mut Packed| {
            for element in ["a", "7", "a", "b", "a"] {
                packed.push_back(element.as_bytes());
            }
        };
        let mut packed = Packed::new();
        fill(&mut packed);
        assert_eq!(packed.remove_equal(b"a", 2, true), 2);
        assert_eq!(contents(&packed), [&b"a"[..], b"7", b"b"]);
        fill(&mut packed);
        assert_eq!(packed.remove_equal(b"a", usize::MAX, false), 4);
        assert_eq!(packed.remove_equal(b"none", 1, false), 0);
        assert_eq!(contents(&packed), [&b"7"[..], b"b", b"7", b"b"]);
    }

    #[test]
    fn a_listpack_comes_back_and_a_damaged_one_is_refused() {
        let mut packed = Packed::new();
        for element in ["one", "2", "-300", "70000", "12345678901"] {
            packed.push_back(element.as_bytes());
        }
        packed.push_back(&[b'z'; 5000]);
        let listpack = packed.to_listpack();
        assert_eq!(listpack.len(), packed.listpack_size());
        assert_eq!(
            contents(&Packed::from_listpack(&listpack).unwrap()),
            contents(&packed)
        );
        for len in 0..listpack.len() {
            assert!(Packed::from_listpack(&listpack[..len]).is_none());
        }
        let mut lying = listpack;
        lying[4] = 9;
        assert!(Packed::from_listpack(&lying).is_none());
    }

    #[test]
    fn a_queue_that_runs_through_a_run_keeps_it_small() {
        let mut packed = Packed::new();
        for n in 0..100_000u32 {
            packed.push_back(n.to_string().as_bytes());
            if packed.len() > 10 {
                packed.remove(packed.first().unwrap(), 1);
            }
        }
        assert!(packed.heap_size() < 256, "{}", packed.heap_size());
    }
}
