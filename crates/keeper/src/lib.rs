//! The keeper: a durable, single-node server that speaks ZooKeeper's protocol.
//! Not here: anything of ours that is kept in it; the kernel knows this crate only by ZooKeeper's protocol.
//!
//! # Layout
//! - [`core`]: decisions about znodes, sessions, watches and transactions. Pure.
//! - [`store`]: what is on disk: log, snapshots, backups.
//! - [`shell`]: listeners, connections, the log loop, administration.
//! - [`config`]: the configuration.
//!
//! [`Keeper::start`] takes a [`Config`] and serves until it is stopped.

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

/// The version of ZooKeeper that we emulate: events carry zxids, as from 3.9 on.
pub const ZOOKEEPER_VERSION: &str = "3.9.3";
