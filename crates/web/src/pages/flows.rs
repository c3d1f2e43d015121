//! Jobs, and the tasks of each.

use maud::{Markup, html};
use menagerie_flows::view::{JobRow, Standing, TaskRow};
use menagerie_znodes::web::{Area, Scope};

use super::buttons::Button;
use super::parts::{self, Mood, badge, dash, facts, foreign, part, table, time};
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
            (table("Tasks", &["Task", "Type", "Partitions", "State", "Peers"], &html! {
                @for task in &view.tasks { (task_row(task)) }
            }))
        }
    };
    Ok(Content { title: format!("Job {}", job.name), main })
}

fn task_row(task: &TaskRow) -> Markup {
    let peers: Vec<&str> = task.peers.iter().map(|peer| peer.as_str()).collect();
    html! {
        tr id=(format!("task-{}", task.number)) {
            th scope="row" { (foreign(&task.name)) }
            td { (task.task_type) }
            td.number { (task.partitions) }
            td {
                @if task.is_complete { (badge(Mood::Good, "complete")) }
                @else if task.peers.is_empty() { (badge(Mood::Idle, "waits for a peer")) }
                @else { (badge(Mood::Busy, "at work")) }
            }
            td { (if peers.is_empty() { "–".to_owned() } else { peers.join(", ") }) }
        }
    }
}
