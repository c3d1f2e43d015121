//! Which messages are wanted, and the newest of those: without reading anything.

use std::collections::BTreeMap;

use bytes::Bytes;
use menagerie_journal::{Message, MessageId, Ticks};
use menagerie_znodes::queues::PartitionName;

use super::Entry;
use super::state::{Facts, State, state};
use crate::admin::failed::FailedMessage;
use crate::message_uuid::MessageUuid;
use crate::meta::Meta;

/// Most bytes of a body, and of an error, that are kept of a message that was found.
const PREFIX_BYTES_MAX: usize = 256;

/// Which messages to find.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Filter {
    /// Only those with this key.
    pub key: Option<String>,
    /// Only those with this text in their bodies.
    pub contains: Option<String>,
    /// Only those in this state.
    pub state: Option<State>,
    /// Only those that came into the queue, or failed, at this time or later.
    pub from: MessageId,
    /// At most this many, the newest.
    pub limit: usize,
}

/// A message that was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FoundMessage {
    /// Its id; of a delayed message that an older version put, the one that it has until it is due.
    pub id: String,
    /// The partition that it is, was, or will be in.
    pub partition: PartitionName,
    /// Its last position there; `None` if it was never due.
    pub position: Option<MessageId>,
    /// What has become of it.
    pub state: State,
    /// Its key.
    pub key: Option<String>,
    /// When it was put.
    pub put: Ticks,
    /// Why its last attempt failed.
    pub error: Option<String>,
    /// The begin of its body; `None` if that is gone.
    pub body: Option<Bytes>,
    /// Bytes of the whole body.
    pub bytes: Option<usize>,
}

/// What was found.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    /// Oldest first.
    pub messages: Vec<FoundMessage>,
    /// There may be older ones.
    pub has_more: bool,
}

impl Filter {
    /// Whether messages in this state are wanted.
    pub(super) fn wants(&self, state: State) -> bool {
        self.state.is_none_or(|wanted| wanted == state)
    }

    /// Whether key and content are as wanted. What is not known is not.
    pub(super) fn fits(&self, found: &FoundMessage, body: Option<&[u8]>) -> bool {
        let contains = |text: &String| body.is_some_and(|body| has(body, text));
        self.key.as_ref().is_none_or(|key| found.key.as_ref() == Some(key))
            && self.contains.as_ref().is_none_or(contains)
    }

    /// Whether it is wanted.
    pub(super) fn matches(&self, found: &FoundMessage, body: Option<&[u8]>) -> bool {
        self.wants(found.state) && self.fits(found, body)
    }
}

/// Whether a text occurs in a body, which may be no text.
pub(super) fn has(body: &[u8], text: &str) -> bool {
    match std::str::from_utf8(body) {
        Ok(body) => body.contains(text),
        Err(_) => text.is_empty() || body.windows(text.len()).any(|part| part == text.as_bytes()),
    }
}

impl FoundMessage {
    /// One of which nothing else is known.
    pub(super) fn new(
        id: String,
        partition: PartitionName,
        position: Option<MessageId>,
        state: State,
        put: Ticks,
    ) -> Self {
        Self { id, partition, position, state, key: None, put, error: None, body: None, bytes: None }
    }

    /// A message in its partition, whose state is decided later.
    pub(super) fn queued(partition: &PartitionName, message: &Message, meta: Meta) -> Self {
        let (id, put) = (MessageUuid::of(partition, message).to_string(), meta.put_time(message));
        let found = Self::new(id, partition.clone(), Some(message.id), State::Waiting, put);
        Self { key: meta.key, ..found }.with_body(message)
    }

    /// A failed message. Its record tells where it comes from.
    pub(super) fn failed(failed: &FailedMessage, place: &PartitionName) -> Self {
        let (meta, record) = (Meta::of(&failed.message), failed.record.as_ref());
        let partition = record.map_or(place, |record| &record.origin).clone();
        let position = record.and_then(|record| record.message.parse().ok()).unwrap_or(failed.position);
        let put = meta.put.unwrap_or(position.0);
        let found = Self::new(failed.id.to_string(), partition, Some(position), State::Failed, put);
        let error = record.map(|record| prefix(&record.error));
        Self { key: meta.key, error, ..found }.with_body(&failed.message)
    }

