//! Queues over HTTP, over real sockets and real servers, whichever `MENAGERIE_TEST_ENSEMBLE` names.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where")]

mod access;
mod checklist;
mod deletion;
mod fields;
mod hostile;
mod ids;
mod memory;
mod messages;
mod queues;
mod receiving;
mod searching;
mod side_by_side;
mod site;
mod smuggling;
mod stories;
mod waiting;
mod watched;
#[path = "../../../queues/tests/it/world.rs"]
#[allow(
    dead_code,
    unused_imports,
    reason = "the world of the engine's own tests: they need more of it than these do"
)]
mod world;
