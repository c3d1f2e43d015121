//! `menagerie worker QUEUE… -- COMMAND`: handles messages.
//!
//! - this file: the life of a worker. `options.rs`: its options, from the command line and the file. `task.rs`: how
//!   it handles a message. `signals.rs`: signals while it runs. `program.rs`: whether a command can be run.

mod options;
mod program;
mod signals;
mod task;
mod user;

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::time::Duration;

use clap::Args;
use menagerie_kernel::Session;
use menagerie_kernel::session::Rights::Owner;
use menagerie_queues::admin::show;
use menagerie_queues::metrics::Metrics;
use menagerie_queues::worker::{self, Deps, Ended, Options, Order};
use menagerie_queues::{Journals, QueueError};
use menagerie_znodes::queues::QueueName;
use serde_json::Map;
use tokio::sync::{mpsc, oneshot};
use tracing::warn;

pub use self::options::SETTLE_CAP;

use self::options::OptionArgs;
use self::signals::SignalHandler;
use self::task::TaskArgs;
use crate::client::Connection;
use crate::commands::queue::periodic::put_periodic;
use crate::exit::{CliError, cannot};
use crate::role::host::Signals;
use crate::role::{Host, Life, Ready, Role};
use crate::stores::StoreArgs;
use crate::{durations, ports};

/// Bound of the order channel: a worker takes orders at once, so they never pile up.
const ORDERS_MAX: usize = 16;

