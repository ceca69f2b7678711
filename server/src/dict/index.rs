//! Where the entry of a hash lies: open addressing in segments that split.
//!
//! A slot holds the hash beside the position, eight bytes together. So a look-up touches one
//! place here and the entry itself, and growing moves slots without looking at any entry. A
//! removal closes the gap behind it, so there are no tombstones and runs stay short.
//!
//! A table that grew as a whole would hold everybody up at ten million keys. Here the leading
//! bits of a hash choose a segment, and one that is full splits in two by the next bit, so no
//! insertion or removal moves more than one segment's slots.

/// Where hashes are found.
#[derive(Clone, Default)]
pub struct Index {
    segments: Vec<Segment>,
    /// Which segment has the hashes that begin with these bits; a power of two of them.
    directory: Vec<u32>,
    used: usize,
}

/// A slot in use; good until the next change.
#[derive(Clone, Copy)]
pub struct Place {
    segment: usize,
    at: usize,
}

/// The slots of all hashes that begin with the same bits.
#[derive(Clone)]
struct Segment {
    /// The hash above, the position plus one below; 0 is free.
    slots: Box<[u64]>,
    used: usize,
    /// How many leading bits its hashes share.
    depth: u32,
}

/// The fewest slots of a segment, and the most before it splits: 32 KB of them, which are moved
/// in some ten microseconds.
const SLOTS_MIN: usize = 8;
const SLOTS_MAX: usize = 4096;
/// A segment of so many leading bits grows on: there are four thousand million keys then.
const DEPTH_MAX: u32 = 20;
/// With fewer slots in use on the average, all segments are joined into few.
const SPARSE: usize = 16;

impl Index {
    /// The slot whose hash is this one and whose position fits.
    pub fn find(&self, hash: u32, fits: impl FnMut(usize) -> bool) -> Option<Place> {
        let segment = self.segment_of(hash)?;
        let at = self.segments[segment].find(hash, fits)?;
        Some(Place { segment, at })
    }

    pub fn position(&self, place: Place) -> usize {
        position(self.segments[place.segment].slots[place.at])
    }

    /// What stands first where a hash would be looked for.
    pub fn first_slot(&self, hash: u32) -> u64 {
        self.segment_of(hash).map_or(0, |segment| {
            let segment = &self.segments[segment];
            segment.slots[segment.home(hash)]
        })
    }

    pub fn move_to(&mut self, place: Place, position: usize) {
        let slot = &mut self.segments[place.segment].slots[place.at];
        *slot = pack(hash_of(*slot), position);
    }

    pub fn insert(&mut self, hash: u32, position: usize) {
        self.used += 1;
        self.put(pack(hash, position));
    }

    pub fn remove(&mut self, place: Place) {
        self.used -= 1;
        let segment = &mut self.segments[place.segment];
        segment.remove(place.at);
        if segment.slots.len() > SLOTS_MIN && segment.used < segment.slots.len() / 4 {
            segment.resize((segment.used * 2).max(SLOTS_MIN));
        }
        if self.segments.len() > 1 && self.used < self.segments.len() * SPARSE {
            self.join();
        }
    }

    /// What it occupies, in bytes.
    pub fn size(&self) -> usize {
        let slots: usize = self
            .segments
            .iter()
            .map(|segment| segment.slots.len())
            .sum();
        slots * size_of::<u64>()
            + self.segments.capacity() * size_of::<Segment>()
            + self.directory.capacity() * size_of::<u32>()
    }

    fn segment_of(&self, hash: u32) -> Option<usize> {
        // The directory is a power of two, so these are the leading bits.
        let at = (u64::from(hash) * self.directory.len() as u64) >> 32;
        self.directory.get(at as usize).map(|&id| id as usize)
    }

    fn put(&mut self, slot: u64) {
        let hash = hash_of(slot);
        loop {
            let Some(id) = self.segment_of(hash) else {
                self.segments.push(Segment::new(0, SLOTS_MIN));
                self.directory.push(0);
                continue;
            };
            let segment = &mut self.segments[id];
            if segment.has_room() {
                segment.used += 1;
                segment.place(slot);
                return;
            }
            if segment.slots.len() < SLOTS_MAX || segment.depth == DEPTH_MAX {
                segment.grow();
            } else {
                self.split(id, hash);
            }
        }
    }

    /// Splits the segment that this hash belongs to.
    fn split(&mut self, id: usize, hash: u32) {
        let depth = self.segments[id].depth;
        if self.directory.len() == 1 << depth {
            self.directory = self.directory.iter().flat_map(|&id| [id, id]).collect();
        }
        let upper = self.segments[id].split_off();
        let shared = self.directory.len() >> depth;
        let first = (u64::from(hash) << depth >> 32) as usize * shared;
        self.directory[first + shared / 2..first + shared].fill(self.segments.len() as u32);
        self.segments.push(upper);
    }

    /// Puts what is left of many segments into as few as it needs.
    fn join(&mut self) {
        self.directory = Vec::new();
        for segment in std::mem::take(&mut self.segments) {
            for slot in segment.slots {
                if slot != 0 {
                    self.put(slot);
                }
            }
        }
    }
}

impl Segment {
    fn new(depth: u32, slots: usize) -> Segment {
        Segment {
            slots: vec![0; slots].into_boxed_slice(),
            used: 0,
            depth,
        }
    }

    fn find(&self, hash: u32, mut fits: impl FnMut(usize) -> bool) -> Option<usize> {
        let mut at = self.home(hash);
        loop {
            let slot = self.slots[at];
            if slot == 0 {
                return None;
            }
            if hash_of(slot) == hash && fits(position(slot)) {
                return Some(at);
            }
            at = self.after(at);
        }
    }

