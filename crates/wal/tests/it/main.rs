//! The log as an owner meets it: on a simulated disk that fails in every way, and on the real one.

#![expect(
    clippy::unwrap_used,
    reason = "clippy allows it in tests, but does not know their helpers for such"
)]

mod faults;
mod flips;
mod harness;
mod power;
mod real;
mod refusals;
mod segments;
mod tail;
