//! `menagerie queue key`: API keys of applications, for queues over HTTP.

use std::io::Read as _;

use clap::{Args, Subcommand};
use menagerie_queue_http::keys::{self, Hash, KEY_CHARS_MIN};
use menagerie_queues::admin::keys as stored;
use menagerie_znodes::queues::{KeyId, QueueName, Scope};
use serde::Serialize;

use crate::clock;
use crate::exit::{CliError, cannot};
use crate::output::{FormatArg, OutputArgs, Row, Rows, Show};
use crate::stores::StoreArgs;

/// Add, list and revoke the keys that identify applications over HTTP.
#[derive(Debug, Args)]
pub struct Key {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    Add(Add),
    List(List),
    Revoke(Revoke),
}

impl Key {
    pub fn run(self, stores: StoreArgs) -> Result<(), CliError> {
        match self.verb {
            Verb::Add(verb) => verb.run(stores),
            Verb::List(verb) => verb.run(stores),
            Verb::Revoke(verb) => verb.run(stores),
        }
    }
}

/// Generate a key for an application and print it, this once: only its hash is stored. All servers accept it at once.
#[derive(Debug, Args)]
struct Add {
    /// Application that the key is for.
    #[arg(value_name = "APPLICATION", value_parser = application)]
    application: String,
    /// Also allow to create, change and delete queues.
    #[arg(long)]
    admin: bool,
    /// Allow to list queues and read messages only.
    #[arg(long, conflicts_with_all = ["admin", "scopes"])]
    read_only: bool,
    /// Scopes of the key: read, write, admin [default: read and write].
    #[arg(long, value_name = "SCOPE", value_delimiter = ',', conflicts_with = "admin")]
    scopes: Vec<Scope>,
    /// Note about the key: who has it, and what for.
    #[arg(long, value_name = "TEXT")]
    note: Option<String>,
    /// Read the key from standard input instead of generating one: for clients that already have one.
    #[arg(long)]
    stdin: bool,
    #[command(flatten)]
    format: FormatArg,
}

/// Accepts a name with which a queue of that application can be named.
fn application(text: &str) -> Result<String, String> {
    let named = QueueName::new(text, "queue");
    let why = |error: String| error.replace("a queue's name", "an application's name");
    named.map(|_| text.to_owned()).map_err(|error| why(error.to_string()))
}

#[derive(Serialize)]
struct Added {
    id: KeyId,
    application: String,
    key: String,
}

impl Show for Added {
    fn show(&self) -> String {
        format!("{}\n", self.key)
    }
}

impl Add {
    /// Most keys are for programs, which have no business with the queues themselves.
    fn scopes(&self) -> Vec<Scope> {
        match (self.admin, self.read_only, self.scopes.as_slice()) {
            (true, _, _) => Scope::ALL.to_vec(),
            (false, true, _) => vec![Scope::Read],
            (false, false, []) => Scope::DEFAULT.to_vec(),
            (false, false, scopes) => scopes.to_vec(),
        }
    }

    fn run(self, stores: StoreArgs) -> Result<(), CliError> {
        let key = if self.stdin { read_key()? } else { draw_key()? };
        let hash = Hash::of(&key);
        let scopes = self.scopes();
        let now = u64::try_from(clock::now_ms()).unwrap_or(0);
        let kept = keys::stored(&self.application, &hash, scopes, now, self.note);
        stores.change(async |stores| {
            let added = stored::add(&stores.session, &kept).await.map_err(cannot("add a key"))?;
            if !added {
                return Err(CliError::Refused {
                    what: format!("this key is known already, as {}", hash.id()),
                    help: "`menagerie queue key list` shows it; use another one".to_owned(),
                });
            }
            eprintln!("key {} of application {} is valid from now on", hash.id(), self.application);
            self.format.print(&Added { id: hash.id(), application: self.application.clone(), key })
        })
    }
}

fn draw_key() -> Result<String, CliError> {
    keys::generate().map_err(|error| CliError::Io {
        doing: "draw a key".to_owned(),
        source: std::io::Error::other(error.to_string()),
    })
}

fn read_key() -> Result<String, CliError> {
    let mut text = String::new();
    std::io::stdin().take(4 << 10).read_to_string(&mut text).map_err(CliError::io("read the key"))?;
    let key = text.trim().to_owned();
    if key.chars().count() < KEY_CHARS_MIN || key.contains([';', ' ', '\n']) {
        return Err(CliError::Usage {
            what: format!("a key has at least {KEY_CHARS_MIN} characters, and no blank or `;` among them"),
            help: "leave out --stdin to have one generated".to_owned(),
        });
    }
    Ok(key)
}

/// List keys by name; only their owners know the keys themselves.
#[derive(Debug, Args)]
struct List {
    #[command(flatten)]
    output: OutputArgs,
}

#[derive(Debug, Serialize)]
struct KeyRow {
    id: KeyId,
    application: String,
    scopes: Vec<Scope>,
    created_ms: u64,
    note: Option<String>,
}

impl List {
    fn run(self, stores: StoreArgs) -> Result<(), CliError> {
        let output = self.output;
        stores.observe(async |stores| {
            let read = async || {
                let keys = stored::list(&stores.session).await.map_err(cannot("list keys"))?;
                let row = |(id, key): (KeyId, menagerie_znodes::queues::ApplicationKey)| KeyRow {
                    id,
                    application: key.application,
                    scopes: key.scopes,
                    created_ms: key.created_ms,
                    note: key.note,
                };
                Ok(Rows(keys.into_iter().map(row).collect()))
            };
            output.print(read).await
        })
    }
}

impl Row for KeyRow {
    const HEADS: &[&str] = &["KEY", "APPLICATION", "SCOPES", "NOTE"];
    const NONE: Option<&str> = Some("no keys yet: `menagerie queue key add APPLICATION` generates one");

    fn cells(&self) -> Vec<String> {
        let scopes: Vec<&str> = self.scopes.iter().map(|scope| scope.word()).collect();
        let note = self.note.clone().unwrap_or_default();
        vec![self.id.to_string(), self.application.clone(), scopes.join(","), note]
    }
}

/// Revoke a key: all servers refuse it at once.
#[derive(Debug, Args)]
struct Revoke {
    /// Name of the key, as `key list` shows it.
    #[arg(value_name = "KEY")]
    id: KeyId,
}

impl Revoke {
    fn run(self, stores: StoreArgs) -> Result<(), CliError> {
        stores.change(async |stores| {
            let revoked = stored::revoke(&stores.session, &self.id).await.map_err(cannot("revoke a key"))?;
            if revoked {
                eprintln!("key {} is revoked", self.id);
                return Ok(());
            }
            Err(CliError::Refused {
                what: format!("there is no key {}", self.id),
                help: "`menagerie queue key list` shows those that there are; to revoke a key in menagerie.toml, remove it there"
                    .to_owned(),
            })
        })
    }
}
