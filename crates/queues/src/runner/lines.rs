//! The protocol between the worker and a program it feeds: JSON lines, one per question and one per answer.

use std::collections::HashMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use menagerie_journal::Message;
use menagerie_programs::lines::{Text, shorten};
use serde::{Deserialize, Serialize};

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

/// Whether the program handles one message at a time or lists.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// An object in, an object out.
    One,
    /// A list in, a list out.
    List,
}

/// Encodes the question about these messages.
pub fn question(work: &Work, shape: Shape) -> Vec<u8> {
    let one = |(index, message): (usize, &Message)| {
        let body = std::str::from_utf8(&message.body).ok();
        let question = Question {
            id: message.id.to_string(),
            queue: work.partition.queue().to_string(),
            partition: work.partition.number(),
            attempt: work.attempt_of(index),
            fence: work.fence.to_string(),
            body,
            body_base64: body.is_none().then(|| STANDARD.encode(&message.body)),
        };
        serde_json::to_vec(&question).expect("it has nothing that can fail")
    };
    let all: Vec<Vec<u8>> = work.messages.iter().enumerate().map(one).collect();
    let mut line = match shape {
        Shape::One => all.into_iter().next().unwrap_or_default(),
        Shape::List => [b"[", all.join(&b','.to_owned()).as_slice(), b"]"].concat(),
    };
    line.push(b'\n');
    line
}

/// Decodes an answer into an outcome per message; `Err` says what is wrong with it.
pub fn answer(line: &str, work: &Work, shape: Shape) -> Result<Vec<Outcome>, String> {
    let mut answers: Vec<Answer> = match shape {
        Shape::One => serde_json::from_str(line).map(|answer| vec![answer]),
        Shape::List => serde_json::from_str(line),
    }
    .map_err(|error| format!("it printed what is no answer ({error}): {}", shorten(line)))?;
    if answers.len() != work.messages.len() {
        return Err(format!("it gave {} answers to {} messages", answers.len(), work.messages.len()));
    }
    // Answers may come in any order; unknown ids sort first.
    let ids: Vec<String> = work.messages.iter().map(|message| message.id.to_string()).collect();
    let order: HashMap<&str, usize> = ids.iter().map(String::as_str).zip(0..).collect();
    answers.sort_by_key(|answer| order.get(answer.id.as_str()));
    let outcome = |(answer, id): (Answer, &String)| {
        if answer.id != *id {
            return Err(format!("it answered {} when it was asked {id}", shorten(&answer.id)));
        }
        Ok(match answer {
            Answer { ok: true, .. } => Outcome::Done,
            Answer { error, retry, .. } => Outcome::Failed(Failed {
                error: error
                    .map_or_else(|| "it said no more than that it failed".to_owned(), |Text(error)| error),
                output: Vec::new(),
                retry: retry.unwrap_or(true),
            }),
        })
    };
    answers.into_iter().zip(&ids).map(outcome).collect()
}

#[cfg(test)]
mod tests {

    use menagerie_journal::{MessageId, Ticks};
    use tokio::sync::watch;

    use super::*;
    use crate::task::Lease;

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
            attempt: 1,
            repeats: 0,
            fence: "1-1".parse().unwrap(),
            lease: Lease::new(
                watch::channel(menagerie_kernel::Moment::now()).1,
                watch::channel(std::time::Duration::ZERO).1,
                watch::channel(false).1,
            ),
        }
    }

    fn error(line: &str) -> String {
        match answer(line, &work(&[b""]), Shape::One).unwrap().remove(0) {
            Outcome::Failed(failed) => failed.error,
            Outcome::Done | Outcome::Stopped => panic!("{line} is a failure"),
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
            answer(&format!("[{}]", order.map(one).join(",")), &work, Shape::List)
        };
        let [first, second, third] = answers([2, 0, 1]).unwrap().try_into().unwrap();
        assert_eq!((first, third), (Outcome::Done, Outcome::Done));
        assert!(matches!(second, Outcome::Failed(_)));
        for wrong in [[0, 0, 1], [0, 1, 1], [2, 2, 2], [0, 1, 3]] {
            assert!(answers(wrong).is_err_and(|why| why.contains("when it was asked")), "{wrong:?}");
        }
    }

    #[test]
    fn half_a_character_does_not_spoil_an_answer() {
        let line = |more: &str| format!(r#"{{"id":"{}","ok":false{more}}}"#, work(&[b""]).messages[0].id);
        let half = error(&line(r#","error":"caf\udce9!\ud83d","more":"\udce9""#));
        assert!(half.starts_with("caf\u{fffd}") && half.contains('!'), "{half}");
        assert_eq!(error(&line(r#","error":"caf\u00e9 \ud83d\ude00 \n""#)), "café \u{1f600} \n");
        assert_eq!(error(&line(r#","error":null"#)), "it said no more than that it failed");
        assert!(answer(&line(r#","error":3"#), &work(&[b""]), Shape::One).is_err());
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
