//! Tenants, and the queues of their pipelines, item by item.

use maud::{Markup, html};
use menagerie_pipelines::view::{ChangeQueueView, ItemView, JobView, PipelineView, StatusView};
use menagerie_znodes::web::{Area, Scope};

use super::buttons::Button;
use super::parts::{self, Mood, badge, foreign, part, table, time};
use super::{Content, Viewer, builds};
use crate::problem::Problem;
use crate::reads;

/// Items that a page shows of one pipeline.
const ITEMS: usize = 100;
/// Names of items that a failing one lists.
const NAMES: usize = 5;

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
            (table("Tenants", &["Tenant", "Pipelines", "Ended"], &rows))
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
            p { (parts::count(events + view.trigger_event_queue.length, "event")) " on the way" }
        }
    }
}

fn show_pipeline(viewer: &Viewer, view: &StatusView, pipeline: &PipelineView) -> Markup {
    let queues =
        pipeline.change_queues.iter().filter(|queue| queue.heads.iter().any(|head| !head.is_empty()));
    let queues: Vec<&ChangeQueueView> = queues.collect();
    let count: usize = queues.iter().flat_map(|queue| &queue.heads).map(Vec::len).sum();
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
            @if events > 0 { p { (parts::count(events, "event")) " to handle" } }
            @if pipeline.reports > 0 { p { (parts::count(pipeline.reports, "report")) " to make" } }
            @if queues.is_empty() { p { "Nothing is queued." } }
            @for (queue, heads) in with_room(&queues, ITEMS) { (show_queue(viewer, view, pipeline, queue, &heads)) }
            @if count > ITEMS { p { "The first " (ITEMS) " of " (count) " items. REST has all." } }
            div.acts { (enqueue.show()) }
        }
    }
}

fn show_queue(
    viewer: &Viewer,
    view: &StatusView,
    pipeline: &PipelineView,
    queue: &ChangeQueueView,
    heads: &[&[ItemView]],
) -> Markup {
    let items: Vec<&ItemView> = queue.heads.iter().flatten().collect();
    let outside: Vec<&ItemView> = items.iter().copied().filter(|item| item.live && !item.active).collect();
    html! {
        div.queue {
            h3 {
                "Queue " (foreign(&queue.name))
                @if let Some(branch) = &queue.branch { " " (foreign(branch)) }
                @if queue.window > 0 { " " small { "window " (queue.window) } }
            }
            @for head in heads {
                ol.items {
                    @for item in *head {
                        @if outside.first().is_some_and(|first| first.uuid == item.uuid) {
                            (window_end(outside.len()))
                        }
                        (show_item(viewer, view, pipeline, item, &items))
                    }
                }
            }
        }
    }
}

/// The queues with the beginnings of their chains, so many items in all: a pipeline may have a queue for each change.
fn with_room<'a>(
    queues: &[&'a ChangeQueueView],
    mut room: usize,
) -> Vec<(&'a ChangeQueueView, Vec<&'a [ItemView]>)> {
    let mut shown = Vec::new();
    for queue in queues {
        let mut heads = Vec::new();
        for head in &queue.heads {
            let part = &head[..head.len().min(room)];
            room -= part.len();
            if !part.is_empty() {
                heads.push(part);
            }
        }
        if !heads.is_empty() {
            shown.push((*queue, heads));
        }
    }
    shown
}

/// Between the items that are tested and those that wait for that.
fn window_end(outside: usize) -> Markup {
    html! { li.window-end { "The window ends here: " (outside) " more " @if outside == 1 { "waits" } @else { "wait" } } }
}

fn show_item(
    viewer: &Viewer,
    view: &StatusView,
    pipeline: &PipelineView,
    item: &ItemView,
    queue: &[&ItemView],
) -> Markup {
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
                strong { (foreign(&item.id)) } " " (item_state(item)) " · " (time(item.enqueue_time))
            }
            @for reason in &item.failing_reasons { p.problem { (foreign(reason)) } }
            @if let Some(why) = &item.why { p.why { (foreign(why)) } }
            @if pipeline.manager == "dependent" { (behind_failing(item, queue)) }
            @if let Some(ahead) = &item.item_ahead { p.ahead { "on top of " (foreign(ahead)) } }
            @if !item.jobs.is_empty() { ul.jobs { @for job in &item.jobs { (show_job(&view.tenant, job)) } } }
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

