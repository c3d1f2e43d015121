//! Logical time: a number that rises with every request, across all clients.
//!
//! Whatever is written after somebody got the time `t` has a later transaction than `t`. So to know whether data is at
//! least as new as a moment, take the time at that moment, and compare it with the `mzxid` of the data.
//!
//! It promises that a request that begins after another one was answered gets a greater number. It does not promise
//! numbers without gaps, nor that numbers compare across generations of the namespace: a namespace that was moved to
//! another ensemble continues with that ensemble's numbers.
//!
//! ```no_run
//! # async fn example(session: menagerie_kernel::Session) -> Result<(), menagerie_kernel::CallError> {
//! use menagerie_kernel::recipes::logical_time::{Ltime, logical_time};
//!
//! let term = session.term();
//! let asked = logical_time(&term).await?;
//! let (_, stat) = term.get("/cache/branches").await?;
//! let fresh = Ltime(stat.mzxid) >= asked;
//! # Ok(())
//! # }
//! ```

use menagerie_znodes::kernel;
use serde::{Deserialize, Serialize};

use crate::error::CallError;
use crate::retry;
use crate::session::Term;

/// A moment of logical time: the number of a transaction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Ltime(pub i64);

impl std::fmt::Display for Ltime {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// Gets the time, at the cost of one write. Every write that was acknowledged before has a lower number.
pub async fn logical_time(term: &Term) -> Result<Ltime, CallError> {
    let clock = kernel::ltime();
    loop {
        match retry::touch(term, clock.path(), b"").await {
            Ok(stat) => return Ok(Ltime(stat.mzxid)),
            // Nobody has asked for the time before.
            Err(CallError::NoZnode { .. }) => retry::ensure(term, clock.path(), b"").await?,
            Err(error) => return Err(error),
        }
    }
}
