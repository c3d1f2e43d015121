//! `menagerie token`: tokens for the web interface.

use clap::{Args, Subcommand};
use menagerie_kernel::session::Rights::{Observer, Owner};
use menagerie_web::access::token::{self as stored, TokenView};
use menagerie_znodes::Name;
use menagerie_znodes::web::{Grant, Rights};
use serde::Serialize;

use crate::client::{self, ClientArgs};
use crate::clock;
use crate::exit::{CliError, cannot};
use crate::output::{FormatArg, OutputArgs, Row, Rows, Show};
use crate::who;

/// Create, list and revoke tokens for the web interface.
#[derive(Debug, Args)]
pub struct Token {
    #[command(subcommand)]
    verb: Verb,
    #[command(flatten)]
    client: ClientArgs,
}

#[derive(Debug, Subcommand)]
enum Verb {
    Create(Create),
    List(List),
    Revoke(Revoke),
}

impl Token {
    pub fn run(self) -> Result<(), CliError> {
        match self.verb {
            Verb::Create(verb) => verb.run(self.client),
            Verb::List(verb) => verb.run(self.client),
            Verb::Revoke(verb) => verb.run(self.client),
        }
    }
}

/// Create a token and print it, this once: only its hash is stored. All web servers accept it at once.
#[derive(Debug, Args)]
struct Create {
    /// Who uses it, or what for: the audit trail shows this name.
    name: Name,
    /// What it allows: read, submit, operate or admin everywhere, or ENGINE:SCOPE such as queues:operate. None includes
    /// another.
    #[arg(long = "scope", value_name = "[ENGINE:]SCOPE,…", value_delimiter = ',', default_value = "read")]
    scopes: Vec<Grant>,
    #[command(flatten)]
    format: FormatArg,
}

#[derive(Serialize)]
struct Created {
    id: Name,
    name: Name,
    scopes: Rights,
    token: String,
}

impl Show for Created {
    fn show(&self) -> String {
        format!("{}\n", self.token)
    }
}

impl Create {
    fn run(self, client: ClientArgs) -> Result<(), CliError> {
        let rights: Rights = self.scopes.into_iter().collect();
        client::run_within(client, Owner, async |client| {
            let made = stored::create(&client.session, &self.name, rights, &who::operator()).await;
            let (token, id) = made.map_err(cannot("create a token"))?;
            eprintln!("token {id} of {} may {rights}; it is not shown again", self.name);
            self.format.print(&Created { id, name: self.name.clone(), scopes: rights, token })
        })
    }
}

/// List tokens by name, without their secrets.
#[derive(Debug, Args)]
struct List {
    #[command(flatten)]
    output: OutputArgs,
}

impl List {
    fn run(self, client: ClientArgs) -> Result<(), CliError> {
        client::run_within(client, Observer, async |client| {
            let list = async || stored::list(&client.session).await.map(Rows).map_err(cannot("list tokens"));
            self.output.print(list).await
        })
    }
}

impl Row for TokenView {
    const HEADS: &[&str] = &["TOKEN", "NAME", "SCOPES", "CREATED", "BY"];
    const NONE: Option<&str> = Some("no tokens yet: `menagerie token create NAME --scope read` makes one");

    fn cells(&self) -> Vec<String> {
        let created = i64::try_from(self.created_ms).unwrap_or(i64::MAX);
        vec![
            self.id.clone(),
            self.name.clone(),
            self.scopes.join(","),
            clock::utc(created),
            crate::output::escape_for_terminal(Some(&self.by)),
        ]
    }
}

/// Revoke a token: all web servers refuse it at once.
#[derive(Debug, Args)]
struct Revoke {
    /// Id of the token, as `token list` shows it.
    #[arg(value_name = "TOKEN")]
    id: Name,
}

impl Revoke {
    fn run(self, client: ClientArgs) -> Result<(), CliError> {
        client::run_within(client, Owner, async |client| {
            let revoked = stored::revoke(&client.session, &self.id).await;
            match revoked.map_err(cannot("revoke a token"))? {
                true => eprintln!("token {} is revoked", self.id),
                false => {
                    return Err(CliError::Refused {
                        what: format!("there is no token {}", self.id),
                        help: "`menagerie token list` shows those that there are".to_owned(),
                    });
                }
            }
            Ok(())
        })
    }
}
