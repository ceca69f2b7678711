//! The registers laid open, a byte each: what is done with all of them at once.

use super::{ALPHA, RANK_BITS, REGISTER_MAX, REGISTERS};
use crate::wide::wide;

/// The value of every register.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Registers(Box<[u8; REGISTERS]>);

impl Default for Registers {
    fn default() -> Registers {
        Registers(Box::new([0; REGISTERS]))
    }
}

impl Registers {
    pub fn iter(&self) -> impl Iterator<Item = u8> {
        self.0.iter().copied()
    }

    /// Raises each to at least what the dense encoding says.
    pub fn raise_packed(&mut self, packed: &[u8]) {
        raise_packed(self.0.as_mut_slice(), packed);
    }

    /// Raises a stretch of them, all of which there are, to at least a value.
    pub fn raise_run(&mut self, run: std::ops::Range<usize>, value: u8) {
        for register in &mut self.0[run] {
            *register = (*register).max(value);
        }
    }

    /// Writes the dense encoding of all.
    pub fn pack(&self, packed: &mut [u8]) {
        pack(self.0.as_slice(), packed);
    }

    /// The number of elements that most likely leads to such registers: Ertl's improved estimator
    /// (arXiv 1702.01284), which needs no correction at either end.
    pub fn estimate(&self) -> u64 {
        let histogram = self.histogram();
        let count = REGISTERS as f64;
        let of_all = |registers: u32| f64::from(registers) / count;
        let mut z = count * tau(1.0 - of_all(histogram[RANK_BITS + 1]));
        for &registers in histogram[1..=RANK_BITS].iter().rev() {
            z = (z + f64::from(registers)) * 0.5;
        }
        z += count * sigma(of_all(histogram[0]));
        (ALPHA * count * count / z).round() as u64
    }

    /// How many registers have each value. Neighbours are counted apart, as two that are alike
    /// would wait for each other.
    fn histogram(&self) -> [u32; REGISTER_MAX as usize + 1] {
        const APART: usize = 4;
        let mut counts = [[0; REGISTER_MAX as usize + 1]; APART];
        for registers in self.0.as_chunks::<APART>().0 {
            for (counts, value) in counts.iter_mut().zip(registers) {
                counts[usize::from(value & REGISTER_MAX)] += 1;
            }
        }
        std::array::from_fn(|value| counts.iter().map(|counts| counts[value]).sum())
    }
}

wide! {
    /// Raises registers to those of the dense encoding.
    fn raise_packed(registers: &mut [u8], packed: &[u8]) {
        raise_fours(registers, packed);
    }
    avx2 {
        let done = raise_many(registers, packed);
        raise_fours(&mut registers[done * 4..], &packed[done * 3..]);
    }

    /// Writes the dense encoding.
    fn pack(registers: &[u8], packed: &mut [u8]) {
        let (fours, packed) = (registers.as_chunks::<4>().0, packed.as_chunks_mut::<3>().0);
        for ([a, b, c, d], packed) in fours.iter().zip(packed) {
            *packed = [a | b << 6, b >> 2 | c << 4, c >> 4 | d << 2];
        }
    }
}

/// Raises registers to those of the dense encoding, where four of them are three bytes.
fn raise_fours(registers: &mut [u8], packed: &[u8]) {
    let (fours, packed) = (registers.as_chunks_mut::<4>().0, packed.as_chunks::<3>().0);
    for (four, [a, b, c]) in fours.iter_mut().zip(packed) {
        four[0] = four[0].max(a & REGISTER_MAX);
        four[1] = four[1].max((a >> 6 | b << 2) & REGISTER_MAX);
        four[2] = four[2].max((b >> 4 | c << 4) & REGISTER_MAX);
        four[3] = four[3].max(c >> 2);
    }
}

