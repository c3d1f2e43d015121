//! SIGTERM and SIGINT stop the process; a second one stops it at once.

use std::process;
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use signal_hook::consts::{SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{mpsc, watch};
use tracing::info;

use crate::exit::CliError;

/// `timeout` sends its signal to us and to our group, so that it comes twice; a person who asks again takes longer.
const SAME_WISH: Duration = Duration::from_millis(300);

/// Calls `stop` with the first SIGTERM or SIGINT from here on; another one, later, ends the process.
pub fn on_stop(stop: impl FnOnce(i32) + Send + 'static) -> Result<(), CliError> {
    let mut signals = Signals::new([SIGINT, SIGTERM]).map_err(CliError::io("listen for signals"))?;
    let run = move || {
        let (mut stop, mut asked) = (Some(stop), Instant::now());
        for signal in signals.forever() {
            let Some(stop) = stop.take() else {
                if asked.elapsed() < SAME_WISH {
                    continue;
                }
                process::exit(128 + signal)
            };
            asked = Instant::now();
            info!(signal, "stopping: finishing what is in flight");
            // Fails when systemd did not start us; nobody is waiting then.
            let _ = sd_notify::notify(&[sd_notify::NotifyState::Stopping]);
            stop(signal);
        }
    };
    let spawned = thread::Builder::new().name("signals".to_owned()).spawn(run);
    spawned.map(drop).map_err(CliError::io("start a thread"))
}

/// Signals that a wrapper forwards to its command, in the order of arrival.
pub fn forwarded_signals() -> Result<mpsc::Receiver<Signal>, CliError> {
    /// Far more than arrive before the first is forwarded; further ones are dropped, as the kernel does.
    const PENDING_MAX: usize = 64;
    const FORWARDED: [Signal; 9] = [
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
    for passed in FORWARDED {
        let mut arrivals =
            signal(SignalKind::from_raw(passed.as_raw())).map_err(CliError::io("listen for signals"))?;
        let sender = sender.clone();
        // The loop ends with the runtime, as the process does.
        tokio::spawn(async move {
            while arrivals.recv().await.is_some() {
                let _ = sender.try_send(passed);
            }
        });
    }
    Ok(receiver)
}

/// The first signal that should end us. It stays readable for every receiver.
pub fn first_end_signal() -> Result<watch::Receiver<Option<Signal>>, CliError> {
    let (sender, receiver) = watch::channel(None);
    for asks in [Signal::HUP, Signal::INT, Signal::QUIT, Signal::TERM] {
        let mut arrivals =
            signal(SignalKind::from_raw(asks.as_raw())).map_err(CliError::io("listen for signals"))?;
        let sender = sender.clone();
        // The loop ends with the runtime, as the process does.
        tokio::spawn(async move {
            if arrivals.recv().await.is_some() {
                sender.send_if_modified(|first| first.replace(first.unwrap_or(asks)).is_none());
            }
        });
    }
    Ok(receiver)
}
