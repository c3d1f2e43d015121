//! Live values: an address that is read again and again while somebody watches it, once for all of its viewers.
//!
//! A stream sends whole values, never differences, and the id of a value is a hash of it. So any web server can resume
//! the stream of any other, a viewer that is slow misses steps and never the newest value, and nothing is kept for it.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::future::BoxFuture;
use serde_json::json;
use tokio::sync::watch;
use tokio::time::{Instant, sleep, timeout};

use crate::problem::Problem;
use crate::reads::now_ms;

/// Interval of reads of one address.
const INTERVAL: Duration = Duration::from_millis(150);
/// The same of counters, which change with every look at them.
const COUNTERS: Duration = Duration::from_secs(5);
/// Reading may take this share of the time: what takes long is read less often.
const READ_SHARE: u32 = 4;
/// A read that takes longer has failed.
const READ_MAX: Duration = Duration::from_secs(8);

/// Reads an address.
pub type Read = Arc<dyn Fn() -> BoxFuture<'static, Result<Reading, Problem>> + Send + Sync>;

/// What was read.
#[derive(Debug)]
pub struct Reading {
    /// The value as it is sent.
    pub text: String,
    /// Tells it from others: two readings with the same id are no news to each other.
    pub id: String,
}

impl Reading {
    /// A text that is news whenever it is another one.
    pub fn of(text: String) -> Self {
        Self { id: id_of(&text), text }
    }
}

/// What is known of an address at the moment.
#[derive(Debug, Clone, Default)]
pub struct State {
    /// The newest value.
    pub value: Option<Arc<Value>>,
    /// Since when, and why, there is no newer one.
    pub stale: Option<Arc<Stale>>,
    /// Why there is nothing: it was deleted, for instance.
    pub refused: Option<Arc<Problem>>,
}

/// A value, and a hash that tells it from others.
#[derive(Debug)]
pub struct Value {
    /// A hash of the text.
    pub id: String,
    /// The value as it is sent.
    pub text: String,
}

/// The source is away.
#[derive(Debug, PartialEq, Eq)]
pub struct Stale {
    /// Since when, in milliseconds since 1970.
    pub since_ms: u64,
    /// Why.
    pub why: String,
}

impl Stale {
    /// As viewers get it.
    pub fn json(&self) -> String {
        json!({ "since_ms": self.since_ms, "why": self.why }).to_string()
    }
}

/// The interval of reads of an address.
pub fn pace(path: &str) -> Duration {
    if matches!(path, "/keeper" | "/api/v1/keeper") { COUNTERS } else { INTERVAL }
}

/// All addresses that somebody watches.
#[derive(Debug, Default, Clone)]
pub struct Hub {
    watched: Arc<Mutex<HashMap<String, watch::Sender<State>>>>,
}

impl Hub {
    /// Watches an address; `key` tells it from others, and from the same one with other rights. It is read at this pace.
    pub fn watch(&self, key: &str, pace: Duration, read: Read) -> watch::Receiver<State> {
        let mut watched = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(sender) = watched.get(key) {
            return sender.subscribe();
        }
        let (sender, receiver) = watch::channel(State::default());
        watched.insert(key.to_owned(), sender.clone());
        tokio::spawn(self.clone().follow(key.to_owned(), sender, pace, read));
        receiver
    }

    /// Addresses that are watched now.
    pub fn len(&self) -> usize {
        self.watched.lock().unwrap_or_else(PoisonError::into_inner).len()
    }

    /// Whether nobody watches.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    async fn follow(self, key: String, sender: watch::Sender<State>, pace: Duration, read: Read) {
        loop {
            let began = Instant::now();
            let outcome = timeout(READ_MAX, read()).await.unwrap_or_else(|_| {
                let what = format!("no answer within {} s", READ_MAX.as_secs());
                Err(Problem::busy(503, what, 1))
            });
            sender.send_if_modified(|state| apply(state, outcome));
            let pause = pace.max(began.elapsed() * READ_SHARE);
            tokio::select! {
                () = sleep(pause) => {}
                () = sender.closed() => {}
            }
            // Under the lock, so that nobody subscribes to what ends now.
            let mut watched = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
            if sender.receiver_count() == 0 {
                watched.remove(&key);
                return;
            }
        }
    }
}

