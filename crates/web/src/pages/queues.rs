//! Queues: how far behind, who handles what, and what became of a message.

use maud::{Markup, html};
use menagerie_queues::admin::show::{PartitionView, Rate, WorkerEntry};
use menagerie_queues::view::{Body, MessageView, QueueOverview, QueueRow, QueueState, sentence};
use menagerie_znodes::web::{Area, Scope};

use super::buttons::Button;
use super::parts::{self, Mood, badge, dash, facts, foreign, maybe, maybe_time, part, table, time};
use super::{Content, Viewer, charts};
use crate::problem::Problem;
use crate::reads;

/// Waiting messages that the page of a queue shows.
const WAITING: usize = 10;
/// Characters of a body that fit into a table.
const BODY_CHARS_MAX: usize = 200;

/// All queues, and all workers.
pub async fn queues(viewer: Viewer) -> Result<Content, Problem> {
    let listing = reads::queues::queues(viewer.sources.clone(), viewer.params.clone()).await?;
    let workers = reads::queues::workers(viewer.sources.clone(), Default::default()).await?;
    let heads = ["Queue", "Waiting", "Oldest", "Failed", "Delayed", "Partitions", "State"];
    let main = html! {
        h1 { "Queues" }
        (parts::filter(&viewer.params, "Queues with"))
        @if listing.items.is_empty() {
            p { "No queues. One is made, filled and handled by:" }
            (parts::command("menagerie queue create mail --partitions 4\nmenagerie queue put mail hello\nmenagerie worker mail -- cat"))
        } @else {
            (table("Queues", &heads, &html! { @for row in &listing.items { (queue_row(row)) } }))
        }
        (parts::pager(&viewer.params, listing.next.as_ref()))
        @if workers.items.is_empty() {
            p { "No workers. One is started by:" } (parts::command("menagerie worker QUEUE -- COMMAND"))
        } @else {
            (table("Workers", &["Worker", "State", "Serves", "Partitions", "Act"], &html! {
                @for worker in &workers.items { (worker_row(&viewer, worker)) }
            }))
        }
    };
    Ok(Content { title: "Queues".to_owned(), main })
}

fn queue_row(row: &QueueRow) -> Markup {
    let queue = row.queue.to_string();
    let failed = format!("/queues/{}/failed", part(&queue));
    html! {
        tr id=(format!("queue-{}", part(&queue))) {
            th scope="row" { (parts::link("/queues", &queue)) }
            td.number { (maybe(row.lag)) }
            td { (maybe_time(row.oldest_since_ms)) }
            td.number {
                @match row.failed {
                    Some(0) | None => { (maybe(row.failed)) }
                    Some(count) => { a href=(failed) { (count) } }
                }
            }
            td.number { (maybe(row.delayed)) }
            td.number { (maybe(row.partitions)) }
            td { (state(row.state)) @if let Some(reason) = &row.reason { " " (foreign(reason)) } }
        }
    }
}

/// The state of a queue.
pub fn state(state: QueueState) -> Markup {
    let mood = match state {
        QueueState::Open => Mood::Good,
        QueueState::Paused | QueueState::WorkersPaused | QueueState::PartlyPaused => Mood::Warn,
        QueueState::NoWorkers | QueueState::PartlyOwned => Mood::Warn,
        QueueState::Refused
        | QueueState::JournalDamaged
        | QueueState::NotInJournal
        | QueueState::JournalAway
        | QueueState::Unreadable => Mood::Bad,
    };
    badge(mood, state.as_str())
}

fn worker_row(viewer: &Viewer, worker: &WorkerEntry) -> Markup {
    let name = worker.worker.to_string();
    let serves = worker.serves.iter().flatten().map(ToString::to_string).collect::<Vec<_>>().join(" ");
    let partitions = worker.partitions.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
    let (act, label) = if worker.paused { ("resume", "Resume") } else { ("pause", "Pause") };
    let button = Button {
        rights: viewer.rights,
        takes: (Area::Queues, Scope::Operate),
        path: format!("/workers/{}/{act}", part(&name)),
        label,
        fields: &[],
        asks: None,
        warns: None,
    };
    html! {
        tr id=(format!("worker-{}", part(&name))) {
            th scope="row" { (foreign(&name)) }
            td { @if worker.paused { (badge(Mood::Warn, "paused")) } @else { (badge(Mood::Good, "running")) } }
            td { (serves) }
            td { (partitions) }
            td { (button.show()) }
        }
    }
}

