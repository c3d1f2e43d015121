//! Messages read one by one from the command line or a file.

use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read as _};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use menagerie_journal::Ticks;
use menagerie_queues::admin::Destination;
use menagerie_queues::fields;
use menagerie_znodes::queues::Order;
use serde::Deserialize;
use serde_json::{Map, Value};

use crate::exit::CliError;

/// Format of an input file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InputFormat {
    /// A message on each line.
    Lines,
    /// A message in a JSON object on each line.
    Objects,
    /// One message.
    Whole,
}

/// A message to put. Optional fields override the command line.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct InputMessage {
    pub place: Option<Destination>,
    pub due: Option<Ticks>,
    pub ttl: Option<Duration>,
    pub dedup: Option<String>,
    pub priority: Option<i8>,
    pub body: Vec<u8>,
}

pub enum Input {
    /// The bodies left, and how many there were.
    Given(std::vec::IntoIter<Vec<u8>>, u64),
    File {
        name: String,
        format: InputFormat,
        line: u64,
        reader: Box<dyn BufRead>,
    },
}

/// An input line in JSON, as written.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct JsonLine {
    body: Option<Value>,
    body_base64: Option<String>,
    key: Option<String>,
    partition: Option<u16>,
    delay: Option<Value>,
    at: Option<Value>,
    ttl: Option<Value>,
    dedup: Option<String>,
    priority: Option<Value>,
}

impl Input {
    pub fn given(bodies: Vec<Vec<u8>>) -> Self {
        let total = bodies.len() as u64;
        Self::Given(bodies.into_iter(), total)
    }

    /// Opens a file; `-` is standard input.
    pub fn open(file: &OsStr, format: InputFormat) -> Result<Self, CliError> {
        let name = file.to_string_lossy().into_owned();
        let reader: Box<dyn BufRead> = if file == "-" {
            Box::new(io::stdin().lock())
        } else {
            Box::new(BufReader::new(File::open(file).map_err(CliError::io(format!("open {name}")))?))
        };
        Ok(Self::File { name, format, line: 0, reader })
    }

    /// Number of messages, if known.
    pub fn total(&self) -> Option<u64> {
        match self {
            Self::Given(_, total) => Some(*total),
            Self::File { .. } => None,
        }
    }

    /// Number of the last message, from 1; in a file, its line.
    pub fn number(&self) -> u64 {
        match self {
            Self::Given(bodies, total) => total - bodies.len() as u64,
            Self::File { line, .. } => *line,
        }
    }

    /// Name of the message with this number, for error messages.
    pub fn name(&self, number: u64) -> String {
        match self {
            Self::Given(..) => format!("message {number}"),
            Self::File { name, format: InputFormat::Whole, .. } => name.clone(),
            Self::File { name, .. } => format!("line {number} of {name}"),
        }
    }

