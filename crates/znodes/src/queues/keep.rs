//! How long handled messages are kept.

use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The default: as long as most users look back.
const USUAL: Duration = Duration::from_secs(7 * 24 * 3600);

/// How long a message is kept, counted from when it was put. An unhandled message is kept however old it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(from = "Written", into = "Written")]
#[schemars(inline)]
pub enum Keep {
    /// For this long, and then until it is handled.
    For(Duration),
    /// Until somebody purges the queue.
    Forever,
}

impl Default for Keep {
    /// A week, also for queues whose settings do not say.
    fn default() -> Self {
        Self::For(USUAL)
    }
}

/// The stored form: milliseconds, or a word.
#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
#[schemars(inline)]
enum Written {
    Ms(u64),
    Word(Word),
}

#[derive(Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
#[schemars(inline)]
enum Word {
    Forever,
}

impl From<Written> for Keep {
    fn from(written: Written) -> Self {
        match written {
            Written::Ms(ms) => Self::For(Duration::from_millis(ms)),
            Written::Word(Word::Forever) => Self::Forever,
        }
    }
}

impl From<Keep> for Written {
    fn from(keep: Keep) -> Self {
        match keep {
            Keep::For(time) => Self::Ms(u64::try_from(time.as_millis()).unwrap_or(u64::MAX)),
            Keep::Forever => Self::Word(Word::Forever),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::payload::Payload as _;
    use crate::queues::Settings;

    use super::*;

    fn read(keep: &str) -> Option<Keep> {
        let text = format!(r#"{{"partitions":1,"journal":"main",{keep}"created_ms":0}}"#);
        Settings::decode(text.as_bytes()).ok().map(|settings| settings.keep)
    }

    #[test]
    fn settings_say_it_in_milliseconds_or_by_a_word() {
        for keep in [Keep::For(Duration::from_millis(1_500)), Keep::For(Duration::ZERO), Keep::Forever] {
            let written = serde_json::to_string(&keep).unwrap();
            assert_eq!(read(&format!(r#""keep_ms":{written},"#)), Some(keep), "{written}");
        }
        assert_eq!(serde_json::to_string(&Keep::Forever).unwrap(), r#""forever""#);
        assert_eq!(serde_json::to_string(&Keep::default()).unwrap(), "604800000");
    }

    #[test]
    fn old_settings_mean_a_week_and_nonsense_is_refused() {
        assert_eq!(read(""), Some(Keep::default()));
        for nonsense in ["null", "-1", "1.5", r#""7d""#] {
            assert_eq!(read(&format!(r#""keep_ms":{nonsense},"#)), None, "{nonsense}");
        }
    }
}
