//! The protocol between the worker and a program it feeds: JSON lines, one per question and one per answer.

use std::collections::HashMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use menagerie_journal::Message;
use menagerie_programs::lines::{Text, shorten};
use menagerie_programs::serve::Judged;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use crate::message_uuid::MessageUuid;
use crate::task::{Failed, Outcome, Work};

/// A message as the program receives it.
#[derive(Debug, Serialize)]
struct Question<'a> {
    id: String,
    queue: String,
    partition: u16,
    attempt: u32,
    fence: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    body: Option<&'a str>,
    /// In place of `body` if that is not UTF-8.
    #[serde(skip_serializing_if = "Option::is_none")]
    body_base64: Option<String>,
}

/// The program's answer about a message.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
struct Answer {
    id: String,
    ok: bool,
    #[serde(default)]
    error: Option<Text>,
    #[serde(default)]
    retry: Option<bool>,
}

/// Whose answer a line is, if it is one.
#[derive(Debug, Deserialize)]
struct Head {
    id: Text,
}

/// Whether the program handles one message at a time or lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// An object in, an object out.
    One,
    /// A list in, a list out.
    List,
}

/// The id of a message in questions and answers.
pub fn id(work: &Work, message: &Message) -> String {
    MessageUuid::of(&work.partition, message).to_string()
}

/// Encodes the question about these messages.
pub fn question(work: &Work, shape: Shape) -> Vec<u8> {
    let one = |(index, message): (usize, &Message)| one_question(work, index, message);
    let all = || work.messages.iter().enumerate().map(one);
    let mut line = match shape {
        Shape::One => all().next().unwrap_or_default(),
        Shape::List => [b"[", all().collect::<Vec<_>>().join(&b','.to_owned()).as_slice(), b"]"].concat(),
    };
    line.push(b'\n');
    line
}

fn one_question(work: &Work, index: usize, message: &Message) -> Vec<u8> {
    let body = std::str::from_utf8(&message.body).ok();
    let question = Question {
        id: id(work, message),
        queue: work.partition.queue().to_string(),
        partition: work.partition.number(),
        attempt: work.attempt_of(index),
        fence: work.fence.to_string(),
        body,
        body_base64: body.is_none().then(|| STANDARD.encode(&message.body)),
    };
    serde_json::to_vec(&question).expect("it has nothing that can fail")
}

/// Decodes a line: the outcomes of these messages, in their order. Only a line with the id of one of them is an answer.
pub fn judge(line: &str, work: &Work, shape: Shape) -> Judged<Vec<Outcome>> {
    let outcomes = match shape {
        Shape::One => match (one_answer(line), work.messages.first()) {
            (Some((answered, outcome)), Some(asked)) if answered == id(work, asked) => {
                outcome.map(|outcome| vec![outcome])
            }
            (Some(_) | None, _) => return Judged::Stray,
        },
        Shape::List => match list_answer(line, work) {
            Some(outcomes) => outcomes,
            None => return Judged::Stray,
        },
    };
    match outcomes {
        Err(why) => Judged::Invalid(why),
        Ok(outcomes) if outcomes.iter().all(|outcome| *outcome == Outcome::Done) => Judged::Good(outcomes),
        Ok(outcomes) => Judged::Bad(outcomes),
    }
}

/// Decodes the answer about one message: its id, and the outcome or what is wrong with it. `None` if it is no answer.
pub fn one_answer(line: &str) -> Option<(String, Result<Outcome, String>)> {
    match serde_json::from_str(line) {
        Ok(Answer { id, ok: true, .. }) => Some((id, Ok(Outcome::Done))),
        Ok(Answer { id, ok: false, error, retry }) => Some((id, Ok(failed(error, retry)))),
        Err(error) => {
            let Head { id: Text(id) } = serde_json::from_str(line).ok()?;
            Some((id, Err(invalid(line, &error))))
        }
    }
}

/// Decodes the answers about a list of messages. `None` if none of them is about one of these messages.
fn list_answer(line: &str, work: &Work) -> Option<Result<Vec<Outcome>, String>> {
    let ids: Vec<String> = work.messages.iter().map(|message| id(work, message)).collect();
    let order: HashMap<&str, usize> = ids.iter().map(String::as_str).zip(0..).collect();
    let mut answers = match serde_json::from_str::<Vec<Answer>>(line) {
        Ok(answers) => {
            answers.iter().find(|answer| order.contains_key(answer.id.as_str()))?;
            answers
        }
        Err(error) => {
            let values: Vec<&RawValue> = serde_json::from_str(line).ok()?;
            let about = |value: &&RawValue| serde_json::from_str::<Head>(value.get()).ok();
            values.iter().filter_map(about).find(|Head { id }| order.contains_key(id.0.as_str()))?;
            return Some(Err(invalid(line, &error)));
        }
    };
    if answers.len() != ids.len() {
        return Some(Err(format!("it gave {} answers to {} messages", answers.len(), ids.len())));
    }
    // Answers may come in any order; unknown ids sort first.
    answers.sort_by_key(|answer| order.get(answer.id.as_str()));
    let outcome = |(answer, id): (Answer, &String)| match answer {
        Answer { id: other, .. } if other != *id => {
            Err(format!("it answered {} when it was asked {id}", shorten(&other)))
        }
        Answer { ok: true, .. } => Ok(Outcome::Done),
        Answer { error, retry, .. } => Ok(failed(error, retry)),
    };
    Some(answers.into_iter().zip(&ids).map(outcome).collect())
}

