//! A hash: field-value pairs packed while small, a table when large, with field deadlines.
//!
//! Only a table can have deadlines, and it keeps them beside itself: a hash without them pays
//! one empty pointer. Dropping fields whose time has come is the caller's duty, before it reads.

use std::collections::{BTreeSet, HashMap};

use super::{
    limits::Limits,
    packed::{self, Item, OneWay},
};
use crate::{
    bytestr::ByteStr,
    dict::{Dict, Keyed},
};

/// Fields with their values, some perhaps with a deadline.
#[derive(Clone, Default)]
pub struct Hash(Repr);

#[derive(Clone)]
enum Repr {
    /// Field and value in turns.
    Small(OneWay),
    Large(Box<Table>),
}

#[derive(Clone, Default)]
struct Table {
    fields: Dict<Field>,
    deadlines: Option<Box<Deadlines>>,
}

#[derive(Clone)]
struct Field {
    name: ByteStr,
    value: ByteStr,
}

/// More fields than this, due at once, are not dropped one by one.
const MANY: usize = 256;

impl Keyed for Field {
    fn key(&self) -> &[u8] {
        &self.name
    }
}

/// When fields end, in milliseconds of the server's timeline, by field and in order.
#[derive(Clone, Default)]
struct Deadlines {
    by_field: HashMap<ByteStr, u64>,
    in_order: BTreeSet<(u64, ByteStr)>,
}

impl Default for Repr {
    fn default() -> Self {
        Repr::Small(OneWay::new())
    }
}

impl Hash {
    /// An empty hash.
    pub fn new() -> Hash {
        Hash::default()
    }

    /// How many fields it holds.
    pub fn len(&self) -> usize {
        match &self.0 {
            Repr::Small(packed) => packed.len() / 2,
            Repr::Large(table) => table.fields.len(),
        }
    }

