//! Changes inputs at random, the same way in every run.

/// Random numbers that repeat: xorshift.
#[derive(Debug)]
pub struct Random(u64);

impl Random {
    /// Begins a sequence; each number begins another.
    pub fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// A number below the bound.
    ///
    /// # Panics
    /// When the bound is zero.
    pub fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % bound
    }

    fn pick<'a>(&mut self, from: &'a [Vec<u8>]) -> &'a [u8] {
        match from.len() {
            0 => &[],
            len => &from[self.below(len)],
        }
    }
}

/// A seed with a few changes.
pub fn mutate(
    random: &mut Random,
    seeds: &[Vec<u8>],
    words: &[Vec<u8>],
    len_max: usize,
) -> Vec<u8> {
    let mut input = random.pick(seeds).to_vec();
    for _ in 0..=random.below(5) {
        change(random, &mut input, seeds, words);
    }
    input.truncate(len_max);
    input
}

fn change(random: &mut Random, input: &mut Vec<u8>, seeds: &[Vec<u8>], words: &[Vec<u8>]) {
    let at = random.below(input.len() + 1);
    let end = (at + 1 + random.below(16)).min(input.len());
    match random.below(8) {
        0 if at < input.len() => input[at] ^= 1 << random.below(8),
        1 if at < input.len() => input[at] = random.below(256) as u8,
        2 => drop(input.drain(at..end)),
        3 => {
            let piece = input[at..end].to_vec();
            let to = random.below(input.len() + 1);
            input.splice(to..to, piece);
        }
        4 => {
            let other = random.pick(seeds);
            let from = random.below(other.len() + 1);
            input.truncate(at);
            input.extend_from_slice(&other[from..]);
        }
        5 => {
            const NUMBERS: [&str; 8] = [
                "0",
                "-1",
                "1",
                "255",
                "65536",
                "2147483648",
                "-9223372036854775808",
                "9223372036854775807",
            ];
            let number = NUMBERS[random.below(NUMBERS.len())];
            input.splice(at..end, number.bytes());
        }
        6 => {
            let word = random.pick(words).to_vec();
            input.splice(at..end, word);
        }
        _ => {
            let word = random.pick(words).to_vec();
            input.splice(at..at, word);
        }
    }
}
