//! The configuration file: TOML as written.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;
use serde::de::{Deserializer, Error as _, Visitor};
use toml::Spanned;

use super::ConfigError;
use super::applications::RawApplication;
use super::pipelines::RawPipelines;
use super::worker::RawWorker;

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Raw {
    /// `[zookeeper]`
    #[serde(default)]
    pub zookeeper: RawZooKeeper,
    /// `[journal]`
    #[serde(default)]
    pub journal: RawJournal,
    /// `[worker]`
    #[serde(default)]
    pub worker: RawWorker,
    /// `[applications.NAME]`
    #[serde(default)]
    pub applications: BTreeMap<String, RawApplication>,
    /// `[pipelines]`
    pub pipelines: Option<RawPipelines>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RawZooKeeper {
    pub servers: Option<Spanned<String>>,
    pub namespace: Option<Spanned<String>>,
    pub session_timeout: Option<Spanned<RawDuration>>,
    pub auth: Option<Spanned<String>>,
    pub auth_file: Option<Spanned<String>>,
    #[serde(default)]
    pub tls: RawTls,
}

/// `[zookeeper.tls]`
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RawTls {
    pub ca: Option<Spanned<String>>,
    pub cert: Option<Spanned<String>>,
    pub key: Option<Spanned<String>>,
}

/// Tokens and certificates of journals.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RawJournal {
    pub token_file: Option<Spanned<String>>,
    pub ca: Option<Spanned<String>>,
}

/// A duration, still as text; a bare number is seconds.
#[derive(Debug)]
pub struct RawDuration(pub String);

impl<'de> Deserialize<'de> for RawDuration {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct TextOrNumber;
        impl Visitor<'_> for TextOrNumber {
            type Value = RawDuration;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("seconds, or a text such as \"90s\", \"5m\", \"2h\", \"3d\"")
            }

            fn visit_str<E: serde::de::Error>(self, text: &str) -> Result<RawDuration, E> {
                Ok(RawDuration(text.to_owned()))
            }

            fn visit_i64<E: serde::de::Error>(self, seconds: i64) -> Result<RawDuration, E> {
                match u64::try_from(seconds) {
                    Ok(seconds) => Ok(RawDuration(seconds.to_string())),
                    Err(_) => Err(E::custom("a duration is not negative")),
                }
            }
        }
        deserializer.deserialize_any(TextOrNumber).map_err(D::Error::custom)
    }
}

/// A file's name and text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileText {
    pub path: PathBuf,
    pub text: String,
}

impl FileText {
    pub fn parse(&self) -> Result<Raw, ConfigError> {
        toml::from_str(&self.text).map_err(|error| ConfigError::File {
            path: self.path.clone(),
            line: error.span().map_or(1, |span| self.line(span.start)),
            // Without the excerpt that toml adds: it may show a secret.
            why: without_values(&error.message().replace('\n', " ")),
        })
    }

    /// The line number of a byte offset, from 1.
    pub fn line(&self, at: usize) -> usize {
        let before = self.text.get(..at).unwrap_or(&self.text);
        before.matches('\n').count() + 1
    }

    /// Resolves a path relative to the file's folder.
    pub fn relative(&self, path: &str) -> PathBuf {
        self.path.parent().unwrap_or(Path::new("")).join(path)
    }
}

/// Replaces our type names for tables, which mean nothing to users.
fn a_table(expected: &str) -> String {
    let names = [
        "struct RawZooKeeper",
        "struct RawJournal",
        "struct RawWorker",
        "struct RawApplication",
        "struct RawPipelines",
        "struct RawConnection",
    ];
    names.iter().fold(expected.to_owned(), |text, name| text.replace(name, "a table"))
}

/// The error without the offending value: it may be an unquoted secret.
fn without_values(message: &str) -> String {
    match (message.starts_with("invalid "), message.split_once(", expected ")) {
        (true, Some((found, expected))) => {
            let kind = found.split('`').next().unwrap_or(found).trim_end();
            format!("{kind}, expected {}", a_table(expected))
        }
        _ => message.to_owned(),
    }
}