    /// Whether it holds none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The name that OBJECT ENCODING gives.
    pub fn encoding(&self) -> &'static str {
        match self.0 {
            Repr::Small(_) => "listpack",
            Repr::Large(_) => "hashtable",
        }
    }

    /// An estimate of what it holds outside of itself, in bytes, from so many samples.
    pub fn heap_size(&self, samples: usize) -> usize {
        match &self.0 {
            Repr::Small(packed) => packed.heap_size(),
            Repr::Large(table) => table.heap_size(samples),
        }
    }

    /// The value of a field.
    pub fn get(&self, field: &[u8]) -> Option<Item<'_>> {
        match &self.0 {
            Repr::Small(packed) => {
                let at = packed.find(field, packed.first(), 2)?;
                Some(packed.item(packed.next(at)?))
            }
            Repr::Large(table) => table
                .fields
                .get(field)
                .map(|field| Item::Bytes(&field.value)),
        }
    }

    /// Whether a field is there.
    pub fn contains(&self, field: &[u8]) -> bool {
        match &self.0 {
            Repr::Small(packed) => packed.find(field, packed.first(), 2).is_some(),
            Repr::Large(table) => table.fields.contains(field),
        }
    }

    /// Gives a field a value and no deadline. Returns whether the field is new.
    pub fn set(&mut self, field: &[u8], value: &[u8], limits: Limits) -> bool {
        self.persist(field);
        self.update(field, value, limits)
    }

    /// Gives a field a value and leaves its deadline. Returns whether the field is new.
    pub fn update(&mut self, field: &[u8], value: &[u8], limits: Limits) -> bool {
        self.expect(0, field.len().max(value.len()), limits);
        let new = match &mut self.0 {
            Repr::Small(packed) => update_packed(packed, field, value),
            Repr::Large(table) => table.update(field, value),
        };
        if self.len() > limits.hash_max_listpack_entries {
            self.make_table();
        }
        new
    }

    /// Takes a field out and returns its value.
    pub fn remove(&mut self, field: &[u8]) -> Option<ByteStr> {
        match &mut self.0 {
            Repr::Small(packed) => {
                let at = packed.find(field, packed.first(), 2)?;
                let value = packed.item(packed.next(at)?).to_byte_str();
                packed.remove(at, 2);
                Some(value)
            }
            Repr::Large(table) => {
                table.persist(field);
                table.fields.remove(field).map(|field| field.value)
            }
        }
    }

    /// All fields with their values; in the order of their arrival while the hash is small.
    pub fn iter(&self) -> Pairs<'_> {
        Pairs(match &self.0 {
            Repr::Small(packed) => Walk::Packed(packed.iter()),
            Repr::Large(table) => Walk::Table(table.fields.iter()),
        })
    }

    /// The field at a place in no particular order, below `len()`: for drawing fields.
    pub fn pick(&self, place: usize) -> Option<(Item<'_>, Item<'_>)> {
        match &self.0 {
            Repr::Small(packed) => {
                let at = packed.seek(place.saturating_mul(2))?;
                Some((packed.item(at), packed.item(packed.next(at)?)))
            }
            Repr::Large(table) if place < table.fields.len() => Some(table.fields.at(place).pair()),
            Repr::Large(_) => None,
        }
    }

    /// Visits fields from a cursor on and returns the next cursor, 0 at the end. A field that is
    /// there throughout is visited at least once.
    pub fn scan<'a>(
        &'a self,
        cursor: u64,
        count: usize,
        mut visit: impl FnMut(Item<'a>, Item<'a>),
    ) -> u64 {
        match &self.0 {
            Repr::Small(_) => {
                for (field, value) in self {
                    visit(field, value);
                }
                0
            }
            Repr::Large(table) => table.fields.scan(cursor, count, |field| {
                let (name, value) = field.pair();
                visit(name, value);
            }),
        }
    }

    /// Turns to a table when so many fields, or texts of that length, are too much for packing.
    /// The references decide by what one command brings, whether its fields are new or not.
    pub fn expect(&mut self, fields: usize, longest: usize, limits: Limits) {
        if fields > limits.hash_max_listpack_entries || longest > limits.hash_max_listpack_value {
            self.make_table();
        }
    }

    /// When a field ends, in milliseconds.
    pub fn deadline(&self, field: &[u8]) -> Option<u64> {
        self.deadlines()?.by_field.get(field).copied()
    }

    /// Sets when a field ends, in milliseconds. Returns whether the field is there.
    pub fn set_deadline(&mut self, field: &[u8], deadline: u64) -> bool {
        if !self.contains(field) {
            return false;
        }
        let table = self.make_table();
        table
            .deadlines
            .get_or_insert_default()
            .set(ByteStr::new(field), deadline);
        true
    }

    /// Takes the deadline from a field. Returns whether it had one.
    pub fn persist(&mut self, field: &[u8]) -> bool {
        match &mut self.0 {
            Repr::Small(_) => false,
            Repr::Large(table) => table.persist(field),
        }
    }

    /// How many fields have a deadline.
    pub fn deadline_count(&self) -> usize {
        self.deadlines()
            .map_or(0, |deadlines| deadlines.in_order.len())
    }

    /// The earliest deadline of all fields, in milliseconds.
    pub fn next_deadline(&self) -> Option<u64> {
        self.deadlines()?
            .in_order
            .first()
            .map(|(deadline, _)| *deadline)
    }

    /// Whether no field will be left at that time, so that the whole hash can go at once.
    pub fn is_all_due(&self, now_ms: u64) -> bool {
        self.deadlines().is_some_and(|deadlines| {
            deadlines.in_order.len() == self.len()
                && deadlines
                    .in_order
                    .last()
                    .is_some_and(|(last, _)| *last <= now_ms)
        })
    }

    /// Drops up to `limit` fields whose deadline is at or before `now_ms`, the earliest first,
    /// and returns how many. There may be more when that is the limit.
    pub fn drop_due(&mut self, now_ms: u64, limit: usize, mut visit: impl FnMut(&[u8])) -> usize {
        let mut dropped = 0;
        while dropped < limit && self.next_deadline().is_some_and(|next| next <= now_ms) {
            let Some(field) = self.take_first_due() else {
                break;
            };
            visit(&field);
            dropped += 1;
        }
        dropped
    }

    /// Drops all fields whose deadline is at or before `now_ms` and returns how many. Are there
    /// many, the hash begins anew with what stays, and the old one is left to be freed.
    pub fn drop_all_due(&mut self, now_ms: u64) -> (usize, Option<Hash>) {
        if let Repr::Large(table) = &mut self.0
            && table.has_many_due(now_ms)
        {
            let fresh = table.without_due(now_ms);
            let old = std::mem::replace(table, Box::new(fresh));
            let dropped = old.fields.len() - table.fields.len();
            return (dropped, Some(Hash(Repr::Large(old))));
        }
        (self.drop_due(now_ms, usize::MAX, |_| {}), None)
    }

    fn take_first_due(&mut self) -> Option<ByteStr> {
        let Repr::Large(table) = &mut self.0 else {
            return None;
        };
        let (_, field) = table.deadlines.as_ref()?.in_order.first()?;
        let field = field.clone();
        table.persist(&field);
        table.fields.remove(&field);
        Some(field)
    }

    fn deadlines(&self) -> Option<&Deadlines> {
        match &self.0 {
            Repr::Small(_) => None,
            Repr::Large(table) => table.deadlines.as_deref(),
        }
    }

    fn make_table(&mut self) -> &mut Table {
        if let Repr::Small(_) = &self.0 {
            let mut table = Table::default();
            for (field, value) in self.iter() {
                table.update(&field, &value);
            }
            self.0 = Repr::Large(Box::new(table));
        }
        match &mut self.0 {
            Repr::Large(table) => table,
            Repr::Small(_) => unreachable!("it has just become a table"),
        }
    }
}

