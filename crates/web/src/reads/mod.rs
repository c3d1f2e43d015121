//! What can be read: one function for each address, the same for REST and for pages.

pub mod audit;
pub mod builds;
pub mod flows;
pub mod installation;
pub mod pipelines;
pub mod queues;
pub mod slots;
pub mod znodes;

use std::time::{SystemTime, UNIX_EPOCH};

use schemars::JsonSchema;
use serde::Serialize;

use crate::params::Params;

/// A page of a list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Listing<T> {
    /// The entries.
    pub items: Vec<T>,
    /// `cursor` of the next page; `null` on the last one.
    pub next: Option<String>,
}

impl<T> Listing<T> {
    /// The page that is asked for, of all entries in the order of their keys.
    pub fn page(all: impl IntoIterator<Item = T>, key: impl Fn(&T) -> String, params: &Params) -> Self {
        let after = params.text("cursor");
        let rest = all.into_iter().filter(|item| after.is_none_or(|after| key(item).as_str() > after));
        Self::cut(rest, &key, params)
    }

    /// The beginning of the entries that are left.
    pub fn cut(rest: impl IntoIterator<Item = T>, key: impl Fn(&T) -> String, params: &Params) -> Self {
        let mut items: Vec<T> = rest.into_iter().take(params.limit() + 1).collect();
        let has_more = items.len() > params.limit();
        items.truncate(params.limit());
        let next = items.last().map(key).filter(|_| has_more);
        Self { items, next }
    }
}

/// Now, in milliseconds since 1970.
pub fn now_ms() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::params::{CURSOR, LIMIT_PARAM};

    #[test]
    fn pages_follow_each_other_and_end() {
        let all = ["a", "b", "c", "d", "e"];
        let page = |query: &str| {
            let params = Params::default().with_query(query, &[CURSOR, LIMIT_PARAM]).unwrap();
            let Listing { items, next } = Listing::page(all, |item| (*item).to_owned(), &params);
            (items.concat(), next)
        };
        assert_eq!(page("limit=2"), ("ab".to_owned(), Some("b".to_owned())));
        assert_eq!(page("limit=2&cursor=b"), ("cd".to_owned(), Some("d".to_owned())));
        assert_eq!(page("limit=2&cursor=d"), ("e".to_owned(), None));
        assert_eq!(page("limit=5"), ("abcde".to_owned(), None));
        assert_eq!(page("cursor=bb&limit=1"), ("c".to_owned(), Some("c".to_owned())));
    }
}
