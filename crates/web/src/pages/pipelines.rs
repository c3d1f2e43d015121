//! Tenants, and the queues of their pipelines, item by item.

use maud::{Markup, html};
use menagerie_pipelines::view::{ChangeQueueView, ItemView, JobView, PipelineView, StatusView};
use menagerie_znodes::web::{Area, Scope};

use super::buttons::Button;
use super::parts::{self, Mood, badge, foreign, part, table, time};
use super::{Content, Viewer};
use crate::problem::Problem;
use crate::reads;

/// Items that a page shows of one queue.
const ITEMS: usize = 100;

/// All tenants.
pub async fn tenants(viewer: Viewer) -> Result<Content, Problem> {
    let listing = reads::pipelines::tenants(viewer.sources.clone(), viewer.params.clone()).await?;
    let rows = html! {
        @for row in &listing.items {
            tr id=(format!("tenant-{}", part(&row.tenant))) {
                th scope="row" { (parts::link("/pipelines", &row.tenant)) }
                td { (row.pipelines.join(" ")) }
                td { a href=(format!("/pipelines/{}/history", part(&row.tenant))) { "History" } }
            }
        }
    };
    let main = html! {
        h1 { "Pipelines" }
        (parts::filter(&viewer.params, "Tenants with"))
        @if listing.items.is_empty() {
            p { "No tenants. They are in a file that " code { "[pipelines]" } " of the configuration names; then:" }
            (parts::command("menagerie scheduler\nmenagerie merger\nmenagerie executor\nmenagerie pipeline status"))
        } @else {
            (table("Tenants", &["Tenant", "Pipelines", ""], &rows))
        }
        (parts::pager(&viewer.params, listing.next.as_ref()))
    };
    Ok(Content { title: "Pipelines".to_owned(), main })
}

/// All that is queued in a tenant.
pub async fn status(viewer: Viewer) -> Result<Content, Problem> {
    let view = reads::pipelines::status(viewer.sources.clone(), viewer.params.clone()).await?;
    let history = format!("/pipelines/{}/history", part(&view.tenant));
    let main = html! {
        h1 { "Tenant " bdi { (view.tenant) } }
        p { a href=(history) { "History" } }
        (troubles(&view))
        @for pipeline in &view.pipelines { (show_pipeline(&viewer, &view, pipeline)) }
        @if view.pipelines.is_empty() { p { "It has no pipelines yet." } }
    };
    Ok(Content { title: format!("Tenant {}", view.tenant), main })
}

fn troubles(view: &StatusView) -> Markup {
    let events: usize = view.connection_event_queues.values().map(|queue| queue.length).sum();
    html! {
        @for error in &view.config_errors { p.problem { "Configuration: " (foreign(error)) } }
        @for error in &view.connection_errors {
            p.problem { "Repository " (foreign(&error.project)) " of " (error.connection) ": " (foreign(&error.error)) }
        }
        @if events + view.trigger_event_queue.length > 0 {
            p { (events + view.trigger_event_queue.length) " events on their way" }
        }
    }
}

fn show_pipeline(viewer: &Viewer, view: &StatusView, pipeline: &PipelineView) -> Markup {
    let queues =
        pipeline.change_queues.iter().filter(|queue| queue.heads.iter().any(|head| !head.is_empty()));
    let queues: Vec<&ChangeQueueView> = queues.collect();
    let events = pipeline.trigger_events + pipeline.result_events + pipeline.management_events;
    let enqueue = Button {
        rights: viewer.rights,
        takes: (Area::Pipelines, Scope::Submit),
        path: format!("/pipelines/{}/{}/enqueue", part(&view.tenant), part(&pipeline.name)),
        label: "Enqueue",
        fields: &[],
        asks: Some(("change", "PROJECT:propose/TARGET/TOPIC")),
        warns: None,
    };
    html! {
        section.pipeline id=(format!("pipeline-{}", part(&pipeline.name))) aria-label=(format!("Pipeline {}", pipeline.name)) {
            h2 { bdi { (pipeline.name) } " " small { (pipeline.manager) } }
            @if events > 0 { p { (events) " events to handle" } }
            @if pipeline.reports > 0 { p { (pipeline.reports) " reports to make" } }
            @if queues.is_empty() { p { "Nothing is queued." } }
            @for queue in queues { (show_queue(viewer, view, pipeline, queue)) }
            div.acts { (enqueue.show()) }
        }
    }
}

