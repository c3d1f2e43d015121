//! What all JSON lines of programs have in common.

use std::fmt;

use serde::de::Visitor;
use serde::{Deserialize, Deserializer};

/// A JSON string that may contain lone surrogates (`\udce9`), as written by languages whose strings are UTF-16 or may
/// hold arbitrary bytes. They do not make the whole line invalid.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Text(pub String);

impl<'de> Deserialize<'de> for Text {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Lossy;
        impl Visitor<'_> for Lossy {
            type Value = Text;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("text")
            }
            fn visit_bytes<E>(self, bytes: &[u8]) -> Result<Text, E> {
                Ok(Text(String::from_utf8_lossy(bytes).into_owned()))
            }
        }
        // serde_json does not validate strings that are read as bytes.
        from.deserialize_bytes(Lossy)
    }
}

/// The first line of a program with a greeting.
#[derive(Debug, Deserialize)]
struct Greeting {
    ready: bool,
    #[serde(default)]
    error: Option<Text>,
}

/// Parses a greeting; `Err` says why the program is not ready.
pub(crate) fn greeting(line: &str) -> Result<(), String> {
    match serde_json::from_str(line) {
        Ok(Greeting { ready: true, .. }) => Ok(()),
        Ok(Greeting { error, .. }) => {
            Err(error.map_or_else(|| "it does not say why".to_owned(), |Text(why)| why))
        }
        Err(_) => Err(format!("it greeted with {}", shorten(line))),
    }
}

/// Cuts a program's text to fit into an error message.
pub fn shorten(text: &str) -> String {
    const SHOWN: usize = 200;
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn half_a_character_does_not_spoil_a_greeting() {
        assert_eq!(greeting(r#"{"ready":true,"more":"\udce9"}"#), Ok(()));
        assert_eq!(greeting(r#"{"ready":false,"error":"a\udce9"}"#).unwrap_err().chars().next(), Some('a'));
        assert_eq!(greeting("hello"), Err("it greeted with hello".to_owned()));
    }
}
