//! The target of a pause: a queue or a worker.

use clap::Args;
use menagerie_queues::admin::Scope;
use menagerie_znodes::Name;
use menagerie_znodes::queues::QueueName;
use serde_json::{Value, json};

/// One of the two.
#[derive(Debug, Args)]
#[group(required = true, multiple = false)]
pub struct ScopeArgs {
    /// Queue, for all its workers.
    queue: Option<QueueName>,
    /// Worker, for all its queues.
    #[arg(long, value_name = "NAME")]
    worker: Option<Name>,
}

impl ScopeArgs {
    pub fn scope(&self) -> Option<Scope> {
        let queue = self.queue.clone().map(Scope::Queue);
        queue.or_else(|| self.worker.clone().map(Scope::Worker))
    }

    /// The outcome as JSON, with the key `what`.
    pub fn to_json(&self, what: &str, is_true: bool) -> Value {
        match &self.queue {
            Some(queue) => json!({ "queue": queue, what: is_true }),
            None => json!({ "worker": self.worker, what: is_true }),
        }
    }

    /// For texts: `queue NAME` or `worker NAME`.
    pub fn name(&self) -> String {
        match (&self.queue, &self.worker) {
            (Some(queue), _) => format!("queue {queue}"),
            (None, Some(worker)) => format!("worker {worker}"),
            (None, None) => String::new(),
        }
    }
}
