//! The files at both ends of a flow: one JSON object a line.
//!
//! - [`input`]: which files a pattern means, and their lines. [`output`]: files that a zombie cannot add a line to.

pub mod input;
pub mod output;
