//! Runs a fuzz target without a fuzzer: over its seeds, and over mutations that are the same in
//! each run.

use std::{
    fs,
    panic::{AssertUnwindSafe, catch_unwind},
    path::Path,
};

/// Bytes that parsers treat in a special way.
const BYTES: &[u8] = b"\0\x01\x7f\x80\xff\r\n\t /;:,=&?%+-.\"'\\{}[]<>0189afAZ";

/// Texts that exceed a number, or have other bytes than characters.
const TEXTS: &[&str] = &[
    "-1",
    "0",
    "00000000",
    "4294967296",
    "9223372036854775807",
    "18446744073709551616",
    "ffffffffffffffff",
    "1e999",
    "\u{390}",
    "\u{1F600}",
    "\u{202E}",
    "%00",
    "%2F",
    "\r\n",
    "//",
    "..",
];

/// Runs a target over every file in `tests/fuzz/seeds/{name}`, and over `count` mutations of each.
///
/// # Panics
///
/// With the input, if the target panics.
pub fn run(name: &str, target: fn(&[u8]), count: usize) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fuzz/seeds").join(name);
    let mut files: Vec<_> = fs::read_dir(&folder)
        .unwrap_or_else(|error| panic!("{}: {error}", folder.display()))
        .map(|it| it.expect("a file").path())
        .collect();
    files.sort();
    assert!(!files.is_empty(), "{} has no seeds", folder.display());
    let seeds: Vec<Vec<u8>> = files.iter().map(|it| fs::read(it).expect("a seed")).collect();
    attempt(name, target, &[]);
    for seed in &seeds {
        attempt(name, target, seed);
        let (mut random, mut bytes) = (Random::new(seed), seed.clone());
        for _ in 0..count {
            // Some mutations add to the last one; most begin with the seed.
            if random.below(4) != 0 || 2 * seed.len() + 1_024 < bytes.len() {
                bytes.clone_from(seed);
            }
            for _ in 0..=random.below(3) {
                mutate(&mut bytes, &seeds, &mut random);
            }
            attempt(name, target, &bytes);
        }
    }
}

fn attempt(name: &str, target: fn(&[u8]), bytes: &[u8]) {
    if catch_unwind(AssertUnwindSafe(|| target(bytes))).is_err() {
        panic!("target {name} failed; its input was b\"{}\"", bytes.escape_ascii());
    }
}

fn mutate(bytes: &mut Vec<u8>, seeds: &[Vec<u8>], random: &mut Random) {
    let at = random.below(bytes.len() + 1);
    let end = at + random.below(bytes.len() - at + 1).min(1 + random.below(32));
    let byte = BYTES[random.below(BYTES.len())];
    match random.below(10) {
        0 => change(bytes, at, |it| it ^ (1 << (at % 8))),
        1 => change(bytes, at, |_| byte),
        2 => bytes.insert(at, byte),
        3 => drop(bytes.drain(at..end)),
        4 => bytes.truncate(at),
        5 => {
            let copy = bytes[at..end].to_vec();
            bytes.splice(at..at, copy);
        }
        6 => {
            let other = &seeds[random.below(seeds.len())];
            let from = random.below(other.len() + 1);
            let to = from + random.below(other.len() - from + 1);
            bytes.splice(at..end, other[from..to].iter().copied());
        }
        7 => {
            let text = TEXTS[random.below(TEXTS.len())];
            bytes.splice(at..end, text.bytes());
        }
        8 => replace_number(bytes, at, random),
        _ => change(bytes, at, |it| if it.is_ascii_alphabetic() { it ^ 0x20 } else { byte }),
    }
}

fn change(bytes: &mut [u8], at: usize, change: impl Fn(u8) -> u8) {
    if let Some(byte) = bytes.get_mut(at) {
        *byte = change(*byte);
    }
}

/// Replaces the next digits by one of the texts.
fn replace_number(bytes: &mut Vec<u8>, at: usize, random: &mut Random) {
    let Some(from) = bytes[at..].iter().position(u8::is_ascii_digit).map(|it| at + it) else {
        return;
    };
    let len = bytes[from..].iter().take_while(|it| it.is_ascii_digit()).count();
    let text = TEXTS[random.below(TEXTS.len())];
    bytes.splice(from..from + len, text.bytes());
}

/// A deterministic generator (xorshift64*).
struct Random(u64);

impl Random {
    fn new(seed: &[u8]) -> Self {
        let hash = |all: u64, it: &u8| (all ^ u64::from(*it)).wrapping_mul(0x0100_0000_01b3);
        Self(seed.iter().fold(0xcbf2_9ce4_8422_2325, hash) | 1)
    }

    fn below(&mut self, max: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 32) as usize % max
    }
}

#[cfg(test)]
mod tests {
    use std::{
        collections::HashSet,
        hash::{DefaultHasher, Hash, Hasher},
        sync::Mutex,
    };

    use super::*;

    static SEEN: Mutex<Vec<u64>> = Mutex::new(Vec::new());

    fn record(data: &[u8]) {
        let mut hasher = DefaultHasher::new();
        data.hash(&mut hasher);
        SEEN.lock().expect("no panic").push(hasher.finish());
    }

    #[test]
    fn mutations_are_many_and_the_same_in_each_run() {
        run("address", record, 500);
        let first = std::mem::take(&mut *SEEN.lock().expect("no panic"));
        run("address", record, 500);
        assert_eq!(first, *SEEN.lock().expect("no panic"));
        let different: HashSet<&u64> = first.iter().collect();
        assert!(first.len() / 2 < different.len(), "{} of {}", different.len(), first.len());
    }

    #[test]
    fn a_failure_shows_its_input() {
        let fail = |data: &[u8]| assert!(data.is_empty(), "not empty");
        let failed = catch_unwind(|| attempt("name", fail, b"a\n")).expect_err("it fails");
        let message = failed.downcast_ref::<String>().expect("a text");
        assert_eq!(message, "target name failed; its input was b\"a\\n\"");
    }
}