/// One queue.
pub async fn queue(viewer: Viewer) -> Result<Content, Problem> {
    let view = reads::queues::queue(viewer.sources.clone(), viewer.params.clone()).await?;
    let waiting =
        reads::queues::waiting(viewer.sources.clone(), viewer.params.clone().with_limit(WAITING)).await?;
    let name = view.queue.to_string();
    let failed = format!("/queues/{}/failed", part(&name));
    let rate = |rate: Option<Rate>| rate.map_or_else(dash, show_rate);
    let main = html! {
        h1 { "Queue " bdi { (name) } }
        p.verdict { (foreign(&view.verdict)) }
        (facts(&[
            ("State", state(view.state)),
            ("Waiting", html! { (view.lag) }),
            ("Oldest", maybe_time(view.oldest_since_ms)),
            ("Failed", html! { a href=(failed) { (view.failed) } }),
            ("Delayed", html! { (view.delayed) }),
            ("Workers", html! { (view.workers) }),
            ("In, out", rate(view.rate)),
        ]))
        @if let Some(pause) = &view.paused {
            p.problem { "Paused by " (foreign(&pause.by)) ": " (foreign(pause.reason.as_deref().unwrap_or("no reason given"))) }
        }
        (queue_acts(&viewer, &view, &name))
        (charts::of_queue(&viewer, &view))
        (table("Partitions", &["Partition", "Waiting", "Oldest", "Running", "Retrying", "Failed", "In, out", "Owner"], &html! {
            @for at in &view.partitions { (partition_row(at)) }
        }))
        (running(&view))
        (table("The next messages", &["Id", "Partition", "Body"], &html! {
            @for message in &waiting.items { (message_row(&name, message)) }
        }))
        @if waiting.items.is_empty() { p { "Nothing waits." } }
    };
    Ok(Content { title: format!("Queue {name}"), main })
}

fn queue_acts(viewer: &Viewer, view: &QueueOverview, name: &str) -> Markup {
    let operate = (Area::Queues, Scope::Operate);
    let button = |act: &str, label, takes, asks| Button {
        rights: viewer.rights,
        takes,
        path: format!("/queues/{}/{act}", part(name)),
        label,
        fields: &[],
        asks,
        warns: None,
    };
    html! {
        div.acts {
            @if view.paused.is_some() {
                (button("resume", "Resume", operate, None).show())
            } @else {
                (button("pause", "Pause", operate, Some(("reason", "Reason"))).show())
            }
            (button("messages", "Put", (Area::Queues, Scope::Submit), Some(("body", "Body of a message"))).show())
        }
    }
}

fn show_rate(rate: Rate) -> Markup {
    let put = rate.put.map_or("–".to_owned(), |put| format!("{put:.1}"));
    html! { (put) "/s, " (format!("{:.1}", rate.handled)) "/s" }
}

fn partition_row(at: &PartitionView) -> Markup {
    html! {
        tr id=(format!("partition-{}", part(&at.partition.to_string()))) {
            th scope="row" { (at.partition.to_string()) }
            td.number { (at.lag) }
            td { (maybe_time(at.oldest_since_ms)) }
            td.number { (at.running_count) }
            td.number { (at.retrying_count) }
            td.number { (at.failed) }
            td { (at.rate.map_or_else(dash, show_rate)) }
            td {
                (at.owner.as_ref().map_or_else(dash, |owner| foreign(owner.as_str())))
                @if at.owner_paused { " " (badge(Mood::Warn, "paused")) }
            }
        }
    }
}