/// Takes in what was read; whether viewers have to know.
fn apply(state: &mut State, outcome: Result<Reading, Problem>) -> bool {
    match outcome {
        Ok(Reading { text, id }) => {
            let is_same = state.value.as_ref().is_some_and(|value| value.id == id);
            let was_well = state.stale.take().is_none() & state.refused.take().is_none();
            if !is_same {
                state.value = Some(Arc::new(Value { id, text }));
            }
            !(is_same && was_well)
        }
        Err(problem) if problem.status >= 500 => {
            let is_new = state.stale.as_ref().is_none_or(|stale| stale.why != problem.detail);
            let since_ms = state.stale.as_ref().map_or_else(now_ms, |stale| stale.since_ms);
            state.stale = Some(Arc::new(Stale { since_ms, why: problem.detail }));
            is_new
        }
        Err(problem) => {
            let is_new = state.refused.as_deref() != Some(&problem);
            let was_stale = state.stale.take().is_some();
            state.refused = Some(Arc::new(problem));
            is_new || was_stale
        }
    }
}

/// A hash of a text: the same in every process of this version.
pub fn id_of(text: &str) -> String {
    let mut hasher = DefaultHasher::new();
    text.hash(&mut hasher);
    format!("{:016x}", hasher.finish())
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt as _;

    use super::*;

    fn away() -> Problem {
        Problem::busy(503, "ZooKeeper is away", 1)
    }

    #[test]
    fn viewers_hear_of_changes_alone() {
        let mut state = State::default();
        assert!(apply(&mut state, Ok(Reading::of("a".to_owned()))));
        assert!(!apply(&mut state, Ok(Reading::of("a".to_owned()))));
        assert!(apply(&mut state, Err(away())));
        let since_ms = state.stale.as_ref().unwrap().since_ms;
        assert!(!apply(&mut state, Err(away())));
        assert_eq!(state.stale.as_ref().unwrap().since_ms, since_ms, "stale since it was first noticed");
        assert_eq!(state.value.as_ref().unwrap().text, "a", "the last known value stays");
        assert!(apply(&mut state, Ok(Reading::of("a".to_owned()))), "it has healed");
        assert!(state.stale.is_none());
        assert!(apply(&mut state, Err(Problem::missing("gone", ""))));
        assert!(!apply(&mut state, Err(Problem::missing("gone", ""))));
        assert!(apply(&mut state, Ok(Reading::of("b".to_owned()))) && state.refused.is_none());
    }

    #[tokio::test]
    async fn viewers_share_one_reader_that_ends_with_the_last_of_them() {
        let hub = Hub::default();
        let reads = Arc::new(Mutex::new(0));
        let counted = reads.clone();
        let read: Read = Arc::new(move || {
            *counted.lock().unwrap() += 1;
            async { Ok(Reading::of("a".to_owned())) }.boxed()
        });
        let mut one = hub.watch("/slots", INTERVAL, read.clone());
        let mut other = hub.watch("/slots", INTERVAL, read);
        for viewer in [&mut one, &mut other] {
            let seen = viewer.wait_for(|state| state.value.is_some()).await.unwrap();
            assert_eq!(seen.value.as_ref().unwrap().text, "a");
        }
        assert_eq!(hub.len(), 1);
        drop((one, other));
        let gone = async {
            while !hub.is_empty() {
                tokio::task::yield_now().await;
            }
        };
        timeout(Duration::from_secs(5), gone).await.unwrap();
        let so_far = *reads.lock().unwrap();
        assert!(so_far <= 2, "{so_far} reads");
    }
}
