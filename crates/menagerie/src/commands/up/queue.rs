//! Queues over HTTP inside `menagerie up`.

use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;

use menagerie_journal::Store;
use menagerie_queues::Journals;
use menagerie_queues::http::metrics::Metrics;
use menagerie_queues::http::server::{BODY_BYTES_MAX, Server};
use menagerie_queues::http::service::Options;
use prometheus_client::registry::Registry;

use super::beside::Beside;
use crate::commands::journal::register;
use crate::commands::queue::serve;
use crate::exit::CliError;

/// Serves with what the keeper and the journal of this process have.
pub fn start(
    socket: TcpListener,
    keeper: SocketAddr,
    namespace: &str,
    store: Store,
    options: Options,
    registry: &mut Registry,
) -> Result<Beside, CliError> {
    let metrics = Metrics::new(registry);
    Beside::start("queue", keeper, namespace, async move |session| {
        let listener = serve::listener(socket)?;
        // The journal is in this process: no socket is between.
        let journals = Journals::from([(register::NAME.to_owned(), Arc::new(store) as _)]);
        let service = serve::service(&session, journals, options).await?;
        let server = Server { service, metrics, access_log: None, body_bytes_max: BODY_BYTES_MAX };
        serve::serve(&session, server, listener).await
    })
}