    /// The next message, of a queue with this order.
    pub fn next(&mut self, order: Order) -> Result<Option<InputMessage>, CliError> {
        match self {
            Self::Given(bodies, _) => {
                Ok(bodies.next().map(|body| InputMessage { body, ..InputMessage::default() }))
            }
            Self::File { name, format: InputFormat::Whole, line, reader } => {
                if *line > 0 {
                    return Ok(None);
                }
                *line = 1;
                let mut body = Vec::new();
                reader.read_to_end(&mut body).map_err(CliError::io(format!("read {name}")))?;
                Ok(Some(InputMessage { body, ..InputMessage::default() }))
            }
            Self::File { name, format, line, reader } => loop {
                let mut text = Vec::new();
                let read = reader.read_until(b'\n', &mut text);
                if read.map_err(CliError::io(format!("read {name}")))? == 0 {
                    return Ok(None);
                }
                *line += 1;
                let end = text.strip_suffix(b"\n").map_or(text.len(), <[u8]>::len);
                text.truncate(end);
                if *format == InputFormat::Lines {
                    return Ok(Some(InputMessage { body: text, ..InputMessage::default() }));
                }
                if text.trim_ascii().is_empty() {
                    continue;
                }
                let item = object(&text, order).map_err(|why| CliError::Usage {
                    what: format!("line {line} of {name} is no message: {why}"),
                    help: format!(r#"write {{"body": "…"}} on each line; the fields are {}"#, fields::NAMES),
                })?;
                return Ok(Some(item));
            },
        }
    }
}

fn object(text: &[u8], order: Order) -> Result<InputMessage, String> {
    // serde would accept a JSON array for a struct, too: insist on an object.
    let fields: Map<String, Value> = serde_json::from_slice(text).map_err(|error| error.to_string())?;
    let object: JsonLine = serde_json::from_value(fields.into()).map_err(|error| error.to_string())?;
    let body = match (object.body, object.body_base64) {
        (Some(Value::String(text)), None) => text.into_bytes(),
        // A structured body is put as the JSON it is.
        (Some(value), None) => value.to_string().into_bytes(),
        (None, Some(text)) => STANDARD.decode(text).map_err(|error| format!("body_base64: {error}"))?,
        (None, None) => return Err("it has no body".to_owned()),
        (Some(_), Some(_)) => return Err("it has both body and body_base64".to_owned()),
    };
    let text = |value: Value| match value {
        Value::String(text) => text,
        other => other.to_string(),
    };
    let place = fields::destination(object.key.as_deref(), object.partition)?;
    let (delay, at) = (object.delay.map(text), object.at.map(text));
    let due = fields::due(delay.as_deref(), at.as_deref())?;
    let ttl = object.ttl.map(|ttl| fields::lifetime(&text(ttl))).transpose()?;
    let dedup = object.dedup.as_deref().map(fields::dedup_id).transpose()?;
    let priority = object.priority.map(|priority| fields::priority(&text(priority), order)).transpose()?;
    Ok(InputMessage { place, due, ttl, dedup, priority, body })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_say_where_and_when() {
        let object = |text: &[u8]| super::object(text, Order::Partition);
        let item = object(br#"{"body":"hi","key":"a"}"#).unwrap();
        assert_eq!((item.body.as_slice(), item.place), (&b"hi"[..], Some(Destination::Key(b"a".to_vec()))));
        let item = object(br#"{"body":{"to":[1,2]},"partition":3,"delay":60}"#).unwrap();
        assert_eq!(item.body, br#"{"to":[1,2]}"#);
        assert!(item.due.is_some_and(|due| due > Ticks::now()));
        assert_eq!(object(br#"{"body_base64":"/wA="}"#).unwrap().body, [0xff, 0]);
        for (text, ttl) in [(r#"{"body":"","ttl":60}"#, 60), (r#"{"body":"","ttl":"1h"}"#, 3600)] {
            assert_eq!(object(text.as_bytes()).unwrap().ttl, Some(Duration::from_secs(ttl)));
        }
    }

    #[test]
    fn what_is_no_message_is_told_why() {
        let object = |text: &[u8]| super::object(text, Order::Partition);
        for (text, why) in [
            ("{}", "no body"),
            ("[]", "invalid type"),
            ("hello", "expected"),
            (r#"{"body":"a","key":"b","partition":1}"#, "both key and partition"),
            (r#"{"body":"a","typo":1}"#, "unknown field"),
            (r#"{"body_base64":"*"}"#, "body_base64"),
            (r#"{"body":"a","delay":"soon"}"#, "not a duration"),
            (r#"{"body":"a","ttl":0}"#, "no time"),
            (r#"{"body":"a","dedup":""}"#, "1 to 251 bytes"),
            (r#"{"body":"a","priority":1}"#, "--order none"),
        ] {
            let error = object(text.as_bytes()).unwrap_err();
            assert!(error.contains(why), "{text}: {error}");
        }
    }
}
