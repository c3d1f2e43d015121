//! What is measured.

/// A recipe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Recipe {
    /// One at a time.
    Lock,
    /// Three at a time.
    Semaphore,
}

/// How many a semaphore admits.
pub const PERMITS: u32 = 3;

/// One row: cycles of acquire and awaited release, by so many contenders, each with a session and a task of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Row {
    pub recipe: Recipe,
    pub contenders: usize,
}

/// All rows.
pub const ROWS: [Row; 4] = [
    Row { recipe: Recipe::Lock, contenders: 1 },
    Row { recipe: Recipe::Lock, contenders: 8 },
    Row { recipe: Recipe::Semaphore, contenders: 1 },
    Row { recipe: Recipe::Semaphore, contenders: 8 },
];

impl Row {
    /// What it is called.
    pub fn name(self) -> String {
        let recipe = match self.recipe {
            Recipe::Lock => "lock",
            Recipe::Semaphore => "semaphore",
        };
        format!("{recipe}-{}", self.contenders)
    }
}

/// Who does it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Peer {
    Ours,
    Client,
    Kazoo,
}

impl Peer {
    /// Everybody, in the order of their turns. Each round somebody else begins: what one leaves behind, processes that end
    /// and pages that are still being written, is then not always the same one's burden.
    pub fn turns(round: usize) -> [Self; 3] {
        let mut turns = [Self::Ours, Self::Client, Self::Kazoo];
        turns.rotate_left(round % 3);
        turns
    }

    /// What it is called.
    pub fn name(self) -> &'static str {
        match self {
            Self::Ours => "ours",
            Self::Client => "client",
            Self::Kazoo => "kazoo",
        }
    }
}
