//! The process around roles: starts each on a thread of its own, waits for a signal or for a role to end, and stops
//! roles in reverse order.

use std::io::{self, Write as _};
use std::net::SocketAddr;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use menagerie_kernel::whole;
use prometheus_client::registry::Registry;
use tokio::sync::watch;
use tracing::error;

use super::{Life, Ready, Role, Stopper};
use crate::exit::CliError;
use crate::observe::Observer;
use crate::{client, ports, signals};

/// What roles and signals report to the host.
pub enum Event {
    /// SIGTERM or SIGINT: its number.
    StopRequested(i32),
    /// The role that is starting now serves.
    Ready(Ready),
    /// A role has ended, requested or not.
    Ended {
        /// The role's kind.
        kind: &'static str,
        /// `Err` if it failed.
        result: Result<(), CliError>,
    },
}

/// Who handles SIGTERM and SIGINT.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signals {
    /// The host: the first one stops all roles, the second one ends the process at once.
    Host,
    /// The only role: it stops itself.
    Role,
}

/// Wait at most this long for whoever reads our standard output.
const PRINT_PATIENCE: Duration = Duration::from_secs(1);

/// Prints to standard output, on a thread of its own: a reader that has stopped reading, or has gone, stops no server.
pub fn print(text: String) {
    let (done, printed) = mpsc::channel();
    let run = move || {
        let mut out = io::stdout().lock();
        // A reader that has gone misses nothing.
        let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
        let _ = done.send(());
    };
    if thread::Builder::new().name("ready".to_owned()).spawn(run).is_ok() {
        let _ = printed.recv_timeout(PRINT_PATIENCE);
    }
}

struct RunningRole {
    kind: &'static str,
    stop: watch::Sender<bool>,
    has_ended: bool,
}

/// A process that runs roles.
pub struct Host {
    /// Roles register their metrics here before they start.
    pub registry: Registry,
    observer: Option<Observer>,
    sender: mpsc::Sender<Event>,
    events: mpsc::Receiver<Event>,
    /// In the order of their start.
    roles: Vec<RunningRole>,
    /// The signal that asked for the end.
    stopped_by: Option<i32>,
    failure: Option<CliError>,
}

impl Host {
    /// Binds the address for metrics, and handles signals from here on, so that a signal during a long start is not
    /// lost.
    pub fn new(metrics: Option<SocketAddr>, insecure: bool, signals: Signals) -> Result<Self, CliError> {
        if let Some(address) = metrics {
            ports::require_loopback(address, insecure, "--metrics", None)?;
        }
        let observer = metrics.map(Observer::bind).transpose()?;
        let (sender, events) = mpsc::channel();
        if signals == Signals::Host {
            let stop_events = sender.clone();
            // Nobody receives it only when the process is ending anyway.
            signals::on_stop(move |signal| drop(stop_events.send(Event::StopRequested(signal))))?;
        }
        let registry = Registry::default();
        Ok(Self { registry, observer, sender, events, roles: Vec::new(), stopped_by: None, failure: None })
    }

    /// The signal that asked for the end, if one did.
    pub fn stopped_by(&self) -> Option<i32> {
        self.stopped_by
    }

    /// Where metrics are served.
    pub fn metrics_address(&self) -> Option<SocketAddr> {
        self.observer.as_ref().map(Observer::address)
    }

    /// Runs one role to its end.
    pub fn run(mut self, role: Role) -> Result<(), CliError> {
        let kind = role.kind;
        if let Some(ready) = self.start(role)? {
            let metrics = self.metrics_address();
            print(ready.also("metrics", metrics).lines(kind).join("\n") + "\n");
            if let Err(error) = self.announce() {
                return self.end(Err(error));
            }
            self.wait();
        }
        self.end(Ok(()))
    }

