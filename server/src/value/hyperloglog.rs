//! `HyperLogLog`: how many distinct elements were seen, from 16384 registers of six bits.
//!
//! It is a string, and clients may GET and SET it, so its bytes are the references' own. A header
//! of 16 bytes holds a magic word, the encoding, and the last count (eight bytes, little end
//! first, its highest bit telling that it is out of date). The dense encoding packs the registers,
//! lowest bits first. The sparse one is a run-length code of one or two bytes a run:
//!
//! - `00nnnnnn`: n + 1 registers (up to 64) are zero;
//! - `01nnnnnn nnnnnnnn`: the same for up to 16384;
//! - `1vvvvvnn`: n + 1 registers (up to 4) hold v + 1 (up to 32).

mod registers;

use smallvec::SmallVec;

pub use registers::Registers;

/// How many registers there are.
pub const REGISTERS: usize = 1 << INDEX_BITS;

const INDEX_BITS: u32 = 14;
/// The bits of a hash that are left to count zeros in.
const RANK_BITS: usize = 64 - INDEX_BITS as usize;
const REGISTER_BITS: usize = 6;
const REGISTER_MAX: u8 = (1 << REGISTER_BITS) - 1;

const MAGIC: [u8; 4] = *b"HYLL";
const HEADER_LEN: usize = 16;
const ENCODING_AT: usize = 4;
const COUNT_AT: usize = 8;
const DENSE: u8 = 0;
const SPARSE: u8 = 1;
const DENSE_LEN: usize = HEADER_LEN + REGISTERS * REGISTER_BITS / 8;

const HASH_SEED: u64 = 0xadc8_3b19;
/// The limit of the bias correction for many registers: 1 / (2 ln 2).
const ALPHA: f64 = 0.721_347_520_444_481_7;

/// Why bytes are no `HyperLogLog`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Invalid {
    /// They do not begin like one, or have the wrong length.
    Foreign,
    /// Their runs do not add up to the number of registers.
    Corrupt,
}

/// How the registers are written down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// All of them, packed.
    Dense,
    /// As runs.
    Sparse,
}

/// The bytes of a string that begins like a `HyperLogLog`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HyperLogLog {
    bytes: Vec<u8>,
}

impl Default for HyperLogLog {
    fn default() -> HyperLogLog {
        let mut bytes = vec![0; HEADER_LEN];
        bytes[..MAGIC.len()].copy_from_slice(&MAGIC);
        bytes[ENCODING_AT] = SPARSE;
        Run::Zeros(REGISTERS).write(&mut bytes);
        HyperLogLog { bytes }
    }
}

impl HyperLogLog {
    /// Takes the bytes of a string, having looked at their header.
    pub fn from_bytes(bytes: Vec<u8>) -> Result<HyperLogLog, Invalid> {
        HyperLogLog::check(&bytes)?;
        Ok(HyperLogLog { bytes })
    }

    /// Whether bytes begin like one.
    pub fn check(bytes: &[u8]) -> Result<(), Invalid> {
        let plausible = bytes.len() >= HEADER_LEN
            && bytes.starts_with(&MAGIC)
            && match bytes[ENCODING_AT] {
                DENSE => bytes.len() == DENSE_LEN,
                encoding => encoding == SPARSE,
            };
        if plausible {
            Ok(())
        } else {
            Err(Invalid::Foreign)
        }
    }

    /// The string that it is.
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    /// Whether it is in the sparse encoding.
    pub fn is_sparse(&self) -> bool {
        self.bytes[ENCODING_AT] == SPARSE
    }

    /// Notes an element; true when that changed a register. A sparse one that would grow beyond
    /// so many bytes becomes dense.
    pub fn add(&mut self, element: &[u8], sparse_bytes_max: usize) -> Result<bool, Invalid> {
        let (index, rank) = place(element);
        let changed = self.raise_one(index, rank, sparse_bytes_max)?;
        if changed {
            self.forget_count();
        }
        Ok(changed)
    }

