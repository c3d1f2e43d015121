//! A gate merges what passes its tests, and nothing else.

use std::fmt::Display;
use std::time::Duration;

use menagerie_kernel::{Config, Session};
use menagerie_pipelines::client::{self, Approval, ChangeName};
use menagerie_pipelines::git::Caches;
use menagerie_queues::journals::{Access, Journals};
use menagerie_znodes::Name;
use menagerie_znodes::pipelines::HistoryRecord;

use super::gate::{APP, CONNECTION, Gate};
use super::{Stopping, stop_requested};

/// The scheduler reads the configuration a moment after it has started.
const PATIENCE: Duration = Duration::from_secs(60);
const LOOK_EVERY: Duration = Duration::from_millis(200);

/// Runs the demo on these repositories.
pub async fn run(
    config: Config,
    access: Access,
    gate: Gate,
    menagerie: &str,
    stopping: Stopping,
) -> Result<(), String> {
    tokio::select! {
        shown = show(config, access, &gate, menagerie) => shown,
        () = stop_requested(stopping) => Ok(()),
    }
}

async fn show(config: Config, access: Access, gate: &Gate, menagerie: &str) -> Result<(), String> {
    let session = Session::connect(config).await.map_err(to_text)?;
    let journals = Journals::registered(&session, access).await.map_err(to_text)?;
    let (tenant, pipeline) = (name("demo")?, name("gate")?);
    wait_for_pipeline(&session, &tenant, &pipeline).await?;
    println!("demo: repository {APP} has a gate: what is approved is tested, and merged if its job is happy");
    println!("demo: watch it with `{menagerie} pipeline status --watch`");
    let good = propose(&session, gate, "farewell", "farewell.txt", "Goodbye, world.\n").await?;
    let bad = propose(&session, gate, "rude", "greeting.txt", "Go away.\n").await?;
    for change in [&good, &bad] {
        approve(&session, gate, change).await?;
    }
    for change in [good, bad] {
        let ended =
            client::wait_for_change(&session, &journals, &tenant, &pipeline, &change, Some(PATIENCE)).await;
        println!("demo: {change} {}", outcome(&ended.map_err(to_text)?, menagerie));
    }
    let newest = gate.newest()?;
    println!("demo: branch main of {APP} is now at {newest}; see `{menagerie} pipeline history`");
    println!("demo: propose a change of your own: git clone {}", gate.repository(APP).display());
    session.close().await;
    Ok(())
}

async fn wait_for_pipeline(session: &Session, tenant: &Name, pipeline: &Name) -> Result<(), String> {
    let there = async {
        while client::require_pipeline(session, tenant, pipeline).await.is_err() {
            tokio::time::sleep(LOOK_EVERY).await;
        }
    };
    let waited = tokio::time::timeout(PATIENCE, there).await;
    waited.map_err(|_| format!("there is no pipeline {pipeline} after {} s", PATIENCE.as_secs()))
}

async fn propose(
    session: &Session,
    gate: &Gate,
    topic: &str,
    file: &'static str,
    text: &'static str,
) -> Result<ChangeName, String> {
    let change: ChangeName = format!("{APP}:propose/main/{topic}").parse().map_err(to_text)?;
    let (gate, topic) = (gate.clone(), topic.to_owned());
    let pushed = tokio::task::spawn_blocking(move || gate.propose(&topic, file, text)).await;
    pushed.map_err(to_text)??;
    client::poke(session, CONNECTION, APP).await.map_err(to_text)?;
    println!("demo: proposed {change}: {file} is to say {:?}", text.trim_end());
    Ok(change)
}

async fn approve(session: &Session, gate: &Gate, change: &ChangeName) -> Result<(), String> {
    let approval = Approval {
        change: change.clone(),
        patchset: None,
        votes: Default::default(),
        comment: None,
        by: "demo".to_owned(),
    };
    let connections = gate.settings().plain_connections();
    let approved = client::approve(session, &connections, &Caches::new(gate.caches()), approval).await;
    approved.map_err(to_text)?;
    println!("demo: approved {change}");
    Ok(())
}

fn outcome(record: &HistoryRecord, menagerie: &str) -> String {
    let merged = record.refs.iter().find(|one| one.merged).and_then(|one| one.commit.as_ref());
    if let Some(commit) = merged {
        return format!("passed, and is merged: {}", commit.short());
    }
    let failed = record.builds.iter().find(|build| {
        build.result.as_deref().is_some_and(|result| !matches!(result, "SUCCESS" | "CANCELED"))
    });
    let logs =
        failed.map_or(String::new(), |build| format!("; see `{menagerie} pipeline logs {}`", build.uuid));
    format!("is not merged: {}{logs}", record.result)
}

fn name(text: &str) -> Result<Name, String> {
    Name::new(text).map_err(to_text)
}

fn to_text(error: impl Display) -> String {
    error.to_string()
}
