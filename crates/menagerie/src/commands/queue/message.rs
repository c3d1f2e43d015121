//! How messages are shown.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use menagerie_journal::{Message, MessageId};
use menagerie_queues::admin::browse::QueuedMessage;
use menagerie_queues::{MessageUuid, Meta};
use menagerie_znodes::queues::PartitionName;
use serde::Serialize;

use crate::exit::CliError;
use crate::output::{FormatArg, Show};

/// A message; a body that is not text is shown as base64.
#[derive(Debug, Serialize)]
pub struct MessageView {
    pub id: MessageUuid,
    /// Where it stands now: the partition, and the position there in seconds.
    pub partition: PartitionName,
    pub position: String,
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
        Self::of_bytes(&message.body)
    }

    pub fn of_bytes(bytes: &[u8]) -> Self {
        let body = String::from_utf8(bytes.to_vec()).ok();
        Self { body_base64: body.is_none().then(|| STANDARD.encode(bytes)), body }
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
            id: found.id(),
            partition: found.partition.clone(),
            position: found.message.id.seconds(),
            timestamp: MessageId(Meta::of(&found.message).put_time(&found.message)).seconds(),
            body: Body::of(&found.message),
        }
    }
}

impl Show for MessageView {
    fn show(&self) -> String {
        format!("{}  {}  {}  {}\n", self.id, self.partition, self.position, self.body.line())
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
