//! `[pipelines]`: the tenant file, and where repositories are.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use menagerie_pipelines::Connection;
use menagerie_pipelines::settings::POLL;
use serde::Deserialize;
use toml::Spanned;

use super::file::RawDuration;
use super::{Chosen, ConfigError, Origin};
use crate::durations;

/// More often, git would do nothing else; less often, nobody would call it watching.
const POLL_RANGE: std::ops::RangeInclusive<Duration> = Duration::from_millis(100)..=Duration::from_secs(3600);

const HELP: &str = "docs/config.md shows a whole [pipelines] section";

/// What a user without `[pipelines]` may begin with.
pub const MINIMAL: &str = "\
[pipelines]
tenants = \"tenants.yaml\"

[pipelines.connections.local]
driver = \"git\"
baseurl = \"/srv/git\"";

/// As written in the file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RawPipelines {
    tenants: Spanned<String>,
    connections: Spanned<BTreeMap<String, RawConnection>>,
}

/// `[pipelines.connections.NAME]`
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct RawConnection {
    driver: Spanned<String>,
    baseurl: Spanned<String>,
    canonical_hostname: Option<Spanned<String>>,
    poll: Option<Spanned<RawDuration>>,
    submit: Option<Spanned<BTreeMap<String, i64>>>,
}

/// The validated settings.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PipelineSettings {
    /// The tenant file.
    pub tenants: Chosen<PathBuf>,
    /// By name.
    pub connections: BTreeMap<String, Chosen<Connection>>,
}

impl PipelineSettings {
    /// The connections without their origin.
    pub fn plain_connections(&self) -> BTreeMap<String, Connection> {
        self.connections.iter().map(|(name, one)| (name.clone(), one.value.clone())).collect()
    }
}

/// Validates the settings. `relative` resolves a path from the file's folder.
pub fn resolve(
    raw: Option<RawPipelines>,
    origin: &dyn Fn(usize) -> Origin,
    relative: &dyn Fn(&str) -> PathBuf,
) -> Result<Option<PipelineSettings>, ConfigError> {
    let Some(RawPipelines { tenants, connections }) = raw else { return Ok(None) };
    let at = connections.span().start;
    let connections = connections.into_inner();
    if connections.is_empty() {
        let why = "there is no connection, so there are no repositories".to_owned();
        return Err(bad("pipelines.connections", origin(at), why));
    }
    let tenants = Chosen { origin: origin(tenants.span().start), value: relative(tenants.get_ref()) };
    let connections = connections
        .into_iter()
        .map(|(name, raw)| {
            check_name(&name)
                .map_err(|why| bad("pipelines.connections", origin(raw.driver.span().start), why))?;
            Ok((name, connection(raw, origin, relative)?))
        })
        .collect::<Result<_, ConfigError>>()?;
    Ok(Some(PipelineSettings { tenants, connections }))
}

fn bad(key: &'static str, origin: Origin, why: String) -> ConfigError {
    ConfigError::Value { key, origin, why, help: HELP }
}

/// A connection's name becomes a folder, and a word of the tenant file.
fn check_name(name: &str) -> Result<(), String> {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-');
    match name.starts_with(['.', '-']) || name.is_empty() || !name.chars().all(is_allowed) {
        true => Err(format!(
            "{name:?} is no name of a connection: it has letters, digits, `.`, `_` and `-`, and begins with neither `.` nor `-`"
        )),
        false => Ok(()),
    }
}

fn connection(
    raw: RawConnection,
    origin: &dyn Fn(usize) -> Origin,
    relative: &dyn Fn(&str) -> PathBuf,
) -> Result<Chosen<Connection>, ConfigError> {
    let at = raw.driver.span().start;
    if raw.driver.get_ref() != "git" {
        let why = format!("{:?} is no driver; there is one: git", raw.driver.get_ref());
        return Err(bad("pipelines.connections.NAME.driver", origin(at), why));
    }
    let key = "pipelines.connections.NAME.baseurl";
    let base = raw.baseurl.span().start;
    let (baseurl, found) =
        place(raw.baseurl.get_ref(), relative).map_err(|why| bad(key, origin(base), why))?;
    let host = match raw.canonical_hostname {
        None => found,
        Some(name) => {
            let key = "pipelines.connections.NAME.canonical_hostname";
            let at = name.span().start;
            host_name(name.into_inner()).map_err(|why| bad(key, origin(at), why))?
        }
    };
    let poll = match raw.poll {
        None => POLL,
        Some(poll) => {
            let at = poll.span().start;
            let parsed = durations::parse_fine(&poll.get_ref().0)
                .and_then(|time| in_range(time).ok_or_else(|| "choose between 100ms and 1h".to_owned()));
            parsed.map_err(|why| bad("pipelines.connections.NAME.poll", origin(at), why))?
        }
    };
    let submit = match raw.submit {
        None => BTreeMap::from([("Approved".to_owned(), 1)]),
        Some(votes) => {
            let at = votes.span().start;
            let votes = votes.into_inner();
            if let Some(label) = votes.keys().find(|label| !is_label(label)) {
                let why = format!("{label:?} is no label: it has letters, digits, `_` and `-`");
                return Err(bad("pipelines.connections.NAME.submit", origin(at), why));
            }
            votes
        }
    };
    Ok(Chosen { value: Connection { baseurl, host, poll, submit }, origin: origin(at) })
}

