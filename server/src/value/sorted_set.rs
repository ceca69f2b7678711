//! A sorted set: packed pairs while small, a counted tree beside a table when large.
//!
//! Everything goes by rank. Bounds of score or of member are turned into a range of ranks, and
//! reading, counting, paging and removing are then the same for all kinds of ranges.

use std::{cmp::Ordering, ops::Range};

use super::{
    limits::Limits,
    list::End,
    packed::{Item, OneWay},
    rank_tree::{self, RankTree},
};
use crate::{
    bytestr::ByteStr,
    dict::{Dict, Keyed},
};

/// Members ordered by score and, at equal scores, by bytes.
#[derive(Clone, Default)]
pub struct SortedSet(Repr);

#[derive(Clone)]
enum Repr {
    /// Member and score in turns.
    Small(OneWay),
    Large(Box<Table>),
}

#[derive(Clone, Default)]
struct Table {
    members: Dict<Member>,
    /// The positions in `members`, in order.
    order: RankTree,
}

#[derive(Clone)]
struct Member {
    name: ByteStr,
    score: f64,
}

impl Keyed for Member {
    fn key(&self) -> &[u8] {
        &self.name
    }
}

/// A bound of a range of scores.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct ScoreBound {
    /// The score at the edge, maybe infinite.
    pub score: f64,
    /// Whether that score itself lies outside.
    pub exclusive: bool,
}

/// A bound of a range of members that all have the same score.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LexBound<'a> {
    /// Before every member.
    Lowest,
    /// After every member.
    Highest,
    /// At a member, which lies inside.
    Inclusive(&'a [u8]),
    /// At a member, which lies outside.
    Exclusive(&'a [u8]),
}

impl ScoreBound {
    /// Whether a score lies below a range that starts here.
    pub fn starts_above(self, score: f64) -> bool {
        score < self.score || (self.exclusive && score == self.score)
    }

    /// Whether a score lies not above a range that ends here.
    pub fn ends_at_or_above(self, score: f64) -> bool {
        score < self.score || (!self.exclusive && score == self.score)
    }
}

impl LexBound<'_> {
    /// Whether a member lies below a range that starts here.
    pub fn starts_above(self, member: &[u8]) -> bool {
        match self {
            LexBound::Lowest => false,
            LexBound::Highest => true,
            LexBound::Inclusive(bound) => member < bound,
            LexBound::Exclusive(bound) => member <= bound,
        }
    }

    /// Whether a member lies not above a range that ends here.
    pub fn ends_at_or_above(self, member: &[u8]) -> bool {
        match self {
            LexBound::Lowest => false,
            LexBound::Highest => true,
            LexBound::Inclusive(bound) => member <= bound,
            LexBound::Exclusive(bound) => member < bound,
        }
    }
}

impl Default for Repr {
    fn default() -> Self {
        Repr::Small(OneWay::new())
    }
}

impl SortedSet {
    /// An empty set.
    pub fn new() -> SortedSet {
        SortedSet::default()
    }

    /// An empty set, in the encoding that suits so many members of up to that length.
    pub fn sized_for(members: usize, longest: usize, limits: Limits) -> SortedSet {
        let mut set = SortedSet::new();
        set.make_room(members, longest, limits);
        set
    }

    /// Turns to a table when so many members of up to that length are too much for packing,
    /// whether they are new or not: the references decide by what one command brings.
    pub fn expect(&mut self, members: usize, longest: usize, limits: Limits) {
        if members > limits.zset_max_listpack_entries || longest > limits.zset_max_listpack_value {
            self.make_table();
        }
    }

    /// How many members it holds.
    pub fn len(&self) -> usize {
        match &self.0 {
            Repr::Small(packed) => packed.len() / 2,
            Repr::Large(table) => table.members.len(),
        }
    }

    /// Whether it holds none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Is it packed no longer?
    pub fn is_table(&self) -> bool {
        matches!(self.0, Repr::Large(_))
    }

