//! `menagerie audit`: who changed what over the web interface.

use clap::Args;
use menagerie_kernel::session::Rights::Observer;
use menagerie_web::audit::{self, EntryView};

use crate::client::{self, ClientArgs};
use crate::clock;
use crate::exit::{CliError, cannot};
use crate::output::{OutputArgs, Row, Rows, escape_for_terminal};

/// Show who changed what over the web interface, from where, and how it ended, newest first.
#[derive(Debug, Args)]
pub struct Audit {
    /// Show at most N changes.
    #[arg(short = 'n', long, value_name = "N", default_value_t = 100)]
    limit: usize,
    #[command(flatten)]
    client: ClientArgs,
    #[command(flatten)]
    output: OutputArgs,
}

impl Audit {
    pub fn run(self) -> Result<(), CliError> {
        let Self { limit, client, output } = self;
        client::run_within(client, Observer, async |client| {
            let list = async || {
                let listed = audit::list(&client.session, None, limit).await;
                listed.map(Rows).map_err(cannot("read the audit trail"))
            };
            output.print(list).await
        })
    }
}

impl Row for EntryView {
    const HEADS: &[&str] = &["WHEN", "WHO", "FROM", "WHAT", "TO WHAT", "OUTCOME", "MESSAGE"];
    const NONE: Option<&str> = Some("nobody has changed anything over the web interface yet");

    fn cells(&self) -> Vec<String> {
        vec![
            clock::utc(self.at_ms),
            escape_for_terminal(Some(&self.who)),
            escape_for_terminal(Some(&self.from)),
            escape_for_terminal(Some(&self.act)),
            escape_for_terminal(Some(&self.target)),
            self.outcome.as_str().to_owned(),
            escape_for_terminal(self.message.as_deref()),
        ]
    }
}
