//! The deadline index: a hierarchical timing wheel threaded through the entries themselves.
//!
//! Adding, moving and removing a deadline cost the same at ten keys and at ten million. Eight
//! wheels of 64 slots each cover 2⁴⁸ milliseconds; a slot is a doubly linked list of entries,
//! and the links live in the entries, eight bytes each. An entry stands in the wheel of the
//! highest digit (in base 64) in which its deadline differs from the wheel's own time. When time
//! enters a slot of a higher wheel, its entries move down, one entry a step, so however many are
//! due at once a caller may stop after any number of steps.

const LEVELS: usize = 8;
const SLOTS: usize = 64;
/// The first deadline beyond the wheels: some 8,900 years after 1970. It never fires.
const HORIZON: u64 = 1 << 48;
const NONE: u32 = u32::MAX;

/// The links of an entry, kept in the entry.
#[derive(Clone, Copy, Debug)]
pub struct Links {
    next: u32,
    prev: u32,
}

impl Default for Links {
    fn default() -> Self {
        Links {
            next: NONE,
            prev: NONE,
        }
    }
}

impl Links {
    /// The positions of the entries before and after it.
    pub fn beside(self) -> impl Iterator<Item = usize> {
        let linked = |at: &u32| *at != NONE;
        [self.prev, self.next]
            .into_iter()
            .filter(linked)
            .map(|at| at as usize)
    }
}

/// An entry that may have a deadline.
pub trait Timed {
    /// In milliseconds; only asked of entries that are in the index.
    fn deadline(&self) -> u64;
    fn links(&mut self) -> &mut Links;
}

/// What one step of the wheel came to.
#[derive(Debug, PartialEq, Eq)]
pub enum Step {
    /// This entry is due, and no longer in the index.
    Due(usize),
    /// Some housekeeping was done; there may be more.
    Working,
    /// Nothing is due at the time asked for.
    Idle,
}

/// The index over a slice of entries, which are named by their positions.
pub struct Deadlines {
    heads: Box<[[u32; SLOTS]; LEVELS]>,
    /// One bit a slot: is it occupied?
    occupied: [u64; LEVELS],
    elapsed: u64,
    len: usize,
}

impl Deadlines {
    /// An index whose time begins at `now`, in milliseconds.
    pub fn new(now: u64) -> Deadlines {
        Deadlines {
            heads: Box::new([[NONE; SLOTS]; LEVELS]),
            occupied: [0; LEVELS],
            elapsed: now,
            len: 0,
        }
    }

    /// How many entries have a deadline.
    pub fn len(&self) -> usize {
        self.len
    }

    pub fn insert<T: Timed>(&mut self, entries: &mut [T], at: usize) {
        self.len += 1;
        self.link(entries, at);
    }

    /// Takes out an entry that is in the index, before its deadline changes or it goes away.
    pub fn remove<T: Timed>(&mut self, entries: &mut [T], at: usize) {
        self.len -= 1;
        self.unlink(entries, at);
    }

    /// Tells that the entry at `from` now stands at `to`.
    pub fn moved<T: Timed>(&mut self, entries: &mut [T], from: usize, to: usize) {
        let deadline = entries[to].deadline();
        if deadline >= HORIZON {
            return;
        }
        let Links { next, prev } = *entries[to].links();
        if next != NONE {
            entries[next as usize].links().prev = to as u32;
        }
        if prev != NONE {
            entries[prev as usize].links().next = to as u32;
        } else if let Some((level, slot)) = self.slot_headed_by(deadline, from as u32) {
            self.heads[level][slot] = to as u32;
        }
    }

    /// A moment, in milliseconds, before which nothing is due; `None` when nothing ever is.
    pub fn next(&self) -> Option<u64> {
        (0..LEVELS).filter_map(|level| self.next_in(level)).min()
    }

    /// Whether a deadline has passed at `now`. [`Deadlines::next`] may also be a moment at which
    /// those that are further off are only sorted anew.
    pub fn is_due(&self, now: u64) -> bool {
        self.next_in(0).is_some_and(|next| next <= now)
    }

    /// Does one bounded step of the work that is due at `now`.
    pub fn step<T: Timed>(&mut self, entries: &mut [T], now: u64) -> Step {
        for level in (1..LEVELS).rev() {
            let slot = digit(self.elapsed, level);
            let head = self.heads[level][slot];
            if head != NONE {
                self.unlink_head(entries, level, slot);
                self.link(entries, head as usize);
                return Step::Working;
            }
        }
        let slot = digit(self.elapsed, 0);
        let head = self.heads[0][slot];
        if head != NONE && self.elapsed <= now {
            self.unlink_head(entries, 0, slot);
            self.len -= 1;
            return Step::Due(head as usize);
        }
        match self.next() {
            Some(next) if next <= now => {
                self.elapsed = self.elapsed.max(next);
                Step::Working
            }
            _ => {
                if head == NONE {
                    self.elapsed = self.elapsed.max(now);
                }
                Step::Idle
            }
        }
    }

    fn next_in(&self, level: usize) -> Option<u64> {
        let occupied = self.occupied[level];
        if occupied == 0 {
            return None;
        }
        // Slots behind the current digit cannot be occupied, so the lowest bit comes first.
        let slot = u64::from(occupied.trailing_zeros());
        let shift = 6 * level as u32;
        let above = self.elapsed >> shift >> 6 << 6 << shift;
        Some((above + (slot << shift)).max(self.elapsed))
    }

    fn link<T: Timed>(&mut self, entries: &mut [T], at: usize) {
        let deadline = entries[at].deadline();
        if deadline >= HORIZON {
            return;
        }
        let (level, slot) = self.place(deadline);
        let head = self.heads[level][slot];
        *entries[at].links() = Links {
            next: head,
            prev: NONE,
        };
        if head != NONE {
            entries[head as usize].links().prev = at as u32;
        }
        self.heads[level][slot] = at as u32;
        self.occupied[level] |= 1 << slot;
    }

