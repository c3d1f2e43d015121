//! All decisions: which commits are refused, which ids messages get, what a partition holds. Pure: no IO, no clock.
//!
//! # Layout
//! - [`state`]: everything the journal knows. [`topic`], [`partition`], [`block`], [`dedup`], [`delayed`]: its parts.
//!   [`holdings`]: limits on what consumers store.
//! - [`decide`]: a proposal, given the state and the decisions in flight ([`pending`]), to a record or a refusal;
//!   [`edit`], [`settings`] and [`mature`] are parts of it.
//! - [`record`]: the log's records, and [`message`] within them. [`apply`]: a record to the state.
//! - [`plan`]: which blocks a read needs. [`pick`]: which of their messages it gets.
//! - [`retention`]: what is old enough to drop. [`clock`]: whether the clock can be trusted.
//! - [`invariants`]: what must hold.

pub(crate) mod apply;
pub(crate) mod block;
pub(crate) mod clock;
pub(crate) mod decide;
pub(crate) mod dedup;
pub(crate) mod delayed;
pub(crate) mod edit;
pub(crate) mod holdings;
pub(crate) mod invariants;
pub(crate) mod mature;
pub(crate) mod message;
pub(crate) mod partition;
pub(crate) mod pending;
pub(crate) mod pick;
pub(crate) mod plan;
pub(crate) mod record;
pub(crate) mod retention;
pub(crate) mod settings;
pub(crate) mod state;
pub(crate) mod topic;
