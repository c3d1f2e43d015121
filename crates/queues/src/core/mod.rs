//! What is decided without a clock, a socket or a random number.

pub mod assignment;
pub mod failure;
pub mod keeping;
pub mod ledger;
pub mod partitioning;
pub mod rebalance;
pub mod turn;

#[cfg(test)]
mod tests;
