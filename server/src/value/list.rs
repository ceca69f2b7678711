//! A list: one packed run while small, a deque of packed chunks when large.
//!
//! A chunk holds some kilobytes, so a million elements cost little more than their bytes, both
//! ends are at hand, and an index is found by walking chunk counts from the nearer end.

use std::collections::{VecDeque, vec_deque};

use super::{
    limits::Limits,
    packed::{self, Item, Packed},
};
use crate::bytestr::ByteStr;

/// What a chunk may weigh, in bytes, when its limit counts elements.
const SAFE_CHUNK_BYTES: usize = 8192;
/// What a chunk is taken to need for one more element beside its bytes.
const ELEMENT_OVERHEAD: usize = 8;

/// An end of a list, or the way to walk it: from the front on or from the back on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The end that LPUSH works on.
    Front,
    /// The end that RPUSH works on.
    Back,
}

impl End {
    /// The opposite end.
    #[must_use]
    pub fn other(self) -> End {
        match self {
            End::Front => End::Back,
            End::Back => End::Front,
        }
    }
}

/// A list of byte strings.
#[derive(Clone, Default)]
pub struct List(Repr);

#[derive(Clone)]
enum Repr {
    Small(Packed),
    Large(Box<Chunks>),
}

/// Chunks of which none is empty.
#[derive(Clone, Default)]
struct Chunks {
    chunks: VecDeque<Packed>,
    len: usize,
}

/// What a search for positions looks for.
#[derive(Clone, Copy, Debug)]
pub struct Search {
    /// Where to start; positions are counted from the front all the same.
    pub from: End,
    /// How many matches to pass over first.
    pub skip: usize,
    /// How many matches to tell.
    pub matches: usize,
    /// How many elements to look at.
    pub comparisons: usize,
}

impl Default for Repr {
    fn default() -> Self {
        Repr::Small(Packed::new())
    }
}

impl List {
    /// An empty list.
    pub fn new() -> List {
        List::default()
    }

    /// How many elements it holds.
    pub fn len(&self) -> usize {
        match &self.0 {
            Repr::Small(packed) => packed.len(),
            Repr::Large(chunks) => chunks.len,
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
            Repr::Large(_) => "quicklist",
        }
    }

    /// The packed runs in order, each as long as a chunk, as DUMP wants them.
    pub fn chunks(&self) -> impl Iterator<Item = &Packed> {
        let (small, large) = match &self.0 {
            Repr::Small(packed) => (Some(packed), None),
            Repr::Large(chunks) => (None, Some(&chunks.chunks)),
        };
        small.into_iter().chain(large.into_iter().flatten())
    }

    /// An estimate of what it holds outside of itself, in bytes, from so many samples.
    pub fn heap_size(&self, samples: usize) -> usize {
        match &self.0 {
            Repr::Small(packed) => packed.heap_size(),
            Repr::Large(large) => large.heap_size(samples),
        }
    }

    /// Adds an element at an end.
    pub fn push(&mut self, end: End, element: &[u8], limits: Limits) {
        self.make_room(element.len(), 1, limits);
        match (&mut self.0, end) {
            (Repr::Small(packed), End::Front) => packed.push_front(element),
            (Repr::Small(packed), End::Back) => packed.push_back(element),
            (Repr::Large(chunks), end) => chunks.push(end, element, Bounds::new(limits)),
        }
    }

    /// Takes an element off an end; `None` when the list is empty.
    pub fn pop(&mut self, end: End, limits: Limits) -> Option<ByteStr> {
        let popped = match &mut self.0 {
            Repr::Small(packed) => pop_packed(packed, end),
            Repr::Large(chunks) => chunks.pop(end),
        };
        self.settle(limits);
        popped
    }

