//! Why something was not done, by its HTTP code and the field that is to blame.

use std::time::Duration;

use serde::Serialize;

use crate::form::Reasons;
use crate::reply::Reply;

#[derive(Serialize)]
struct Refused<'a> {
    status: &'static str,
    error_msg: &'a Reasons,
}

impl Reply {
    /// It was not done, for these reasons.
    pub fn refused(code: u16, reasons: &Reasons) -> Self {
        Self::json(code, &Refused { status: "error", error_msg: reasons })
    }

    /// It was not done, for one reason.
    pub fn error(code: u16, field: &str, reason: &str) -> Self {
        Self::refused(code, &Reasons::from([(field.to_owned(), reason.to_owned())]))
    }

    /// There is no such path, or no such method for it.
    pub fn nothing_here() -> Self {
        Self::error(404, "NotFound", "There is nothing at this path for this method.")
    }

    /// There is no such application.
    pub fn no_application() -> Self {
        Self::error(404, "InvalidApplicationName", "Application of that name was not found.")
    }

    /// Nobody is named who may.
    pub fn denied() -> Self {
        Self::error(403, "Forbidden", "Access was denied to this resource.")
    }

    /// Somebody is named whom nobody knows.
    pub fn wrong_key() -> Self {
        Self::error(401, "InvalidApplicationKey", "Invalid application key")
    }

    /// There is no such queue.
    pub fn no_queue() -> Self {
        Self::error(404, "InvalidQueueName", "Queue of that name was not found.")
    }

    /// No queue can have this name.
    pub fn long_name() -> Self {
        Self::error(404, "InvalidQueueName", "Queue name longer than 50 characters.")
    }

    /// What stands in the path is no list of ids.
    pub fn bad_ids() -> Self {
        Self::error(400, "InvalidMessageID", "Invalid message id's.")
    }

    /// The path of a queue and a slash: that was to be a message, and must not be taken for the queue.
    pub fn no_id() -> Self {
        let why = "No message id behind the slash; without the slash the queue is deleted.";
        Self::error(400, "InvalidMessageID", why)
    }

    /// Partitions cannot be taken away.
    pub fn fewer_partitions(code: u16) -> Self {
        Self::error(code, "InvalidUpdate", "Partitions can only be increased.")
    }

    /// What was sent is larger than is taken.
    pub fn too_large(reason: &str) -> Self {
        Self::error(413, "body", reason)
    }

    /// Somebody asks too often.
    pub fn too_often(wait: Duration) -> Self {
        Self::error(429, "RateLimit", "Too many requests with this key.").later(wait)
    }

    /// More is held for those who ask than there is room for.
    pub fn no_room() -> Self {
        let why = "Too much is on its way at once; come again in a moment.";
        Self::error(503, "busy", why).later(Duration::ZERO)
    }

    /// And when to come again.
    fn later(mut self, wait: Duration) -> Self {
        self.headers.push(("retry-after", wait.as_secs().saturating_add(1).to_string()));
        self
    }

    /// The messages or the queues cannot be reached.
    pub fn storage_down(reason: &str) -> Self {
        Self::error(500, "storage", reason)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn reasons_are_told_by_field() {
        let refused = Reply::wrong_key();
        let expected =
            json!({"status": "error", "error_msg": {"InvalidApplicationKey": "Invalid application key"}});
        let told: Value = serde_json::from_slice(&refused.body).unwrap();
        assert_eq!((refused.code, told), (401, expected));
        assert_eq!(Reply::too_often(Duration::ZERO).headers, [("retry-after", "1".to_owned())]);
    }
}
