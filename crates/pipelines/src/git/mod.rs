//! Everything pipelines do with git, by running the `git` program (2.38 or newer).
//!
//! Git is the truth for code: proposals are branches, votes and reports are notes, merged proposals have a ref.
//! Each machine keeps a bare cache of every repository. Caches only ever grow, so a commit that was seen in one
//! stays there, and job work trees can borrow its objects. A speculative merge is a pure function of its parents
//! and its change: each machine that needs one makes the same commit, and nobody has to send it around.

mod cache;
mod check_out;
mod error;
mod lock;
mod merge;
mod names;
mod notes;
mod push;
mod read;
mod run;
#[cfg(test)]
mod tests;

pub use cache::{Caches, Repository};
pub use check_out::BranchTip;
pub use error::GitError;
pub use merge::{IDENTITY_EMAIL, IDENTITY_NAME, Merge};
pub use names::InvalidName;
pub use push::Push;
