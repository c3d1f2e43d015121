//! One file per verb: arguments, one call, one print.

mod backup_file;
pub mod check;
pub mod completions;
pub mod config;
pub mod data;
pub mod doctor;
pub mod journal;
pub mod keeper;
pub mod queue;
pub mod slots;
pub mod status;
pub mod up;
pub mod worker;
pub mod zk;
