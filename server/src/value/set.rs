//! A set: sorted integers, packed members, or a table.
//!
//! Three forms by what the set holds: integers of the narrowest width that fits them all, a few
//! short strings, or anything. A set only ever moves toward the more general form.

use super::{
    limits::Limits,
    packed::{self, Item, OneWay},
};
use crate::{bytestr::ByteStr, dict::Dict, number::parse_i64};

/// Distinct byte strings.
#[derive(Clone, Default)]
pub struct Set(Repr);

/// Two words, so that a small set costs one allocation for its members and nothing more.
#[derive(Clone)]
enum Repr {
    Packed(OneWay),
    Other(Box<Other>),
}

#[derive(Clone)]
enum Other {
    Integers(Integers),
    Table(Box<Dict<ByteStr>>),
}

/// What a set is at the moment.
enum View<'a> {
    Integers(&'a Integers),
    Packed(&'a OneWay),
    Table(&'a Dict<ByteStr>),
}

/// As [`View`], for changes.
enum ViewMut<'a> {
    Integers(&'a mut Integers),
    Packed(&'a mut OneWay),
    Table(&'a mut Dict<ByteStr>),
}

/// Integers in ascending order, all of the narrowest width that the widest one needs.
#[derive(Clone)]
enum Integers {
    Narrow(Box<[i16]>),
    Medium(Box<[i32]>),
    Wide(Box<[i64]>),
}

impl Default for Repr {
    fn default() -> Self {
        Repr::Other(Box::new(Other::Integers(Integers::Narrow(Box::default()))))
    }
}

impl Set {
    /// An empty set.
    pub fn new() -> Set {
        Set::default()
    }

    /// An empty set in the encoding that suits so many members, of which this is the first.
    pub fn sized_for(members: usize, first: &[u8], limits: Limits) -> Set {
        if parse_i64(first).is_some() && members <= limits.set_max_intset_entries {
            Set::new()
        } else if members <= limits.set_max_listpack_entries {
            Set(Repr::Packed(OneWay::new()))
        } else {
            Set(Repr::Other(Box::new(Other::Table(Box::default()))))
        }
    }

    /// Turns to a table when so many more members are too much for the compact forms, whether
    /// they are new or not.
    pub fn expect(&mut self, members: usize, limits: Limits) {
        let fits = match self.view() {
            View::Integers(_) => members <= limits.set_max_intset_entries,
            View::Packed(_) => members <= limits.set_max_listpack_entries,
            View::Table(_) => true,
        };
        if !fits {
            self.make_table();
        }
    }

    /// How many members it holds.
    pub fn len(&self) -> usize {
        match self.view() {
            View::Integers(integers) => integers.len(),
            View::Packed(packed) => packed.len(),
            View::Table(table) => table.len(),
        }
    }

    /// Whether it holds none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The name that OBJECT ENCODING gives.
    pub fn encoding(&self) -> &'static str {
        match self.view() {
            View::Integers(_) => "intset",
            View::Packed(_) => "listpack",
            View::Table(_) => "hashtable",
        }
    }

    /// An estimate of what it holds outside of itself, in bytes, from so many samples.
    pub fn heap_size(&self, samples: usize) -> usize {
        match self.view() {
            View::Integers(integers) => integers.heap_size(),
            View::Packed(packed) => packed.heap_size(),
            View::Table(table) => {
                let looked = samples.clamp(1, table.len().max(1));
                let names: usize = table.iter().take(looked).map(ByteStr::heap_size).sum();
                size_of::<Dict<ByteStr>>() + table.table_size() + names * table.len() / looked
            }
        }
    }

    /// Whether a member is there.
    pub fn contains(&self, member: &[u8]) -> bool {
        match self.view() {
            View::Integers(integers) => {
                parse_i64(member).is_some_and(|value| integers.search(value).is_ok())
            }
            View::Packed(packed) => packed.find(member, packed.first(), 1).is_some(),
            View::Table(table) => table.contains(member),
        }
    }

    /// Adds a member. Returns whether it is new.
    pub fn insert(&mut self, member: &[u8], limits: Limits) -> bool {
        if let ViewMut::Table(table) = self.view_mut() {
            return insert_into_table(table, member);
        }
        if self.contains(member) {
            return false;
        }
        self.make_room(member, limits);
        match self.view_mut() {
            ViewMut::Integers(integers) => {
                if let Some(value) = parse_i64(member) {
                    integers.insert(value);
                }
            }
            ViewMut::Packed(packed) => packed.push_back(member),
            ViewMut::Table(table) => {
                insert_into_table(table, member);
            }
        }
        true
    }

    /// Takes a member out. Returns whether it was there.
    pub fn remove(&mut self, member: &[u8]) -> bool {
        match self.view_mut() {
            ViewMut::Integers(integers) => {
                parse_i64(member).is_some_and(|value| integers.remove(value))
            }
            ViewMut::Packed(packed) => {
                let found = packed.find(member, packed.first(), 1);
                if let Some(at) = found {
                    packed.remove(at, 1);
                }
                found.is_some()
            }
            ViewMut::Table(table) => table.remove(member).is_some(),
        }
    }

    /// The member at a place in the order of [`Set::iter`], below `len()`: for drawing members.
    pub fn pick(&self, place: usize) -> Option<Item<'_>> {
        match self.view() {
            View::Integers(integers) => integers.get(place).map(Item::number),
            View::Packed(packed) => packed.seek(place).map(|at| packed.item(at)),
            View::Table(table) if place < table.len() => Some(Item::Bytes(table.at(place))),
            View::Table(_) => None,
        }
    }

    /// Takes the member at a place out.
    pub fn take(&mut self, place: usize) -> Option<ByteStr> {
        if let ViewMut::Table(table) = self.view_mut() {
            return (place < table.len()).then(|| table.remove_at(place).entry);
        }
        let member = self.pick(place)?.to_byte_str();
        self.remove(&member);
        Some(member)
    }

    /// All members: integers in ascending order, a few strings in the order of their arrival.
    pub fn iter(&self) -> Members<'_> {
        Members(match self.view() {
            View::Integers(integers) => Walk::Integers { integers, next: 0 },
            View::Packed(packed) => Walk::Packed(packed.iter()),
            View::Table(table) => Walk::Table(table.iter()),
        })
    }

    /// Visits members from a cursor on and returns the next cursor, 0 at the end. A member that
    /// is there throughout is visited at least once.
    pub fn scan<'a>(&'a self, cursor: u64, count: usize, mut visit: impl FnMut(Item<'a>)) -> u64 {
        if let View::Table(table) = self.view() {
            return table.scan(cursor, count, |member| visit(Item::Bytes(member)));
        }
        self.iter().for_each(visit);
        0
    }

    fn view(&self) -> View<'_> {
        match &self.0 {
            Repr::Packed(packed) => View::Packed(packed),
            Repr::Other(other) => match &**other {
                Other::Integers(integers) => View::Integers(integers),
                Other::Table(table) => View::Table(table),
            },
        }
    }

    fn view_mut(&mut self) -> ViewMut<'_> {
        match &mut self.0 {
            Repr::Packed(packed) => ViewMut::Packed(packed),
            Repr::Other(other) => match &mut **other {
                Other::Integers(integers) => ViewMut::Integers(integers),
                Other::Table(table) => ViewMut::Table(table),
            },
        }
    }

    /// Changes the form if this new member does not go into the present one.
    fn make_room(&mut self, member: &[u8], limits: Limits) {
        match self.view() {
            View::Integers(integers) if parse_i64(member).is_some() => {
                if integers.len() >= limits.set_max_intset_entries {
                    self.make_table();
                }
            }
            View::Integers(_) | View::Packed(_) => {
                let fits = self.len() < limits.set_max_listpack_entries
                    && self.longest().max(member.len()) <= limits.set_max_listpack_value;
                if fits {
                    self.make_packed();
                } else {
                    self.make_table();
                }
            }
            View::Table(_) => {}
        }
    }

    /// The length of the longest member as far as a new form has to look at it.
    fn longest(&self) -> usize {
        match self.view() {
            View::Integers(_) => self.iter().map(|member| member.len()).max().unwrap_or(0),
            _ => 0,
        }
    }

    fn make_packed(&mut self) {
        if let View::Integers(_) = self.view() {
            let mut packed = OneWay::new();
            self.iter().for_each(|member| packed.push_back(&member));
            self.0 = Repr::Packed(packed);
        }
    }

    fn make_table(&mut self) {
        if matches!(self.view(), View::Table(_)) {
            return;
        }
        let mut table = Box::new(Dict::new());
        for member in self.iter() {
            table.insert_new(member.to_byte_str());
        }
        self.0 = Repr::Other(Box::new(Other::Table(table)));
    }
}

