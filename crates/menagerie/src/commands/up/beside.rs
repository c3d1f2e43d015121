//! A server inside `menagerie up`, on a thread of its own, with a session of its own.

use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use menagerie_kernel::{Config, Session, whole};
use tokio::sync::oneshot;
use tracing::warn;

use super::Local;
use crate::client;
use crate::exit::CliError;

/// How long taking leave may take.
const LEAVE: Duration = Duration::from_secs(2);

/// A running server, until it is told to stop.
pub struct Beside {
    stop: oneshot::Sender<()>,
    stopped: mpsc::Receiver<()>,
}

impl Beside {
    /// Serves with what this keeper has. Returns when it is connected: whoever fills the keeper with connections as soon as
    /// we say that we are ready must not shut out our own.
    pub fn start(
        name: &'static str,
        local: &Local,
        serve: impl AsyncFnOnce(Session) -> Result<(), CliError> + Send + 'static,
    ) -> Result<Self, CliError> {
        let config = local.config();
        let (stop, stopping) = oneshot::channel();
        let (connected, connecting) = mpsc::channel();
        let (done, stopped) = mpsc::channel();
        let run = move || {
            if let Err(error) = client::block_on(until(config, serve, connected, stopping)) {
                warn!(error = %whole(&error), role = name, "it is not served");
            }
            let _ = done.send(());
        };
        thread::Builder::new().name(name.to_owned()).spawn(run).map_err(CliError::io("start a thread"))?;
        // A thread that ended without a word has logged why.
        connecting.recv().unwrap_or(Ok(()))?;
        Ok(Self { stop, stopped })
    }

    /// Takes leave of the keeper, which must still be there.
    pub fn stop(self) {
        let _ = self.stop.send(());
        let _ = self.stopped.recv_timeout(LEAVE);
    }
}

async fn until(
    config: Config,
    serve: impl AsyncFnOnce(Session) -> Result<(), CliError>,
    connected: mpsc::Sender<Result<(), CliError>>,
    stopping: oneshot::Receiver<()>,
) -> Result<(), CliError> {
    let origin = crate::config::Origin::Flag("--keeper-listen");
    let session = match Session::connect(config).await {
        Ok(session) => session,
        Err(source) => {
            let _ = connected.send(Err(CliError::Connect { source, origin }));
            return Ok(());
        }
    };
    let _ = connected.send(Ok(()));
    let result = tokio::select! {
        result = serve(session.clone()) => result,
        _ = stopping => Ok(()),
    };
    client::close(session).await;
    result
}
