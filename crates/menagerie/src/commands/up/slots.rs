//! FleetLock inside `menagerie up`.

use std::net::{SocketAddr, TcpListener};

use prometheus_client::registry::Registry;

use super::beside::Beside;
use crate::allow::this_machine;
use crate::commands::slots::fleetlock::LIMITS;
use crate::commands::slots::serve::{self, Listener, Metrics, Waiting};
use crate::exit::CliError;

/// Serves on this machine, with what the keeper there has.
pub fn start(
    socket: TcpListener,
    keeper: SocketAddr,
    namespace: &str,
    registry: &mut Registry,
) -> Result<Beside, CliError> {
    let metrics = Metrics::new(registry);
    Beside::start("slots", keeper, namespace, async move |session| {
        let (listener, _) = Listener::new(socket, None, this_machine(), LIMITS)
            .map_err(CliError::io("set up the listener"))?;
        serve::serve(session, listener, this_machine(), metrics, Waiting::default()).await
    })
}
