//! Flows: a catalogue and a workflow over segments, run by virtual peers under a coordinator with stand-bys.
//! Not here, but in crates of their own: the journal that carries segments, and how to find it.
//!
//! # Layout
//! - [`job`]: the job as data, and what is wrong with it. `segments`: what flows, and how it is packed.
//! - `core`: what the coordinator decides, without IO. [`coordinator`]: the loop that reads the tree, decides, and
//!   writes. `layout`: the directories of a deployment.
//! - [`peer`]: a virtual peer: it registers, takes a task and works on its share. `lane`: the work on one partition:
//!   read, do, commit. `links`: topics and partitions. [`files`]: the files at both ends.
//! - [`client`]: submitting, watching and killing jobs. [`submission`]: what a submitter checks and claims. [`view`]: jobs
//!   as users see them; `edges`: what waits in their links.
//!
//! # Invariants
//! - Peers never talk to each other: they speak to the coordinator by znodes, and to the journal.
//! - A segment's effect is in one commit of the journal: outputs, positions and state, under the fence of the share.

pub mod client;
pub mod coordinator;
mod core;
mod edges;
pub mod error;
pub mod files;
pub mod job;
mod lane;
mod layout;
mod links;
pub mod peer;
mod segments;
pub mod submission;
pub mod view;

pub use core::JobId;
pub use error::FlowError;
