//! Names that become folders of the cache or arguments of git, checked before they do.

pub use menagerie_znodes::pipelines::{Change, Sha, is_ref_name};

/// A name from outside that git, or we, cannot accept.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{value:?} is no valid {what}")]
pub struct InvalidName {
    /// The kind of name that was expected.
    pub what: &'static str,
    /// The text that was given, shortened.
    pub value: String,
}

impl InvalidName {
    /// Keeps the beginning of the text only: it may come from anywhere.
    pub(super) fn new(what: &'static str, value: &str) -> Self {
        Self { what, value: value.chars().take(200).collect() }
    }
}

/// Checks a change before it goes on a command line or into a commit message.
pub(super) fn validate(change: &Change) -> Result<(), InvalidName> {
    let parts_hold =
        is_project_name(&change.project) && is_ref_name(&change.target) && is_ref_name(&change.topic);
    if parts_hold { Ok(()) } else { Err(InvalidName::new("change", &change.to_string())) }
}

/// Whether a name may become folders of the cache. A component that ends in `.git` before the last one would put a
/// cache into another cache; a colon would make changes of the project unreadable.
pub(super) fn is_project_name(name: &str) -> bool {
    let component_holds = |part: &str| {
        !part.is_empty()
            && !part.starts_with(['.', '-'])
            && !part.chars().any(|c| c.is_control() || matches!(c, ':' | '\\'))
    };
    let mut folders = name.rsplit('/').skip(1);
    name.split('/').all(component_holds) && folders.all(|part| !part.ends_with(".git"))
}

/// Whether git may be given this as a repository: an absolute folder, a URL of a common scheme, or `[USER@]HOST:PATH`.
/// Remote helpers (`ext::…`) run programs and are refused.
pub(super) fn is_repository_url(url: &str) -> bool {
    const SCHEMES: [&str; 7] = ["http", "https", "ssh", "git", "file", "git+ssh", "ssh+git"];
    if url.starts_with('-') || url.chars().any(char::is_control) {
        return false;
    }
    if let Some((scheme, rest)) = url.split_once("://") {
        return SCHEMES.contains(&scheme) && !rest.is_empty() && !rest.starts_with('-');
    }
    if url.starts_with('/') {
        return true;
    }
    match url.split_once(':') {
        Some((host, path)) => {
            let host_holds = !host.is_empty() && !host.contains(['/', ' ']) && !host.contains("@-");
            host_holds && !path.is_empty() && !path.starts_with(':')
        }
        None => false,
    }
}
