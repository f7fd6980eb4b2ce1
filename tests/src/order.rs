//! The request of each numbered call to an account: the victim makes it, the killer checks it.

use steadfast_core::store::{Entropy, SeededEntropy};

/// The number of accounts.
pub(crate) const ACCOUNTS: u64 = 5;

/// Concurrent callers.
pub(crate) const CALLERS: u64 = 16;

/// One call. Everything about it follows from its number.
pub(crate) struct Order {
    pub(crate) account: u64,
    pub(crate) amount: i64,
    /// The accounts that it sends to; its own may be among them.
    pub(crate) sends: Vec<u64>,
    /// The delay of an alarm in milliseconds.
    pub(crate) alarm: Option<u64>,
    /// Whether it requests a job.
    pub(crate) job: bool,
    pad: (u64, u64),
}

impl Order {
    pub(crate) fn of(number: u64) -> Self {
        let chance = SeededEntropy::new(number);
        let below = |limit| chance.next() % limit;
        let legs = [0, 0, 0, 1, 1, 2][below(6) as usize];
        Self {
            account: below(ACCOUNTS),
            amount: 1 + below(100) as i64,
            sends: (0..legs).map(|_| below(ACCOUNTS)).collect(),
            alarm: (below(4) == 0).then(|| below(30)),
            job: below(4) == 0,
            pad: (chance.next(), below(500)),
        }
    }

    /// Makes rows long, so that images are written early.
    pub(crate) fn pad(&self) -> Vec<u8> {
        let (seed, words) = self.pad;
        let chance = SeededEntropy::new(seed);
        (0..words).flat_map(|_| chance.next().to_le_bytes()).collect()
    }
}
