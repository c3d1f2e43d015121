//! Repositories of the configured connections, for mergers and executors: how they are found, and how often a remote that
//! does not answer is tried.

use std::time::Duration;

use menagerie_kernel::whole;
use menagerie_znodes::pipelines::Source;
use thiserror::Error;
use tokio::time::sleep;
use tracing::info;

use crate::git::{Caches, GitError, Repository};
use crate::settings::{Folder, Settings};

/// Pauses between attempts to reach a remote: its server may be restarted unnoticed, a lasting outage is told after about a
/// minute.
const PAUSES: [Duration; 7] = [
    Duration::from_millis(500),
    Duration::from_millis(1_500),
    Duration::from_secs(3),
    Duration::from_secs(5),
    Duration::from_secs(10),
    Duration::from_secs(15),
    Duration::from_secs(25),
];

/// All repositories that this process may use.
#[derive(Debug)]
pub(crate) struct Repositories {
    caches: Caches,
    settings: Settings,
}

/// Why nothing came of a repository.
#[derive(Debug, Error)]
pub(crate) enum RepositoryError {
    /// The request names a connection that our configuration does not have.
    #[error("the connection {connection} of {project} is not configured on {host}")]
    NoConnection {
        /// Its name.
        connection: String,
        /// The project that was asked for.
        project: String,
        /// Which of the mergers or executors that is.
        host: String,
    },
    /// The repository is not as the request says.
    #[error("{what}")]
    Unfit {
        /// What is wrong.
        what: String,
        /// What its owner may do.
        help: &'static str,
    },
    /// Git failed.
    #[error(transparent)]
    Git(#[from] GitError),
}

impl RepositoryError {
    /// What failed, why, and what to try, for a report.
    pub(crate) fn message(&self) -> String {
        let help = match self {
            Self::NoConnection { .. } => {
                "Add it to [pipelines.connections] of the configuration there, as on the others."
            }
            Self::Unfit { help, .. } => help,
            Self::Git(error) => error.help(),
        };
        format!("{}. {help}", whole(self))
    }

    /// Whether this machine is at fault, so that another one may succeed.
    pub(crate) fn is_local(&self) -> bool {
        match self {
            Self::NoConnection { .. } => true,
            Self::Unfit { .. } => false,
            Self::Git(error) => error.is_local(),
        }
    }
}

impl Repositories {
    /// Those of these connections, with caches in this folder.
    pub(crate) fn new(settings: &Settings, folder: &Folder) -> Self {
        Self { caches: Caches::new(folder.git()), settings: settings.clone() }
    }

    /// The repository of a project. `host` is told if it is not known here.
    pub(crate) async fn open(&self, source: &Source, host: &str) -> Result<Repository, RepositoryError> {
        let Source { connection, project } = source;
        let Some(found) = self.settings.connections.get(connection) else {
            let (connection, project, host) = (connection.clone(), project.clone(), host.to_owned());
            return Err(RepositoryError::NoConnection { connection, project, host });
        };
        Ok(self.caches.repository(connection, project, &found.url(project)).await?)
    }
}

/// Repeats what may have failed because a remote was away for a moment. All of it must be safe to repeat.
pub(crate) async fn patiently<T>(
    attempt: impl AsyncFn() -> Result<T, RepositoryError>,
) -> Result<T, RepositoryError> {
    for pause in PAUSES {
        match attempt().await {
            Err(RepositoryError::Git(error @ GitError::Unreachable { .. })) => {
                info!(%error, ?pause, "repository cannot be reached; trying again");
                sleep(pause).await;
            }
            done => return done,
        }
    }
    attempt().await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_remote_that_is_away_is_tried_for_a_minute_in_growing_pauses() {
        assert_eq!(PAUSES.iter().sum::<Duration>(), Duration::from_secs(60));
        assert!(PAUSES.is_sorted());
    }
}