    /// Moves an element from one end to another, or takes it off and puts it back.
    pub fn rotate(&mut self, from: End, to: End, limits: Limits) {
        match &mut self.0 {
            Repr::Small(packed) => {
                if let Some(element) = pop_packed(packed, from) {
                    match to {
                        End::Front => packed.push_front(&element),
                        End::Back => packed.push_back(&element),
                    }
                }
            }
            Repr::Large(chunks) => {
                if let Some(element) = chunks.pop(from) {
                    chunks.push(to, &element, Bounds::new(limits));
                }
            }
        }
        self.settle(limits);
    }

    /// The element at an index counted from the front.
    pub fn get(&self, index: usize) -> Option<Item<'_>> {
        match &self.0 {
            Repr::Small(packed) => Some(packed.item(packed.seek(index)?)),
            Repr::Large(chunks) => {
                let (chunk, index) = chunks.locate(index)?;
                let packed = &chunks.chunks[chunk];
                Some(packed.item(packed.seek(index)?))
            }
        }
    }

    /// Replaces the element at an index; false when there is none.
    pub fn set(&mut self, index: usize, element: &[u8], limits: Limits) -> bool {
        // As in the references, whether the index is there or not.
        self.make_room(element.len(), 1, limits);
        if index >= self.len() {
            return false;
        }
        match &mut self.0 {
            Repr::Small(packed) => {
                if let Some(at) = packed.seek(index) {
                    packed.replace(at, element);
                }
            }
            Repr::Large(chunks) => chunks.set(index, element, Bounds::new(limits)),
        }
        self.settle(limits);
        true
    }

    /// Puts an element on that side of the first one equal to `pivot`; false when there is none.
    pub fn insert(&mut self, side: End, pivot: &[u8], element: &[u8], limits: Limits) -> bool {
        // As in the references, whether the pivot is there or not.
        self.make_room(element.len(), 1, limits);
        let Some(index) = self.position(pivot) else {
            return false;
        };
        let index = if side == End::Back { index + 1 } else { index };
        match &mut self.0 {
            Repr::Small(packed) => match packed.seek(index) {
                Some(at) => packed.insert(at, element),
                None => packed.push_back(element),
            },
            Repr::Large(chunks) => chunks.insert(index, element, Bounds::new(limits)),
        }
        true
    }

    /// Takes out up to `limit` elements equal to `element`, from that end on. Returns how many.
    pub fn remove(&mut self, element: &[u8], limit: usize, from: End, limits: Limits) -> usize {
        let removed = match &mut self.0 {
            Repr::Small(packed) => packed.remove_equal(element, limit, from == End::Back),
            Repr::Large(chunks) => chunks.remove(element, limit, from, Bounds::new(limits)),
        };
        self.settle(limits);
        removed
    }

    /// Keeps `len` elements from the index `start` on, and no others.
    pub fn trim(&mut self, start: usize, len: usize, limits: Limits) {
        let tail = self.len().saturating_sub(start.saturating_add(len));
        let head = start.min(self.len());
        match &mut self.0 {
            Repr::Small(packed) => {
                trim_packed(packed, End::Back, tail);
                trim_packed(packed, End::Front, head);
            }
            Repr::Large(chunks) => {
                chunks.drop_end(End::Back, tail);
                chunks.drop_end(End::Front, head);
            }
        }
        self.settle(limits);
    }

    /// The index of the first element equal to `element`.
    pub fn position(&self, element: &[u8]) -> Option<usize> {
        let once = Search {
            from: End::Front,
            skip: 0,
            matches: 1,
            comparisons: usize::MAX,
        };
        self.positions(element, once).first().copied()
    }

    /// The indices of elements equal to `element`, in the order of the search.
    pub fn positions(&self, element: &[u8], search: Search) -> Vec<usize> {
        let last = self.len().saturating_sub(1);
        let walk = match search.from {
            End::Front => self.iter(),
            End::Back => self.iter_back(last, self.len()),
        };
        walk.take(search.comparisons)
            .enumerate()
            .filter(|(_, item)| **item == *element)
            .map(|(nth, _)| {
                if search.from == End::Front {
                    nth
                } else {
                    last - nth
                }
            })
            .skip(search.skip)
            .take(search.matches)
            .collect()
    }

    /// All elements from the front on.
    pub fn iter(&self) -> Elements<'_> {
        self.range(0, self.len())
    }

    /// Up to `count` elements from the index `start` on, forward.
    pub fn range(&self, start: usize, count: usize) -> Elements<'_> {
        let left = count.min(self.len().saturating_sub(start));
        match &self.0 {
            Repr::Small(packed) => Elements::of_run(packed.iter_from(start), left, End::Front),
            Repr::Large(chunks) => chunks.range(start, left),
        }
    }

    /// Up to `count` elements from the index `start` on, backward.
    pub fn iter_back(&self, start: usize, count: usize) -> Elements<'_> {
        let left = if start < self.len() {
            count.min(start + 1)
        } else {
            0
        };
        match &self.0 {
            Repr::Small(packed) => {
                Elements::of_run(packed.iter_to(start.saturating_add(1)), left, End::Back)
            }
            Repr::Large(chunks) => chunks.iter_back(start, left),
        }
    }

    /// Turns to chunks when so much more would not fit into one run. A command that adds several
    /// elements may say so at once, as the references decide for all of them together.
    pub fn make_room(&mut self, bytes: usize, count: usize, limits: Limits) {
        let Repr::Small(packed) = &mut self.0 else {
            return;
        };
        let bounds = Bounds::new(limits);
        if bounds.allow(packed.listpack_size() + bytes, packed.len() + count) {
            return;
        }
        let packed = std::mem::take(packed);
        let mut chunks = Chunks {
            len: packed.len(),
            ..Chunks::default()
        };
        if !packed.is_empty() {
            chunks.chunks.push_back(packed);
        }
        self.0 = Repr::Large(Box::new(chunks));
    }

    /// Turns back to one run when it is half empty, so that one on the edge does not swing.
    fn settle(&mut self, limits: Limits) {
        let Repr::Large(large) = &mut self.0 else {
            return;
        };
        let bounds = Bounds::new(limits);
        let small = match (large.chunks.len(), large.chunks.front()) {
            (1, Some(only)) => {
                only.listpack_size() <= bounds.bytes / 2 && only.len() <= bounds.count / 2
            }
            (chunks, _) => chunks == 0,
        };
        if small {
            self.0 = Repr::Small(large.chunks.pop_front().unwrap_or_default());
        }
    }
}

