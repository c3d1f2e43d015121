//! `/metrics` and `/healthz`, for every role that serves.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use axum::Router;
use axum::http::header::CONTENT_TYPE;
use axum::routing::get;
use prometheus_client::encoding::text::encode;
use prometheus_client::registry::Registry;

use crate::allow::everybody;
use crate::exit::CliError;
use crate::listener::{Limits, Listener};
use crate::ports;

const OPEN_METRICS: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// A scraper asks every few seconds and reads the response at once.
const LIMITS: Limits = Limits { connections: 16, exchange: Duration::from_secs(10), reading_counts: false };

/// A bound address for metrics.
pub struct Observer {
    listener: std::net::TcpListener,
    address: SocketAddr,
}

impl Observer {
    /// Binds the address, before anything else starts.
    pub fn bind(address: SocketAddr) -> Result<Self, CliError> {
        let listener = ports::bind(address, "--metrics")?;
        let address = listener.local_addr().map_err(CliError::io("look at the listener"))?;
        Ok(Self { listener, address })
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves the registry on a thread of its own.
    pub fn serve(self, registry: Registry) -> Result<(), CliError> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(CliError::io("start the metrics runtime"))?;
        let run = move || {
            let served = runtime.block_on(async {
                let (listener, _) = Listener::new(self.listener, None, everybody(), LIMITS)?;
                axum::serve(listener, router(registry)).await
            });
            if let Err(error) = served {
                tracing::warn!(%error, "metrics are not served");
            }
        };
        let spawned = thread::Builder::new().name("metrics".to_owned()).spawn(run);
        spawned.map(drop).map_err(CliError::io("start a thread"))
    }
}

fn router(registry: Registry) -> Router {
    let registry = Arc::new(Mutex::new(registry));
    let metrics = move || {
        let registry = registry.clone();
        async move {
            let mut text = String::new();
            let encoded = registry.lock().map(|registry| encode(&mut text, &registry));
            match encoded {
                Ok(Ok(())) => Ok(([(CONTENT_TYPE, OPEN_METRICS)], text)),
                _ => Err(axum::http::StatusCode::INTERNAL_SERVER_ERROR),
            }
        }
    };
    Router::new().route("/metrics", get(metrics)).route("/healthz", get(async || "ok\n"))
}
