//! `menagerie queue workers`

use clap::Args;
use menagerie_queues::admin::show::{self, WorkerEntry};

use crate::exit::{CliError, cannot};
use crate::output::{OutputArgs, Row, Rows};
use crate::stores::StoreArgs;

/// List all workers, the queues they serve and the partitions they own.
#[derive(Debug, Args)]
pub struct Workers {
    #[command(flatten)]
    output: OutputArgs,
}

impl Workers {
    pub fn run(self, stores: StoreArgs) -> Result<(), CliError> {
        let output = self.output;
        stores.observe(async |stores| {
            let read =
                async || show::workers(&stores.session).await.map(Rows).map_err(cannot("list workers"));
            output.print(read).await
        })
    }
}

impl Row for WorkerEntry {
    const HEADS: &[&str] = &["WORKER", "STATE", "SERVES", "PARTITIONS"];
    const NONE: Option<&str> = Some("no workers: `menagerie worker QUEUE -- COMMAND` starts one");

    fn cells(&self) -> Vec<String> {
        let join = |names: Vec<String>| if names.is_empty() { "-".to_owned() } else { names.join(" ") };
        vec![
            self.worker.to_string(),
            if self.paused { "paused" } else { "running" }.to_owned(),
            match &self.serves {
                Some(queues) => join(queues.iter().map(ToString::to_string).collect()),
                None => "-".to_owned(),
            },
            join(self.partitions.iter().map(ToString::to_string).collect()),
        ]
    }
}
