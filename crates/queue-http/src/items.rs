//! Deserializes `{"messages": […]}` in bounded memory: of unknown fields, however large or deep, only the first name is
//! kept, for the error reply.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error as _, IgnoredAny, MapAccess, SeqAccess, Visitor};

/// The first `MAX` messages of a list, and the list's length.
#[derive(Debug, Default)]
pub struct Items<const MAX: usize> {
    /// At most `MAX` messages.
    pub items: Vec<Field>,
    /// Length of the list.
    pub count: usize,
    /// First unknown field beside `messages`.
    pub unknown: Option<String>,
}

/// Characters kept of an unknown field's name.
const NAME_CHARS_MAX: usize = 50;

/// Records the name of an unknown field, unless there is one already.
fn keep_first(unknown: &mut Option<String>, name: &str) {
    unknown.get_or_insert_with(|| name.chars().take(NAME_CHARS_MAX).collect());
}

/// A JSON value, reduced to what a message can use.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum Field {
    /// Missing or `null`.
    #[default]
    Nothing,
    /// A string.
    Text(String),
    /// Any other scalar, as it would be written; or "a list".
    Other(String),
    /// An object, taken for a message.
    Object(Box<Item>),
}

/// The fields of a message.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Item {
    /// `body`
    pub body: Field,
    /// `body_base64`
    pub body_base64: Field,
    /// `key`
    pub key: Field,
    /// `partition`
    pub partition: Field,
    /// `delay`
    pub delay: Field,
    /// `at`
    pub at: Field,
    /// `ttl`
    pub ttl: Field,
    /// `dedup`
    pub dedup: Field,
    /// `priority`
    pub priority: Field,
    /// First unknown field of the message.
    pub unknown: Option<String>,
}

impl Field {
    /// The value as text: clients send numbers as numbers or as strings.
    pub fn as_text(&self) -> Option<&str> {
        match self {
            Self::Nothing => None,
            Self::Text(text) | Self::Other(text) => Some(text),
            Self::Object(_) => Some("an object"),
        }
    }
}

impl<'de, const MAX: usize> Deserialize<'de> for Items<MAX> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(MessagesVisitor)
    }
}

/// `{"messages": […]}`
struct MessagesVisitor<const MAX: usize>;

impl<'de, const MAX: usize> Visitor<'de> for MessagesVisitor<MAX> {
    type Value = Items<MAX>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with messages")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Items<MAX>, A::Error> {
        let (mut found, mut unknown) = (None, None);
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                "messages" => found = Some(map.next_value::<List<MAX>>()?.0),
                other => {
                    keep_first(&mut unknown, other);
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        let found: Items<MAX> = found.ok_or_else(|| A::Error::missing_field("messages"))?;
        Ok(Items { unknown, ..found })
    }
}

struct List<const MAX: usize>(Items<MAX>);

impl<'de, const MAX: usize> Deserialize<'de> for List<MAX> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(ListVisitor).map(Self)
    }
}

struct ListVisitor<const MAX: usize>;

impl<'de, const MAX: usize> Visitor<'de> for ListVisitor<MAX> {
    type Value = Items<MAX>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of messages")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Items<MAX>, A::Error> {
        let mut found = Items::default();
        while found.items.len() < MAX {
            let Some(item) = list.next_element()? else { break };
            found.items.push(item);
        }
        found.count = found.items.len();
        while list.next_element::<IgnoredAny>()?.is_some() {
            found.count += 1;
        }
        Ok(found)
    }
}

impl<'de> Deserialize<'de> for Field {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(FieldVisitor)
    }
}

struct FieldVisitor;

impl<'de> Visitor<'de> for FieldVisitor {
    type Value = Field;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("anything")
    }

    fn visit_unit<E>(self) -> Result<Field, E> {
        Ok(Field::Nothing)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Field, E> {
        Ok(Field::Other(value.to_string()))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Field, E> {
        Ok(Field::Other(value.to_string()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Field, E> {
        Ok(Field::Other(value.to_string()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Field, E> {
        Ok(Field::Other(format!("{value:?}")))
    }

    fn visit_str<E>(self, text: &str) -> Result<Field, E> {
        Ok(Field::Text(text.to_owned()))
    }

    fn visit_string<E>(self, text: String) -> Result<Field, E> {
        Ok(Field::Text(text))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Field, A::Error> {
        while list.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Field::Other("a list".to_owned()))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Field, A::Error> {
        let mut item = Box::<Item>::default();
        while let Some(key) = map.next_key::<String>()? {
            let field = match key.as_str() {
                "body" => &mut item.body,
                "body_base64" => &mut item.body_base64,
                "key" => &mut item.key,
                "partition" => &mut item.partition,
                "delay" => &mut item.delay,
                "at" => &mut item.at,
                "ttl" => &mut item.ttl,
                "dedup" => &mut item.dedup,
                "priority" => &mut item.priority,
                other => {
                    keep_first(&mut item.unknown, other);
                    map.next_value::<IgnoredAny>()?;
                    continue;
                }
            };
            *field = map.next_value()?;
        }
        Ok(Field::Object(item))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(json: &str) -> Result<Items<2>, serde_json::Error> {
        serde_json::from_str(json)
    }

    #[test]
    fn known_fields_are_kept_and_of_the_rest_one_name() {
        let found = read(r#"{"x":[1,{"y":2}],"messages":[{"body":"a","z":[[]],"ttl":5},7,8,[9]]}"#).unwrap();
        let (body, ttl, unknown) = (Field::Text("a".into()), Field::Other("5".into()), Some("z".to_owned()));
        let item = Item { body, ttl, unknown, ..Item::default() };
        assert_eq!(found.items, [Field::Object(Box::new(item)), Field::Other("7".into())]);
        assert_eq!((found.count, found.unknown.as_deref()), (4, Some("x")));
        let long = read(&format!(r#"{{"messages":[],"{}":1,"z":2}}"#, "ü".repeat(1000))).unwrap();
        assert_eq!(long.unknown, Some("ü".repeat(NAME_CHARS_MAX)));
    }

    #[test]
    fn scalars_become_text() {
        let as_text = |json: &str| serde_json::from_str::<Field>(json).unwrap().as_text().map(str::to_owned);
        for (json, text) in
            [("5", "5"), ("-5", "-5"), ("5.0", "5.0"), ("\"5\"", "5"), ("true", "true"), ("[5]", "a list")]
        {
            assert_eq!(as_text(json).as_deref(), Some(text));
        }
        assert_eq!(as_text("null"), None);
    }

    #[test]
    fn anything_but_a_list_of_messages_is_an_error() {
        for json in ["[]", "{}", "{\"messages\":1}", "{\"messages\":null}", "{\"messages\":[}", "1", ""] {
            assert!(read(json).is_err(), "{json}");
        }
        let deep = |open: &str, close: &str| {
            read(&format!("{{\"messages\":[{}1{}]}}", open.repeat(10_000), close.repeat(10_000)))
        };
        assert!(deep("{\"body\":", "}").is_err(), "deeper than anybody can follow");
        assert_eq!(deep("[", "]").unwrap().items, [Field::Other("a list".into())], "nobody has to");
    }
}
