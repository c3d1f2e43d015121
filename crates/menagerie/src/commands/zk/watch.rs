//! `menagerie zk watch PATH`

use clap::Args;
use menagerie_kernel::session::{Change, TreeEvent, TreeWatch};
use serde::Serialize;

use super::path::{self};
use crate::client::{self, Client, ClientArgs};
use crate::clock;
use crate::exit::{CliError, cannot};
use crate::output::{FormatArg, Show};

/// Print changes to a znode as they happen, one line each, until Ctrl-C.
#[derive(Debug, Args)]
pub struct Watch {
    /// Znode to watch; it need not exist yet.
    #[arg(value_parser = path::parse)]
    path: String,
    /// Watch the whole subtree.
    #[arg(short, long)]
    recursive: bool,
    #[command(flatten)]
    format: FormatArg,
}

/// A change, or the state of the connection.
#[derive(Debug, Serialize)]
struct Line {
    at: String,
    event: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<String>,
}

impl Watch {
    pub fn run(self, client: ClientArgs) -> Result<(), CliError> {
        client::run(client, async |client| {
            let mut watch = self.watch(client).await?;
            eprintln!("watching {}; Ctrl-C ends it", self.path);
            loop {
                let event = watch.next().await;
                match event {
                    TreeEvent::Ended => {
                        return Err(CliError::lost(format!("the watch on {}", self.path)));
                    }
                    // The client does not restore this watch after a reconnect.
                    TreeEvent::Resumed => watch = self.watch(client).await?,
                    TreeEvent::At(..) | TreeEvent::Suspended => {}
                }
                self.format.print_line(&Line::from(event))?;
            }
        })
    }

    async fn watch(&self, client: &Client) -> Result<TreeWatch, CliError> {
        let term = client.term().patient();
        let watch = match self.recursive {
            true => term.watch_tree(&self.path).await,
            false => term.watch_znode(&self.path).await,
        };
        watch.map_err(cannot(format!("watch {}", self.path)))
    }
}

impl From<TreeEvent> for Line {
    fn from(event: TreeEvent) -> Self {
        let (event, path) = match event {
            TreeEvent::At(path, change) => (name(change), Some(path)),
            TreeEvent::Suspended => ("suspended", None),
            TreeEvent::Resumed => ("resumed", None),
            TreeEvent::Ended => ("ended", None),
        };
        Self { at: clock::utc(clock::now_ms()), event, path }
    }
}

fn name(change: Change) -> &'static str {
    match change {
        Change::Created => "created",
        Change::Deleted => "deleted",
        Change::Data => "data",
        Change::Children => "children",
        Change::Ended => "ended",
    }
}

impl Show for Line {
    fn show(&self) -> String {
        let path = match (&self.path, self.event) {
            (Some(path), _) => path.as_str(),
            (None, "suspended") => "the connection is lost: changes may be missing from here on",
            (None, _) => "the connection is back",
        };
        format!("{}  {:<9}  {path}\n", self.at, self.event)
    }
}
