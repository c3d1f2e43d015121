//! Pools: who is in, who waits, what happened.

use maud::{Markup, html};
use menagerie_slots::view::{EventView, HolderView, PoolView, WaiterView, event_name};
use menagerie_znodes::web::{Area, Scope};

use super::buttons::Button;
use super::parts::{self, Mood, badge, dash, facts, foreign, part, table, time};
use super::{Content, Viewer};
use crate::problem::Problem;
use crate::reads;
use crate::reads::slots::PoolRow;

/// Events of the history that the page of a pool shows.
const EVENTS: usize = 30;
/// Waiters that the page of a pool shows.
const WAITERS: usize = 100;

/// All pools.
pub async fn pools(viewer: Viewer) -> Result<Content, Problem> {
    let listing = reads::slots::pools(viewer.sources.clone(), viewer.params.clone()).await?;
    let rows = html! { @for row in &listing.items { (pool_row(row)) } };
    let main = html! {
        h1 { "Slots" }
        (parts::filter(&viewer.params, "Pools with"))
        @if listing.items.is_empty() {
            p { "No pools. One is made, and used, by:" }
            (parts::command("menagerie slots create decommission --max 3\nmenagerie slots run decommission -- ./decommission.sh"))
        } @else {
            (table("Pools", &["Pool", "In use", "Waiting", "Longest held", "State"], &rows))
        }
        (parts::pager(&viewer.params, listing.next.as_ref()))
    };
    Ok(Content { title: "Slots".to_owned(), main })
}

fn pool_row(row: &PoolRow) -> Markup {
    let oldest = |view: &PoolView| view.holders.iter().map(|holder| holder.since_ms).min();
    html! {
        tr id=(format!("pool-{}", part(&row.pool))) {
            th scope="row" { (parts::link("/slots", &row.pool)) }
            @match &row.view {
                Some(view) => {
                    td { (parts::meter(view.used, view.max as usize, "Slots in use")) " " (view.used) " of " (view.max) }
                    td.number { (view.waiters.len()) }
                    td { (oldest(view).map_or_else(dash, time)) }
                    td { (state(view)) }
                }
                None => {
                    td colspan="4" { (badge(Mood::Bad, "damaged")) " " (foreign(row.error.as_deref().unwrap_or_default())) }
                }
            }
        }
    }
}

fn state(view: &PoolView) -> Markup {
    match (&view.frozen, view.used >= view.max as usize) {
        (Some(_), _) => badge(Mood::Warn, "frozen"),
        (None, true) => badge(Mood::Busy, "full"),
        (None, false) => badge(Mood::Good, "open"),
    }
}

/// One pool.
pub async fn pool(viewer: Viewer) -> Result<Content, Problem> {
    let (sources, params) = (viewer.sources.clone(), viewer.params.clone());
    let view = reads::slots::pool(sources.clone(), params.clone()).await?;
    let history = reads::slots::history(sources, params).await?;
    let missing = view.missing.join(", ");
    let main = html! {
        h1 { "Pool " bdi { (view.pool) } }
        (facts(&[
            ("State", state(&view)),
            ("In use", html! { (view.used) " of " (view.max) }),
            ("Waiting", html! { (view.waiters.len()) }),
        ]))
        @if let Some(frozen) = &view.frozen {
            p.problem { "Frozen by " (foreign(&frozen.by)) ": " (foreign(frozen.reason.as_deref().unwrap_or("no reason given"))) }
        }
        @if !missing.is_empty() { p.problem { "Missing: " (missing) ". The next change of the pool makes it again." } }
        (stop_or_go(&viewer, &view))
        @if view.holders.is_empty() { p { "Nobody is in." } }
        @else {
            (table("Holders", &["Slot", "Holder", "Since", "Alive", "What", "Act"], &html! {
                @for holder in &view.holders { (holder_row(&viewer, &view, holder)) }
            }))
        }
        @if view.waiters.is_empty() { p { "Nobody waits." } }
        @else {
            (table("Waiters, the next one first", &["Place", "Who", "Priority", "Since"], &html! {
                @for waiter in view.waiters.iter().take(WAITERS) { (waiter_row(waiter)) }
            }))
        }
        @if view.waiters.len() > WAITERS { p { "and " (view.waiters.len() - WAITERS) " more" } }
        (table("History, newest first", &["When", "What", "Slot", "Holder", "By", "Detail"], &html! {
            @for event in history.items.iter().take(EVENTS) { (event_row(event)) }
        }))
    };
    Ok(Content { title: format!("Pool {}", view.pool), main })
}

fn stop_or_go(viewer: &Viewer, view: &PoolView) -> Markup {
    let act = if view.frozen.is_some() { "thaw" } else { "freeze" };
    let (label, asks) = match view.frozen {
        Some(_) => ("Thaw", None),
        None => ("Freeze", Some(("reason", "Reason"))),
    };
    let path = format!("/slots/{}/{act}", part(&view.pool));
    let takes = (Area::Slots, Scope::Operate);
    html! { div.acts { (Button { rights: viewer.rights, takes, path, label, fields: &[], asks, warns: None }.show()) } }
}

fn holder_row(viewer: &Viewer, view: &PoolView, holder: &HolderView) -> Markup {
    let HolderView { slot, since_ms, alive, holder, .. } = holder;
    let command = holder.command.join(" ");
    let what = holder.reason.as_deref().unwrap_or(&command);
    let since = since_ms.to_string();
    let release = Button {
        rights: viewer.rights,
        takes: (Area::Slots, Scope::Operate),
        path: format!("/slots/{}/release", part(&view.pool)),
        label: "Release",
        fields: &[("holder", &holder.holder), ("since_ms", &since), ("force", "true")],
        asks: None,
        warns: Some(
            "Only if you know that nothing runs under it any more: another host is admitted at once.",
        ),
    };
    html! {
        tr id=(format!("slot-{slot}-{since_ms}")) {
            td.number { (slot) }
            th scope="row" { (foreign(&holder.holder)) }
            td { (time(*since_ms)) }
            td {
                @match alive {
                    Some(true) => { (badge(Mood::Good, "yes")) }
                    Some(false) => { (badge(Mood::Bad, "no sign")) }
                    None => { (badge(Mood::Idle, "no process")) }
                }
            }
            td { (foreign(what)) }
            td { (release.show()) }
        }
    }
}

fn waiter_row(waiter: &WaiterView) -> Markup {
    let holder = &waiter.waiter.holder;
    html! {
        tr id=(format!("waiter-{}-{}", part(holder), waiter.since_ms)) {
            td.number { (waiter.position) }
            th scope="row" { (foreign(holder)) }
            td.number { (waiter.priority) }
            td { (time(waiter.since_ms)) }
        }
    }
}

fn event_row(event: &EventView) -> Markup {
    let text = |text: &Option<String>| text.as_deref().map_or_else(dash, foreign);
    html! {
        tr id=(format!("event-{}", event.zxid)) {
            td { (time(event.at_ms)) }
            td { (event_name(event.event.what)) }
            td.number { (parts::maybe(event.event.slot)) }
            td { (text(&event.event.holder)) }
            td { (foreign(&event.event.by)) }
            td { (text(&event.event.detail)) }
        }
    }
}