impl<'a> IntoIterator for &'a List {
    type Item = Item<'a>;
    type IntoIter = Elements<'a>;

    fn into_iter(self) -> Elements<'a> {
        self.iter()
    }
}

/// How much one chunk may hold.
#[derive(Clone, Copy)]
struct Bounds {
    bytes: usize,
    count: usize,
}

impl Bounds {
    fn new(limits: Limits) -> Bounds {
        match limits.list_max_listpack_size {
            size @ ..0 => Bounds {
                bytes: 2048 << size.max(-5).unsigned_abs(),
                count: usize::MAX,
            },
            count => Bounds {
                bytes: SAFE_CHUNK_BYTES,
                count: (count as usize).max(1),
            },
        }
    }

    fn allow(self, bytes: usize, count: usize) -> bool {
        bytes <= self.bytes && count <= self.count
    }

    fn fits(self, packed: &Packed, element: &[u8]) -> bool {
        let bytes = packed.listpack_size() + element.len() + ELEMENT_OVERHEAD;
        self.allow(bytes, packed.len() + 1)
    }

    /// Two chunks become one only when that leaves room: otherwise the next insertion would part
    /// them again.
    fn join(self, one: &Packed, other: &Packed) -> bool {
        let bytes = one.listpack_size() + other.listpack_size();
        bytes <= self.bytes / 2 && one.len() + other.len() <= self.count.div_ceil(2)
    }
}

