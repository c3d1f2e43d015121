//! The journal from outside: the store in its folder, and the server over sockets.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on says where")]

mod backup;
mod damage;
mod delayed;
mod handshake;
mod limits;
mod model;
mod reading;
mod rig;
mod served;
