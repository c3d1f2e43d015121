//! Resolves settings: flag, then environment, then file, then default.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use toml::Spanned;

use super::file::{FileText, Raw, RawZooKeeper};
use super::servers::{Servers, path};
use super::{Auth, Chosen, ConfigError, Origin, Secret, Settings};
use crate::durations;

const NAMESPACE: &str = "/menagerie";

/// A shorter session expires at every hiccup; a longer one blocks a dead host's work for too long.
const SESSION_TIMEOUT: std::ops::RangeInclusive<Duration> =
    Duration::from_secs(1)..=Duration::from_secs(3600);

/// Everything that settings depend on.
#[derive(Debug, Default)]
pub struct Inputs {
    /// `--zookeeper`
    pub zookeeper: Option<String>,
    /// `--namespace`
    pub namespace: Option<String>,
    pub environment: BTreeMap<String, String>,
    /// The configuration file, and what named it: a flag, a variable, or neither.
    pub file: Option<(FileText, Origin)>,
    /// The keeper on this machine, and the file that names it.
    pub local: Option<(String, PathBuf)>,
}

/// Looks a key up in one source after the other.
struct Lookup<'a> {
    inputs: &'a Inputs,
    file: Option<&'a FileText>,
}

impl<'a> Lookup<'a> {
    /// A text as given.
    fn text(
        &self,
        flag: Option<(&'static str, &'a Option<String>)>,
        variable: &'static str,
        in_file: Option<&Spanned<String>>,
    ) -> Option<Chosen<String>> {
        if let Some((flag, Some(value))) = flag {
            return Some(Chosen { value: value.clone(), origin: Origin::Flag(flag) });
        }
        // An empty variable counts as not set.
        if let Some(value) = self.inputs.environment.get(variable).filter(|value| !value.is_empty()) {
            return Some(Chosen { value: value.clone(), origin: Origin::Environment(variable) });
        }
        in_file.map(|spanned| Chosen { value: spanned.get_ref().clone(), origin: self.origin(spanned) })
    }

    /// A path; one in the file is relative to the file's folder.
    fn path(&self, variable: &'static str, in_file: Option<&Spanned<String>>) -> Option<Chosen<PathBuf>> {
        let Chosen { value, origin } = self.text(None, variable, in_file)?;
        let value = match (&origin, self.file) {
            (Origin::File { .. }, Some(file)) => file.relative(&value),
            _ => PathBuf::from(value),
        };
        Some(Chosen { value, origin })
    }

    /// A path in the file, from the file's folder.
    fn relative(&self, path: &str) -> PathBuf {
        self.file.map_or_else(|| PathBuf::from(path), |file| file.relative(path))
    }

    fn origin<T>(&self, spanned: &Spanned<T>) -> Origin {
        self.origin_at(spanned.span().start)
    }

    /// The origin of a byte offset in the file.
    fn origin_at(&self, at: usize) -> Origin {
        match self.file {
            Some(file) => Origin::File { path: file.path.clone(), line: file.line(at) },
            None => Origin::Default,
        }
    }
}

pub fn resolve(inputs: &Inputs) -> Result<Settings, ConfigError> {
    let file = inputs.file.as_ref().map(|(file, _)| file);
    let Raw { zookeeper: raw, journal, worker, applications, pipelines } =
        file.map(FileText::parse).transpose()?.unwrap_or_default();
    let lookup = Lookup { inputs, file };
    let settings = Settings {
        file: inputs
            .file
            .as_ref()
            .map(|(file, origin)| Chosen { value: file.path.clone(), origin: origin.clone() }),
        servers: servers(&lookup, &raw)?,
        namespace: namespace(&lookup, &raw)?,
        session_timeout: session_timeout(&lookup, &raw)?,
        auth: auth(&lookup, &raw)?,
        tls_ca: lookup.path("MENAGERIE_ZOOKEEPER_TLS_CA", raw.tls.ca.as_ref()),
        tls_cert: lookup.path("MENAGERIE_ZOOKEEPER_TLS_CERT", raw.tls.cert.as_ref()),
        tls_key: lookup.path("MENAGERIE_ZOOKEEPER_TLS_KEY", raw.tls.key.as_ref()),
        journal_token_file: lookup.path("MENAGERIE_JOURNAL_TOKEN_FILE", journal.token_file.as_ref()),
        journal_ca: lookup.path("MENAGERIE_JOURNAL_CA", journal.ca.as_ref()),
        worker: super::worker::resolve(worker, &|at| lookup.origin_at(at))?,
        applications: super::applications::resolve(applications, &|at| lookup.origin_at(at))?,
        pipelines: super::pipelines::resolve(pipelines, &|at| lookup.origin_at(at), &|path| {
            lookup.relative(path)
        })?,
    };
    tls_is_whole(&settings)?;
    Ok(settings)
}

