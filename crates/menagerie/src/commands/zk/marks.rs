//! What can be seen of a znode's kind.

use menagerie_kernel::session::Stat;
use menagerie_znodes::lookup;
use serde::Serialize;

/// Whether it lives with a session, and whether its name looks as if the server had numbered it. Containers and znodes
/// with a time to live look like any other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub struct Marks {
    ephemeral: bool,
    sequence: bool,
}

impl Marks {
    /// Of a znode with this path.
    pub fn of(path: &str, stat: &Stat) -> Self {
        let name = path.rsplit('/').next().unwrap_or_default();
        Self { ephemeral: stat.ephemeral_owner != 0, sequence: lookup::sequence_number(name).is_some() }
    }

    /// In words; nothing for a plain one.
    pub fn words(self) -> &'static str {
        match (self.ephemeral, self.sequence) {
            (false, false) => "",
            (true, false) => "ephemeral",
            (false, true) => "sequence",
            (true, true) => "ephemeral sequence",
        }
    }
}
