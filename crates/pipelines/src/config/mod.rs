//! The configuration of a tenant, in Zuul's language: which projects belong to it, its pipelines, queues and jobs.
//!
//! Everything here is pure: [`tenants`] reads the operator's file, [`Layout::new`] reads the files of all
//! projects, and [`Layout::freeze`] answers which jobs an item runs. A mistake in one object never hides the
//! others: the object is left out and listed in [`Layout::problems`], with its file and line.

mod fields;
mod freeze;
mod job;
mod layout;
mod names;
mod pattern;
mod pipeline;
mod pipeline_reader;
mod problem;
mod project;
mod reading;
mod requirement;
mod tenant;
mod trigger;
mod yaml;

#[cfg(test)]
mod tests;

pub use layout::{Layout, SharedQueue, Subject, is_config_path};
pub use pipeline::{Manager, Pipeline, Precedence, Reporter, Reporters, Step, Window};
pub use problem::{Problem, SourceFile};
pub use tenant::{Tenant, TenantProject, tenants};
pub use trigger::Event;
