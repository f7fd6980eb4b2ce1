//! Sources of randomness. They are injected, so that a seed determines a test.

use std::{
    fmt,
    hash::{BuildHasher, RandomState},
    sync::atomic::{AtomicU64, Ordering},
};

/// A source of random numbers.
pub trait Entropy: Send + Sync + fmt::Debug + 'static {
    /// The next 64 random bits.
    fn next(&self) -> u64;

    /// A number from 0 up to, not including, 1.
    fn unit(&self) -> f64 {
        // 53 bits fill a double's mantissa exactly.
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }
}

/// A deterministic generator (SplitMix64). Not for secrets.
#[derive(Debug)]
pub struct SeededEntropy {
    state: AtomicU64,
}

impl SeededEntropy {
    /// Starts at `seed`.
    pub fn new(seed: u64) -> Self {
        Self { state: AtomicU64::new(seed) }
    }

    /// Starts at a seed of the operating system.
    pub fn from_system() -> Self {
        Self::new(RandomState::new().hash_one("steadfast"))
    }
}

impl Entropy for SeededEntropy {
    fn next(&self) -> u64 {
        const STEP: u64 = 0x9E37_79B9_7F4A_7C15;
        let mut x = self.state.fetch_add(STEP, Ordering::Relaxed).wrapping_add(STEP);
        x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        x ^ (x >> 31)
    }
}
