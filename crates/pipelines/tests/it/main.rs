//! Mergers and executors over real servers, whichever `MENAGERIE_TEST_ENSEMBLE` names, and real git repositories.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where")]

mod executor;
mod gate;
mod merger;
mod requests;
mod stage;
