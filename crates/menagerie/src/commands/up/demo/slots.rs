//! Five hosts that all want a slot at once.

use std::ffi::OsString;
use std::time::Duration;

use menagerie_kernel::{Config, Session};
use menagerie_slots::run::{self as engine, Ended, OnFailure, Plan};
use menagerie_slots::{Request, Standing, acquire, admin, identity};
use menagerie_znodes::Name;
use tokio::sync::mpsc;

use super::{Stopping, stop_requested};

const HOSTS: usize = 5;
const MAX: u32 = 2;
const POOL: &str = "decommission";

/// How long each host works: long enough to watch from another terminal.
const WORK_S: &str = "3";

/// Runs the demo. An interrupted host keeps its slot, as it would in production.
pub async fn run(config: Config, menagerie: &str, stopping: Stopping) -> Result<(), String> {
    tokio::select! {
        shown = show(config, menagerie) => shown,
        () = stop_requested(stopping) => Ok(()),
    }
}

async fn show(config: Config, menagerie: &str) -> Result<(), String> {
    let session = Session::connect(config.clone()).await.map_err(|error| error.to_string())?;
    let pool = Name::new(POOL).map_err(|error| error.to_string())?;
    admin::create(&session, &pool, MAX, "demo").await.map_err(|error| error.to_string())?;
    println!();
    println!("demo: {HOSTS} hosts want to be decommissioned at once; pool {POOL} lets {MAX} go at a time");
    println!("demo: watch it with `{menagerie} slots show {POOL} --watch`");
    let hosts: Vec<_> = (1..=HOSTS)
        .map(|number| tokio::spawn(host(config.clone(), pool.clone(), format!("host-{number}"))))
        .collect();
    for host in hosts {
        host.await.map_err(|error| error.to_string())??;
    }
    println!(
        "demo: all {HOSTS} are done, and never more than {MAX} at once; see `{menagerie} slots history {POOL}`"
    );
    Ok(())
}

fn describe(standing: &Standing) -> String {
    match (&standing.own, standing.ahead) {
        (Some((slot, doubt)), _) => {
            format!("waits for slot {slot}, which it has from an earlier demo: {doubt}")
        }
        (None, 0) => "waits, and is next".to_owned(),
        (None, ahead) => format!("waits, with {ahead} ahead"),
    }
}

async fn host(config: Config, pool: Name, name: String) -> Result<(), String> {
    let session = Session::connect(config).await.map_err(|error| error.to_string())?;
    let command: Vec<OsString> = vec!["sleep".into(), WORK_S.into()];
    let request = Request {
        holder: name.clone(),
        priority: 0,
        ephemeral: false,
        who: Some("demo".to_owned()),
        reason: Some("demo".to_owned()),
        command: command.iter().map(|word| word.to_string_lossy().into_owned()).collect(),
        local: menagerie_slots::core::Local { host: name.clone(), ..identity::local() },
        process: Some(identity::this_process()),
        guard: None,
    };
    let mut last = None;
    let held = acquire(&session, &pool, &request, |standing| {
        let text = describe(&standing);
        if last.as_ref() != Some(&text) {
            println!("demo: {name} {text}");
            last = Some(text);
        }
    });
    let held = held.await.map_err(|error| error.to_string())?;
    println!("demo: {name} has slot {}", held.number());
    let plan = Plan {
        command,
        on_acquire: None,
        on_release: None,
        disarm: None,
        grace: Duration::from_secs(1),
        on_failure: OnFailure::Release,
        release_delay: Duration::ZERO,
        take_terminal: false,
    };
    let (_signals, mut no_signals) = mpsc::channel(1);
    match engine::run(&session, &pool, held, &plan, &mut no_signals)
        .await
        .map_err(|error| error.to_string())?
    {
        Ended::Released(_) => println!("demo: {name} is done and has given its slot back"),
        Ended::Kept(_) | Ended::NotReleased(_) | Ended::NotWanted(_) | Ended::OutOfService | Ended::Lost => {
            println!("demo: {name} was interrupted")
        }
    }
    session.close().await;
    Ok(())
}
