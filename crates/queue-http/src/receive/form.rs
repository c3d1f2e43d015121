//! What clients say when they receive messages, and when they say what became of them.

use std::time::Duration;

use menagerie_types::duration;
use serde_json::{Map, Value};

use super::receipt::Receipt;
use crate::form::{Problems, Reasons, integer, wait};

/// Most messages in one reply.
pub const MESSAGES_MAX: u64 = 100;
/// Most receipts in one request.
pub const RECEIPTS_MAX: usize = 1_000;
/// Largest request: what a thousand receipts and an error text need, and little more.
pub const BODY_BYTES_MAX: usize = 256 << 10;
/// How long a message is a client's own, unless it says otherwise.
pub const VISIBLE_AFTER_DEFAULT: Duration = Duration::from_secs(30);
/// Shortest such time.
pub const VISIBLE_AFTER_MIN: Duration = Duration::from_secs(1);
/// Longest such time.
pub const VISIBLE_AFTER_MAX: Duration = Duration::from_secs(12 * 3600);

/// Which messages to receive.
#[derive(Debug, Clone, PartialEq)]
pub struct ReceiveForm {
    /// Most messages.
    pub max: usize,
    /// How long to wait for the first one.
    pub wait: Duration,
    /// How long they are the client's own.
    pub visible_after: Duration,
}

/// What became of messages.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// They are done.
    Ack,
    /// They are not.
    Nack {
        /// Why.
        error: String,
        /// Whether another attempt may succeed.
        retry: bool,
    },
    /// They take this much longer, from now on.
    Extend(Duration),
}

/// What a client can say about messages it has received.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AnswerKind {
    /// `…/ack`
    Ack,
    /// `…/nack`
    Nack,
    /// `…/extend`
    Extend,
}

impl ReceiveForm {
    /// Parses a JSON object; an empty body means the defaults.
    pub fn parse(body: &[u8]) -> Result<Self, Reasons> {
        let fields = Fields::parse(body, &["max", "wait", "visible_after"])?;
        let mut problems = Problems::default();
        let max = fields.number(&mut problems, "max", |text| integer(text, 1, MESSAGES_MAX)).unwrap_or(1);
        let form = Self {
            max: usize::try_from(max).unwrap_or(usize::MAX),
            wait: fields.number(&mut problems, "wait", wait).unwrap_or_default(),
            visible_after: fields
                .number(&mut problems, "visible_after", visible_after)
                .unwrap_or(VISIBLE_AFTER_DEFAULT),
        };
        problems.finish(Some(form))
    }
}

impl AnswerKind {
    /// Parses a JSON object with receipts.
    pub fn parse(self, body: &[u8]) -> Result<(Vec<Receipt>, Answer), Reasons> {
        let names: &[&str] = match self {
            Self::Ack => &["receipts"],
            Self::Nack => &["receipts", "error", "retry"],
            Self::Extend => &["receipts", "visible_after"],
        };
        let fields = Fields::parse(body, names)?;
        let mut problems = Problems::default();
        let receipts = fields.receipts(&mut problems);
        let answer = match self {
            Self::Ack => Answer::Ack,
            Self::Nack => Answer::Nack {
                error: problems.check("error", fields.error()).unwrap_or_default(),
                retry: problems.check("retry", fields.retry()).unwrap_or(true),
            },
            Self::Extend => {
                let more = fields.number(&mut problems, "visible_after", visible_after);
                Answer::Extend(more.unwrap_or(VISIBLE_AFTER_DEFAULT))
            }
        };
        problems.finish(receipts.map(|receipts| (receipts, answer)))
    }
}

/// The fields of a JSON object, all of them known.
struct Fields(Map<String, Value>);

impl Fields {
    fn parse(body: &[u8], names: &[&str]) -> Result<Self, Reasons> {
        if body.trim_ascii().is_empty() {
            return Ok(Self(Map::new()));
        }
        let fields: Map<String, Value> = serde_json::from_slice(body).map_err(|_| {
            let reason = "Unable to properly deserialize JSON body.".to_owned();
            Reasons::from([("InvalidParameter".to_owned(), reason)])
        })?;
        let unknown = fields.keys().filter(|name| !names.contains(&name.as_str()));
        let why = format!("Unknown field: there are {}", names.join(", "));
        let reasons: Reasons = unknown.take(1).map(|name| (name.clone(), why.clone())).collect();
        if reasons.is_empty() { Ok(Self(fields)) } else { Err(reasons) }
    }

    /// A field, unless it is missing or null.
    fn get(&self, name: &str) -> Option<&Value> {
        self.0.get(name).filter(|value| !value.is_null())
    }

    /// A number, which clients may write as a string.
    fn number<T>(
        &self,
        problems: &mut Problems,
        name: &str,
        parse: impl FnOnce(&str) -> Result<T, String>,
    ) -> Option<T> {
        let parsed = match self.get(name)? {
            Value::Number(number) => parse(&number.to_string()),
            Value::String(text) => parse(text),
            other => Err(format!("{} is not a number", kind(other))),
        };
        problems.check(name, parsed)
    }

    fn error(&self) -> Result<String, String> {
        match self.get("error") {
            None => Ok("refused by the client that received it".to_owned()),
            Some(Value::String(text)) => Ok(text.clone()),
            Some(other) => Err(format!("{} is not a string", kind(other))),
        }
    }

