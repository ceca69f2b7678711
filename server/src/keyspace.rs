//! The one door to the keys.
//!
//! Every look-up goes through here and drops a key whose time has passed; every change goes
//! through here and says what it was. So expiry, WATCH, waiting clients, keyspace notifications
//! and statistics hold for every command, and a handler cannot forget one of them.
//!
//! The door acts on the selected database. Changes are noted only while somebody could care, and
//! the engine collects them after each command ([`Keyspace::take_changes`]).

mod notes;

use std::collections::BTreeSet;

use smallvec::SmallVec;

use crate::{
    bytestr::ByteStr,
    clock::Time,
    deadlines::{Deadlines, Links, Step, Timed},
    dict::{Dict, Keyed},
    error::Error,
    eviction::Frequency,
    random::Random,
    slots::BySlot,
    value::{Kind, Value},
};

pub use notes::{Change, Class, Event, Touch};

/// What becomes of a key's deadline when its value is replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ttl {
    Clear,
    Keep,
    /// In milliseconds since 1970.
    At(u64),
}

/// A key with its value and its deadline.
pub struct Entry {
    key: ByteStr,
    pub value: Value,
    /// In milliseconds since 1970; [`NEVER`] when there is none.
    deadline: u64,
    links: Links,
    hash: u32,
    /// When the key was last used, in seconds of the timeline; under a policy that counts uses,
    /// what [`Frequency`] makes of it.
    pub access: u32,
}

const NEVER: u64 = u64::MAX;
/// What the index of keys holds for each of them, in bytes.
const INDEX_SIZE: usize = 8;
/// How many elements are measured for the sum of all sizes.
const SIZE_SAMPLES: usize = 5;

impl Entry {
    pub fn key(&self) -> &[u8] {
        &self.key
    }

    /// What it occupies, in bytes; of large collections so many elements are measured.
    pub fn size(&self, samples: usize) -> usize {
        size_of::<Entry>() + INDEX_SIZE + self.key.heap_size() + self.value.heap_size(samples)
    }

    pub fn deadline(&self) -> Option<u64> {
        (self.deadline != NEVER).then_some(self.deadline)
    }
}

impl Keyed for Entry {
    fn key(&self) -> &[u8] {
        &self.key
    }

    fn stored_hash(&self) -> Option<u32> {
        Some(self.hash)
    }

    fn touch_content(&self) -> u64 {
        u64::from(self.value.first_byte())
    }
}

impl Timed for Entry {
    fn deadline(&self) -> u64 {
        self.deadline
    }

    fn links(&mut self) -> &mut Links {
        &mut self.links
    }
}

/// One numbered database.
struct Database {
    dict: Dict<Entry>,
    deadlines: Deadlines,
    /// When the first part of a value ends, for the few keys that have such parts: hashes with
    /// field deadlines.
    parts: BTreeSet<(u64, ByteStr)>,
    /// The keys by slot, in a cluster.
    slots: Option<Box<BySlot>>,
    /// Are the sizes of entries added up?
    counting: bool,
    /// The sum, in bytes.
    bytes: usize,
}

impl Database {
    fn new(now: u64) -> Database {
        Database {
            dict: Dict::new(),
            deadlines: Deadlines::new(now),
            parts: BTreeSet::new(),
            slots: None,
            counting: false,
            bytes: 0,
        }
    }

    fn size_at(&self, at: usize) -> usize {
        if self.counting {
            self.dict.at(at).size(SIZE_SAMPLES)
        } else {
            0
        }
    }

    /// Adds what the entry at a position has grown by since it had the size `before`.
    fn recount(&mut self, at: usize, before: usize) {
        if self.counting {
            self.bytes = (self.bytes + self.size_at(at)).saturating_sub(before);
        }
    }

    /// Looks at what the removal of the entries at these places touches: those beside them in the
    /// deadline index, and the same of as many last entries, which move into the gaps.
    fn warm_removals(&self, places: &[u32], removals: usize) -> u64 {
        let dict = &self.dict;
        let last = dict.len().saturating_sub(removals)..dict.len();
        let mut seen = dict.warm_slots(last.clone());
        for at in places.iter().map(|&at| at as usize).chain(last) {
            if at < dict.len() && dict.at(at).deadline != NEVER {
                for beside in dict.at(at).links.beside() {
                    seen ^= dict.at(beside).deadline;
                }
            }
        }
        seen
    }

