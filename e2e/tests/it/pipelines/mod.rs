//! Pipelines, through the binary, with real repositories: proposals are checked, gated and merged, by a fleet that is killed;
//! what is refused; what operators see.

mod commands;
mod guide;
mod hook;
mod jobs;
mod refusals;
pub mod site;
mod storm;
