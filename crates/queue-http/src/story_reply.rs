//! The reply with one message and its story, as far as its reader may know it.

use menagerie_queues::Via;
use menagerie_queues::story::{ActKind, Line, Outcome, State, Story};
use serde::Serialize;

use crate::reply::{Reply, base64, body};

/// Who reads a story.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Audience {
    /// Somebody who works with the queue.
    Insiders,
    /// Anybody: who works where, and what goes wrong there, is nobody else's business.
    Public,
}

#[derive(Serialize)]
struct OneMessage<'a> {
    message: Shown<'a>,
}

/// A message, and what has become of it.
#[derive(Serialize)]
struct Shown<'a> {
    state: State,
    message_id: String,
    /// `None` while it is delayed, and of one that was cancelled.
    timestamp: Option<&'a str>,
    partition: u16,
    key: Option<&'a str>,
    /// Neither of both if it is no longer kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    body: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none", serialize_with = "base64")]
    body_base64: Option<&'a [u8]>,
    story: Vec<ShownLine<'a>>,
    story_is_incomplete: bool,
}

/// A line of a story; `null` where its reader must not know.
#[derive(Serialize)]
#[serde(tag = "what", rename_all = "snake_case")]
enum ShownLine<'a> {
    Put {
        at_ms: u64,
        by: Option<&'a str>,
        via: Option<Via>,
    },
    Due {
        at_ms: u64,
    },
    Attempt {
        at_ms: u64,
        worker: Option<&'a str>,
        attempt: u32,
        took_ms: Option<u64>,
        outcome: Outcome,
        error: Option<&'a str>,
        next_ms: Option<u64>,
    },
    Running {
        at_ms: u64,
        worker: Option<&'a str>,
        attempt: Option<u32>,
    },
    Act {
        at_ms: u64,
        act: ActKind,
        by: Option<&'a str>,
    },
}

impl Reply {
    /// One message, and its story.
    pub(crate) fn story(story: &Story, audience: Audience) -> Self {
        let (body, body_base64) = story.message.as_ref().map(body).unwrap_or_default();
        let is_public = audience == Audience::Public;
        let shown = Shown {
            state: story.state,
            message_id: story.id.hex(),
            timestamp: story.position.as_deref(),
            partition: story.partition.number(),
            key: story.key.as_deref().filter(|_| !is_public),
            body,
            body_base64,
            story: story.lines.iter().map(|line| shown(line, is_public)).collect(),
            story_is_incomplete: story.is_incomplete,
        };
        Self { messages: 1, ..Self::ok(200, OneMessage { message: shown }) }
    }
}

fn unless(is_hidden: bool, text: Option<&String>) -> Option<&str> {
    text.filter(|_| !is_hidden).map(String::as_str)
}

fn shown(line: &Line, is_public: bool) -> ShownLine<'_> {
    match line {
        Line::Put { at_ms, by, via } => {
            ShownLine::Put { at_ms: *at_ms, by: unless(is_public, by.as_ref()), via: *via }
        }
        Line::Due { at_ms } => ShownLine::Due { at_ms: *at_ms },
        Line::Attempt { at_ms, worker, attempt, took_ms, outcome, error, next_ms } => ShownLine::Attempt {
            at_ms: *at_ms,
            worker: unless(is_public, Some(worker)),
            attempt: *attempt,
            took_ms: *took_ms,
            outcome: *outcome,
            error: unless(is_public, error.as_ref()),
            next_ms: *next_ms,
        },
        Line::Running { at_ms, worker, attempt } => {
            ShownLine::Running { at_ms: *at_ms, worker: unless(is_public, Some(worker)), attempt: *attempt }
        }
        Line::Act { at_ms, act, by } => {
            ShownLine::Act { at_ms: *at_ms, act: *act, by: unless(is_public, by.as_ref()) }
        }
    }
}