    fn remove_at(&mut self, at: usize) -> Entry {
        self.bytes = self.bytes.saturating_sub(self.size_at(at));
        let entry = self.dict.at(at);
        if let Some(slots) = &mut self.slots {
            slots.remove(&entry.key);
        }
        if let Some(part) = entry.value.next_part_deadline() {
            self.parts.remove(&(part, entry.key.clone()));
        }
        if self.dict.at(at).deadline != NEVER {
            self.deadlines.remove(self.dict.entries_mut(), at);
        }
        let removed = self.dict.remove_at(at);
        if let Some(from) = removed.moved_from
            && self.dict.at(at).deadline != NEVER
        {
            self.deadlines.moved(self.dict.entries_mut(), from, at);
        }
        removed.entry
    }

    /// Brings the index of parts up to date after the value at a position has changed. Returns
    /// when the first part ends now.
    fn track_part(&mut self, at: usize, before: Option<u64>) -> u64 {
        let entry = self.dict.at(at);
        let after = entry.value.next_part_deadline();
        if before != after {
            if let Some(before) = before {
                self.parts.remove(&(before, entry.key.clone()));
            }
            if let Some(after) = after {
                self.parts.insert((after, entry.key.clone()));
            }
        }
        after.unwrap_or(NEVER)
    }

    /// The position of a key of whose value some part is due.
    fn due_part(&self, now: u64) -> Option<usize> {
        let (_, key) = self.parts.first().filter(|(part, _)| *part <= now)?;
        self.dict.find(key)
    }

    fn next_deadline(&self) -> Option<u64> {
        let part = self.parts.first().map(|(part, _)| *part);
        self.deadlines.next().into_iter().chain(part).min()
    }

    fn is_due(&self, now: u64) -> bool {
        let part = self.parts.first().map(|(part, _)| *part);
        self.deadlines.is_due(now) || part.is_some_and(|part| part <= now)
    }

    fn set_deadline(&mut self, at: usize, deadline: u64) {
        if self.dict.at(at).deadline != NEVER {
            self.deadlines.remove(self.dict.entries_mut(), at);
        }
        self.dict.at_mut(at).deadline = deadline;
        if deadline != NEVER {
            self.deadlines.insert(self.dict.entries_mut(), at);
        }
    }
}

/// Counters that INFO shows.
#[derive(Clone, Copy, Debug, Default)]
pub struct KeyStats {
    pub hits: u64,
    pub misses: u64,
    pub evicted: u64,
    pub expired: u64,
    /// Parts of values, such as fields of hashes.
    pub expired_parts: u64,
}

/// What was taken out of the keyspace and is costly to free: it is dropped off the engine's lock.
pub type Trash = Box<dyn std::any::Any + Send>;

/// All databases, the selected one and the frozen time of the running command.
pub struct Keyspace {
    dbs: Vec<Database>,
    selected: usize,
    now: Time,
    /// Does a look-up by the running command leave the access time alone (CLIENT NO-TOUCH)?
    pub no_touch: bool,
    /// How uses are counted, while the eviction policy goes by that.
    pub frequency: Option<Frequency>,
    random: Random,
    /// Off only while a test wants keys past their time to stay until they are looked up (DEBUG
    /// SET-ACTIVE-EXPIRE 0). They are hidden all the same.
    pub active_expire: bool,
    /// Which event classes anybody listens to; see `notify-keyspace-events`.
    pub notify: u32,
    /// Is any key watched, waited for or tracked?
    pub observed: bool,
    changes: Vec<Change>,
    trash: Vec<Trash>,
    /// Nothing is due before this moment, in milliseconds.
    earliest: u64,
    /// Changes since the start, as `rdb_changes_since_last_save` counts them.
    pub dirty: u64,
    pub stats: KeyStats,
}

impl Keyspace {
    pub fn new(databases: usize, now: Time) -> Keyspace {
        Keyspace {
            dbs: (0..databases)
                .map(|_| Database::new(now.millis()))
                .collect(),
            selected: 0,
            now,
            no_touch: false,
            frequency: None,
            random: Random::from_entropy(),
            active_expire: true,
            notify: 0,
            observed: false,
            changes: Vec::new(),
            trash: Vec::new(),
            earliest: NEVER,
            dirty: 0,
            stats: KeyStats::default(),
        }
    }

    // ---- The frame: time, selection, notes ----

    pub fn databases(&self) -> usize {
        self.dbs.len()
    }

    pub fn selected(&self) -> usize {
        self.selected
    }

    /// Makes the door act on another database, below `databases()`.
    pub fn select(&mut self, db: usize) {
        self.selected = db;
    }