impl<'a> IntoIterator for &'a Hash {
    type Item = (Item<'a>, Item<'a>);
    type IntoIter = Pairs<'a>;

    fn into_iter(self) -> Pairs<'a> {
        self.iter()
    }
}

impl Field {
    fn pair(&self) -> (Item<'_>, Item<'_>) {
        (Item::Bytes(&self.name), Item::Bytes(&self.value))
    }
}

impl Table {
    fn update(&mut self, name: &[u8], value: &[u8]) -> bool {
        let hash = self.fields.hash(name);
        let value = ByteStr::new(value);
        if let Some(position) = self.fields.find_hashed(name, hash) {
            self.fields.at_mut(position).value = value;
            return false;
        }
        let field = Field {
            name: ByteStr::new(name),
            value,
        };
        self.fields.insert_new_hashed(field, hash);
        true
    }

    fn persist(&mut self, field: &[u8]) -> bool {
        let Some(deadlines) = &mut self.deadlines else {
            return false;
        };
        let had = deadlines.remove(field);
        if deadlines.in_order.is_empty() {
            self.deadlines = None;
        }
        had
    }

    fn has_many_due(&self, now_ms: u64) -> bool {
        let due = |(deadline, _): &&(u64, ByteStr)| *deadline <= now_ms;
        self.deadlines.as_ref().is_some_and(|deadlines| {
            deadlines
                .in_order
                .iter()
                .take_while(due)
                .nth(MANY)
                .is_some()
        })
    }

    /// What stays, in the order in which it lies: a scan under way then meets all of it.
    fn without_due(&mut self, now_ms: u64) -> Table {
        let mut fresh = Table::default();
        let Some(deadlines) = &mut self.deadlines else {
            return fresh;
        };
        let later = deadlines
            .in_order
            .split_off(&(now_ms.saturating_add(1), ByteStr::new(b"")));
        let stays = |field: &&Field| {
            let deadline = deadlines.by_field.get(&field.name);
            deadline.is_none_or(|deadline| *deadline > now_ms)
        };
        let without_deadline = self.fields.len() - deadlines.by_field.len();
        if without_deadline == 0 && later.len() < deadlines.in_order.len() {
            let mut staying: Vec<usize> = later
                .iter()
                .filter_map(|(_, name)| self.fields.find(name))
                .collect();
            staying.sort_unstable();
            for at in staying {
                fresh.fields.insert_new(self.fields.at(at).clone());
            }
        } else {
            for field in self.fields.iter().filter(stays) {
                fresh.fields.insert_new(field.clone());
            }
        }
        if !later.is_empty() {
            fresh.deadlines = Some(Box::new(Deadlines {
                by_field: later
                    .iter()
                    .map(|(deadline, name)| (name.clone(), *deadline))
                    .collect(),
                in_order: later,
            }));
        }
        fresh
    }

    fn heap_size(&self, samples: usize) -> usize {
        let looked = samples.clamp(1, self.fields.len().max(1));
        let texts: usize = self
            .fields
            .iter()
            .take(looked)
            .map(|field| field.name.heap_size() + field.value.heap_size())
            .sum();
        let per_deadline = size_of::<(ByteStr, u64)>() * 3;
        size_of::<Table>()
            + self.fields.table_size()
            + texts * self.fields.len() / looked
            + self
                .deadlines
                .as_ref()
                .map_or(0, |deadlines| deadlines.in_order.len() * per_deadline)
    }
}

