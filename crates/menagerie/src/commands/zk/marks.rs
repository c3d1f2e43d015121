//! What can be seen of a znode's kind.

use menagerie_kernel::session::Stat;
use menagerie_znodes::lookup;
use serde::Serialize;

/// Whether it is ephemeral, and whether its name looks like a sequence. Containers and TTL znodes look like any
/// other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Marks {
    ephemeral: bool,
    sequence: bool,
}

impl Marks {
    /// The marks of the znode at this path.
    pub fn of(path: &str, stat: &Stat) -> Self {
        let name = path.rsplit('/').next().unwrap_or_default();
        Self { ephemeral: stat.ephemeral_owner != 0, sequence: lookup::sequence_number(name).is_some() }
    }

    /// In words; empty for a plain znode.
    pub fn words(self) -> &'static str {
        match (self.ephemeral, self.sequence) {
            (false, false) => "",
            (true, false) => "ephemeral",
            (false, true) => "sequence",
            (true, true) => "ephemeral sequence",
        }
    }
}
