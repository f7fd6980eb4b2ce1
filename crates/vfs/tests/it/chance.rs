//! Random numbers with a seed.

use std::hash::{BuildHasher, RandomState};

/// A deterministic generator (xorshift64*).
pub(crate) struct Chance(u64);

impl Chance {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    /// The seed of the environment, or a random one; it is printed, so that a failure can be
    /// repeated.
    pub(crate) fn seed() -> u64 {
        let seed = match std::env::var("STEADFAST_TEST_SEED") {
            Ok(seed) => seed.parse().expect("a number"),
            Err(_) => RandomState::new().hash_one("vfs") % 1_000_000,
        };
        eprintln!("seed {seed} (set STEADFAST_TEST_SEED to run it again)");
        seed
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    pub(crate) fn below(&mut self, max: usize) -> usize {
        // The high half: the low bits of this generator are its weakest.
        (self.next() >> 32) as usize % max
    }

    pub(crate) fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    pub(crate) fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        from[self.below(from.len())]
    }
}
