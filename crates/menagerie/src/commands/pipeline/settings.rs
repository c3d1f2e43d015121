//! What commands and roles need of `[pipelines]`.

use std::path::Path;

use menagerie_pipelines::{Folder, PipelineError, Settings as Engine, config};

use crate::config::pipelines::{MINIMAL, read_tenants};
use crate::config::{PipelineSettings, Settings};
use crate::exit::{CliError, cannot};

/// The settings of pipelines; if there are none, an error that shows what to write.
pub fn required(settings: &Settings) -> Result<&PipelineSettings, CliError> {
    settings.pipelines.as_ref().ok_or_else(|| {
        let what = match &settings.file {
            Some(file) => format!("{} has no section [pipelines]", file.value.display()),
            None => "there is no configuration file, so nobody knows where repositories are".to_owned(),
        };
        let file =
            settings.file.as_ref().map_or("menagerie.toml".into(), |file| file.value.display().to_string());
        CliError::Usage { what, help: format!("write into {file}, for a start:\n\n{MINIMAL}\n") }
    })
}

/// For a scheduler: with the tenant file, checked.
pub fn with_tenants(settings: &PipelineSettings) -> Result<Engine, CliError> {
    let path = settings.tenants.value.display();
    let text = read_tenants(&settings.tenants)?;
    let tenants = config::tenants(&text)
        .map_err(|problem| cannot(format!("use {path}"))(PipelineError::Tenants(problem)))?;
    let projects = tenants.iter().flat_map(|tenant| &tenant.projects);
    let mut unknown = projects.filter(|project| !settings.connections.contains_key(&project.connection));
    if let Some(project) = unknown.next() {
        let known: Vec<&str> = settings.connections.keys().map(String::as_str).collect();
        return Err(CliError::Usage {
            what: format!(
                "{path} takes {} from {}, which is no connection",
                project.name, project.connection
            ),
            help: format!("the connections of [pipelines] are: {}", known.join(", ")),
        });
    }
    Ok(Engine { tenants: text, connections: settings.plain_connections() })
}

/// For mergers and executors: they only need to know where repositories are.
pub fn without_tenants(settings: &PipelineSettings) -> Engine {
    Engine { tenants: String::new(), connections: settings.plain_connections() }
}

/// Caches, work trees and logs of this machine, below its data folder.
pub fn folder(root: &Path) -> Folder {
    Folder(root.join("pipelines"))
}
