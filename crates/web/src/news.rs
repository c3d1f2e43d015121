//! When a value is news: ages grow by themselves, and a viewer can count them.

use serde_json::Value;

use crate::live::{Reading, id_of};

/// Fields that hold an age. Beside each stands since when, if it can be known.
const AGES: [&str; 7] = ["age_s", "oldest_ms", "for_ms", "in_ms", "last_end_ms", "told_ms", "ahead_ms"];

/// A value as it is sent, with an id that only changes when more than ages have changed.
pub fn reading(value: &Value) -> Reading {
    Reading { text: value.to_string(), id: id_of(&without_ages(value).to_string()) }
}

fn without_ages(value: &Value) -> Value {
    match value {
        Value::Object(fields) => {
            let kept = fields.iter().filter(|(name, _)| !AGES.contains(&name.as_str()));
            Value::Object(kept.map(|(name, value)| (name.clone(), without_ages(value))).collect())
        }
        Value::Array(items) => Value::Array(items.iter().map(without_ages).collect()),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => value.clone(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_value_that_has_only_grown_older_is_no_news() {
        let at = |age: u64, lag: u64| json!({ "items": [{ "queue": "a", "oldest_ms": age, "lag": lag }] });
        assert_eq!(reading(&at(1, 2)).id, reading(&at(9, 2)).id);
        assert_ne!(reading(&at(1, 2)).id, reading(&at(1, 3)).id);
        assert!(reading(&at(1, 2)).text.contains("oldest_ms"), "it is sent all the same");
    }
}
