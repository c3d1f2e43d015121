//! Forms of pages as the JSON that REST takes.

use serde_json::{Map, Value};

/// The fields of a form as a JSON object. Forms know text alone: the schema says what is a list, a number, or true. Empty
/// fields that are not required are left out.
pub fn to_json(form: &[u8], schema: &Value) -> Value {
    let mut object = Map::new();
    for (name, text) in form_urlencoded::parse(form) {
        let property = &schema["properties"][&*name];
        let text = text.into_owned();
        if is(property, "array") {
            let list = object.entry(name.into_owned()).or_insert_with(|| Value::Array(Vec::new()));
            if let Value::Array(list) = list {
                list.push(text.into());
            }
            continue;
        }
        let is_required =
            schema["required"].as_array().is_some_and(|all| all.iter().any(|one| *one == *name));
        if text.is_empty() && !is_required {
            continue;
        }
        let value = match () {
            () if is(property, "boolean") => matches!(text.as_str(), "true" | "on" | "1").into(),
            // What is no number is refused as what it is.
            () if is(property, "integer") => text.parse::<i64>().map_or(text.into(), Value::from),
            () => text.into(),
        };
        object.insert(name.into_owned(), value);
    }
    object.into()
}

/// Whether a schema allows a type, perhaps beside null.
fn is(schema: &Value, wanted: &str) -> bool {
    match &schema["type"] {
        Value::String(one) => one == wanted,
        Value::Array(several) => several.iter().any(|one| one == wanted),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Object(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use schemars::schema_for;
    use serde_json::json;

    use super::*;
    use crate::acts::queues::{NewBody, Which};

    #[test]
    fn fields_become_what_the_schema_says() {
        let which = schema_for!(Which).to_value();
        assert_eq!(to_json(b"ids=a&ids=b", &which), json!({ "ids": ["a", "b"] }));
        assert_eq!(to_json(b"all=true", &which), json!({ "all": true }));
        let body = schema_for!(NewBody).to_value();
        let form = b"body=&key=&partition=3&delay=5m";
        assert_eq!(to_json(form, &body), json!({ "body": "", "partition": 3, "delay": "5m" }));
        assert_eq!(to_json(b"body=x&partition=y", &body), json!({ "body": "x", "partition": "y" }));
    }
}
