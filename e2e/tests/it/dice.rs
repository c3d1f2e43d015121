//! Reproducible randomness.

use std::env;
use std::time::{SystemTime, UNIX_EPOCH};

/// SplitMix64: a few lines whose sequence no dependency can change under a recorded seed.
#[derive(Debug)]
pub struct Dice(u64);

impl Dice {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// A number below `n`.
    pub fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % n
    }

    /// Some bytes: mostly few, sometimes many, so that records end anywhere in the log's blocks.
    pub fn bytes(&mut self) -> Vec<u8> {
        let length = if self.below(20) == 0 { self.below(20_000) } else { self.below(200) };
        let first = self.below(256);
        (0..length).map(|at| (first + at) as u8).collect()
    }
}

/// A new seed for every run, unless `MENAGERIE_SEED` sets one. Printed, so that a failure shows it.
pub fn seed() -> u64 {
    let seed = match env::var("MENAGERIE_SEED") {
        Ok(text) => text.parse().expect("MENAGERIE_SEED is a number"),
        Err(_) => SystemTime::now().duration_since(UNIX_EPOCH).expect("it is after 1970").as_nanos() as u64,
    };
    println!("MENAGERIE_SEED={seed} repeats the choices of this run");
    seed
}
