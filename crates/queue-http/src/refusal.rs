//! Error replies: an HTTP code, and a reason for each field at fault.

use std::time::Duration;

use menagerie_znodes::queues::QueueName;
use serde::Serialize;

use crate::form::Reasons;
use crate::reply::Reply;

#[derive(Serialize)]
struct Refused<'a> {
    status: &'static str,
    error_msg: &'a Reasons,
}

impl Reply {
    /// An error with a reason per field.
    pub fn refused(code: u16, reasons: &Reasons) -> Self {
        Self::json(code, &Refused { status: "error", error_msg: reasons })
    }

    /// An error with one reason.
    pub fn error(code: u16, field: &str, reason: &str) -> Self {
        Self::refused(code, &Reasons::from([(field.to_owned(), reason.to_owned())]))
    }

    /// No such path, or no such method for it.
    pub fn not_found() -> Self {
        Self::error(404, "NotFound", "There is nothing at this path for this method.")
    }

    /// No application of this name.
    pub fn no_application() -> Self {
        Self::error(404, "InvalidApplicationName", "Application of that name was not found.")
    }

    /// None of the keys grants this, or there is no key.
    pub fn forbidden() -> Self {
        Self::error(403, "Forbidden", "Access was denied to this resource.")
    }

    /// A key that does not exist.
    pub fn invalid_key() -> Self {
        Self::error(401, "InvalidApplicationKey", "Invalid application key")
    }

    /// No queue of this name.
    pub fn no_queue() -> Self {
        Self::error(404, "InvalidQueueName", "Queue of that name was not found.")
    }

    /// A name longer than any queue can have.
    pub fn name_too_long() -> Self {
        Self::error(404, "InvalidQueueName", "Queue name longer than 50 characters.")
    }

    /// The path does not hold a list of ids.
    pub fn bad_ids() -> Self {
        Self::error(400, "InvalidMessageID", "Invalid message id's.")
    }

    /// `DELETE /queue/`: the client probably meant a message whose id is empty, so the queue must not be deleted.
    pub fn missing_id() -> Self {
        let why = "No message id behind the slash; without the slash the queue is deleted.";
        Self::error(400, "InvalidMessageID", why)
    }

    /// A queue cannot lose partitions.
    pub fn fewer_partitions(code: u16) -> Self {
        Self::error(code, "InvalidUpdate", "Partitions can only be increased.")
    }

    /// A queue does not get more partitions by the way.
    pub fn more_partitions(queue: &QueueName, has: u16, wanted: u16) -> Self {
        let why = format!(
            "The queue has {has} partitions, not {wanted}; with more of them, keys go elsewhere. Leave partitions out, \
             or have its operator add some: `menagerie queue alter {queue} --partitions {wanted}`."
        );
        Self::error(409, "InvalidUpdate", &why)
    }

    /// The body is too large.
    pub fn too_large(reason: &str) -> Self {
        Self::error(413, "body", reason)
    }

    /// The client exceeds its rate; `wait` is the time until the next request may pass.
    pub fn rate_limited(wait: Duration) -> Self {
        Self::error(429, "RateLimit", "Too many requests with this key.").retry_after(wait)
    }

    /// The memory for requests and replies in flight is used up.
    pub fn busy() -> Self {
        let why = "Too much is on its way at once; come again in a moment.";
        Self::error(503, "busy", why).retry_after(Duration::ZERO)
    }

    /// Others read stories of messages.
    pub fn too_many_traces() -> Self {
        let why = "Too many messages are looked up with their stories at once; come again in a moment.";
        Self::error(503, "busy", why).retry_after(Duration::ZERO)
    }

    /// Clients receive from too many queues.
    pub fn too_many_received() -> Self {
        let why = "Messages of too many queues are received at this server at once; use another one, or come again.";
        Self::error(503, "busy", why).retry_after(Duration::ZERO)
    }

    /// Adds `Retry-After`, rounded up to whole seconds.
    fn retry_after(mut self, wait: Duration) -> Self {
        self.headers.push(("retry-after", wait.as_secs().saturating_add(1).to_string()));
        self
    }

    /// ZooKeeper or the journal cannot be reached.
    pub fn storage_down(reason: &str) -> Self {
        Self::error(500, "storage", reason)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn reasons_are_listed_by_field() {
        let refused = Reply::invalid_key();
        let expected =
            json!({"status": "error", "error_msg": {"InvalidApplicationKey": "Invalid application key"}});
        let sent: Value = serde_json::from_slice(&refused.body).unwrap();
        assert_eq!((refused.code, sent), (401, expected));
        assert_eq!(Reply::rate_limited(Duration::ZERO).headers, [("retry-after", "1".to_owned())]);
    }
}
