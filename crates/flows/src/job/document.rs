//! A job as text, TOML or JSON: its values, and where each of them stands.

use std::collections::BTreeMap;
use std::fmt;

use serde::de::{self, Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};
use toml::de::{DeTable, DeValue};

/// What is wrong with a job, at which key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Problem {
    /// The key's path, such as `catalog[1].type`; empty for the whole.
    pub key: String,
    /// What is wrong.
    pub why: String,
    /// What to try.
    pub help: String,
}

impl Problem {
    /// A problem at this key.
    pub fn at(key: impl Into<String>, why: impl Into<String>, help: impl Into<String>) -> Self {
        Self { key: key.into(), why: why.into(), help: help.into() }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.key.is_empty() { f.write_str(&self.why) } else { write!(f, "{}: {}", self.key, self.why) }
    }
}

/// A text that was read.
#[derive(Debug, Clone)]
pub struct Document {
    /// Its values.
    pub value: Value,
    /// The line of each key, by its path. JSON has none: there the path itself is named.
    lines: Option<BTreeMap<String, usize>>,
}

/// A text that could not be read: the line, if there is one, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unreadable {
    /// From 1.
    pub line: usize,
    /// Why.
    pub why: String,
}

impl Document {
    /// Reads JSON if the text begins like an object, else TOML.
    pub fn parse(text: &str) -> Result<Self, Unreadable> {
        // Some editors write a byte order mark.
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        if text.trim_start().starts_with('{') {
            let Strict(value) = serde_json::from_str(text)
                .map_err(|error| Unreadable { line: error.line(), why: error.to_string() })?;
            return Ok(Self { value, lines: None });
        }
        let line_of = |at: usize| text.get(..at).unwrap_or(text).matches('\n').count() + 1;
        let table = DeTable::parse(text).map_err(|error| Unreadable {
            line: error.span().map_or(1, |span| line_of(span.start)),
            why: error.message().replace('\n', " "),
        })?;
        let mut lines = BTreeMap::new();
        let mut note = |key, at| {
            lines.insert(key, line_of(at));
        };
        let value = convert_table(table.get_ref(), "", &mut note);
        Ok(Self { value, lines: Some(lines) })
    }

    /// Where a problem is, as the beginning of its message: `:LINE: ` for TOML, `: KEY: ` for JSON.
    pub fn place(&self, key: &str) -> String {
        let Some(lines) = &self.lines else {
            return if key.is_empty() { ": ".to_owned() } else { format!(": {key}: ") };
        };
        // A key that is missing is missed where its table begins.
        let mut known = key;
        loop {
            if let Some(line) = lines.get(known) {
                return format!(":{line}: ");
            }
            match known.rfind(['.', '[']) {
                Some(end) => known = &known[..end],
                None => return ":1: ".to_owned(),
            }
        }
    }
}

/// A JSON value in which no key of an object is there twice: the first would be passed over silently.
struct Strict(Value);

impl<'de> Deserialize<'de> for Strict {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(StrictVisitor).map(Self)
    }
}

struct StrictVisitor;

impl<'de> Visitor<'de> for StrictVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut object = Map::new();
        while let Some(key) = map.next_key::<String>()? {
            if object.contains_key(&key) {
                return Err(de::Error::custom(format!("the key {key:?} is there twice")));
            }
            let Strict(value) = map.next_value()?;
            object.insert(key, value);
        }
        Ok(Value::Object(object))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut array = Vec::new();
        while let Some(Strict(value)) = items.next_element()? {
            array.push(value);
        }
        Ok(Value::Array(array))
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }
}

/// The path of a key within another.
pub fn join(parent: &str, key: &str) -> String {
    if parent.is_empty() { key.to_owned() } else { format!("{parent}.{key}") }
}

fn convert_table(table: &DeTable<'_>, path: &str, note: &mut impl FnMut(String, usize)) -> Value {
    let mut object = Map::new();
    for (key, value) in table {
        let path = join(path, key.get_ref());
        note(path.clone(), key.span().start);
        object.insert(key.get_ref().to_string(), convert(value.get_ref(), &path, note));
    }
    Value::Object(object)
}

fn convert(value: &DeValue<'_>, path: &str, note: &mut impl FnMut(String, usize)) -> Value {
    match value {
        DeValue::String(text) => Value::String(text.to_string()),
        DeValue::Integer(number) => match i64::from_str_radix(number.as_str(), number.radix()) {
            Ok(number) => number.into(),
            Err(_) => Value::String(number.as_str().to_owned()),
        },
        DeValue::Float(number) => match number.as_str().parse::<f64>() {
            Ok(number) => number.into(),
            Err(_) => Value::String(number.as_str().to_owned()),
        },
        DeValue::Boolean(flag) => Value::Bool(*flag),
        DeValue::Datetime(time) => Value::String(time.to_string()),
        DeValue::Array(array) => {
            let items = array.iter().enumerate().map(|(index, item)| {
                let path = format!("{path}[{index}]");
                note(path.clone(), item.span().start);
                convert(item.get_ref(), &path, note)
            });
            Value::Array(items.collect())
        }
        DeValue::Table(table) => convert_table(table, path, note),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_found_by_line_in_toml_and_by_path_in_json() {
        let toml =
            Document::parse("name = \"a\"\n\n[[catalog]]\nname = \"x\"\n[[catalog]]\nname = 7\n").unwrap();
        assert_eq!(toml.place("name"), ":1: ");
        assert_eq!(toml.place("catalog[1].name"), ":6: ");
        assert_eq!(toml.place("catalog[1].type"), ":5: ");
        assert_eq!(toml.place("workflow"), ":1: ");
        let json = Document::parse(r#"{"name": "a", "catalog": [{"name": 7}]}"#).unwrap();
        assert_eq!(json.place("catalog[0].name"), ": catalog[0].name: ");
        assert_eq!(json.value["catalog"][0]["name"], toml.value["catalog"][1]["name"]);
    }

    #[test]
    fn what_cannot_be_read_is_refused_with_its_line() {
        assert_eq!(Document::parse("a = 1\nb =\n").unwrap_err().line, 2);
        assert_eq!(Document::parse("{\n\"a\": 1,\n}").unwrap_err().line, 3);
        let twice = Document::parse("\u{feff}{\"a\": 1,\n\"b\": [{\"c\": 1, \"c\": 2}]}").unwrap_err();
        assert!(twice.line == 2 && twice.why.contains("\"c\" is there twice"), "{twice:?}");
    }
}
