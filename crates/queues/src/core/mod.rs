//! Decisions: no clock, no socket, no random numbers.

pub mod activity;
pub mod assignment;
pub mod failure;
mod inflow;
pub mod lane;
pub mod ledger;
mod lines;
pub mod machine;
pub mod options;
pub mod partitioning;
pub mod read_ahead;
pub mod rebalance;
pub mod retention;
pub mod tally;
pub mod turn;
pub mod view;
pub mod window;

#[cfg(test)]
mod tests;