impl<'a> IntoIterator for &'a Set {
    type Item = Item<'a>;
    type IntoIter = Members<'a>;

    fn into_iter(self) -> Members<'a> {
        self.iter()
    }
}

impl Integers {
    fn len(&self) -> usize {
        match self {
            Integers::Narrow(values) => values.len(),
            Integers::Medium(values) => values.len(),
            Integers::Wide(values) => values.len(),
        }
    }

    fn heap_size(&self) -> usize {
        match self {
            Integers::Narrow(values) => values.len() * size_of::<i16>(),
            Integers::Medium(values) => values.len() * size_of::<i32>(),
            Integers::Wide(values) => values.len() * size_of::<i64>(),
        }
    }

    fn get(&self, place: usize) -> Option<i64> {
        match self {
            Integers::Narrow(values) => values.get(place).copied().map(i64::from),
            Integers::Medium(values) => values.get(place).copied().map(i64::from),
            Integers::Wide(values) => values.get(place).copied(),
        }
    }

    /// Where a value is, or where it belongs.
    fn search(&self, value: i64) -> Result<usize, usize> {
        match self {
            Integers::Narrow(values) => values.binary_search_by_key(&value, |&v| i64::from(v)),
            Integers::Medium(values) => values.binary_search_by_key(&value, |&v| i64::from(v)),
            Integers::Wide(values) => values.binary_search(&value),
        }
    }