    pub fn now(&self) -> Time {
        self.now
    }

    pub fn set_now(&mut self, now: Time) {
        // Time that was set back leaves the wheels ahead of it; they begin again.
        if now < self.now {
            self.rebuild_deadlines(now);
        }
        self.now = now;
    }

    /// The notes since the last call.
    pub fn take_changes(&mut self) -> Vec<Change> {
        std::mem::take(&mut self.changes)
    }

    pub fn has_changes(&self) -> bool {
        !self.changes.is_empty()
    }

    /// What waits to be freed, for whoever has let go of the engine.
    pub fn take_trash(&mut self) -> Vec<Trash> {
        std::mem::take(&mut self.trash)
    }

    // ---- Reading ----

    /// The value of a key, counted as a use of it and as a hit or a miss.
    pub fn read(&mut self, key: &[u8]) -> Option<&Value> {
        let found = self.find(key);
        self.count_read(key, found.is_some());
        let at = found?;
        self.touch_access(at);
        Some(&self.dbs[self.selected].dict.at(at).value)
    }

    /// The value of a key if it is of the type asked for.
    pub fn read_as<T: Kind>(&mut self, key: &[u8]) -> Result<Option<&T>, Error> {
        match self.read(key) {
            None => Ok(None),
            Some(value) => T::of(value).map(Some).ok_or(Error::WRONG_TYPE),
        }
    }

    /// The value of a key of the type asked for, for those who hold several at once. It changes
    /// nothing, so look-ups that drop and count come first.
    pub fn view<T: Kind>(&self, key: &[u8]) -> Option<&T> {
        let entry = self.dbs[self.selected].dict.get(key)?;
        if entry.deadline <= self.now.millis() {
            return None;
        }
        T::of(&entry.value)
    }

    /// Refuses a key of another type than the one asked for, without counting as a use.
    pub fn check<T: Kind>(&mut self, key: &[u8]) -> Result<(), Error> {
        match self.peek(key) {
            Some(entry) if T::of(&entry.value).is_none() => Err(Error::WRONG_TYPE),
            _ => Ok(()),
        }
    }

    /// A key as it is, without counting as a use.
    pub fn peek(&mut self, key: &[u8]) -> Option<&Entry> {
        let at = self.find(key)?;
        Some(self.dbs[self.selected].dict.at(at))
    }

    /// Looks at where keys of a database below `databases()` lie, and at what as many removals
    /// touch besides, which changes nothing but how soon it is at hand.
    pub fn warm(&self, db: usize, keys: &[&[u8]], removals: usize) {
        let dict = &self.dbs[db].dict;
        let mut places: SmallVec<[u32; 64]> = keys.iter().map(|key| dict.hash(key)).collect();
        let mut seen = dict.warm(&mut places);
        if removals > 0 {
            seen ^= self.dbs[db].warm_removals(&places, removals);
        }
        std::hint::black_box(seen);
    }

    pub fn exists(&mut self, key: &[u8]) -> bool {
        self.find(key).is_some()
    }

    /// Counts a look-up and tells a miss, for commands that do not use [`Keyspace::read`].
    pub fn count_read(&mut self, key: &[u8], hit: bool) {
        self.count(hit);
        if !hit && self.notify & Class::KEY_MISS.0 != 0 {
            self.note(key, Touch::No, Some(Event::KEY_MISS));
        }
    }

    /// Counts a look-up for INFO.
    pub fn count(&mut self, hit: bool) {
        if hit {
            self.stats.hits += 1;
        } else {
            self.stats.misses += 1;
        }
    }

