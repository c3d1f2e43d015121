//! Stamping new messages: who put them, over what, and their id if it cannot follow from their position.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use menagerie_journal::{NewMessage, Ticks};
use menagerie_znodes::queues::PartitionName;

use crate::error::QueueError;
use crate::fields::PARTITION_KEY_BYTES_MAX;
use crate::message_uuid::MessageUuid;
use crate::meta::{Meta, Origin};

/// A message with its metadata, ready to be appended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stamped {
    /// Its id, if it was chosen now; else its position will say.
    pub id: Option<MessageUuid>,
    /// What to append.
    pub message: NewMessage,
}

impl Origin {
    /// Stamps a message for this partition. Its key is stored as text: bytes that are no UTF-8 become U+FFFD there.
    pub fn stamp(
        &self,
        partition: &PartitionName,
        key: Option<&[u8]>,
        priority: i8,
        message: NewMessage,
    ) -> Result<Stamped, QueueError> {
        if let Some(bytes) = key.map(<[u8]>::len).filter(|bytes| *bytes > PARTITION_KEY_BYTES_MAX) {
            return Err(QueueError::LongKey { bytes });
        }
        let now = Ticks::now();
        // The journal would append it at once, as it does any other message: so its position says its id.
        let message = NewMessage { due: message.due.filter(|due| *due > now), ..message };
        // It has no position before it is due, and its position will say nothing about when it was put.
        let id = message.due.map(|due| MessageUuid::chosen(partition, due));
        let meta = Meta {
            id,
            put: id.map(|_| now),
            key: key.map(|key| String::from_utf8_lossy(key).into_owned()),
            priority,
            dedup: message.dedup.as_deref().map(dedup_text),
            ..self.meta()
        };
        Ok(Stamped { id, message: NewMessage { meta: meta.encode(), ..message } })
    }
}

/// A dedup id as it is stored in metadata.
pub(super) fn dedup_text(dedup: &[u8]) -> String {
    std::str::from_utf8(dedup).map_or_else(|_| STANDARD.encode(dedup), str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::meta::Via;

    fn stamp(key: Option<&[u8]>, message: NewMessage) -> Stamped {
        let origin = Origin::new("ann@host", Via::Cli);
        origin.stamp(&"mail-1".parse().unwrap(), key, 0, message).unwrap()
    }

    #[test]
    fn only_delayed_messages_carry_an_id() {
        let dedup = Some("d".into());
        let now = stamp(Some(b"k"), NewMessage { dedup: dedup.clone(), ..NewMessage::new("a") });
        assert_eq!((now.id, &now.message.body[..]), (None, &b"a"[..]));
        assert_eq!(now.message.meta, r#"{"by":"ann@host","via":"cli","key":"k","dedup":"d"}"#);
        let before = Ticks::now();
        let due = Ticks(before.0 * 2);
        let later = stamp(None, NewMessage { due: Some(due), dedup, ..NewMessage::new("a") });
        let meta: Meta = serde_json::from_slice(&later.message.meta).unwrap();
        assert!(later.id.is_some_and(|id| id.due().contains(&due)) && meta.id == later.id);
        assert!(meta.put.is_some_and(|put| put >= before && put < due), "{meta:?}");
        assert_eq!(meta.dedup.as_deref(), Some("d"));
        let past = stamp(None, NewMessage { due: Some(Ticks(1)), ..NewMessage::new("a") });
        assert_eq!((past.id, past.message.due), (None, None), "it is due at once, like any other");
    }

    #[test]
    fn keys_are_bounded() {
        let origin = Origin::library();
        let stamp = |bytes| {
            origin.stamp(&"mail-1".parse().unwrap(), Some(&vec![b'k'; bytes]), 0, NewMessage::new("a"))
        };
        assert!(stamp(PARTITION_KEY_BYTES_MAX).is_ok());
        assert_eq!(
            stamp(PARTITION_KEY_BYTES_MAX + 1),
            Err(QueueError::LongKey { bytes: PARTITION_KEY_BYTES_MAX + 1 })
        );
    }
}