    fn insert(&mut self, value: i64) {
        self.widen_for(value);
        let Err(place) = self.search(value) else {
            return;
        };
        match self {
            Integers::Narrow(values) => insert_tightly(values, place, value as i16),
            Integers::Medium(values) => insert_tightly(values, place, value as i32),
            Integers::Wide(values) => insert_tightly(values, place, value),
        }
    }

    fn remove(&mut self, value: i64) -> bool {
        let Ok(place) = self.search(value) else {
            return false;
        };
        match self {
            Integers::Narrow(values) => remove_tightly(values, place),
            Integers::Medium(values) => remove_tightly(values, place),
            Integers::Wide(values) => remove_tightly(values, place),
        }
        true
    }

    /// A set that was wide once stays so: going back would cost a look at every member.
    fn widen_for(&mut self, value: i64) {
        if let Integers::Narrow(values) = self
            && i16::try_from(value).is_err()
        {
            *self = Integers::Medium(values.iter().copied().map(i32::from).collect());
        }
        if let Integers::Medium(values) = self
            && i32::try_from(value).is_err()
        {
            *self = Integers::Wide(values.iter().copied().map(i64::from).collect());
        }
    }
}

/// Adds a member unless it is there, reckoning its hash once.
fn insert_into_table(table: &mut Dict<ByteStr>, member: &[u8]) -> bool {
    let hash = table.hash(member);
    let new = table.find_hashed(member, hash).is_none();
    if new {
        table.insert_new_hashed(ByteStr::new(member), hash);
    }
    new
}

/// Inserts with no room to spare: a set of integers is small.
fn insert_tightly<T>(values: &mut Box<[T]>, place: usize, value: T) {
    let mut room = std::mem::take(values).into_vec();
    room.reserve_exact(1);
    room.insert(place, value);
    *values = room.into_boxed_slice();
}

fn remove_tightly<T>(values: &mut Box<[T]>, place: usize) {
    let mut room = std::mem::take(values).into_vec();
    room.remove(place);
    *values = room.into_boxed_slice();
}

/// Members one after another.
pub struct Members<'a>(Walk<'a>);

