//! The keys of each slot of a cluster, so that those of one are found without looking at others.

use std::collections::{HashMap, HashSet};

use crate::{bytestr::ByteStr, cluster::slot_of};

/// Keys by the slot that they belong to.
#[derive(Default)]
pub struct BySlot {
    /// Slots without a key are left out.
    keys: HashMap<u16, HashSet<ByteStr>>,
}

impl BySlot {
    pub fn insert(&mut self, key: &ByteStr) {
        self.keys
            .entry(slot_of(key))
            .or_default()
            .insert(key.clone());
    }

    pub fn remove(&mut self, key: &ByteStr) {
        let slot = slot_of(key);
        if let Some(keys) = self.keys.get_mut(&slot) {
            keys.remove(key);
            if keys.is_empty() {
                self.keys.remove(&slot);
            }
        }
    }

    pub fn len(&self, slot: u16) -> usize {
        self.keys.get(&slot).map_or(0, HashSet::len)
    }

    /// The keys of a slot, in no particular order.
    pub fn of(&self, slot: u16) -> impl Iterator<Item = &[u8]> {
        self.keys.get(&slot).into_iter().flatten().map(|key| &**key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_has_the_keys_put_into_it_and_not_taken_out() {
        let mut slots = BySlot::default();
        let keys = ["{a}1", "{a}2", "{b}1"].map(|key| ByteStr::new(key.as_bytes()));
        let (a, b) = (slot_of(b"a"), slot_of(b"b"));
        for key in keys.iter().chain([&keys[0]]) {
            slots.insert(key);
        }
        let mut found: Vec<&[u8]> = slots.of(a).collect();
        found.sort_unstable();
        assert_eq!(found, [b"{a}1", b"{a}2"]);
        assert_eq!((slots.len(a), slots.len(b)), (2, 1));
        for key in keys.iter().chain([&keys[0]]) {
            slots.remove(key);
        }
        assert_eq!((slots.len(a), slots.of(b).count()), (0, 0));
        assert!(slots.keys.is_empty());
    }
}
