//! The overview: what is wrong, how each engine is, and what runs where.

use maud::{Markup, html};
use menagerie_flows::view::{JobRow, Standing};
use menagerie_kernel::recipes::membership::ComponentView;
use menagerie_pipelines::view::{ItemView, StatusView};
use menagerie_queues::view::{QueueRow, QueueState};
use menagerie_znodes::web::{Area, Scope};

use super::parts::{self, Mood, badge, dash, foreign, part, table, time};
use super::{Content, Viewer, charts};
use crate::params::{LIMIT_MAX, Params};
use crate::problem::Problem;
use crate::reads;
use crate::reads::Listing;
use crate::reads::slots::PoolRow;

/// Troubles that are shown; the pages of the engines have all.
const TROUBLES_MAX: usize = 20;

/// Something that somebody should look at.
struct Trouble {
    mood: Mood,
    /// What, with a link.
    what: Markup,
    /// Since when, if that is known.
    since: Option<Markup>,
    /// What mends it.
    cure: Markup,
}

/// What the overview is made of, as far as its viewer may see it.
#[derive(Default)]
struct Seen {
    components: Option<Vec<ComponentView>>,
    pools: Option<Vec<PoolRow>>,
    queues: Option<Vec<QueueRow>>,
    jobs: Option<Vec<JobRow>>,
    tenants: Option<Vec<StatusView>>,
    /// What there is more of than is looked at.
    cut: Vec<&'static str>,
}

impl Seen {
    fn page<T>(&mut self, what: &'static str, listing: Listing<T>) -> Vec<T> {
        if listing.next.is_some() {
            self.cut.push(what);
        }
        listing.items
    }
}

/// The overview.
pub async fn overview(viewer: Viewer) -> Result<Content, Problem> {
    let seen = look(&viewer).await?;
    let troubles = troubles(&seen);
    let main = html! {
        h1 { "Overview" }
        h2 { "What is wrong" }
        @if !seen.cut.is_empty() {
            p.problem { "Only the first " (LIMIT_MAX) " are looked at here of: " (seen.cut.join(", ")) }
        }
        @if troubles.is_empty() { p { (badge(Mood::Good, "nothing")) } }
        @else {
            ul.troubles {
                @for trouble in troubles.iter().take(TROUBLES_MAX) {
                    li {
                        (badge(trouble.mood, if trouble.mood == Mood::Bad { "broken" } else { "look" })) " " (trouble.what)
                        @if let Some(since) = &trouble.since { ", " (since) }
                        ". " (trouble.cure)
                    }
                }
            }
            @if troubles.len() > TROUBLES_MAX { p { "and " (troubles.len() - TROUBLES_MAX) " more" } }
        }
        h2 { "Engines" }
        div.cards {
            @if let Some(pools) = &seen.pools { (slots_card(pools)) }
            @if let Some(queues) = &seen.queues { (queues_card(queues)) }
            @if let Some(jobs) = &seen.jobs { (flows_card(jobs)) }
            @if let Some(tenants) = &seen.tenants { (pipelines_card(tenants)) }
        }
        @if let Some(queues) = seen.queues.as_ref().filter(|queues| !queues.is_empty()) {
            (charts::of_all(&viewer, queues))
        }
        @if let Some(components) = &seen.components {
            (table("What runs where", &["Kind", "Name", "Host", "State", "Version", "Since"], &html! {
                @for component in components { (component_row(component)) }
            }))
        }
    };
    Ok(Content { title: "Overview".to_owned(), main })
}

/// Reads what the viewer may see. What cannot be read fails the whole: half an overview would look like a whole one.
async fn look(viewer: &Viewer) -> Result<Seen, Problem> {
    let may = |area| viewer.rights.allows(area, Scope::Read);
    let sources = || viewer.sources.clone();
    let all = || Params::default().with_query("limit=1000", &[crate::params::LIMIT_PARAM]);
    let mut seen = Seen::default();
    if may(Area::Installation) {
        let found = reads::installation::all_components(sources(), all()?).await?;
        seen.components = Some(seen.page("processes", found));
    }
    if may(Area::Slots) {
        let found = reads::slots::pools(sources(), all()?).await?;
        seen.pools = Some(seen.page("pools", found));
    }
    if may(Area::Queues) {
        let found = reads::queues::queues(sources(), all()?).await?;
        seen.queues = Some(seen.page("queues", found));
    }
    if may(Area::Flows) {
        let found = reads::flows::jobs(sources(), all()?).await?;
        seen.jobs = Some(seen.page("jobs", found));
    }
    if may(Area::Pipelines) {
        let mut tenants = Vec::new();
        for row in reads::pipelines::tenants(sources(), all()?).await?.items {
            if let Some(params) = Params::of_path("/{tenant}", &format!("/{}", part(&row.tenant))) {
                tenants.push(reads::pipelines::status(sources(), params).await?);
            }
        }
        seen.tenants = Some(tenants);
    }
    Ok(seen)
}

