//! SIGTERM and SIGINT ask to stop; asked twice, we stop at once.

use std::process;
use std::sync::mpsc::{Sender, channel};
use std::thread;

use rustix::process::Signal;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{mpsc, watch};
use tracing::info;

use crate::exit::CliError;

/// What to do when asked to stop; installed before anything starts, so that a signal during a long start is not lost.
pub struct Stop {
    how: Sender<Box<dyn FnOnce() + Send>>,
}

impl Stop {
    /// From here on a signal waits for [`Self::then`]; the second one ends the process.
    pub fn install() -> Result<Self, CliError> {
        let mut signals = Signals::new([SIGINT, SIGTERM]).map_err(CliError::io("listen for signals"))?;
        let (how, stops) = channel::<Box<dyn FnOnce() + Send>>();
        let run = move || {
            let mut asked = false;
            for signal in signals.forever() {
                if asked {
                    process::exit(128 + signal);
                }
                asked = true;
                info!(signal, "stopping: finishing what is in flight");
                let _ = sd_notify::notify(&[sd_notify::NotifyState::Stopping]);
                let stops = stops.recv();
                thread::spawn(move || stops.map(|stop| stop()));
            }
        };
        let spawned = thread::Builder::new().name("signals".to_owned()).spawn(run);
        spawned.map(|_| Self { how }).map_err(CliError::io("start a thread"))
    }

    /// How to stop what has been started.
    pub fn then(&self, stop: impl FnOnce() + Send + 'static) {
        // The receiver lives as long as the process.
        let _ = self.how.send(Box::new(stop));
    }
}

/// Signals that a wrapper passes on to what it runs, from here on, one after the other.
pub fn passed_on() -> Result<mpsc::Receiver<Signal>, CliError> {
    /// Nobody sends that many before the first was passed on; more are dropped, as the kernel does.
    const PENDING_MAX: usize = 64;
    const PASSED_ON: [Signal; 9] = [
        Signal::HUP,
        Signal::INT,
        Signal::QUIT,
        Signal::TERM,
        Signal::USR1,
        Signal::USR2,
        Signal::ALARM,
        Signal::WINCH,
        Signal::CONT,
    ];
    let (sender, receiver) = mpsc::channel(PENDING_MAX);
    for passed in PASSED_ON {
        let mut arrivals =
            signal(SignalKind::from_raw(passed.as_raw())).map_err(CliError::io("listen for signals"))?;
        let sender = sender.clone();
        // Ends with the runtime, as the process does.
        tokio::spawn(async move {
            while arrivals.recv().await.is_some() {
                let _ = sender.try_send(passed);
            }
        });
    }
    Ok(receiver)
}

/// The first signal that asks us to end, from here on; it stays, whoever else has seen it.
pub fn asked_to_end() -> Result<watch::Receiver<Option<Signal>>, CliError> {
    let (sender, receiver) = watch::channel(None);
    for asks in [Signal::HUP, Signal::INT, Signal::QUIT, Signal::TERM] {
        let mut arrivals =
            signal(SignalKind::from_raw(asks.as_raw())).map_err(CliError::io("listen for signals"))?;
        let sender = sender.clone();
        // Ends with the runtime, as the process does.
        tokio::spawn(async move {
            if arrivals.recv().await.is_some() {
                sender.send_if_modified(|first| first.replace(first.unwrap_or(asks)).is_none());
            }
        });
    }
    Ok(receiver)
}
