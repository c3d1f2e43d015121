//! Whether we keep to the OpenAPI document: schemathesis generates requests from it.

use std::process::Command;

use serde_json::{Value, json};

use super::demo::Shown;
use crate::cli::User;
use crate::up::Demo;

const CHECKS: &str =
    "not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance";

#[test]
fn whatever_is_asked_the_answer_is_as_the_document_says() {
    let schemathesis = std::env::var("SCHEMATHESIS")
        .expect("SCHEMATHESIS names the program: `cargo xtask test` installs it");
    // Its own: it is changed in every way that there is.
    let user = User::nowhere();
    let demo = Demo::start(&user);
    let shown = Shown(&demo);
    let document = with_existing(shown.get("/api/openapi.json").value(), &shown.names());
    user.write("openapi.json", &document.to_string());
    let mut fuzz = Command::new(schemathesis);
    fuzz.args(["run", "openapi.json", "--url", &format!("http://{}", demo.web)])
        .args(["--checks", CHECKS, "--max-examples", "15", "--seed", "7", "--no-color"])
        .args(["--header", &format!("Authorization: Bearer {}", demo.token)])
        // One worker: Python 3.11 cannot parse its own sources in several threads at once.
        .args(["--phases", "examples,coverage,fuzzing", "--workers", "1"])
        .current_dir(user.folder());
    let output = fuzz.output().expect("it runs");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}\n{}", String::from_utf8_lossy(&output.stderr));
}

/// Generate existing names, too, because elsewhere there is little to find.
fn with_existing(mut document: Value, names: &[(&'static str, Vec<String>)]) -> Value {
    let paths = document["paths"].as_object_mut().expect("there are paths");
    for operation in paths.values_mut().flat_map(|path| path.as_object_mut().expect("an object").values_mut())
    {
        for parameter in operation["parameters"].as_array_mut().into_iter().flatten() {
            let known = names.iter().find(|(name, _)| parameter["name"] == *name);
            if let Some((_, known)) = known.filter(|_| parameter["in"] == "path") {
                let known = known.iter().take(5).map(String::as_str);
                parameter["schema"] = json!({ "enum": known.chain(["none"]).collect::<Vec<_>>() });
            }
        }
    }
    document
}
