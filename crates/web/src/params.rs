//! What a request asks for: the variable parts of its path, and its query.

use std::collections::BTreeMap;
use std::str::FromStr;

use percent_encoding::percent_decode_str;

use crate::problem::Problem;

/// Entries of a page of a list, unless the request says otherwise.
pub const LIMIT: usize = 100;
/// Most entries of a page.
pub const LIMIT_MAX: usize = 1_000;

/// A parameter of a query.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Param {
    /// Its name.
    pub name: &'static str,
    /// What it is for.
    pub about: &'static str,
    /// What is valid.
    pub kind: ParamKind,
}

/// What a parameter can be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ParamKind {
    /// Any text.
    Text,
    /// A whole number, from 1 to this.
    Number(u32),
    /// A number of bytes, from 0.
    Offset,
}

/// `cursor`: where a page begins.
pub const CURSOR: Param =
    Param { name: "cursor", about: "`next` of the page before.", kind: ParamKind::Text };
/// `limit`: how long it is.
pub const LIMIT_PARAM: Param =
    Param { name: "limit", about: "Entries of a page.", kind: ParamKind::Number(LIMIT_MAX as u32) };
/// `q`: a filter by name.
pub const FILTER: Param = Param {
    name: "q",
    about: "Only what has this in its name, whatever the case of the letters.",
    kind: ParamKind::Text,
};

/// The parameters of a request, decoded. All that are present are known to its route.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Params {
    path: BTreeMap<&'static str, String>,
    query: BTreeMap<String, String>,
}

impl Params {
    /// Matches a path against a pattern such as `/slots/{pool}`; `None` if it is another one.
    pub fn of_path(pattern: &'static str, path: &str) -> Option<Self> {
        let (mut patterns, mut parts) = (pattern.split('/'), path.split('/'));
        let mut found = Self::default();
        loop {
            match (patterns.next(), parts.next()) {
                (None, None) => return Some(found),
                (Some(pattern), Some(part)) => {
                    let name = pattern.strip_prefix('{').and_then(|rest| rest.strip_suffix('}'));
                    match name {
                        Some(name) if !part.is_empty() => {
                            let text = percent_decode_str(part).decode_utf8().ok()?;
                            found.path.insert(name, text.into_owned());
                        }
                        Some(_) => return None,
                        None if pattern == part => {}
                        None => return None,
                    }
                }
                _ => return None,
            }
        }
    }

    /// Adds the query; refuses what the route does not know, and what is given twice.
    pub fn with_query(mut self, query: &str, known: &[Param]) -> Result<Self, Problem> {
        for (name, value) in form_urlencoded::parse(query.as_bytes()) {
            let Some(param) = known.iter().find(|param| param.name == name) else {
                let names: Vec<&str> = known.iter().map(|param| param.name).collect();
                let help = match names.is_empty() {
                    true => "this address takes no parameters".to_owned(),
                    false => format!("this address takes: {}", names.join(", ")),
                };
                return Err(Problem::bad(format!("there is no parameter {name:?}"), help));
            };
            if value.is_empty() {
                continue;
            }
            if let ParamKind::Number(max) = param.kind {
                let valid = value.parse::<u32>().is_ok_and(|number| (1..=max).contains(&number));
                if !valid {
                    let what = format!("{name}={value} is not a number from 1 to {max}");
                    return Err(Problem::bad(what, "correct or leave it out"));
                }
            }
            if param.kind == ParamKind::Offset && value.parse::<u64>().is_err() {
                return Err(Problem::bad(
                    format!("{name}={value} is no number of bytes"),
                    "take `next_offset`",
                ));
            }
            if self.query.insert(name.clone().into_owned(), value.into_owned()).is_some() {
                return Err(Problem::bad(format!("{name} is given twice"), "give it once"));
            }
        }
        Ok(self)
    }

    /// A part of the path, parsed. It cannot be missing: the route has matched.
    pub fn path<T: FromStr<Err: ToString>>(&self, name: &str) -> Result<T, Problem> {
        let text = self.path.get(name).map(String::as_str).unwrap_or_default();
        // An id of the wrong shape names nothing.
        text.parse().map_err(|error: T::Err| {
            Problem::missing(
                format!("{text:?} cannot be a {name}: {}", error.to_string()),
                "check the address",
            )
        })
    }

    /// A parameter of the query.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.query.get(name).map(String::as_str)
    }

    /// A parameter of the query, parsed.
    pub fn query<T: FromStr<Err: ToString>>(&self, name: &str) -> Result<Option<T>, Problem> {
        let parse = |text: &str| {
            text.parse().map_err(|error: T::Err| {
                Problem::bad(format!("{name}={text}: {}", error.to_string()), "correct or leave it out")
            })
        };
        self.text(name).map(parse).transpose()
    }

    /// How many entries a page has.
    pub fn limit(&self) -> usize {
        self.text("limit").and_then(|limit| limit.parse().ok()).unwrap_or(LIMIT)
    }

    /// The same with pages of this many entries.
    #[must_use]
    pub fn with_limit(mut self, limit: usize) -> Self {
        self.query.insert("limit".to_owned(), limit.to_string());
        self
    }

    /// Whether a name is among those that `q` asks for.
    pub fn wants(&self, name: &str) -> bool {
        self.text("q").is_none_or(|wanted| name.to_lowercase().contains(&wanted.to_lowercase()))
    }

    /// The query as it was, for links to further pages.
    pub fn query_with(&self, name: &str, value: &str) -> String {
        let others = self.query.iter().filter(|(other, _)| other.as_str() != name);
        let mut text = form_urlencoded::Serializer::new(String::new());
        text.extend_pairs(others).append_pair(name, value);
        text.finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_of_a_path_are_decoded_once() {
        let found = Params::of_path("/slots/{pool}/history", "/slots/a%2Fb%2525/history").unwrap();
        assert_eq!(found.path::<String>("pool").unwrap(), "a/b%25");
        for other in ["/slots", "/slots//history", "/slots/a", "/slots/a/history/", "/slots/%ff/history"] {
            assert_eq!(Params::of_path("/slots/{pool}/history", other), None, "{other}");
        }
    }

    #[test]
    fn unknown_repeated_and_wrong_parameters_are_refused() {
        let parse = |query: &str| Params::default().with_query(query, &[LIMIT_PARAM, FILTER]);
        assert_eq!(parse("limit=5&q=a%20b").unwrap().text("q"), Some("a b"));
        assert_eq!(parse("limit=&q=").unwrap().limit(), LIMIT);
        for wrong in ["limit=0", "limit=1001", "limit=-1", "limit=x", "x=1", "q=a&q=b"] {
            assert_eq!(parse(wrong).unwrap_err().status, 400, "{wrong}");
        }
    }

    #[test]
    fn links_keep_filters() {
        let params = Params::default().with_query("q=a&cursor=x", &[CURSOR, FILTER]).unwrap();
        assert_eq!(params.query_with("cursor", "y&z"), "q=a&cursor=y%26z");
    }
}