    /// How many distinct elements were noted in one of these bytes, by the last count if nothing
    /// changed since.
    pub fn cached_count(bytes: &[u8]) -> Result<Option<u64>, Invalid> {
        HyperLogLog::check(bytes)?;
        let mut count = [0; 8];
        count.copy_from_slice(&bytes[COUNT_AT..HEADER_LEN]);
        let count = u64::from_le_bytes(count);
        Ok((count >> 63 == 0).then_some(count))
    }

    /// Counts anew and keeps the result.
    pub fn count(&mut self) -> Result<u64, Invalid> {
        let count = self.registers()?.estimate();
        self.bytes[COUNT_AT..HEADER_LEN].copy_from_slice(&count.to_le_bytes());
        Ok(count)
    }

    /// The value of every register.
    pub fn registers(&self) -> Result<Registers, Invalid> {
        let mut registers = Registers::default();
        HyperLogLog::raise(&mut registers, &self.bytes)?;
        Ok(registers)
    }

    /// Raises registers to those of one of these bytes, and tells how it is encoded.
    pub fn raise(registers: &mut Registers, bytes: &[u8]) -> Result<Encoding, Invalid> {
        HyperLogLog::check(bytes)?;
        let (header, mut runs) = bytes.split_at(HEADER_LEN);
        if header[ENCODING_AT] == DENSE {
            registers.raise_packed(runs);
            return Ok(Encoding::Dense);
        }
        let mut first = 0;
        while let Some(run) = Run::read(&mut runs) {
            let end = first + run.len();
            if end > REGISTERS {
                return Err(Invalid::Corrupt);
            }
            if let Run::Values(value, _) = run {
                registers.raise_run(first..end, value);
            }
            first = end;
        }
        let whole = runs.is_empty() && first == REGISTERS;
        if whole {
            Ok(Encoding::Sparse)
        } else {
            Err(Invalid::Corrupt)
        }
    }

    /// Takes on registers, none of which may be lower than its own.
    pub fn rise_to(
        &mut self,
        registers: &Registers,
        sparse_bytes_max: usize,
    ) -> Result<(), Invalid> {
        if self.is_sparse() {
            self.rise_sparse(registers, sparse_bytes_max)?;
        }
        if !self.is_sparse() {
            registers.pack(&mut self.bytes[HEADER_LEN..]);
        }
        self.forget_count();
        Ok(())
    }

    /// The same as long as there is room; becomes dense when there is no more.
    fn rise_sparse(
        &mut self,
        registers: &Registers,
        sparse_bytes_max: usize,
    ) -> Result<(), Invalid> {
        let mut from = Place::FIRST;
        for (index, value) in registers.iter().enumerate().filter(|&(_, value)| value > 0) {
            let raised = self.raise_sparse(index, value, sparse_bytes_max, &mut from)?;
            if matches!(raised, Raised::NoRoom) {
                return self.make_dense();
            }
        }
        Ok(())
    }

    /// Takes on the dense encoding.
    pub fn make_dense(&mut self) -> Result<(), Invalid> {
        if !self.is_sparse() {
            return Ok(());
        }
        let registers = self.registers()?;
        self.bytes[ENCODING_AT] = DENSE;
        self.bytes.truncate(HEADER_LEN);
        self.bytes.resize(DENSE_LEN, 0);
        registers.pack(&mut self.bytes[HEADER_LEN..]);
        Ok(())
    }

    /// The runs of the sparse encoding in words, as PFDEBUG DECODE shows them: `z` and `Z` for
    /// zeros in one and two bytes, `v:value,length` for values.
    pub fn describe(&self) -> String {
        let mut runs = &self.bytes[HEADER_LEN..];
        let mut words = Vec::new();
        while let Some(&first) = runs.first() {
            let Some(run) = Run::read(&mut runs) else {
                break;
            };
            words.push(match run {
                Run::Zeros(len) if first < 0x40 => format!("z:{len}"),
                Run::Zeros(len) => format!("Z:{len}"),
                Run::Values(value, len) => format!("v:{value},{len}"),
            });
        }
        words.join(" ")
    }

