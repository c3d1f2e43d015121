//! Decisions: no clock, no socket, no random numbers.

pub mod assignment;
pub mod failure;
pub mod ledger;
pub mod partitioning;
pub mod rebalance;
pub mod retention;
pub mod turn;

#[cfg(test)]
mod tests;
