//! Whether a JSON value is what its JSON Schema says: as much of draft 2020-12 as is generated from our types.

use std::collections::BTreeSet;

use regex::Regex;
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde::Serialize;
use serde_json::{Map, Value};

/// Panics unless the value is serialized as the schemas of its type say: the one for what we write, and the one for what
/// we read.
#[track_caller]
pub fn assert_described<T: JsonSchema + Serialize>(value: &T) {
    let value = serde_json::to_value(value).expect("it can be written as JSON");
    let settings = SchemaSettings::draft2020_12();
    for settings in [settings.clone().for_serialize(), settings.for_deserialize()] {
        assert_fits(settings.into_generator().into_root_schema_for::<T>().as_value(), &value);
    }
}

/// Panics unless the value is as its schema says, and the schema describes every field of it.
#[track_caller]
pub fn assert_fits(schema: &Value, value: &Value) {
    let checker = Checker { root: schema };
    if let Err(wrong) = checker.check_all(schema, value, "") {
        panic!("{wrong}\nvalue: {value:#}\nschema: {schema:#}");
    }
}

struct Checker<'a> {
    root: &'a Value,
}

impl Checker<'_> {
    /// Checks a value, and that the schema describes every field of it; nothing is said about what any object may be.
    fn check_all(&self, schema: &Value, value: &Value, at: &str) -> Result<(), String> {
        self.check(schema, value, at)?;
        let mut described = BTreeSet::new();
        self.describe(schema, &mut described);
        let fields = value.as_object().into_iter().flat_map(Map::keys);
        match fields.into_iter().find(|name| !described.is_empty() && !described.contains(name.as_str())) {
            Some(name) => Err(format!("{at}/{name} is not described")),
            None => Ok(()),
        }
    }

    /// Checks a value by its schema, or by a part of that, which need not describe all its fields.
    fn check(&self, schema: &Value, value: &Value, at: &str) -> Result<(), String> {
        let schema = match schema {
            Value::Bool(true) => return Ok(()),
            Value::Object(schema) => schema,
            other => return Err(format!("{at}: {other} allows nothing")),
        };
        if let Some(target) = self.target(schema) {
            self.check(target, value, at)?;
        }
        self.check_scalar(schema, value, at)?;
        self.check_alternatives(schema, value, at)?;
        match value {
            Value::Object(fields) => self.check_object(schema, fields, at),
            Value::Array(items) => self.check_array(schema, items, at),
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Ok(()),
        }
    }

    /// What `$ref` refers to.
    fn target(&self, schema: &Map<String, Value>) -> Option<&Value> {
        let reference = schema.get("$ref")?.as_str().expect("a $ref is a text");
        let pointer = reference.strip_prefix('#').expect("references stay within the schema");
        Some(self.root.pointer(pointer).unwrap_or_else(|| panic!("there is no {reference}")))
    }

    fn check_scalar(&self, schema: &Map<String, Value>, value: &Value, at: &str) -> Result<(), String> {
        let is_of = |name: &Value| match name.as_str().unwrap_or_default() {
            "integer" => value.is_i64() || value.is_u64(),
            "number" => value.is_number(),
            "string" => value.is_string(),
            "boolean" => value.is_boolean(),
            "null" => value.is_null(),
            "array" => value.is_array(),
            "object" => value.is_object(),
            _ => false,
        };
        let wrong = |what: &str| Err(format!("{at}: {value} is not {what} {}", schema[what]));
        match schema.get("type") {
            Some(Value::Array(names)) if !names.iter().any(is_of) => return wrong("type"),
            Some(name @ Value::String(_)) if !is_of(name) => return wrong("type"),
            Some(_) | None => {}
        }
        if schema.get("const").is_some_and(|expected| expected != value) {
            return wrong("const");
        }
        if schema.get("enum").and_then(Value::as_array).is_some_and(|all| !all.contains(value)) {
            return wrong("enum");
        }
        match (schema.get("pattern").and_then(Value::as_str), value.as_str()) {
            (Some(pattern), Some(text)) if !Regex::new(pattern).expect("a pattern").is_match(text) => {
                wrong("pattern")
            }
            (Some(_) | None, _) => Ok(()),
        }
    }

    fn check_alternatives(&self, schema: &Map<String, Value>, value: &Value, at: &str) -> Result<(), String> {
        let tried = |word: &str| -> Option<Vec<Result<(), String>>> {
            let schemas = schema.get(word)?.as_array()?;
            Some(schemas.iter().map(|schema| self.check(schema, value, at)).collect())
        };
        if let Some(all) = tried("allOf") {
            all.into_iter().collect::<Result<Vec<()>, String>>()?;
        }
        if let Some(any) = tried("anyOf").filter(|any| any.iter().all(Result::is_err)) {
            return Err(format!("{at}: none of anyOf: {any:?}"));
        }
        match tried("oneOf") {
            Some(one) if one.iter().filter(|tried| tried.is_ok()).count() != 1 => {
                Err(format!("{at}: not one of oneOf: {one:?}"))
            }
            Some(_) | None => Ok(()),
        }
    }

    fn check_object(
        &self,
        schema: &Map<String, Value>,
        fields: &Map<String, Value>,
        at: &str,
    ) -> Result<(), String> {
        for required in schema.get("required").and_then(Value::as_array).into_iter().flatten() {
            let required = required.as_str().expect("names are texts");
            if !fields.contains_key(required) {
                return Err(format!("{at}: {required} is missing"));
            }
        }
        for (name, value) in fields {
            let named = schema.get("properties").and_then(|properties| properties.get(name));
            if let Some(schema) = named.or_else(|| schema.get("additionalProperties")) {
                self.check_all(schema, value, &format!("{at}/{name}"))?;
            }
        }
        Ok(())
    }

    /// All fields that the schema or a part of it describes.
    fn describe<'a>(&'a self, schema: &'a Value, described: &mut BTreeSet<&'a str>) {
        let Some(schema) = schema.as_object() else { return };
        let names = schema.get("properties").and_then(Value::as_object).into_iter().flat_map(Map::keys);
        described.extend(names.map(String::as_str));
        let parts = ["allOf", "anyOf", "oneOf"].into_iter().filter_map(|word| schema.get(word)?.as_array());
        parts.flatten().chain(self.target(schema)).for_each(|part| self.describe(part, described));
    }

    fn check_array(&self, schema: &Map<String, Value>, items: &[Value], at: &str) -> Result<(), String> {
        let first = schema.get("prefixItems").and_then(Value::as_array).map_or(&[][..], Vec::as_slice);
        for (number, item) in items.iter().enumerate() {
            let at = format!("{at}/{number}");
            if let Some(schema) = first.get(number).or_else(|| schema.get("items")) {
                self.check_all(schema, item, &at)?;
            }
        }
        match schema.get("maxItems").and_then(Value::as_u64) {
            Some(max) if items.len() as u64 > max => Err(format!("{at}: more than {max} items")),
            Some(_) | None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn is_described(schema: &Value, value: &Value) -> bool {
        Checker { root: schema }.check_all(schema, value, "").is_ok()
    }

    #[test]
    fn what_does_not_fit_is_found() {
        let schema = json!({
            "type": "object",
            "properties": {
                "name": { "$ref": "#/$defs/Name" },
                "ends": { "type": "array", "items": { "type": ["integer", "null"] } },
            },
            "required": ["name"],
            "oneOf": [
                { "properties": { "what": { "const": "put" } }, "required": ["what"] },
                { "properties": { "what": { "const": "due" } }, "required": ["what"] },
            ],
            "$defs": { "Name": { "type": "string", "pattern": r"^[^/\s\u0000-\u001f]+$" } },
        });
        assert!(is_described(&schema, &json!({ "name": "a", "ends": [1, null], "what": "put" })));
        for wrong in [
            json!({ "what": "put" }),
            json!({ "name": "a/b", "what": "put" }),
            json!({ "name": 1, "what": "put" }),
            json!({ "name": "a", "what": "gone" }),
            json!({ "name": "a", "ends": [1.5], "what": "put" }),
            json!({ "name": "a", "what": "put", "more": 1 }),
            json!(null),
        ] {
            assert!(!is_described(&schema, &wrong), "{wrong}");
        }
    }
}
