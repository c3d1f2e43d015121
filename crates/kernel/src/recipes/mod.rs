//! The coordination recipes. Each module's head and `docs/recipes/` say what it promises.
//!
//! # Layout
//! - [`contest`]: who holds and who waits among contenders; pure. [`lock`], [`rw_lock`] and [`election`] add a watch.
//! - `bid`: one contender of ours, from its creation to its end. [`grant`]: what a holder may do while it holds.
//! - [`rendezvous`](mod@rendezvous): which member does a job, without a znode; pure.
//! - [`blob`]: values of any size, never seen half written. [`sequence_queue`]: entries in order, none lost.
//! - [`tree_cache`]: a subtree in memory. [`logical_time`]: a clock that all clients share.
//! - [`semaphore`]: at most N holders at once.
//! - [`membership`], [`party`] and [`presence`]: who is there; `registration`: their ephemeral znode. [`settle`]: waits
//!   until members have stopped coming and going.
//! - [`barrier`] and [`double_barrier`]: waiting for others. [`counter`]: a shared number.

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