/// What runs, and what is tried again.
fn running(view: &QueueOverview) -> Markup {
    let running = || view.partitions.iter().flat_map(|at| at.running.iter().map(move |one| (at, one)));
    let retrying = || view.partitions.iter().flat_map(|at| at.retrying.iter().map(move |one| (at, one)));
    let name = view.queue.to_string();
    let message =
        |id: String| html! { a href=(format!("/queues/{}/messages/{id}", part(&name))) { code { (id) } } };
    html! {
        @if running().next().is_some() {
            (table("Running", &["Id", "Partition", "Worker", "Since", "Attempt"], &html! {
                @for (at, one) in running() {
                    tr id=(format!("running-{}", one.id)) {
                        th scope="row" { (message(one.id.to_string())) }
                        td { (at.partition.to_string()) }
                        td { (at.owner.as_ref().map_or_else(dash, |owner| foreign(owner.as_str()))) }
                        td { (maybe_time(Some(one.since_ms))) @if one.silent { " " (badge(Mood::Warn, "has not answered")) } }
                        td.number { (one.attempt) }
                    }
                }
            }))
        }
        @if retrying().next().is_some() {
            (table("Tried again", &["Id", "Partition", "Attempt", "Next attempt", "Last error"], &html! {
                @for (at, one) in retrying() {
                    tr id=(format!("retrying-{}", one.id)) {
                        th scope="row" { (message(one.id.to_string())) }
                        td { (at.partition.to_string()) }
                        td { (one.attempt) " of " (one.attempts) }
                        td { (maybe_time(Some(one.next_ms))) }
                        td { (foreign(&one.error)) }
                    }
                }
            }))
        }
    }
}

fn message_row(queue: &str, message: &MessageView) -> Markup {
    let id = message.id.to_string();
    html! {
        tr id=(format!("waiting-{id}")) {
            th scope="row" { a href=(format!("/queues/{}/messages/{id}", part(queue))) { code { (id) } } }
            td { (message.partition.to_string()) }
            td { (body(&message.body)) }
        }
    }
}

/// A body, shortened.
pub fn body(body: &Body) -> Markup {
    let (text, about) = match (&body.body, &body.body_base64) {
        (Some(text), _) => (text.as_str(), ""),
        (None, Some(base64)) => (base64.as_str(), "base64 "),
        (None, None) => ("", ""),
    };
    let short: String = text.chars().take(BODY_CHARS_MAX).collect();
    let more = if short.len() < text.len() { "…" } else { "" };
    html! { (about) code.body { (foreign(&short)) (more) } }
}

/// What happened to a message.
pub async fn message(viewer: Viewer) -> Result<Content, Problem> {
    let story = reads::queues::message(viewer.sources.clone(), viewer.params.clone()).await?;
    let queue = story.partition.queue().to_string();
    let shown = story.message.as_ref().map(Body::of);
    let main = html! {
        h1 { "Message" }
        p { code { (story.id.to_string()) } " of queue " (parts::link("/queues", &queue)) }
        (facts(&[
            ("State", html! { (story.state.as_str()) }),
            ("Partition", html! { (story.partition.to_string()) }),
            ("Key", story.key.as_deref().map_or_else(dash, foreign)),
        ]))
        @if let Some(shown) = &shown { h2 { "Body" } pre { (whole_body(shown)) } }
        (table("What happened", &["When", "What"], &html! {
            @for (at, line) in story.lines.iter().enumerate() {
                tr id=(format!("line-{at}")) {
                    td { (time(i64::try_from(line.at_ms()).unwrap_or(i64::MAX))) }
                    td { (foreign(&sentence(line, &str::to_owned))) }
                }
            }
        }))
        @if story.is_cut_short { p { "There may be more: the search has stopped, as so much would have to be read." } }
        @else if story.is_incomplete { p { "Some of it is missing: it is older than the queue keeps, or cannot be read." } }
    };
    Ok(Content { title: format!("Message {}", story.id), main })
}

/// A body, whole.
pub fn whole_body(body: &Body) -> Markup {
    match (&body.body, &body.body_base64) {
        (Some(text), _) => foreign(text),
        (None, Some(base64)) => html! { "base64: " (base64) },
        (None, None) => html! {},
    }
}
