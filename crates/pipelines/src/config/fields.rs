//! Reads the keys of a mapping, and remembers which were asked for, so that unknown ones can be told.

use super::names;
use super::pattern::Pattern;
use super::problem::Fault;
use super::yaml::{Entry, Node, Value};

/// The keys of one mapping that have not been read yet.
pub(super) struct Fields<'a> {
    /// What the mapping describes, for messages: "job `unit`".
    pub what: String,
    pub line: u32,
    unread: Vec<&'a Entry>,
    known: Vec<&'static str>,
}

impl<'a> Fields<'a> {
    /// The keys of `node`, which must be a mapping.
    pub fn new(what: impl Into<String>, node: &'a Node) -> Result<Self, Fault> {
        let what = what.into();
        match &node.value {
            Value::Map(entries) => {
                Ok(Self { what, line: node.line, unread: entries.iter().collect(), known: Vec::new() })
            }
            _ => Err(expected(&what, "a mapping of keys to values", node)),
        }
    }

    /// Takes one key. A key without a value counts as absent, except here.
    pub fn entry(&mut self, key: &'static str) -> Option<&'a Entry> {
        self.known.push(key);
        let index = self.unread.iter().position(|entry| entry.key == key)?;
        Some(self.unread.remove(index))
    }

    /// The value of a key, if it has one.
    pub fn node(&mut self, key: &'static str) -> Option<&'a Node> {
        self.entry(key).map(|entry| &entry.node).filter(|node| node.value != Value::Null)
    }

    /// A text. Numbers are taken as they are written.
    pub fn text(&mut self, key: &'static str) -> Result<Option<String>, Fault> {
        let what = format!("`{key}` of {}", self.what);
        self.node(key).map(|node| text(&what, node)).transpose()
    }

    /// The name of an object: required, and checked by [`names::check_object`].
    pub fn name(&mut self, what: &str) -> Result<String, Fault> {
        let Some(name) = self.text("name")? else {
            let message = format!("a {what} has no `name`");
            return Err(Fault::at(self.line, message, format!("add `name: ...` to the {what}")));
        };
        names::check_object(what, &name, self.line)?;
        self.what = format!("{what} `{name}`");
        Ok(name)
    }

    /// `true` or `false`; also YAML 1.1's `yes`, `no`, `on` and `off`, which older files have.
    pub fn boolean(&mut self, key: &'static str) -> Result<Option<bool>, Fault> {
        let Some(node) = self.node(key) else { return Ok(None) };
        let what = format!("`{key}` of {}", self.what);
        match &node.value {
            Value::Bool(value) => Ok(Some(*value)),
            Value::Text(word) => match word.to_ascii_lowercase().as_str() {
                "yes" | "on" | "true" => Ok(Some(true)),
                "no" | "off" | "false" => Ok(Some(false)),
                _ => Err(expected(&what, "`true` or `false`", node)),
            },
            Value::Null | Value::Number(_) | Value::List(_) | Value::Map(_) => {
                Err(expected(&what, "`true` or `false`", node))
            }
        }
    }

    /// Accepts a switch of Zuul only if it is where this program's behaviour is: Zuul's default.
    pub fn only(&mut self, key: &'static str, default: bool) -> Result<(), Fault> {
        let line = self.unread.iter().find(|entry| entry.key == key).map_or(self.line, |entry| entry.line);
        match self.boolean(key)? {
            Some(value) if value != default => {
                Err(Fault::unsupported(line, format_args!("`{key}: {value}` of {}", self.what)))
            }
            Some(_) | None => Ok(()),
        }
    }

    /// A whole number from `min` to `max`.
    pub fn number(&mut self, key: &'static str, min: u32, max: u32) -> Result<Option<u32>, Fault> {
        let Some(node) = self.node(key) else { return Ok(None) };
        let value = match &node.value {
            Value::Number(value) => value.as_u64().and_then(|value| u32::try_from(value).ok()),
            _ => None,
        };
        value.filter(|value| (min..=max).contains(value)).map(Some).ok_or_else(|| {
            let message = format!("`{key}` of {} must be a whole number from {min} to {max}", self.what);
            Fault::at(node.line, message, format!("write for example `{key}: {}`", min.max(1)))
        })
    }

    /// A text or a list of texts; `None` if the key is absent.
    pub fn texts(&mut self, key: &'static str) -> Result<Option<Vec<String>>, Fault> {
        let what = format!("`{key}` of {}", self.what);
        let Some(node) = self.node(key) else { return Ok(None) };
        items(node).iter().map(|item| text(&what, item)).collect::<Result<_, _>>().map(Some)
    }

    /// A regular expression or a list of them; `None` if the key is absent.
    pub fn patterns(&mut self, key: &'static str) -> Result<Option<Vec<Pattern>>, Fault> {
        let what = format!("`{key}` of {}", self.what);
        let Some(node) = self.node(key) else { return Ok(None) };
        items(node).iter().map(|item| Pattern::read(&what, item)).collect::<Result<_, _>>().map(Some)
    }

    /// A mapping as JSON; empty if the key is absent.
    pub fn json(&mut self, key: &'static str) -> Result<serde_json::Map<String, serde_json::Value>, Fault> {
        match self.node(key).map(|node| (node, &node.value)) {
            None => Ok(serde_json::Map::new()),
            Some((_, Value::Map(entries))) => Ok(super::yaml::json_object(entries)),
            Some((node, _)) => Err(expected(&format!("`{key}` of {}", self.what), "a mapping", node)),
        }
    }

    /// All keys that have not been read: where any name is allowed.
    pub fn rest(&mut self) -> Vec<&'a Entry> {
        std::mem::take(&mut self.unread)
    }

    /// Refuses the keys that have not been read. `later` are Zuul's keys that are not supported yet.
    pub fn finish(self, later: &[&'static str]) -> Result<(), Fault> {
        self.unread.first().map_or(Ok(()), |entry| Err(self.refuse(entry, later)))
    }

    /// Why a key cannot be taken.
    pub fn refuse(&self, entry: &Entry, later: &[&'static str]) -> Fault {
        let key = &entry.key;
        if later.contains(&key.as_str()) {
            return Fault::unsupported(entry.line, format_args!("`{key}` of {}", self.what));
        }
        let known = self.known.iter().copied();
        let guess = names::nearest(key, known.clone().chain(later.iter().copied()));
        let help = match guess {
            Some(guess) => format!("did you mean `{guess}`? "),
            None => String::new(),
        };
        let list = known.collect::<Vec<_>>().join(", ");
        Fault::at(
            entry.line,
            format!("{} has the unknown key `{key}`", self.what),
            format!("{help}known keys are {list}"),
        )
    }
}

/// The items of a list; a single value counts as a list of one.
pub(super) fn items(node: &Node) -> &[Node] {
    match &node.value {
        Value::List(items) => items,
        _ => std::slice::from_ref(node),
    }
}

/// A text, or a number or boolean as a text.
pub(super) fn text(what: &str, node: &Node) -> Result<String, Fault> {
    match &node.value {
        Value::Text(value) => Ok(value.clone()),
        Value::Number(value) => Ok(value.to_string()),
        Value::Bool(value) => Ok(value.to_string()),
        Value::Null | Value::List(_) | Value::Map(_) => Err(expected(what, "a text", node)),
    }
}

/// The name and the attributes of `name` or `name: {attributes}`.
pub(super) fn named<'a>(what: &str, node: &'a Node) -> Result<(String, Option<&'a Node>), Fault> {
    match &node.value {
        Value::Map(entries) => match entries.as_slice() {
            [entry] => {
                let attributes = Some(&entry.node).filter(|node| node.value != Value::Null);
                Ok((entry.key.clone(), attributes))
            }
            _ => {
                let message = format!("{what} has {} keys where one is expected, the name", entries.len());
                Err(Fault::at(
                    node.line,
                    message,
                    "indent the attributes below the name, one list item per name",
                ))
            }
        },
        _ => Ok((text(what, node)?, None)),
    }
}

/// The fault of a value of the wrong kind.
pub(super) fn expected(what: &str, wanted: &str, node: &Node) -> Fault {
    Fault::at(node.line, format!("{what} must be {wanted}, not {}", node.kind()), format!("write {wanted}"))
}
