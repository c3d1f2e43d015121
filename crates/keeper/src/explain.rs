//! Help texts and exit codes of the keeper's errors.

use std::borrow::Cow;

use menagerie_types::{Explain, exit_code};

use crate::shell::Failure;
use crate::store::StoreError;

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
            Self::Listen { .. } | Self::Tls(_) | Self::System { .. } | Self::Died(_) => exit_code::FAILED,
        }
    }
}