impl Chunks {
    fn push(&mut self, end: End, element: &[u8], bounds: Bounds) {
        let edge = match end {
            End::Front => self.chunks.front_mut(),
            End::Back => self.chunks.back_mut(),
        };
        self.len += 1;
        match edge {
            Some(edge) if bounds.fits(edge, element) => match end {
                End::Front => edge.push_front(element),
                End::Back => edge.push_back(element),
            },
            full => {
                full.into_iter().for_each(Packed::close);
                let chunk = single(element);
                match end {
                    End::Front => self.chunks.push_front(chunk),
                    End::Back => self.chunks.push_back(chunk),
                }
            }
        }
    }

    fn pop(&mut self, end: End) -> Option<ByteStr> {
        let edge = match end {
            End::Front => self.chunks.front_mut(),
            End::Back => self.chunks.back_mut(),
        };
        let popped = pop_packed(edge?, end)?;
        self.len -= 1;
        self.drop_empty_edge(end);
        Some(popped)
    }

    fn drop_empty_edge(&mut self, end: End) {
        match end {
            End::Front if self.chunks.front().is_some_and(Packed::is_empty) => {
                self.chunks.pop_front();
            }
            End::Back if self.chunks.back().is_some_and(Packed::is_empty) => {
                self.chunks.pop_back();
            }
            _ => {}
        }
    }

    /// Which chunk holds an index, and at which place.
    fn locate(&self, index: usize) -> Option<(usize, usize)> {
        if index >= self.len {
            return None;
        }
        if index <= self.len / 2 {
            let mut before = 0;
            for (nth, chunk) in self.chunks.iter().enumerate() {
                if index < before + chunk.len() {
                    return Some((nth, index - before));
                }
                before += chunk.len();
            }
        }
        let mut before = self.len;
        for (nth, chunk) in self.chunks.iter().enumerate().rev() {
            before -= chunk.len();
            if index >= before {
                return Some((nth, index - before));
            }
        }
        None
    }

    fn set(&mut self, index: usize, element: &[u8], bounds: Bounds) {
        let Some((nth, inner)) = self.locate(index) else {
            return;
        };
        let chunk = &mut self.chunks[nth];
        let Some(at) = chunk.seek(inner) else { return };
        if chunk.len() == 1 || bounds.fits(chunk, element) {
            chunk.replace(at, element);
            return;
        }
        chunk.remove(at, 1);
        self.len -= 1;
        self.insert_into(nth, inner, element, bounds);
    }

    fn insert(&mut self, index: usize, element: &[u8], bounds: Bounds) {
        match self.locate(index) {
            Some((nth, inner)) => self.insert_into(nth, inner, element, bounds),
            None => self.push(End::Back, element, bounds),
        }
    }

    /// Puts an element into a chunk, which parts at that place when it is full.
    fn insert_into(&mut self, nth: usize, inner: usize, element: &[u8], bounds: Bounds) {
        self.len += 1;
        let chunk = &mut self.chunks[nth];
        let at = chunk.seek(inner);
        if let Some(at) = at.filter(|_| bounds.fits(chunk, element)) {
            chunk.insert(at, element);
            return;
        }
        let tail = chunk.split_off(inner);
        if bounds.fits(chunk, element) {
            chunk.push_back(element);
            self.place(nth + 1, tail, bounds);
        } else {
            self.place(nth + 1, tail, bounds);
            self.place(nth + 1, single(element), bounds);
        }
        self.chunks.retain(|chunk| !chunk.is_empty());
    }

    /// Puts a chunk before the `nth`, or into that one when there is room.
    fn place(&mut self, nth: usize, mut chunk: Packed, bounds: Bounds) {
        match self.chunks.get_mut(nth) {
            Some(next) if bounds.join(&chunk, next) => {
                chunk.append(next);
                *next = chunk;
            }
            _ => self.chunks.insert(nth, chunk),
        }
    }

