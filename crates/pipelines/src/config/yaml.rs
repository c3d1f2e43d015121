//! YAML as a tree whose nodes know their lines, read within fixed limits.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number};
use serde_saphyr::Spanned;

use super::problem::Fault;

/// Longest file that is read, in bytes. Zuul's largest public configurations are a fifth of it.
const TEXT_BYTES_MAX: usize = 1 << 20;
/// Deepest nesting; real files stay below 15, and reading recurses.
const DEPTH_MAX: usize = 64;
/// Most nodes of a file, aliases expanded, so that a short file cannot grow without bound.
const NODES_MAX: usize = 100_000;

/// A value and the line it begins on.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Node {
    pub line: u32,
    pub value: Value,
}

/// What a node holds. Only `true` and `false` are booleans, as in YAML 1.2.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Value {
    Null,
    Bool(bool),
    Number(Number),
    Text(String),
    List(Vec<Node>),
    Map(Vec<Entry>),
}

/// A key of a mapping, its line, and its value.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Entry {
    pub key: String,
    pub line: u32,
    pub node: Node,
}

/// Reads one document. Duplicate keys, further documents and undefined aliases are refused.
pub(super) fn parse(text: &str) -> Result<Node, Fault> {
    if text.len() > TEXT_BYTES_MAX {
        let message = format!("the file has {} bytes, the limit is {TEXT_BYTES_MAX}", text.len());
        let help = "split it into several files below zuul.d/".to_owned();
        return Err(Fault { line: None, message, help });
    }
    let options = serde_saphyr::options! {
        with_snippet: false,
        strict_booleans: true,
        budget: serde_saphyr::budget! {
            max_depth: DEPTH_MAX,
            flow_nesting_limit: DEPTH_MAX,
            max_nodes: NODES_MAX,
        },
        alias_limits: serde_saphyr::alias_limits! { max_total_replayed_events: NODES_MAX },
    };
    serde_saphyr::from_str_with_options(text, options).map_err(|error| Fault {
        line: error.location().map(|location| line_number(location.line())),
        message: format!("the file is not valid YAML: {error}"),
        help: "correct the syntax; an editor with YAML support shows the place".to_owned(),
    })
}

fn line_number(line: u64) -> u32 {
    u32::try_from(line).unwrap_or(u32::MAX)
}

impl Node {
    /// The value as JSON. Lines are dropped.
    pub fn to_json(&self) -> serde_json::Value {
        match &self.value {
            Value::Null => serde_json::Value::Null,
            Value::Bool(value) => serde_json::Value::Bool(*value),
            Value::Number(value) => serde_json::Value::Number(value.clone()),
            Value::Text(value) => serde_json::Value::String(value.clone()),
            Value::List(items) => serde_json::Value::Array(items.iter().map(Node::to_json).collect()),
            Value::Map(entries) => serde_json::Value::Object(json_object(entries)),
        }
    }

    /// What kind of value it is, for messages.
    pub fn kind(&self) -> &'static str {
        match self.value {
            Value::Null => "nothing",
            Value::Bool(_) => "a boolean",
            Value::Number(_) => "a number",
            Value::Text(_) => "a text",
            Value::List(_) => "a list",
            Value::Map(_) => "a mapping",
        }
    }
}

/// A mapping as JSON.
pub(super) fn json_object(entries: &[Entry]) -> Map<String, serde_json::Value> {
    entries.iter().map(|entry| (entry.key.clone(), entry.node.to_json())).collect()
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let spanned = Spanned::<Value>::deserialize(deserializer)?;
        Ok(Self { line: line_number(spanned.referenced.line()), value: spanned.value })
    }
}

impl<'de> Deserialize<'de> for Value {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(ValueVisitor)
    }
}

struct ValueVisitor;

impl<'de> Visitor<'de> for ValueVisitor {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Value, E> {
        Number::from_f64(value).map(Value::Number).ok_or_else(|| E::custom("the number is not finite"))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::Text(value.to_owned()))
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_none<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(Self)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        while let Some(item) = items.next_element()? {
            list.push(item);
        }
        Ok(Value::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Value, A::Error> {
        let mut map = Vec::new();
        while let Some(key) = entries.next_key::<Spanned<String>>()? {
            let node = entries.next_value()?;
            map.push(Entry { line: line_number(key.referenced.line()), key: key.value, node });
        }
        Ok(Value::Map(map))
    }
}
