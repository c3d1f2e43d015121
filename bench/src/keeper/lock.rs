//! The contended lock: ZooKeeper's own recipe, with an awaited release.
//!
//! The client library has a lock as well, but releases in the background; here the release is measured, too.
//!
//! # The lock on the null server
//! It has no tree, so nobody can wait there. The honest limit is the same *requests in the same order, as serial as a
//! lock makes them*: a contender creates its ticket, lists, reads its predecessor, waits for its turn, lists again
//! and deletes. Only the wait differs: a fair mutex in this process hands over the turn, where a real server sends a
//! notification together with the reply to the delete. Without that turn, contenders would run concurrently, and no
//! lock could come near. So a cycle costs two writes, of which the create overlaps with others' turns, and three
//! reads, of which one is on the critical path, along with the delete.

use anyhow::{Context, Result};
use tokio::sync::Mutex;
use zookeeper_client::{Acls, Client, CreateMode, CreateOptions, Error};

use super::load::VALUE;

const TICKET: CreateOptions<'static> = CreateMode::EphemeralSequential.with_acls(Acls::anyone_all());

/// How a contender learns that it is its turn.
pub enum Turn {
    /// By a watch on its predecessor.
    Watched,
    /// By a mutex in this process.
    Replayed(Mutex<()>),
}

/// One operation of the row: acquire and release.
pub async fn cycle(client: &Client, directory: &str, turn: &Turn) -> Result<()> {
    match turn {
        Turn::Watched => {
            let ticket = acquire(client, directory).await.context("cannot acquire the lock")?;
            client.delete(&ticket, None).await.context("cannot release the lock")
        }
        Turn::Replayed(turn) => replay(client, directory, turn).await.context("cannot replay the lock"),
    }
}

async fn acquire(client: &Client, directory: &str) -> Result<String, Error> {
    let (_, sequence) = client.create(&format!("{directory}/ticket-"), &VALUE, &TICKET).await?;
    let mine = format!("ticket-{sequence}");
    loop {
        let tickets = client.list_children(directory).await?;
        let Some(before_me) = tickets.iter().filter(|ticket| **ticket < mine).max() else {
            return Ok(format!("{directory}/{mine}"));
        };
        match client.get_and_watch_data(&format!("{directory}/{before_me}")).await {
            Ok((_, _, watcher)) => {
                watcher.changed().await;
            }
            Err(Error::NoNode) => {}
            Err(error) => return Err(error),
        }
    }
}

async fn replay(client: &Client, directory: &str, turn: &Mutex<()>) -> Result<(), Error> {
    let (_, sequence) = client.create(&format!("{directory}/ticket-"), &VALUE, &TICKET).await?;
    let mine = format!("{directory}/ticket-{sequence}");
    client.list_children(directory).await?;
    client.get_data(&mine).await?;
    let _turn = turn.lock().await;
    client.list_children(directory).await?;
    client.delete(&mine, None).await
}