    /// The name that OBJECT ENCODING gives.
    pub fn encoding(&self) -> &'static str {
        match self.0 {
            Repr::Small(_) => "listpack",
            Repr::Large(_) => "skiplist",
        }
    }

    /// An estimate of what it holds outside of itself, in bytes, from so many samples.
    pub fn heap_size(&self, samples: usize) -> usize {
        match &self.0 {
            Repr::Small(packed) => packed.heap_size(),
            Repr::Large(table) => table.heap_size(samples),
        }
    }

    /// The score of a member.
    pub fn score(&self, member: &[u8]) -> Option<f64> {
        match &self.0 {
            Repr::Small(packed) => {
                let at = packed.find(member, packed.first(), 2)?;
                Some(read_score(packed, packed.next(at)?))
            }
            Repr::Large(table) => table.members.get(member).map(|member| member.score),
        }
    }

    /// Whether a member is there.
    pub fn contains(&self, member: &[u8]) -> bool {
        self.score(member).is_some()
    }

    /// Gives a member a score, adding it if need be, and returns the score it had. The score
    /// must be a number.
    pub fn insert(&mut self, member: &[u8], score: f64, limits: Limits) -> Option<f64> {
        let old = self.score(member);
        match old {
            None => self.insert_new(member, score, limits),
            Some(old) if old != score => self.change(member, score),
            Some(_) => {}
        }
        old
    }

    /// Adds a member that is not there yet.
    pub fn insert_new(&mut self, member: &[u8], score: f64, limits: Limits) {
        self.make_room(1, member.len(), limits);
        match &mut self.0 {
            Repr::Small(packed) => insert_packed(packed, member, score),
            Repr::Large(table) => table.insert(member, score),
        }
    }

    /// Gives a member that is there another score.
    pub fn change(&mut self, member: &[u8], score: f64) {
        match &mut self.0 {
            Repr::Small(packed) => {
                remove_packed(packed, member);
                insert_packed(packed, member, score);
            }
            Repr::Large(table) => table.insert(member, score),
        }
    }

    /// Takes a member out and returns the score it had.
    pub fn remove(&mut self, member: &[u8]) -> Option<f64> {
        match &mut self.0 {
            Repr::Small(packed) => remove_packed(packed, member),
            Repr::Large(table) => {
                let position = table.members.find(member)?;
                let rank = table.rank(position);
                Some(table.remove_rank(rank).score)
            }
        }
    }

    /// The rank of a member, counted from the lowest score, and its score.
    pub fn rank(&self, member: &[u8]) -> Option<(usize, f64)> {
        match &self.0 {
            Repr::Small(_) => {
                let found = self
                    .iter()
                    .enumerate()
                    .find(|(_, (name, _))| **name == *member);
                found.map(|(rank, (_, score))| (rank, score))
            }
            Repr::Large(table) => {
                let position = table.members.find(member)?;
                Some((table.rank(position), table.members.at(position).score))
            }
        }
    }

    /// Takes the member with the lowest (`Front`) or highest (`Back`) score out.
    pub fn pop(&mut self, end: End) -> Option<(ByteStr, f64)> {
        let rank = match end {
            End::Front => 0,
            End::Back => self.len().checked_sub(1)?,
        };
        match &mut self.0 {
            Repr::Small(packed) => {
                let at = packed.seek(rank * 2)?;
                let popped = (
                    packed.item(at).to_byte_str(),
                    read_score(packed, packed.next(at)?),
                );
                packed.remove(at, 2);
                Some(popped)
            }
            Repr::Large(table) if table.members.is_empty() => None,
            Repr::Large(table) => {
                let Member { name, score } = table.remove_rank(rank);
                Some((name, score))
            }
        }
    }

    /// Takes the members of these ranks out and returns how many there were.
    pub fn remove_ranks(&mut self, ranks: Range<usize>) -> usize {
        let end = ranks.end.min(self.len());
        let count = end.saturating_sub(ranks.start);
        match &mut self.0 {
            Repr::Small(packed) => {
                if let Some(at) = packed.seek(ranks.start * 2).filter(|_| count > 0) {
                    packed.remove(at, count * 2);
                }
            }
            Repr::Large(table) if count > table.members.len() / 2 => {
                table.keep_all_but(ranks.start, count);
            }
            Repr::Large(table) => {
                for _ in 0..count {
                    table.remove_rank(ranks.start);
                }
            }
        }
        count
    }

    /// The ranks of the members whose scores lie between two bounds.
    pub fn ranks_by_score(&self, min: ScoreBound, max: ScoreBound) -> Range<usize> {
        let start = self.partition_by_score(|score| min.starts_above(score));
        let end = self.partition_by_score(|score| max.ends_at_or_above(score));
        start..end.max(start)
    }

    /// The ranks of the members between two bounds, supposing that all scores are the same.
    pub fn ranks_by_lex(&self, min: LexBound<'_>, max: LexBound<'_>) -> Range<usize> {
        let start = self.partition_by_name(|member| min.starts_above(member));
        let end = self.partition_by_name(|member| max.ends_at_or_above(member));
        start..end.max(start)
    }

    /// All members with their scores, from the lowest score on.
    pub fn iter(&self) -> Elements<'_> {
        self.range(0, self.len())
    }

    /// Up to `count` members from a rank on, upward.
    pub fn range(&self, rank: usize, count: usize) -> Elements<'_> {
        Elements(match &self.0 {
            Repr::Small(packed) => Walk::Packed {
                packed,
                next: packed.seek(rank.saturating_mul(2)),
                left: count,
            },
            Repr::Large(table) => Walk::Table {
                members: &table.members,
                order: table.order.range(rank, count),
            },
        })
    }

    /// Up to `count` members from a rank on, downward.
    pub fn range_down(&self, rank: usize, count: usize) -> Elements<'_> {
        let left = if rank < self.len() { count } else { 0 };
        Elements(match &self.0 {
            Repr::Small(packed) => Walk::Backward {
                packed,
                pairs: pairs_up_to(packed, rank),
                left,
            },
            Repr::Large(table) => Walk::Table {
                members: &table.members,
                order: table.order.range_down(rank, left),
            },
        })
    }

    /// The member at a place in no particular order, below `len()`: for drawing members.
    pub fn pick(&self, place: usize) -> Option<(Item<'_>, f64)> {
        match &self.0 {
            Repr::Small(_) => self.range(place, 1).next(),
            Repr::Large(table) if place < table.members.len() => {
                let member = table.members.at(place);
                Some((Item::Bytes(&member.name), member.score))
            }
            Repr::Large(_) => None,
        }
    }

    /// Visits members from a cursor on and returns the next cursor, 0 at the end. A member that
    /// is there throughout is visited at least once.
    pub fn scan<'a>(
        &'a self,
        cursor: u64,
        count: usize,
        mut visit: impl FnMut(Item<'a>, f64),
    ) -> u64 {
        match &self.0 {
            Repr::Small(_) => {
                for (member, score) in self {
                    visit(member, score);
                }
                0
            }
            Repr::Large(table) => table.members.scan(cursor, count, |member| {
                visit(Item::Bytes(&member.name), member.score);
            }),
        }
    }

    fn partition_by_score(&self, before: impl Fn(f64) -> bool) -> usize {
        match &self.0 {
            Repr::Small(_) => self.iter().take_while(|(_, score)| before(*score)).count(),
            Repr::Large(table) => table.order.partition(|score, _| before(score)),
        }
    }

    fn partition_by_name(&self, before: impl Fn(&[u8]) -> bool) -> usize {
        match &self.0 {
            Repr::Small(_) => self.iter().take_while(|(name, _)| before(name)).count(),
            Repr::Large(table) => table
                .order
                .partition(|_, id| before(&table.members.at(id as usize).name)),
        }
    }

    fn make_room(&mut self, members: usize, longest: usize, limits: Limits) {
        let Repr::Small(packed) = &self.0 else { return };
        let fits = packed.len() / 2 + members <= limits.zset_max_listpack_entries
            && longest <= limits.zset_max_listpack_value;
        if !fits {
            self.make_table();
        }
    }

    /// Gives up packing, however few the members are.
    pub fn make_table(&mut self) {
        if let Repr::Small(_) = self.0 {
            let mut table = Table::default();
            for (name, score) in self.iter() {
                table.insert(&name, score);
            }
            self.0 = Repr::Large(Box::new(table));
        }
    }
}

