//! The process around roles: starts each on a thread of its own, waits for a signal or for one to end, and stops them in the
//! order opposite to their start.

use std::net::SocketAddr;
use std::sync::mpsc;
use std::thread;

use menagerie_kernel::whole;
use prometheus_client::registry::Registry;
use tokio::sync::watch;
use tracing::error;

use super::{Life, Ready, Role, Stopper};
use crate::exit::CliError;
use crate::observe::Observer;
use crate::{client, ports, signals};

/// What a host hears from its roles, and from signals.
pub enum Event {
    /// SIGTERM or SIGINT.
    Asked,
    /// The role that is being started serves.
    Ready(Ready),
    /// A role has ended, as asked or not.
    Ended {
        /// Which one.
        kind: &'static str,
        /// How.
        result: Result<(), CliError>,
    },
}

/// Who listens for SIGTERM and SIGINT.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signals {
    /// The host: the first one stops all roles, the second one ends the process at once.
    Host,
    /// The only role: it ends by itself.
    Role,
}

struct Running {
    kind: &'static str,
    stop: watch::Sender<bool>,
    has_ended: bool,
}

/// A process that runs roles.
pub struct Host {
    /// Where roles register what they count, before they start.
    pub registry: Registry,
    observer: Option<Observer>,
    sender: mpsc::Sender<Event>,
    events: mpsc::Receiver<Event>,
    /// In the order of their start.
    roles: Vec<Running>,
    is_asked: bool,
    failure: Option<CliError>,
}

impl Host {
    /// Takes the address for metrics, and listens for signals from here on: one that comes during a long start is not lost.
    pub fn new(metrics: Option<SocketAddr>, insecure: bool, signals: Signals) -> Result<Self, CliError> {
        if let Some(address) = metrics {
            ports::require_loopback(address, insecure, "--metrics", None)?;
        }
        let observer = metrics.map(Observer::bind).transpose()?;
        let (sender, events) = mpsc::channel();
        if signals == Signals::Host {
            let asked = sender.clone();
            // The host waits for it as long as the process lives.
            signals::on_stop(move || drop(asked.send(Event::Asked)))?;
        }
        let registry = Registry::default();
        Ok(Self { registry, observer, sender, events, roles: Vec::new(), is_asked: false, failure: None })
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
            for line in ready.also("metrics", metrics).lines(kind) {
                println!("{line}");
            }
            if let Err(error) = self.announce() {
                return self.end(Err(error));
            }
            self.wait();
        }
        self.end(Ok(()))
    }

    /// Starts a role, and waits until it serves. `None` if the process was asked to stop before that, or the role has ended:
    /// what is left is to [end](Self::end).
    pub fn start(&mut self, role: Role) -> Result<Option<Ready>, CliError> {
        let Role { kind, listen, serve } = role;
        let (stop, stopping) = watch::channel(self.is_asked);
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
        self.roles.push(Running { kind, stop, has_ended: false });
        while self.failure.is_none() && self.is_running(kind) {
            match self.next() {
                Some(ready) => return Ok(Some(ready)),
                None if self.is_asked => break,
                None => {}
            }
        }
        Ok(None)
    }

    /// Everything serves: metrics, too, and systemd is told.
    pub fn announce(&mut self) -> Result<(), CliError> {
        if let Some(observer) = self.observer.take() {
            observer.serve(std::mem::take(&mut self.registry))?;
        }
        // Nobody may have asked to be told.
        let _ = sd_notify::notify(&[sd_notify::NotifyState::Ready]);
        Ok(())
    }

    /// Waits until the process is asked to stop, or a role has ended.
    pub fn wait(&mut self) {
        while !self.is_asked && self.roles.iter().all(|role| !role.has_ended) {
            self.next();
        }
    }

    /// Stops what runs, the role that was started last first, and tells why the first one failed, if one did. After a
    /// failure all stop at once: whoever needed the one that failed cannot take leave of it. `so_far` is what else went wrong.
    pub fn end(mut self, so_far: Result<(), CliError>) -> Result<(), CliError> {
        if self.failure.is_some() {
            for role in &self.roles {
                role.stop.send_replace(true);
            }
        }
        for place in (0..self.roles.len()).rev() {
            self.roles[place].stop.send_replace(true);
            while !self.roles[place].has_ended {
                self.next();
            }
        }
        self.failure.map_or(so_far, Err)
    }

    fn is_running(&self, kind: &'static str) -> bool {
        self.roles.iter().any(|role| role.kind == kind && !role.has_ended)
    }

    /// Hears the next event. Gives what a role says that is ready now.
    fn next(&mut self) -> Option<Ready> {
        match self.events.recv().expect("we have a sender ourselves") {
            Event::Asked => self.is_asked = true,
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

/// Tells the host of a role's end, also when it panics.
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
        // A host that has gone does not wait.
        let _ = self.events.send(Event::Ended { kind: self.kind, result });
    }
}