fn servers(lookup: &Lookup<'_>, raw: &RawZooKeeper) -> Result<Chosen<Servers>, ConfigError> {
    let flag = Some(("--zookeeper", &lookup.inputs.zookeeper));
    let given = lookup.text(flag, "MENAGERIE_ZOOKEEPER", raw.servers.as_ref());
    let given = given.or_else(|| {
        let (value, path) = lookup.inputs.local.clone()?;
        Some(Chosen { value, origin: Origin::Addresses(path) })
    });
    let Some(Chosen { value, origin }) = given else {
        return Ok(Chosen { value: Servers::local(), origin: Origin::Default });
    };
    match Servers::parse(&value) {
        Ok(value) => Ok(Chosen { value, origin }),
        Err(why) => Err(ConfigError::Value {
            key: "zookeeper.servers",
            origin,
            why,
            help: "list the servers as HOST:PORT,HOST:PORT, optionally with a chroot after them: a:2181,b:2181/prod",
        }),
    }
}

fn namespace(lookup: &Lookup<'_>, raw: &RawZooKeeper) -> Result<Chosen<String>, ConfigError> {
    let flag = Some(("--namespace", &lookup.inputs.namespace));
    let given = lookup.text(flag, "MENAGERIE_NAMESPACE", raw.namespace.as_ref());
    let chosen = given.unwrap_or(Chosen { value: NAMESPACE.to_owned(), origin: Origin::Default });
    match path(&chosen.value) {
        Ok(()) => Ok(chosen),
        Err(why) => Err(ConfigError::Value {
            key: "zookeeper.namespace",
            origin: chosen.origin,
            why,
            help: "name a path such as /menagerie",
        }),
    }
}

fn session_timeout(lookup: &Lookup<'_>, raw: &RawZooKeeper) -> Result<Chosen<Duration>, ConfigError> {
    let in_file = raw
        .session_timeout
        .as_ref()
        .map(|spanned| Chosen { value: spanned.get_ref().0.clone(), origin: lookup.origin(spanned) });
    let given = lookup.text(None, "MENAGERIE_SESSION_TIMEOUT", None).or(in_file);
    let Some(Chosen { value, origin }) = given else {
        return Ok(Chosen { value: menagerie_kernel::session::TIMEOUT, origin: Origin::Default });
    };
    let parsed = durations::parse(&value).and_then(|timeout| {
        if SESSION_TIMEOUT.contains(&timeout) { Ok(timeout) } else { Err(format!("{value} is out of range")) }
    });
    match parsed {
        Ok(value) => Ok(Chosen { value, origin }),
        Err(why) => Err(ConfigError::Value {
            key: "zookeeper.session_timeout",
            origin,
            why,
            help: "choose between 1s and 1h; the server may grant less",
        }),
    }
}

fn auth(lookup: &Lookup<'_>, raw: &RawZooKeeper) -> Result<Option<Chosen<Auth>>, ConfigError> {
    if let (Some(_), Some(second)) = (&raw.auth, &raw.auth_file) {
        return Err(ConfigError::Value {
            key: "zookeeper.auth_file",
            origin: lookup.origin(second),
            why: "auth and auth_file are both set".to_owned(),
            help: "keep one of them",
        });
    }
    // Both variables take precedence over the file, whichever of the two keys it has.
    let inline = |in_file| {
        let found = lookup.text(None, "MENAGERIE_ZOOKEEPER_AUTH", in_file)?;
        Some(Chosen { value: Auth::Digest(Secret(found.value)), origin: found.origin })
    };
    let filed = |in_file| {
        let found = lookup.path("MENAGERIE_ZOOKEEPER_AUTH_FILE", in_file)?;
        Some(Chosen { value: Auth::File(found.value), origin: found.origin })
    };
    let chosen = inline(None)
        .or_else(|| filed(None))
        .or_else(|| inline(raw.auth.as_ref()))
        .or_else(|| filed(raw.auth_file.as_ref()));
    match chosen {
        Some(Chosen { value: Auth::Digest(secret), origin }) if !is_digest(&secret.0) => {
            Err(ConfigError::Value {
                key: "zookeeper.auth",
                origin,
                why: "it is not USER:PASSWORD".to_owned(),
                help: "write user and password with a colon between them, or name a file that holds them: auth_file",
            })
        }
        chosen => Ok(chosen),
    }
}

/// Whether this is `user:password`.
pub fn is_digest(text: &str) -> bool {
    text.split_once(':').is_some_and(|(user, password)| !user.is_empty() && !password.is_empty())
}

/// A certificate needs its key, and both need an authority, or nothing would be encrypted.
fn tls_is_whole(settings: &Settings) -> Result<(), ConfigError> {
    let bad = |key, chosen: &Chosen<PathBuf>, why: &str| {
        Err(ConfigError::Value {
            key,
            origin: chosen.origin.clone(),
            why: why.to_owned(),
            help: "set zookeeper.tls.ca for TLS, and both cert and key for mutual TLS",
        })
    };
    match (&settings.tls_ca, &settings.tls_cert, &settings.tls_key) {
        (_, Some(cert), None) => bad("zookeeper.tls.cert", cert, "zookeeper.tls.key is missing"),
        (_, None, Some(key)) => bad("zookeeper.tls.key", key, "zookeeper.tls.cert is missing"),
        (None, Some(cert), Some(_)) => bad("zookeeper.tls.cert", cert, "zookeeper.tls.ca is missing"),
        (Some(_), Some(_), Some(_)) | (_, None, None) => Ok(()),
    }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
