//! Who is let in. Pure.
//!
//! Why there are never too many: only the first of the queue enters, and it enters with one transaction that checks that it
//! is still in the queue and that the limit is still the one it knows. Whoever saw itself first stays first as long as it
//! is there, so from that look on nobody else enters, and the holders that it counts *after* that look can only become
//! fewer. So it is enough to look in this order: the queue, then the holders. A server that is behind does no harm.

use thiserror::Error;

/// The limit as stored. Checking the version makes sure that a decision used the current limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limit {
    /// Holders allowed at once.
    pub permits: u32,
    /// The version of the directory's data.
    pub version: i32,
}

/// Why the stored data is no limit.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub(super) enum NoLimit {
    /// Nothing: kazoo creates the znode first and writes the limit then.
    #[error("nothing")]
    Nothing,
    /// Something else than a number.
    #[error("{0:?}")]
    Unreadable(String),
}

/// Parses the limit as kazoo, that is Python, does: surrounding spaces and a leading plus are ignored.
pub(super) fn parse(data: &[u8]) -> Result<u32, NoLimit> {
    let text = String::from_utf8_lossy(data);
    match text.trim().parse() {
        Ok(permits) => Ok(permits),
        Err(_) if data.is_empty() => Err(NoLimit::Nothing),
        Err(_) => Err(NoLimit::Unreadable(text.into_owned())),
    }
}

/// What the first of the queue does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// There is room: enter.
    Enter,
    /// There is none: wait until the holders or the limit change.
    Wait,
    /// It holds already, under this name: the ticket was taken before.
    Inside,
}

/// Decides for the first of the queue, from the holders that it read after it saw that it is first. Any child of the
/// directory counts as a holder, whoever created it: kazoo counts like that, too.
pub fn decide(me: &str, holders: &[String], limit: Limit) -> Decision {
    if holders.iter().any(|holder| holder == me) {
        return Decision::Inside;
    }
    match u32::try_from(holders.len()) {
        Ok(held) if held < limit.permits => Decision::Enter,
        _ => Decision::Wait,
    }
}

#[cfg(test)]
mod tests;
