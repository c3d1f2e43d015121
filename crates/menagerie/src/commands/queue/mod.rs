//! `menagerie queue`: messages, and how queues are doing.
//!
//! One file per verb. `desk.rs`: a session and the journals, for all of them; `message.rs`: messages as they are shown;
//! `keep.rs`: how long they stay.

mod alter;
mod cancel;
mod create;
mod delayed;
mod delete;
pub mod desk;
mod failed;
mod forget;
mod get;
mod import_qdo;
mod input;
mod keep;
mod key;
mod list;
mod message;
mod pause;
mod peek;
mod purge;
mod put;
mod resume;
mod retry;
mod scope;
pub mod serve;
mod show;
mod skip;
mod tail;
mod time;
mod workers;

use clap::{Args, Subcommand};

use self::desk::DeskArgs;
use crate::exit::CliError;

/// Make queues, put messages into them, look at them, and see whether workers keep up.
#[derive(Debug, Args)]
pub struct Queue {
    #[command(flatten)]
    desk: DeskArgs,
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
}

impl Queue {
    /// Does what was asked.
    pub fn run(self) -> Result<(), CliError> {
        let desk = self.desk;
        match self.verb {
            Verb::Create(verb) => verb.run(desk),
            Verb::Alter(verb) => verb.run(desk),
            Verb::Put(verb) => verb.run(desk),
            Verb::Peek(verb) => verb.run(desk),
            Verb::Get(verb) => verb.run(desk),
            Verb::Tail(verb) => verb.run(desk),
            Verb::List(verb) => verb.run(desk),
            Verb::Show(verb) => verb.run(desk),
            Verb::Workers(verb) => verb.run(desk),
            Verb::Pause(verb) => verb.run(desk),
            Verb::Resume(verb) => verb.run(desk),
            Verb::Delayed(verb) => verb.run(desk),
            Verb::Cancel(verb) => verb.run(desk),
            Verb::Failed(verb) => verb.run(desk),
            Verb::Retry(verb) => verb.run(desk),
            Verb::Forget(verb) => verb.run(desk),
            Verb::Purge(verb) => verb.run(desk),
            Verb::Skip(verb) => verb.run(desk),
            Verb::Delete(verb) => verb.run(desk),
            Verb::ImportQdo(verb) => verb.run(desk),
            Verb::Serve(verb) => verb.run(desk),
            Verb::Key(verb) => verb.run(desk),
        }
    }
}
