//! The audit trail: who changed what from where over the web interface.

use maud::{Markup, html};
use menagerie_znodes::web::AuditOutcome;

use super::parts::{self, Mood, badge, dash, foreign, table, time};
use super::{Content, Viewer};
use crate::audit::EntryView;
use crate::problem::Problem;
use crate::reads;

/// The trail.
pub async fn trail(viewer: Viewer) -> Result<Content, Problem> {
    let listing = reads::audit::trail(viewer.sources.clone(), viewer.params.clone()).await?;
    let rows = html! { @for entry in &listing.items { (row(entry)) } };
    let main = html! {
        h1 { "Audit trail" }
        p { "Every change over the web interface. Commands of the command line are in the histories of what they change." }
        @if listing.items.is_empty() { p { "Nobody has changed anything yet." } }
        @else { (table("Changes, newest first", &["When", "Who", "From", "What", "To what", "Outcome"], &rows)) }
        (parts::pager(&viewer.params, listing.next.as_ref()))
    };
    Ok(Content { title: "Audit trail".to_owned(), main })
}

fn row(entry: &EntryView) -> Markup {
    let mood = match entry.outcome {
        AuditOutcome::Begun => Mood::Warn,
        AuditOutcome::Done => Mood::Good,
        AuditOutcome::Failed => Mood::Bad,
    };
    html! {
        tr id=(format!("entry-{}", entry.number)) {
            td { (time(entry.at_ms)) }
            td { (foreign(&entry.who)) " " small { (entry.token) } }
            td { (entry.from) }
            th scope="row" { (entry.act) }
            td { (foreign(&entry.target)) @if let Some(detail) = &entry.detail { " " code { (foreign(detail)) } } }
            td { (badge(mood, entry.outcome.as_str())) " " (entry.message.as_deref().map_or_else(dash, foreign)) }
        }
    }
}
