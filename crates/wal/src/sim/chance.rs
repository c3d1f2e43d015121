//! Reproducible randomness: the same seed gives the same decisions.

/// A small generator (xorshift64*); its quality is ample for choosing subsets.
#[derive(Debug, Clone)]
pub struct Chance {
    state: u64,
}

impl Chance {
    /// Any seed will do.
    pub fn new(seed: u64) -> Self {
        // Spread small seeds over all bits; zero would stay zero for ever.
        Self { state: seed.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1 }
    }

    /// The next number.
    #[expect(clippy::should_implement_trait, reason = "it never ends, so an iterator would say too little")]
    pub fn next(&mut self) -> u64 {
        self.state ^= self.state >> 12;
        self.state ^= self.state << 25;
        self.state ^= self.state >> 27;
        self.state.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 8
    }

    /// A number below `bound`.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }
}