fn show_queue(
    viewer: &Viewer,
    view: &StatusView,
    pipeline: &PipelineView,
    queue: &ChangeQueueView,
) -> Markup {
    let count: usize = queue.heads.iter().map(Vec::len).sum();
    html! {
        div.queue {
            h3 {
                "Queue " (foreign(&queue.name))
                @if let Some(branch) = &queue.branch { " " (foreign(branch)) }
                @if queue.window > 0 { " " small { "window " (queue.window) } }
            }
            @for head in &queue.heads {
                ol.items {
                    @for item in head.iter().take(ITEMS) { (show_item(viewer, view, pipeline, item)) }
                }
            }
            @if count > ITEMS { p { (count) " items in all" } }
        }
    }
}

fn show_item(viewer: &Viewer, view: &StatusView, pipeline: &PipelineView, item: &ItemView) -> Markup {
    let dequeue = Button {
        rights: viewer.rights,
        takes: (Area::Pipelines, Scope::Operate),
        path: format!("/pipelines/{}/{}/dequeue", part(&view.tenant), part(&pipeline.name)),
        label: "Dequeue",
        fields: &[("change", &item.id)],
        asks: None,
        warns: Some("Its jobs are stopped, and it is not merged; what is behind it is tested anew."),
    };
    html! {
        li.item id=(format!("item-{}", item.uuid)) data-failing[!item.failing_reasons.is_empty()] {
            p.head {
                strong { (foreign(&item.id)) } " " (item_state(item)) " since " (time(item.enqueue_time))
            }
            @for reason in &item.failing_reasons { p.problem { (foreign(reason)) } }
            @if let Some(waiting) = &item.waiting_status { p { (foreign(waiting)) } }
            @if let Some(ahead) = &item.item_ahead { p.ahead { "on top of " (foreign(ahead)) } }
            @if !item.jobs.is_empty() { ul.jobs { @for job in &item.jobs { (show_job(job)) } } }
            @if item.live { (dequeue.show()) }
        }
    }
}

fn item_state(item: &ItemView) -> Markup {
    match (item.live, item.failing_reasons.is_empty(), item.active) {
        (false, ..) => badge(Mood::Idle, "dependency of the next"),
        (true, false, _) => badge(Mood::Bad, "failing"),
        (true, true, true) => badge(Mood::Busy, "in test"),
        (true, true, false) => badge(Mood::Idle, "waits for the window"),
    }
}

fn show_job(job: &JobView) -> Markup {
    let word = job.result.as_deref().or(job.waiting_status.as_deref()).unwrap_or("not yet");
    let mood = match job.result.as_deref() {
        Some("SUCCESS") => Mood::Good,
        Some("SKIPPED" | "CANCELED") => Mood::Idle,
        Some(_) => Mood::Bad,
        None if job.start_time.is_some() => Mood::Busy,
        None => Mood::Idle,
    };
    html! {
        li id=[job.uuid.as_ref().map(|build| format!("build-{build}"))] {
            (foreign(&job.name)) " " (badge(mood, word))
            @if !job.voting { " " small { "non-voting" } }
            @if job.tries > 1 { " " small { "attempt " (job.tries) } }
            @if let Some(start) = job.start_time.filter(|_| job.result.is_none()) { " since " (time(start)) }
            @if let Some(detail) = &job.detail { " " (foreign(detail)) }
        }
    }
}
