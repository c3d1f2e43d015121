use bytes::Bytes;
use menagerie_journal::{DelayedId, Message, MessageId, Ticks};
use menagerie_testkit::assert_described;
use menagerie_znodes::Name;
use menagerie_znodes::queues::{self, Handling, Keep, Pause, Retry, Schedule};

use super::*;
use crate::admin::browse::QueuedMessage;
use crate::admin::delayed::DelayedMessage;
use crate::admin::failed::FailedMessage;
use crate::admin::schedule::ScheduleView;
use crate::admin::show::{PartitionView, QueueView, Rate, RetryingView, RunningView, WorkerEntry};
use crate::core::activity::Recent;
use crate::failed::FailureRecord;
use crate::story::{ActKind, FoundMessage, Line, Outcome, State, Story};
use crate::{MessageUuid, Meta, Via};

fn position() -> MessageId {
    MessageId(Ticks(140_000_000_000_000_000))
}

fn id() -> MessageUuid {
    MessageUuid::old(position())
}

fn message(body: &'static [u8]) -> Message {
    let meta = Meta { via: Some(Via::Cli), ..Meta::default() };
    Message { id: position(), meta: meta.encode(), body: Bytes::from_static(body), expires: None }
}

fn partition() -> PartitionView {
    PartitionView {
        partition: "billing:mail-1".parse().unwrap(),
        owner: None,
        owner_paused: false,
        owner_pause: None,
        cursor: position().seconds(),
        ahead_ms: None,
        messages: 1,
        lag: 1,
        oldest_ms: None,
        oldest_since_ms: None,
        delayed: 0,
        failed: 0,
        running: Vec::new(),
        running_count: 0,
        retrying: Vec::new(),
        retrying_count: 0,
        last_end_ms: None,
        told_ms: None,
        recent: None,
        rate: None,
    }
}

fn busy() -> PartitionView {
    let pause = Pause { by: "ann@web".to_owned(), reason: None };
    let error = "no route".to_owned();
    PartitionView {
        owner: Some(Name::new("w1").unwrap()),
        owner_pause: Some(pause),
        ahead_ms: Some(1),
        oldest_ms: Some(2),
        oldest_since_ms: Some(5),
        running: vec![RunningView { id: id(), attempt: 1, for_ms: 2, since_ms: 5, silent: false }],
        retrying: vec![RetryingView {
            id: id(),
            attempt: 1,
            attempts: 2,
            in_ms: 3,
            next_ms: 8,
            error: error.clone(),
        }],
        last_end_ms: Some(3),
        told_ms: Some(4),
        recent: Some(Recent { error: Some((error, 3)), ..Recent::default() }),
        rate: Some(Rate { put: None, handled: 0.5 }),
        ..partition()
    }
}

fn queue(partitions: Vec<PartitionView>) -> QueueView {
    QueueView {
        queue: "billing:mail".parse().unwrap(),
        journal: "main".to_owned(),
        keep: Keep::Forever,
        handling: Handling { retry: Some(Retry::Later), attempts: 3.try_into().ok(), ..Handling::default() },
        paused: Some(Pause { by: "ann@web".to_owned(), reason: Some("upgrade".to_owned()) }),
        failed: 0,
        failed_uncounted: 0,
        workers: 1,
        partitions,
        without_cursor: vec!["billing:mail-2".parse().unwrap()],
    }
}

fn record() -> FailureRecord {
    FailureRecord {
        id: Some(id()),
        put: Some(Ticks(1)),
        by: Some("ann".to_owned()),
        via: Some(Via::Http),
        key: Some("k".to_owned()),
        priority: -1,
        origin: "mail-1".parse().unwrap(),
        message: position().to_string(),
        error: "no route".to_owned(),
        attempts: 3,
        retries: 0,
        output: String::new(),
        ttl: Some(std::time::Duration::from_secs(1)),
    }
}

#[test]
fn queues_are_as_their_schemas_say() {
    let view = queue(vec![partition(), busy()]);
    assert_described(&view);
    assert_described(&QueueRow::of(&view));
    assert_described(&QueueOverview::of(view));
    let plain = QueueView { keep: Keep::default(), handling: Handling::default(), ..queue(Vec::new()) };
    assert_described(&QueueOverview::of(QueueView { paused: None, ..plain }));
    let worker = Name::new("w1").unwrap();
    let partitions = vec!["mail-1".parse().unwrap()];
    assert_described(&WorkerEntry { worker, partitions, serves: None, paused: false });
}

#[test]
fn messages_are_as_their_schemas_say() {
    let partition: queues::PartitionName = "mail-1".parse().unwrap();
    for body in [&b"order 17"[..], b"\xff"] {
        let message = message(body);
        assert_described(&MessageView::of(&QueuedMessage {
            partition: partition.clone(),
            message: message.clone(),
        }));
        let place = DelayedId { due: Ticks(2), put: Ticks(1) };
        let delayed = DelayedMessage { place, partition: partition.clone(), message: message.clone() };
        assert_described(&DelayedMessageView::of(&delayed));
        for record in [None, Some(record())] {
            let failed = FailedMessage { id: id(), position: position(), record, message: message.clone() };
            assert_described(&FailedMessageView::of(&failed, &partition));
        }
    }
    for body in [None, Some(Bytes::from_static(b"order"))] {
        assert_described(&FoundMessageView::of(FoundMessage {
            id: id().to_string(),
            partition: partition.clone(),
            position: None,
            state: State::Retrying,
            key: None,
            put: Ticks(1),
            error: None,
            bytes: body.as_ref().map(Bytes::len),
            body,
        }));
    }
}

#[test]
fn stories_are_as_their_schemas_say() {
    let worker = || "w1".to_owned();
    let lines = vec![
        Line::Put { at_ms: 1, by: None, via: Some(Via::Library) },
        Line::Due { at_ms: 2 },
        Line::Attempt {
            at_ms: 3,
            worker: worker(),
            attempt: 1,
            took_ms: Some(4),
            outcome: Outcome::Retry,
            error: Some("no route".to_owned()),
            next_ms: None,
        },
        Line::Running { at_ms: 4, worker: worker(), attempt: None },
        Line::Act { at_ms: 5, act: ActKind::Retried, by: None },
    ];
    assert_described(&Story {
        id: id(),
        partition: "mail-1".parse().unwrap(),
        position: None,
        state: State::Waiting,
        key: None,
        lines,
        is_incomplete: false,
        is_cut_short: false,
        message: Some(message(b"order")),
    });
}

#[test]
fn schedules_are_as_their_schemas_say() {
    let schedule = Schedule {
        queue: "mail".parse().unwrap(),
        cron: "0 3 * * *".to_owned(),
        tz: "UTC".to_owned(),
        catch_up: false,
        body: queues::Body::Base64("/w==".to_owned()),
        key: None,
        partition: Some(1),
        ttl_ms: None,
        by: "ann".to_owned(),
        added_ms: 1,
    };
    for schedule in [Ok(schedule), Err("it is no JSON".to_owned())] {
        let name = Name::new("nightly").unwrap();
        assert_described(&ScheduleRow::of(ScheduleView { name, schedule, record: None, problem: None }));
    }
}
