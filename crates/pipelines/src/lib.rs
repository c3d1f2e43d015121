//! Pipelines: from a pushed proposal to a gated merge (seed 003).
//! Not here: what a znode is and holds (`menagerie-znodes`), how programs are guarded (`menagerie-kernel`), and how a role is
//! started (`menagerie`).
//!
//! # Layout
//! - [`config`]: Zuul's language: tenants, pipelines, queues, projects, jobs; from files to a layout, and to the jobs of an
//!   item. Pure.
//! - [`core`]: what a pipeline decides: which items are tested on top of which, what is merged. Pure.
//! - [`git`]: everything that is done with git.
//! - [`scheduler`]: events, passes, merges and reports; any number of processes. `submit.rs`: requests that it waits for.
//! - [`client`]: what users do. [`view`]: what they see. [`history`]: what has ended.
//! - [`merger`]: merges speculatively, reads configuration. [`executor`]: runs jobs. Both take their work by [`requests`].

pub mod client;
pub mod config;
pub mod core;
mod error;
pub mod executor;
pub mod git;
pub mod history;
pub mod merger;
mod repositories;
pub mod requests;
pub mod scheduler;
pub mod settings;
mod submit;
pub mod view;

pub use error::PipelineError;
pub use settings::{Connection, Folder, Settings};