    fn remove(&mut self, element: &[u8], limit: usize, from: End, bounds: Bounds) -> usize {
        let mut removed = 0;
        let back = from == End::Back;
        for nth in 0..self.chunks.len() {
            let nth = if back {
                self.chunks.len() - 1 - nth
            } else {
                nth
            };
            removed += self.chunks[nth].remove_equal(element, limit - removed, back);
            if removed == limit {
                break;
            }
        }
        if removed > 0 {
            self.len -= removed;
            self.join_sparse(bounds);
        }
        removed
    }

    /// Drops empty chunks and joins neighbours that have become small.
    fn join_sparse(&mut self, bounds: Bounds) {
        let mut joined: VecDeque<Packed> = VecDeque::with_capacity(self.chunks.len());
        for chunk in self.chunks.drain(..).filter(|chunk| !chunk.is_empty()) {
            match joined.back_mut() {
                Some(last) if bounds.join(last, &chunk) => last.append(&chunk),
                _ => joined.push_back(chunk),
            }
        }
        joined.shrink_to_fit();
        self.chunks = joined;
    }

    /// Takes `count` elements off an end.
    fn drop_end(&mut self, end: End, mut count: usize) {
        self.len -= count;
        while count > 0 {
            let edge = match end {
                End::Front => self.chunks.front_mut(),
                End::Back => self.chunks.back_mut(),
            };
            let Some(edge) = edge else { return };
            let here = count.min(edge.len());
            trim_packed(edge, end, here);
            count -= here;
            self.drop_empty_edge(end);
        }
    }

    fn range(&self, start: usize, left: usize) -> Elements<'_> {
        let Some((nth, inner)) = self.locate(start) else {
            return Elements::none();
        };
        let rest = self.chunks.range(nth + 1..);
        Elements {
            rest,
            run: Some(self.chunks[nth].iter_from(inner)),
            left,
            from: End::Front,
        }
    }

    fn iter_back(&self, start: usize, left: usize) -> Elements<'_> {
        let Some((nth, inner)) = self.locate(start) else {
            return Elements::none();
        };
        let rest = self.chunks.range(..nth);
        Elements {
            rest,
            run: Some(self.chunks[nth].iter_to(inner + 1)),
            left,
            from: End::Back,
        }
    }

    fn heap_size(&self, samples: usize) -> usize {
        let looked = samples.clamp(1, self.chunks.len().max(1));
        let sampled: usize = self.chunks.iter().take(looked).map(Packed::heap_size).sum();
        size_of::<Chunks>()
            + self.chunks.capacity() * size_of::<Packed>()
            + sampled * self.chunks.len() / looked
    }
}

fn single(element: &[u8]) -> Packed {
    let mut packed = Packed::new();
    packed.push_back(element);
    packed
}

fn pop_packed(packed: &mut Packed, end: End) -> Option<ByteStr> {
    let at = match end {
        End::Front => packed.first(),
        End::Back => packed.last(),
    }?;
    let popped = packed.item(at).to_byte_str();
    packed.remove(at, 1);
    Some(popped)
}

fn trim_packed(packed: &mut Packed, end: End, count: usize) {
    let at = match end {
        End::Front => packed.first(),
        End::Back => packed.seek(packed.len() - count),
    };
    if let Some(at) = at {
        packed.remove(at, count);
    }
}

/// Elements of a list one after another, in one direction.
pub struct Elements<'a> {
    rest: vec_deque::Iter<'a, Packed>,
    run: Option<packed::Iter<'a>>,
    left: usize,
    from: End,
}

impl<'a> Elements<'a> {
    fn of_run(run: packed::Iter<'a>, left: usize, from: End) -> Elements<'a> {
        Elements {
            rest: vec_deque::Iter::default(),
            run: Some(run),
            left,
            from,
        }
    }

    fn none() -> Elements<'a> {
        Elements {
            rest: vec_deque::Iter::default(),
            run: None,
            left: 0,
            from: End::Front,
        }
    }
}

impl<'a> Iterator for Elements<'a> {
    type Item = Item<'a>;

