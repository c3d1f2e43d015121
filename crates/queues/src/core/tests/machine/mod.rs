//! The worker as a machine: facts in, effects out.

mod begins;
mod bounds;
mod orders;
mod ownership;
mod script;
mod stories;
mod takeover;