impl<'a> IntoIterator for &'a SortedSet {
    type Item = (Item<'a>, f64);
    type IntoIter = Elements<'a>;

    fn into_iter(self) -> Elements<'a> {
        self.iter()
    }
}

impl Table {
    fn insert(&mut self, name: &[u8], score: f64) {
        let hash = self.members.hash(name);
        let position = if let Some(position) = self.members.find_hashed(name, hash) {
            let rank = self.rank(position);
            self.order.remove(rank);
            self.members.at_mut(position).score = score;
            position
        } else {
            let member = Member {
                name: ByteStr::new(name),
                score,
            };
            self.members.insert_new_hashed(member, hash)
        };
        let rank = self.rank(position);
        self.order.insert(rank, score, position as u32);
    }

    /// How many entries of the order come before the member at a position. Names are looked at
    /// only where scores tie: each look is a cache miss.
    fn rank(&self, position: usize) -> usize {
        let Member { name, score } = self.members.at(position);
        self.order
            .partition(|other, id| match other.partial_cmp(score) {
                Some(Ordering::Less) => true,
                Some(Ordering::Greater) => false,
                _ => self.members.at(id as usize).name < *name,
            })
    }

    fn remove_rank(&mut self, rank: usize) -> Member {
        let (_, id) = self.order.remove(rank);
        let last = self.members.len() - 1;
        // The table fills the hole with its last entry, whose id in the order must follow.
        if id as usize != last {
            let moved = self.rank(last);
            self.order.relabel(moved, id);
        }
        self.members.remove_at(id as usize).entry
    }

