//! Strings as arrays of bits, bit 0 the highest of the first byte: counting, searching,
//! combining, and integers of any width laid anywhere.

mod combining;

pub use combining::{BitOp, combine};

/// A stretch from one bit to another, the last one included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// The first bit.
    pub first: usize,
    /// The last bit, not before the first.
    pub last: usize,
}

impl Span {
    /// Resolves indices as commands take them: negative ones count from the end, and either is
    /// moved to where there is something. `None` when nothing is left.
    pub fn resolve(start: i64, end: i64, by_bit: bool, byte_len: usize) -> Option<Span> {
        let len = (byte_len as i64) << if by_bit { 3 } else { 0 };
        if start < 0 && end < 0 && start > end {
            return None;
        }
        let absolute = |index: i64| {
            if index < 0 {
                index.saturating_add(len).max(0)
            } else {
                index
            }
        };
        let (start, end) = (absolute(start), absolute(end).min(len - 1));
        if start > end {
            return None;
        }
        let (start, end) = (start as usize, end as usize);
        let (first, last) = if by_bit {
            (start, end)
        } else {
            (start * 8, end * 8 + 7)
        };
        Some(Span { first, last })
    }

    /// The bytes that the span touches.
    fn bytes(self) -> std::ops::RangeInclusive<usize> {
        self.first / 8..=self.last / 8
    }

    /// What of a byte at an index is within the span.
    fn mask(self, index: usize) -> u8 {
        let mut mask = 0xff;
        if index == self.first / 8 {
            mask >>= self.first % 8;
        }
        if index == self.last / 8 {
            mask &= !(0x7f >> (self.last % 8));
        }
        mask
    }
}

/// How many bits of the span are set. The span must lie within the bytes.
pub fn count_ones(bytes: &[u8], span: Span) -> u64 {
    let touched = &bytes[span.bytes()];
    let whole = count_all(touched);
    let outside = |index: usize| u64::from((bytes[index] & !span.mask(index)).count_ones());
    let (first, last) = (span.first / 8, span.last / 8);
    whole - outside(first) - if last > first { outside(last) } else { 0 }
}

/// So many words side by side are counted with the same operations.
const LANES: usize = 4;
type Words = [u64; LANES];
/// The bytes of them.
type Lanes = [[u8; 8]; LANES];

/// How many bits are set. Adding up bits of the same place in eight words by hand, and counting
/// only the carries, does a third of the work.
fn count_all(bytes: &[u8]) -> u64 {
    let (mut ones, mut twos, mut fours) = ([0; LANES], [0; LANES], [0; LANES]);
    let mut eights_count = 0;
    let (words, rest) = bytes.as_chunks::<8>();
    let (lanes, rest_words) = words.as_chunks::<LANES>();
    let (blocks, rest_lanes) = lanes.as_chunks::<8>();
    for [a, b, c, d, e, f, g, h] in blocks {
        let (ab, cd) = (add(&mut ones, a, b), add(&mut ones, c, d));
        let (ef, gh) = (add(&mut ones, e, f), add(&mut ones, g, h));
        let (abcd, efgh) = (add_words(&mut twos, ab, cd), add_words(&mut twos, ef, gh));
        eights_count += count_words(add_words(&mut fours, abcd, efgh));
    }
    let rest_words = rest_lanes.as_flattened().iter().chain(rest_words);
    let rest_words: u64 = rest_words
        .map(|word| u64::from(u64::from_le_bytes(*word).count_ones()))
        .sum();
    let rest: u64 = rest.iter().map(|byte| u64::from(byte.count_ones())).sum();
    let counted =
        eights_count * 8 + count_words(fours) * 4 + count_words(twos) * 2 + count_words(ones);
    counted + rest_words + rest
}

fn add(sum: &mut Words, one: &Lanes, other: &Lanes) -> Words {
    add_words(
        sum,
        one.map(u64::from_le_bytes),
        other.map(u64::from_le_bytes),
    )
}

/// Adds two words to a sum, bit by bit, and returns the carries.
fn add_words(sum: &mut Words, one: Words, other: Words) -> Words {
    let mut carry = [0; LANES];
    for lane in 0..LANES {
        let (old, one, other) = (sum[lane], one[lane], other[lane]);
        carry[lane] = (one & other) | (old & (one ^ other));
        sum[lane] = old ^ one ^ other;
    }
    carry
}

fn count_words(words: Words) -> u64 {
    words.iter().map(|word| u64::from(word.count_ones())).sum()
}

/// Where the first byte is that is another one.
fn position_of_other(bytes: &[u8], dull: u8) -> Option<usize> {
    const BLOCK: usize = 128;
    // Whole blocks are looked through without a decision for each byte.
    let is_dull = |block: &&[u8]| block.iter().fold(0, |seen, byte| seen | (byte ^ dull)) == 0;
    let passed = bytes.chunks_exact(BLOCK).take_while(is_dull).count() * BLOCK;
    let found = bytes[passed..].iter().position(|&byte| byte != dull);
    found.map(|offset| passed + offset)
}

