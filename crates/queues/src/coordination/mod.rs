//! Coordination in ZooKeeper: the leader assigns partitions, all workers follow, and locks enforce it.
//!
//! - `catalogue`: reads queues, partitions and workers. `assigner`: the leader's part. `instructions`: what a worker
//!   must do. [`claim`](mod@claim): claiming and releasing a partition. [`cursor`]: how far it was processed.
//!   `state`: what the journal keeps for its owners.

pub mod assigner;
pub mod catalogue;
pub mod claim;
pub mod cursor;
pub mod instructions;
mod state;
