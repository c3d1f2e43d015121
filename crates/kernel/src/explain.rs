//! Help texts and exit codes of the kernel's errors.

use std::borrow::Cow;

use menagerie_types::{Explain, exit_code};

use crate::error::CallError;
use crate::guard::GuardError;
use crate::recipes::tree_cache::TreeCacheError;
use crate::session::ConnectError;
use crate::transfer::format::FormatError;
use crate::transfer::{ExportError, ImportError};

impl Explain for CallError {
    fn help(&self) -> Cow<'static, str> {
        call_help(self).into()
    }

    fn exit_code(&self) -> u8 {
        match self {
            Self::Suspended | Self::Unknown { .. } | Self::Expired => exit_code::UNAVAILABLE,
            Self::NoZnode { .. }
            | Self::Exists { .. }
            | Self::BadVersion { .. }
            | Self::NotEmpty { .. }
            | Self::Denied { .. }
            | Self::Closed
            | Self::Payload { .. }
            | Self::Refused { .. } => exit_code::FAILED,
        }
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
        "the server does not support that: `menagerie doctor` shows its version and what it can do"
    }
}

fn call_help(error: &CallError) -> &'static str {
    match error {
        CallError::NoZnode { .. } => {
            "paths begin at the ensemble's root; `menagerie zk ls` shows what is there"
        }
        CallError::Exists { .. } => "choose another name, or write with `menagerie zk set`",
        CallError::BadVersion { .. } => "read it again with `menagerie zk stat`, then decide again",
        CallError::NotEmpty { .. } => "delete everything below it, too, with -r",
        CallError::Denied { .. } => {
            "`menagerie zk acl get` shows who may; zookeeper.auth in the configuration is our user; what \
             `menagerie up` runs is for the user who started it"
        }
        CallError::Suspended | CallError::Expired | CallError::Closed => {
            "see how ZooKeeper is with `menagerie doctor`, and try again"
        }
        CallError::Unknown { .. } => {
            "the connection was lost: check whether it happened before you try again; servers also cut the connection on data beyond 1 MB"
        }
        CallError::Payload { .. } => "something else writes there: choose another --namespace",
        CallError::Refused { why, .. } => refused_help(why),
    }
}

impl Explain for ConnectError {
    fn help(&self) -> Cow<'static, str> {
        match self {
            Self::Unreachable { .. } | Self::Address { .. } => {
                "start a keeper here with `menagerie up`, or name your servers with --zookeeper HOST:PORT,…; `menagerie doctor` \
                 looks at each of them"
            }
            Self::Denied { .. } => {
                "check zookeeper.auth and the access list of the path. What `menagerie up` runs is for the user who started \
                 it: run this as that user, name its DATA/zookeeper.auth by MENAGERIE_ZOOKEEPER_AUTH_FILE, or start it with --open"
            }
            Self::Tls { .. } => {
                "check the files of [zookeeper.tls]: PEM, ca for TLS, cert and key for mutual TLS"
            }
            Self::Timer { .. } => "allow more open files: see ulimit -n, or LimitNOFILE= of the unit",
            Self::Importing { .. } => {
                "wait until it is done; if it was interrupted, run `menagerie zk import` again with the same file"
            }
            Self::Generation { .. } => {
                "look at it with `menagerie zk get`; if the path is somebody else's, choose another --namespace, and if it is damaged, \
                 write a number there that is greater than all before: the time in ms will do"
            }
            Self::Namespace { .. } => "name a path such as /menagerie with --namespace",
        }
        .into()
    }

    fn exit_code(&self) -> u8 {
        match self {
            Self::Unreachable { .. } => exit_code::UNAVAILABLE,
            Self::Address { .. } | Self::Namespace { .. } | Self::Tls { .. } => exit_code::USAGE,
            Self::Importing { .. } => exit_code::NOT_NOW,
            Self::Denied { .. } | Self::Generation { .. } | Self::Timer { .. } => exit_code::FAILED,
        }
    }
}

impl Explain for ExportError {
    fn help(&self) -> Cow<'static, str> {
        match self {
            Self::NoNamespace { .. } => {
                "name the one to export with --namespace; `menagerie zk ls /` shows what is there"
            }
            Self::Importing { .. } => {
                "finish it first: run `menagerie zk import` again with the file that it was given"
            }
            Self::Changed { .. } => {
                "stop the engines and export again, or pass --live if its parts may show different moments"
            }
            Self::Call(error) => call_help(error),
            Self::Write(error) => menagerie_types::explain::io_help(error),
        }
        .into()
    }

    fn exit_code(&self) -> u8 {
        match self {
            Self::Call(error) => error.exit_code(),
            Self::NoNamespace { .. } | Self::Importing { .. } | Self::Changed { .. } | Self::Write(_) => {
                exit_code::FAILED
            }
        }
    }
}

impl Explain for ImportError {
    fn help(&self) -> Cow<'static, str> {
        match self {
            Self::Format(FormatError::Read(error)) => menagerie_types::explain::io_help(error),
            Self::Format(_) => "name a whole file that `menagerie zk export` wrote; nothing was changed",
            Self::NotEmpty { .. } => {
                "name an empty one with --namespace, or delete what is there with --replace"
            }
            Self::Other { .. } => {
                "run it again with the file that it was given, or start over with --replace"
            }
            Self::InUse { .. } => "stop what runs on it; `menagerie status` says who that is",
            Self::TooLarge { .. } => {
                "make it smaller where it comes from and export again; nothing was changed"
            }
            Self::Call(error) => call_help(error),
            Self::Transaction(_) => "run it again with the same file: it continues where it stopped",
        }
        .into()
    }

    fn exit_code(&self) -> u8 {
        match self {
            Self::Call(error) => error.exit_code(),
            _ => exit_code::FAILED,
        }
    }
}

impl Explain for TreeCacheError {
    fn help(&self) -> Cow<'static, str> {
        "see how ZooKeeper is with `menagerie doctor`, and try again".into()
    }

    fn exit_code(&self) -> u8 {
        exit_code::FAILED
    }
}

impl Explain for GuardError {
    fn help(&self) -> Cow<'static, str> {
        match self {
            Self::NoProgram { .. } => "name a program that can be executed, behind `--`".into(),
            Self::NoDirectory { .. }
            | Self::TooLate { .. }
            | Self::NoInput { .. }
            | Self::NoGuard { .. }
            | Self::GuardDied { .. } => "".into(),
        }
    }

    fn exit_code(&self) -> u8 {
        Self::exit_code(self)
    }
}