    /// A message that has expired, and is no longer kept.
    pub(super) fn expired(partition: &PartitionName, entry: &Entry) -> Self {
        let meta = entry.meta.clone().unwrap_or_default();
        let id = meta.id.unwrap_or_else(|| MessageUuid::derived(partition, entry.position));
        let (position, put) = (Some(entry.position), meta.put.unwrap_or(entry.position.0));
        let found = Self::new(id.to_string(), partition.clone(), position, State::Expired, put);
        Self { key: meta.key, ..found }
    }

    /// With the begin of the message's body. It is copied, so that it does not keep all others of its batch.
    #[must_use]
    pub(super) fn with_body(self, message: &Message) -> Self {
        let start = &message.body[..message.body.len().min(PREFIX_BYTES_MAX)];
        let end = match std::str::from_utf8(start) {
            // Only its last character is cut off.
            Err(error) if error.error_len().is_none() && start.len() < message.body.len() => {
                error.valid_up_to()
            }
            _ => start.len(),
        };
        let body = Some(Bytes::copy_from_slice(&start[..end]));
        Self { body, bytes: Some(message.body.len()), ..self }
    }

    /// With its state, from what is stored about it: it is not among the failed messages.
    #[must_use]
    pub(super) fn with_state(self, facts: Facts, last: Option<&Entry>) -> Self {
        let facts = Facts { last: last.map(|last| last.outcome), ..facts };
        let error = last.and_then(|last| last.error.as_deref()).map(prefix);
        Self { state: state(&facts), error, ..self }
    }
}

fn prefix(text: &str) -> String {
    crate::failed::prefix(text, PREFIX_BYTES_MAX).to_owned()
}

/// The newest of the messages that were found.
#[derive(Debug)]
pub(super) struct Collected {
    limit: usize,
    /// By time, and by number where that is the same.
    kept: BTreeMap<(Ticks, u64), FoundMessage>,
    added: u64,
    has_more: bool,
}

impl Collected {
    pub fn new(limit: usize) -> Self {
        Self { limit, kept: BTreeMap::new(), added: 0, has_more: false }
    }

    /// Adds one that came at this time; drops the oldest if there are too many.
    pub fn add(&mut self, at: Ticks, found: FoundMessage) {
        self.added += 1;
        self.kept.insert((at, self.added), found);
        if self.kept.len() > self.limit {
            self.kept.pop_first();
            self.has_more = true;
        }
    }

    /// Whether none from before this time would be kept. Whoever asks looks no further, so there may be more.
    pub fn is_enough(&mut self, at: Ticks) -> bool {
        let is_older = self.kept.first_key_value().is_none_or(|((oldest, _), _)| at <= *oldest);
        let is_enough = self.kept.len() >= self.limit && is_older;
        self.has_more |= is_enough;
        is_enough
    }

