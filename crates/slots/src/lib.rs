//! Slots: at most N hosts at a time may run a command (seed 002).
//! Not here: FleetLock's HTTP and the commands (`menagerie`), and the guard around programs (`menagerie-kernel`).
//!
//! # Layout
//! - [`core`] decides: who may enter, in what order, and whether an earlier run is provably gone.
//! - `mend.rs` recreates missing parts of a pool, and ends attempts that cannot succeed.
//! - [`run`](mod@run) runs a command while a slot is held.
//! - [`snapshot`] reads a pool, [`acquire`](mod@acquire) waits, `enter.rs` enters, [`hold`] holds and releases,
//!   [`poll`] serves clients without a process of ours, [`disarm`] watchdogs, [`admin`] operators; [`view`] and
//!   [`history`] show, [`identity`] identifies this host and process.
//!
//! # Invariants
//! - Every admission, and every change of the maximum, is bound to the version of the pool that it was decided on.
//! - Every write to a slot checks its ticket in the same transaction.
//! - A persistent slot is never freed because time has passed.

pub mod acquire;
pub mod admin;
pub mod core;
pub mod disarm;
mod enter;
pub mod error;
mod explain;
pub mod history;
pub mod hold;
pub mod identity;
mod mend;
pub mod poll;
pub mod run;
pub mod snapshot;
pub mod view;

pub use acquire::{Request, Standing, acquire, try_acquire};
pub use error::SlotsError;
pub use hold::HeldSlot;
pub use snapshot::Snapshot;