/// The first bit of the span that has the value. The span must lie within the bytes.
pub fn find(bytes: &[u8], value: bool, span: Span) -> Option<usize> {
    let (first, last) = (span.first / 8, span.last / 8);
    // Within, only bytes that are not all of the other value matter, and most are.
    let dull = if value { 0x00 } else { 0xff };
    let wanted = |index: usize| (bytes[index] ^ dull) & span.mask(index);
    let at = |index: usize| {
        let found = wanted(index);
        (found != 0).then(|| index * 8 + found.leading_zeros() as usize)
    };
    if let Some(found) = at(first) {
        return Some(found);
    }
    let inner = bytes.get(first + 1..last).unwrap_or_default();
    if let Some(offset) = position_of_other(inner, dull) {
        return at(first + 1 + offset);
    }
    at(last)
}

/// The bit at an offset; zero past the end.
pub fn get(bytes: &[u8], offset: usize) -> bool {
    bytes
        .get(offset / 8)
        .is_some_and(|byte| byte & (0x80 >> (offset % 8)) != 0)
}

/// Sets the bit at an offset that lies within the bytes, and returns what it was.
pub fn set(bytes: &mut [u8], offset: usize, value: bool) -> bool {
    let byte = &mut bytes[offset / 8];
    let mask = 0x80 >> (offset % 8);
    let old = *byte & mask != 0;
    *byte = if value { *byte | mask } else { *byte & !mask };
    old
}

/// The type of an integer within a bit field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FieldType {
    signed: bool,
    width: u32,
}

/// What happens to a result that its field has no room for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Overflow {
    /// The upper bits are dropped.
    #[default]
    Wrap,
    /// It becomes the nearest value that there is room for.
    Saturate,
    /// Nothing changes.
    Fail,
}

impl FieldType {
    /// Reads `i1` to `i64` or `u1` to `u63`.
    pub fn parse(text: &[u8]) -> Option<FieldType> {
        let (&sign, width) = text.split_first()?;
        let signed = match sign {
            b'i' => true,
            b'u' => false,
            _ => return None,
        };
        let width = crate::number::parse_i64(width)?;
        let width_max = if signed { 64 } else { 63 };
        (1..=width_max).contains(&width).then_some(FieldType {
            signed,
            width: width as u32,
        })
    }

    /// How many bits it takes.
    pub fn width(self) -> usize {
        self.width as usize
    }

    /// Reads the integer at a bit offset; bits past the end are zeros.
    pub fn read(self, bytes: &[u8], offset: usize) -> i64 {
        let mut raw = 0u64;
        for nth in 0..self.width() {
            raw = raw << 1 | u64::from(get(bytes, offset + nth));
        }
        let unused = 64 - self.width;
        if self.signed {
            (raw << unused) as i64 >> unused
        } else {
            raw as i64
        }
    }

    /// Writes the lower bits of an integer at a bit offset, all of it within the bytes.
    pub fn write(self, bytes: &mut [u8], offset: usize, value: i64) {
        for nth in 0..self.width() {
            set(
                bytes,
                offset + nth,
                value >> (self.width() - 1 - nth) & 1 == 1,
            );
        }
    }

    /// What is stored when a value is set; `None` when there is no room and that is a failure.
    pub fn fit(self, value: i64, overflow: Overflow) -> Option<i64> {
        // An unsigned field takes a negative number for the large one of the same bits.
        let value = if self.signed && overflow == Overflow::Saturate {
            self.before_saturation(value)
        } else if self.signed {
            i128::from(value)
        } else {
            i128::from(value as u64)
        };
        self.fit_wide(value, overflow)
    }

    /// The references measure how far a value is from the greatest one in 64 bits, so that one that
    /// is too far below seems too large.
    fn before_saturation(self, value: i64) -> i128 {
        let max = i64::MAX >> (64 - self.width);
        if max.checked_sub(value).is_none() && self.width < 64 {
            i128::from(i64::MAX)
        } else {
            i128::from(value)
        }
    }

    /// The sum as it is stored; `None` when there is no room and that is a failure.
    pub fn add(self, value: i64, increment: i64, overflow: Overflow) -> Option<i64> {
        self.fit_wide(i128::from(value) + i128::from(increment), overflow)
    }

    fn fit_wide(self, value: i128, overflow: Overflow) -> Option<i64> {
        let magnitude_bits = self.width - u32::from(self.signed);
        let max = (1i128 << magnitude_bits) - 1;
        let min = if self.signed { -max - 1 } else { 0 };
        if (min..=max).contains(&value) {
            return Some(value as i64);
        }
        match overflow {
            Overflow::Wrap => Some(self.truncated(value)),
            Overflow::Saturate => Some(value.clamp(min, max) as i64),
            Overflow::Fail => None,
        }
    }

