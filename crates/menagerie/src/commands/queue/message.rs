//! How messages are shown.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use menagerie_journal::Message;
use menagerie_queues::admin::browse::QueuedMessage;
use menagerie_znodes::queues::PartitionName;
use serde::Serialize;

use crate::exit::CliError;
use crate::output::{FormatArg, Show};

/// A message; a body that is not text is shown as base64.
#[derive(Debug, Serialize)]
pub struct MessageView {
    pub id: String,
    pub partition: PartitionName,
    /// When it was put, in seconds.
    pub timestamp: String,
    #[serde(flatten)]
    pub body: Body,
}

#[derive(Debug, Serialize)]
pub struct Body {
    #[serde(skip_serializing_if = "Option::is_none")]
    body: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    body_base64: Option<String>,
}

impl Body {
    pub fn of(message: &Message) -> Self {
        let body = String::from_utf8(message.body.to_vec()).ok();
        Self { body_base64: body.is_none().then(|| STANDARD.encode(&message.body)), body }
    }

    /// The body on one line, escaped for terminals.
    pub fn line(&self) -> String {
        match (&self.body, &self.body_base64) {
            (Some(text), _) => text.escape_debug().to_string().replace("\\\"", "\"").replace("\\'", "'"),
            (None, Some(base64)) => format!("base64:{base64}"),
            (None, None) => String::new(),
        }
    }
}

impl MessageView {
    pub fn of(found: &QueuedMessage) -> Self {
        Self {
            id: found.message.id.to_string(),
            partition: found.partition.clone(),
            timestamp: found.message.id.seconds(),
            body: Body::of(&found.message),
        }
    }
}

impl Show for MessageView {
    fn show(&self) -> String {
        format!("{}  {}  {}\n", self.id, self.partition, self.body.line())
    }
}

/// Prints one line per message.
pub fn print(found: &[QueuedMessage], format: FormatArg) -> Result<(), CliError> {
    found.iter().try_for_each(|found| format.print_line(&MessageView::of(found)))
}

/// Characters of a body that fit beside the other columns.
pub const BODY_CHARS_MAX: usize = 60;

pub fn shorten(line: &str) -> String {
    match line.char_indices().nth(BODY_CHARS_MAX) {
        Some((end, _)) => format!("{}…", &line[..end]),
        None => line.to_owned(),
    }
}
