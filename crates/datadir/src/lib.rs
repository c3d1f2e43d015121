//! The folder in which a server keeps its data: its lock, its format version, private files, and the administration socket.
//! Not here: what the files in it mean, what is asked over the socket, and the durable log (`menagerie-wal`).
//!
//! # Layout
//! - [`folder`]: a [`DataFolder`] that this process has to itself, and the word in it that says who wrote it.
//! - [`private`]: folders and files that only their owner can read, made and replaced durably.
//! - [`admin`]: the Unix socket in the folder: one question, one answer.
//! - [`error`]: why a folder could not be used.

pub mod admin;
pub mod error;
pub mod folder;
pub mod private;

pub use error::DataError;
pub use folder::{DataFolder, Format};
