//! The registers laid open, a byte each: what is done with all of them at once.

use super::{ALPHA, RANK_BITS, REGISTER_MAX, REGISTERS};

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

/// So many registers make up a word, and take up so many bytes in the dense encoding.
const AT_ONCE: usize = 8;
const PACKED: usize = 6;
/// So many words go through each step side by side, as far as the processor can.
const WORDS: usize = 16;

/// Raises registers to those of the dense encoding.
fn raise_packed(registers: &mut [u8], packed: &[u8]) {
    let (words, packed) = (
        registers.as_chunks_mut::<AT_ONCE>().0,
        packed.as_chunks::<PACKED>().0,
    );
    for (words, packed) in words.chunks_mut(WORDS).zip(packed.chunks(WORDS)) {
        let values = unpacked(packed);
        for (register, &value) in words
            .as_flattened_mut()
            .iter_mut()
            .zip(values.as_flattened())
        {
            *register = (*register).max(value);
        }
    }
}

/// The registers of some words. All of a word move at once: four by four, then in twos, then each,
/// until every one has a byte of its own.
fn unpacked(packed: &[[u8; PACKED]]) -> [[u8; AT_ONCE]; WORDS] {
    let mut words = [0; WORDS];
    for (word, &[a, b, c, d, e, f]) in words.iter_mut().zip(packed) {
        *word = u64::from_le_bytes([a, b, c, d, e, f, 0, 0]);
    }
    words.map(|mut word| {
        word = word & 0x00ff_ffff | word << 8 & 0x00ff_ffff_0000_0000;
        word = word & 0x0fff_0000_0fff | word << 4 & 0x0fff_0000_0fff_0000;
        word = word & 0x003f_003f_003f_003f | word << 2 & 0x3f00_3f00_3f00_3f00;
        word.to_le_bytes()
    })
}

/// Writes the dense encoding.
fn pack(registers: &[u8], packed: &mut [u8]) {
    let (registers, packed) = (
        registers.as_chunks::<AT_ONCE>().0,
        packed.as_chunks_mut::<PACKED>().0,
    );
    for (registers, packed) in registers.iter().zip(packed) {
        let mut word = u64::from_le_bytes(*registers);
        word = word & 0x003f_003f_003f_003f | word >> 2 & 0x0fc0_0fc0_0fc0_0fc0;
        word = word & 0x0fff_0000_0fff | word >> 4 & 0x00ff_f000_00ff_f000;
        word = word & 0x00ff_ffff | word >> 8 & 0xffff_ff00_0000;
        packed.copy_from_slice(&word.to_le_bytes()[..PACKED]);
    }
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
            for (at, register) in one.iter().enumerate() {
                // Lowest bits first, and no register begins at a byte but every fourth.
                let bit = |bit: usize| packed[bit / 8] >> (bit % 8) & 1;
                let stored = (0..6).map(|nth| bit(at * 6 + nth) << nth).sum::<u8>();
                assert_eq!(stored, register, "{at}");
            }
            let mut raised = other.clone();
            raised.raise_packed(&packed);
            let higher = one
                .iter()
                .zip(other.iter())
                .map(|(one, other)| one.max(other));
            assert!(raised.iter().eq(higher));
        }
    }
}
