//! The key of a segment: the value at a path, as text in which equal keys are equal.

use std::borrow::Cow;
use std::fmt;
use std::str::FromStr;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, de};
use serde_json::value::RawValue;

/// A path such as `.word` or `.user.name`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyPath(Vec<String>);

impl FromStr for KeyPath {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let Some(names) = text.strip_prefix('.') else {
            return Err("a key's path begins with a dot".to_owned());
        };
        let names: Vec<String> = names.split('.').map(str::to_owned).collect();
        let is_plain = |name: &String| {
            !name.is_empty() && name.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '-'))
        };
        match names.iter().find(|name| !is_plain(name)) {
            Some(name) => Err(format!("{name:?} is no name in a key's path: use letters, digits, _ and -")),
            None => Ok(Self(names)),
        }
    }
}

impl fmt::Display for KeyPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|name| write!(f, ".{name}"))
    }
}

impl KeyPath {
    /// Writes the key of a segment to `key`, as JSON: `null` if there is no such value. Texts that are the same are so
    /// however they are escaped; numbers are compared as they are written.
    pub fn key_of(&self, segment: &[u8], key: &mut Vec<u8>) -> Result<(), serde_json::Error> {
        key.clear();
        let mut source = serde_json::Deserializer::from_slice(segment);
        let found = At(&self.0).deserialize(&mut source)?;
        match found.map(RawValue::get) {
            None => key.extend_from_slice(b"null"),
            Some(text) if text.starts_with('"') && text.contains('\\') => {
                let text: String = serde_json::from_str(text)?;
                serde_json::to_writer(key, &text)?;
            }
            Some(text) if text.starts_with(['{', '[']) => without_blanks(text.as_bytes(), key),
            Some(text) => key.extend_from_slice(text.as_bytes()),
        }
        Ok(())
    }
}

/// Copies JSON without the blanks between its tokens.
fn without_blanks(text: &[u8], out: &mut Vec<u8>) {
    let (mut in_text, mut is_escaped) = (false, false);
    for byte in text {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' => is_escaped = true,
            b'"' => in_text = !in_text,
            b' ' | b'\t' | b'\r' | b'\n' if !in_text => continue,
            _ => {}
        }
        out.push(*byte);
    }
}

/// Finds the value at a path, if there is one. Everything else is passed over.
struct At<'p>(&'p [String]);

impl<'de> DeserializeSeed<'de> for At<'_> {
    type Value = Option<&'de RawValue>;

    fn deserialize<D: Deserializer<'de>>(self, source: D) -> Result<Self::Value, D::Error> {
        if self.0.is_empty() {
            return <&RawValue>::deserialize(source).map(Some);
        }
        source.deserialize_any(self)
    }
}

/// A key of an object, borrowed unless it is escaped.
#[derive(Deserialize)]
struct ObjectKey<'a>(#[serde(borrow)] Cow<'a, str>);

macro_rules! nothing_there {
    ($($visit:ident: $type:ty),*) => {$(
        fn $visit<E: de::Error>(self, _: $type) -> Result<Self::Value, E> {
            Ok(None)
        }
    )*};
}

impl<'de> Visitor<'de> for At<'_> {
    type Value = Option<&'de RawValue>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut found = None;
        while let Some(ObjectKey(key)) = map.next_key()? {
            if self.0.first().is_some_and(|name| *name == key) {
                found = map.next_value_seed(At(&self.0[1..]))?;
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(found)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Self::Value, A::Error> {
        while items.next_element::<IgnoredAny>()?.is_some() {}
        Ok(None)
    }

    fn visit_unit<E: de::Error>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    nothing_there!(visit_bool: bool, visit_i64: i64, visit_u64: u64, visit_f64: f64, visit_str: &str);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(path: &str, segment: &str) -> String {
        let mut key = Vec::new();
        path.parse::<KeyPath>().unwrap().key_of(segment.as_bytes(), &mut key).unwrap();
        String::from_utf8(key).unwrap()
    }

    #[test]
    fn the_key_is_the_value_at_the_path() {
        assert_eq!(key(".word", r#"{"x": [1, {}], "word": "a b"}"#), r#""a b""#);
        assert_eq!(key(".a.b", r#"{"a": {"c": 1, "b": 12345678901234567890.5}}"#), "12345678901234567890.5");
        assert_eq!(key(".a", r#"{"a": { "b" : [ 1 , "x y" ] } }"#), r#"{"b":[1,"x y"]}"#);
        for none in [r"{}", r#"{"b": 1}"#, r#"{"a": null}"#] {
            assert_eq!(key(".a", none), "null");
        }
        for elsewhere in [r#"{"a": 1}"#, r#"{"a": [{"b": 1}]}"#, r#"{"a": "b"}"#, r#"{"a": true}"#] {
            assert_eq!(key(".a.b", elsewhere), "null", "{elsewhere}");
        }
    }

    #[test]
    fn equal_texts_are_equal_keys_however_they_are_escaped() {
        assert_eq!(key(".w", r#"{"w": "a"}"#), r#""a""#);
        assert_eq!(key(".w", r#"{"\u0077": "\u00e9\/\""}"#), "\"é/\\\"\"");
    }

    #[test]
    fn what_is_no_path_is_refused() {
        for bad in ["", "word", ".", ".a..b", ".a b", ".[0]"] {
            assert!(bad.parse::<KeyPath>().is_err(), "{bad:?}");
        }
    }
}
