//! How ZooKeeper is.

use maud::{Markup, html};

use super::parts::{Mood, badge, facts, foreign, part, table};
use super::{Content, Viewer};
use crate::problem::Problem;
use crate::reads;
use crate::reads::installation::ServerView;

/// What people look for first: facts of `mntr`, and their names.
const FIRST: [(&str, &str); 10] = [
    ("version", "Version"),
    ("server_state", "State"),
    ("avg_latency", "Mean latency, ms"),
    ("max_latency", "Longest latency, ms"),
    ("num_alive_connections", "Connections"),
    ("global_sessions", "Sessions"),
    ("watch_count", "Watches"),
    ("znode_count", "Znodes"),
    ("outstanding_requests", "Requests in flight"),
    ("avg_fsynctime", "Mean sync time, ms"),
];

/// All servers.
pub async fn keeper(viewer: Viewer) -> Result<Content, Problem> {
    let view = reads::installation::keeper(viewer.sources.clone(), viewer.params.clone()).await?;
    let mood = if view.state == "connected" { Mood::Good } else { Mood::Bad };
    let main = html! {
        h1 { "Keeper" }
        (facts(&[
            ("Session of this page's server", html! { code { (view.session) } }),
            ("State", badge(mood, &view.state)),
            ("Time-out", html! { (view.timeout_ms) " ms" }),
        ]))
        @for server in &view.servers { (show(server)) }
    };
    Ok(Content { title: "Keeper".to_owned(), main })
}

fn show(server: &ServerView) -> Markup {
    let first: Vec<(&str, Markup)> = FIRST
        .iter()
        .filter_map(|(fact, name)| server.fact(fact).map(|value| (*name, foreign(value))))
        .collect();
    html! {
        section id=(format!("server-{}", part(&server.address))) {
            h2 { "Server " (foreign(&server.address)) }
            @if let Some(note) = &server.note { p.problem { (foreign(note)) } }
            (facts(&first))
            @if !server.facts.is_empty() {
                details {
                    summary { "All that it says" }
                    (table("mntr", &["Name", "Value"], &html! {
                        @for (name, value) in &server.facts { tr { th scope="row" { (foreign(name)) } td { (foreign(value)) } } }
                    }))
                }
            }
        }
    }
}
