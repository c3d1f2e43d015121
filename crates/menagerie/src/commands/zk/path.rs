//! Paths on the command line.

use crate::config;

/// Parses a path; a trailing slash is accepted.
pub fn parse(text: &str) -> Result<String, String> {
    let path = match text.trim_end_matches('/') {
        "" if text.starts_with('/') => "/",
        path => path,
    };
    config::check_path(path).map(|()| path.to_owned())
}