    pub fn finding(self) -> Finding {
        Finding { messages: self.kept.into_values().collect(), has_more: self.has_more }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::meta::{Origin, Via};
    use crate::story::Outcome;

    fn filter() -> Filter {
        Filter { key: None, contains: None, state: None, from: MessageId::ZERO, limit: 2 }
    }

    fn message(at: u64, key: Option<&str>, body: &[u8]) -> Message {
        let meta = Meta { key: key.map(str::to_owned), ..Origin::new("ann@host", Via::Cli).meta() };
        let (id, body) = (MessageId(Ticks(at)), Bytes::copy_from_slice(body));
        Message { id, meta: meta.encode(), body, expires: None }
    }

    fn found(message: &Message) -> FoundMessage {
        FoundMessage::queued(&"mail-1".parse().unwrap(), message, Meta::of(message))
    }

    fn entry(outcome: Outcome, error: Option<&str>) -> Entry {
        Entry {
            position: MessageId(Ticks(7)),
            at: Ticks(8),
            attempt: 1,
            took_ms: None,
            outcome,
            error: error.map(str::to_owned),
            next_ms: None,
            meta: None,
        }
    }

    #[test]
    fn key_and_content_must_fit() {
        let (text, bytes) = (message(1, Some("c-7"), b"order 17"), message(2, None, b"\xff\0order 17"));
        let fits = |filter: &Filter, message: &Message| filter.fits(&found(message), Some(&message.body));
        for (key, contains, expected) in [
            (None, None, [true, true]),
            (Some("c-7"), None, [true, false]),
            (Some("c"), None, [false, false]),
            (None, Some("17"), [true, true]),
            (None, Some("18"), [false, false]),
            (Some("c-7"), Some("18"), [false, false]),
        ] {
            let [key, contains] = [key, contains].map(|text: Option<&str>| text.map(str::to_owned));
            let filter = Filter { key, contains, ..filter() };
            assert_eq!([fits(&filter, &text), fits(&filter, &bytes)], expected, "{filter:?}");
        }
        let filter = Filter { contains: Some("1".to_owned()), ..filter() };
        assert!(!filter.fits(&found(&text), None), "what is gone cannot be searched");
    }

    #[test]
    fn state_and_error_come_from_the_last_outcome() {
        let found = || found(&message(7, None, b"x"));
        let retry = entry(Outcome::Retry, Some("no"));
        let past = Facts { is_past: true, ..Facts::default() };
        let retrying = found().with_state(Facts::default(), Some(&retry));
        assert_eq!((retrying.state, retrying.error.as_deref()), (State::Retrying, Some("no")));
        let failed = entry(Outcome::Failed, Some("never"));
        assert_eq!(
            found().with_state(Facts { is_dropped: true, ..past }, Some(&failed)).state,
            State::Forgotten
        );
        assert_eq!(found().with_state(past, None).state, State::Done);
        assert_eq!(found().with_state(Facts::default(), None).state, State::Waiting);
        let only = Filter { state: Some(State::Retrying), ..filter() };
        assert!(only.matches(&retrying, None) && !only.matches(&found(), None));
    }

    #[test]
    fn one_that_expired_has_the_id_that_it_had() {
        let partition = "mail-1".parse().unwrap();
        let derived = FoundMessage::expired(&partition, &entry(Outcome::Expired, None));
        assert_eq!(derived.id, MessageUuid::derived(&partition, MessageId(Ticks(7))).to_string());
        let id = MessageUuid::chosen(&partition, Ticks(5_000_000));
        let meta = Meta { id: Some(id), put: Some(Ticks(3)), key: Some("k".to_owned()), ..Meta::default() };
        let entry = Entry { meta: Some(meta), ..entry(Outcome::Expired, None) };
        let chosen = FoundMessage::expired(&partition, &entry);
        assert_eq!((chosen.id, chosen.put, chosen.key.as_deref()), (id.to_string(), Ticks(3), Some("k")));
    }

    #[test]
    fn long_bodies_are_cut_between_characters() {
        let long = "ü".repeat(PREFIX_BYTES_MAX);
        let text = found(&message(1, None, format!("a{long}").as_bytes()));
        let body = text.body.unwrap();
        assert_eq!((body.len(), text.bytes), (PREFIX_BYTES_MAX - 1, Some(2 * PREFIX_BYTES_MAX + 1)));
        assert!(std::str::from_utf8(&body).is_ok());
        let bytes = found(&message(1, None, &[0xff; 1000]));
        assert_eq!(bytes.body.map(|body| body.len()), Some(PREFIX_BYTES_MAX));
    }

    #[test]
    fn the_newest_are_kept_oldest_first() {
        let mut collected = Collected::new(2);
        assert!(!collected.is_enough(Ticks(100)), "there is room");
        for at in [5, 9, 3, 7, 9] {
            collected.add(Ticks(at), found(&message(at, None, b"x")));
        }
        assert!(!collected.is_enough(Ticks(10)) && collected.is_enough(Ticks(9)));
        let Finding { messages, has_more } = collected.finding();
        assert_eq!(messages.iter().map(|found| found.put.0).collect::<Vec<_>>(), [9, 9]);
        assert!(has_more);
        let mut few = Collected::new(2);
        few.add(Ticks(1), found(&message(1, None, b"x")));
        assert!(!few.is_enough(Ticks(0)) && !few.finding().has_more);
    }
}