/// The protocol of programs that are fed lines.
const LINES_HELP: &str = "\
Programs fed lines (--serve) read one JSON object per line and print one per line:

  in   {\"id\":TEXT, \"queue\":TEXT, \"partition\":NUMBER, \"attempt\":NUMBER, \"fence\":TEXT, \"body\":TEXT}
       A body that is not UTF-8 comes as \"body_base64\" instead. attempt counts from 1.
  out  {\"id\":TEXT, \"ok\":true}
       {\"id\":TEXT, \"ok\":false, \"error\":TEXT, \"retry\":BOOL}
       error and retry may be left out; \"retry\":false means failed for good.

With --batch N, both are lists of such objects. With --async, the program gets up to --concurrency lines before it
replies, and replies in any order.

Flush standard output after each reply. A line that is no reply to a message the program has is logged and ignored. No
reply within --time-limit, a reply without a boolean \"ok\", a line longer than 1 MiB, or the end of the program: the
message has failed, and is tried again.";

/// Handle the messages of queues: with a command per message, a long-lived program, or a Python function.
///
/// A command reads the message body from standard input; MENAGERIE_QUEUE, _PARTITION, _MESSAGE_ID, _ATTEMPT and _FENCE
/// describe the message. Exit code 0 means done, 65 means failed for good; after any other the message is tried again.
///
/// SIGINT finishes running tasks and exits; SIGTERM stops them and exits; SIGHUP reloads the configuration; SIGUSR1 reopens
/// the log file; SIGUSR2 prints state and statistics to standard output, as one line of JSON.
#[derive(Debug, Args)]
#[command(after_long_help = LINES_HELP)]
pub struct Worker {
    /// Queues to serve, in this order.
    #[arg(required = true, value_name = "QUEUE")]
    queues: Vec<QueueName>,
    #[command(flatten)]
    stores: StoreArgs,
    #[command(flatten)]
    options: OptionArgs,
    #[command(flatten)]
    task: TaskArgs,
    /// After SIGTERM, let running tasks finish for this long, as SIGINT does, before stopping them.
    #[arg(long, value_name = "DURATION", value_parser = durations::parse, default_value = "0")]
    term_grace: Duration,
    /// Serve /metrics and /healthz on this address.
    #[arg(long, value_name = "HOST:PORT", value_parser = ports::address)]
    metrics: Option<SocketAddr>,
    /// Allow unencrypted connections from other machines to --metrics.
    #[arg(long)]
    insecure: bool,
}

impl Worker {
    /// Works until it is stopped.
    pub fn run(self) -> Result<(), CliError> {
        self.require_each_once()?;
        // Names of failure queues are reserved: no such queue will ever appear, so do not wait for one.
        if let Some(queue) = self.queues.iter().find(|queue| queue.failures_of().is_some()) {
            return Err(cannot("work")(QueueError::Reserved { queue: queue.clone() }));
        }
        let settings = self.stores.client.clone().settings()?;
        let options = self.options.options(&self.queues, &settings.worker)?;
        let options = Options { time_limit: self.task.chosen_time_limit(), ..options };
        self.task.check(&options)?;
        let mut host = Host::new(self.metrics, self.insecure, Signals::Role)?;
        let metrics = Metrics::new(&mut host.registry);
        let (orders, received) = mpsc::channel(ORDERS_MAX);
        let handler = SignalHandler {
            orders: orders.clone(),
            term_grace: self.term_grace,
            client: self.stores.client.clone(),
            args: self.options.clone(),
            queues: self.queues.clone(),
            settings: settings.clone(),
        };
        let connection = Connection::within(&settings, Owner)?;
        let access = self.stores.access.access(&settings);
        let queues: Vec<String> = self.queues.iter().map(ToString::to_string).collect();
        let details = Map::from_iter([
            ("worker".to_owned(), options.name.as_str().into()),
            ("queues".to_owned(), queues.into()),
        ]);
        let serve = async move |session: &Session, life: &Life| {
            let begin = async {
                let journals = Journals::registered(session, access).await;
                let journals = journals.map_err(cannot("look for journals"))?;
                self.warn_of_strangers(session).await?;
                Ok::<_, CliError>((journals, self.task.start(&options, session).await?))
            };
            let (journals, task) = tokio::select! {
                begun = begin => begun?,
                // Stopped before it began.
                () = life.stopping() => return Ok(()),
            };
            let deps = Deps { session: session.clone(), journals: journals.clone(), task, metrics };
            let name = options.name.clone();
            tokio::select! {
                ended = worker::run(deps, options, received) => outcome(ended.map_err(cannot("work"))?),
                never = announce(life, orders, name.as_str()) => match never {},
                never = put_periodic(session, &journals, name.as_str(), life) => match never {},
            }
        };
        let role = Role::with_session("worker", connection, details, serve);
        host.run(role.listening(move |stopper| signals::listen(handler, stopper)))
    }

    /// Refuses a queue named twice: its user expects something we do not do, such as a larger share.
    fn require_each_once(&self) -> Result<(), CliError> {
        let mut seen = BTreeSet::new();
        match self.queues.iter().find(|queue| !seen.insert(*queue)) {
            None => Ok(()),
            Some(twice) => Err(CliError::Usage {
                what: format!("queue {twice} is named twice"),
                help: "name each queue once, in the order in which they come; --strict drains one before the next"
                    .to_owned(),
            }),
        }
    }

    /// Warns of queues that do not exist: they may be created later, but a misspelt name never is.
    async fn warn_of_strangers(&self, session: &Session) -> Result<(), CliError> {
        let known = show::list(session).await.map_err(cannot("list queues"))?;
        for queue in self.queues.iter().filter(|queue| !known.contains(queue)) {
            warn!(%queue, "there is no such queue yet; it is handled as soon as it is made");
        }
        Ok(())
    }
}

/// Reports when the worker is ready and when it drains.
async fn announce(life: &Life, orders: mpsc::Sender<Order>, name: &str) -> Infallible {
    let (answer, answered) = oneshot::channel();
    // The worker answers once it is registered and working.
    let begun = async { orders.send(Order::Show(answer)).await.is_ok() && answered.await.is_ok() };
    tokio::select! {
        biased;
        () = life.stopping() => {}
        true = begun => life.ready(Ready::named(name)).await,
    }
    life.stopping().await;
    life.draining().await;
    std::future::pending().await
}

fn outcome(ended: Ended) -> Result<(), CliError> {
    match ended {
        Ended::AskedToStop => Ok(()),
        Ended::Failed(why) => Err(CliError::Refused {
            what: format!("the worker has stopped, because a message failed: {}", why.error),
            help: "the message stays where it is: see to what was wrong, and start the worker again"
                .to_owned(),
        }),
    }
}
