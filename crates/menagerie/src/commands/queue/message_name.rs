//! How people name a message on the command line.

use std::fmt;
use std::str::FromStr;

use menagerie_journal::MessageId;
use menagerie_queues::MessageUuid;

/// A message, by its id or by where it stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MessageName {
    Id(MessageUuid),
    /// Its position, in seconds.
    Position(MessageId),
}

impl FromStr for MessageName {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match (text.parse(), MessageId::from_seconds(text)) {
            (Ok(id), _) => Ok(Self::Id(id)),
            (Err(_), Ok(position)) => Ok(Self::Position(position)),
            (Err(error), Err(_)) => {
                Err(format!("{error}; or a position, in seconds with at most 7 decimals"))
            }
        }
    }
}

impl fmt::Display for MessageName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Id(id) => id.fmt(f),
            Self::Position(position) => f.write_str(&position.seconds()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_is_named_by_id_or_position() {
        for text in ["3f9c1b52-7a64-11f0-8d96-bb488460f550", "1330365230.0380700"] {
            assert_eq!(text.parse::<MessageName>().map(|name| name.to_string()), Ok(text.to_owned()));
        }
        let refused = "soon".parse::<MessageName>().unwrap_err();
        assert!(refused.contains("UUID of version 1") && refused.contains("seconds"), "{refused}");
    }
}