    #[inline]
    fn next(&mut self) -> Option<Item<'a>> {
        self.left = self.left.checked_sub(1)?;
        if self.from == End::Front
            && let Some(item) = self.run.as_mut()?.next()
        {
            return Some(item);
        }
        self.next_of_any_run()
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }
}

impl<'a> Elements<'a> {
    #[inline(never)]
    fn next_of_any_run(&mut self) -> Option<Item<'a>> {
        loop {
            let run = self.run.as_mut()?;
            let item = match self.from {
                End::Front => run.next(),
                End::Back => run.next_back(),
            };
            if item.is_some() {
                return item;
            }
            self.run = match self.from {
                End::Front => self.rest.next(),
                End::Back => self.rest.next_back(),
            }
            .map(Packed::iter);
        }
    }
}

impl ExactSizeIterator for Elements<'_> {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::random::Random;

    fn limits(size: i64) -> Limits {
        Limits {
            list_max_listpack_size: size,
            ..Limits::default()
        }
    }

    fn numbered(count: u32, limits: Limits) -> List {
        let mut list = List::new();
        for n in 0..count {
            list.push(End::Back, n.to_string().as_bytes(), limits);
        }
        list
    }

    fn check(list: &List, model: &VecDeque<Vec<u8>>) {
        assert_eq!(list.len(), model.len());
        assert!(
            list.iter()
                .map(|item| item.to_vec())
                .eq(model.iter().cloned())
        );
        if let Repr::Large(large) = &list.0 {
            assert!(large.chunks.iter().all(|chunk| !chunk.is_empty()));
            assert_eq!(
                large.len,
                large.chunks.iter().map(Packed::len).sum::<usize>()
            );
        }
    }

    fn element(random: &mut Random) -> Vec<u8> {
        let mut element = random.below(12).to_string().into_bytes();
        if random.below(8) == 0 {
            element.resize(random.below(3000) as usize, b'-');
        }
        element
    }

    fn end(random: &mut Random) -> End {
        if random.below(2) == 0 {
            End::Front
        } else {
            End::Back
        }
    }

    fn step(random: &mut Random, list: &mut List, model: &mut VecDeque<Vec<u8>>, limits: Limits) {
        let (value, side) = (element(random), end(random));
        let index = random.below(model.len() as u64 + 2) as usize;
        match random.below(16) {
            0..8 if side == End::Front => {
                list.push(side, &value, limits);
                model.push_front(value);
            }
            0..8 => {
                list.push(side, &value, limits);
                model.push_back(value);
            }
            8 | 9 => {
                let popped = if side == End::Front {
                    model.pop_front()
                } else {
                    model.pop_back()
                };
                assert_eq!(list.pop(side, limits).map(|popped| popped.to_vec()), popped);
            }
            10 | 11 => {
                assert_eq!(list.set(index, &value, limits), index < model.len());
                model
                    .get_mut(index)
                    .into_iter()
                    .for_each(|old| old.clone_from(&value));
            }
            12 | 13 => insert(list, model, side, &value, limits),
            14 if random.below(4) == 0 => {
                let len = random.below(300) as usize;
                list.trim(index, len, limits);
                let end = (index + len).min(model.len());
                *model = model.range(index.min(end)..end).cloned().collect();
            }
            _ => remove(list, model, side, &value, random.below(3) as usize, limits),
        }
    }

    fn insert(
        list: &mut List,
        model: &mut VecDeque<Vec<u8>>,
        side: End,
        value: &[u8],
        limits: Limits,
    ) {
        let place = model.iter().position(|old| old == b"3");
        assert_eq!(list.insert(side, b"3", value, limits), place.is_some());
        if let Some(place) = place {
            model.insert(place + usize::from(side == End::Back), value.to_vec());
        }
    }

    fn remove(
        list: &mut List,
        model: &mut VecDeque<Vec<u8>>,
        from: End,
        value: &[u8],
        limit: usize,
        limits: Limits,
    ) {
        let mut removed = 0;
        while removed < limit {
            let found = match from {
                End::Front => model.iter().position(|old| old == value),
                End::Back => model.iter().rposition(|old| old == value),
            };
            let Some(found) = found else { break };
            model.remove(found);
            removed += 1;
        }
        assert_eq!(list.remove(value, limit, from, limits), removed);
    }

    #[test]
    fn every_change_does_what_a_deque_does() {
        for seed in 1..40 {
            let mut random = Random::new(seed);
            let limits = limits([-2, -1, 4, 1, 100][random.below(5) as usize]);
            let (mut list, mut model) = (List::new(), VecDeque::new());
            for _ in 0..400 {
                step(&mut random, &mut list, &mut model, limits);
                check(&list, &model);
            }
        }
    }

    #[test]
    fn ranges_of_both_directions_agree_with_single_reads() {
        for size in [-2, 3] {
            let list = numbered(4000, limits(size));
            for start in [0, 1, 2, 3, 1999, 3998, 3999, 4000, usize::MAX] {
                for count in [0, 1, 5, 4000] {
                    let forward: Vec<_> = list.range(start, count).collect();
                    let reads = (start..start.saturating_add(count)).map_while(|at| list.get(at));
                    assert!(forward.into_iter().eq(reads));
                    let backward: Vec<_> = list.iter_back(start, count).collect();
                    let reads = (0..=start.min(4000)).rev().map_while(|at| list.get(at));
                    assert!(backward.into_iter().eq(reads.take(count)));
                }
            }
        }
    }

    #[test]
    fn positions_are_told_in_the_order_of_the_search() {
        let mut list = List::new();
        for element in ["a", "b", "c", "1", "2", "3", "c", "c"] {
            list.push(End::Back, element.as_bytes(), limits(3));
        }
        let all = Search {
            from: End::Front,
            skip: 0,
            matches: 9,
            comparisons: usize::MAX,
        };
        assert_eq!(list.positions(b"c", all), [2, 6, 7]);
        assert_eq!(
            list.positions(
                b"c",
                Search {
                    skip: 1,
                    matches: 1,
                    ..all
                }
            ),
            [6]
        );
        assert_eq!(
            list.positions(
                b"c",
                Search {
                    from: End::Back,
                    ..all
                }
            ),
            [7, 6, 2]
        );
        assert_eq!(
            list.positions(
                b"c",
                Search {
                    comparisons: 6,
                    ..all
                }
            ),
            [2]
        );
        let near = Search {
            from: End::Back,
            comparisons: 1,
            ..all
        };
        assert_eq!(list.positions(b"c", near), [7]);
    }

    #[test]
    fn the_encoding_turns_where_the_reference_turns() {
        let mut list = List::new();
        let mut turned = 0;
        for n in 1..3000 {
            list.push(End::Back, format!("v{n}").as_bytes(), limits(-2));
            if turned == 0 && list.encoding() == "quicklist" {
                turned = n;
            }
        }
        list.push(End::Back, b"v3000", limits(-2));
        // Figures taken from Valkey 9.1.2.
        assert_eq!(turned, 1328);
        while list.encoding() == "quicklist" {
            list.pop(End::Front, limits(-2));
        }
        assert_eq!(list.len(), 505);
        assert_eq!(numbered(5, limits(5)).encoding(), "listpack");
        assert_eq!(numbered(6, limits(5)).encoding(), "quicklist");
        assert_eq!(numbered(2, limits(0)).encoding(), "quicklist");
    }

    #[test]
    fn a_large_list_costs_little_more_than_its_bytes() {
        let mut list = List::new();
        for n in 0..100_000 {
            list.push(End::Front, format!("item:{n:06}").as_bytes(), limits(-2));
        }
        let heap = list.heap_size(usize::MAX);
        assert!(heap < 100_000 * 14, "{heap}");
    }
}
