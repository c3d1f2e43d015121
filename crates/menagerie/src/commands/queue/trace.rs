//! `menagerie queue trace ID`

use clap::Args;
use menagerie_queues::MessageUuid;
use menagerie_queues::story::{self, Story};
use menagerie_queues::view::sentence;
use menagerie_znodes::queues::QueueName;
use serde::Serialize;

use crate::clock::utc;
use crate::exit::{CliError, cannot};
use crate::output::{self, FormatArg, escape_for_terminal};
use crate::stores::StoreArgs;

/// Tell what happened to a message: who put it, who tried it when and how that ended, and what has become of it.
#[derive(Debug, Args)]
pub struct Trace {
    /// Message id, as `queue put` printed it.
    id: MessageUuid,
    /// Look only into this queue [default: all of them].
    #[arg(long, value_name = "NAME")]
    queue: Option<QueueName>,
    #[command(flatten)]
    format: FormatArg,
}

#[derive(Debug, Serialize)]
struct StoryView {
    #[serde(flatten)]
    story: Story,
}

impl Trace {
    pub fn run(self, stores: StoreArgs) -> Result<(), CliError> {
        stores.observe(async |stores| {
            let story = story::trace(&stores.session, &stores.journals, self.id, self.queue.as_ref()).await;
            match story.map_err(cannot(format!("trace message {}", self.id)))? {
                Some(story) => self.format.print_line(&StoryView { story }),
                None => Err(CliError::Refused {
                    what: match &self.queue {
                        Some(queue) => format!("nothing is known of a message {} in queue {queue}", self.id),
                        None => format!("nothing is known of a message {}", self.id),
                    },
                    help: "it may be of another queue or namespace, have expired before a worker saw it, or be older \
                           than its queue keeps: `menagerie queue show NAME` says how long that is. Where an id does \
                           not say where its message stands, only the newest messages are looked through"
                        .to_owned(),
                }),
            }
        })
    }
}

impl output::Show for StoryView {
    fn show(&self) -> String {
        let Story { id, partition, position, state, key, lines, .. } = &self.story;
        let mut text = format!("message {id} of {partition}: {}\n", state.as_str());
        if let Some(position) = position {
            text += &format!("position {position}");
            if let Some(key) = key {
                text += &format!(", key {}", escape_for_terminal(Some(key)));
            }
            text += "\n";
        }
        text += "\n";
        for line in lines {
            let at = utc(i64::try_from(line.at_ms()).unwrap_or(i64::MAX));
            text += &format!("{at}  {}\n", sentence(line, &|text| escape_for_terminal(Some(text))));
        }
        if self.story.is_cut_short {
            text += "\nThere may be more: the search has stopped, as so much would have to be read.\n";
        } else if self.story.is_incomplete {
            text += "\nSome of it is missing: it is older than the queue keeps, was cut off by a crash, or cannot be read.\n";
        }
        text
    }
}