fn failed(error: Option<Text>, retry: Option<bool>) -> Outcome {
    let error = error.map_or_else(|| "it said no more than that it failed".to_owned(), |Text(error)| error);
    Outcome::Failed(Failed { error, output: Vec::new(), retry: retry.unwrap_or(true) })
}

fn invalid(line: &str, error: &serde_json::Error) -> String {
    format!("its reply is invalid ({error}): {}", shorten(line))
}

#[cfg(test)]
mod tests {

    use menagerie_journal::{MessageId, Ticks};
    use tokio::sync::watch;

    use super::*;
    use crate::task::{Begun, Lease};

    fn work(bodies: &[&'static [u8]]) -> Work {
        let message = |(number, body): (u64, &&'static [u8])| Message {
            id: MessageId(Ticks(number)),
            meta: bytes::Bytes::new(),
            body: bytes::Bytes::from_static(body),
            expires: None,
        };
        Work {
            partition: "mail-1".parse().unwrap(),
            messages: (1..).zip(bodies).map(message).collect(),
            attempts: vec![1],
            time_limit: None,
            fence: "1-1".parse().unwrap(),
            lease: Lease::new(
                watch::channel(menagerie_kernel::Moment::now()).1,
                watch::channel(std::time::Duration::ZERO).1,
                watch::channel(false).1,
            ),
            begun: Begun::default(),
        }
    }

    fn error(line: &str) -> String {
        match judge(line, &work(&[b""]), Shape::One) {
            Judged::Bad(mut outcomes) => match outcomes.remove(0) {
                Outcome::Failed(failed) => failed.error,
                Outcome::Done | Outcome::Stopped => panic!("{line} is a failure"),
            },
            other => panic!("{line} is a failure, not {other:?}"),
        }
    }

    #[test]
    fn answers_may_come_in_any_order_but_one_for_each() {
        let work = work(&[b"a", b"b", b"c"]);
        let ids: Vec<String> = work.messages.iter().map(|message| message.id.to_string()).collect();
        let answers = |order: [usize; 3]| {
            let one = |index: usize| {
                let id = ids.get(index).map_or("another", String::as_str);
                format!(r#"{{"id":"{id}","ok":{}}}"#, index != 1)
            };
            judge(&format!("[{}]", order.map(one).join(",")), &work, Shape::List)
        };
        let Judged::Bad(outcomes) = answers([2, 0, 1]) else { panic!("the second has failed") };
        let [first, second, third] = outcomes.try_into().unwrap();
        assert_eq!((first, third), (Outcome::Done, Outcome::Done));
        assert!(matches!(second, Outcome::Failed(_)));
        for wrong in [[0, 0, 1], [0, 1, 1], [2, 2, 2], [0, 1, 3]] {
            let Judged::Invalid(why) = answers(wrong) else { panic!("{wrong:?} is invalid") };
            assert!(why.contains("when it was asked"), "{wrong:?}: {why}");
        }
    }

    #[test]
    fn half_a_character_does_not_spoil_an_answer() {
        let line = |more: &str| format!(r#"{{"id":"{}","ok":false{more}}}"#, work(&[b""]).messages[0].id);
        let half = error(&line(r#","error":"caf\udce9!\ud83d","more":"\udce9""#));
        assert!(half.starts_with("caf\u{fffd}") && half.contains('!'), "{half}");
        assert_eq!(error(&line(r#","error":"caf\u00e9 \ud83d\ude00 \n""#)), "café \u{1f600} \n");
        assert_eq!(error(&line(r#","error":null"#)), "it said no more than that it failed");
    }

    #[test]
    fn only_a_line_with_an_id_that_was_asked_is_an_answer() {
        let (work, id) = (work(&[b"a", b"b"]), work(&[b"a"]).messages[0].id.to_string());
        let stray =
            ["", "hello", "3", "null", "{", "{}", r#"{"ok":true}"#, r#"{"id":1,"ok":true}"#, "[]", "[3]"];
        let other = [r#"{"id":"other","ok":true}"#, r#"{"id":"other"}"#, r#"[{"id":"other","ok":true}]"#];
        let half = format!(r#"{{"id":"{id}","ok":"#);
        for line in stray.into_iter().chain(other).chain([half.as_str()]) {
            for shape in [Shape::One, Shape::List] {
                assert_eq!(judge(line, &work, shape), Judged::Stray, "{line}");
            }
        }
        for more in
            ["", r#","ok":"yes""#, r#","ok":null"#, r#","ok":false,"error":3"#, r#","ok":true,"ok":true"#]
        {
            let line = format!(r#"{{"id":"{id}"{more}}}"#);
            assert!(matches!(judge(&line, &work, Shape::One), Judged::Invalid(_)), "{line}");
            let line = format!("[3,{line}]");
            assert!(matches!(judge(&line, &work, Shape::List), Judged::Invalid(_)), "{line}");
        }
        let short = format!(r#"[{{"id":"{id}","ok":true}}]"#);
        assert!(
            matches!(judge(&short, &work, Shape::List), Judged::Invalid(why) if why.contains("1 answers to 2"))
        );
    }

    #[test]
    fn half_a_question_is_no_json() {
        for shape in [Shape::One, Shape::List] {
            let line = question(&work(&[b"{}", b"1"]), shape);
            let whole = line.len() - 1;
            let reads = |end: usize| serde_json::from_slice::<serde_json::Value>(&line[..end]).is_ok();
            assert_eq!((0..=whole).filter(|end| reads(*end)).collect::<Vec<_>>(), [whole]);
        }
    }
}