impl Deadlines {
    fn set(&mut self, field: ByteStr, deadline: u64) {
        self.remove(&field);
        self.in_order.insert((deadline, field.clone()));
        self.by_field.insert(field, deadline);
    }

    fn remove(&mut self, field: &[u8]) -> bool {
        let Some((field, deadline)) = self.by_field.remove_entry(field) else {
            return false;
        };
        self.in_order.remove(&(deadline, field))
    }
}

fn update_packed(packed: &mut OneWay, field: &[u8], value: &[u8]) -> bool {
    let found = packed.find(field, packed.first(), 2);
    if let Some(at) = found.and_then(|at| packed.next(at)) {
        packed.replace(at, value);
        return false;
    }
    packed.push_back(field);
    packed.push_back(value);
    true
}

/// Fields with their values, one after another.
pub struct Pairs<'a>(Walk<'a>);

enum Walk<'a> {
    Packed(packed::Iter<'a, false>),
    Table(std::slice::Iter<'a, Field>),
}

impl<'a> Iterator for Pairs<'a> {
    type Item = (Item<'a>, Item<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        match &mut self.0 {
            Walk::Packed(items) => Some((items.next()?, items.next()?)),
            Walk::Table(fields) => fields.next().map(Field::pair),
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
            hash_max_listpack_entries: entries,
            ..Limits::default()
        }
    }

    fn text(random: &mut Random) -> Vec<u8> {
        let mut text = random.below(40).to_string().into_bytes();
        if random.below(30) == 0 {
            text.resize(30, b'.');
        }
        text
    }

    /// Value and deadline by field.
    type Model = BTreeMap<Vec<u8>, (Vec<u8>, Option<u64>)>;

    #[test]
    fn many_due_fields_leave_what_stays_in_its_order() {
        for (with_deadline, later) in [(3_000, 10), (3_000, 2_000), (2_000, 10), (300, 0)] {
            let mut hash = Hash::new();
            for n in 0..3_000usize {
                let field = n.to_string();
                hash.set(field.as_bytes(), b"v", limits(1));
                if n < with_deadline {
                    let deadline = if n % 3_000 < later { 9_000 } else { 1_000 };
                    hash.set_deadline(field.as_bytes(), deadline);
                }
            }
            let due = with_deadline - later;
            let (dropped, old) = hash.drop_all_due(5_000);
            assert_eq!((dropped, old.is_some()), (due, due > MANY));
            assert_eq!((hash.len(), hash.deadline_count()), (3_000 - due, later));
            assert_eq!(hash.next_deadline(), (later > 0).then_some(9_000));
            let staying: Vec<usize> = hash
                .iter()
                .map(|(field, _)| std::str::from_utf8(&field).unwrap().parse().unwrap())
                .collect();
            assert!(staying.is_sorted(), "{with_deadline} {later}");
            assert!(hash.contains(b"2999") == (with_deadline < 3_000));
        }
    }

    fn check(hash: &Hash, model: &Model) {
        assert_eq!(hash.len(), model.len());
        let mut pairs: Vec<_> = hash.iter().map(|(f, v)| (f.to_vec(), v.to_vec())).collect();
        pairs.sort();
        assert!(
            pairs
                .iter()
                .map(|(f, v)| (f, v))
                .eq(model.iter().map(|(f, (v, _))| (f, v)))
        );
        for (field, (value, deadline)) in model {
            assert_eq!(&*hash.get(field).unwrap(), &value[..]);
            assert_eq!(hash.deadline(field), *deadline);
        }
        let earliest = model.values().filter_map(|(_, deadline)| *deadline).min();
        assert_eq!(hash.next_deadline(), earliest);
    }

    fn step(random: &mut Random, hash: &mut Hash, model: &mut Model, limits: Limits, now: u64) {
        let (field, value) = (text(random), text(random));
        match random.below(10) {
            0..4 => {
                assert_eq!(
                    hash.set(&field, &value, limits),
                    !model.contains_key(&field)
                );
                model.insert(field, (value, None));
            }
            4 => {
                let new = hash.update(&field, &value, limits);
                assert_eq!(new, !model.contains_key(&field));
                model.entry(field).or_default().0 = value;
            }
            5 | 6 => {
                let removed = hash.remove(&field).map(|value| value.to_vec());
                assert_eq!(removed, model.remove(&field).map(|(value, _)| value));
            }
            7 => {
                let deadline = now + random.below(50);
                assert_eq!(
                    hash.set_deadline(&field, deadline),
                    model.contains_key(&field)
                );
                model
                    .get_mut(&field)
                    .into_iter()
                    .for_each(|entry| entry.1 = Some(deadline));
            }
            8 => {
                let had = model.get_mut(&field).and_then(|entry| entry.1.take());
                assert_eq!(hash.persist(&field), had.is_some());
            }
            _ => {
                let due = |entry: &(Vec<u8>, Option<u64>)| entry.1.is_some_and(|at| at <= now);
                let all_due = !model.is_empty() && model.values().all(due);
                assert_eq!(hash.is_all_due(now), all_due);
                let count = model.values().filter(|entry| due(entry)).count();
                assert_eq!(hash.drop_due(now, usize::MAX, |_| {}), count);
                model.retain(|_, entry| !due(entry));
            }
        }
    }

    #[test]
    fn every_change_does_what_a_map_does() {
        for seed in 1..40 {
            let mut random = Random::new(seed);
            let limits = limits([0, 10, 1000][random.below(3) as usize]);
            let (mut hash, mut model) = (Hash::new(), Model::new());
            for now in 0..500 {
                step(&mut random, &mut hash, &mut model, limits, now);
                check(&hash, &model);
            }
        }
    }

    #[test]
    fn due_fields_go_in_bounded_steps_and_the_earliest_first() {
        let mut hash = Hash::new();
        for n in 0..10u8 {
            hash.set(&[n], b"v", Limits::default());
            hash.set_deadline(&[n], 100 - u64::from(n));
        }
        let mut dropped = Vec::new();
        assert_eq!(hash.drop_due(95, 3, |field| dropped.push(field[0])), 3);
        assert_eq!(dropped, [9, 8, 7]);
        assert_eq!(hash.drop_due(95, 30, |_| {}), 2);
        assert_eq!(hash.next_deadline(), Some(96));
        assert_eq!(hash.deadline_count(), 5);
        assert!(!hash.is_all_due(99));
        assert!(hash.is_all_due(100));
    }

    #[test]
    fn a_small_hash_keeps_the_order_of_arrival() {
        let mut hash = Hash::new();
        for field in ["q", "z", "y", "w"] {
            hash.set(field.as_bytes(), b"1", Limits::default());
        }
        hash.remove(b"z");
        hash.set(b"q", b"7", Limits::default());
        let fields: Vec<_> = hash.iter().map(|(field, _)| field.to_vec()).collect();
        assert_eq!(fields, [b"q", b"y", b"w"]);
    }

    #[test]
    fn the_encoding_turns_where_the_reference_turns() {
        let mut hash = Hash::new();
        for n in 0..512 {
            hash.set(n.to_string().as_bytes(), b"1", Limits::default());
        }
        assert_eq!(hash.encoding(), "listpack");
        hash.set(b"one more", b"1", Limits::default());
        assert_eq!(hash.encoding(), "hashtable");
        let mut long = Hash::new();
        long.set(&[b'x'; 64], &[b'x'; 64], Limits::default());
        assert_eq!(long.encoding(), "listpack");
        long.set(b"f", &[b'x'; 65], Limits::default());
        assert_eq!(long.encoding(), "hashtable");
        let mut timed = Hash::new();
        timed.set(b"f", b"v", Limits::default());
        timed.set_deadline(b"f", 1);
        assert_eq!(timed.encoding(), "hashtable");
    }

    #[test]
    fn a_scan_and_places_reach_every_field() {
        for count in [5, 1000u32] {
            let mut hash = Hash::new();
            for n in 0..count {
                hash.set(&n.to_be_bytes(), b"v", Limits::default());
            }
            let (mut seen, mut cursor) = (std::collections::HashSet::new(), 0);
            loop {
                cursor = hash.scan(cursor, 10, |field, _| {
                    seen.insert(field.to_vec());
                });
                if cursor == 0 {
                    break;
                }
            }
            assert_eq!(seen.len(), count as usize);
            let mut picked = (0..hash.len()).filter_map(|place| hash.pick(place));
            assert!(picked.all(|(field, _)| seen.remove(&field.to_vec())));
            assert!(seen.is_empty());
            assert_eq!(hash.pick(count as usize), None);
        }
    }
}
