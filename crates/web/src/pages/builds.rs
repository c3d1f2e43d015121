//! One build, and its log.

use maud::{Markup, html};
use menagerie_pipelines::view::{BuildState, BuildView};

use super::parts::{self, Mood, badge, facts, foreign, maybe, part, time, visible};
use super::{Content, Viewer};
use crate::builds::search::LogSearch;
use crate::params::{Param, ParamKind};
use crate::problem::Problem;
use crate::reads::builds::{BuildReply, Shown, with_log};

/// Parameters of the page.
pub const QUERY: &[Param] = &[Param {
    name: "q",
    about: "Only the lines of the log that contain this, whatever the case of the letters.",
    kind: ParamKind::Text,
}];

/// Address of the page of a build.
pub fn address(tenant: &str, build: &str) -> String {
    format!("/pipelines/{}/builds/{}", part(tenant), part(build))
}

/// A build and its log.
pub async fn build(viewer: Viewer) -> Result<Content, Problem> {
    let (reply, shown) = with_log(&viewer.sources, &viewer.params).await?;
    let view = &reply.build;
    let main = html! {
        h1 { "Build of job " (foreign(&view.job)) }
        p { (state(view)) @if let Some(detail) = &view.detail { " " (foreign(detail)) } }
        @if let Some(why) = &view.why { p.why { (foreign(why)) } }
        @if let (BuildState::Running, Some(start)) = (view.state, view.start_time) {
            p { (progress(&view.job, start, view.estimated_ms)) }
        }
        (about(view))
        section #log-section aria-label="Log" {
            h2 { "Log" }
            (log(&viewer, &reply, shown.as_ref()))
        }
    };
    Ok(Content { title: format!("Build of {}", view.job), main })
}

fn about(view: &BuildView) -> Markup {
    let tenant = part(view.tenant.as_str());
    let pipeline = html! {
        a href=(format!("/pipelines/{tenant}#pipeline-{}", part(view.pipeline.as_str()))) { (view.pipeline.to_string()) }
        " of " (parts::link("/pipelines", view.tenant.as_str()))
    };
    let moment = |at: Option<i64>| at.map_or_else(parts::dash, time);
    facts(&[
        ("Change", foreign(&view.item)),
        ("Pipeline", pipeline),
        ("Attempt", html! { (view.attempt) @if !view.voting { ", non-voting" } }),
        ("Began", moment(view.start_time)),
        ("Ended", moment(view.end_time)),
        ("Executor", maybe(view.executor.as_deref())),
        ("Build", html! { code { (view.uuid.to_string()) } }),
    ])
}

fn state(view: &BuildView) -> Markup {
    match (view.state, view.result.as_deref()) {
        (BuildState::Waiting, _) => badge(Mood::Idle, "waiting"),
        (BuildState::Running, _) => badge(Mood::Busy, "running"),
        (BuildState::Ended, Some("SUCCESS")) => badge(Mood::Good, "SUCCESS"),
        (BuildState::Ended, Some(result @ ("CANCELED" | "SKIPPED"))) => badge(Mood::Idle, result),
        (BuildState::Ended, Some(result)) => badge(Mood::Bad, result),
        (BuildState::Ended, None) => badge(Mood::Idle, "ended"),
    }
}

/// How far a running job is. The script moves it, so that the server's page stays the same.
pub fn progress(job: &str, start_ms: i64, estimated_ms: Option<i64>) -> Markup {
    let estimate = estimated_ms.map(|estimate| estimate.max(1));
    html! {
        @if let Some(estimate) = estimate {
            progress.job data-start=(start_ms) data-estimate=(estimate) max=(estimate) aria-label=(format!("Progress of {job}")) {}
            " " span { "begun " (time(start_ms)) ", takes about " (duration(estimate)) " usually" }
        } @else {
            "begun " (time(start_ms)) ", no estimate yet"
        }
    }
}

fn duration(ms: i64) -> String {
    match ms {
        ..120_000 => format!("{} s", (ms + 999) / 1000),
        120_000..7_200_000 => format!("{} min", ms / 60_000),
        7_200_000.. => format!("{} h", ms / 3_600_000),
    }
}

fn log(viewer: &Viewer, reply: &BuildReply, shown: Option<&Shown>) -> Markup {
    let (Some(shown), Some(size)) = (shown, reply.log_bytes) else {
        let why = reply.log_missing.as_deref().unwrap_or("no executor has it");
        return html! { p { "No log: " (foreign(why)) "." } };
    };
    let view = &reply.build;
    let download = format!("/api/v1{}/log/raw", address(view.tenant.as_str(), view.uuid.as_str()));
    html! {
        (parts::filter(&viewer.params, "Lines with"))
        p { a href=(download) download { "Download all of it" } " (" (bytes(size)) ")" }
        @match shown {
            Shown::Tail(text, _) if text.is_empty() => { p { "It is empty so far." } }
            Shown::Tail(text, is_all) => {
                @if !is_all { p { "Its end:" } }
                pre #log.log tabindex="0" dir="ltr" { (visible(text)) }
            }
            Shown::Found(search, searched) => { (found(search, *searched)) }
        }
    }
}

fn found(search: &LogSearch, size: u64) -> Markup {
    let lines = search.found();
    let count = search.count();
    html! {
        p role="status" {
            @match count {
                0 => "No line contains it",
                1 => "1 line contains it",
                count => { (count) " lines contain it" }
            }
            @if count > lines.len() as u64 { "; the last " (lines.len()) " of them" }
            @if search.next() < size { " in the first " (bytes(search.next())) " of " (bytes(size)) "; the search goes on" }
            "."
        }
        @if !lines.is_empty() {
            pre #log.log tabindex="0" dir="ltr" {
                @for line in &lines { span.number { (line.number) } " " (visible(&line.text)) "\n" }
            }
        }
    }
}

fn bytes(count: u64) -> String {
    match count {
        0..10_000 => format!("{count} bytes"),
        10_000..10_000_000 => format!("{} kB", count / 1000),
        10_000_000.. => format!("{} MB", count / 1_000_000),
    }
}
