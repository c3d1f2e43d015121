//! What users see: one type for the table and for JSON.

use menagerie::output::{Show, Table};
use serde::Serialize;

use crate::core::Tally;

/// A topic and what was counted of it.
#[derive(Debug, Serialize)]
pub struct TopicView {
    /// The topic.
    pub topic: String,
    /// All partitions together.
    pub tally: Tally,
}

impl Show for TopicView {
    fn show(&self) -> String {
        let mut table = Table::new(["TOPIC", "MESSAGES", "BYTES"]);
        table.row([self.topic.clone(), self.tally.messages.to_string(), self.tally.bytes.to_string()]);
        table.text()
    }
}
