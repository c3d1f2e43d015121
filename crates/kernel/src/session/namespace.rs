//! The namespace: the part of the tree that is ours, and the generation of fences in it.

use std::time::{SystemTime, UNIX_EPOCH};

use menagerie_znodes::{Payload, kernel};
use zookeeper_client::{Client, CreateMode, Error};

use super::ConnectError;
use super::config::{Config, Rights};
use super::supervisor::acls;

/// Makes the namespace the client's root, and returns its generation. An owner creates the namespace if it is missing.
pub async fn enter(client: Client, config: &Config) -> Result<(Client, u64), ConnectError> {
    let root = config.root();
    let client = client.chroot(root.as_str()).map_err(|_| ConnectError::Namespace { path: root.clone() })?;
    let failed = |error| ConnectError::from_client(error, &config.servers);
    let (generation, importing) = (kernel::generation(), kernel::importing());
    loop {
        // In this order: an import creates both at once, so either it finds our generation and gives up, or we find its
        // note. Sync first, in the same round trip: our server may not know of the import yet.
        let (synced, data, note) = tokio::join!(
            client.sync("/"),
            client.get_data(generation.path()),
            client.check_stat(importing.path())
        );
        match (data, synced.and(note)) {
            (Ok(_), Ok(Some(_))) if config.rights == Rights::Owner => {
                return Err(ConnectError::Importing { path: root });
            }
            (Ok((data, _)), Ok(_)) => {
                let why = match u64::decode(&data) {
                    Ok(generation) => return Ok((client, generation)),
                    // An observer holds nothing, so it needs no fences.
                    Err(_) if config.rights == Rights::Observer => return Ok((client, 0)),
                    Err(error) => error.to_string(),
                };
                return Err(ConnectError::Generation { path: root, why });
            }
            (Err(Error::ConnectionLoss), _) | (_, Err(Error::ConnectionLoss)) => {}
            // The root of the tree has no generation: fences are for namespaces.
            (Err(Error::NoNode), _) if root == "/" || config.rights == Rights::Observer => {
                return Ok((client, 0));
            }
            (Err(Error::NoNode), _) => create(&client, config, &root).await.map_err(failed)?,
            (Err(error), _) | (_, Err(error)) => return Err(failed(error)),
        }
    }
}

/// Creates the namespace with its first generation.
async fn create(client: &Client, config: &Config, root: &str) -> Result<(), Error> {
    let mode = CreateMode::Persistent.with_acls(acls(config));
    let all = client.clone().chroot("/").map_err(|_| Error::BadArguments(&"no root"))?;
    let data = next_generation(0, now_ms()).encode();
    let mut created = all.mkdir(root, &mode).await;
    if created.is_ok() {
        created = client.create(kernel::generation().path(), &data, &mode).await.map(drop);
    }
    match created {
        // Somebody else was faster; or the reply was lost, and asking again tells.
        Err(Error::NodeExists | Error::ConnectionLoss) => Ok(()),
        created => created,
    }
}

/// The generation after `old`: it rises even when clocks differ.
pub fn next_generation(old: u64, now_ms: u64) -> u64 {
    now_ms.max(old + 1)
}

/// The wall-clock time, for generations.
pub fn now_ms() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .ok()
        .and_then(|since| u64::try_from(since.as_millis()).ok())
        .unwrap_or(0)
}