    /// Marks the last count as out of date.
    pub fn forget_count(&mut self) {
        self.bytes[HEADER_LEN - 1] |= 0x80;
    }

    fn raise_one(
        &mut self,
        index: usize,
        value: u8,
        sparse_bytes_max: usize,
    ) -> Result<bool, Invalid> {
        if self.is_sparse() {
            let mut from = Place::FIRST;
            match self.raise_sparse(index, value, sparse_bytes_max, &mut from)? {
                Raised::No => return Ok(false),
                Raised::Yes => return Ok(true),
                Raised::NoRoom => self.make_dense()?,
            }
        }
        let higher = value > self.dense(index);
        if higher {
            self.set_dense(index, value);
        }
        Ok(higher)
    }

    fn dense(&self, index: usize) -> u8 {
        let (at, shift) = dense_place(index);
        let low = self.bytes[at] >> shift;
        // Past the last register there is no byte, and none is needed.
        let high = self
            .bytes
            .get(at + 1)
            .map_or(0, |&byte| u16::from(byte) << (8 - shift));
        (low | high as u8) & REGISTER_MAX
    }

    fn set_dense(&mut self, index: usize, value: u8) {
        let (at, shift) = dense_place(index);
        let clear = !(u16::from(REGISTER_MAX) << shift);
        let word = u16::from(value) << shift;
        let [clear_low, clear_high] = clear.to_le_bytes();
        let [low, high] = word.to_le_bytes();
        self.bytes[at] = self.bytes[at] & clear_low | low;
        if let Some(byte) = self.bytes.get_mut(at + 1) {
            *byte = *byte & clear_high | high;
        }
    }

    /// Raises a register that lies no earlier than a place, which moves on to where the search for
    /// a later one may begin.
    fn raise_sparse(
        &mut self,
        index: usize,
        value: u8,
        sparse_bytes_max: usize,
        from: &mut Place,
    ) -> Result<Raised, Invalid> {
        if value > Run::VALUE_MAX {
            return Ok(Raised::NoRoom);
        }
        let found = self.find_run(index, *from)?;
        *from = found.earlier;
        if found.run.value() >= value {
            return Ok(Raised::No);
        }
        let after_len = found.first + found.run.len() - 1 - index;
        let mut split = SmallVec::<[u8; 5]>::new();
        found.run.with_len(index - found.first).write(&mut split);
        Run::Values(value, 1).write(&mut split);
        found.run.with_len(after_len).write(&mut split);
        let grown_len = self.bytes.len() - found.bytes.len() + split.len();
        if split.len() > found.bytes.len() && grown_len > sparse_bytes_max {
            return Ok(Raised::NoRoom);
        }
        self.bytes.splice(found.bytes, split);
        self.join_values(found.before.at);
        Ok(Raised::Yes)
    }

    fn find_run(&self, index: usize, from: Place) -> Result<Found, Invalid> {
        let (mut here, mut before, mut earlier) = (from, from, from);
        loop {
            let mut rest = &self.bytes[here.at..];
            let run = Run::read(&mut rest).ok_or(Invalid::Corrupt)?;
            let next = Place {
                at: self.bytes.len() - rest.len(),
                first: here.first + run.len(),
            };
            if index < next.first {
                return Ok(Found {
                    run,
                    bytes: here.at..next.at,
                    first: here.first,
                    before,
                    earlier,
                });
            }
            (here, before, earlier) = (next, here, before);
        }
    }

