//! A line of a message's story as a sentence.

use std::time::Duration;

use menagerie_types::duration::precise;

use crate::story::{ActKind, Line, Outcome};

/// What happened, in words. `escape` makes what others wrote harmless where it is shown.
pub fn sentence(line: &Line, escape: &dyn Fn(&str) -> String) -> String {
    let by = |by: &Option<String>| by.as_ref().map_or(String::new(), |by| format!(" by {}", escape(by)));
    match line {
        Line::Put { by: who, via, .. } => {
            let via = via.map_or(String::new(), |via| format!(" over {via}"));
            format!("put{}{via}", by(who))
        }
        Line::Due { .. } => "due".to_owned(),
        Line::Act { act, by: who, .. } => {
            let act = match act {
                ActKind::Retried => "put back into its partition",
                ActKind::Forgotten => "dropped from the failed messages",
                ActKind::Cancelled => "cancelled before it was due",
                ActKind::Deleted => "deleted",
                ActKind::Purged => "dropped with all messages of its partition",
                ActKind::Skipped => "dropped with the messages of its partition up to one",
            };
            format!("{act}{}", by(who))
        }
        Line::Running { worker, attempt, .. } => {
            let attempt =
                attempt.map_or_else(|| "running".to_owned(), |attempt| format!("attempt {attempt}"));
            format!("{attempt} by {}: running since then", escape(worker))
        }
        Line::Attempt { worker, attempt, took_ms, outcome, error, next_ms, .. } => {
            let worker = escape(worker);
            let time = |ms: u64| match ms {
                0..1_000 => format!("{ms} ms"),
                _ => precise(Duration::from_millis(ms)),
            };
            let after = took_ms.map_or(String::new(), |ms| format!(" after {}", time(ms)));
            let error = error.as_ref().map_or(String::new(), |error| format!(": {}", escape(error)));
            let next = next_ms.map_or(String::new(), |ms| format!("; again in {}", time(ms)));
            match outcome {
                Outcome::Done => format!("attempt {attempt} by {worker}: done{after}"),
                Outcome::Retry => format!("attempt {attempt} by {worker}: failed{after}{error}{next}"),
                Outcome::Failed if took_ms.is_none() => {
                    format!("given up by {worker}{error}; kept among the failed messages")
                }
                Outcome::Skipped if took_ms.is_none() => format!("given up by {worker}{error}; skipped"),
                Outcome::Failed => format!(
                    "attempt {attempt} by {worker}: failed{after}{error}; given up, and kept among the failed messages"
                ),
                Outcome::Skipped => {
                    format!("attempt {attempt} by {worker}: failed{after}{error}; given up, and skipped")
                }
                Outcome::Stuck => {
                    format!("attempt {attempt} by {worker}: failed{after}{error}; its worker has stopped")
                }
                Outcome::Stopped => format!("attempt {attempt} by {worker}: stopped{after}; does not count"),
                Outcome::Expired => format!("expired before its turn came, says {worker}"),
                Outcome::Orphaned => {
                    format!("taken over by {worker} from a worker that died, and that may have begun it")
                }
            }
        }
    }
}
