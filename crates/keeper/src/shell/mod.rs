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
//!
//! # A write, step by step
//! 1. The **network loop** (`network.rs`) reads a frame, decodes it (`wire`) and has it judged: `State::prepare` looks at the
//!    tree *and* at everything decided before that is still on its way to disk (`pending.rs`), assigns a zxid, and returns a
//!    `Txn`: the **final state** of each znode that it touches. A refused write has a zxid too: clients see it.
//! 2. `Server::commit` adds the transaction to the **group** that is being gathered.
//! 3. The **log loop** (`log_loop.rs`) takes the group, writes it with one `pwrite`, makes it durable with one `fdatasync` (`wal`). Meanwhile
//!    the network loop gathers the next group. No timer: a lone write waits for one sync, many writes share one.
//! 4. The log loop applies the group (`Server::apply`): for each transaction in order, the tree changes, notifications go to
//!    watchers, the reply goes to the caller, and reads that waited behind it are answered. So on every connection a
//!    notification comes before any reply that shows the new state.
//!
//! Reads are answered from the tree at once, unless a write of the same session is before them: on the same connection, or
//! on the one that the session has left (`handshake.rs`). Nobody ever sees what is not durable.

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