    /// Joins neighbours that hold the same value, looking at five runs from an offset on: no
    /// more can have changed.
    fn join_values(&mut self, mut at: usize) {
        for _ in 0..5 {
            let mut rest = &self.bytes[at..];
            let Some(run) = Run::read(&mut rest) else {
                return;
            };
            let next_at = self.bytes.len() - rest.len();
            match (run, Run::read(&mut rest)) {
                (Run::Values(value, len), Some(Run::Values(next_value, next_len)))
                    if value == next_value && len + next_len <= Run::VALUES_LEN_MAX =>
                {
                    let mut joined = SmallVec::<[u8; 1]>::new();
                    Run::Values(value, len + next_len).write(&mut joined);
                    self.bytes.splice(at..=next_at, joined);
                }
                _ => at = next_at,
            }
        }
    }
}

/// What an attempt on the sparse encoding came to.
enum Raised {
    No,
    Yes,
    NoRoom,
}

/// Where a run starts.
#[derive(Clone, Copy)]
struct Place {
    /// Its code among the bytes.
    at: usize,
    /// Its first register.
    first: usize,
}

impl Place {
    const FIRST: Place = Place {
        at: HEADER_LEN,
        first: 0,
    };
}

/// The run that holds a register.
struct Found {
    run: Run,
    /// Where its code lies.
    bytes: std::ops::Range<usize>,
    /// The first register of the run.
    first: usize,
    /// The run before it, if the search met one.
    before: Place,
    /// The run before that one, which a change of this one leaves as it is.
    earlier: Place,
}

/// A run of registers of one value.
#[derive(Clone, Copy)]
enum Run {
    Zeros(usize),
    Values(u8, usize),
}

impl Run {
    const VALUE_MAX: u8 = 32;
    const VALUES_LEN_MAX: usize = 4;
    const SHORT_ZEROS_MAX: usize = 64;

    /// Takes the first run off; one that lacks its second byte stays.
    fn read(runs: &mut &[u8]) -> Option<Run> {
        let (run, len) = match **runs {
            [first @ 0x00..=0x3f, ..] => (Run::Zeros(usize::from(first) + 1), 1),
            [first @ 0x40..=0x7f, low, ..] => {
                let zeros = usize::from(first & 0x3f) << 8 | usize::from(low);
                (Run::Zeros(zeros + 1), 2)
            }
            [first @ 0x80..=0xff, ..] => {
                let (value, len) = (first >> 2 & 0x1f, first & 3);
                (Run::Values(value + 1, usize::from(len) + 1), 1)
            }
            _ => return None,
        };
        *runs = &runs[len..];
        Some(run)
    }

    /// Appends the code of the run, nothing for an empty one.
    fn write(self, bytes: &mut impl Extend<u8>) {
        match self {
            Run::Zeros(0) | Run::Values(_, 0) => {}
            Run::Zeros(len @ 1..=Run::SHORT_ZEROS_MAX) => bytes.extend([len as u8 - 1]),
            Run::Zeros(len) => bytes.extend((0x4000 | (len as u16 - 1)).to_be_bytes()),
            Run::Values(value, len) => bytes.extend([0x80 | (value - 1) << 2 | (len as u8 - 1)]),
        }
    }

    fn len(self) -> usize {
        match self {
            Run::Zeros(len) | Run::Values(_, len) => len,
        }
    }

    fn value(self) -> u8 {
        match self {
            Run::Zeros(_) => 0,
            Run::Values(value, _) => value,
        }
    }

    fn with_len(self, len: usize) -> Run {
        match self {
            Run::Zeros(_) => Run::Zeros(len),
            Run::Values(value, _) => Run::Values(value, len),
        }
    }
}

fn dense_place(index: usize) -> (usize, u32) {
    let bit = index * REGISTER_BITS;
    (HEADER_LEN + bit / 8, (bit % 8) as u32)
}

/// The register of an element, and the rank that its hash has there.
fn place(element: &[u8]) -> (usize, u8) {
    let hash = murmur_64a(element, HASH_SEED);
    let index = hash as usize & (REGISTERS - 1);
    // The bit above the last one ends the zeros of an all-zero hash.
    let rest = hash >> INDEX_BITS | 1 << RANK_BITS;
    (index, rest.trailing_zeros() as u8 + 1)
}

