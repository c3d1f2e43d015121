//! Logical time: a number that rises with every question, for all clients together.
//!
//! What was written after somebody learnt the time `t` has a later transaction than `t`; so who wants data that is not
//! older than a moment takes the time at that moment, and compares it with the `mzxid` of what is read.
//!
//! It promises that of two questions, one of which was answered before the other was asked, the later one gets the greater
//! number. It does not promise that numbers follow each other without gaps, nor that they compare across generations of the
//! namespace: a namespace that was moved to another ensemble begins with that ensemble's numbers.
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

/// Asks for the time: one write, and after it everything that was acknowledged before is earlier.
pub async fn logical_time(term: &Term) -> Result<Ltime, CallError> {
    let clock = kernel::ltime();
    loop {
        match retry::touch(term, clock.path(), b"").await {
            Ok(stat) => return Ok(Ltime(stat.mzxid)),
            // Nobody has asked before.
            Err(CallError::NoZnode { .. }) => retry::ensure(term, clock.path(), b"").await?,
            Err(error) => return Err(error),
        }
    }
}
