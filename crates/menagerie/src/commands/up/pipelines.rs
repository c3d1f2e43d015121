//! The roles of pipelines: one of each.

use std::path::Path;

use super::servers::Local;
use crate::commands::executor::{self, Parts, processors};
use crate::commands::flow::JournalSource;
use crate::commands::pipeline::settings;
use crate::commands::{merger, scheduler};
use crate::config::PipelineSettings;
use crate::exit::CliError;
use crate::listener::Endpoint;
use crate::role::Role;

/// Merger and executor before the scheduler, which gives them work. Logs are served at the endpoint.
pub fn roles(
    local: &Local,
    journals: JournalSource,
    pipelines: &PipelineSettings,
    root: &Path,
    endpoint: Endpoint,
) -> Result<Vec<(Role, &'static str)>, CliError> {
    let (engine, folder) = (settings::with_tenants(pipelines)?, settings::folder(root));
    let parts = Parts { settings: engine.clone(), folder: folder.clone(), jobs: processors(), endpoint };
    Ok(vec![
        (
            merger::role(local.connection(), engine.clone(), folder.clone()),
            "merges changes, so that they can be tested",
        ),
        (executor::role(local.connection(), parts)?, "runs jobs: menagerie pipeline logs BUILD"),
        (
            scheduler::role(local.connection(), journals, engine, folder),
            "gates changes: menagerie pipeline status",
        ),
    ])
}
