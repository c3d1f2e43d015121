//! Paths on the command line.

use crate::config;

/// Reads a path; a slash at its end does no harm.
pub fn parse(text: &str) -> Result<String, String> {
    let path = match text.trim_end_matches('/') {
        "" if text.starts_with('/') => "/",
        path => path,
    };
    config::check_path(path).map(|()| path.to_owned())
}
