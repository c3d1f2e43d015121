//! The web server of this machine, and the token with which its user acts.

use std::path::Path;

use menagerie_pipelines::git::Caches;
use menagerie_web::metrics::Metrics;
use menagerie_web::sources::Git;
use menagerie_znodes::flows::Deployment;
use prometheus_client::registry::Registry;

use super::servers::Local;
use crate::commands::pipeline::settings;
use crate::commands::secret_file::SecretFile;
use crate::commands::web::Parts;
use crate::config::PipelineSettings;
use crate::listener::Endpoint;

/// The file with the token with which this user acts.
pub fn token_file(root: &Path) -> SecretFile {
    SecretFile::at(root.join("web.token"))
}

/// What the web server of this machine needs.
pub fn parts(
    root: &Path,
    local: &Local,
    endpoint: Endpoint,
    deployment: Deployment,
    pipelines: Option<&PipelineSettings>,
    registry: &mut Registry,
) -> Parts {
    let git = pipelines.map(|pipelines| Git {
        connections: pipelines.plain_connections(),
        caches: Caches::new(settings::folder(root).git()),
    });
    Parts {
        endpoint,
        metrics: Metrics::new(registry),
        deployment,
        servers: vec![local.keeper.to_string()],
        speaks_words: true,
        git,
        own_token: Some(token_file(root)),
    }
}
