//! Queues over HTTP inside `menagerie up`.

use std::net::TcpListener;
use std::sync::Arc;

use menagerie_journal::Store;
use menagerie_queues::Journals;
use menagerie_queues::http::metrics::Metrics;
use menagerie_queues::http::server::{BODY_BYTES_MAX, Server};
use menagerie_queues::http::service::Options;
use prometheus_client::registry::Registry;

use super::Local;
use super::beside::Beside;
use crate::allow::everybody;
use crate::commands::journal::register;
use crate::commands::queue::serve;
use crate::exit::CliError;
use crate::listener::{Limits, Listener};

/// Serves with what the keeper and the journal of this process have.
pub fn start(
    socket: TcpListener,
    local: &Local,
    store: Store,
    options: Options,
    limits: Limits,
    registry: &mut Registry,
) -> Result<Beside, CliError> {
    let metrics = Metrics::new(registry);
    Beside::start("queue", local, async move |session| {
        let (listener, _) =
            Listener::new(socket, None, everybody(), limits).map_err(CliError::io("set up the listener"))?;
        // The journal is in this process: no socket is between.
        let journals = Journals::from([(register::NAME.to_owned(), Arc::new(store) as _)]);
        let service = serve::service(&session, journals, options).await?;
        let server = Server { service, metrics, access_log: None, body_bytes_max: BODY_BYTES_MAX };
        serve::serve(&session, server, listener).await
    })
}