    /// As to remove each of these ranks: when most go, it is less work to begin anew with what
    /// stays. Its members keep their order in the table, by which SCAN goes.
    fn keep_all_but(&mut self, rank: usize, count: usize) {
        let mut stays = vec![true; self.members.len()];
        for (_, id) in self.order.range(rank, count) {
            stays[id as usize] = false;
        }
        let old = std::mem::take(self);
        let members = (0..stays.len()).map(|position| old.members.at(position));
        for (Member { name, score }, _) in members.zip(stays).filter(|(_, stays)| *stays) {
            self.insert(name, *score);
        }
    }

    fn heap_size(&self, samples: usize) -> usize {
        let looked = samples.clamp(1, self.members.len().max(1));
        let names: usize = self
            .members
            .iter()
            .take(looked)
            .map(|m| m.name.heap_size())
            .sum();
        size_of::<Table>()
            + self.members.table_size()
            + self.order.heap_size()
            + names * self.members.len() / looked
    }
}

/// The order of a sorted set. Scores are numbers, so they always compare.
fn compare(one: (f64, &[u8]), other: (f64, &[u8])) -> Ordering {
    one.0
        .partial_cmp(&other.0)
        .unwrap_or(Ordering::Equal)
        .then_with(|| one.1.cmp(other.1))
}