enum Walk<'a> {
    Integers { integers: &'a Integers, next: usize },
    Packed(packed::Iter<'a, false>),
    Table(std::slice::Iter<'a, ByteStr>),
}

impl<'a> Iterator for Members<'a> {
    type Item = Item<'a>;

    fn next(&mut self) -> Option<Item<'a>> {
        match &mut self.0 {
            Walk::Integers { integers, next } => {
                *next += 1;
                integers.get(*next - 1).map(Item::number)
            }
            Walk::Packed(items) => items.next(),
            Walk::Table(members) => members.next().map(|member| Item::Bytes(member)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;
    use crate::value::random::Random;

    fn member(random: &mut Random, strings: bool) -> Vec<u8> {
        match random.below(if strings { 6 } else { 4 }) {
            0 => (random.below(1 << 20) as i64 - (1 << 19))
                .to_string()
                .into_bytes(),
            1 => (random.draw() as i64).to_string().into_bytes(),
            2 | 3 => random.below(60).to_string().into_bytes(),
            4 => format!("m{}", random.below(60)).into_bytes(),
            _ => vec![b'x'; random.below(70) as usize],
        }
    }

    fn check(set: &Set, model: &BTreeSet<Vec<u8>>) {
        assert_eq!(set.len(), model.len());
        let members: BTreeSet<_> = set.iter().map(|member| member.to_vec()).collect();
        assert_eq!(&members, model);
        let picked = (0..set.len()).filter_map(|place| set.pick(place));
        assert!(picked.eq(set.iter()));
        assert_eq!(set.pick(set.len()), None);
    }

    #[test]
    fn every_change_does_what_a_sorted_set_of_vectors_does() {
        for seed in 1..60 {
            let mut random = Random::new(seed);
            let strings = seed % 2 == 0;
            let entries = [0, 20, 1000][random.below(3) as usize];
            let limits = Limits {
                set_max_intset_entries: entries,
                set_max_listpack_entries: entries,
                ..Limits::default()
            };
            let (mut set, mut model) = (Set::new(), BTreeSet::new());
            for _ in 0..300 {
                let member = member(&mut random, strings);
                match random.below(8) {
                    0..5 => assert_eq!(set.insert(&member, limits), model.insert(member)),
                    5 | 6 => assert_eq!(set.remove(&member), model.remove(&member)),
                    _ => {
                        let place = random.below(set.len() as u64 + 1) as usize;
                        let taken = set.take(place);
                        assert_eq!(taken.is_some(), place < model.len());
                        assert!(taken.is_none_or(|taken| model.remove(&*taken)));
                    }
                }
                check(&set, &model);
            }
        }
    }

    fn after(members: &[&str], limits: Limits) -> Set {
        let mut set = Set::new();
        for member in members {
            set.insert(member.as_bytes(), limits);
        }
        set
    }

    fn contents(set: &Set) -> Vec<String> {
        set.iter()
            .map(|member| String::from_utf8_lossy(&member).into_owned())
            .collect()
    }

    #[test]
    fn integers_are_sorted_and_strings_keep_the_order_of_arrival() {
        assert_eq!(
            contents(&after(&["3", "2", "1", "-5"], Limits::default())),
            ["-5", "1", "2", "3"]
        );
        assert_eq!(
            contents(&after(&["q", "a", "z", "3"], Limits::default())),
            ["q", "a", "z", "3"]
        );
        assert_eq!(
            contents(&after(&["5", "3", "9", "q"], Limits::default())),
            ["3", "5", "9", "q"]
        );
    }

    #[test]
    fn the_encoding_turns_where_the_reference_turns() {
        let limits = Limits::default();
        let integers = |count: i64| {
            let mut set = Set::new();
            for n in 0..count {
                set.insert(&Item::number(n), limits);
            }
            set
        };
        assert_eq!(integers(512).encoding(), "intset");
        assert_eq!(integers(513).encoding(), "hashtable");
        let mut mixed = integers(127);
        mixed.insert(b"a", limits);
        assert_eq!(mixed.encoding(), "listpack");
        let mut mixed = integers(128);
        mixed.insert(b"a", limits);
        assert_eq!(mixed.encoding(), "hashtable");
        let long = "x".repeat(65);
        assert_eq!(after(&["1", &long], limits).encoding(), "hashtable");
        assert_eq!(after(&["a", &long], limits).encoding(), "hashtable");
        assert_eq!(after(&["a", &long[1..]], limits).encoding(), "listpack");
    }

    #[test]
    fn a_first_command_decides_by_how_much_it_brings() {
        let limits = Limits {
            set_max_intset_entries: 10,
            ..Limits::default()
        };
        assert_eq!(Set::sized_for(10, b"1", limits).encoding(), "intset");
        assert_eq!(Set::sized_for(11, b"1", limits).encoding(), "listpack");
        assert_eq!(Set::sized_for(1, b"a", limits).encoding(), "listpack");
        assert_eq!(Set::sized_for(129, b"a", limits).encoding(), "hashtable");
        let mut set = after(&["1"], limits);
        set.expect(12, limits);
        assert_eq!(set.encoding(), "hashtable");
    }

    #[test]
    fn integers_take_the_narrowest_width() {
        let limits = Limits::default();
        let mut set = Set::new();
        for n in 0..512 {
            set.insert(&Item::number(n), limits);
        }
        assert!(set.heap_size(5) < 512 * 2 * 5 / 4);
        set.remove(b"0");
        set.insert(b"9223372036854775807", limits);
        assert!((512 * 8..512 * 10).contains(&set.heap_size(5)));
        assert!(set.contains(b"9223372036854775807") && set.contains(b"1"));
    }

    #[test]
    fn a_scan_reaches_every_member() {
        for count in [5, 600i64] {
            let mut set = after(&["a"], Limits::default());
            for n in 0..count {
                set.insert(&Item::number(n), Limits::default());
            }
            let (mut seen, mut cursor) = (BTreeSet::new(), 0);
            loop {
                cursor = set.scan(cursor, 10, |member| {
                    seen.insert(member.to_vec());
                });
                if cursor == 0 {
                    break;
                }
            }
            assert_eq!(seen.len(), set.len());
        }
    }
}
