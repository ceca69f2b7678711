//! A small generator of pseudo-random numbers that a test can seed.
//!
//! Good for picking keys and members; never used for anything secret.

/// The generator (xorshift64*).
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    pub fn seeded(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    /// A generator seeded by the standard library's per-process randomness.
    pub fn from_entropy() -> Random {
        use std::hash::{BuildHasher, RandomState};
        Random::seeded(RandomState::new().hash_one(0u8))
    }

    pub fn next_u64(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    /// A number below a bound that is not zero.
    pub fn below(&mut self, bound: usize) -> usize {
        ((u128::from(self.next_u64()) * bound as u128) >> 64) as usize
    }

    /// A number from 0 up to and without 1.
    pub fn unit(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }
}