fn insert_packed(packed: &mut OneWay, member: &[u8], score: f64) {
    let mut place = packed.first();
    while let Some(at) = place {
        let Some(score_at) = packed.next(at) else {
            break;
        };
        let here = (read_score(packed, score_at), &*packed.item(at));
        if compare(here, (score, member)).is_gt() {
            break;
        }
        place = packed.next(score_at);
    }
    with_score_text(score, |text| {
        if let Some(at) = place {
            packed.insert(at, text);
            packed.insert(at, member);
        } else {
            packed.push_back(member);
            packed.push_back(text);
        }
    });
}

/// Where the pairs begin, up to the one of a rank.
fn pairs_up_to(packed: &OneWay, rank: usize) -> Vec<usize> {
    let pairs = std::iter::successors(packed.first(), |&at| packed.next(packed.next(at)?));
    pairs.take(rank.saturating_add(1)).collect()
}

fn remove_packed(packed: &mut OneWay, member: &[u8]) -> Option<f64> {
    let at = packed.find(member, packed.first(), 2)?;
    let score = read_score(packed, packed.next(at)?);
    packed.remove(at, 2);
    Some(score)
}

/// Whole numbers are written as such, and so cost their binary size.
fn with_score_text(score: f64, write: impl FnOnce(&[u8])) {
    if score == score.trunc() && score.abs() < i64::MAX as f64 {
        write(&Item::number(score as i64));
    } else {
        write(ryu::Buffer::new().format(score).as_bytes());
    }
}

fn read_score(packed: &OneWay, at: usize) -> f64 {
    match packed.number(at) {
        Some(number) => number as f64,
        None => parse_score(&packed.item(at)),
    }
}

fn parse_score(text: &[u8]) -> f64 {
    std::str::from_utf8(text)
        .ok()
        .and_then(|text| text.parse().ok())
        .unwrap_or_default()
}

/// Members with their scores one after another, in one direction.
pub struct Elements<'a>(Walk<'a>);

enum Walk<'a> {
    /// The next pair begins at `next`.
    Packed {
        packed: &'a OneWay,
        next: Option<usize>,
        left: usize,
    },
    /// The next pair begins where the last of `pairs` says.
    Backward {
        packed: &'a OneWay,
        pairs: Vec<usize>,
        left: usize,
    },
    Table {
        members: &'a Dict<Member>,
        order: rank_tree::Entries<'a>,
    },
}