    fn unlink<T: Timed>(&mut self, entries: &mut [T], at: usize) {
        let deadline = entries[at].deadline();
        if deadline >= HORIZON {
            return;
        }
        let Links { next, prev } = *entries[at].links();
        if prev == NONE {
            if let Some((level, slot)) = self.slot_headed_by(deadline, at as u32) {
                self.unlink_head(entries, level, slot);
            }
            return;
        }
        entries[prev as usize].links().next = next;
        if next != NONE {
            entries[next as usize].links().prev = prev;
        }
        *entries[at].links() = Links::default();
    }

    fn unlink_head<T: Timed>(&mut self, entries: &mut [T], level: usize, slot: usize) {
        let head = self.heads[level][slot] as usize;
        let next = std::mem::take(entries[head].links()).next;
        self.heads[level][slot] = next;
        if next == NONE {
            self.occupied[level] &= !(1 << slot);
        } else {
            entries[next as usize].links().prev = NONE;
        }
    }

    fn place(&self, deadline: u64) -> (usize, usize) {
        let deadline = deadline.max(self.elapsed);
        let differing = self.elapsed ^ deadline;
        let level = (63 - (differing | 1).leading_zeros() as usize) / 6;
        (
            level.min(LEVELS - 1),
            digit(deadline, level.min(LEVELS - 1)),
        )
    }

    /// The slot at whose head an entry stands. One that waits to move down is still in the
    /// current slot of a higher wheel.
    fn slot_headed_by(&self, deadline: u64, at: u32) -> Option<(usize, usize)> {
        let placed = self.place(deadline);
        std::iter::once(placed)
            .chain((0..LEVELS).map(|level| (level, digit(self.elapsed, level))))
            .find(|&(level, slot)| self.heads[level][slot] == at)
    }
}

fn digit(time: u64, level: usize) -> usize {
    (time >> (6 * level)) as usize % SLOTS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Default)]
    struct Node {
        deadline: u64,
        links: Links,
    }

    impl Timed for Node {
        fn deadline(&self) -> u64 {
            self.deadline
        }

        fn links(&mut self) -> &mut Links {
            &mut self.links
        }
    }

    fn drain(wheel: &mut Deadlines, nodes: &mut [Node], now: u64) -> Vec<usize> {
        let mut due = Vec::new();
        loop {
            match wheel.step(nodes, now) {
                Step::Due(at) => due.push(at),
                Step::Working => {}
                Step::Idle => return due,
            }
        }
    }

    #[test]
    fn nothing_is_due_when_deadlines_are_only_sorted_anew() {
        let mut nodes = [Node::default()];
        let mut wheel = Deadlines::new(60);
        nodes[0].deadline = 90;
        wheel.insert(&mut nodes, 0);
        assert_eq!(wheel.next(), Some(64));
        assert!(!wheel.is_due(64));
        assert!(drain(&mut wheel, &mut nodes, 64).is_empty());
        assert_eq!(wheel.next(), Some(90));
        assert!(!wheel.is_due(89) && wheel.is_due(90));
    }

    #[test]
    fn every_deadline_fires_once_in_order_and_never_early() {
        for seed in 1..200u64 {
            let mut random = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15);
            let mut next = move |bound: u64| {
                random ^= random << 13;
                random ^= random >> 7;
                random ^= random << 17;
                random % bound
            };
            let start = 1_700_000_000_000 + next(1 << 30);
            let mut wheel = Deadlines::new(start);
            let mut nodes: Vec<Node> = Vec::new();
            for _ in 0..300 {
                let spread = 1 << next(36);
                nodes.push(Node {
                    deadline: start + next(spread),
                    links: Links::default(),
                });
                let at = nodes.len() - 1;
                wheel.insert(&mut nodes, at);
            }
            let mut pending: std::collections::BTreeSet<usize> = (0..nodes.len()).collect();
            let mut now = start;
            while !pending.is_empty() {
                let next_due = pending.iter().map(|&at| nodes[at].deadline).min().unwrap();
                assert!(wheel.next().unwrap() <= next_due.max(now), "seed {seed}");
                now = if next(3) == 0 {
                    now + next(1000)
                } else {
                    next_due.max(now)
                };
                for _ in 0..next(4) {
                    if let Some(&at) = pending.iter().nth(next(300) as usize) {
                        pending.remove(&at);
                        wheel.remove(&mut nodes, at);
                    }
                }
                let mut last = 0;
                for at in drain(&mut wheel, &mut nodes, now) {
                    assert!(pending.remove(&at), "seed {seed}: {at} fired twice");
                    assert!(nodes[at].deadline <= now && nodes[at].deadline >= last);
                    last = nodes[at].deadline;
                }
                assert!(
                    pending.iter().all(|&at| nodes[at].deadline > now),
                    "seed {seed}"
                );
            }
            assert_eq!((wheel.len(), wheel.next()), (0, None));
        }
    }

    #[test]
    fn an_entry_that_moved_still_fires() {
        let mut wheel = Deadlines::new(1000);
        let mut nodes: Vec<Node> = (0..5)
            .map(|n| Node {
                deadline: 2000 + n % 2,
                links: Links::default(),
            })
            .collect();
        for at in 0..5 {
            wheel.insert(&mut nodes, at);
        }
        wheel.remove(&mut nodes, 1);
        nodes.swap_remove(1);
        wheel.moved(&mut nodes, 4, 1);
        let mut due = drain(&mut wheel, &mut nodes, 3000);
        due.sort_unstable();
        assert_eq!(due, [0, 1, 2, 3]);
    }
}