/// What is wrong, the worst first.
fn troubles(seen: &Seen) -> Vec<Trouble> {
    let mut troubles = Vec::new();
    troubles.extend(seen.pools.iter().flatten().filter_map(pool_trouble));
    troubles.extend(seen.queues.iter().flatten().flat_map(queue_troubles));
    troubles.extend(seen.jobs.iter().flatten().filter_map(job_trouble));
    for tenant in seen.tenants.iter().flatten() {
        tenant_troubles(tenant, &mut troubles);
    }
    troubles.sort_by_key(|trouble| trouble.mood != Mood::Bad);
    troubles
}

fn pool_trouble(row: &PoolRow) -> Option<Trouble> {
    let link = parts::link("/slots", &row.pool);
    let Some(view) = &row.view else {
        let what =
            html! { "pool " (link) " is damaged: " (foreign(row.error.as_deref().unwrap_or_default())) };
        let cure = html! { "See " code { "menagerie doctor" } };
        return Some(Trouble { mood: Mood::Bad, what, since: None, cure });
    };
    if let Some(frozen) = &view.frozen {
        let what = html! { "pool " (link) " is frozen by " (foreign(&frozen.by)) };
        let cure = html! { "Thaw it on its page, or with " code { "menagerie slots thaw " (view.pool) } };
        return Some(Trouble { mood: Mood::Warn, what, since: None, cure });
    }
    let silent = view.holders.iter().find(|holder| holder.alive == Some(false))?;
    Some(Trouble {
        mood: Mood::Bad,
        what: html! { (foreign(&silent.holder.holder)) " holds a slot of " (link) " and gives no sign of life" },
        since: Some(time(silent.since_ms)),
        cure: html! { "If nothing runs there any more, release it on the page of the pool" },
    })
}

fn queue_troubles(row: &QueueRow) -> Vec<Trouble> {
    let name = row.queue.to_string();
    let (link, failed) = (parts::link("/queues", &name), format!("/queues/{}/failed", part(&name)));
    let since = row.oldest_since_ms.map(|since| parts::maybe_time(Some(since)));
    let lag = row.lag.unwrap_or(0);
    let mut troubles = Vec::new();
    let mut add = |mood, what, since, cure| troubles.push(Trouble { mood, what, since, cure });
    match row.state {
        QueueState::Open => {}
        QueueState::NoWorkers | QueueState::PartlyOwned if lag > 0 => {
            let what = html! { (parts::count(lag, "message")) " waiting in queue " (link) ", and " (row.state.as_str()) };
            let cure = html! { "Start one: " code { "menagerie worker " (name) " -- COMMAND" } };
            add(Mood::Bad, what, since, cure);
        }
        QueueState::NoWorkers | QueueState::PartlyOwned => {}
        QueueState::Paused | QueueState::WorkersPaused | QueueState::PartlyPaused => {
            let what = html! { "queue " (link) ": " (row.state.as_str()) };
            add(
                Mood::Warn,
                what,
                since,
                html! { "Resume it on its page, or with " code { "menagerie queue resume " (name) } },
            );
        }
        QueueState::Refused
        | QueueState::JournalDamaged
        | QueueState::NotInJournal
        | QueueState::JournalAway
        | QueueState::Unreadable => {
            let what =
                html! { "queue " (link) ": " (foreign(row.reason.as_deref().unwrap_or(row.state.as_str()))) };
            add(Mood::Bad, what, None, html! { "See " code { "menagerie doctor" } });
        }
    }
    if let Some(count) = row.failed.filter(|count| *count > 0) {
        let what = html! { a href=(failed) { (count) @if count == 1 { " message" } @else { " messages" } } " of queue " (link) " failed" };
        add(
            Mood::Warn,
            what,
            None,
            html! { "Why, and what now, is on the " a href=(failed) { "page of the failed ones" } },
        );
    }
    troubles
}

fn job_trouble(job: &JobRow) -> Option<Trouble> {
    let is_bad = matches!(job.state, Standing::Failed | Standing::Refused | Standing::Damaged);
    is_bad.then(|| Trouble {
        mood: Mood::Warn,
        what: html! {
            "job " (parts::link("/flows", &job.id)) " (" (foreign(&job.name)) ") " (job.state.as_str()) ": "
            (job.why.as_deref().map_or_else(dash, foreign))
        },
        since: job.ended_ms.and_then(|ms| i64::try_from(ms).ok()).map(time),
        cure: html! { "Correct the cause, and submit it again" },
    })
}

