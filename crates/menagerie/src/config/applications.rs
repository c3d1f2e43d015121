//! `[applications.NAME]`: which applications may use queues over HTTP, with which keys.

use std::collections::BTreeMap;

use menagerie_queue_http::keyring::Application;
use menagerie_queue_http::keys::{Hash, KEY_CHARS_MIN};
use menagerie_znodes::queues::{QueueName, Scope};
use serde::Deserialize;
use toml::Spanned;

use super::{Chosen, ConfigError, Origin};

/// As written in the file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RawApplication {
    keys: Spanned<Vec<String>>,
    scopes: Option<Spanned<Vec<String>>>,
    rate_limit: Option<Spanned<u32>>,
}

impl std::fmt::Debug for RawApplication {
    /// Leaves out the keys.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RawApplication").field("scopes", &self.scopes).finish_non_exhaustive()
    }
}

/// A validated application; it holds only the hashes of keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApplicationSettings {
    pub name: String,
    pub application: Application,
}

/// Validates the applications.
pub fn resolve(
    raw: BTreeMap<String, RawApplication>,
    origin: &dyn Fn(usize) -> Origin,
) -> Result<Vec<Chosen<ApplicationSettings>>, ConfigError> {
    raw.into_iter().map(|(name, raw)| one(name, raw, origin)).collect()
}

fn one(
    name: String,
    raw: RawApplication,
    origin: &dyn Fn(usize) -> Origin,
) -> Result<Chosen<ApplicationSettings>, ConfigError> {
    let bad = |key, at, why| {
        let help = "docs/config.md lists every key; `menagerie queue key add` generates a good one";
        ConfigError::Value { key, origin: origin(at), why, help }
    };
    let at = raw.keys.span().start;
    // An application's name must be usable in a queue's name.
    if let Err(error) = QueueName::new(&name, "queue") {
        let why = error.to_string().replace("a queue's name", "an application's name");
        return Err(bad("applications", at, why));
    }
    let keys = raw.keys.into_inner();
    if keys.iter().any(|key| key.chars().count() < KEY_CHARS_MIN || key.contains([';', ' '])) {
        let why = format!("a key has at least {KEY_CHARS_MIN} characters, and no blank or `;` among them");
        return Err(bad("applications.NAME.keys", at, why));
    }
    let scopes = match raw.scopes {
        None => None,
        Some(scopes) => {
            let at = scopes.span().start;
            let parsed: Result<Vec<Scope>, String> =
                scopes.into_inner().iter().map(|scope| scope.parse()).collect();
            Some(parsed.map_err(|why| bad("applications.NAME.scopes", at, why))?)
        }
    };
    let rate_limit = match raw.rate_limit {
        Some(rate) if *rate.get_ref() == 0 => {
            let why = "it is at least 1 request a second".to_owned();
            return Err(bad("applications.NAME.rate_limit", rate.span().start, why));
        }
        rate => rate.map(Spanned::into_inner),
    };
    let keys = keys.iter().map(|key| Hash::of(key)).collect();
    let application = Application { keys, scopes, rate_limit };
    Ok(Chosen { value: ApplicationSettings { name, application }, origin: origin(at) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn resolved(text: &str) -> Result<Vec<Chosen<ApplicationSettings>>, ConfigError> {
        resolve(toml::from_str(text).unwrap(), &|_| Origin::Default)
    }

    #[test]
    fn keys_are_kept_as_hashes() {
        let text = "[notes]\nkeys = [\"0123456789abcdef\"]\nscopes = [\"read\"]\nrate_limit = 5";
        let found = resolved(text).unwrap();
        assert_eq!(found[0].value.name, "notes");
        assert_eq!(found[0].value.application.keys, [Hash::of("0123456789abcdef")]);
        assert_eq!(found[0].value.application.scopes, Some(vec![Scope::Read]));
        assert_eq!(found[0].value.application.rate_limit, Some(5));
        assert!(!format!("{found:?}").contains("0123456789abcdef"));
    }

    #[test]
    fn what_makes_no_sense_is_refused_without_telling_keys() {
        for text in [
            "[notes]\nkeys = [\"short\"]",
            "[notes]\nkeys = [\"0123456789abcde;\"]",
            "[\"a/b\"]\nkeys = []",
            "[notes]\nkeys = []\nscopes = [\"all\"]",
            "[notes]\nkeys = []\nrate_limit = 0",
        ] {
            let error = resolved(text).unwrap_err().to_string();
            assert!(!error.contains("short") && !error.contains("0123"), "{error}");
        }
    }
}