    fn retry(&self) -> Result<bool, String> {
        match self.get("retry") {
            None => Ok(true),
            Some(Value::Bool(retry)) => Ok(*retry),
            Some(other) => Err(format!("{} is not true or false", kind(other))),
        }
    }

    fn receipts(&self, problems: &mut Problems) -> Option<Vec<Receipt>> {
        let list = match self.get("receipts") {
            None => Err("Required".to_owned()),
            Some(Value::Array(list)) if list.len() > RECEIPTS_MAX => {
                Err(format!("{} are more than {RECEIPTS_MAX}", list.len()))
            }
            Some(Value::Array(list)) if list.is_empty() => Err("Required".to_owned()),
            Some(Value::Array(list)) => Ok(list),
            Some(other) => Err(format!("{} is not a list", kind(other))),
        };
        let receipt = |value: &Value| {
            let receipt = value.as_str().and_then(Receipt::decode);
            receipt.ok_or_else(|| "it is not a receipt, as `receive` gives them".to_owned())
        };
        let each = problems.check("receipts", list)?.iter().enumerate();
        let each: Vec<_> = each.map(|(index, value)| problems.check(&name(index), receipt(value))).collect();
        each.into_iter().collect()
    }
}

/// Name of a receipt in an error reply.
pub fn name(index: usize) -> String {
    format!("receipts.{index}")
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a truth value",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

/// Seconds, or a duration with a unit.
fn visible_after(text: &str) -> Result<Duration, String> {
    let duration = duration::parse(text)?;
    match (VISIBLE_AFTER_MIN..=VISIBLE_AFTER_MAX).contains(&duration) {
        true => Ok(duration),
        false => Err(format!("{text} is not between 1s and 12h")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fields<T: std::fmt::Debug>(result: Result<T, Reasons>) -> Vec<String> {
        result.unwrap_err().into_keys().collect()
    }

    #[test]
    fn receiving_needs_no_words() {
        let usual = ReceiveForm::parse(b"").unwrap();
        assert_eq!((usual.max, usual.wait, usual.visible_after), (1, Duration::ZERO, VISIBLE_AFTER_DEFAULT));
        assert_eq!(ReceiveForm::parse(br#"{"wait":null}"#), Ok(usual));
        let all = ReceiveForm::parse(br#"{"max":"100","wait":1.5,"visible_after":"12h"}"#).unwrap();
        assert_eq!((all.max, all.wait), (100, Duration::from_millis(1_500)));
        assert_eq!(all.visible_after, VISIBLE_AFTER_MAX);
        let wrong = br#"{"max":0,"wait":61,"visible_after":"13h"}"#;
        assert_eq!(fields(ReceiveForm::parse(wrong)), ["max", "visible_after", "wait"]);
        for (text, field) in [
            (&br#"{"max":101}"#[..], "max"),
            (br#"{"max":[1]}"#, "max"),
            (br#"{"max":1.5}"#, "max"),
            (br#"{"visible_after":0}"#, "visible_after"),
            (br#"{"visible_after":1.5}"#, "visible_after"),
            (br#"{"wait":-1}"#, "wait"),
            (br#"{"colour":1}"#, "colour"),
            (b"[]", "InvalidParameter"),
            (b"max=1", "InvalidParameter"),
        ] {
            assert_eq!(fields(ReceiveForm::parse(text)), [field], "{}", String::from_utf8_lossy(text));
        }
    }

    #[test]
    fn answers_are_for_receipts() {
        let fence = menagerie_kernel::Fence::new(1, 2);
        let receipt =
            Receipt { server: 1, partition: 1, fence, message: menagerie_journal::MessageId::ZERO, nonce: 1 };
        let text = receipt.encode();
        let body = |more: &str| format!(r#"{{"receipts":["{text}"]{more}}}"#).into_bytes();
        assert_eq!(AnswerKind::Ack.parse(&body("")), Ok((vec![receipt], Answer::Ack)));
        let (_, nack) = AnswerKind::Nack.parse(&body(r#","error":"no","retry":false"#)).unwrap();
        assert_eq!(nack, Answer::Nack { error: "no".into(), retry: false });
        let (_, longer) = AnswerKind::Extend.parse(&body(r#","visible_after":60"#)).unwrap();
        assert_eq!(longer, Answer::Extend(Duration::from_secs(60)));
        assert_eq!(fields(AnswerKind::Ack.parse(&body(r#","retry":true"#))), ["retry"]);
        assert_eq!(fields(AnswerKind::Nack.parse(&body(r#","error":5,"retry":"no""#))), ["error", "retry"]);
        for wrong in ["", "{}", r#"{"receipts":[]}"#, r#"{"receipts":"x"}"#] {
            assert_eq!(fields(AnswerKind::Ack.parse(wrong.as_bytes())), ["receipts"], "{wrong}");
        }
        let one_wrong = format!(r#"{{"receipts":["{text}","x",7]}}"#);
        assert_eq!(fields(AnswerKind::Ack.parse(one_wrong.as_bytes())), ["receipts.1", "receipts.2"]);
        let many = format!(r#"{{"receipts":[{}]}}"#, vec!["1"; RECEIPTS_MAX + 1].join(","));
        assert_eq!(fields(AnswerKind::Extend.parse(many.as_bytes())), ["receipts"]);
    }
}
