//! Random numbers that a seed repeats.

/// The generator `SplitMix64`.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// What this seed gives.
    pub fn seeded(seed: u64) -> Self {
        Self(seed)
    }

    /// Any number.
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number from `least` to `most`, both included.
    pub fn between(&mut self, least: u64, most: u64) -> u64 {
        least + self.next() % (most - least + 1)
    }

    /// True once in so many times.
    pub fn one_in(&mut self, chances: u64) -> bool {
        self.next().is_multiple_of(chances)
    }

    /// One of these.
    pub fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.between(0, choices.len() as u64 - 1) as usize]
    }

    /// A generator of its own for a part that draws as often as it likes.
    pub fn fork(&mut self) -> Self {
        Self(self.next())
    }
}
