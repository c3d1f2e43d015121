//! `menagerie pipeline status`

use clap::Args;
use menagerie_kernel::session::Rights::Observer;
use menagerie_pipelines::view::{self, ItemView, JobView, PipelineView, StatusView};

use super::TenantArg;
use crate::client::{self, ClientArgs};
use crate::exit::{CliError, cannot};
use crate::output::{self, OutputArgs, Table, count, escape_for_terminal};
use crate::{clock, durations};

/// Show what is queued in all pipelines, how far each change is, and what is wrong with the configuration.
#[derive(Debug, Args)]
pub struct Status {
    #[command(flatten)]
    tenant: TenantArg,
    #[command(flatten)]
    output: OutputArgs,
}

impl Status {
    pub fn run(self, client: ClientArgs) -> Result<(), CliError> {
        let Self { tenant, output } = self;
        client::run_within(client, Observer, async |client| {
            let read = async || {
                let tenant = tenant.choose(&client.session).await?;
                view::status(&client.session, &tenant).await.map_err(cannot("read the pipelines"))
            };
            output.print(read).await
        })
    }
}

impl output::Show for StatusView {
    fn show(&self) -> String {
        let mut text = String::new();
        let mut table = Table::new(["PIPELINE", "QUEUE", "CHANGE", "AGE", "STATE", "JOBS"]);
        let mut items = 0;
        for pipeline in &self.pipelines {
            for queue in &pipeline.change_queues {
                let name = match &queue.branch {
                    Some(branch) => format!("{} {branch}", queue.name),
                    None => queue.name.clone(),
                };
                for item in queue.heads.iter().flatten() {
                    items += 1;
                    table.row(row(pipeline, &name, item));
                }
            }
        }
        match (items, self.pipelines.is_empty()) {
            (0, true) => text.push_str(&format!("tenant {} has no pipelines yet\n", self.tenant)),
            (0, false) => {
                let names: Vec<&str> = self.pipelines.iter().map(|pipeline| pipeline.name.as_str()).collect();
                text.push_str(&format!("nothing is queued in {}\n", names.join(", ")));
            }
            _ => text.push_str(&table.text()),
        }
        let mut below = events(self);
        below.extend(self.config_errors.iter().map(|error| format!("configuration: {}", escaped(error))));
        below.extend(self.connection_errors.iter().map(|error| {
            format!("repository {} of {}: {}", error.project, error.connection, escaped(&error.error))
        }));
        if !below.is_empty() {
            text.push_str(&format!("\n{}\n", below.join("\n")));
        }
        text
    }
}

fn escaped(text: &str) -> String {
    escape_for_terminal(Some(text))
}

fn row(pipeline: &PipelineView, queue: &str, item: &ItemView) -> [String; 6] {
    let jobs: Vec<String> = item.jobs.iter().map(job).collect();
    [
        pipeline.name.clone(),
        escaped(queue),
        escaped(&item.id),
        durations::age(clock::since(item.enqueue_time)),
        state(item),
        if jobs.is_empty() { "-".to_owned() } else { jobs.join(", ") },
    ]
}

fn state(item: &ItemView) -> String {
    match (item.failing_reasons.first(), &item.waiting_status, item.live) {
        (_, _, false) => "dependency of the next".to_owned(),
        (Some(reason), ..) => format!("failing: {}", escaped(reason)),
        (None, Some(status), _) => status.clone(),
        (None, None, _) => "in test".to_owned(),
    }
}

fn job(job: &JobView) -> String {
    let state = job.result.as_deref().or(job.waiting_status.as_deref()).unwrap_or("-");
    let voting = if job.voting { "" } else { " (non-voting)" };
    format!("{} {}{voting}", escaped(&job.name), escaped(state))
}

/// What is on its way and shows in no queue yet.
fn events(status: &StatusView) -> Vec<String> {
    let mut lines = Vec::new();
    let connections =
        status.connection_event_queues.iter().map(|(name, queue)| (name.as_str(), queue.length));
    for (name, length) in connections.filter(|(_, length)| *length > 0) {
        lines.push(format!("connection {name}: {} waiting", count(length as u64, "event")));
    }
    if status.trigger_event_queue.length > 0 {
        let length = status.trigger_event_queue.length as u64;
        lines.push(format!("tenant {}: {} waiting", status.tenant, count(length, "event")));
    }
    for pipeline in &status.pipelines {
        let length = pipeline.trigger_events + pipeline.result_events + pipeline.management_events;
        if length > 0 {
            lines.push(format!("pipeline {}: {} waiting", pipeline.name, count(length as u64, "event")));
        }
        if pipeline.reports > 0 {
            let reports = count(pipeline.reports as u64, "report");
            lines.push(format!("pipeline {}: {reports} to be made", pipeline.name));
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use menagerie_pipelines::view::{ConnectionErrorView, EventQueueView};

    use super::*;
    use crate::output::Show as _;

    #[test]
    fn problems_are_below_what_is_queued() {
        let gate =
            PipelineView { name: "gate".to_owned(), result_events: 2, reports: 1, ..Default::default() };
        let status = StatusView {
            tenant: "main".to_owned(),
            pipelines: vec![gate],
            trigger_event_queue: EventQueueView { length: 1 },
            config_errors: vec!["org/app@main .zuul.yaml:3: unknown key".to_owned()],
            connection_errors: vec![ConnectionErrorView {
                connection: "local".to_owned(),
                project: "org/lib".to_owned(),
                error: "it is\ngone".to_owned(),
            }],
            ..StatusView::default()
        };
        let expected = "nothing is queued in gate\n\n\
            tenant main: 1 event waiting\n\
            pipeline gate: 2 events waiting\n\
            pipeline gate: 1 report to be made\n\
            configuration: org/app@main .zuul.yaml:3: unknown key\n\
            repository org/lib of local: it is\\ngone\n";
        assert_eq!(status.show(), expected);
    }
}
