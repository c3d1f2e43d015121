//! Workers over real servers, whichever `MENAGERIE_TEST_ENSEMBLE` names, and a real journal.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where")]

mod admin;
mod churn;
mod coordination;
mod counted;
mod failures;
mod handling;
mod ids;
mod loss;
mod multiplex;
mod orders;
mod outage;
mod processes;
#[cfg(feature = "python")]
mod python;
mod repeats;
mod retention;
mod runners;
mod scale;
mod schedule;
mod shown;
mod stories;
mod traces;
mod troubled;
mod world;
