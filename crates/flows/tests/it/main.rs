//! Coordinators and peers over real servers, whichever `MENAGERIE_TEST_ENSEMBLE` names, and a real journal.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where")]

mod ends;
mod faults;
mod links;
mod order;
mod submission;
mod words;
mod world;
