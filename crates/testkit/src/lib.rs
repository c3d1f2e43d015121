//! What tests need to run real servers and to speak to them byte by byte. For tests only: whatever goes wrong here
//! panics and says what to do about it.
//!
//! # Layout
//! - `World` (feature `world`): where a fault test begins: a chroot of its own on the shared ensemble, sessions in it, behind
//!   a proxy or not, and `menagerie` processes. `LocalJournal` (feature `journal`): a journal within the test; `Interposed`: one of
//!   which the test changes a few calls.
//! - [`Environment`]: folder and variables of `menagerie` processes, each a [`Process`]; one that reports ready is a
//!   [`Daemon`]: kill, stop, pause, resume, restart on the same port and data.
//! - [`ensemble()`]: the servers that all tests of a binary share, each test in its own chroot; [`Ensemble`] chooses them
//!   by `MENAGERIE_TEST_ENSEMBLE`, and [`Ensemble::start_own`] starts one for a single test: [`Servers`], with verbs that
//!   mean the same on all: restart, kill the leader, pause, resume.
//! - [`Keeper`] and [`Apache`] start one server of their make, a [`Server`], which is a process: kill, terminate, pause,
//!   resume, restart. `InProcess` (feature `in-process`) is the keeper on threads of the test.
//! - [`Proxy`]: faults between a client and its server, and a count of requests. [`expire_session`]: another fault.
//! - [`RawClient`]: one connection, one request at a time, nothing hidden.
//! - [`Machine`]: suspends processes so that their monotonic clock stands still, as on a suspended machine.
//! - [`eventually`], [`eventually_async`]: waiting for a condition; [`four_letter_word`]: asking a server for its state.
//! - [`JavaProgram`], [`java()`] and [`python()`]: clients in other languages.
//! - [`allow_files`]: for tests with many sockets.
//! - [`assert_described`], [`assert_fits`]: whether JSON is what its schema says.
//! - [`binary`]: the `menagerie` executable under test. `Authority` (feature `certificates`): a CA for TLS.
//!
//! # Invariants
//! - No test needs a sleep: every wait is for something that can be observed, and has a deadline.
//! - Servers listen on 127.0.0.1 only and end with the test, however it ends (`guard.rs`).

mod apache;
mod binary;
#[cfg(feature = "certificates")]
mod certificates;
mod chroot;
mod client;
mod daemon;
mod ensemble;
mod environment;
mod expire;
mod files;
mod guard;
#[cfg(feature = "in-process")]
mod in_process;
#[cfg(feature = "journal")]
mod interposed;
mod java;
#[cfg(feature = "journal")]
mod journal;
mod keeper;
mod ports;
mod process;
mod proxy;
mod python;
mod quorum;
mod schema;
mod server;
mod servers;
mod shared;
mod sockets;
mod suspend;
mod wait;
mod words;
#[cfg(feature = "world")]
mod world;

pub use menagerie_wire::OpCode;

pub use apache::Apache;
pub use binary::binary;
#[cfg(feature = "certificates")]
pub use certificates::{Authority, Identity};
pub use client::{Connect, Incoming, Notification, RawClient, Refusal, Reply, Session};
pub use daemon::Daemon;
pub use ensemble::{Ensemble, TICK_MS};
pub use environment::Environment;
pub use expire::expire_session;
pub use files::allow_files;
#[cfg(feature = "in-process")]
pub use in_process::InProcess;
#[cfg(feature = "journal")]
pub use interposed::{Interpose, Interposed};
pub use java::{CURATOR_JARS, JavaProgram, ZOOKEEPER_JARS, java};
#[cfg(feature = "journal")]
pub use journal::LocalJournal;
pub use keeper::Keeper;
pub use ports::free_port;
pub use process::{End, Process};
pub use proxy::Proxy;
pub use python::python;
pub use schema::{assert_described, assert_fits};
pub use server::Server;
pub use servers::Servers;
pub use shared::{Shared, ensemble};
pub use suspend::{Machine, Suspended, boottime};
pub use wait::{DEADLINE, eventually, eventually_async, eventually_within};
pub use words::four_letter_word;
#[cfg(feature = "world")]
pub use world::{LONG, SHORT, World};
