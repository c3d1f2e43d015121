//! The folder in which a server keeps its data: its lock, its format version, private files, and the administration
//! socket. Not here: the contents of its files, the requests on the socket, and the durable log (`menagerie-wal`).
//!
//! # Layout
//! - [`folder`]: a [`DataFolder`] that this process has locked, and its format file.
//! - [`private`]: folders and files that only their owner can read, created and replaced durably.
//! - [`admin`]: the Unix socket in the folder: one request, one answer.
//! - [`error`]: errors of data folders.

pub mod admin;
pub mod error;
pub mod folder;
pub mod private;

pub use error::DataError;
pub use folder::{DataFolder, Format};
