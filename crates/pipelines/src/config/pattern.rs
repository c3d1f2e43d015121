//! Regular expressions of the configuration, with Python's habits: a match begins where the text begins.

use regex::{Regex, RegexBuilder};

use super::fields::{self, Fields};
use super::problem::Fault;
use super::yaml::{Node, Value};

/// Largest compiled expression, in bytes; untrusted projects may write them.
const COMPILED_BYTES_MAX: usize = 1 << 20;

/// A regular expression, perhaps negated.
#[derive(Debug, Clone)]
pub(super) struct Pattern {
    /// Finds a match anywhere.
    anywhere: Regex,
    /// Finds a match that begins at the start of the text.
    at_start: Regex,
    /// What must not match at the start: `X` of `^(?!X)...`.
    excluded: Option<Regex>,
    is_negated: bool,
}

impl Pattern {
    /// Reads `regex` or `{regex: ..., negate: true}`.
    pub fn read(what: &str, node: &Node) -> Result<Self, Fault> {
        let Value::Map(_) = &node.value else {
            return Self::new(what, &fields::text(what, node)?, node.line);
        };
        let mut fields = Fields::new(what, node)?;
        let Some(regex) = fields.text("regex")? else {
            return Err(Fault::at(node.line, format!("{what} has no `regex`"), "add `regex: ...`"));
        };
        let is_negated = fields.boolean("negate")?.unwrap_or(false);
        fields.finish(&[])?;
        Ok(Self { is_negated, ..Self::new(what, &regex, node.line)? })
    }

    /// Compiles an expression that is not negated.
    pub fn new(what: &str, regex: &str, line: u32) -> Result<Self, Fault> {
        let compile = |regex: &str| RegexBuilder::new(regex).size_limit(COMPILED_BYTES_MAX).build();
        // The expression without the anchor comes first, so that errors quote what the user wrote.
        let build = || {
            let (excluded, rest) = match split_exclusion(regex) {
                Some((excluded, rest)) => (Some(excluded), format!("^{rest}")),
                None => (None, regex.to_owned()),
            };
            Ok(Self {
                anywhere: compile(&rest)?,
                at_start: compile(&format!(r"\A(?:{rest})"))?,
                excluded: match excluded {
                    Some(excluded) => {
                        compile(excluded)?;
                        Some(compile(&format!(r"\A(?:{excluded})"))?)
                    }
                    None => None,
                },
                is_negated: false,
            })
        };
        build().map_err(|error: regex::Error| {
            let reason = error.to_string();
            let reason = reason.lines().last().unwrap_or_default().trim_start_matches("error: ");
            let message = format!("{what} has the invalid regular expression `{regex}`: {reason}");
            let help = "back-references and look-around other than a leading `^(?!...)` do not exist here; \
                            write `{regex: ..., negate: true}` for what must not match";
            Fault::at(line, message, help)
        })
    }

    /// Whether it matches at the start of the text.
    pub fn matches(&self, text: &str) -> bool {
        self.matches_any(&[text])
    }

    /// Whether it matches at the start of one of the texts; negated: of none.
    pub fn matches_any(&self, texts: &[&str]) -> bool {
        texts.iter().any(|text| self.at_start.is_match(text) && !self.is_excluded(text)) != self.is_negated
    }

    /// Whether it matches anywhere in the text.
    pub fn is_found_in(&self, text: &str) -> bool {
        (self.anywhere.is_match(text) && !self.is_excluded(text)) != self.is_negated
    }

    /// Whether it says what must not match: `^(?!X)...`.
    pub fn excludes(&self) -> bool {
        self.excluded.is_some()
    }

    fn is_excluded(&self, text: &str) -> bool {
        self.excluded.as_ref().is_some_and(|excluded| excluded.is_match(text))
    }
}

/// Splits `^(?!X)REST` into `X` and `REST`. Zuul's own examples use this one form of look-ahead (`^(?!refs/).*$` in post
/// pipelines), which the crate `regex` does not have; at the start of a text it is the same as two expressions. An
/// alternative in `REST` would not be covered by the look-ahead, so it is not split.
fn split_exclusion(regex: &str) -> Option<(&str, &str)> {
    let inner = regex.strip_prefix("^(?!")?;
    let mut end = None;
    let (mut depth, mut is_escaped, mut is_in_class) = (1_i32, false, false);
    for (index, c) in inner.char_indices() {
        match c {
            _ if is_escaped => is_escaped = false,
            '\\' => is_escaped = true,
            ']' => is_in_class = false,
            '[' => is_in_class = true,
            _ if is_in_class => {}
            '(' => depth += 1,
            ')' => depth -= 1,
            '|' if depth == 0 => return None,
            _ => {}
        }
        if depth == 0 && end.is_none() {
            end = Some(index);
        }
    }
    let end = end?;
    Some((&inner[..end], &inner[end + 1..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leading_exclusion_is_understood() {
        let cases = [
            ("^(?!refs/).*$", "main", true),
            ("^(?!refs/).*$", "refs/tags/1", false),
            ("^(?!(stable|old)/)[a-z/]+$", "old/x", false),
            ("^(?!(stable|old)/)[a-z/]+$", "new/x", true),
            ("^(?!a[)]b)a", "a)b", false),
            ("^(?!a[)]b)a", "a)c", true),
            ("main", "maintenance", true),
            ("main", "not-main", false),
            ("a|b", "b", true),
        ];
        for (regex, text, expected) in cases {
            assert_eq!(Pattern::new("x", regex, 1).unwrap().matches(text), expected, "{regex} {text}");
        }
        for regex in ["^(?!a)b|c", "(?!a)b", "^(?!a", "^(?!a)(?!b)c", "(?<=a)b", "a)(b"] {
            assert!(Pattern::new("x", regex, 1).is_err(), "{regex}");
        }
    }
}