/// Checks that registers hold what they were given in both encodings, and that estimates are as
/// good as the number of registers promises; tells what failed.
pub fn self_test() -> Result<(), String> {
    const ELEMENTS_MAX: u64 = 100_000;
    /// Four times the standard error of 1.04 / sqrt(16384).
    const ERROR_MAX: f64 = 0.0325;
    let (mut sparse, mut dense) = (HyperLogLog::default(), HyperLogLog::default());
    dense
        .make_dense()
        .map_err(|_| "a new sketch is not sound".to_owned())?;
    let mut next = 10;
    for n in 1..=ELEMENTS_MAX {
        let element = n.to_le_bytes();
        for sketch in [&mut sparse, &mut dense] {
            sketch
                .add(&element, 3000)
                .map_err(|_| format!("element {n} broke the sketch"))?;
        }
        if n == next {
            next *= 10;
            if sparse.registers() != dense.registers() {
                return Err(format!("the encodings differ after {n} elements"));
            }
            let count = dense
                .count()
                .map_err(|_| "the dense encoding broke".to_owned())?;
            if (count as f64 - n as f64).abs() > (n as f64 * ERROR_MAX).max(1.0) {
                return Err(format!("{n} elements were counted as {count}"));
            }
        }
    }
    Ok(())
}

