//! The web interface over real sockets and real servers, whichever `MENAGERIE_TEST_ENSEMBLE` names; without a browser.
//!
//! `client.rs` checks the headers of every reply, and that none has a token in it.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where")]

mod access;
mod acts;
mod audit;
mod client;
mod cookies;
mod document;
mod hostile;
mod lists;
mod outage;
mod requests;
mod site;
mod streams;
mod viewer;
#[path = "../../../queues/tests/it/world.rs"]
#[allow(
    dead_code,
    unused_imports,
    reason = "the world of the engine's own tests: they need more of it than these do"
)]
mod world;
