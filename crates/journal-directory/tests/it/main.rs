//! Consuming a real journal under a fence, while replies are lost. How journals are found and registered is tested where
//! there are processes: `crates/queues/tests/it/processes.rs` and `e2e`.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where")]

mod consumer;
mod lossy;
