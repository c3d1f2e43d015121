//! `menagerie pipeline wait [CHANGE --pipeline P]`

use std::time::Duration;

use clap::Args;
use menagerie_kernel::session::Rights::Observer;
use menagerie_pipelines::client::{self as engine, ChangeName};
use menagerie_pipelines::git::Caches;
use menagerie_types::exit_code;
use menagerie_znodes::Name;
use menagerie_znodes::pipelines::HistoryRecord;
use serde_json::json;

use super::TenantArg;
use super::approve::cache_folder;
use crate::client;
use crate::commands::data::DataArgs;
use crate::config::PipelineSettings;
use crate::durations;
use crate::exit::{CliError, cannot};
use crate::output::{Format, FormatArg};
use crate::stores::{StoreArgs, Stores};

/// Wait until nothing is queued, or with CHANGE until it has its result in a pipeline.
///
/// Without CHANGE, what was pushed before counts, too, if this machine's configuration says where repositories are.
/// Exit code 0 if it is SUCCESS, 1 if it is another one, 75 if it takes too long.
#[derive(Debug, Args)]
pub struct Wait {
    /// Change: PROJECT:propose/TARGET/TOPIC.
    #[arg(requires = "pipeline")]
    change: Option<ChangeName>,
    /// Pipeline whose result is meant.
    #[arg(long, value_name = "NAME", requires = "change")]
    pipeline: Option<Name>,
    /// Longest wait; 0 waits for ever.
    #[arg(long, value_name = "DURATION", default_value = "60s", value_parser = durations::parse)]
    timeout: Duration,
    #[command(flatten)]
    tenant: TenantArg,
    #[command(flatten)]
    data: DataArgs,
    #[command(flatten)]
    format: FormatArg,
}

impl Wait {
    pub fn run(self, stores: StoreArgs) -> Result<(), CliError> {
        let Self { change, pipeline, timeout, tenant, data, format } = self;
        let limit = (!timeout.is_zero()).then_some(timeout);
        let StoreArgs { client, access } = stores;
        client::run_within(client, Observer, async |client| {
            let tenant = tenant.choose(&client.session).await?;
            let Some((change, pipeline)) = change.zip(pipeline) else {
                let connections = client.settings.pipelines.as_ref().map(PipelineSettings::plain_connections);
                let (folder, _temporary) = cache_folder(&data)?;
                let caches = Caches::new(folder);
                let repositories = connections.as_ref().map(|connections| (&caches, connections));
                let idle = engine::wait_until_idle(&client.session, &tenant, repositories, limit).await;
                idle.map_err(cannot("wait until nothing is queued"))?;
                return format.tell("nothing is queued", &json!({ "tenant": tenant, "idle": true }));
            };
            let Stores { session, journals } = Stores::at(client, &access).await?;
            let ended =
                engine::wait_for_change(&session, &journals, &tenant, &pipeline, &change, limit).await;
            let record = ended.map_err(cannot(format!("wait for {change}")))?;
            let text = format!("{change}: {}", record.result);
            if record.result == "SUCCESS" {
                return format.tell(&text, &record);
            }
            if format.output == Format::Json {
                format.tell(&text, &record)?;
            }
            Err(not_success(&change, &record))
        })
    }
}

fn not_success(change: &ChangeName, record: &HistoryRecord) -> CliError {
    let failed = record.builds.iter().find(|build| {
        build.result.as_deref().is_some_and(|result| !matches!(result, "SUCCESS" | "CANCELED"))
    });
    let why = record.message.as_ref().map_or(String::new(), |message| format!(": {message}"));
    CliError::Diagnosed {
        what: format!("{change}: {} in {}{why}", record.result, record.pipeline),
        because: None,
        help: match failed {
            Some(build) => format!("job {} failed: menagerie pipeline logs {}", build.job_name, build.uuid),
            None => format!("see `menagerie pipeline history --change {change}`"),
        },
        code: exit_code::FAILED,
    }
}
