//! All four engines at work: what REST and pages show of them.

use menagerie_testkit::assert_fits;
use serde_json::Value;

use super::{Answer, ask, connect, page};
use crate::up::{self, Demo};

/// What a demo shows.
pub struct Shown<'a>(pub &'a Demo);

impl Shown<'_> {
    pub fn get(&self, path: &str) -> Answer {
        let stream = connect(self.0.web).expect("it listens");
        ask(stream, "GET", path, &self.0.token, "").expect("it answers")
    }

    /// Names of what there is, to put into addresses: for each placeholder, all that a list shows.
    pub fn names(&self) -> Vec<(&'static str, Vec<String>)> {
        let lists = [
            ("pool", "/slots", "pool"),
            ("queue", "/queues", "queue"),
            ("worker", "/workers", "worker"),
            ("job", "/flows", "id"),
            ("tenant", "/pipelines", "tenant"),
        ];
        let mut names: Vec<_> = lists
            .into_iter()
            .map(|(placeholder, path, field)| {
                let items = self.get(&format!("/api/v1{path}")).value()["items"].clone();
                let items = items.as_array().expect("a list").clone();
                let text = |item: &Value| item[field].as_str().expect("it has a name").to_owned();
                (placeholder, items.iter().map(text).collect::<Vec<_>>())
            })
            .collect();
        let tenants = self.get("/api/v1/pipelines").value();
        let pipelines = tenants["items"][0]["pipelines"].as_array().expect("a list").clone();
        names.push((
            "pipeline",
            pipelines.iter().map(|one| one.as_str().expect("a name").to_owned()).collect(),
        ));
        names.push(("id", self.messages()));
        let tenant = tenants["items"][0]["tenant"].as_str().expect("a name");
        let ended = self.get(&format!("/api/v1/pipelines/{tenant}/history")).value()["items"].clone();
        let ended = ended.as_array().expect("a list").clone();
        let builds = ended.iter().flat_map(|item| item["builds"].as_array().expect("a list").clone());
        names
            .push(("build", builds.map(|build| build["uuid"].as_str().expect("an id").to_owned()).collect()));
        names
    }

    /// Ids of failed and of waiting messages.
    fn messages(&self) -> Vec<String> {
        let mut ids = Vec::new();
        for queue in self.get("/api/v1/queues").value()["items"].as_array().expect("a list") {
            for what in ["failed", "waiting"] {
                let name = queue["queue"].as_str().expect("a name");
                let listed = self.get(&format!("/api/v1/queues/{name}/{what}")).value();
                let listed = listed["items"].as_array().expect("a list").clone();
                ids.extend(listed.iter().map(|one| one["id"].as_str().expect("an id").to_owned()));
            }
        }
        ids
    }
}

#[test]
fn everything_that_can_be_read_is_as_the_document_says_and_has_a_page() {
    let demo = Shown(up::demo());
    let document = demo.get("/api/openapi.json").value();
    let names = demo.names();
    let paths = document["paths"].as_object().expect("there are paths");
    let (mut read, mut with_content) = (0, 0);
    for (pattern, operations) in paths {
        let Some(operation) = operations.get("get") else { continue };
        for path in filled(pattern, &names) {
            let reply = demo.get(&path);
            // A message is of one queue, and the others know nothing of it.
            if reply.code == 404 && path.contains("/messages/") {
                continue;
            }
            read += 1;
            let described = &operation["responses"]["200"]["content"]["application/json"]["schema"];
            if described.is_null() {
                assert!(reply.code == 200 && !reply.body.is_empty(), "{path}: {}", reply.head);
                continue;
            }
            let reply = reply.value();
            let mut schema = document.clone();
            for (word, value) in described.as_object().expect("a schema") {
                schema[word] = value.clone();
            }
            assert_fits(&schema, &reply);
            with_content += usize::from(reply["items"].as_array().is_none_or(|items| !items.is_empty()));
            let page = page(demo.0.web, path.strip_prefix("/api/v1").expect("below the prefix"));
            assert!(matches!(page.code, 200 | 404), "{path}: {}", page.text());
        }
    }
    assert!(read > 20 && with_content > 15, "{read} replies, {with_content} with content");
    let overview = page(demo.0.web, "/").text();
    for engine in ["/slots", "/queues", "/flows", "/pipelines"] {
        assert!(overview.contains(&format!("href=\"{engine}\"")), "{overview}");
    }
}

/// The addresses of a pattern, with all names.
fn filled(pattern: &str, names: &[(&str, Vec<String>)]) -> Vec<String> {
    let mut paths = vec![pattern.to_owned()];
    for (placeholder, values) in names {
        let mark = format!("{{{placeholder}}}");
        if pattern.contains(&mark) {
            let each =
                |path: &String| values.iter().map(|value| path.replace(&mark, value)).collect::<Vec<_>>();
            paths = paths.iter().flat_map(each).collect();
        }
    }
    paths
}
