//! The rows of the benchmark.

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Recipe {
    /// One holder at a time.
    Lock,
    /// Three holders at a time.
    Semaphore,
}

/// Permits of the semaphore.
pub const PERMITS: u32 = 3;

/// One row: cycles of acquire and awaited release, by this many contenders, each with a session and a task of its
/// own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Row {
    pub recipe: Recipe,
    pub contenders: usize,
}

pub const ROWS: [Row; 4] = [
    Row { recipe: Recipe::Lock, contenders: 1 },
    Row { recipe: Recipe::Lock, contenders: 8 },
    Row { recipe: Recipe::Semaphore, contenders: 1 },
    Row { recipe: Recipe::Semaphore, contenders: 8 },
];

impl Row {
    pub fn name(self) -> String {
        let recipe = match self.recipe {
            Recipe::Lock => "lock",
            Recipe::Semaphore => "semaphore",
        };
        format!("{recipe}-{}", self.contenders)
    }
}

/// Whose implementation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Peer {
    Ours,
    Client,
    Kazoo,
}

impl Peer {
    /// All peers in the order of their turns. Each round another one begins, so that what one leaves behind (ending
    /// processes, dirty pages) is not always the same one's burden.
    pub fn turns(round: usize) -> [Self; 3] {
        let mut turns = [Self::Ours, Self::Client, Self::Kazoo];
        turns.rotate_left(round % 3);
        turns
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::Ours => "ours",
            Self::Client => "client",
            Self::Kazoo => "kazoo",
        }
    }
}
