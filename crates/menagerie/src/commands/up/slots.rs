//! FleetLock inside `menagerie up`.

use std::net::TcpListener;

use prometheus_client::registry::Registry;

use super::Local;
use super::beside::Beside;
use crate::allow::this_machine;
use crate::commands::slots::serve::{self, Listener, Metrics, Waiting};
use crate::exit::CliError;
use crate::listener::Limits;

/// Serves on this machine, with what the keeper there has.
pub fn start(
    socket: TcpListener,
    local: &Local,
    limits: Limits,
    registry: &mut Registry,
) -> Result<Beside, CliError> {
    let metrics = Metrics::new(registry);
    Beside::start("slots", local, async move |session| {
        let (listener, _) = Listener::new(socket, None, this_machine(), limits)
            .map_err(CliError::io("set up the listener"))?;
        serve::serve(session, listener, this_machine(), metrics, Waiting::default()).await
    })
}
