//! Tests over real processes and real servers: whichever `MENAGERIE_TEST_ENSEMBLE` names.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where")]

mod across;
mod barrier;
mod blob;
mod calls;
mod closing;
mod counter;
mod crowd;
#[cfg(feature = "apache")]
mod curator;
mod data_through_failover;
mod election;
mod failover;
mod frozen;
mod groups_failover;
mod guard;
mod holders;
#[cfg(feature = "kazoo")]
mod kazoo;
#[cfg(feature = "apache")]
mod lease;
mod lease_clock;
mod lock;
mod logical_time;
mod membership;
mod presence;
mod races;
mod rw_lock;
mod semaphore;
mod sequence_queue;
mod session;
mod settle;
mod shorter;
mod suspended;
mod transfer;
mod tree_cache;
mod trust;
mod typed;
mod watches;
mod world;