    /// Up to seven eighths are used; beyond that, runs grow long.
    fn has_room(&self) -> bool {
        (self.used + 1) * 8 <= self.slots.len() * 7
    }

    fn place(&mut self, slot: u64) {
        let mut at = self.home(hash_of(slot));
        while self.slots[at] != 0 {
            at = self.after(at);
        }
        self.slots[at] = slot;
    }

    /// Frees a slot and moves those behind it up that its use had pushed back.
    fn remove(&mut self, mut gap: usize) {
        self.used -= 1;
        let mut at = gap;
        loop {
            at = self.after(at);
            let slot = self.slots[at];
            if slot == 0 {
                break;
            }
            let home = self.home(hash_of(slot));
            // It may move unless its home lies behind the gap, on the way round to it.
            let stays = if gap <= at {
                gap < home && home <= at
            } else {
                gap < home || home <= at
            };
            if !stays {
                self.slots[gap] = slot;
                gap = at;
            }
        }
        self.slots[gap] = 0;
    }

    fn grow(&mut self) {
        let len = self.slots.len();
        let grown = len * 3 / 2;
        let fits = len < SLOTS_MAX && grown > SLOTS_MAX;
        self.resize(if fits { SLOTS_MAX } else { grown });
    }

    fn resize(&mut self, slots: usize) {
        let old = std::mem::replace(&mut self.slots, vec![0; slots].into_boxed_slice());
        for slot in old {
            if slot != 0 {
                self.place(slot);
            }
        }
    }

    /// Leaves the hashes whose next bit is set to a new segment.
    fn split_off(&mut self) -> Segment {
        let is_upper = |slot: u64| hash_of(slot) << self.depth >> 31 == 1;
        let old = std::mem::take(&mut self.slots);
        let of_upper = old
            .iter()
            .filter(|&&slot| slot != 0 && is_upper(slot))
            .count();
        let of_lower = self.used - of_upper;
        let sized = |used: usize| (used * 3 / 2).max(SLOTS_MIN);
        let depth = self.depth + 1;
        let mut upper = Segment::new(depth, sized(of_upper));
        let mut lower = Segment::new(depth, sized(of_lower));
        (upper.used, lower.used) = (of_upper, of_lower);
        for slot in old.into_iter().filter(|&slot| slot != 0) {
            if is_upper(slot) {
                upper.place(slot);
            } else {
                lower.place(slot);
            }
        }
        *self = lower;
        upper
    }

    /// Spreads what the leading bits left over any number of slots, not only a power of two.
    fn home(&self, hash: u32) -> usize {
        let rest = hash << self.depth;
        ((u64::from(rest) * self.slots.len() as u64) >> 32) as usize
    }

    fn after(&self, at: usize) -> usize {
        if at + 1 == self.slots.len() {
            0
        } else {
            at + 1
        }
    }
}

fn pack(hash: u32, position: usize) -> u64 {
    u64::from(hash) << 32 | (position as u64 + 1)
}

fn hash_of(slot: u64) -> u32 {
    (slot >> 32) as u32
}

fn position(slot: u64) -> usize {
    (slot as u32 - 1) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Spreads numbers over all hashes, as a good hash function would.
    fn hash(n: usize) -> u32 {
        (n as u64)
            .wrapping_mul(0x9E37_79B9_7F4A_7C15)
            .rotate_left(29) as u32
    }

    fn found(index: &Index, n: usize) -> Option<usize> {
        let place = index.find(hash(n), |at| at == n)?;
        Some(index.position(place))
    }

    fn largest(index: &Index) -> usize {
        index
            .segments
            .iter()
            .map(|segment| segment.slots.len())
            .max()
            .unwrap_or(0)
    }

    #[test]
    fn all_are_found_while_segments_split_and_join() {
        const COUNT: usize = 50_000;
        let mut index = Index::default();
        for n in 0..COUNT {
            index.insert(hash(n), n);
        }
        assert!(index.segments.len() > 8);
        assert!((0..COUNT).all(|n| found(&index, n) == Some(n)));
        for n in (0..COUNT).filter(|n| n % 1000 != 0) {
            let place = index.find(hash(n), |at| at == n).unwrap();
            index.remove(place);
        }
        assert_eq!(index.segments.len(), 1, "what is left is joined");
        for n in 0..COUNT {
            assert_eq!(found(&index, n).is_some(), n % 1000 == 0, "{n}");
        }
        assert!(index.size() < 4096, "and memory is given back");
    }

    #[test]
    fn no_segment_grows_beyond_what_is_moved_at_once() {
        let mut index = Index::default();
        for n in 0..200_000 {
            index.insert(hash(n), n);
        }
        assert!(largest(&index) <= SLOTS_MAX);
        assert!(index.size() < 200_000 * 13, "{}", index.size());
    }

    #[test]
    fn equal_hashes_do_not_split_without_end() {
        let mut index = Index::default();
        for n in 0..4_000 {
            index.insert(7, n);
        }
        assert_eq!(index.used, 4_000);
        let last = index.find(7, |at| at == 3_999);
        assert!(last.is_some());
    }

    #[test]
    fn a_moved_entry_is_found_at_its_new_position() {
        let mut index = Index::default();
        index.insert(hash(1), 1);
        let place = index.find(hash(1), |at| at == 1).unwrap();
        index.move_to(place, 5);
        assert!(index.find(hash(1), |at| at == 5).is_some());
    }
}