    /// Starts a role and waits until it serves. `None` if the process was told to stop before that, or the role has
    /// ended: then only [`end`](Self::end) is left to call.
    pub fn start(&mut self, role: Role) -> Result<Option<Ready>, CliError> {
        let Role { kind, listen, serve } = role;
        let (stop, stopping) = watch::channel(self.stopped_by.is_some());
        let life = Life::new(kind, self.sender.clone(), stopping);
        let ending = Ending { kind, events: self.sender.clone(), result: None };
        let stopper = Stopper(stop.clone());
        let run = move || {
            let mut ending = ending;
            ending.result = Some(client::block_on(async {
                listen.map_or(Ok(()), |listen| listen(stopper))?;
                serve(life).await
            }));
        };
        thread::Builder::new().name(kind.to_owned()).spawn(run).map_err(CliError::io("start a thread"))?;
        self.roles.push(RunningRole { kind, stop, has_ended: false });
        while self.failure.is_none() && self.is_running(kind) {
            match self.next_event() {
                Some(ready) => return Ok(Some(ready)),
                None if self.stopped_by.is_some() => break,
                None => {}
            }
        }
        Ok(None)
    }

    /// Everything serves: serves metrics, too, and notifies systemd.
    pub fn announce(&mut self) -> Result<(), CliError> {
        if let Some(observer) = self.observer.take() {
            observer.serve(std::mem::take(&mut self.registry))?;
        }
        // Fails when systemd did not start us; nobody is waiting then.
        let _ = sd_notify::notify(&[sd_notify::NotifyState::Ready]);
        Ok(())
    }

    /// Waits until the process is told to stop or a role ends; tells whether all roles still serve.
    pub fn wait(&mut self) -> bool {
        while self.stopped_by.is_none() && self.all_serve() {
            self.next_event();
        }
        self.all_serve()
    }

    fn all_serve(&self) -> bool {
        self.roles.iter().all(|role| !role.has_ended)
    }

    /// Stops the running roles, last started first, and returns the first failure. After a failure all stop at once:
    /// roles that needed the failed one cannot say goodbye to it. `so_far` is any other error.
    pub fn end(mut self, so_far: Result<(), CliError>) -> Result<(), CliError> {
        if self.failure.is_some() {
            for role in &self.roles {
                role.stop.send_replace(true);
            }
        }
        for place in (0..self.roles.len()).rev() {
            self.roles[place].stop.send_replace(true);
            while !self.roles[place].has_ended {
                self.next_event();
            }
        }
        self.failure.map_or(so_far, Err)
    }

    fn is_running(&self, kind: &'static str) -> bool {
        self.roles.iter().any(|role| role.kind == kind && !role.has_ended)
    }

    /// Handles the next event; returns what a role reports when it becomes ready.
    fn next_event(&mut self) -> Option<Ready> {
        match self.events.recv().expect("we have a sender ourselves") {
            Event::StopRequested(signal) => self.stopped_by = Some(signal),
            Event::Ready(ready) => return Some(ready),
            Event::Ended { kind, result } => {
                for role in self.roles.iter_mut().filter(|role| role.kind == kind) {
                    role.has_ended = true;
                }
                match (result, &self.failure) {
                    (Ok(()), _) => {}
                    (Err(failure), None) => self.failure = Some(failure),
                    (Err(failure), Some(_)) => {
                        error!(error = %whole(&failure), role = kind, "it failed, too")
                    }
                }
            }
        }
        None
    }
}

/// Reports a role's end to the host, even if the role panics.
struct Ending {
    kind: &'static str,
    events: mpsc::Sender<Event>,
    result: Option<Result<(), CliError>>,
}

impl Drop for Ending {
    fn drop(&mut self) {
        let panicked = || CliError::Refused {
            what: format!("the {} has panicked: that is a bug", self.kind),
            help: "start it again, and report what it printed before this line".to_owned(),
        };
        let result = self.result.take().unwrap_or_else(|| Err(panicked()));
        // The host may have gone already.
        let _ = self.events.send(Event::Ended { kind: self.kind, result });
    }
}
