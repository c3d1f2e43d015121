//! `menagerie zk get PATH`

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use clap::Args;
use menagerie_kernel::session::Stat;
use serde::Serialize;
use serde_json::value::RawValue;

use super::body;
use super::path::{self};
use crate::client::{self, Client, ClientArgs};
use crate::exit::{CliError, cannot};
use crate::output::{self, OutputArgs, Show};

/// Print the data of a znode: JSON indented, text verbatim, anything else as a hex dump.
#[derive(Debug, Args)]
pub struct Get {
    /// Path of the znode.
    #[arg(value_parser = path::parse)]
    path: String,
    /// Print the bytes unchanged.
    #[arg(long, conflicts_with_all = ["output", "watch"])]
    raw: bool,
    #[command(flatten)]
    output: OutputArgs,
}

/// The data in all its forms.
#[derive(Debug, Serialize)]
struct Content {
    path: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    json: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    text: Option<String>,
    base64: String,
    stat: Stat,
    #[serde(skip)]
    data: Vec<u8>,
}

impl Get {
    pub fn run(self, client: ClientArgs) -> Result<(), CliError> {
        client::run(client, async |client| match self.raw {
            true => output::write_bytes(&self.read(client).await?.0),
            false => self.output.print(async || self.read_content(client).await).await,
        })
    }

    async fn read(&self, client: &Client) -> Result<(Vec<u8>, Stat), CliError> {
        client.term().get(&self.path).await.map_err(cannot(format!("read {}", self.path)))
    }

    async fn read_content(&self, client: &Client) -> Result<Content, CliError> {
        let (data, stat) = self.read(client).await?;
        Ok(Content {
            path: self.path.clone(),
            json: body::json(&data),
            text: std::str::from_utf8(&data).ok().map(str::to_owned),
            base64: STANDARD.encode(&data),
            stat,
            data,
        })
    }
}

impl Show for Content {
    fn show(&self) -> String {
        body::show(&self.data)
    }
}
