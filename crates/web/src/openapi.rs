//! The OpenAPI document, made of the list of routes and of the types of bodies and replies.

use schemars::SchemaGenerator;
use schemars::generate::SchemaSettings;
use serde_json::{Map, Value, json};

use crate::acts::Done;
use crate::downloads;
use crate::params::{Param, ParamKind};
use crate::problem::Problem;
use crate::routes::{ActRoute, ReadRoute};

/// OpenAPI 3.1: its schemas are JSON Schema 2020-12.
pub fn document(reads: &[ReadRoute], acts: &[ActRoute]) -> Value {
    let settings = SchemaSettings::draft2020_12().with(|settings| {
        settings.definitions_path = "/components/schemas".into();
        settings.meta_schema = None;
    });
    let mut replies = settings.clone().for_serialize().into_generator();
    let mut bodies = settings.for_deserialize().into_generator();
    let problem = json!({
        "description": "Why not.",
        "content": { "application/problem+json": { "schema": replies.subschema_for::<Problem>() } },
    });
    let mut paths: Map<String, Value> = Map::new();
    for route in reads {
        let entry = paths.entry(format!("/api/v1{}", route.path)).or_insert_with(|| json!({}));
        entry["get"] = read_operation(route, &mut replies);
    }
    for route in acts {
        let entry = paths.entry(format!("/api/v1{}", route.path)).or_insert_with(|| json!({}));
        entry["post"] = act_operation(route, &mut replies, &mut bodies);
    }
    paths.insert(format!("/api/v1{}", downloads::LOG), json!({ "get": download_operation() }));
    let mut schemas = replies.take_definitions(true);
    // A type that is sent in both directions is the same in both.
    schemas.extend(bodies.take_definitions(true));
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "Menagerie",
            "version": env!("CARGO_PKG_VERSION"),
            "description": "What the fleet is doing, and acts on it. Every address that can be read is also a stream of \
                server-sent events: ask for it with `Accept: text/event-stream`. Each event `value` has the whole new \
                value, and an id with which the stream can be resumed (`Last-Event-ID`). `stale` says since when and why \
                there is nothing new, `reload` that the stream cannot be resumed.",
            "license": { "name": "Apache-2.0", "identifier": "Apache-2.0" },
        },
        "servers": [{ "url": "/" }],
        "security": [{ "token": [] }],
        "paths": paths,
        "components": {
            "schemas": schemas,
            "responses": { "Problem": problem },
            "securitySchemes": { "token": { "type": "http", "scheme": "bearer" } },
        },
    })
}

fn read_operation(route: &ReadRoute, schemas: &mut SchemaGenerator) -> Value {
    let mut parameters = path_parameters(route.path);
    parameters.extend(route.query.iter().map(query_parameter));
    json!({
        "operationId": operation_id("get", route.path),
        "summary": route.about,
        "tags": [route.area.word()],
        "description": format!("Takes a token that may `{}`.", right(route.area.word(), "read")),
        "parameters": parameters,
        "responses": {
            "200": {
                "description": "The value now.",
                "content": { "application/json": { "schema": (route.reply)(schemas) } },
            },
            "default": { "$ref": "#/components/responses/Problem" },
        },
    })
}

fn act_operation(route: &ActRoute, replies: &mut SchemaGenerator, bodies: &mut SchemaGenerator) -> Value {
    json!({
        "operationId": operation_id("post", route.path),
        "summary": route.about,
        "tags": [route.area.word()],
        "description": format!("Takes a token that may `{}`.", right(route.area.word(), route.scope.word())),
        "parameters": path_parameters(route.path),
        "requestBody": {
            "required": true,
            "content": { "application/json": { "schema": (route.body)(bodies) } },
        },
        "responses": {
            "200": {
                "description": "It is done.",
                "content": { "application/json": { "schema": replies.subschema_for::<Done>() } },
            },
            "default": { "$ref": "#/components/responses/Problem" },
        },
    })
}

fn download_operation() -> Value {
    json!({
        "operationId": operation_id("get", downloads::LOG),
        "summary": downloads::ABOUT,
        "tags": [downloads::AREA.word()],
        "description": format!("Takes a token that may `{}`.", right(downloads::AREA.word(), "read")),
        "parameters": path_parameters(downloads::LOG),
        "responses": {
            "200": {
                "description": "A file.",
                "content": { "text/plain": { "schema": { "type": "string" } } },
            },
            "default": { "$ref": "#/components/responses/Problem" },
        },
    })
}

fn right(area: &str, scope: &str) -> String {
    match area {
        "installation" => scope.to_owned(),
        engine => format!("{engine}:{scope}"),
    }
}

/// `get_slots_pool_history`.
fn operation_id(method: &str, path: &str) -> String {
    let words = path.split('/').map(|part| part.trim_matches(['{', '}'])).filter(|part| !part.is_empty());
    std::iter::once(method).chain(words).collect::<Vec<_>>().join("_")
}

fn path_parameters(path: &str) -> Vec<Value> {
    let names = path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'));
    names
        .map(|name| {
            let schema = json!({ "type": "string", "minLength": 1 });
            json!({ "name": name, "in": "path", "required": true, "schema": schema })
        })
        .collect()
}

fn query_parameter(param: &Param) -> Value {
    let schema = match param.kind {
        ParamKind::Text => json!({ "type": "string" }),
        ParamKind::Number(max) => json!({ "type": "integer", "minimum": 1, "maximum": max }),
        ParamKind::Offset => json!({ "type": "integer", "minimum": 0 }),
    };
    json!({ "name": param.name, "in": "query", "description": param.about, "schema": schema })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::routes;

    /// The published document. `UPDATE_OPENAPI=1` writes it anew; read the difference: programs rely on it.
    #[test]
    fn the_document_is_the_published_one() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/openapi.json");
        let document = document(&routes::reads(), &routes::acts());
        let text = serde_json::to_string_pretty(&document).unwrap() + "\n";
        if std::env::var_os("UPDATE_OPENAPI").is_some() {
            std::fs::write(path, &text).unwrap();
        }
        let published = std::fs::read_to_string(path).unwrap_or_default();
        assert!(
            published == text,
            "docs/openapi.json is not the document of this version: UPDATE_OPENAPI=1 writes it"
        );
    }

    #[test]
    fn each_operation_has_a_name_of_its_own_and_every_reference_leads_somewhere() {
        let document = document(&routes::reads(), &routes::acts());
        let operations = document["paths"].as_object().unwrap().values().flat_map(|path| {
            path.as_object().unwrap().values().map(|operation| operation["operationId"].as_str().unwrap())
        });
        let mut names: Vec<&str> = operations.collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!((names.len(), count), (count, routes::reads().len() + routes::acts().len() + 1));
        let text = document.to_string();
        for (at, _) in text.match_indices("\"$ref\":\"#") {
            let pointer = text[at + "\"$ref\":\"#".len()..].split('"').next().unwrap();
            assert!(document.pointer(pointer).is_some(), "{pointer}");
        }
    }
}
