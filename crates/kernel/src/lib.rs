//! What every engine stands on: sessions that tell the truth about themselves, fences, and the coordination recipes.
//!
//! # Layout
//! - [`session`]: a [`Session`] keeps connected and knows how it is doing; a [`Term`] is one ZooKeeper session of it,
//!   with all the calls. The lease clock tells until when what a term holds is surely still ours.
//! - [`clock`]: the one that leases and deadlines are counted by.
//! - [`retry`]: "did it happen?" after a lost reply. [`transaction`]: writes that happen together, fenced if need be.
//!   [`Fence`]: the number that goes along to whatever is not in ZooKeeper.
//! - [`recipes`]: lock, election, membership and all the others; one file each, `docs/recipes/` says what they promise.
//! - [`guard`]: the process between us and the programs that we run.
//! - [`transfer`]: a whole namespace to another ensemble. [`subtree`]: a path and all below it. [`words`]: what a server
//!   says about itself.
//!
//! # Invariants
//! - No type of the ZooKeeper client leaves this crate.
//! - Nothing is handed to the client while it is disconnected: it would carry it out later.
//! - Connection loss is resolved in [`retry`] and nowhere else.

mod backoff;
pub mod clock;
pub mod error;
mod explain;
pub mod guard;
pub mod local_secret;
pub mod recipes;
pub mod retry;
pub mod session;
pub mod subtree;
pub mod transaction;
pub mod transfer;
pub mod unique;
pub mod words;

pub use clock::Moment;
pub use error::{CallError, Remedy, whole};
pub use menagerie_types::Fence;
pub use session::{Config, ConnectError, Session, State, Term, TermError, Versioned};
pub use transaction::{Committed, Transaction, TransactionError};
