//! `menagerie queue`: messages, and how queues are doing.
//!
//! One file per verb. `stores.rs`: a session and the journals, for all of them; `message.rs`: how messages are shown;
//! `keep.rs`: retention; `handling.rs`: order and defaults; `periodic.rs`: what puts scheduled messages.

mod alter;
mod cancel;
mod create;
mod delayed;
mod delete;
mod failed;
mod find;
mod forget;
mod get;
mod handling;
mod import_qdo;
mod input;
mod keep;
mod key;
mod list;
mod message;
mod message_name;
mod pause;
mod peek;
pub mod periodic;
mod purge;
mod put;
mod resume;
mod retry;
mod schedule;
mod scope;
pub mod serve;
mod show;
mod skip;
mod tail;
mod trace;
mod workers;

use clap::{Args, Subcommand};

use crate::exit::CliError;
use crate::stores::StoreArgs;

/// Create queues, put messages, inspect them, and see whether workers keep up.
#[derive(Debug, Args)]
pub struct Queue {
    #[command(flatten)]
    stores: StoreArgs,
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    Create(create::Create),
    Alter(alter::Alter),
    Put(put::Put),
    Peek(peek::Peek),
    Get(get::Get),
    Tail(tail::Tail),
    Trace(trace::Trace),
    Find(find::Find),
    List(list::List),
    Show(show::Show),
    Workers(workers::Workers),
    Pause(pause::Pause),
    Resume(resume::Resume),
    Delayed(delayed::Delayed),
    Cancel(cancel::Cancel),
    Failed(failed::Failed),
    Retry(retry::Retry),
    Forget(forget::Forget),
    Purge(purge::Purge),
    Skip(skip::Skip),
    Delete(delete::Delete),
    ImportQdo(import_qdo::ImportQdo),
    Serve(serve::Serve),
    Key(key::Key),
    Schedule(schedule::Schedule),
}

impl Queue {
    pub fn run(self) -> Result<(), CliError> {
        let stores = self.stores;
        match self.verb {
            Verb::Create(verb) => verb.run(stores),
            Verb::Alter(verb) => verb.run(stores),
            Verb::Put(verb) => verb.run(stores),
            Verb::Peek(verb) => verb.run(stores),
            Verb::Get(verb) => verb.run(stores),
            Verb::Tail(verb) => verb.run(stores),
            Verb::Trace(verb) => verb.run(stores),
            Verb::Find(verb) => verb.run(stores),
            Verb::List(verb) => verb.run(stores),
            Verb::Show(verb) => verb.run(stores),
            Verb::Workers(verb) => verb.run(stores),
            Verb::Pause(verb) => verb.run(stores),
            Verb::Resume(verb) => verb.run(stores),
            Verb::Delayed(verb) => verb.run(stores),
            Verb::Cancel(verb) => verb.run(stores),
            Verb::Failed(verb) => verb.run(stores),
            Verb::Retry(verb) => verb.run(stores),
            Verb::Forget(verb) => verb.run(stores),
            Verb::Purge(verb) => verb.run(stores),
            Verb::Skip(verb) => verb.run(stores),
            Verb::Delete(verb) => verb.run(stores),
            Verb::ImportQdo(verb) => verb.run(stores),
            Verb::Serve(verb) => verb.run(stores),
            Verb::Key(verb) => verb.run(stores),
            Verb::Schedule(verb) => verb.run(stores),
        }
    }
}
