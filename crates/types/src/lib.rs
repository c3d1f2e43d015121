//! Values that mean the same in the whole workspace, on both sides of any protocol: fences, names, remedies.
//! Not here: anything that does IO, reads a clock, or belongs to one crate; and this crate depends on none of ours.
//!
//! # Layout
//! - [`duration`]: durations as people write them. [`moment`]: points in time as they read them.
//! - [`explain`]: errors that [`Explain`] themselves to the user of a command.
//! - [`fence`]: a [`Fence`] rises with every new holder of something.
//! - [`name`]: a [`Name`] that a user gave to something, validated once.
//! - [`remedy`]: a [`Remedy`] says what a caller may do about an error.

pub mod duration;
pub mod explain;
pub mod fence;
pub mod moment;
pub mod name;
pub mod remedy;

pub use explain::{Explain, exit_code};
pub use fence::Fence;
pub use name::{Name, NameError};
pub use remedy::Remedy;