fn in_range(time: Duration) -> Option<Duration> {
    POLL_RANGE.contains(&time).then_some(time)
}

/// Whether git, we and the command line can carry this as a label.
pub fn is_label(label: &str) -> bool {
    !label.is_empty() && label.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-'))
}

/// Where repositories are, as git takes it, and the host in their names. A folder is relative to the file.
fn place(text: &str, relative: &dyn Fn(&str) -> PathBuf) -> Result<(String, String), String> {
    let text = text.trim();
    if text.is_empty() || text.starts_with('-') || text.contains(char::is_control) {
        return Err("it is neither a folder nor a URL".to_owned());
    }
    if let Some((scheme, rest)) = text.split_once("://") {
        if !["http", "https", "ssh", "git", "file"].contains(&scheme) {
            return Err(format!("{scheme:?} is none of http, https, ssh, git, file"));
        }
        let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
        let host = authority.rsplit('@').next().unwrap_or_default();
        let host = match host.strip_prefix('[') {
            Some(address) => address.split(']').next().unwrap_or_default(),
            None => host.split(':').next().unwrap_or_default(),
        };
        return match (host, scheme) {
            ("", "file") => Ok((text.to_owned(), "localhost".to_owned())),
            ("", _) => Err("the URL has no host".to_owned()),
            (host, _) => Ok((text.to_owned(), host.to_ascii_lowercase())),
        };
    }
    // `USER@HOST:PATH`, as ssh has it. `ext::…` would make git run a program.
    if let Some((host, path)) = text.split_once(':')
        && !host.contains('/')
    {
        let host = host.rsplit('@').next().unwrap_or_default();
        return match host.is_empty() || path.is_empty() || path.starts_with(':') {
            true => Err("it is neither a folder nor a URL".to_owned()),
            false => Ok((text.to_owned(), host.to_ascii_lowercase())),
        };
    }
    let folder = std::path::absolute(relative(text)).map_err(|error| error.to_string())?;
    let folder = folder.to_str().ok_or("the folder's name is not UTF-8")?;
    Ok((trimmed(folder), "localhost".to_owned()))
}

/// Without `.` components, which `absolute` has removed, and without slashes at the end.
fn trimmed(folder: &str) -> String {
    match folder.trim_end_matches('/') {
        "" => "/".to_owned(),
        folder => folder.to_owned(),
    }
}

fn host_name(name: String) -> Result<String, String> {
    let is_allowed = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-' | ':');
    match name.is_empty() || name.starts_with(['.', '-']) || !name.chars().all(is_allowed) {
        true => Err(format!("{name:?} is no name of a host")),
        false => Ok(name),
    }
}

/// A URL as it may be shown: without user and password.
pub fn shown_url(url: &str) -> String {
    match url.split_once("://") {
        Some((scheme, rest)) => {
            let end = rest.find('/').unwrap_or(rest.len());
            let (authority, path) = rest.split_at(end);
            format!("{scheme}://{}{path}", authority.rsplit('@').next().unwrap_or(authority))
        }
        None => url.to_owned(),
    }
}

