//! The keeper: a durable, single-node server that speaks ZooKeeper's protocol.
//!
//! # Layout
//! - [`core`]: what is decided: znodes, sessions, watches, transactions. Pure.
//! - [`store`]: what is on disk: log, snapshots, backups.
//! - [`shell`]: what does it: listeners, connections, the log loop, administration.
//! - [`config`]: what the operator chooses.
//!
//! [`Keeper::start`] takes a [`Config`] and serves until it is told to stop.

pub mod config;
pub mod core;
mod explain;
pub mod shell;
pub mod store;

pub use config::{Config, TlsFiles, Words};
pub use core::acl::digest;
pub use menagerie_wal::Durability;
pub use shell::tls::{TlsError, TlsListener};
pub use shell::{Failure, Keeper};
pub use store::StoreError;

/// The version of ZooKeeper whose behaviour we show: events carry zxids, as from 3.9 on.
pub const ZOOKEEPER_VERSION: &str = "3.9.3";
