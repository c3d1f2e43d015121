//! The keeper as a process, over its socket.

#![expect(
    clippy::unwrap_used,
    reason = "clippy allows it in tests, but does not know their helpers for such"
)]

#[cfg(feature = "apache")]
mod differential;
mod handshake;
#[cfg(feature = "apache")]
mod java;
mod lifetimes;
mod limits;
mod linearizability;
mod ordering;
mod quotas;
mod rust_client;
mod storm;
mod verbs;
mod watching;
mod words;
