//! What is done beyond a cursor, in queues whose messages are handled side by side.

use serde::{Deserialize, Serialize};

use crate::payload::Json;

/// Most unfinished messages before the last finished one: the znode stays small, however many messages fail.
pub const OPEN_MAX: usize = 1024;

/// Everything up to `through` is done, except for the messages in `open`. Void unless the cursor is where it was when this
/// was written: a record moves both, and whoever sets a cursor by hand wants messages to be handled from there on.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Gaps {
    /// Ticks of the cursor that it was written with.
    pub after: u64,
    /// Ticks of the last message that is done.
    pub through: u64,
    /// Ticks of the unfinished messages before it: the first, then the distance of each from the one before it.
    pub open: Vec<u64>,
}

impl Json for Gaps {
    const WHAT: &'static str = "what is done beyond a cursor";
}

impl Gaps {
    /// From the ticks of the unfinished messages, which rise.
    pub fn new(after: u64, through: u64, open: impl IntoIterator<Item = u64>) -> Self {
        let mut before = 0;
        let distance = |ticks: u64| ticks - std::mem::replace(&mut before, ticks);
        Self { after, through, open: open.into_iter().map(distance).collect() }
    }

    /// Whether a message is done beyond this cursor.
    pub fn is_done(&self, cursor: u64, message: u64) -> bool {
        let is_valid = cursor == self.after;
        is_valid && message <= self.through && !self.open().any(|open| open == message)
    }

    /// The ticks of the unfinished messages.
    pub fn open(&self) -> impl Iterator<Item = u64> + '_ {
        self.open.iter().scan(0_u64, |at, distance| {
            *at = at.saturating_add(*distance);
            Some(*at)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::payload::Payload as _;

    #[test]
    fn unfinished_messages_are_stored_as_distances() {
        let ticks = [139_000_000_000_000_000, 139_000_000_000_000_007, 139_000_000_000_001_000];
        let gaps = Gaps::new(138_000_000_000_000_000, 139_000_000_000_002_000, ticks);
        assert_eq!(gaps.open().collect::<Vec<_>>(), ticks);
        assert_eq!(Gaps::decode(&gaps.encode()).unwrap(), gaps);
        assert_eq!(gaps.open, [ticks[0], 7, 993]);
        assert_eq!(Gaps::default().open().count(), 0);
        let (cursor, [first, ..]) = (gaps.after, ticks);
        assert!(!gaps.is_done(cursor, first) && gaps.is_done(cursor, first + 1));
        assert!(!gaps.is_done(cursor - 1, first + 1), "somebody has set the cursor back");
        assert!(
            !gaps.is_done(cursor + 1, first + 1),
            "the cursor has moved on without gaps, and was set back since"
        );
    }
}
