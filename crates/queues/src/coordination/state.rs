//! What the journal keeps about a partition for its owners: who owns it, and the attempts of unfinished messages.

use std::collections::BTreeMap;

use bytes::Bytes;
use menagerie_journal::{MessageId, Ticks};
use serde::{Deserialize, Serialize};

use crate::core::activity::Activity;
use crate::core::lane::Holder;
use crate::core::tally::{Attempts, StoredAttempts};

/// Key of the partition's [`Holder`]. A release removes it; an owner that finds it follows one that did not release.
pub(super) const HELD: &[u8] = b"held";
/// Key of the last message that may have begun, if the last owner had not read it.
pub(super) const BEGUN: &[u8] = b"begun";
/// Key of what the owner is doing.
pub(super) const NOW: &[u8] = b"now";
/// Key under which older versions kept the attempts of the first message after the cursor. It stays: once the cursor has
/// passed that message, it says nothing.
pub(super) const OLD_ATTEMPTS: &[u8] = b"attempts";
/// Keys of attempts begin with this; the message follows, big endian.
const ATTEMPTS: &[u8] = b"a:";

/// As older versions wrote them.
#[derive(Deserialize)]
struct OldAttempts {
    message: MessageId,
    attempts: u32,
    #[serde(default)]
    given_up: bool,
    #[serde(default)]
    begun: MessageId,
}

/// The key of a message's attempts.
pub(super) fn key(message: MessageId) -> Vec<u8> {
    [ATTEMPTS, &message.0.0.to_be_bytes()].concat()
}

/// The text of a value.
pub(super) fn encode(value: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(value).expect("texts and numbers can be written")
}

/// The last owner, if it did not release; `None` within if that cannot be read.
pub(super) fn holder(state: &[(Bytes, Bytes)]) -> Option<Option<Holder>> {
    let (_, value) = state.iter().find(|(key, _)| key == HELD)?;
    Some(serde_json::from_slice(value).ok())
}

/// What the owner is doing, as it last said.
pub(super) fn activity(state: &[(Bytes, Bytes)]) -> Option<Activity> {
    let (_, value) = state.iter().find(|(key, _)| key == NOW)?;
    serde_json::from_slice(value).ok()
}

/// All attempts. One that cannot be read counts as none.
pub(super) fn attempts(state: &[(Bytes, Bytes)]) -> StoredAttempts {
    let old = state.iter().find(|(key, _)| key == OLD_ATTEMPTS);
    let old: Option<OldAttempts> = old.and_then(|(_, value)| serde_json::from_slice(value).ok());
    let (mut messages, begun) = match old {
        Some(OldAttempts { message, attempts, given_up, begun }) => {
            (BTreeMap::from([(message, Attempts { attempts, given_up })]), begun)
        }
        None => (BTreeMap::new(), MessageId::ZERO),
    };
    for (key, value) in state {
        let ticks = key.strip_prefix(ATTEMPTS).and_then(|ticks| ticks.try_into().ok());
        let (Some(ticks), Ok(found)) = (ticks, serde_json::from_slice::<Attempts>(value)) else { continue };
        // While workers of both versions share a queue, each has written what it knows.
        let known = messages.entry(MessageId(Ticks(u64::from_be_bytes(ticks)))).or_insert(found);
        known.attempts = known.attempts.max(found.attempts);
        known.given_up |= found.given_up;
    }
    let through = state.iter().find(|(key, _)| key == BEGUN);
    let through = through.and_then(|(_, value)| serde_json::from_slice(value).ok()).unwrap_or_default();
    StoredAttempts { messages, begun: begun.max(through) }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: MessageId = MessageId(Ticks(7));

    #[test]
    fn attempts_of_each_message_are_kept_apart() {
        let (one, other) =
            (Attempts { attempts: 2, given_up: false }, Attempts { attempts: 5, given_up: true });
        let state = [(ID, one), (MessageId(Ticks(9)), other)];
        let state = state.map(|(id, attempts)| (Bytes::from(key(id)), Bytes::from(encode(&attempts))));
        let read = attempts(&state);
        assert_eq!(read.messages, BTreeMap::from([(ID, one), (MessageId(Ticks(9)), other)]));
        assert_eq!((read.begun, holder(&state)), (MessageId::ZERO, None));
    }

    #[test]
    fn what_older_versions_wrote_is_read() {
        let old = r#"{"message":7,"attempts":3,"given_up":true,"begun":8}"#;
        let state = [
            (Bytes::from_static(OLD_ATTEMPTS), Bytes::from(old)),
            (Bytes::from_static(HELD), Bytes::from(r#"{"fence":"1-2","window":4}"#)),
        ];
        let read = attempts(&state);
        assert_eq!(read.messages, BTreeMap::from([(ID, Attempts { attempts: 3, given_up: true })]));
        assert_eq!(read.begun, MessageId(Ticks(8)));
        let before = Holder { fence: "1-2".to_owned(), window: 4, crashes: 0, released: false };
        assert_eq!(holder(&state), Some(Some(before)));
        assert_eq!(holder(&[(Bytes::from_static(HELD), Bytes::from("?"))]), Some(None));
    }
}
