//! A hash table whose entries lie densely in a vector, for keyspaces, hashes and sets.
//!
//! Density buys three things that a plain hash map does not have. A random entry is one index
//! away. Memory is the entries and one small index. And a scan keeps its guarantee with no
//! bookkeeping: it walks *down* the vector, and a removal moves only the last entry, only to a
//! lower place. So an entry that was there throughout can move ahead of the cursor but never
//! behind it: a scan meets it, at times twice, whatever comes and goes meanwhile.

mod index;

use std::hash::BuildHasher;

use foldhash::quality::RandomState;

use index::Index;

/// What a dictionary keeps: something that knows its own key.
pub trait Keyed {
    fn key(&self) -> &[u8];

    /// The hash of the key, for entries that rather keep it than have it computed again when
    /// they are removed or moved.
    fn stored_hash(&self) -> Option<u32> {
        None
    }

    /// Looks at what it keeps outside of itself, apart from the key.
    fn touch_content(&self) -> u64 {
        0
    }
}

/// A dictionary. Positions are indices that stay valid until the next removal.
#[derive(Clone)]
pub struct Dict<E> {
    index: Index,
    entries: Vec<E>,
    hasher: RandomState,
}

/// An entry taken out, and where it left a hole that the last entry filled.
pub struct Removed<E> {
    pub entry: E,
    /// The old position of the entry that now stands where the removed one stood.
    pub moved_from: Option<usize>,
}

impl<E: Keyed> Default for Dict<E> {
    fn default() -> Self {
        Dict {
            index: Index::default(),
            entries: Vec::new(),
            hasher: RandomState::default(),
        }
    }
}

impl<E: Keyed> Dict<E> {
    pub fn new() -> Self {
        Self::default()
    }

    pub fn len(&self) -> usize {
        self.entries.len()
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub fn hash(&self, key: &[u8]) -> u32 {
        self.hasher.hash_one(key) as u32
    }

    pub fn find(&self, key: &[u8]) -> Option<usize> {
        self.find_hashed(key, self.hash(key))
    }

    pub fn find_hashed(&self, key: &[u8], hash: u32) -> Option<usize> {
        let entries = &self.entries;
        let place = self.index.find(hash, |at| entries[at].key() == key)?;
        Some(self.index.position(place))
    }

    /// Looks at where the entries of these hashes lie, to have that memory at hand: one step of
    /// the look-up for all of them, then the next. What it gives only keeps that from being left
    /// out. The hashes become positions, or `u32::MAX` where there is no entry.
    pub fn warm(&self, hashes: &mut [u32]) -> u64 {
        let mut seen = 0;
        for &mut hash in &mut *hashes {
            seen ^= self.index.first_slot(hash);
        }
        for place in &mut *hashes {
            let found = self.index.find(*place, |_| true);
            *place = found.map_or(u32::MAX, |found| self.index.position(found) as u32);
            if let Some(entry) = self.entries.get(*place as usize) {
                // The key lies at one end and the hash, if it is kept, at the other.
                seen ^= entry.key().len() as u64;
                seen ^= u64::from(entry.stored_hash().unwrap_or_default());
            }
        }
        for &mut place in hashes {
            if let Some(entry) = self.entries.get(place as usize) {
                seen ^= u64::from(entry.key().first().copied().unwrap_or_default());
                seen ^= entry.touch_content();
            }
        }
        seen
    }

    /// The same for where the index has the entries at these positions.
    pub fn warm_slots(&self, positions: std::ops::Range<usize>) -> u64 {
        positions
            .map(|at| self.index.first_slot(self.hash_at(at)))
            .fold(0, |seen, slot| seen ^ slot)
    }

    pub fn contains(&self, key: &[u8]) -> bool {
        self.find(key).is_some()
    }

    pub fn get(&self, key: &[u8]) -> Option<&E> {
        self.find(key).map(|at| &self.entries[at])
    }

    /// The entry at a position below `len()`.
    pub fn at(&self, position: usize) -> &E {
        &self.entries[position]
    }

    pub fn at_mut(&mut self, position: usize) -> &mut E {
        &mut self.entries[position]
    }

    /// Adds an entry whose key is not there yet, and tells its position, always the last.
    pub fn insert_new(&mut self, entry: E) -> usize {
        let hash = self.hash(entry.key());
        self.insert_new_hashed(entry, hash)
    }

    pub fn insert_new_hashed(&mut self, entry: E, hash: u32) -> usize {
        let position = self.entries.len();
        self.index.insert(hash, position);
        self.entries.push(entry);
        position
    }

    pub fn remove(&mut self, key: &[u8]) -> Option<E> {
        let at = self.find(key)?;
        Some(self.remove_at(at).entry)
    }

    /// Takes the entry at a position below `len()` out; the last entry moves into its place.
    pub fn remove_at(&mut self, position: usize) -> Removed<E> {
        if let Some(place) = self.index.find(self.hash_at(position), |at| at == position) {
            self.index.remove(place);
        }
        let last = self.entries.len() - 1;
        if position != last
            && let Some(place) = self.index.find(self.hash_at(last), |at| at == last)
        {
            self.index.move_to(place, position);
        }
        let entry = self.entries.swap_remove(position);
        self.shrink_if_sparse();
        Removed {
            entry,
            moved_from: (position != last).then_some(last),
        }
    }

    pub fn iter(&self) -> std::slice::Iter<'_, E> {
        self.entries.iter()
    }

