//! Jobs, and the tasks of each.

use maud::{Markup, html};
use menagerie_flows::view::{EdgeView, JobRow, JobView, PeerView, Standing, TaskRow};
use menagerie_znodes::web::{Area, Scope};

use super::buttons::Button;
use super::dag;
use super::parts::{self, Mood, badge, dash, facts, foreign, maybe, part, table, time};
use super::{Content, Viewer};
use crate::problem::Problem;
use crate::reads;

/// All jobs.
pub async fn jobs(viewer: Viewer) -> Result<Content, Problem> {
    let listing = reads::flows::jobs(viewer.sources.clone(), viewer.params.clone()).await?;
    let rows = html! { @for job in &listing.items { (job_row(job)) } };
    let main = html! {
        h1 { "Flows" }
        (parts::filter(&viewer.params, "Jobs with"))
        @if listing.items.is_empty() {
            p { "No jobs. One is checked and submitted by:" }
            (parts::command("menagerie flow check job.toml\nmenagerie flow submit job.toml"))
        } @else {
            (table("Jobs, newest first", &["Job", "Name", "State", "Tasks", "Submitted", "Ended"], &rows))
        }
        (parts::pager(&viewer.params, listing.next.as_ref()))
    };
    Ok(Content { title: "Flows".to_owned(), main })
}

fn job_row(job: &JobRow) -> Markup {
    html! {
        tr id=(format!("job-{}", part(&job.id))) {
            th scope="row" { (parts::link("/flows", &job.id)) }
            td { (foreign(&job.name)) }
            td { (state(job.state)) }
            td { (progress(job)) }
            td { (moment(job.submitted_ms)) }
            td { (moment(job.ended_ms)) }
        }
    }
}

fn progress(job: &JobRow) -> Markup {
    html! {
        @if job.tasks > 0 {
            progress max=(job.tasks) value=(job.complete) aria-label="Tasks complete" { (job.complete) } " "
            (job.complete) " of " (job.tasks)
        } @else { (dash()) }
    }
}

fn moment(ms: Option<u64>) -> Markup {
    ms.and_then(|ms| i64::try_from(ms).ok()).map_or_else(dash, time)
}

/// How a job stands.
pub fn state(state: Standing) -> Markup {
    let mood = match state {
        Standing::Submitted => Mood::Idle,
        Standing::Running => Mood::Busy,
        Standing::Complete => Mood::Good,
        Standing::Killed => Mood::Warn,
        Standing::Failed | Standing::Refused | Standing::Damaged => Mood::Bad,
    };
    badge(mood, state.as_str())
}

/// One job.
pub async fn job(viewer: Viewer) -> Result<Content, Problem> {
    let view = reads::flows::job(viewer.sources.clone(), viewer.params.clone()).await?;
    let job = &view.job;
    let is_open = matches!(job.state, Standing::Submitted | Standing::Running);
    let kill = Button {
        rights: viewer.rights,
        takes: (Area::Flows, Scope::Operate),
        path: format!("/flows/{}/kill", part(&job.id)),
        label: "Kill",
        fields: &[],
        asks: None,
        warns: Some("The job ends; what it has written so far is not published."),
    };
    let main = html! {
        h1 { "Job " (foreign(&job.name)) }
        (facts(&[
            ("Id", html! { code { (job.id) } }),
            ("State", state(job.state)),
            ("Tasks", progress(job)),
            ("Submitted", moment(job.submitted_ms)),
            ("Ended", moment(job.ended_ms)),
        ]))
        @if let Some(why) = &job.why { p.problem { (foreign(why)) } }
        @if is_open { div.acts { (kill.show()) } }
        @if view.tasks.is_empty() {
            p { "It is not planned yet: " code { "menagerie status" } " shows whether a coordinator runs." }
        } @else {
            (dag::picture(&view))
            (table("Tasks", &["Task", "Type", "Partitions", "State", "Peers"], &html! {
                @for task in &view.tasks { (task_row(task, job.state == Standing::Running)) }
            }))
            (links(&view))
        }
    };
    Ok(Content { title: format!("Job {}", job.name), main })
}

fn task_row(task: &TaskRow, is_running: bool) -> Markup {
    let (mood, word) = dag::task_state(task, is_running);
    html! {
        tr id=(format!("task-{}", task.number)) {
            th scope="row" { (foreign(&task.name)) }
            td { (task.task_type) }
            td.number { (task.partitions) }
            td { (badge(mood, word)) }
            td {
                @if task.workers.is_empty() { (dash()) }
                @else { ul.peers { @for worker in &task.workers { li { (peer(worker)) } } } }
            }
        }
    }
}

fn peer(worker: &PeerView) -> Markup {
    html! {
        code { (foreign(&worker.peer)) }
        @if let Some(host) = &worker.host { " on " (foreign(host)) }
        ": " (worker.state.as_str()) " (" (moment(Some(worker.since_ms))) ")"
    }
}

/// The links between the tasks.
fn links(view: &JobView) -> Markup {
    let heads = ["From", "To", "Partitions", "Batches waiting", "Bytes waiting", "Writer", "Newest batch"];
    let is_silent = view.edges.iter().any(|edge| edge.lag.is_none());
    html! {
        (table("Links", &heads, &html! { @for edge in &view.edges { (link_row(edge, &view.tasks)) } }))
        @if is_silent && view.job.state == Standing::Running {
            p { "The journal does not say what waits: it is away, or the job has just begun or ended." }
        } @else if is_silent {
            p { "The links of a job that has ended are deleted." }
        }
    }
}

fn link_row(edge: &EdgeView, tasks: &[TaskRow]) -> Markup {
    let task = |number: u32| tasks.iter().find(|task| task.number == number);
    let name = |number| task(number).map_or_else(|| maybe(Some(number)), |task| foreign(&task.name));
    let is_full = edge.lag_bytes.is_some_and(|bytes| bytes >= edge.full_bytes);
    let has_reader = task(edge.to).is_some_and(|task| !task.peers.is_empty());
    html! {
        tr id=(format!("link-{}-{}", edge.from, edge.to)) {
            th scope="row" { (name(edge.from)) }
            td { (name(edge.to)) }
            td.number { (edge.partitions) }
            td.number { (maybe(edge.lag)) }
            td.number {
                @if let Some(bytes) = edge.lag_bytes { (mebibytes(bytes)) " of " (mebibytes(edge.full_bytes)) " MiB" }
                @else { (dash()) }
            }
            td {
                @match edge.is_held_back {
                    Some(true) => (badge(Mood::Warn, "held back")),
                    // It goes on: waiting would be for nobody.
                    Some(false) if is_full && !has_reader => "free: nobody reads",
                    Some(false) => "free",
                    None => (dash()),
                }
            }
            td { (moment(edge.written_ms)) }
        }
    }
}

/// In MiB, without decimals if there are none.
fn mebibytes(bytes: u64) -> String {
    match bytes % (1 << 20) {
        0 => (bytes >> 20).to_string(),
        _ => format!("{:.1}", bytes as f64 / f64::from(1 << 20)),
    }
}
