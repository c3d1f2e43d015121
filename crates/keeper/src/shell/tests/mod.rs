//! The server without its loops: tests decide when a group is durable, which over a socket nobody can.

mod filling;
mod holding;
mod order;
mod resuming;
mod rig;
mod snapshots;
mod welcome;
