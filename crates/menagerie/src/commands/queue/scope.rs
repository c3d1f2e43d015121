//! What a pause is about: a queue or a worker.

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
    /// Which it is.
    pub fn scope(&self) -> Option<Scope> {
        let queue = self.queue.clone().map(Scope::Queue);
        queue.or_else(|| self.worker.clone().map(Scope::Worker))
    }

    /// What came of it, for programs.
    pub fn told(&self, what: &str, came: bool) -> Value {
        match &self.queue {
            Some(queue) => json!({ "queue": queue, what: came }),
            None => json!({ "worker": self.worker, what: came }),
        }
    }

    /// As it is told.
    pub fn name(&self) -> String {
        match (&self.queue, &self.worker) {
            (Some(queue), _) => format!("queue {queue}"),
            (None, Some(worker)) => format!("worker {worker}"),
            (None, None) => String::new(),
        }
    }
}
