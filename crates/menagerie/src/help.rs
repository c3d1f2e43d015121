//! What to try when a command failed.

use menagerie_kernel::transfer::format::FormatError;
use menagerie_kernel::transfer::{ExportError, ImportError};
use menagerie_kernel::{CallError, ConnectError};
use menagerie_queues::QueueError;
use menagerie_slots::SlotsError;

use crate::config::Origin;

/// When there is no session.
pub fn connect_help(error: &ConnectError, origin: &Origin) -> String {
    match error {
        ConnectError::Unreachable { .. } | ConnectError::Address { .. } => format!(
            "the servers come from: {origin}. Start a keeper here with `menagerie up`, or name your servers with \
             --zookeeper HOST:PORT,…; `menagerie doctor` looks at each of them"
        ),
        ConnectError::Denied { .. } => {
            "check zookeeper.auth and the access list of the path. What `menagerie up` runs is for the user who started \
             it: run this as that user, name its DATA/zookeeper.auth by MENAGERIE_ZOOKEEPER_AUTH_FILE, or start it with --open"
                .to_owned()
        }
        ConnectError::Tls { .. } => {
            "check the files of [zookeeper.tls]: PEM, ca for TLS, cert and key for mutual TLS".to_owned()
        }
        ConnectError::Timer { .. } => {
            "allow more open files: see ulimit -n, or LimitNOFILE= of the unit".to_owned()
        }
        ConnectError::Importing { .. } => {
            "wait until it is done; if it was interrupted, run `menagerie zk import` again with the same file"
                .to_owned()
        }
        ConnectError::Generation { .. } => {
            "look at it with `menagerie zk get`; if the path is somebody else's, choose another --namespace, and if it is damaged, \
             write a number there that is greater than all before: the time in ms will do"
                .to_owned()
        }
        ConnectError::Namespace { .. } => "name a path such as /menagerie with --namespace".to_owned(),
    }
}

/// When the operating system refuses; nothing where its reason says it all.
pub fn io_help(error: &std::io::Error) -> &'static str {
    use std::io::ErrorKind;
    match error.kind() {
        ErrorKind::NotFound => "check the path: a part of it does not exist",
        ErrorKind::PermissionDenied => "check who may read and write there, or run as a user who may",
        ErrorKind::IsADirectory => "name a file, not a folder",
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => "make room there, or choose another place",
        ErrorKind::ReadOnlyFilesystem => "choose a place that can be written to",
        _ => "",
    }
}

fn refused_help(why: &str) -> &'static str {
    let why = why.to_lowercase();
    if why.contains("ephemeral") {
        "an ephemeral has no children: choose another parent"
    } else if why.contains("quota") {
        "delete something, or raise the quota: `menagerie zk tree /zookeeper/quota` shows them"
    } else if why.contains("bytes in one request") {
        "ZooKeeper is for small things: keep the data elsewhere, and its address here"
    } else {
        "the server does not do that: `menagerie doctor` shows its version and what it can do"
    }
}

/// When ZooKeeper refuses.
pub fn call_help(error: &CallError) -> &'static str {
    match error {
        CallError::NoZnode { .. } => {
            "paths begin at the ensemble's root; `menagerie zk ls` shows what is there"
        }
        CallError::Exists { .. } => "choose another name, or write with `menagerie zk set`",
        CallError::BadVersion { .. } => "look at it again with `menagerie zk stat`, and decide again",
        CallError::NotEmpty { .. } => "delete what is below it too with -r",
        CallError::Denied { .. } => {
            "see who may with `menagerie zk acl get`; zookeeper.auth in the configuration says who we are; what \
             `menagerie up` runs is for the user who started it"
        }
        CallError::Suspended | CallError::Expired | CallError::Closed => {
            "see how ZooKeeper is with `menagerie doctor`, and try again"
        }
        CallError::Unknown { .. } => {
            "the connection was lost on the way: look whether it has happened before you try again; data beyond 1 MB is refused like that"
        }
        CallError::Payload { .. } => "something else writes there: choose another --namespace",
        CallError::Refused { why, .. } => refused_help(why),
    }
}

