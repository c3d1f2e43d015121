//! Fences: tokens that rise with every new holder of something. The far side remembers the highest and refuses older
//! ones: so a holder that was presumed dead and wakes up changes nothing.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// A fence. Ordered: a later holder of the same thing has a greater one. The default, `0-0`, is below every issued
/// fence, because generations are times.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize, JsonSchema,
)]
#[serde(into = "String", try_from = "String")]
#[schemars(inline, extend("pattern" = r"^[0-9]+--?[0-9]+$"))]
pub struct Fence {
    /// Rises when the namespace moves to another server, whose zxids may be lower.
    pub generation: u64,
    /// The transaction that created the ticket.
    pub zxid: i64,
}

impl Fence {
    /// A fence of these two numbers.
    pub const fn new(generation: u64, zxid: i64) -> Self {
        Self { generation, zxid }
    }
}

/// A fence as `{"generation": 2, "zxid": 3}` instead of text: on the journal's wire and in its statistics. For
/// `#[serde(with = "FenceNumbers")]`.
#[derive(Serialize, Deserialize)]
#[serde(remote = "Fence")]
pub struct FenceNumbers {
    generation: u64,
    zxid: i64,
}

/// The text is no fence.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{0:?} is not a fence: it has the form GENERATION-ZXID, both in digits")]
pub struct FenceError(String);

impl fmt::Display for Fence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.generation, self.zxid)
    }
}

impl FromStr for Fence {
    type Err = FenceError;

    fn from_str(text: &str) -> Result<Self, FenceError> {
        let parse = || {
            let (generation, zxid) = text.split_once('-')?;
            Some(Self { generation: generation.parse().ok()?, zxid: zxid.parse().ok()? })
        };
        parse().ok_or_else(|| FenceError(text.to_owned()))
    }
}

impl TryFrom<String> for Fence {
    type Error = FenceError;

    fn try_from(text: String) -> Result<Self, FenceError> {
        text.parse()
    }
}

impl From<Fence> for String {
    fn from(fence: Fence) -> Self {
        fence.to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fences_rise_by_generation_first_and_survive_being_written_down() {
        let old = Fence { generation: 1, zxid: 900 };
        let new = Fence { generation: 2, zxid: 3 };
        assert!(old < new);
        assert_eq!(new.to_string().parse(), Ok(new));
        assert!("2".parse::<Fence>().is_err());
    }

    #[test]
    fn a_fence_is_a_text_unless_its_numbers_are_asked_for() {
        #[derive(Debug, PartialEq, Serialize, Deserialize)]
        struct Both {
            text: Fence,
            #[serde(with = "FenceNumbers")]
            numbers: Fence,
        }
        let both = Both { text: Fence::new(2, 3), numbers: Fence::new(2, 3) };
        let json = r#"{"text":"2-3","numbers":{"generation":2,"zxid":3}}"#;
        assert_eq!(serde_json::to_string(&both).unwrap(), json);
        assert_eq!(serde_json::from_str::<Both>(json).unwrap(), both);
    }
}
