//! The coordination recipes: what each promises is said at its top and in `docs/recipes/`.
//!
//! # Layout
//! - [`contest`]: who stands where among contenders; pure. [`lock`], [`rw_lock`] and [`election`] are this and a watch.
//! - `bid`: one contender of ours, from its creation to its end. [`grant`]: what a holder may do while it holds.
//! - [`rendezvous`](mod@rendezvous): who of the members does a job, without a znode; pure.
//! - [`blob`]: values of any size, never seen half written. [`sequence_queue`]: entries in order, none lost.
//! - [`tree_cache`]: a part of the tree in memory. [`logical_time`]: a number that rises for all.
//! - [`semaphore`]: at most so many at once.
//! - [`membership`], [`party`] and [`presence`]: who is there; `registration`: what they keep in ZooKeeper. [`settle`]: when
//!   they have stopped coming and going.
//! - [`barrier`] and [`double_barrier`]: waiting for others. [`counter`]: a number that all share.

pub mod barrier;
mod bid;
pub mod blob;
pub mod contest;
pub mod counter;
pub mod double_barrier;
pub mod election;
pub mod grant;
pub mod lock;
pub mod logical_time;
pub mod membership;
pub mod party;
pub mod presence;
mod registration;
pub mod rendezvous;
pub mod rw_lock;
pub mod semaphore;
pub mod sequence_queue;
pub mod settle;
pub mod tree_cache;