/// What a failing item means for those behind it in a gate: they are tested without it.
fn behind_failing(item: &ItemView, queue: &[&ItemView]) -> Markup {
    if item.failing_reasons.is_empty() {
        return html! {};
    }
    let without = tested_without(item, queue);
    let reset: Vec<&str> = item.items_behind.iter().map(String::as_str).collect();
    html! {
        @if !without.is_empty() { p.reset { "Tested without it: " (names(&without)) } }
        @if !reset.is_empty() { p.reset { "About to be tested anew without it: " (names(&reset)) } }
    }
}

fn names(names: &[&str]) -> Markup {
    html! {
        @for (at, name) in names.iter().take(NAMES).enumerate() { @if at > 0 { ", " } (foreign(name)) }
        @if names.len() > NAMES { " and " (names.len() - NAMES) " more" }
    }
}

/// The items behind a failing one that are not on top of it any more.
fn tested_without<'a>(failing: &ItemView, queue: &[&'a ItemView]) -> Vec<&'a str> {
    let behind = queue.iter().skip_while(|item| item.uuid != failing.uuid).skip(1);
    let without = behind.filter(|item| item.live && !failing.items_behind.contains(&item.id));
    without.map(|item| item.id.as_str()).collect()
}

fn show_job(tenant: &str, job: &JobView) -> Markup {
    let word = job.result.as_deref().or(job.waiting_status.as_deref()).unwrap_or("not yet");
    let mood = match job.result.as_deref() {
        Some("SUCCESS") => Mood::Good,
        Some("SKIPPED" | "CANCELED") => Mood::Idle,
        Some(_) => Mood::Bad,
        None if job.start_time.is_some() => Mood::Busy,
        None => Mood::Idle,
    };
    let start = job.start_time.filter(|_| job.result.is_none());
    html! {
        li id=[job.uuid.as_ref().map(|build| format!("build-{build}"))] {
            @if let Some(build) = &job.uuid {
                a href=(builds::address(tenant, build.as_str())) { (foreign(&job.name)) }
            } @else {
                (foreign(&job.name))
            }
            " " (badge(mood, word))
            @if !job.voting { " " small { "non-voting" } }
            @if job.tries > 1 { " " small { "attempt " (job.tries) } }
            @if let Some(start) = start { " " (builds::progress(&job.name, start, job.estimated_ms)) }
            @if let Some(detail) = &job.detail { " " (foreign(detail)) }
            @if let Some(why) = &job.why { " " small.why { (foreign(why)) } }
        }
    }
}

#[cfg(test)]
mod tests {
    use menagerie_types::Name;

    use super::*;

    fn item(id: &str, behind: &[&str], failing: &[&str]) -> ItemView {
        ItemView {
            id: id.to_owned(),
            uuid: Name::new(id).unwrap(),
            buildset: Name::new("s1").unwrap(),
            live: true,
            active: true,
            refs: Vec::new(),
            item_ahead: None,
            items_behind: behind.iter().map(ToString::to_string).collect(),
            failing_reasons: failing.iter().map(ToString::to_string).collect(),
            enqueue_time: 1,
            waiting_status: None,
            why: None,
            jobs: Vec::new(),
        }
    }

    #[test]
    fn failing_items_name_those_that_are_tested_without_them() {
        let (a, b) = (item("a", &[], &[]), item("b", &["d"], &["at least one job failed"]));
        let (c, d) = (item("c", &["d"], &[]), item("d", &[], &[]));
        let queue = [&a, &b, &c, &d];
        assert_eq!(tested_without(&b, &queue), ["c"]);
        assert_eq!(behind_failing(&a, &queue).into_string(), "");
        let shown = behind_failing(&b, &queue).into_string();
        assert!(shown.contains("Tested without it: <bdi>c</bdi>"), "{shown}");
        assert!(shown.contains("tested anew without it: <bdi>d</bdi>"), "{shown}");
    }
}
