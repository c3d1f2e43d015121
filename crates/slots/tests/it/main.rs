//! Pools over real servers: whichever `MENAGERIE_TEST_ENSEMBLE` names.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where")]

mod admission;
mod damage;
mod faults;
mod polling;
mod pool_of_one;
mod world;