fn tenant_troubles(tenant: &StatusView, troubles: &mut Vec<Trouble>) {
    let link = || parts::link("/pipelines", &tenant.tenant);
    for error in &tenant.config_errors {
        let what = html! { "configuration of tenant " (link()) ": " (foreign(error)) };
        let cure = html! { "Correct it in its repository" };
        troubles.push(Trouble { mood: Mood::Bad, what, since: None, cure });
    }
    for error in &tenant.connection_errors {
        let what = html! { "repository " (foreign(&error.project)) " of tenant " (link()) ": " (foreign(&error.error)) };
        let cure = html! { "See whether it can be reached" };
        troubles.push(Trouble { mood: Mood::Bad, what, since: None, cure });
    }
    for item in items(tenant).filter(|item| !item.failing_reasons.is_empty()) {
        let reason = item.failing_reasons.join(", ");
        let what = html! { (foreign(&item.id)) " of tenant " (link()) " is failing: " (foreign(&reason)) };
        let cure = html! { "It leaves by itself when its jobs have ended" };
        troubles.push(Trouble { mood: Mood::Warn, what, since: Some(time(item.enqueue_time)), cure });
    }
}

fn items(tenant: &StatusView) -> impl Iterator<Item = &ItemView> {
    let queues = tenant.pipelines.iter().flat_map(|pipeline| &pipeline.change_queues);
    queues.flat_map(|queue| queue.heads.iter().flatten())
}

fn card(title: &str, address: &str, is_empty: bool, first: &str, body: Markup) -> Markup {
    html! {
        section.card aria-label=(title) {
            h3 { a href=(address) { (title) } }
            @if is_empty { p { "Nothing yet. Begin with:" } (parts::command(first)) } @else { (body) }
        }
    }
}

fn slots_card(pools: &[PoolRow]) -> Markup {
    let views = || pools.iter().filter_map(|row| row.view.as_ref());
    let (used, waiting): (usize, usize) =
        (views().map(|view| view.used).sum(), views().map(|view| view.waiters.len()).sum());
    let first = "menagerie slots create decommission --max 3";
    card(
        "Slots",
        "/slots",
        pools.is_empty(),
        first,
        html! {
            p { strong { (used) } " in, " strong { (waiting) } " waiting, " (parts::count(pools.len(), "pool")) }
        },
    )
}

fn queues_card(queues: &[QueueRow]) -> Markup {
    let lag: u64 = queues.iter().filter_map(|row| row.lag).sum();
    let failed: u64 = queues.iter().filter_map(|row| row.failed).sum();
    let oldest = queues.iter().filter_map(|row| row.oldest_since_ms).min();
    let first = "menagerie queue create mail --partitions 4";
    card(
        "Queues",
        "/queues",
        queues.is_empty(),
        first,
        html! {
            p { strong { (lag) } " waiting, " strong { (failed) } " failed, " (parts::count(queues.len(), "queue")) }
            @if let Some(oldest) = oldest { p { "the oldest: " (parts::maybe_time(Some(oldest))) } }
            @if let Some(rates) = charts::rates_now(queues) { p { (rates) } }
        },
    )
}

fn flows_card(jobs: &[JobRow]) -> Markup {
    let count = |state| jobs.iter().filter(|job| job.state == state).count();
    card(
        "Flows",
        "/flows",
        jobs.is_empty(),
        "menagerie flow submit job.toml",
        html! {
            p {
                strong { (count(Standing::Running) + count(Standing::Submitted)) } " running, "
                strong { (count(Standing::Complete)) } " complete, " strong { (count(Standing::Failed)) } " failed"
            }
        },
    )
}

fn pipelines_card(tenants: &[StatusView]) -> Markup {
    let all: Vec<&ItemView> = tenants.iter().flat_map(items).filter(|item| item.live).collect();
    let failing = all.iter().filter(|item| !item.failing_reasons.is_empty()).count();
    let first = "menagerie config show  # [pipelines] names the file of tenants";
    card(
        "Pipelines",
        "/pipelines",
        tenants.is_empty(),
        first,
        html! {
            p { strong { (all.len()) } " queued, " strong { (failing) } " failing, " (parts::count(tenants.len(), "tenant")) }
        },
    )
}

fn component_row(component: &ComponentView) -> Markup {
    let text = |text: &Option<String>| text.as_deref().map_or_else(dash, foreign);
    let mood = match component.state.as_deref() {
        Some("running") => Mood::Good,
        Some("initializing") => Mood::Busy,
        Some(_) | None => Mood::Warn,
    };
    html! {
        tr id=(format!("component-{}-{}", part(&component.kind), part(&component.name))) {
            th scope="row" { (foreign(&component.kind)) }
            td { (foreign(&component.name)) }
            td { (text(&component.host)) }
            td { (badge(mood, component.state.as_deref().unwrap_or("unknown"))) }
            td { (text(&component.version)) }
            td { (time(component.since_ms)) }
        }
    }
}
