//! `menagerie pipeline history`

use clap::Args;
use menagerie_pipelines::history::{self, Filter};
use menagerie_znodes::pipelines::{HistoryBuild, HistoryRecord};

use super::TenantArg;
use crate::clock;
use crate::exit::{CliError, cannot};
use crate::output::{OutputArgs, Row, Rows, escape_for_terminal};
use crate::stores::StoreArgs;

/// List what has ended, the newest first: which change or ref, in which pipeline, how, and the builds of its jobs.
#[derive(Debug, Args)]
pub struct History {
    /// Only of this project.
    #[arg(long, value_name = "NAME")]
    project: Option<String>,
    /// Only of this change: propose/TARGET/TOPIC, or with PROJECT: before it.
    #[arg(long, value_name = "CHANGE")]
    change: Option<String>,
    /// Only of this pipeline.
    #[arg(long, value_name = "NAME")]
    pipeline: Option<String>,
    /// Only with builds of this job.
    #[arg(long, value_name = "NAME")]
    job: Option<String>,
    /// Only with this result, such as SUCCESS, FAILURE or MERGE_CONFLICT.
    #[arg(long, value_name = "RESULT")]
    result: Option<String>,
    /// Show at most N; 0 shows all.
    #[arg(long, value_name = "N", default_value_t = 50)]
    limit: usize,
    #[command(flatten)]
    tenant: TenantArg,
    #[command(flatten)]
    output: OutputArgs,
}

impl History {
    pub fn run(self, stores: StoreArgs) -> Result<(), CliError> {
        let filter = Filter {
            tenant: self.tenant.tenant,
            project: self.project,
            change: self.change,
            pipeline: self.pipeline,
            job: self.job,
            build: None,
            result: self.result,
            limit: (self.limit > 0).then_some(self.limit),
        };
        stores.observe(async |stores| {
            let list = async || {
                let listed = history::list(&stores.journals, &filter).await;
                listed.map(Rows).map_err(cannot("read the history of pipelines"))
            };
            self.output.print(list).await
        })
    }
}

impl Row for HistoryRecord {
    const HEADS: &[&str] = &["WHEN", "PIPELINE", "CHANGE", "RESULT", "COMMIT", "JOBS", "MESSAGE"];
    const NONE: Option<&str> = Some("nothing has ended yet, or nothing that matches");

    fn cells(&self) -> Vec<String> {
        let about = self.refs.first();
        let name = about.map(|one| {
            let reference = one.change.as_ref().unwrap_or(&one.reference);
            format!("{}:{reference}", one.project)
        });
        let commit = about.and_then(|one| one.commit.as_ref()).map_or("-", |commit| commit.short());
        let merged = if about.is_some_and(|one| one.merged) { " merged" } else { "" };
        let jobs: Vec<String> = self.builds.iter().filter(|build| build.is_final).map(job).collect();
        vec![
            clock::utc(self.end_ms),
            self.pipeline.to_string(),
            escape_for_terminal(name.as_deref()),
            escape_for_terminal(Some(&self.result)),
            format!("{commit}{merged}"),
            if jobs.is_empty() { "-".to_owned() } else { jobs.join(", ") },
            escape_for_terminal(self.message.as_deref()),
        ]
    }
}

/// A job and its result; of one that was not successful also the build, for `pipeline logs`.
fn job(build: &HistoryBuild) -> String {
    let name = escape_for_terminal(Some(&build.job_name));
    match build.result.as_deref() {
        Some("SUCCESS") => format!("{name} SUCCESS"),
        result => format!("{name} {} {}", escape_for_terminal(result), build.uuid),
    }
}
