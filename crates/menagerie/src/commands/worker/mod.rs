//! `menagerie worker QUEUE… -- COMMAND`: handles messages.
//!
//! - this file: the life of a worker. `options.rs`: how it works, from the command line and the file. `task.rs`: what is done
//!   with a message. `signals.rs`: what it is told while it runs. `program.rs`: whether a command can be run.

mod options;
mod program;
mod signals;
mod task;
mod user;

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use menagerie_kernel::session::Role;
use menagerie_queues::QueueError;
use menagerie_queues::admin::show;
use menagerie_queues::metrics::Metrics;
use menagerie_queues::runner::output::{self, To};
use menagerie_queues::task::Task;
use menagerie_queues::worker::{self, Ended, Means, Options, Order};
use menagerie_znodes::queues::QueueName;
use prometheus_client::registry::Registry;
use tokio::sync::{mpsc, oneshot};
use tracing::warn;

use self::options::OptionArgs;
use self::signals::Told;
use self::task::TaskArgs;
use super::queue::desk::{Desk, DeskArgs};
use super::queue::failed;
use crate::client::{self, Client};
use crate::durations;
use crate::exit::CliError;
use crate::observe::Observer;
use crate::ports;

/// Orders that may wait: a worker hears them at once.
const ORDERS_MAX: usize = 16;

/// Handle the messages of queues: each by a command, by a program that is fed, or by a Python function.
///
/// A command gets a message's body on standard input, and MENAGERIE_QUEUE, _PARTITION, _MESSAGE_ID, _ATTEMPT and _FENCE. It
/// exits with 0 when the message is done, with 65 when it never will be; anything else is tried again.
///
/// SIGINT finishes what runs and ends, SIGTERM stops it and ends, SIGHUP reads the configuration again, SIGUSR1 opens the
/// log file anew, SIGUSR2 prints state and statistics to standard output, as one line of JSON.
#[derive(Debug, Args)]
pub struct Worker {
    /// Which queues, in this order.
    #[arg(required = true, value_name = "QUEUE")]
    queues: Vec<QueueName>,
    #[command(flatten)]
    desk: DeskArgs,
    #[command(flatten)]
    options: OptionArgs,
    #[command(flatten)]
    task: TaskArgs,
    /// Let what runs go on for so long after SIGTERM, as after SIGINT, before it is stopped.
    #[arg(long, value_name = "DURATION", value_parser = durations::parse, default_value = "0")]
    term_grace: Duration,
    /// Serve /metrics and /healthz there.
    #[arg(long, value_name = "HOST:PORT", value_parser = ports::address)]
    metrics: Option<SocketAddr>,
    /// Allow plain connections from other machines to --metrics.
    #[arg(long)]
    insecure: bool,
}

impl Worker {
    /// Works until it is told to end.
    pub fn run(self) -> Result<(), CliError> {
        if let Some(address) = self.metrics {
            ports::require_loopback(address, self.insecure, "--metrics", None)?;
        }
        self.require_each_once()?;
        // One that can never be made is not waited for.
        if let Some(queue) = self.queues.iter().find(|queue| queue.failures_of().is_some()) {
            return Err(failed("work")(QueueError::Reserved { queue: queue.clone() }));
        }
        let settings = self.desk.client.clone().settings()?;
        let options = self.options.options(&self.queues, &settings.worker)?;
        self.task.check(&options)?;
        let observer = self.metrics.map(Observer::bind).transpose()?;
        client::block_on(async move {
            let (orders, received) = mpsc::channel(ORDERS_MAX);
            let told = Told {
                orders: orders.clone(),
                term_grace: self.term_grace,
                client: self.desk.client.clone(),
                args: self.options.clone(),
                queues: self.queues.clone(),
                settings: settings.clone(),
            };
            let stopped = signals::listen(told)?;
            tokio::pin!(stopped);
            let client = tokio::select! {
                client = Client::connect_within(settings, Role::Owner) => client?,
                () = &mut stopped => return Ok(()),
            };
            let begin = async {
                let desk = Desk::at(&client, &self.desk.access).await?;
                let task = self.task.start(&options, &client.session).await?;
                Ok((desk, task))
            };
            let begun = tokio::select! {
                begun = begin => begun.map(Some),
                // Nothing was begun.
                () = &mut stopped => Ok(None),
            };
            let ended = match begun {
                Ok(Some((desk, task))) => {
                    let told = (orders, received, stopped);
                    self.work(&desk, task, options, told, observer).await
                }
                Ok(None) => Ok(Ended::Told),
                Err(error) => Err(error),
            };
            client::close(client.session).await;
            match ended? {
                Ended::Told => Ok(()),
                Ended::Failed(why) => Err(CliError::Refused {
                    what: format!("the worker has stopped, because a message failed: {}", why.error),
                    help: "the message stays where it is: see to what was wrong, and start the worker again"
                        .to_owned(),
                }),
            }
        })
    }

    async fn work(
        &self,
        desk: &Desk,
        task: Arc<dyn Task>,
        options: Options,
        (orders, received, stopped): (mpsc::Sender<Order>, mpsc::Receiver<Order>, impl Future<Output = ()>),
        observer: Option<Observer>,
    ) -> Result<Ended, CliError> {
        let mut registry = Registry::default();
        let metrics = Metrics::new(&mut registry);
        if let Some(observer) = observer {
            let line = format!("worker metrics on {}\n", observer.address());
            output::write(To::Stdout, line.as_bytes()).await;
            observer.serve(registry)?;
        }
        self.warn_of_strangers(desk).await?;
        let name = options.name.clone();
        let means = Means { session: desk.session.clone(), journals: desk.journals.clone(), task, metrics };
        let working = worker::run(means, options, received);
        let ready = async {
            let (answer, answered) = oneshot::channel();
            // It answers when it is listed and works.
            let begun = async { orders.send(Order::Show(answer)).await.is_ok() && answered.await.is_ok() };
            let ready = tokio::select! {
                biased;
                () = stopped => false,
                begun = begun => begun,
            };
            if ready {
                output::write(To::Stdout, format!("worker ready as {name}\n").as_bytes()).await;
                let _ = sd_notify::notify(&[sd_notify::NotifyState::Ready]);
            }
            std::future::pending::<()>().await
        };
        tokio::select! {
            ended = working => ended.map_err(failed("work")),
            () = ready => Err(CliError::Interrupted { signal: 0 }),
        }
    }

    /// Whoever names one twice means something that we do not do: a larger share, say.
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

    /// A queue may be made later; one that is only misspelt never is.
    async fn warn_of_strangers(&self, desk: &Desk) -> Result<(), CliError> {
        let known = show::list(&desk.session).await.map_err(failed("list queues"))?;
        for queue in self.queues.iter().filter(|queue| !known.contains(queue)) {
            warn!(%queue, "there is no such queue yet; it is handled as soon as it is made");
        }
        Ok(())
    }
}
