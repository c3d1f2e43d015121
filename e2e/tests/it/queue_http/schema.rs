//! Whether we keep to the OpenAPI document: schemathesis generates requests from it.

use std::process::Command;

use serde_json::{Value, json};

use super::{Client, Server};
use crate::queues::Fleet;

const CHECKS: &str =
    "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance";

#[test]
fn whatever_is_asked_the_answer_is_as_the_document_says() {
    let schemathesis = std::env::var("SCHEMATHESIS")
        .expect("SCHEMATHESIS names the program: `cargo xtask test` installs it");
    let fleet = Fleet::new("http-schema");
    let key = fleet.user.ok(&["queue", "key", "add", "notes", "--admin"]).trim().to_owned();
    let server = Server::start(&fleet.user, &[]);
    for queue in ["mail", "news"] {
        let form = format!("queue_name={queue}&partitions=2");
        assert_eq!(server.ask(&key, "POST", "/v1/notes", &form).0, 201);
        assert_eq!(server.ask(&key, "POST", &format!("/v1/notes/{queue}"), "hello").0, 201);
        // From now on the server handles its messages, so that there is something to receive.
        let first = r#"{"wait":60,"visible_after":1}"#;
        let (code, received) = server.ask(&key, "POST", &format!("/v1/notes/{queue}/receive"), first);
        assert_eq!((code, &received["messages"][0]["body"]), (200, &json!("hello")));
    }
    // Messages that a client has, in a queue without order, whose messages have priorities.
    fleet.user.ok(&["queue", "create", "notes:jobs", "--partitions", "2", "--order", "none"]);
    let messages: Vec<Value> = (0..12).map(|n| json!({"body": n.to_string(), "priority": n})).collect();
    let body = json!({ "messages": messages }).to_string();
    let mut client = Client::open(server.address, &key).expect("it answers");
    let is_json = "Content-Type: application/json\r\n";
    let (code, posted) = client.ask("POST", "/v1/notes/jobs", is_json, &body).expect("it answers");
    assert_eq!(code, 201, "{posted}");
    let ids = texts(&posted, "key");
    let mut receipts = Vec::new();
    while receipts.len() < ids.len() {
        let all = r#"{"wait":60,"visible_after":"2h","max":100}"#;
        let (code, received) = server.ask(&key, "POST", "/v1/notes/jobs/receive", all);
        assert_eq!(code, 200, "{received}");
        receipts.extend(texts(&received, "receipt"));
    }
    let (code, document) = server.ask("", "GET", "/openapi.json", "");
    assert_eq!(code, 200);
    let document = with_existing(within(document), &ids, &receipts);
    fleet.user.write("openapi.json", &document.to_string());
    let mut fuzz = Command::new(schemathesis);
    fuzz.args(["run", "openapi.json", "--url", &format!("http://{}", server.address)])
        .args(["--checks", CHECKS, "--max-examples", "30", "--seed", "7", "--no-color"])
        .args(["--header", &format!("Authorization: Bearer {key}")])
        .args(["--phases", "examples,coverage,fuzzing", "--exclude-operation-id", "delete_queue"])
        .current_dir(fleet.user.folder());
    let output = fuzz.output().expect("it runs");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}\n{}", String::from_utf8_lossy(&output.stderr));
}

/// Generate existing names, too, because elsewhere there is little to find; and no waits, which only take time.
fn within(mut document: Value) -> Value {
    let paths = document["paths"].as_object_mut().expect("there are paths");
    for path in paths.values_mut() {
        for parameter in listed(path.get_mut("parameters")) {
            match parameter["name"].as_str() {
                Some("application") => parameter["schema"] = json!({"enum": ["notes", "nobody"]}),
                Some("queue") => parameter["schema"] = json!({"enum": ["mail", "news", "jobs", "none"]}),
                _ => {}
            }
        }
        for parameter in listed(path.pointer_mut("/get/parameters")) {
            if parameter["name"] == "wait" {
                parameter["schema"]["maximum"] = json!(0);
            }
        }
    }
    document["components"]["schemas"]["Receive"]["properties"]["wait"]["maximum"] = json!(0);
    document
}

/// Generate ids and receipts that exist, too: random ones have only errors for an answer.
fn with_existing(mut document: Value, ids: &[String], receipts: &[String]) -> Value {
    let shown = &mut document["paths"]["/v1/{application}/{queue}/messages/{id}"];
    for parameter in listed(shown.get_mut("parameters")).filter(|parameter| parameter["name"] == "id") {
        parameter["schema"] = json!({ "enum": or_nobodys(ids) });
    }
    // Each verb has receipts of its own: an acknowledged message is gone.
    for (verb, own) in ["Ack", "Nack", "Extend"].iter().zip(receipts.chunks(receipts.len() / 3)) {
        let items = &mut document["components"]["schemas"][verb]["properties"]["receipts"]["items"];
        *items = json!({ "enum": or_nobodys(own) });
    }
    document
}

/// These, and one that does not exist.
fn or_nobodys(existing: &[String]) -> Vec<String> {
    [existing, &["nobody's".to_owned()]].concat()
}

/// This field of each message of an answer.
fn texts(answer: &Value, field: &str) -> Vec<String> {
    let messages = answer["messages"].as_array().into_iter().flatten();
    messages.filter_map(|message| message[field].as_str().map(str::to_owned)).collect()
}

fn listed(value: Option<&mut Value>) -> impl Iterator<Item = &mut Value> {
    value.and_then(Value::as_array_mut).into_iter().flatten()
}