/// The same for eight times four registers in a step: the three bytes of each four are brought into
/// a word of their own, and moved to their places within it. Tells for how many fours that was
/// done; the last ones have no bytes behind them to be read along.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn raise_many(registers: &mut [u8], packed: &[u8]) -> usize {
    use std::arch::x86_64::*;
    const FOURS: usize = 8;
    /// What is read in a step, half of it for the lower half of the registers.
    const READ: usize = 28;

    let load = |bytes: &[u8]| {
        let words = bytes.as_chunks::<8>().0;
        _mm_set_epi64x(i64::from_le_bytes(words[1]), i64::from_le_bytes(words[0]))
    };
    let half = _mm_setr_epi8(0, 1, 2, -1, 3, 4, 5, -1, 6, 7, 8, -1, 9, 10, 11, -1);
    let places = _mm256_broadcastsi128_si256(half);
    let only = |words, mask| _mm256_and_si256(words, _mm256_set1_epi32(mask));
    let mut done = 0;
    for group in registers.as_chunks_mut::<{ FOURS * 4 }>().0 {
        let Some(packed) = packed.get(done * 3..).and_then(|rest| rest.get(..READ)) else {
            break;
        };
        let words = _mm256_set_m128i(load(&packed[12..]), load(&packed[..16]));
        let words = _mm256_shuffle_epi8(words, places);
        let first = only(words, 0x3f);
        let second = only(_mm256_slli_epi32::<2>(words), 0x3f << 8);
        let third = only(_mm256_slli_epi32::<4>(words), 0x3f << 16);
        let fourth = only(_mm256_slli_epi32::<6>(words), 0x3f << 24);
        let values = _mm256_or_si256(
            _mm256_or_si256(first, second),
            _mm256_or_si256(third, fourth),
        );

        let (lower, upper) = group.split_at_mut(16);
        let raised = _mm256_max_epu8(_mm256_set_m128i(load(upper), load(lower)), values);
        let parts = group.as_chunks_mut::<8>().0;
        parts[0] = _mm256_extract_epi64::<0>(raised).to_le_bytes();
        parts[1] = _mm256_extract_epi64::<1>(raised).to_le_bytes();
        parts[2] = _mm256_extract_epi64::<2>(raised).to_le_bytes();
        parts[3] = _mm256_extract_epi64::<3>(raised).to_le_bytes();
        done += FOURS;
    }
    done
}

fn sigma(mut x: f64) -> f64 {
    if x == 1.0 {
        return f64::INFINITY;
    }
    let (mut weight, mut sum) = (1.0, x);
    loop {
        x *= x;
        let before = sum;
        sum += x * weight;
        weight += weight;
        if sum == before {
            return sum;
        }
    }
}

fn tau(mut x: f64) -> f64 {
    if x == 0.0 || x == 1.0 {
        return 0.0;
    }
    let (mut weight, mut sum) = (1.0, 1.0 - x);
    loop {
        x = x.sqrt();
        let before = sum;
        weight *= 0.5;
        sum -= (1.0 - x).powi(2) * weight;
        if sum == before {
            return sum / 3.0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::value::random::Random;

    #[test]
    fn registers_come_back_from_the_dense_encoding_and_only_ever_rise() {
        let mut random = Random::new(9);
        let mut sample = || {
            let mut registers = Registers::default();
            for register in registers.0.iter_mut() {
                *register = random.below(64) as u8;
            }
            registers
        };
        for _ in 0..20 {
            let (one, other) = (sample(), sample());
            let mut packed = [0; REGISTERS * 6 / 8];
            one.pack(&mut packed);
            let (mut by_all, mut by_fours) = (other.clone(), other.clone());
            by_all.raise_packed(&packed);
            raise_fours(by_fours.0.as_mut_slice(), &packed);
            assert_eq!(by_all, by_fours);
            let higher = one
                .iter()
                .zip(other.iter())
                .map(|(one, other)| one.max(other));
            assert!(by_all.iter().eq(higher));
        }
    }
}
