//! All components as they are shown, in any namespace.

use menagerie_znodes::components;
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};

use super::registry::children;
use crate::error::CallError;
use crate::session::Term;
use crate::subtree;

/// A registered component, as far as its payload is readable.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct ComponentView {
    /// Its kind.
    pub kind: String,
    /// The name of its znode.
    pub name: String,
    /// The machine that it runs on.
    pub host: Option<String>,
    /// What it is doing.
    pub state: Option<String>,
    /// The version of its program.
    pub version: Option<String>,
    /// Since when it is listed, in milliseconds since 1970 by the server's clock.
    pub since_ms: i64,
    /// Details that depend on its kind.
    pub details: Map<String, Value>,
}

/// All components of a namespace, by kind and name. It is named as the term's session sees it: `/` if the session is
/// within it.
pub async fn components(term: &Term, namespace: &str) -> Result<Vec<ComponentView>, CallError> {
    let root = subtree::join(namespace, components::root().path().trim_start_matches('/'));
    let mut components = Vec::new();
    for kind in sorted_children(term, &root).await? {
        let folder = subtree::join(&root, &kind);
        for name in sorted_children(term, &folder).await? {
            let (data, stat) = match term.get(&subtree::join(&folder, &name)).await {
                // It has just left.
                Err(CallError::NoZnode { .. }) => continue,
                found => found?,
            };
            components.push(ComponentView::of(kind.clone(), name, &data, stat.ctime_ms));
        }
    }
    Ok(components)
}

impl ComponentView {
    fn of(kind: String, name: String, data: &[u8], since_ms: i64) -> Self {
        let mut payload: Value = serde_json::from_slice(data).unwrap_or_default();
        Self {
            kind,
            name,
            // Zuul calls it hostname.
            host: first_text(&payload, &["host", "hostname"]),
            state: first_text(&payload, &["state"]),
            version: first_text(&payload, &["version"]),
            since_ms,
            details: match payload.get_mut("details").map(Value::take) {
                Some(Value::Object(details)) => details,
                Some(_) | None => Map::new(),
            },
        }
    }
}

async fn sorted_children(term: &Term, path: &str) -> Result<Vec<String>, CallError> {
    let mut names = children(term, path).await?;
    names.sort_unstable();
    Ok(names)
}

fn first_text(payload: &Value, keys: &[&str]) -> Option<String> {
    match keys.iter().find_map(|key| payload.get(key))? {
        Value::String(word) => Some(word.clone()),
        Value::Null => None,
        other => Some(other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use menagerie_testkit::assert_described;

    use super::*;

    #[test]
    fn what_is_readable_is_shown() {
        let of = |data: &str| ComponentView::of("worker".to_owned(), "a1".to_owned(), data.as_bytes(), 7);
        let ours = of(r#"{"host":"a","state":"running","version":"1","pid":7,"details":{"queues":3}}"#);
        assert_eq!((ours.host.as_deref(), ours.details["queues"].as_u64()), (Some("a"), Some(3)));
        let zuul = of(r#"{"hostname":"b","state":null,"version":2,"details":"none"}"#);
        assert_eq!((zuul.host.as_deref(), zuul.state.as_deref()), (Some("b"), None));
        assert_eq!((zuul.version.as_deref(), zuul.details.len()), (Some("2"), 0));
        let unreadable = of("hello");
        assert_eq!((unreadable.host, unreadable.state, unreadable.version), (None, None, None));
        assert_described(&ours);
        assert_described(&zuul);
    }
}
