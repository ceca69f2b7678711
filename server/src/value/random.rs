//! A small seeded generator: random members need no cryptography, and tests need the same
//! sequence again.

use std::collections::HashMap;

/// A xorshift generator.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// A generator whose sequence the seed decides.
    pub fn new(seed: u64) -> Random {
        // Neighbouring seeds must not give neighbouring sequences, and zero would stay zero.
        Random(seed.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    /// The next number, any of them.
    pub fn draw(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    /// A number below `bound`; 0 when the bound is 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.draw()) * u128::from(bound)) >> 64) as u64
    }

    /// Up to `count` different numbers below `bound`, in random order.
    pub fn distinct(&mut self, count: usize, bound: usize) -> Vec<usize> {
        let count = count.min(bound);
        // A shuffle that stops early, keeping only what it has moved: memory goes by `count`.
        let mut moved: HashMap<usize, usize> = HashMap::new();
        (0..count)
            .map(|nth| {
                let drawn = nth + self.below((bound - nth) as u64) as usize;
                let own = moved.get(&nth).copied().unwrap_or(nth);
                moved.insert(drawn, own).unwrap_or(drawn)
            })
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn distinct_numbers_are_distinct_and_reach_all_values() {
        let mut random = Random::new(3);
        for bound in 0..40 {
            for count in 0..50 {
                let mut drawn = random.distinct(count, bound);
                drawn.sort_unstable();
                drawn.dedup();
                assert_eq!(drawn.len(), count.min(bound));
                assert!(drawn.iter().all(|&number| number < bound));
            }
        }
    }

    #[test]
    fn every_value_is_drawn_about_equally_often() {
        let mut random = Random::new(5);
        let mut counts = [0; 10];
        for _ in 0..10_000 {
            random
                .distinct(3, 10)
                .into_iter()
                .for_each(|number| counts[number] += 1);
        }
        assert!(
            counts.iter().all(|count| (2700..3300).contains(count)),
            "{counts:?}"
        );
    }
}
