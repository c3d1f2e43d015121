//! How messages are printed.

use menagerie_queues::admin::browse::QueuedMessage;
use menagerie_queues::view::MessageView;

use crate::exit::CliError;
use crate::output::{FormatArg, Show};

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
