//! The keeper's shell: sockets, files, clocks, threads.
//!
//! Two loops share one [`Server`] behind a mutex. The **network loop** reads requests, answers reads, and decides
//! writes into the group that is being gathered. The **log loop** takes the group, makes it durable with one sync, and
//! then itself applies it and sends the replies, so that a lone write costs one hand-over between threads and not two.
//! While it syncs, the network loop goes on and gathers the next group: no timer, and the slower the disk, the larger
//! the groups.
//!
//! # Layout
//! - [`keeper`]: starts and stops it all. [`network`]: the network loop. [`log_loop`]: the log loop.
//! - [`server`]: the shared state; [`request`], [`handshake`], [`commit`], [`expiry`]: its handling of requests, new
//!   connections, durable groups, and time.
//! - [`conn`]: one connection and its buffers. [`conns`]: all of them. [`stream`]: plain and TLS sockets. [`tls`]: certificates.
//! - [`capture`]: snapshots and backups, taken while writes go on. [`admin`]: the administration socket.
//! - [`words`]: four-letter words. [`metrics`]: counters for Prometheus.

pub mod admin;
pub mod capture;
pub mod commit;
pub mod conn;
pub mod conns;
pub mod expiry;
pub mod handshake;
pub mod keeper;
pub mod log_loop;
pub mod metrics;
pub mod network;
pub mod request;
pub mod server;
pub mod stream;
pub mod tls;
pub mod words;

#[cfg(test)]
mod tests;

pub use keeper::{Failure, Keeper};
pub use metrics::Metrics;
pub use server::Server;