    /// The deadline of a key, in milliseconds since 1970: outer `None` for a missing key.
    #[expect(
        clippy::option_option,
        reason = "no key and no deadline are two things"
    )]
    pub fn deadline(&mut self, key: &[u8]) -> Option<Option<u64>> {
        self.peek(key).map(Entry::deadline)
    }

    pub fn len(&self) -> usize {
        self.dbs[self.selected].dict.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Keys, and keys with a deadline, of a database below `databases()`.
    pub fn sizes(&self, db: usize) -> (usize, usize) {
        (self.dbs[db].dict.len(), self.dbs[db].deadlines.len())
    }

    /// How many keys of a database below `databases()` hold fields with a deadline.
    pub fn keys_with_parts(&self, db: usize) -> usize {
        self.dbs[db].parts.len()
    }

    /// Starts or ends adding up the sizes of all entries.
    pub fn count_sizes(&mut self, counting: bool) {
        for db in &mut self.dbs {
            if db.counting != counting {
                db.counting = counting;
                db.bytes = (0..db.dict.len()).map(|at| db.size_at(at)).sum();
            }
        }
    }

    /// The sizes of all entries, while they are added up.
    pub fn bytes(&self) -> usize {
        self.dbs.iter().map(|db| db.bytes).sum()
    }

    /// The entry at a place below `len()` of the selected database.
    pub fn entry_at(&self, at: usize) -> Option<&Entry> {
        let dict = &self.dbs[self.selected].dict;
        (at < dict.len()).then(|| dict.at(at))
    }

    /// All live keys of the selected database, in no particular order.
    pub fn entries(&self) -> impl Iterator<Item = &Entry> {
        let now = self.now.millis();
        self.dbs[self.selected]
            .dict
            .iter()
            .filter(move |entry| entry.deadline > now)
    }

    /// Visits about `count` live keys from the cursor on; returns the next cursor, 0 at the end.
    pub fn scan(&self, cursor: u64, count: usize, mut visit: impl FnMut(&Entry)) -> u64 {
        let now = self.now.millis();
        self.dbs[self.selected].dict.scan(cursor, count, |entry| {
            if entry.deadline > now {
                visit(entry);
            }
        })
    }

    /// The live key at a random place, given a source of numbers below a bound.
    pub fn random(&mut self, mut below: impl FnMut(usize) -> usize) -> Option<&[u8]> {
        loop {
            let dict = &self.dbs[self.selected].dict;
            if dict.is_empty() {
                return None;
            }
            let at = below(dict.len());
            if dict.at(at).deadline > self.now.millis() {
                return Some(self.dbs[self.selected].dict.at(at).key());
            }
            self.expire_at(self.selected, at);
        }
    }

    // ---- Writing ----

    /// Stores a value under a key, whatever was there.
    pub fn put(&mut self, key: &[u8], value: Value, ttl: Ttl, event: Event) {
        let touch = self.store(key, value, ttl);
        self.touched(key, touch, event);
    }

    /// As [`Keyspace::put`], if the key is there or if it is missing, as asked. Tells whether it
    /// was stored.
    pub fn put_if(
        &mut self,
        present: bool,
        key: &[u8],
        value: impl FnOnce() -> Value,
        ttl: Ttl,
        event: Event,
    ) -> bool {
        let hash = self.dbs[self.selected].dict.hash(key);
        match self.find_hashed(key, hash) {
            Some(at) if present => {
                self.replace(at, value(), ttl);
                self.touched(key, Touch::Unserved, event);
            }
            None if !present => {
                self.insert(key, hash, value(), ttl);
                self.changed(key, event);
            }
            _ => return false,
        }
        true
    }

    /// Changes the value of an existing key of the type asked for. The closure says what it did;
    /// a value that it left empty is removed.
    pub fn update<T: Kind, R>(
        &mut self,
        key: &[u8],
        change: impl FnOnce(&mut T) -> (R, Option<Event>),
    ) -> Result<Option<R>, Error> {
        let Some(at) = self.find(key) else {
            return Ok(None);
        };
        self.touch_access(at);
        self.update_at(key, at, change).map(Some)
    }

    /// As [`Keyspace::update`], on a new empty value when the key is missing. A value that is
    /// still empty afterwards is not kept, and nothing has happened then.
    pub fn upsert<T: Kind + Default, R>(
        &mut self,
        key: &[u8],
        change: impl FnOnce(&mut T) -> (R, Option<Event>),
    ) -> Result<R, Error> {
        let hash = self.dbs[self.selected].dict.hash(key);
        if let Some(at) = self.find_hashed(key, hash) {
            self.touch_access(at);
            return self.update_at(key, at, change);
        }
        let mut value = T::default();
        let (result, event) = change(&mut value);
        if !value.is_empty() {
            self.insert(key, hash, value.into_value(), Ttl::Clear);
        }
        if let Some(event) = event {
            self.changed(key, event);
        }
        Ok(result)
    }

    /// Takes a key out. Values that are costly to free belong into [`Keyspace::discard`].
    pub fn take(&mut self, key: &[u8], event: Event) -> Option<Entry> {
        let at = self.find(key)?;
        let entry = self.dbs[self.selected].remove_at(at);
        self.changed(key, event);
        Some(entry)
    }

    /// Deletes a key and tells whether there was one.
    pub fn delete(&mut self, key: &[u8], event: Event) -> bool {
        match self.take(key, event) {
            Some(entry) => {
                self.discard(entry.value);
                true
            }
            None => false,
        }
    }

    /// Puts an entry taken elsewhere under a key, with its deadline. Whatever was there is deleted
    /// first, so that this is a new key.
    pub fn put_entry(&mut self, key: &[u8], value: Value, deadline: Option<u64>, event: Event) {
        let touch = self.store(key, value, deadline.map_or(Ttl::Clear, Ttl::At));
        if touch == Touch::Unserved {
            self.announce(key, Event::NEW);
        }
        self.changed(key, event);
    }

    /// Deletes a key whose new deadline has passed already: it counts and is told as expired.
    pub fn expire_at_once(&mut self, key: &[u8]) -> bool {
        let deleted = self.delete(key, Event::EXPIRED);
        self.stats.expired += u64::from(deleted);
        deleted
    }

    /// Gives a key a deadline in milliseconds since 1970, or takes it away. A deadline that has
    /// passed is the caller's to turn into a deletion.
    pub fn set_deadline(&mut self, key: &[u8], deadline: Option<u64>, event: Event) -> bool {
        let Some(at) = self.find(key) else {
            return false;
        };
        let deadline = deadline.unwrap_or(NEVER);
        self.dbs[self.selected].set_deadline(at, deadline);
        self.earliest = self.earliest.min(deadline);
        self.touched(key, Touch::Unserved, event);
        true
    }

    /// Sets when a key was last used, in seconds of the timeline (RESTORE with IDLETIME).
    pub fn set_access(&mut self, key: &[u8], seconds: u32) {
        if let Some(at) = self.find(key) {
            self.dbs[self.selected].dict.at_mut(at).access = seconds;
        }
    }

    /// Counts a key as used now (TOUCH).
    pub fn touch(&mut self, key: &[u8]) -> bool {
        let found = self.find(key);
        if let Some(at) = found {
            self.touch_access(at);
        }
        found.is_some()
    }

    /// Tells an event that goes with a change already noted, such as `expire` after `set`.
    pub fn announce(&mut self, key: &[u8], event: Event) {
        if self.notify & event.class.0 != 0 {
            self.note(key, Touch::No, Some(event));
        }
    }

    /// Deletes a key to make room, and tells whether there was one.
    pub fn evict(&mut self, key: &[u8]) -> bool {
        let evicted = self.delete(key, Event::EVICTED);
        self.stats.evicted += u64::from(evicted);
        evicted
    }

    /// Keeps the keys by slot from here on, which a cluster needs. There are none yet.
    pub fn keep_slots(&mut self) {
        for db in &mut self.dbs {
            db.slots.get_or_insert_default();
        }
    }

    /// The keys by slot of the selected database, in a cluster.
    pub fn slots(&self) -> Option<&BySlot> {
        self.dbs[self.selected].slots.as_deref()
    }

    /// Empties a database below `databases()` and tells how many keys it had.
    pub fn flush(&mut self, db: usize) -> usize {
        let fresh = Database::new(self.now.millis());
        let old = std::mem::replace(&mut self.dbs[db], fresh);
        self.dbs[db].counting = old.counting;
        if old.slots.is_some() {
            self.dbs[db].slots = Some(Box::default());
        }
        let len = old.dict.len();
        self.dirty += len as u64;
        if self.observed {
            self.changes.push(Change::Flushed { db });
        }
        if len > 0 {
            self.trash.push(Box::new(old));
        }
        len
    }

    /// Exchanges two databases below `databases()`; whoever looks at one then sees the other.
    pub fn swap(&mut self, one: usize, other: usize) {
        self.dbs.swap(one, other);
        self.dirty += 1;
    }

    /// Frees a value now if that is cheap, and off the engine's lock otherwise.
    pub fn discard(&mut self, value: Value) {
        if value.is_costly_to_free() {
            self.trash.push(Box::new(value));
        }
    }

    // ---- Expiry ----

    /// A moment, in milliseconds, before which no key is due; for the timer.
    pub fn next_deadline(&mut self) -> Option<u64> {
        let next = self.dbs.iter().filter_map(Database::next_deadline).min();
        self.earliest = next.unwrap_or(NEVER);
        next
    }

    /// As `next_deadline`, but maybe too early; costs nothing.
    pub fn earliest(&self) -> u64 {
        self.earliest
    }

    /// Whether a key or a part of one is due, and not only the order of later ones.
    pub fn is_due(&self) -> bool {
        let now = self.now.millis();
        self.active_expire && self.dbs.iter().any(|db| db.is_due(now))
    }

    /// Removes keys whose time has passed, in the order of their deadlines within a database,
    /// doing at most `budget` steps of work. Tells whether all that is due was done.
    pub fn expire_due(&mut self, mut budget: usize) -> bool {
        let now = self.now.millis();
        if now < self.earliest || !self.active_expire {
            return true;
        }
        for db in 0..self.dbs.len() {
            loop {
                if budget == 0 {
                    return false;
                }
                budget -= 1;
                let Database {
                    dict, deadlines, ..
                } = &mut self.dbs[db];
                match deadlines.step(dict.entries_mut(), now) {
                    Step::Due(at) => {
                        // Out of the index already, so that the removal must not look there.
                        dict.at_mut(at).deadline = NEVER;
                        self.expire_at(db, at);
                    }
                    Step::Working => {}
                    Step::Idle => break,
                }
            }
            while let Some(at) = self.dbs[db].due_part(now) {
                if budget == 0 {
                    return false;
                }
                budget = budget.saturating_sub(self.expire_parts(db, at, budget).max(1));
            }
        }
        self.next_deadline();
        true
    }

    // ---- Inside ----

    fn find(&mut self, key: &[u8]) -> Option<usize> {
        let hash = self.dbs[self.selected].dict.hash(key);
        self.find_hashed(key, hash)
    }

    fn find_hashed(&mut self, key: &[u8], hash: u32) -> Option<usize> {
        let dict = &self.dbs[self.selected].dict;
        let at = dict.find_hashed(key, hash)?;
        let (entry, now) = (dict.at(at), self.now.millis());
        if entry.deadline <= now {
            self.expire_at(self.selected, at);
            return None;
        }
        if entry
            .value
            .next_part_deadline()
            .is_some_and(|part| part <= now)
        {
            self.expire_parts(self.selected, at, usize::MAX);
            return self.dbs[self.selected].dict.find_hashed(key, hash);
        }
        Some(at)
    }

    /// Drops up to `limit` due parts of the value at a position, and the key with the last of
    /// them. Returns how many it dropped one by one.
    fn expire_parts(&mut self, db: usize, at: usize, limit: usize) -> usize {
        let now = self.now.millis();
        let size = self.dbs[db].size_at(at);
        let entry = self.dbs[db].dict.at_mut(at);
        let before = entry.value.next_part_deadline();
        let Value::Hash(hash) = &mut entry.value else {
            return 0;
        };
        // A hash of which nothing will be left goes as a whole, and at once.
        let gone = hash.is_all_due(now);
        let len = hash.len();
        let (dropped, old) = match limit {
            _ if gone => (0, None),
            usize::MAX => hash.drop_all_due(now),
            limit => (hash.drop_due(now, limit, |_| {}), None),
        };
        let key = entry.key.clone();
        if let Some(old) = old {
            self.discard(Value::Hash(old));
        }
        self.dbs[db].recount(at, size);
        self.dbs[db].track_part(at, before);
        self.stats.expired_parts += if gone { len } else { dropped } as u64;
        self.dirty += 1;
        self.note_in(db, &key, Event::HEXPIRED);
        if gone {
            let entry = self.dbs[db].remove_at(at);
            self.discard(entry.value);
            self.note_in(db, &key, Event::DEL);
        }
        dropped
    }

    /// Notes a change that no command made, in any database.
    fn note_in(&mut self, db: usize, key: &ByteStr, event: Event) {
        let event = Some(event).filter(|event| self.notify & event.class.0 != 0);
        if self.observed || event.is_some() {
            let key = key.clone();
            self.changes.push(Change::Key {
                db,
                key,
                touch: Touch::Changed,
                event,
            });
        }
    }

    fn expire_at(&mut self, db: usize, at: usize) {
        let entry = self.dbs[db].remove_at(at);
        self.stats.expired += 1;
        self.dirty += 1;
        self.note_in(db, &entry.key, Event::EXPIRED);
        self.discard(entry.value);
    }

    fn touch_access(&mut self, at: usize) {
        if self.no_touch {
            return;
        }
        let now = self.now;
        let entry = self.dbs[self.selected].dict.at_mut(at);
        entry.access = match self.frequency {
            Some(frequency) => frequency.used(entry.access, now.millis(), &mut self.random),
            None => now.seconds() as u32,
        };
    }

    fn store(&mut self, key: &[u8], value: Value, ttl: Ttl) -> Touch {
        let hash = self.dbs[self.selected].dict.hash(key);
        if let Some(at) = self.find_hashed(key, hash) {
            self.replace(at, value, ttl);
            Touch::Unserved
        } else {
            self.insert(key, hash, value, ttl);
            Touch::Changed
        }
    }

    fn replace(&mut self, at: usize, value: Value, ttl: Ttl) {
        let db = &mut self.dbs[self.selected];
        let size = db.size_at(at);
        let part = db.dict.at(at).value.next_part_deadline();
        let old = std::mem::replace(&mut db.dict.at_mut(at).value, value);
        db.recount(at, size);
        self.earliest = self.earliest.min(db.track_part(at, part));
        let deadline = match ttl {
            Ttl::Keep => None,
            Ttl::Clear => Some(NEVER),
            Ttl::At(deadline) => Some(deadline),
        };
        if let Some(deadline) = deadline
            && deadline != db.dict.at(at).deadline
        {
            db.set_deadline(at, deadline);
            self.earliest = self.earliest.min(deadline);
        }
        self.touch_access(at);
        self.discard(old);
    }

    fn insert(&mut self, key: &[u8], hash: u32, value: Value, ttl: Ttl) {
        let access = match self.frequency {
            Some(_) => Frequency::first(self.now.millis()),
            None => self.now.seconds() as u32,
        };
        let db = &mut self.dbs[self.selected];
        let key = ByteStr::new(key);
        let links = Links::default();
        let entry = Entry {
            key,
            value,
            deadline: NEVER,
            links,
            hash,
            access,
        };
        if let Some(slots) = &mut db.slots {
            slots.insert(&entry.key);
        }
        let at = db.dict.insert_new_hashed(entry, hash);
        db.recount(at, 0);
        self.earliest = self.earliest.min(db.track_part(at, None));
        if let Ttl::At(deadline) = ttl {
            db.set_deadline(at, deadline);
            self.earliest = self.earliest.min(deadline);
        }
        if self.notify & Class::NEW.0 != 0 {
            let key = self.dbs[self.selected].dict.at(at).key.clone();
            self.note(&key, Touch::No, Some(Event::NEW));
        }
    }

    fn update_at<T: Kind, R>(
        &mut self,
        key: &[u8],
        at: usize,
        change: impl FnOnce(&mut T) -> (R, Option<Event>),
    ) -> Result<R, Error> {
        let db = &mut self.dbs[self.selected];
        let size = db.size_at(at);
        let part = db.dict.at(at).value.next_part_deadline();
        let value = T::of_mut(&mut db.dict.at_mut(at).value).ok_or(Error::WRONG_TYPE)?;
        let (result, event) = change(value);
        let emptied = value.is_empty();
        let serves = matches!(db.dict.at(at).value, Value::Stream(_));
        db.recount(at, size);
        self.earliest = self.earliest.min(db.track_part(at, part));
        if let Some(event) = event {
            let touch = if serves {
                Touch::Changed
            } else {
                Touch::Unserved
            };
            self.touched(key, touch, event);
        }
        if emptied {
            let entry = self.dbs[self.selected].remove_at(at);
            self.discard(entry.value);
            self.announce(key, Event::DEL);
        }
        Ok(result)
    }

    fn changed(&mut self, key: &[u8], event: Event) {
        self.touched(key, Touch::Changed, event);
    }

    fn touched(&mut self, key: &[u8], touch: Touch, event: Event) {
        self.dirty += 1;
        let told = self.notify & event.class.0 != 0;
        if self.observed || told {
            self.note(key, touch, told.then_some(event));
        }
    }

    fn note(&mut self, key: &[u8], touch: Touch, event: Option<Event>) {
        let key = ByteStr::new(key);
        self.changes.push(Change::Key {
            db: self.selected,
            key,
            touch,
            event,
        });
    }

    fn rebuild_deadlines(&mut self, now: Time) {
        for db in &mut self.dbs {
            db.deadlines = Deadlines::new(now.millis());
            for at in 0..db.dict.len() {
                *db.dict.at_mut(at).links() = Links::default();
                if db.dict.at(at).deadline != NEVER {
                    db.deadlines.insert(db.dict.entries_mut(), at);
                }
            }
        }
        self.earliest = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::{hash::Hash, limits::Limits};

    /// A keyspace at time 1000 with a hash `h` whose fields 0, 1, 2 … end one millisecond after
    /// another from 1001 on, and one field that stays.
    fn with_hash(fields: u64) -> Keyspace {
        let mut keys = Keyspace::new(2, Time::from_millis(1000));
        keys.notify = u32::MAX;
        let filled = keys.upsert(b"h", |hash: &mut Hash| {
            hash.set(b"stays", b"v", Limits::default());
            for n in 0..fields {
                let field = n.to_string();
                hash.set(field.as_bytes(), b"v", Limits::default());
                hash.set_deadline(field.as_bytes(), 1001 + n);
            }
            ((), Some(Event::hash("hset")))
        });
        assert!(filled.is_ok());
        keys.take_changes();
        keys
    }

    fn at(keys: &mut Keyspace, millis: u64) {
        keys.set_now(Time::from_millis(millis));
    }

    fn fields(keys: &mut Keyspace) -> Option<usize> {
        keys.read_as::<Hash>(b"h").unwrap().map(Hash::len)
    }

    fn events(keys: &mut Keyspace) -> Vec<&'static str> {
        let changes = keys.take_changes().into_iter();
        changes
            .filter_map(|change| match change {
                Change::Key { event, .. } => event.map(|event| event.name),
                Change::Flushed { .. } => None,
            })
            .collect()
    }

    #[test]
    fn to_warm_what_removals_touch_changes_nothing_and_needs_no_key() {
        let mut keys = Keyspace::new(1, Time::from_millis(1000));
        keys.warm(0, &[b"missing"], 5);
        for n in 0..5_u64 {
            let key = n.to_string();
            keys.put(
                key.as_bytes(),
                Value::string(b"v"),
                Ttl::At(2000 + n),
                Event::SILENT,
            );
        }
        keys.put(b"stays", Value::string(b"v"), Ttl::Clear, Event::SILENT);
        keys.warm(0, &[b"0", b"4", b"stays", b"missing"], 100);
        assert!(keys.delete(b"0", Event::DEL));
        at(&mut keys, 2003);
        assert!(keys.expire_due(100));
        assert_eq!(keys.len(), 2);
    }

    #[test]
    fn a_look_up_meets_no_field_past_its_deadline() {
        let mut keys = with_hash(5);
        assert_eq!(fields(&mut keys), Some(6));
        at(&mut keys, 1003);
        assert_eq!(fields(&mut keys), Some(3));
        assert_eq!(events(&mut keys), ["hexpired"]);
        assert_eq!(keys.next_deadline(), Some(1004));
    }

    #[test]
    fn due_fields_go_in_bounded_steps_without_a_look_up() {
        let mut keys = with_hash(1000);
        at(&mut keys, 1900);
        let mut ticks = 0;
        while !keys.expire_due(100) {
            ticks += 1;
            assert!(ticks < 20);
        }
        assert!(ticks >= 9);
        assert_eq!(keys.view::<Hash>(b"h").map(Hash::len), Some(101));
        assert_eq!(keys.stats.expired_parts, 900);
        assert_eq!(keys.next_deadline(), Some(1901));
    }

    #[test]
    fn the_key_goes_with_the_last_of_its_fields() {
        let mut keys = with_hash(3);
        keys.update(b"h", |hash: &mut Hash| {
            hash.remove(b"stays");
            ((), None)
        })
        .unwrap();
        at(&mut keys, 1003);
        assert!(keys.expire_due(100));
        assert_eq!(events(&mut keys), ["hexpired", "del"]);
        assert!(keys.is_empty());
        assert_eq!(keys.next_deadline(), None);
    }

    #[test]
    fn deadlines_of_fields_go_along_with_the_value_and_away_with_it() {
        let mut keys = with_hash(3);
        let entry = keys.take(b"h", Event::generic("rename_from")).unwrap();
        assert_eq!(keys.next_deadline(), None);
        keys.put_entry(b"other", entry.value, None, Event::generic("rename_to"));
        assert_eq!(keys.next_deadline(), Some(1001));
        keys.swap(0, 1);
        at(&mut keys, 1001);
        assert!(keys.expire_due(100));
        assert_eq!(keys.next_deadline(), Some(1002));
        keys.swap(0, 1);
        keys.put(
            b"other",
            Value::string(b"s"),
            Ttl::Clear,
            Event::string("set"),
        );
        assert_eq!(keys.next_deadline(), None);
    }

    #[test]
    fn a_deadline_taken_back_fires_no_more() {
        let mut keys = with_hash(1);
        keys.update(b"h", |hash: &mut Hash| (hash.persist(b"0"), None))
            .unwrap();
        assert_eq!(keys.next_deadline(), None);
        at(&mut keys, 5000);
        assert!(keys.expire_due(100));
        assert_eq!(fields(&mut keys), Some(2));
    }
}
