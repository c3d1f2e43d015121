//! The failed messages of a queue: why, and what now.

use maud::{Markup, html};
use menagerie_queues::view::{Body, FailedMessageView};
use menagerie_znodes::web::{Area, Scope};

use super::buttons::Button;
use super::parts::{self, dash, foreign, maybe, part, table};
use super::{Content, Viewer, queues};
use crate::problem::Problem;
use crate::reads;

/// The failed messages of a queue.
pub async fn failed(viewer: Viewer) -> Result<Content, Problem> {
    let queue: String = viewer.params.path("queue")?;
    let listing = reads::queues::failed(viewer.sources.clone(), viewer.params.clone()).await?;
    let rows = html! { @for message in &listing.items { (row(&viewer, &queue, message)) } };
    let main = html! {
        h1 { "Failed messages of " (parts::link("/queues", &queue)) }
        @if listing.items.is_empty() {
            p { "None: no message was given up." }
        } @else {
            p { "Each has failed as often as its queue allows, and waits for somebody to decide: mend the cause, then retry." }
            div.acts {
                (button(&viewer, &queue, "retry", "Retry all", &[("all", "true")], None).show())
                (button(
                    &viewer,
                    &queue,
                    "forget",
                    "Forget all",
                    &[("all", "true")],
                    Some("All failed messages of this queue are dropped for good."),
                ).show())
            }
            (table("Failed messages, oldest first", &["Message", "From", "Attempts", "Error", "Body", "Act"], &rows))
        }
        (parts::pager(&viewer.params, listing.next.as_ref()))
    };
    Ok(Content { title: format!("Failed messages of {queue}"), main })
}

fn row(viewer: &Viewer, queue: &str, message: &FailedMessageView) -> Markup {
    let id = message.id.to_string();
    let ids = [("ids", id.as_str())];
    let address = format!("/queues/{}/messages/{id}", part(queue));
    let story = message.story.as_ref();
    html! {
        tr id=(format!("failed-{id}")) {
            th scope="row" { a href=(address) { code { (id) } } }
            td { (maybe(story.map(|story| story.origin.to_string()))) }
            td.number { (maybe(story.map(|story| story.attempts))) }
            td {
                (story.map_or_else(dash, |story| foreign(&story.error)))
                @if let Some(output) = story.map(|story| story.output.trim_end()).filter(|output| !output.is_empty()) {
                    (show_output(output))
                }
            }
            td { (show_body(&message.body, &address)) }
            td {
                (button(viewer, queue, "retry", "Retry", &ids, None).show())
                (button(viewer, queue, "forget", "Forget", &ids, Some("This message is dropped for good.")).show())
            }
        }
    }
}

/// The last line, because that is where the reason stands; all of it for those who want more.
fn show_output(output: &str) -> Markup {
    let last = output.lines().last().unwrap_or_default();
    html! {
        div.output { code { (foreign(last)) } }
        @if last.len() < output.len() {
            details { summary { "All output" } pre { (foreign(output)) } }
        }
    }
}

/// A page of failed messages is not the place for all that is in them: the page of a message has that.
fn show_body(body: &Body, message: &str) -> Markup {
    let short = queues::body(body);
    html! { (short) @if short.0.contains('…') { " " a href=(message) { "all of it" } } }
}

fn button<'a>(
    viewer: &Viewer,
    queue: &str,
    act: &str,
    label: &'a str,
    fields: &'a [(&'a str, &'a str)],
    warns: Option<&'a str>,
) -> Button<'a> {
    Button {
        rights: viewer.rights,
        takes: (Area::Queues, Scope::Operate),
        path: format!("/queues/{}/failed/{act}", part(queue)),
        label,
        fields,
        asks: None,
        warns,
    }
}
