//! The znodes of this engine. One that ships declares them in `crates/znodes/src/<engine>.rs`.

use menagerie_znodes::{Dir, Kind, Name, Znode};

/// Who counts this topic: processes stand for election here, and one of them leads.
pub fn election(topic: &Name) -> Znode<Dir> {
    Znode::foreign(format!("/hello/{topic}/election"), Kind::Persistent)
}