    fn truncated(self, value: i128) -> i64 {
        let unused = 128 - self.width;
        let shifted = value << unused;
        if self.signed {
            (shifted >> unused) as i64
        } else {
            (shifted as u128 >> unused) as i64
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::random::Random;

    pub fn sample(random: &mut Random, len: u64) -> Vec<u8> {
        let kind = random.below(4);
        (0..len)
            .map(|_| match kind {
                0 => 0x00,
                1 => 0xff,
                _ => random.below(256) as u8,
            })
            .collect()
    }

    #[test]
    fn counting_and_finding_agree_with_looking_at_every_bit() {
        let mut random = Random::new(7);
        for round in 0..3000 {
            let len = 1 + random.below(if round % 30 == 0 { 1500 } else { 12 });
            let mut bytes = sample(&mut random, len);
            if round % 60 == 0 {
                // Long stretches of the same, which are passed over block by block.
                let from = random.below(len) as usize;
                bytes[from..].fill(if round % 120 == 0 { 0x00 } else { 0xff });
            }
            let first = random.below(len * 8) as usize;
            let last = first + random.below(len * 8 - first as u64) as usize;
            let span = Span { first, last };
            let ones = (first..=last).filter(|&at| get(&bytes, at)).count();
            assert_eq!(count_ones(&bytes, span), ones as u64, "{bytes:?} {span:?}");
            for value in [false, true] {
                let found = (first..=last).find(|&at| get(&bytes, at) == value);
                assert_eq!(find(&bytes, value, span), found, "{bytes:?} {span:?}");
            }
        }
    }

    #[test]
    fn indices_resolve_as_the_reference_resolves_them() {
        let bytes = |start, end| Span::resolve(start, end, false, 3);
        assert_eq!(bytes(0, -1), Some(Span { first: 0, last: 23 }));
        assert_eq!(bytes(-100, -99), Some(Span { first: 0, last: 7 }));
        assert_eq!(bytes(-100, 100), Some(Span { first: 0, last: 23 }));
        assert_eq!(bytes(3, 1), None);
        assert_eq!(bytes(-1, -3), None);
        assert_eq!(bytes(5, 9), None);
        assert_eq!(bytes(i64::MIN, i64::MAX), Some(Span { first: 0, last: 23 }));
        assert_eq!(
            Span::resolve(-8, -1, true, 3),
            Some(Span {
                first: 16,
                last: 23
            })
        );
        assert_eq!(
            Span::resolve(5, 30, true, 3),
            Some(Span { first: 5, last: 23 })
        );
        assert_eq!(Span::resolve(0, -1, false, 0), None);
    }

    #[test]
    fn a_field_reads_back_what_it_was_given_and_leaves_its_neighbours() {
        let mut random = Random::new(3);
        for text in ["u1", "i1", "u7", "i8", "u31", "i33", "u63", "i64"] {
            let field = FieldType::parse(text.as_bytes()).unwrap();
            for offset in 0..40 {
                let mut bytes = sample(&mut random, 16);
                let before = bytes.clone();
                let value = field.fit(random.draw() as i64, Overflow::Wrap).unwrap();
                field.write(&mut bytes, offset, value);
                assert_eq!(field.read(&bytes, offset), value, "{text} at {offset}");
                for at in (0..offset).chain(offset + field.width()..128) {
                    assert_eq!(get(&bytes, at), get(&before, at), "{text} at {offset}");
                }
            }
        }
        for bad in ["u0", "u64", "i65", "i0", "x8", "u08", "u+8", "U8", "u", ""] {
            assert_eq!(FieldType::parse(bad.as_bytes()), None, "{bad}");
        }
    }

    #[test]
    fn results_without_room_wrap_saturate_or_fail() {
        let field = |text: &str| FieldType::parse(text.as_bytes()).unwrap();
        let add = |text, value, increment| {
            [Overflow::Wrap, Overflow::Saturate, Overflow::Fail]
                .map(|overflow| field(text).add(value, increment, overflow))
        };
        assert_eq!(add("u8", 255, 10), [Some(9), Some(255), None]);
        assert_eq!(add("u8", 0, -1), [Some(255), Some(0), None]);
        assert_eq!(add("i8", 127, 1), [Some(-128), Some(127), None]);
        assert_eq!(
            add("i64", i64::MAX, i64::MAX),
            [Some(-2), Some(i64::MAX), None]
        );
        assert_eq!(
            add("i64", i64::MIN, -5),
            [Some(i64::MAX - 4), Some(i64::MIN), None]
        );
        let set = |text, value| {
            [Overflow::Wrap, Overflow::Saturate, Overflow::Fail]
                .map(|overflow| field(text).fit(value, overflow))
        };
        assert_eq!(set("i8", -129), [Some(127), Some(-128), None]);
        assert_eq!(set("u63", -1), [Some(i64::MAX), Some(i64::MAX), None]);
        assert_eq!(set("u8", -1), [Some(255), Some(255), None]);
    }
}
