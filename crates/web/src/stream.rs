//! A live value as server-sent events.

use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use bytes::Bytes;
use futures_util::stream;
use tokio::sync::{OwnedSemaphorePermit, watch};
use tokio::time::timeout;

use crate::live::{Stale, State};
use crate::problem::Problem;

/// A comment this often tells both sides, and what is between them, that the stream lives.
const HEARTBEAT: Duration = Duration::from_secs(15);
/// Browsers come back this long after a stream has ended.
const RETRY_MS: u32 = 1_000;

/// What a stream needs.
pub struct Stream {
    /// The value.
    pub state: watch::Receiver<State>,
    /// Name of the event that has the value.
    pub event: &'static str,
    /// Ids of other versions are not comparable: their values look different.
    pub build: &'static str,
    /// `Last-Event-ID`.
    pub last_id: Option<String>,
    /// Becomes true when the server stops.
    pub stopping: watch::Receiver<bool>,
    /// Whether the viewer may still see it.
    pub is_allowed: Box<dyn Fn() -> bool + Send + Sync>,
    /// One of the streams that may be open; given back with the stream.
    pub _permit: OwnedSemaphorePermit,
}

struct Sending {
    stream: Stream,
    sent: Sent,
    is_first: bool,
}

/// What the viewer knows.
#[derive(Debug, Default, PartialEq, Eq)]
struct Sent {
    id: Option<String>,
    stale: Option<Arc<Stale>>,
    refused: Option<Arc<Problem>>,
}

impl Stream {
    /// The body of the reply.
    pub fn body(self) -> Body {
        let sending = Sending { stream: self, sent: Sent::default(), is_first: true };
        Body::from_stream(stream::unfold(sending, |mut sending| async move {
            let text = sending.next().await?;
            Some((Ok::<_, std::convert::Infallible>(Bytes::from(text)), sending))
        }))
    }
}

impl Sending {
    /// The next events; `None` ends the stream.
    async fn next(&mut self) -> Option<String> {
        if std::mem::take(&mut self.is_first) {
            return Some(self.greeting());
        }
        loop {
            // The browser asks again, and is told that it may not.
            if *self.stream.stopping.borrow() || !(self.stream.is_allowed)() {
                return None;
            }
            let state = self.stream.state.borrow_and_update().clone();
            if let Some(text) = self.sent.news(&state, self.stream.event, self.stream.build) {
                return Some(text);
            }
            let changed = async {
                tokio::select! {
                    changed = self.stream.state.changed() => changed.is_ok(),
                    _ = self.stream.stopping.wait_for(|stopping| *stopping) => false,
                }
            };
            match timeout(HEARTBEAT, changed).await {
                Ok(true) => {}
                Ok(false) => return None,
                Err(_) => return Some("event: alive\ndata: {}\n\n".to_owned()),
            }
        }
    }

    fn greeting(&mut self) -> String {
        let mut text = format!("retry: {RETRY_MS}\n\n");
        if let Some(last) = self.stream.last_id.take() {
            match last.split_once('.') {
                Some((build, id)) if build == self.stream.build => self.sent.id = Some(id.to_owned()),
                Some(_) | None => {
                    text += "event: reload\ndata: {\"why\":\"this id is not of this version of the server: what follows is new\"}\n\n";
                }
            }
        }
        text
    }
}

impl Sent {
    /// What the viewer does not know yet.
    fn news(&mut self, state: &State, event: &str, build: &str) -> Option<String> {
        let (mut healed, mut value, mut trouble) = (String::new(), String::new(), String::new());
        if self.refused != state.refused {
            self.refused.clone_from(&state.refused);
            match &state.refused {
                Some(problem) => {
                    trouble += &message("gone", &serde_json::to_string(&**problem).unwrap_or_default());
                }
                None => healed += &message("fresh", "{}"),
            }
        }
        if self.stale != state.stale {
            self.stale.clone_from(&state.stale);
            match &state.stale {
                Some(stale) => trouble += &message("stale", &stale.json()),
                None => healed += &message("fresh", "{}"),
            }
        }
        if let Some(newest) = &state.value
            && self.id.as_ref() != Some(&newest.id)
        {
            self.id = Some(newest.id.clone());
            value = format!("id: {build}.{}\n{}", newest.id, message(event, &newest.text));
        }
        // Viewers take a value for current until they are told that it is not.
        let text = healed + &value + &trouble;
        (!text.is_empty()).then_some(text)
    }
}

/// An event; a line break in its data would end a field.
fn message(event: &str, data: &str) -> String {
    let lines: String = data.split(['\n', '\r']).map(|line| format!("data: {line}\n")).collect();
    format!("event: {event}\n{lines}\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::live::Value;

    fn value(id: &str, text: &str) -> State {
        let value = Value { id: id.to_owned(), text: text.to_owned() };
        State { value: Some(Arc::new(value)), ..State::default() }
    }

    #[test]
    fn a_viewer_is_told_each_value_once() {
        let mut sent = Sent::default();
        let first = sent.news(&value("1", "a\nb"), "page", "v").unwrap();
        assert_eq!(first, "id: v.1\nevent: page\ndata: a\ndata: b\n\n");
        assert_eq!(sent.news(&value("1", "a\nb"), "page", "v"), None);
        assert!(sent.news(&value("2", "c"), "page", "v").is_some());
    }

    #[test]
    fn a_viewer_who_knows_the_value_is_told_of_trouble_alone() {
        let mut sent = Sent { id: Some("1".to_owned()), ..Sent::default() };
        assert_eq!(sent.news(&value("1", "a"), "page", "v"), None);
        let stale = Arc::new(Stale { since_ms: 7, why: "away".to_owned() });
        let away = State { stale: Some(stale), ..value("1", "a") };
        let text = sent.news(&away, "page", "v").unwrap();
        assert_eq!(text, "event: stale\ndata: {\"since_ms\":7,\"why\":\"away\"}\n\n");
        assert_eq!(sent.news(&value("1", "a"), "page", "v").unwrap(), "event: fresh\ndata: {}\n\n");
        // Viewers take a value for current until they are told that it is not.
        let newcomer = Sent::default().news(&away, "page", "v").unwrap();
        assert!(newcomer.find("event: page").unwrap() < newcomer.find("event: stale").unwrap(), "{newcomer}");
    }
}
