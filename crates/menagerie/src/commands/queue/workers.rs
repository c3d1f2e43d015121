//! `menagerie queue workers`

use clap::Args;
use menagerie_queues::admin::show::{self, WorkerEntry};
use serde::Serialize;

use super::desk::DeskArgs;
use super::failed;
use crate::exit::CliError;
use crate::output::{OutputArgs, Show, Table};

/// List all workers: which queues they serve, and which partitions they have.
#[derive(Debug, Args)]
pub struct Workers {
    #[command(flatten)]
    output: OutputArgs,
}

#[derive(Debug, Serialize)]
#[serde(transparent)]
struct Listing(Vec<WorkerEntry>);

impl Workers {
    /// Looks and prints.
    pub fn run(self, desk: DeskArgs) -> Result<(), CliError> {
        let output = self.output;
        desk.look(async |desk| {
            let look =
                async || show::workers(&desk.session).await.map(Listing).map_err(failed("list workers"));
            output.print(look).await
        })
    }
}

impl Show for Listing {
    fn show(&self) -> String {
        if self.0.is_empty() {
            return "no workers: `menagerie worker QUEUE -- COMMAND` starts one\n".to_owned();
        }
        let mut table = Table::new(["WORKER", "STATE", "SERVES", "PARTITIONS"]);
        for worker in &self.0 {
            let join = |names: Vec<String>| if names.is_empty() { "-".to_owned() } else { names.join(" ") };
            table.row([
                worker.worker.to_string(),
                if worker.paused { "paused" } else { "running" }.to_owned(),
                match &worker.serves {
                    Some(queues) => join(queues.iter().map(ToString::to_string).collect()),
                    None => "-".to_owned(),
                },
                join(worker.partitions.iter().map(ToString::to_string).collect()),
            ]);
        }
        table.text()
    }
}
