//! The map: every znode that Menagerie owns, declared once.
//!
//! # Layout
//! - [`entry`]: what is said of each: an [`Entry`] binds a path pattern, a kind, a payload, and who writes, locks and
//!   deletes it. `docs/znodes.md` is rendered from [`map`].
//! - [`znode`]: a [`Znode`] is one such place, with the type of what it holds; reads and writes take it, never a path
//!   and bytes.
//! - [`lookup`]: from a path back to its entry.
//! - [`payload`]: what znodes hold, as bytes and back.
//! - [`Name`]: a name that comes from a user, validated once; [`quote`]: how any text becomes one component of a path.
//! - One file per owner: [`kernel`], [`components`], [`journals`], [`queues`], [`slots`].
//!
//! # Invariants
//! - A path of ours is formatted in [`Entry::at`] and nowhere else.
//! - No IO, no clock.

pub mod components;
pub mod entry;
pub mod journals;
pub mod kernel;
pub mod lookup;
pub mod payload;
pub mod queues;
pub mod quote;
pub mod slots;
pub mod znode;

pub use entry::{Entry, Kind, map};
pub use menagerie_types::{Name, NameError};
pub use payload::{Json, MaybeDamaged, Payload, PayloadError, Raw, Text};
pub use znode::{Dir, Znode};