/// When a pool refuses.
pub fn slots_help(error: &SlotsError) -> String {
    match error {
        SlotsError::NoPool { pool } => {
            format!(
                "`menagerie slots list` shows those that there are; `menagerie slots create {pool} --max N` makes it"
            )
        }
        SlotsError::OtherMaximum { pool, wanted, .. } => {
            format!("to change it on purpose: `menagerie slots set-max {pool} {wanted}`")
        }
        SlotsError::NoRoomAtAll => "to let nobody in: `menagerie slots freeze`".to_owned(),
        SlotsError::Conflict { pool } | SlotsError::NotAsExpected { pool, .. } => {
            format!("look at it with `menagerie slots show {pool}`, and decide again")
        }
        SlotsError::InUse { pool, .. } => format!("see who they are with `menagerie slots show {pool}`"),
        SlotsError::NotHeld { pool, .. } => format!("`menagerie slots show {pool}` shows who holds"),
        SlotsError::Running { pool, holder, .. } => format!(
            "let it end, or, if you know that it is gone, `menagerie slots release {pool} {holder} --force`"
        ),
        SlotsError::Lost { pool, .. } => format!("`menagerie slots history {pool}` tells who took it"),
        SlotsError::Damaged { path, .. } => format!(
            "nobody gets in while it is so; see what is there with `menagerie zk get`, and write it anew: `menagerie zk set` \
             {path} (in the namespace) '{{\"max\":N,\"count\":0}}'"
        ),
        SlotsError::Missing { pool, .. } if error.is_of_watchdogs() => format!(
            "look which hosts are out of service; `menagerie slots rearm {pool} HOST` for one that is not begins the list anew, \
             and then nobody is on it"
        ),
        SlotsError::Missing { .. } => {
            "the next change of the pool makes it again; `menagerie doctor` looks for more that is missing".to_owned()
        }
        SlotsError::TicketGone { pool, holder, .. } => format!(
            "if {holder} does not need it any more, `menagerie slots release {pool} {holder} --force` frees it"
        ),
        SlotsError::Stuck { .. } => {
            "look at what was refused with `menagerie zk stat` (paths are below the namespace); `menagerie doctor` looks for \
             more that is damaged"
                .to_owned()
        }
        SlotsError::Call(error) => call_help(error).to_owned(),
    }
}

/// When a queue refuses.
pub fn queues_help(error: &QueueError) -> String {
    match error {
        QueueError::NoQueue { queue } if queue.failures_of().is_some() => {
            let of = queue.failures_of().map_or(String::new(), |queue| queue.to_string());
            format!("`menagerie queue failed {of}` shows the messages of {of} that were given up")
        }
        QueueError::NoQueue { queue } => format!(
            "`menagerie queue list` shows those that there are; `menagerie queue create {queue} --partitions N` makes it"
        ),
        QueueError::Exists { queue, .. } => {
            format!(
                "`menagerie queue show {queue}` shows it; keys would go elsewhere if their number changed"
            )
        }
        QueueError::Narrow { queue, wide, .. } => format!(
            "create it with --partitions {wide}; if nobody wants these messages, `menagerie queue delete {queue} --force` afterwards"
        ),
        QueueError::Ahead { partition, .. } => format!(
            "take it away with `menagerie zk rm` ({} in the namespace), and the queue begins with all that is there; or write to it \
             how far it was handled, in seconds since 1970",
            menagerie_znodes::queues::cursor(partition).path()
        ),
        QueueError::Reserved { .. } => "choose a name that does not end in .failed".to_owned(),
        QueueError::NoWorker { .. } => "`menagerie queue workers` shows those that there are".to_owned(),
        QueueError::NoPartition { .. } => "partitions count from 1".to_owned(),
        QueueError::Partitions { .. } => {
            "each partition is handled by one worker; some 8 do for most".to_owned()
        }
        QueueError::NoJournal { .. } => "see which journals run with `menagerie status`".to_owned(),
        QueueError::Key(_) => "`menagerie queue key list` shows them".to_owned(),
        QueueError::Topic { .. } => "choose a shorter name, of letters, digits, dots and dashes".to_owned(),
        QueueError::Journal(error) => match error {
            menagerie_journal::JournalError::Unreachable { .. } => {
                "see whether it runs with `menagerie status`; start one with `menagerie journal`".to_owned()
            }
            error => error.help().to_owned(),
        },
        QueueError::Call(error) => call_help(error).to_owned(),
        QueueError::Transaction(_)
        | QueueError::Lock(_)
        | QueueError::Presence(_)
        | QueueError::Settle(_)
        | QueueError::Cache(_) => "see how ZooKeeper is with `menagerie doctor`, and try again".to_owned(),
    }
}

/// When nothing was exported.
pub fn export_help(error: &ExportError) -> &'static str {
    match error {
        ExportError::NoNamespace { .. } => {
            "name the one to export with --namespace; `menagerie zk ls /` shows what is there"
        }
        ExportError::Importing { .. } => {
            "finish it first: run `menagerie zk import` again with the file that it was given"
        }
        ExportError::Changed { .. } => {
            "stop the engines and export again, or say --live if parts may be of different times"
        }
        ExportError::Call(error) => call_help(error),
        ExportError::Write(error) => io_help(error),
    }
}

/// When nothing was imported.
pub fn import_help(error: &ImportError) -> &'static str {
    match error {
        ImportError::Format(FormatError::Read(error)) => io_help(error),
        ImportError::Format(_) => "name a whole file that `menagerie zk export` wrote; nothing was changed",
        ImportError::NotEmpty { .. } => {
            "name an empty one with --namespace, or delete what is there with --replace"
        }
        ImportError::Other { .. } => {
            "run it again with the file that it was given, or begin anew with --replace"
        }
        ImportError::InUse { .. } => "stop what runs on it; `menagerie status` says who that is",
        ImportError::TooLarge { .. } => {
            "make it smaller where it comes from and export again; nothing was changed"
        }
        ImportError::Call(error) => call_help(error),
        ImportError::Transaction(_) => "run it again with the same file: it goes on where it was",
    }
}