/// Austin Appleby's `MurmurHash64A`, words read little end first.
fn murmur_64a(bytes: &[u8], seed: u64) -> u64 {
    const MULTIPLIER: u64 = 0xc6a4_a793_5bd1_e995;
    const SHIFT: u32 = 47;
    let mut hash = seed ^ (bytes.len() as u64).wrapping_mul(MULTIPLIER);
    let (words, rest) = bytes.as_chunks::<8>();
    for word in words {
        let mut word = u64::from_le_bytes(*word).wrapping_mul(MULTIPLIER);
        word ^= word >> SHIFT;
        hash = (hash ^ word.wrapping_mul(MULTIPLIER)).wrapping_mul(MULTIPLIER);
    }
    if !rest.is_empty() {
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        hash = (hash ^ u64::from_le_bytes(last)).wrapping_mul(MULTIPLIER);
    }
    hash = (hash ^ hash >> SHIFT).wrapping_mul(MULTIPLIER);
    hash ^ hash >> SHIFT
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::random::Random;

    const SPARSE_MAX: usize = 3000;

    fn of(elements: impl IntoIterator<Item = String>) -> HyperLogLog {
        let mut sketch = HyperLogLog::default();
        for element in elements {
            sketch
                .add(element.as_bytes(), SPARSE_MAX)
                .expect("sound runs");
        }
        sketch
    }

    fn element(n: u64) -> String {
        format!("element:{n}")
    }

    #[test]
    fn bytes_and_counts_are_those_of_the_reference_at_every_size() {
        let recorded = [
            (1, 1, "946a3f384bd41aeac7fc2f5baa171a9779cbb61a"),
            (3, 3, "add07e9f0ccfd2daf57423f1ad219623fda8cdae"),
            (100, 99, "4d1b3bef5d497d64c4202942021f568e478230c6"),
            (600, 602, "44b30f41e64676e4546437d855634cd39144a42b"),
            (1500, 1500, "e31c9dd1080de9d25485a8f50abe3730da1b9d27"),
            (3000, 3002, "a456ded68989065f6ee0edf2d4ef1d5cce15c63f"),
            (100_000, 100_039, "869bb2bd20736740dcdce657313393121906696b"),
        ];
        for (elements, count, sha1) in recorded {
            let mut sketch = of((0..elements).map(element));
            assert_eq!(sketch.count(), Ok(count), "{elements} elements");
            assert_eq!(sketch.is_sparse(), elements < 3000);
            let found = sha1_smol::Sha1::from(sketch.into_bytes())
                .digest()
                .to_string();
            assert_eq!(found, sha1, "{elements} elements");
        }
    }

    #[test]
    fn runs_read_as_the_reference_describes_them() {
        let sketch = of(["a", "b", "c"].map(String::from));
        assert_eq!(
            sketch.describe(),
            "Z:8436 v:1,1 Z:4274 v:2,1 Z:3068 v:1,1 Z:603"
        );
    }

    fn cached(sketch: &HyperLogLog) -> Option<u64> {
        HyperLogLog::cached_count(&sketch.bytes).expect("a header")
    }

    #[test]
    fn a_count_is_out_of_date_only_after_a_register_changed() {
        let mut sketch = of([element(1)]);
        assert_eq!(cached(&sketch), None);
        assert_eq!(sketch.count(), Ok(1));
        assert_eq!(cached(&sketch), Some(1));
        assert_eq!(sketch.add(element(1).as_bytes(), SPARSE_MAX), Ok(false));
        assert_eq!(cached(&sketch), Some(1));
        assert_eq!(sketch.add(element(2).as_bytes(), SPARSE_MAX), Ok(true));
        assert_eq!(cached(&sketch), None);
    }

    #[test]
    fn both_encodings_hold_the_same_registers() {
        for elements in [0, 1, 10, 500, 1500] {
            let sparse = of((0..elements).map(element));
            let mut dense = sparse.clone();
            dense.make_dense().unwrap();
            assert!(sparse.is_sparse() && !dense.is_sparse());
            assert_eq!(sparse.registers(), dense.registers());
        }
    }

    #[test]
    fn a_merge_is_the_sketch_of_all_elements() {
        let mut merged = of((0..700).map(element));
        let mut registers = merged.registers().unwrap();
        HyperLogLog::raise(&mut registers, &of((500..2000).map(element)).bytes).unwrap();
        merged.rise_to(&registers, SPARSE_MAX).unwrap();
        assert_eq!(merged.registers(), of((0..2000).map(element)).registers());
    }

    #[test]
    fn a_merge_leaves_the_runs_that_raising_one_register_after_the_other_leaves() {
        let mut random = Random::new(3);
        for round in 0..300 {
            // Few registers close together meet and join, many run out of room.
            let spread = if round % 2 == 0 { 60 } else { REGISTERS as u64 };
            let mut merged = HyperLogLog::default();
            for _ in 0..random.below(200) {
                let (index, value) = (random.below(spread) as usize, random.below(3) as u8 + 1);
                merged.raise_one(index, value, SPARSE_MAX).unwrap();
            }
            let mut raised = merged.clone();
            let mut registers = merged.registers().unwrap();
            for _ in 0..random.below(200) {
                let (index, value) = (random.below(spread) as usize, random.below(4) as u8 + 1);
                registers.raise_run(index..index + 1, value);
            }
            let sparse_bytes_max = 100 + random.below(400) as usize;
            merged.rise_to(&registers, sparse_bytes_max).unwrap();
            for (index, value) in registers.iter().enumerate() {
                if value > 0 {
                    raised.raise_one(index, value, sparse_bytes_max).unwrap();
                }
            }
            raised.forget_count();
            assert_eq!(merged, raised, "round {round}");
        }
    }

    #[test]
    fn damaged_bytes_are_told_and_harm_nothing() {
        let whole = of((0..300).map(element)).into_bytes();
        for len in 0..whole.len() {
            if let Ok(mut cut) = HyperLogLog::from_bytes(whole[..len].to_vec()) {
                assert_eq!(cut.count(), Err(Invalid::Corrupt));
                assert_eq!(cut.make_dense(), Err(Invalid::Corrupt));
            } else {
                assert!(len < HEADER_LEN);
            }
        }
        let mut random = Random::new(5);
        for _ in 0..2000 {
            let mut bytes = whole.clone();
            let at = random.below(bytes.len() as u64) as usize;
            bytes[at] = random.below(256) as u8;
            if let Ok(mut changed) = HyperLogLog::from_bytes(bytes) {
                let _ = changed.count();
                let _ = changed.add(element(random.below(1000)).as_bytes(), SPARSE_MAX);
                changed.describe();
            }
        }
    }
}
