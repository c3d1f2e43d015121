//! What has ended in a tenant.

use maud::{Markup, html};
use menagerie_znodes::pipelines::{HistoryBuild, HistoryRecord};

use super::parts::{self, Mood, badge, dash, foreign, part, table, time};
use super::{Content, Viewer, builds};
use crate::problem::Problem;
use crate::reads;

/// The history of a tenant.
pub async fn history(viewer: Viewer) -> Result<Content, Problem> {
    let tenant: String = viewer.params.path("tenant")?;
    let listing = reads::pipelines::history(viewer.sources.clone(), viewer.params.clone()).await?;
    let rows = html! { @for record in &listing.items { (row(&tenant, record)) } };
    let main = html! {
        h1 { "History of " (parts::link("/pipelines", &tenant)) }
        (filters(&viewer))
        @if listing.items.is_empty() { p { "Nothing has ended yet, or nothing that matches." } }
        @else { (table("Ended, newest first", &["When", "Pipeline", "Change", "Result", "Jobs", "Message"], &rows)) }
        (parts::pager(&viewer.params, listing.next.as_ref()))
    };
    Ok(Content { title: format!("History of {tenant}"), main })
}

fn filters(viewer: &Viewer) -> Markup {
    html! {
        form.filter method="get" role="search" {
            @for (name, label) in [("project", "Project"), ("change", "Change"), ("pipeline", "Pipeline"), ("job", "Job"), ("result", "Result")] {
                label for=(name) { (label) }
                input id=(name) type="search" name=(name) value=(parts::field_value(viewer.params.text(name).unwrap_or_default()));
            }
            button { "Filter" }
        }
    }
}

fn row(tenant: &str, record: &HistoryRecord) -> Markup {
    let about = record.refs.first();
    let name = about.map(|one| format!("{}:{}", one.project, one.change.as_ref().unwrap_or(&one.reference)));
    html! {
        tr id=(format!("ended-{}", part(record.uuid.as_str()))) {
            td { (time(record.end_ms)) }
            td { (record.pipeline.to_string()) }
            th scope="row" { (name.as_deref().map_or_else(dash, foreign)) }
            td {
                (result(&record.result))
                @if about.is_some_and(|one| one.merged) { " merged" }
            }
            td { @for build in record.builds.iter().filter(|build| build.is_final) { (show_build(tenant, build)) } }
            td { (record.message.as_deref().map_or_else(dash, foreign)) }
        }
    }
}

fn show_build(tenant: &str, build: &HistoryBuild) -> Markup {
    let name = foreign(&build.job_name);
    // A job that never ran has no build to look at.
    let name = match build.result.as_deref() {
        None | Some("SKIPPED") => name,
        Some(_) => html! { a href=(builds::address(tenant, build.uuid.as_str())) { (name) } },
    };
    html! { div { (name) " " (result(build.result.as_deref().unwrap_or("never ran"))) } }
}

fn result(word: &str) -> Markup {
    let mood = match word {
        "SUCCESS" => Mood::Good,
        "DEQUEUED" | "CANCELED" | "SKIPPED" | "NO_JOBS" | "never ran" => Mood::Idle,
        _ => Mood::Bad,
    };
    badge(mood, word)
}