    /// The entries themselves, for changes that leave every key as it is.
    pub fn entries_mut(&mut self) -> &mut [E] {
        &mut self.entries
    }

    /// Visits up to `count` entries from the cursor on and returns the next cursor, 0 at the
    /// end. Start with 0.
    pub fn scan<'a>(&'a self, cursor: u64, count: usize, mut visit: impl FnMut(&'a E)) -> u64 {
        let len = self.entries.len() as u64;
        let top = if cursor == 0 { len } else { cursor.min(len) };
        let bottom = top.saturating_sub(count as u64);
        for at in (bottom..top).rev() {
            visit(&self.entries[at as usize]);
        }
        bottom
    }

    /// What the table itself occupies, in bytes, without what the entries hold on the heap.
    pub fn table_size(&self) -> usize {
        self.index.size() + self.entries.capacity() * size_of::<E>()
    }

    fn hash_at(&self, position: usize) -> u32 {
        let entry = &self.entries[position];
        entry
            .stored_hash()
            .unwrap_or_else(|| self.hash(entry.key()))
    }

    /// Gives memory back when three quarters and more of it lie idle.
    fn shrink_if_sparse(&mut self) {
        let len = self.entries.len();
        if self.entries.capacity() > 64 && len < self.entries.capacity() / 8 {
            self.entries.shrink_to(len * 2);
        }
    }
}

impl Keyed for crate::bytestr::ByteStr {
    fn key(&self) -> &[u8] {
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bytestr::ByteStr;

    fn numbered(n: u32) -> ByteStr {
        ByteStr::new(n.to_string().as_bytes())
    }

    #[test]
    fn a_scan_meets_all_that_stay_while_others_come_and_go() {
        for seed in 0..50u64 {
            let mut random = seed.wrapping_mul(0x9E37_79B9) | 1;
            let mut next = move |bound: u64| {
                random = random
                    .wrapping_mul(6_364_136_223_846_793_005)
                    .wrapping_add(1);
                (random >> 33) % bound
            };
            let mut dict = Dict::new();
            for n in 0..200 {
                dict.insert_new(numbered(n));
            }
            let (mut seen, mut cursor) = (std::collections::HashSet::new(), 0);
            loop {
                cursor = dict.scan(cursor, 7, |entry| {
                    seen.insert(entry.to_vec());
                });
                if cursor == 0 {
                    break;
                }
                for _ in 0..next(12) {
                    // Multiples of three stay throughout.
                    let n = next(400) as u32;
                    if n.is_multiple_of(3) {
                        continue;
                    }
                    if dict.remove(&numbered(n)).is_none() {
                        dict.insert_new(numbered(n));
                    }
                }
            }
            for n in (0..200).filter(|n| n % 3 == 0) {
                assert!(
                    seen.contains(&numbered(n).to_vec()),
                    "seed {seed}: {n} was not met"
                );
            }
        }
    }

    #[test]
    fn removal_keeps_every_other_entry_findable() {
        let mut dict = Dict::new();
        for n in 0..5000 {
            dict.insert_new(numbered(n));
        }
        for n in (0..5000).step_by(2) {
            assert!(dict.remove(&numbered(n)).is_some());
        }
        for n in 0..5000 {
            assert_eq!(dict.contains(&numbered(n)), n % 2 == 1);
        }
        assert_eq!(dict.len(), 2500);
    }
}
