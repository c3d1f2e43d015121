//! Paths on the command line.

use menagerie_kernel::CallError;

use crate::config;
use crate::exit::CliError;

/// Reads a path; a slash at its end does no harm.
pub fn parse(text: &str) -> Result<String, String> {
    let path = match text.trim_end_matches('/') {
        "" if text.starts_with('/') => "/",
        path => path,
    };
    config::check_path(path).map(|()| path.to_owned())
}

/// An error of a call, with what was attempted.
pub fn failed(doing: &str, path: &str) -> impl FnOnce(CallError) -> CliError {
    let doing = format!("{doing} {path}");
    move |source| CliError::Call { doing, source }
}
