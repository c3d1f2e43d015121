//! `menagerie pipeline enqueue|dequeue CHANGE --pipeline P`

use clap::Args;
use menagerie_kernel::session::Rights::Owner;
use menagerie_pipelines::client::{self as engine, ChangeName};
use menagerie_znodes::Name;
use menagerie_znodes::pipelines::Action;
use serde_json::json;

use super::TenantArg;
use crate::client::{self, ClientArgs};
use crate::exit::{CliError, cannot};
use crate::output::FormatArg;

/// Put a change into a pipeline, though no event has triggered it. A merge still takes the votes that the connection's
/// `submit` names.
#[derive(Debug, Args)]
pub struct Enqueue {
    #[command(flatten)]
    place: Place,
}

/// Take a change out of a pipeline: its jobs are stopped, and it is not merged.
#[derive(Debug, Args)]
pub struct Dequeue {
    #[command(flatten)]
    place: Place,
}

/// A change and a pipeline.
#[derive(Debug, Args)]
struct Place {
    /// Change: PROJECT:propose/TARGET/TOPIC.
    change: ChangeName,
    /// Pipeline.
    #[arg(long, value_name = "NAME")]
    pipeline: Name,
    #[command(flatten)]
    tenant: TenantArg,
    #[command(flatten)]
    format: FormatArg,
}

impl Enqueue {
    pub fn run(self, client: ClientArgs) -> Result<(), CliError> {
        self.place.ask(client, Action::Enqueue)
    }
}

impl Dequeue {
    pub fn run(self, client: ClientArgs) -> Result<(), CliError> {
        self.place.ask(client, Action::Dequeue)
    }
}

impl Place {
    fn ask(self, client: ClientArgs, action: Action) -> Result<(), CliError> {
        let Self { change, pipeline, tenant, format } = self;
        let (verb, done) = match action {
            Action::Enqueue => ("enqueue", "is queued in"),
            Action::Dequeue => ("dequeue", "is out of"),
        };
        client::run_within(client, Owner, async |client| {
            let tenant = tenant.choose(&client.session).await?;
            let asked = engine::manage(&client.session, &tenant, &pipeline, action, &change).await;
            let change = asked.map_err(cannot(format!("{verb} {change}")))?.to_string();
            let text = format!("{change} {done} {pipeline}");
            format.tell(
                &text,
                &json!({ "change": change, "tenant": tenant, "pipeline": pipeline, "action": verb }),
            )
        })
    }
}
