//! Commits and changes: names that come from repositories and from users, validated once.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Branches of proposals begin with this.
const PROPOSE: &str = "propose/";

/// The name of a commit: 40 or 64 hexadecimal digits.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(inline, extend("pattern" = "^([0-9a-f]{40}|[0-9a-f]{64})$"))]
pub struct Sha(String);

/// The text names no commit.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{0:?} is no commit: it has 40 or 64 hexadecimal digits")]
pub struct ShaError(String);

impl Sha {
    /// Validates a name.
    pub fn new(text: impl Into<String>) -> Result<Self, ShaError> {
        let text = text.into();
        let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
        if matches!(text.len(), 40 | 64) && text.bytes().all(is_digit) {
            Ok(Self(text))
        } else {
            Err(ShaError(text))
        }
    }

    /// What git calls a ref that does not exist.
    pub fn zero() -> Self {
        Self("0".repeat(40))
    }

    /// Whether it stands for a ref that does not exist.
    pub fn is_zero(&self) -> bool {
        self.0.bytes().all(|byte| byte == b'0')
    }

    /// As text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The first digits, for people.
    pub fn short(&self) -> &str {
        &self.0[..10]
    }
}

impl fmt::Display for Sha {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for Sha {
    type Err = ShaError;

    fn from_str(text: &str) -> Result<Self, ShaError> {
        Self::new(text)
    }
}

impl TryFrom<String> for Sha {
    type Error = ShaError;

    fn try_from(text: String) -> Result<Self, ShaError> {
        Self::new(text)
    }
}

impl From<Sha> for String {
    fn from(sha: Sha) -> Self {
        sha.0
    }
}

/// A proposed change: the branch `propose/TARGET/TOPIC` of a project. Written `PROJECT:propose/TARGET/TOPIC`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Change {
    /// The project, by its name in the tenant.
    pub project: String,
    /// The branch that it is to be merged into.
    pub target: String,
    /// What tells it from others for the same branch.
    pub topic: String,
}

/// Why a text names no change.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{text:?} is no change: {why}")]
pub struct ChangeError {
    /// The text.
    pub text: String,
    /// What is wrong with it.
    pub why: String,
}

impl Change {
    /// Splits `PROJECT:propose/TARGET/TOPIC`. Slashes alone do not tell where TARGET ends: it is the longest prefix that is
    /// a branch.
    pub fn parse(text: &str, is_branch: impl Fn(&str, &str) -> bool) -> Result<Self, ChangeError> {
        let error = |why: &str| ChangeError { text: text.to_owned(), why: why.to_owned() };
        let (project, branch) =
            text.split_once(':').ok_or_else(|| error("it has the form PROJECT:propose/TARGET/TOPIC"))?;
        if !branch.starts_with(PROPOSE) {
            return Err(error("behind the project stands propose/TARGET/TOPIC"));
        }
        if !is_ref_name(branch) {
            return Err(error("git takes no such name for a branch"));
        }
        Self::of_branch(project, branch, |target| is_branch(project, target))
            .ok_or_else(|| error("no branch of the project is the TARGET in it"))
    }

    /// The change whose branch this is, if it is one: TARGET is the longest prefix that is a branch.
    pub fn of_branch(project: &str, branch: &str, is_branch: impl Fn(&str) -> bool) -> Option<Self> {
        let rest = branch.strip_prefix(PROPOSE)?;
        let splits = rest.rmatch_indices('/').map(|(at, _)| (&rest[..at], &rest[at + 1..]));
        let (target, topic) =
            splits.into_iter().find(|(target, topic)| !topic.is_empty() && is_branch(target))?;
        Some(Self { project: project.to_owned(), target: target.to_owned(), topic: topic.to_owned() })
    }

    /// Its branch.
    pub fn branch(&self) -> String {
        format!("{PROPOSE}{}/{}", self.target, self.topic)
    }

    /// The ref of its branch.
    pub fn proposal_ref(&self) -> String {
        format!("refs/heads/{}", self.branch())
    }

    /// The ref that a merge of it leaves.
    pub fn merged_ref(&self) -> String {
        format!("refs/menagerie/merged/{}/{}", self.target, self.topic)
    }

    /// The ref of the branch that it is to be merged into.
    pub fn target_ref(&self) -> String {
        format!("refs/heads/{}", self.target)
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.project, self.branch())
    }
}

/// Whether git takes this as the name of a branch: the rules of `git check-ref-format`.
pub fn is_ref_name(name: &str) -> bool {
    let is_bad = |c: char| c.is_ascii_control() || " ~^:?*[\\".contains(c);
    let is_component = |part: &str| !part.is_empty() && !part.starts_with('.') && !part.ends_with(".lock");
    !name.is_empty()
        && name != "@"
        && name.split('/').all(is_component)
        && !name.contains("..")
        && !name.contains("@{")
        && !name.starts_with('-')
        && !name.ends_with('.')
        && !name.contains(is_bad)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn target_is_the_longest_prefix_that_is_a_branch() {
        let is_branch = |_: &str, name: &str| matches!(name, "main" | "stable" | "stable/2");
        let change = Change::parse("org/app:propose/stable/2/fix/typo", is_branch).unwrap();
        assert_eq!((change.target.as_str(), change.topic.as_str()), ("stable/2", "fix/typo"));
        assert_eq!(change.to_string(), "org/app:propose/stable/2/fix/typo");
        assert_eq!(change.merged_ref(), "refs/menagerie/merged/stable/2/fix/typo");
        let change = Change::parse("org/app:propose/stable/x", is_branch).unwrap();
        assert_eq!((change.target.as_str(), change.topic.as_str()), ("stable", "x"));
    }

    #[test]
    fn what_is_no_change_is_refused_with_a_reason() {
        for text in [
            "org/app",
            "org/app:main",
            "org/app:propose/main/a/../b",
            "org/app:propose/other/x",
            "a:propose/main",
        ] {
            assert!(Change::parse(text, |_, name| name == "main").is_err(), "{text}");
        }
    }

    #[test]
    fn names_of_branches_follow_the_rules_of_git() {
        for name in ["main", "stable/2.0", "propose/main/a-b_c"] {
            assert!(is_ref_name(name), "{name}");
        }
        for name in [
            "", "a..b", "a/../b", "-x", "a//b", "a/", "a.lock", "a b", "a~1", ".a", "a/.b", "@", "a@{b", "a.",
        ] {
            assert!(!is_ref_name(name), "{name}");
        }
    }

    #[test]
    fn commits_have_hexadecimal_names() {
        assert!(Sha::new("a".repeat(40)).is_ok());
        assert!(Sha::new("A".repeat(40)).is_err() && Sha::new("abc").is_err());
        assert!(Sha::zero().is_zero());
    }
}
