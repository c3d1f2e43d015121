//! The server without its loops: tests decide when a group becomes durable, which is impossible over a socket.

mod filling;
mod holding;
mod order;
mod resuming;
mod rig;
mod snapshots;
mod welcome;
