//! Fences: a number that rises with every new holder of a partition, so that the one before changes nothing any more.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A fence. The same two numbers as the kernel's, which this crate does not know: `Fence::new(f.generation, f.zxid)`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
pub struct Fence {
    /// Rises when the namespace begins anew on another server.
    pub generation: u64,
    /// The transaction that made the holder the holder.
    pub zxid: i64,
}

impl Fence {
    /// Both numbers, as the kernel's fence has them.
    pub const fn new(generation: u64, zxid: i64) -> Self {
        Self { generation, zxid }
    }
}

impl fmt::Display for Fence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.generation, self.zxid)
    }
}
