//! Which of our own environment variables a command must not inherit; it gets the rest.

use std::env;
use std::ffi::{OsStr, OsString};

/// The prefix of all our variables; others are up to the operator.
const OURS: &str = "MENAGERIE_";
/// A variable with one of these words in its name counts as a secret, so that later additions are covered, too.
const SECRET_WORDS: [&str; 6] = ["AUTH", "DIGEST", "KEY", "PASSWORD", "SECRET", "TOKEN"];
/// Variables that only name the file of a secret are no secrets.
const FILE_ENDING: &str = "_FILE";
const NAMES_OF_FILES: [&str; 1] = ["MENAGERIE_ZOOKEEPER_TLS_KEY"];

/// Whether the value of a variable is a secret of ours.
fn is_secret(name: &OsStr) -> bool {
    let Some(name) = name.to_str().filter(|name| name.starts_with(OURS)) else { return false };
    let is_file = name.ends_with(FILE_ENDING) || NAMES_OF_FILES.contains(&name);
    !is_file && name.split('_').any(|word| SECRET_WORDS.contains(&word))
}

/// The variables of this process that hold secrets.
pub(super) fn present() -> impl Iterator<Item = OsString> {
    env::vars_os().map(|(name, _)| name).filter(|name| is_secret(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_are_secrets_and_names_of_files_are_not() {
        for secret in
            ["MENAGERIE_ZOOKEEPER_AUTH", "MENAGERIE_JOURNAL_TOKEN", "MENAGERIE_KEY", "MENAGERIE_A_PASSWORD_B"]
        {
            assert!(is_secret(secret.as_ref()), "{secret}");
        }
        for other in [
            "MENAGERIE_ZOOKEEPER",
            "MENAGERIE_ZOOKEEPER_AUTH_FILE",
            "MENAGERIE_ZOOKEEPER_TLS_KEY",
            "MENAGERIE_JOURNAL_TOKEN_FILE",
            "MENAGERIE_KEEPER_LISTEN",
            "MENAGERIE_FENCE",
            "AWS_SECRET_KEY",
            "",
        ] {
            assert!(!is_secret(other.as_ref()), "{other}");
        }
    }
}
