//! `hello serve TOPIC` and `hello show TOPIC`: the role and the command of this engine. One that ships has them in
//! `crates/menagerie/src/commands/hello/`, a line in `commands/mod.rs`, and a line in `commands/up/mod.rs`.

use std::process::ExitCode;

use clap::{Args, Parser};
use hello::count::Counter;
use hello::show::TopicView;
use menagerie::client::Connection;
use menagerie::exit::{CliError, cannot, report};
use menagerie::output::FormatArg;
use menagerie::role::host::Signals;
use menagerie::role::{Host, Ready, Role};
use menagerie::stores::{StoreArgs, Stores};
use menagerie_journal::{Consumer, Topic};
use menagerie_journal_directory::{JournalRef, Journals};
use menagerie_kernel::Session;
use menagerie_kernel::session::Rights;
use menagerie_znodes::Name;
use serde_json::Map;

/// Count the messages of a topic, each exactly once.
#[derive(Parser)]
struct Hello {
    #[command(flatten)]
    stores: StoreArgs,
    #[command(subcommand)]
    verb: Verb,
}

#[derive(clap::Subcommand)]
enum Verb {
    /// Count until asked to stop; any number of processes may, one of them does.
    Serve(TopicArgs),
    /// Show what was counted.
    Show {
        #[command(flatten)]
        topic: TopicArgs,
        #[command(flatten)]
        format: FormatArg,
    },
}

#[derive(Args)]
struct TopicArgs {
    /// Topic whose messages are counted.
    topic: Name,
    /// Journal that keeps them.
    #[arg(long, value_name = "NAME", default_value = "main")]
    journal: Name,
    /// Name of the position, and of the tally.
    #[arg(long, value_name = "NAME", default_value = "hello")]
    consumer: Name,
}

impl TopicArgs {
    fn counter(&self, journals: &Journals) -> Result<Counter, CliError> {
        let usage =
            |what: String| CliError::Usage { what, help: "name an existing topic and journal".to_owned() };
        Ok(Counter {
            journal: journals
                .get(&JournalRef::named(self.journal.as_str()))
                .ok_or_else(|| usage(format!("there is no journal {}", self.journal)))?,
            topic: Topic::new(self.topic.as_str()).map_err(|error| usage(error.to_string()))?,
            consumer: Consumer::new(self.consumer.as_str()).map_err(|error| usage(error.to_string()))?,
        })
    }
}

fn main() -> ExitCode {
    let Hello { stores, verb } = Hello::parse();
    let done = match verb {
        Verb::Serve(topic) => serve(stores, topic),
        Verb::Show { topic, format } => stores.observe(async |stores: &Stores| {
            let tally = topic.counter(&stores.journals)?.tally().await.map_err(cannot("show the tally"))?;
            format.print(&TopicView { topic: topic.topic.to_string(), tally })
        }),
    };
    done.map_or_else(|error| report(&error), |()| ExitCode::SUCCESS)
}

fn serve(stores: StoreArgs, topic: TopicArgs) -> Result<(), CliError> {
    let host = Host::new(None, false, Signals::Host)?;
    let settings = stores.client.settings()?;
    let access = stores.access.access(&settings);
    let connection = Connection::within(&settings, Rights::Owner)?;
    let details = Map::from_iter([("topic".to_owned(), topic.topic.as_str().into())]);
    host.run(Role::with_session("hello", connection, details, async move |session: &Session, life| {
        let journals = Journals::registered(session, access).await.map_err(cannot("look for journals"))?;
        let counter = topic.counter(&journals)?;
        life.ready(Ready::named(topic.topic.as_str())).await;
        tokio::select! {
            counted = counter.run(session, &topic.topic) => counted.map_err(cannot("count")),
            () = life.stopping() => {
                life.draining().await;
                Ok(())
            }
        }
    }))
}