/// Reads the tenant file that the settings name.
pub fn read_tenants(tenants: &Chosen<PathBuf>) -> Result<String, ConfigError> {
    let Chosen { value: path, origin } = tenants;
    let path: &Path = path;
    std::fs::read_to_string(path).map_err(|source| ConfigError::Named {
        key: "pipelines.tenants",
        origin: origin.clone(),
        path: path.to_owned(),
        source,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolved(text: &str) -> Result<Option<PipelineSettings>, ConfigError> {
        let relative = |path: &str| Path::new("/etc/menagerie").join(path);
        resolve(Some(toml::from_str(text).unwrap()), &|_| Origin::Default, &relative)
    }

    fn connections(text: &str) -> BTreeMap<String, Connection> {
        let text = format!("tenants = \"tenants.yaml\"\n{text}");
        resolved(&text).unwrap().unwrap().plain_connections()
    }

    #[test]
    fn every_key_is_read() {
        let settings = resolved(
            "tenants = \"t/tenants.yaml\"\n[connections.local]\ndriver = \"git\"\nbaseurl = \"/srv/git/\"\n\
             canonical_hostname = \"git.example.org\"\npoll = \"2s\"\nsubmit = { Approved = 1, Verified = 2 }",
        );
        let settings = settings.unwrap().unwrap();
        assert_eq!(settings.tenants.value, Path::new("/etc/menagerie/t/tenants.yaml"));
        let local = &settings.connections["local"].value;
        assert_eq!((local.baseurl.as_str(), local.host.as_str()), ("/srv/git", "git.example.org"));
        assert_eq!(local.poll, Duration::from_secs(2));
        assert_eq!(local.submit, BTreeMap::from([("Approved".to_owned(), 1), ("Verified".to_owned(), 2)]));
    }

    #[test]
    fn minimal_section_is_whole() {
        let file: BTreeMap<String, RawPipelines> = toml::from_str(MINIMAL).unwrap();
        let raw = file.into_values().next();
        let settings = resolve(raw, &|_| Origin::Default, &|path| PathBuf::from(path)).unwrap().unwrap();
        let local = &settings.connections["local"].value;
        assert_eq!((local.poll, local.host.as_str()), (POLL, "localhost"));
        assert_eq!(local.submit, BTreeMap::from([("Approved".to_owned(), 1)]));
    }

    #[test]
    fn host_is_that_of_the_url() {
        for (baseurl, url, host) in [
            ("repos", "/etc/menagerie/repos", "localhost"),
            ("./repos/", "/etc/menagerie/repos", "localhost"),
            (
                "https://user:pw@Git.example.org:8443/x",
                "https://user:pw@Git.example.org:8443/x",
                "git.example.org",
            ),
            ("ssh://git@[::1]:22/x", "ssh://git@[::1]:22/x", "::1"),
            ("git@code.example.org:repos", "git@code.example.org:repos", "code.example.org"),
            ("file:///srv/git", "file:///srv/git", "localhost"),
        ] {
            let found = connections(&format!("[connections.c]\ndriver = \"git\"\nbaseurl = \"{baseurl}\""));
            let found = &found["c"];
            assert_eq!((found.baseurl.as_str(), found.host.as_str()), (url, host), "{baseurl}");
        }
    }

    #[test]
    fn what_makes_no_sense_is_refused_with_its_key() {
        let one = |name: &str, keys: &str| format!("tenants = \"t\"\n[connections.{name}]\n{keys}");
        let good = "driver = \"git\"\nbaseurl = \"/srv/git\"\n";
        for (text, word) in [
            ("tenants = \"t\"\nconnections = {}".to_owned(), "no connection"),
            (one("\"a b\"", good), "no name of a connection"),
            (one("\"../x\"", good), "no name of a connection"),
            (one("a", "driver = \"gerrit\"\nbaseurl = \"/srv\""), "no driver"),
            (one("a", "driver = \"git\"\nbaseurl = \"ext::sh\""), "baseurl"),
            (one("a", "driver = \"git\"\nbaseurl = \"ftp://x/y\""), "ftp"),
            (one("a", "driver = \"git\"\nbaseurl = \"\""), "neither"),
            (one("a", &format!("{good}poll = \"soon\"")), "poll"),
            (one("a", &format!("{good}poll = 0")), "between 100ms and 1h"),
            (one("a", &format!("{good}canonical_hostname = \"a/b\"")), "no name of a host"),
            (one("a", &format!("{good}submit = {{ \"a b\" = 1 }}")), "no label"),
        ] {
            match resolved(&text) {
                Err(error) => {
                    assert!(error.to_string().contains(word) && !error.help().is_empty(), "{error}")
                }
                Ok(found) => panic!("{text} is taken: {found:?}"),
            }
        }
    }

    #[test]
    fn passwords_in_urls_are_not_shown() {
        assert_eq!(shown_url("https://me:hush@git.example.org/x@y"), "https://git.example.org/x@y");
        assert_eq!(shown_url("/srv/git"), "/srv/git");
    }
}
