//! Creates many znodes of 128 bytes, outside any measurement.

use anyhow::{Context, Result};
use futures_util::{StreamExt, TryStreamExt, stream};

use super::load::{PERSISTENT, VALUE, connect};
use crate::servers::Server;

/// Children per directory: real trees are neither flat nor deep.
const DIRECTORY_SIZE: usize = 1000;

/// Creates in flight: enough to keep any server busy.
const IN_FLIGHT: usize = 256;

/// Creates in one multi: about 20 KiB, far below the 1 MiB that a frame may have.
const MULTI_SIZE: usize = 100;

/// Multis in flight.
const MULTIS_IN_FLIGHT: usize = 8;

fn directory(n: usize) -> String {
    format!("/fill-{:06}", n / DIRECTORY_SIZE)
}

fn znode(n: usize) -> String {
    format!("{}/znode-{:06}", directory(n), n % DIRECTORY_SIZE)
}

async fn make_directories(server: &Server, count: usize) -> Result<zookeeper_client::Client> {
    let client = connect(server).await?;
    for n in (0..count).step_by(DIRECTORY_SIZE) {
        client.create(&directory(n), &[], &PERSISTENT).await.context("cannot create a directory")?;
    }
    Ok(client)
}

/// Creates `count` znodes one by one, as an ordinary application would.
pub async fn by_creates(server: &Server, count: usize) -> Result<()> {
    let client = make_directories(server, count).await?;
    let creates = (0..count).map(|n| {
        let client = &client;
        async move { client.create(&znode(n), &VALUE, &PERSISTENT).await }
    });
    stream::iter(creates)
        .buffer_unordered(IN_FLIGHT)
        .try_for_each(|_| async { Ok(()) })
        .await
        .context("cannot create a znode")
}

/// Creates `count` znodes in multis: faster, where only the result matters.
pub async fn by_multis(server: &Server, count: usize) -> Result<()> {
    let client = make_directories(server, count).await?;
    let multis = (0..count).step_by(MULTI_SIZE).map(|first| {
        let mut writer = client.new_multi_writer();
        async move {
            for n in first..count.min(first + MULTI_SIZE) {
                writer.add_create(&znode(n), &VALUE, &PERSISTENT)?;
            }
            writer.commit().await.map(drop).map_err(anyhow::Error::from)
        }
    });
    stream::iter(multis)
        .buffer_unordered(MULTIS_IN_FLIGHT)
        .try_for_each(|()| async { Ok(()) })
        .await
        .context("cannot create znodes")
}
