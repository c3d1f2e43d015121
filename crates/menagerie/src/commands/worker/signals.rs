//! Signals to a running worker.

use std::time::Duration;

use menagerie_kernel::whole;
use menagerie_queues::runner::output::{self, OutputStream};
use menagerie_queues::worker::{Adjustment, Options, Order};
use menagerie_znodes::queues::QueueName;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{mpsc, oneshot};
use tracing::{error, info, warn};

use super::options::OptionArgs;
use crate::client::ClientArgs;
use crate::config::Settings;
use crate::exit::CliError;
use crate::logging;
use crate::role::Stopper;

/// Handles a worker's signals.
pub struct SignalHandler {
    pub orders: mpsc::Sender<Order>,
    pub term_grace: Duration,
    pub client: ClientArgs,
    pub args: OptionArgs,
    pub queues: Vec<QueueName>,
    /// The settings that the worker started with.
    pub settings: Settings,
}

/// Handles signals from here on. The first SIGINT or SIGTERM also stops the role: a worker that has not begun takes
/// no orders.
pub fn listen(handler: SignalHandler, stopper: Stopper) -> Result<(), CliError> {
    let on = |kind: SignalKind| signal(kind).map_err(CliError::io("listen for signals"));
    let (mut interrupts, mut terminations) = (on(SignalKind::interrupt())?, on(SignalKind::terminate())?);
    let (mut hangups, mut reopens) = (on(SignalKind::hangup())?, on(SignalKind::user_defined1())?);
    let mut dumps = on(SignalKind::user_defined2())?;
    let end = move || {
        // Fails when systemd did not start us; nobody is waiting then.
        let _ = sd_notify::notify(&[sd_notify::NotifyState::Stopping]);
        stopper.stop();
    };
    // The loop ends with the runtime, as the process does.
    tokio::spawn(async move {
        let mut is_stopping = false;
        loop {
            tokio::select! {
                Some(()) = interrupts.recv() => {
                    end();
                    let order = if is_stopping { Order::Abort } else { Order::Finish };
                    info!(?order, "interrupted");
                    let _ = handler.orders.send(order).await;
                    is_stopping = true;
                }
                Some(()) = terminations.recv() => {
                    end();
                    handler.terminate();
                    is_stopping = true;
                }
                Some(()) = hangups.recv() => handler.reload().await,
                Some(()) = reopens.recv() => reopen(),
                Some(()) = dumps.recv() => handler.dump(),
                else => return,
            }
        }
    });
    Ok(())
}

fn reopen() {
    match logging::reopen() {
        Ok(true) => info!("log file opened anew"),
        Ok(false) => info!("there is no log file to open anew"),
        Err(error) => error!(%error, "the log file cannot be opened anew; the old one is kept"),
    }
}

impl SignalHandler {
    /// Stops running tasks, at once or after `term_grace`.
    fn terminate(&self) {
        let (orders, grace) = (self.orders.clone(), self.term_grace);
        info!(grace_s = grace.as_secs(), "terminated");
        tokio::spawn(async move {
            if !grace.is_zero() {
                let _ = orders.send(Order::Finish).await;
                tokio::time::sleep(grace).await;
            }
            let _ = orders.send(Order::Abort).await;
        });
    }

    /// Prints the worker's state as one line of JSON, as soon as it has begun; other signals are handled meanwhile.
    fn dump(&self) {
        let orders = self.orders.clone();
        tokio::spawn(async move {
            let (answer, answered) = oneshot::channel();
            if orders.send(Order::Show(answer)).await.is_ok()
                && let Ok(view) = answered.await
                && let Ok(text) = serde_json::to_string(&view)
            {
                output::write(OutputStream::Stdout, format!("{text}\n").as_bytes()).await;
            }
        });
    }

    /// Reads the configuration again, applies what can change at run time, and warns of the rest.
    async fn reload(&self) {
        let read = self.client.clone().settings().and_then(|settings| {
            let before = self.args.options(&self.queues, &self.settings.worker)?;
            let after = self.args.options(&self.queues, &settings.worker)?;
            Ok((settings, before, after))
        });
        let (settings, before, after) = match read {
            Ok(read) => read,
            Err(error) => {
                return error!(error = %whole(&error), "the configuration cannot be read again; nothing is changed");
            }
        };
        let needs_restart = restarts(&self.settings, &settings, &before, &after);
        for key in needs_restart {
            warn!(key, "this setting has changed, and needs a restart");
        }
        let Options { policy, concurrency, failure, .. } = after;
        let adjustment = Adjustment { policy, concurrency, failure };
        info!(?adjustment, "configuration read again");
        let _ = self.orders.send(Order::Adjust(adjustment)).await;
    }
}

/// Changed settings that take effect only after a restart.
fn restarts(was: &Settings, is: &Settings, before: &Options, after: &Options) -> Vec<&'static str> {
    [
        ("zookeeper.servers", was.servers.value != is.servers.value),
        ("zookeeper.namespace", was.namespace.value != is.namespace.value),
        ("zookeeper.session_timeout", was.session_timeout.value != is.session_timeout.value),
        ("zookeeper.auth", was.auth != is.auth),
        (
            "zookeeper.tls",
            (&was.tls_ca, &was.tls_cert, &was.tls_key) != (&is.tls_ca, &is.tls_cert, &is.tls_key),
        ),
        ("worker.settle", before.settle != after.settle),
        ("worker.batch", before.batch != after.batch),
        ("worker.commit", before.commit != after.commit),
    ]
    .into_iter()
    .filter_map(|(key, changed)| changed.then_some(key))
    .collect()
}
