//! Consuming a real journal under a fence while replies are lost. Tests of finding and registering journals are where
//! the processes are: `crates/queues/tests/it/processes.rs` and `e2e`.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where")]

mod consumer;
mod lossy;
