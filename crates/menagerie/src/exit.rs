//! Errors that end the program, as its user sees them: what failed, why, what to try; and one exit code for each kind.

use std::error::Error;
use std::fmt::Write as _;
use std::process::ExitCode;

use menagerie_keeper::{Failure, StoreError};
use menagerie_kernel::guard::GuardError;
use menagerie_kernel::transfer::{ExportError, ImportError};
use menagerie_kernel::{CallError, ConnectError};
use menagerie_queues::QueueError;
use menagerie_slots::SlotsError;
use thiserror::Error;

use crate::config::{ConfigError, Origin};
use crate::exit_codes::{call_code, journal_code, queues_code, slots_code};
use crate::help::{call_help, connect_help, export_help, import_help, io_help, queues_help, slots_help};

/// What was in the way of somebody who wanted a slot.
#[derive(Debug, Error)]
#[error("{0}")]
pub struct NotNow(pub String);

/// Everything that can end a command.
#[derive(Debug, Error)]
pub enum CliError {
    /// The arguments are understood but make no sense together.
    #[error("{what}")]
    Usage {
        /// What is wrong.
        what: String,
        /// What to try.
        help: String,
    },
    /// It was understood, and was not done.
    #[error("{what}")]
    Refused {
        /// What is in the way.
        what: String,
        /// What to try.
        help: String,
    },
    /// There is nothing to create it in.
    #[error("cannot create {path}: its parent {parent} does not exist")]
    Orphan {
        /// What was to be created.
        path: String,
        /// What is missing.
        parent: String,
    },
    /// The root that was given behind the servers is not there.
    #[error("{chroot}, the root given behind the servers, does not exist")]
    NoRoot {
        /// The root.
        chroot: String,
        /// The servers without it.
        hosts: String,
        /// Who named it.
        origin: Origin,
    },
    /// The configuration cannot be used.
    #[error("the configuration cannot be used")]
    Config(#[from] ConfigError),
    /// There is no session.
    #[error("cannot open a ZooKeeper session")]
    Connect {
        /// Why not.
        source: ConnectError,
        /// Who named the servers.
        origin: Origin,
    },
    /// ZooKeeper refused, or did not answer.
    #[error("cannot {doing}")]
    Call {
        /// What was attempted.
        doing: String,
        /// Why not.
        source: CallError,
    },
    /// What was held while the command ran is gone.
    #[error("lost {what}")]
    Lost {
        /// What it was.
        what: String,
    },
    /// Slots.
    #[error("cannot {doing}")]
    Slots {
        /// What was attempted.
        doing: String,
        /// Why not.
        source: SlotsError,
    },
    /// Queues.
    #[error("cannot {doing}")]
    Queue {
        /// What was attempted.
        doing: String,
        /// Why not.
        source: Box<QueueError>,
    },
    /// Nobody keeps messages.
    #[error("no journal is registered, and queues keep their messages in one")]
    NoJournalThere,
    /// A slot was not to be had in time.
    #[error("no slot of pool {pool} within {waited}")]
    NotObtained {
        /// The pool.
        pool: String,
        /// How long it was waited for.
        waited: String,
        /// Where it stood at last.
        #[source]
        standing: NotNow,
    },
    /// The command was not started.
    #[error("the command was not started")]
    NotStarted {
        /// Why not.
        source: GuardError,
    },
    /// The command has ended, and its slot could not be given back.
    #[error("slot {slot} of pool {pool} is still held: ZooKeeper could not be told that it is free")]
    StillHeld {
        /// The pool.
        pool: String,
        /// The slot.
        slot: u32,
        /// Who holds it.
        holder: String,
    },
    /// What ran for the user ended so, and that is all that there is to say.
    #[error("it ended with {code}")]
    Ended {
        /// The exit code.
        code: u8,
    },
    /// Nothing was exported.
    #[error("cannot export the namespace")]
    Export(#[from] ExportError),
    /// Nothing was imported, or not all.
    #[error("cannot import {file}")]
    Import {
        /// What was given.
        file: String,
        /// Why not.
        source: ImportError,
    },
    /// The doctor found something.
    #[error("{fails} of the checks failed")]
    Unwell {
        /// How many.
        fails: usize,
        /// Whether no server could be reached.
        unreachable: bool,
    },
    /// Somebody stopped us.
    #[error("stopped by signal {signal}")]
    Interrupted {
        /// With this signal.
        signal: i32,
    },
    /// Whoever read our output has gone.
    #[error("nobody reads the output")]
    NobodyReads,
    /// The keeper did not start, or had to stop.
    #[error("the keeper cannot run")]
    Keeper(#[from] Failure),
    /// An address is taken.
    #[error("cannot listen on {address}: it is used by {owner}")]
    Taken {
        /// The address.
        address: std::net::SocketAddr,
        /// Who has it.
        owner: String,
        /// The flag that chooses another one.
        flag: &'static str,
    },
    /// A backup or a restore failed.
    #[error("cannot {doing}")]
    Store {
        /// What was attempted.
        doing: String,
        /// Why not.
        source: Box<StoreError>,
        /// What to try.
        help: &'static str,
    },
    /// The journal did not start, or had to stop.
    #[error("the journal cannot run")]
    JournalServer(#[from] menagerie_journal::server::Failure),
    /// The journal refused, or did not answer.
    #[error("cannot {doing}")]
    Journal {
        /// What was attempted.
        doing: String,
        /// Why not.
        source: menagerie_journal::JournalError,
    },
    /// The journal's data cannot be checked, backed up or restored.
    #[error("cannot {doing}")]
    JournalStore {
        /// What was attempted.
        doing: String,
        /// Why not.
        source: Box<menagerie_journal::StoreError>,
        /// What to try.
        help: &'static str,
    },
    /// No journal runs on a folder.
    #[error("no journal runs on {path}")]
    NoJournal {
        /// The data folder.
        path: String,
        /// What looking for it said.
        source: std::io::Error,
    },
    /// A journal could not take a backup, or not send all of it.
    #[error("the journal on {path} gave no whole backup")]
    NoWholeBackup {
        /// The data folder.
        path: String,
        /// What happened.
        source: std::io::Error,
    },
    /// Nothing answers on the administration socket.
    #[error("no keeper runs on {path}")]
    NotRunning {
        /// The data folder.
        path: String,
        /// What connecting said.
        source: std::io::Error,
    },
    /// The operating system refused.
    #[error("cannot {doing}")]
    Io {
        /// What was attempted.
        doing: String,
        /// Why not.
        source: std::io::Error,
    },
}

impl CliError {
    /// An error of the operating system, with what was attempted.
    pub fn io(doing: impl Into<String>) -> impl FnOnce(std::io::Error) -> Self {
        let doing = doing.into();
        move |source| Self::Io { doing, source }
    }

    /// Whether something is missing that would be missing too if the root were.
    pub fn is_no_znode(&self) -> bool {
        match self {
            Self::Call { source, .. } | Self::Export(ExportError::Call(source)) => source.is_no_znode(),
            Self::Export(ExportError::NoNamespace { .. }) | Self::Orphan { .. } => true,
            _ => false,
        }
    }

    /// What to try.
    pub fn help(&self) -> String {
        match self {
            Self::Usage { help, .. } | Self::Refused { help, .. } => help.clone(),
            Self::NoRoot { chroot, hosts, origin } => format!(
                "it comes from: {origin}. Correct it, or create it with `menagerie zk create -p {chroot} --zookeeper {hosts}`"
            ),
            Self::Keeper(failure) => failure.help().to_owned(),
            Self::Taken { flag, .. } => {
                format!("stop it, or choose another address with {flag} (port 0 picks one)")
            }
            Self::Store { help, .. } | Self::JournalStore { help, .. } => (*help).to_owned(),
            Self::JournalServer(failure) => failure.help().to_owned(),
            Self::Journal { source, .. } => source.help().to_owned(),
            Self::NoJournal { .. } => {
                "start it first, or name with --data the folder that it was given (the one above journal/)"
                    .to_owned()
            }
            Self::NoWholeBackup { .. } => "try again; its log says more".to_owned(),
            Self::NotRunning { .. } => {
                "start it first, or name with --data the folder that it was given (the one above keeper/)"
                    .to_owned()
            }
            Self::Orphan { .. } => "create it first, or say -p to create missing parents too".to_owned(),
            Self::Io { source, .. } => io_help(source).to_owned(),
            Self::Config(error) => error.help(),
            Self::Connect { source, origin } => connect_help(source, origin),
            Self::Call { source, .. } => call_help(source).to_owned(),
            Self::Lost { .. } => "see how ZooKeeper is with `menagerie doctor`, and try again".to_owned(),
            Self::Export(error) => export_help(error).to_owned(),
            Self::Import { source, .. } => import_help(source).to_owned(),
            Self::Unwell { .. } => "do what is said beside each of them".to_owned(),
            Self::Slots { source, .. } => slots_help(source),
            Self::Queue { source, .. } => queues_help(source),
            Self::NoJournalThere => {
                "start one with `menagerie journal`, or everything on this machine with `menagerie up`"
                    .to_owned()
            }
            Self::NotObtained { pool, .. } => {
                format!("look at it with `menagerie slots show {pool}`, or wait longer with --wait")
            }
            Self::NotStarted { source: GuardError::NoProgram { .. } } => {
                "name a program that can be executed, behind `--`".to_owned()
            }
            Self::NotStarted { .. } => String::new(),
            Self::StillHeld { pool, holder, .. } => {
                format!("when ZooKeeper is back: `menagerie slots release {pool} {holder} --force`")
            }
            Self::Interrupted { .. } | Self::NobodyReads | Self::Ended { .. } => String::new(),
        }
    }

    /// Whether there is nothing to say that the user does not know.
    fn is_silent(&self) -> bool {
        matches!(self, Self::Interrupted { .. } | Self::NobodyReads | Self::Ended { .. })
    }

    /// The exit code: 2 usage, 69 nothing there to talk to, 73 lost while running, 74 the disk or the data failed, 75 not
    /// now, 128 and more for signals, 1 anything else.
    fn code(&self) -> u8 {
        match self {
            Self::Usage { .. } | Self::Config(_) => 2,
            Self::NotRunning { .. } | Self::NoJournal { .. } => 69,
            Self::Journal { source, .. } => journal_code(source),
            Self::Connect { source, .. } => match source {
                ConnectError::Unreachable { .. } => 69,
                ConnectError::Address { .. } | ConnectError::Namespace { .. } | ConnectError::Tls { .. } => 2,
                ConnectError::Importing { .. } => 75,
                ConnectError::Denied { .. }
                | ConnectError::Generation { .. }
                | ConnectError::Timer { .. } => 1,
            },
            Self::Call { source, .. }
            | Self::Export(ExportError::Call(source))
            | Self::Import { source: ImportError::Call(source), .. } => call_code(source),
            Self::Unwell { unreachable: true, .. } | Self::StillHeld { .. } => 69,
            Self::Slots { source, .. } => slots_code(source),
            Self::Queue { source, .. } => queues_code(source),
            Self::NoJournalThere => 69,
            Self::NotObtained { .. } => 75,
            Self::NotStarted { source } => source.exit_code(),
            Self::Ended { code } => *code,
            Self::Lost { .. } => 73,
            Self::Keeper(Failure::Store(_)) | Self::Store { .. } | Self::JournalStore { .. } => 74,
            Self::NoWholeBackup { .. } => 74,
            Self::JournalServer(menagerie_journal::server::Failure::Store(_)) => 74,
            Self::Interrupted { signal } => u8::try_from(128 + signal).unwrap_or(1),
            Self::NobodyReads => 128 + 13,
            Self::Keeper(_)
            | Self::JournalServer(_)
            | Self::Taken { .. }
            | Self::Io { .. }
            | Self::Export(_)
            | Self::Import { .. }
            | Self::Refused { .. }
            | Self::Orphan { .. }
            | Self::NoRoot { .. }
            | Self::Unwell { unreachable: false, .. } => 1,
        }
    }
}

/// Prints an error to stderr and gives the exit code.
pub fn report(error: &CliError) -> ExitCode {
    if error.is_silent() {
        return ExitCode::from(error.code());
    }
    let mut text = format!("error: {error}\n");
    let mut source = error.source();
    while let Some(cause) = source {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "because: {cause}");
        source = cause.source();
    }
    // Where the reason says it all, there is nothing to add.
    let help = error.help();
    if !help.is_empty() {
        let _ = writeln!(text, "help: {help}");
    }
    eprint!("{text}");
    ExitCode::from(error.code())
}
