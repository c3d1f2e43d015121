//! What every engine builds on: sessions with a lease clock, fences, and the coordination recipes.
//! Not here: what any engine does, messages (`menagerie-journal`), and how a server is started (`menagerie`).
//!
//! # Layout
//! - [`session`]: a [`Session`] stays connected through as many ZooKeeper sessions as it takes; a [`Term`] is one of
//!   them, and has all the calls. The lease clock tells until when nobody else can hold what a term holds.
//! - [`clock`]: the clock of leases and deadlines.
//! - [`retry`]: "did it happen?" after a lost reply. [`transaction`]: writes that happen together, with a fence if need
//!   be. [`Fence`]: the token for systems outside of ZooKeeper.
//! - [`recipes`]: lock, election, membership and all the others; one file each, `docs/recipes/` says what they promise.
//! - [`guard`]: the process between us and the programs that we run.
//! - [`transfer`]: moves a namespace to another ensemble. [`subtree`]: a path and all below it. [`words`]: the
//!   four-letter words of a server.
//!
//! # Invariants
//! - No type of the ZooKeeper client leaves this crate.
//! - Nothing is handed to the client while it is disconnected: it would queue the request and send it later.
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
