//! Who handles what: kept in ZooKeeper, decided by one worker, obeyed by all, guarded by locks.
//!
//! - `catalogue`: the queues and partitions that there are. `assigner`: the elected worker's part. `orders`: what a worker is
//!   to do. [`claim`](mod@claim): taking a partition and giving it back. [`cursor`]: how far it was processed.

pub mod assigner;
pub mod catalogue;
pub mod claim;
pub mod cursor;
pub mod orders;
