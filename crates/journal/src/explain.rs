//! Help texts and exit codes of the journal's errors.

use std::borrow::Cow;

use menagerie_types::{Explain, exit_code};

use crate::error::JournalError;
use crate::server::Failure;
use crate::store::StoreError;

impl Explain for JournalError {
    fn help(&self) -> Cow<'static, str> {
        Self::help(self).into()
    }

    fn exit_code(&self) -> u8 {
        match self {
            Self::Unreachable { .. } | Self::Closed | Self::Unknown(_) => exit_code::UNAVAILABLE,
            Self::Damaged(_) | Self::DiskFull => exit_code::DATA,
            Self::OutOfFiles => exit_code::NOT_NOW,
            _ => exit_code::FAILED,
        }
    }
}

impl Explain for StoreError {
    fn help(&self) -> Cow<'static, str> {
        Self::help(self).into()
    }

    fn exit_code(&self) -> u8 {
        exit_code::DATA
    }
}

impl Explain for Failure {
    fn help(&self) -> Cow<'static, str> {
        Self::help(self).into()
    }

    fn exit_code(&self) -> u8 {
        match self {
            Self::Store(error) => error.exit_code(),
            Self::Listen { .. } | Self::Tls { .. } | Self::System { .. } => exit_code::FAILED,
        }
    }
}