impl<'a> Iterator for Elements<'a> {
    type Item = (Item<'a>, f64);

    fn next(&mut self) -> Option<(Item<'a>, f64)> {
        match &mut self.0 {
            Walk::Packed { packed, next, left } => {
                *left = left.checked_sub(1)?;
                let at = (*next)?;
                let score_at = packed.next(at)?;
                *next = packed.next(score_at);
                Some((packed.item(at), read_score(packed, score_at)))
            }
            Walk::Backward {
                packed,
                pairs,
                left,
            } => {
                *left = left.checked_sub(1)?;
                let at = pairs.pop()?;
                Some((packed.item(at), read_score(packed, packed.next(at)?)))
            }
            Walk::Table { members, order } => {
                let (score, id) = order.next()?;
                Some((Item::Bytes(&members.at(id as usize).name), score))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::value::random::Random;

    fn limits(entries: usize) -> Limits {
        Limits {
            zset_max_listpack_entries: entries,
            ..Limits::default()
        }
    }

    type Model = BTreeMap<Vec<u8>, f64>;

    fn sorted(model: &Model) -> Vec<(Vec<u8>, f64)> {
        let mut sorted: Vec<_> = model
            .iter()
            .map(|(name, score)| (name.clone(), *score))
            .collect();
        sorted.sort_by(|one, other| one.1.total_cmp(&other.1).then_with(|| one.0.cmp(&other.0)));
        sorted
    }

    fn owned(elements: Elements<'_>) -> Vec<(Vec<u8>, f64)> {
        elements
            .map(|(name, score)| (name.to_vec(), score))
            .collect()
    }

    fn check(set: &SortedSet, model: &Model, random: &mut Random) {
        let sorted = sorted(model);
        assert_eq!(set.len(), sorted.len());
        assert_eq!(owned(set.iter()), sorted);
        let rank = random.below(sorted.len() as u64 + 1) as usize;
        let upward: Vec<_> = sorted.iter().skip(rank).take(9).cloned().collect();
        assert_eq!(owned(set.range(rank, 9)), upward);
        let downward: Vec<_> = sorted
            .iter()
            .take(rank + 1)
            .rev()
            .take(9)
            .cloned()
            .collect();
        if rank < sorted.len() {
            assert_eq!(owned(set.range_down(rank, 9)), downward);
            assert_eq!(set.rank(&sorted[rank].0), Some((rank, sorted[rank].1)));
        }
    }

    fn score(random: &mut Random) -> f64 {
        match random.below(12) {
            0 => f64::INFINITY,
            1 => f64::NEG_INFINITY,
            2 => random.below(100) as f64 / 7.0 * 1e-9,
            3 => random.draw() as f64,
            _ => random.below(20) as f64 - 10.0,
        }
    }

    #[test]
    fn every_change_does_what_a_sorted_map_does() {
        for seed in 1..30 {
            let mut random = Random::new(seed);
            let limits = limits([0, 20, 2000][random.below(3) as usize]);
            let (mut set, mut model) = (SortedSet::new(), Model::new());
            for _ in 0..600 {
                let name = format!("member:{}", random.below(200)).into_bytes();
                match random.below(12) {
                    0..8 => {
                        let score = score(&mut random);
                        let old = set.insert(&name, score, limits);
                        assert_eq!(old, model.insert(name, score));
                    }
                    8 => assert_eq!(set.remove(&name), model.remove(&name)),
                    9 => {
                        let popped = set.pop(End::Front).map(|(name, _)| name.to_vec());
                        let lowest = sorted(&model).first().map(|(name, _)| name.clone());
                        assert_eq!(popped, lowest);
                        lowest.map(|name| model.remove(&name));
                    }
                    10 => {
                        let popped = set.pop(End::Back).map(|(name, _)| name.to_vec());
                        let highest = sorted(&model).last().map(|(name, _)| name.clone());
                        assert_eq!(popped, highest);
                        highest.map(|name| model.remove(&name));
                    }
                    _ => {
                        let start = random.below(model.len() as u64 + 2) as usize;
                        let most = if random.below(4) == 0 { 200 } else { 5 };
                        let end = start + most;
                        let ranked = sorted(&model).into_iter();
                        let gone: Vec<_> = ranked.skip(start).take(most).collect();
                        assert_eq!(set.remove_ranks(start..end), gone.len());
                        for (name, _) in &gone {
                            model.remove(name);
                        }
                    }
                }
                check(&set, &model, &mut random);
            }
        }
    }

    #[test]
    fn score_bounds_become_the_ranks_that_a_filter_finds() {
        for entries in [0, 1000] {
            let mut random = Random::new(9);
            let mut set = SortedSet::new();
            for n in 0..300u32 {
                set.insert(&n.to_be_bytes(), score(&mut random), limits(entries));
            }
            for _ in 0..200 {
                let mut bound = || ScoreBound {
                    score: score(&mut random),
                    exclusive: random.below(2) == 0,
                };
                let (min, max) = (bound(), bound());
                let ranks = set.ranks_by_score(min, max);
                let inside = |score: f64| {
                    let above = if min.exclusive {
                        score > min.score
                    } else {
                        score >= min.score
                    };
                    let below = if max.exclusive {
                        score < max.score
                    } else {
                        score <= max.score
                    };
                    above && below
                };
                let expected = set.iter().filter(|(_, score)| inside(*score)).count();
                assert_eq!(ranks.len(), expected);
                assert!(
                    set.range(ranks.start, ranks.len())
                        .all(|(_, score)| inside(score))
                );
            }
        }
    }

    #[test]
    fn member_bounds_become_ranks() {
        for entries in [0, 100] {
            let mut set = SortedSet::new();
            for name in ["a", "b", "c", "d", "e"] {
                set.insert(name.as_bytes(), 0.0, limits(entries));
            }
            use LexBound::{Exclusive, Highest, Inclusive, Lowest};
            assert_eq!(set.ranks_by_lex(Lowest, Highest), 0..5);
            assert_eq!(set.ranks_by_lex(Inclusive(b"b"), Exclusive(b"d")), 1..3);
            assert_eq!(set.ranks_by_lex(Exclusive(b"b"), Inclusive(b"d")), 2..4);
            assert!(set.ranks_by_lex(Highest, Lowest).is_empty());
            assert!(
                set.ranks_by_lex(Inclusive(b"d"), Inclusive(b"b"))
                    .is_empty()
            );
            assert_eq!(set.ranks_by_lex(Exclusive(b"aa"), Highest), 1..5);
        }
    }

    #[test]
    fn a_scan_and_places_reach_every_member() {
        for count in [5, 1000u32] {
            let mut set = SortedSet::new();
            for n in 0..count {
                set.insert(&n.to_be_bytes(), f64::from(n % 7), Limits::default());
            }
            let (mut seen, mut cursor) = (std::collections::HashSet::new(), 0);
            loop {
                cursor = set.scan(cursor, 10, |member, _| {
                    seen.insert(member.to_vec());
                });
                if cursor == 0 {
                    break;
                }
            }
            assert_eq!(seen.len(), count as usize);
            let picked = (0..set.len()).filter_map(|place| set.pick(place));
            assert!(
                picked
                    .map(|(name, _)| name.to_vec())
                    .all(|name| seen.remove(&name))
            );
            assert!(seen.is_empty());
            assert_eq!(set.pick(count as usize), None);
        }
    }

    #[test]
    fn a_scan_meets_all_that_stay_while_most_go() {
        let mut set = SortedSet::new();
        for n in 0..1000u32 {
            set.insert(&n.to_be_bytes(), f64::from(n * 7 % 1000), Limits::default());
        }
        let mut seen = std::collections::HashSet::new();
        let mut cursor = set.scan(0, 300, |member, _| {
            seen.insert(member.to_vec());
        });
        assert_eq!(set.remove_ranks(100..900), 800);
        while cursor != 0 {
            cursor = set.scan(cursor, 10, |member, _| {
                seen.insert(member.to_vec());
            });
        }
        let missed = set.iter().find(|(member, _)| !seen.contains(&**member));
        assert_eq!(missed, None);
    }

    #[test]
    fn the_encoding_turns_at_the_limits_and_not_back() {
        let mut set = SortedSet::new();
        for n in 0..128u32 {
            set.insert(&n.to_be_bytes(), 1.0, Limits::default());
        }
        assert_eq!(set.encoding(), "listpack");
        set.insert(b"one more", 1.0, Limits::default());
        assert_eq!(set.encoding(), "skiplist");
        set.remove_ranks(0..128);
        assert_eq!(set.encoding(), "skiplist");
        let mut long = SortedSet::new();
        long.insert(&[b'x'; 64], 1.0, Limits::default());
        assert_eq!(long.encoding(), "listpack");
        long.insert(&[b'x'; 65], 1.0, Limits::default());
        assert_eq!(long.encoding(), "skiplist");
        assert_eq!(
            SortedSet::sized_for(129, 1, Limits::default()).encoding(),
            "skiplist"
        );
    }

    #[test]
    fn a_hundred_thousand_members_cost_less_than_eighty_bytes_each() {
        let mut set = SortedSet::new();
        let mut random = Random::new(1);
        for n in 0..100_000u32 {
            let score = random.below(1 << 40) as f64;
            set.insert(
                format!("member:{n:06}").as_bytes(),
                score,
                Limits::default(),
            );
        }
        let heap = set.heap_size(5);
        assert!(heap < 100_000 * 80, "{heap}");
    }
}
