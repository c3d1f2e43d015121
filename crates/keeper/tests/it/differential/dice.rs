//! Reproducible randomness.

/// SplitMix64: a few lines whose sequence no dependency can change under our recorded seeds.
#[derive(Debug)]
pub struct Dice(u64);

impl Dice {
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `n`.
    pub fn below(&mut self, n: usize) -> usize {
        usize::try_from(self.next() % u64::try_from(n).expect("64 bits")).expect("it is below a usize")
    }

    /// Whether something happens that has this chance in percent.
    pub fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    pub fn one_of<'a, T: ?Sized>(&mut self, choices: &[&'a T]) -> &'a T {
        choices[self.below(choices.len())]
    }

    pub fn pick<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len())]
    }

    /// One of the values, each as often as its weight says.
    pub fn weighted<T: Copy>(&mut self, choices: &[(usize, T)]) -> T {
        let mut at = self.below(choices.iter().map(|(weight, _)| weight).sum());
        for (weight, choice) in choices {
            match at.checked_sub(*weight) {
                Some(rest) => at = rest,
                None => return *choice,
            }
        }
        unreachable!("a number below the sum of the weights falls to one of them")
    }
}
