//! What the program of a build is told: variables of its environment, and a file in Zuul's words.

use std::env;
use std::ffi::{OsStr, OsString};
use std::path::Path;

use menagerie_kernel::Fence;
use menagerie_znodes::pipelines::{BuildParams, Checkout, Id, Link, Subject};
use serde_json::{Map, Value, json};

/// Variables besides `GIT_*` by which ssh, and git with it, reaches remotes in our name.
const WITHHELD: [&str; 4] = ["SSH_AGENT_PID", "SSH_ASKPASS", "SSH_ASKPASS_REQUIRE", "SSH_AUTH_SOCK"];

/// Variables of this process that programs of jobs must not inherit: what the operator has set so that the executor
/// reaches repositories, and what would lead their git to other repositories or settings.
pub(super) fn withheld() -> impl Iterator<Item = OsString> {
    env::vars_os().map(|(name, _)| name).filter(|name| is_withheld(name))
}

fn is_withheld(name: &OsStr) -> bool {
    name.as_encoded_bytes().starts_with(b"GIT_") || WITHHELD.iter().any(|withheld| name == *withheld)
}

/// A build and where it runs.
pub(super) struct Surroundings<'a> {
    /// The build.
    pub(super) build: &'a Id,
    /// What was requested.
    pub(super) params: &'a BuildParams,
    /// The folder that has `src`.
    pub(super) work: &'a Path,
    /// The file that will hold [`vars`](Self::vars).
    pub(super) vars_file: &'a Path,
    /// The token for systems outside of ZooKeeper.
    pub(super) fence: Fence,
}

impl Surroundings<'_> {
    /// Variables of the environment.
    pub(super) fn environment(&self) -> Vec<(&'static str, String)> {
        let BuildParams { tenant, pipeline, buildset, job, subject, commit, parent, .. } = self.params;
        let (change, patchset) = match subject {
            Subject::Change { change, patchset } => (change.branch(), patchset.to_string()),
            Subject::Ref { .. } => (String::new(), String::new()),
        };
        vec![
            ("ZUUL_TENANT", tenant.to_string()),
            ("ZUUL_PIPELINE", pipeline.to_string()),
            ("ZUUL_JOB", job.name.clone()),
            ("ZUUL_UUID", self.build.to_string()),
            ("ZUUL_BUILDSET", buildset.to_string()),
            ("ZUUL_PROJECT", subject.project().to_owned()),
            ("ZUUL_BRANCH", subject.branch().unwrap_or_default().to_owned()),
            ("ZUUL_CHANGE", change),
            ("ZUUL_PATCHSET", patchset),
            ("ZUUL_COMMIT", commit.to_string()),
            ("ZUUL_PARENT", parent.to_string()),
            ("MENAGERIE_WORK", self.work.display().to_string()),
            ("MENAGERIE_FENCE", self.fence.to_string()),
            ("MENAGERIE_VARS", self.vars_file.display().to_string()),
        ]
    }

    /// The variables of the job, and `zuul` as Zuul's jobs know it.
    pub(super) fn vars(&self, host_name: &str) -> Value {
        let mut vars = self.params.job.vars.clone();
        // Ours comes last: no job may pretend to be another one.
        vars.insert("zuul".to_owned(), Value::Object(self.zuul(host_name)));
        Value::Object(vars)
    }

    fn zuul(&self, host_name: &str) -> Map<String, Value> {
        let BuildParams { tenant, pipeline, buildset, job, attempt, subject, commit, .. } = self.params;
        let checkouts = &self.params.checkouts;
        let project = checkouts.iter().find(|checkout| checkout.source.project == subject.project());
        let projects: Map<String, Value> =
            checkouts.iter().map(|checkout| (canonical_name(checkout), self.checked_out(checkout))).collect();
        let mut zuul = object(json!({
            "build": self.build,
            "buildset": buildset,
            "tenant": tenant,
            "pipeline": pipeline,
            "job": job.name,
            "voting": job.is_voting,
            "timeout": job.timeout_s,
            "attempts": attempt,
            "max_attempts": job.attempts,
            "project": project.map(describe),
            "projects": projects,
            "items": self.items(project),
            "ref": subject.reference(),
            "commit_id": commit,
            "executor": {
                "hostname": host_name,
                "work_root": self.work,
                "src_root": self.work.join("src"),
            },
        }));
        zuul.extend(describe_subject(subject));
        zuul
    }

    fn checked_out(&self, checkout: &Checkout) -> Value {
        let Checkout { source, branch, .. } = checkout;
        let mut described = describe(checkout);
        let commit = self.params.state.branch(&source.project, branch).map(|state| state.head());
        described.insert("checkout".to_owned(), json!(branch));
        described.insert("commit".to_owned(), json!(commit));
        let is_required = self.params.job.required_projects.contains(&source.project);
        described.insert("required".to_owned(), json!(is_required));
        Value::Object(described)
    }

    /// What is tested, behind what it is tested on top of in its own branch.
    fn items(&self, project: Option<&Checkout>) -> Vec<Value> {
        let subject = &self.params.subject;
        let item = |facts: Map<String, Value>| {
            let mut item = object(json!({ "project": project.map(describe) }));
            item.extend(facts);
            Value::Object(item)
        };
        let state = subject.branch().and_then(|branch| self.params.state.branch(subject.project(), branch));
        let links: &[Link] = state.map_or(&[], |state| &state.links);
        match subject {
            Subject::Change { .. } if !links.is_empty() => {
                let subject = |Link { change, patchset, .. }: &Link| Subject::Change {
                    change: change.clone(),
                    patchset: patchset.clone(),
                };
                links.iter().map(|link| item(describe_subject(&subject(link)))).collect()
            }
            Subject::Change { .. } | Subject::Ref { .. } => vec![item(describe_subject(subject))],
        }
    }
}

/// The part of Zuul's variables that depends on what is tested.
fn describe_subject(subject: &Subject) -> Map<String, Value> {
    let mut facts = Map::new();
    let mut put = |name: &str, value: Value| drop(facts.insert(name.to_owned(), value));
    if let Some(branch) = subject.branch() {
        put("branch", json!(branch));
    }
    match subject {
        Subject::Change { change, patchset } => {
            put("change", json!(change.branch()));
            put("patchset", json!(patchset));
        }
        Subject::Ref { reference, oldrev, newrev, .. } => {
            if let Some(tag) = reference.strip_prefix("refs/tags/") {
                put("tag", json!(tag));
            }
            // A ref that was made or deleted has only one of them.
            for (name, sha) in [("oldrev", oldrev), ("newrev", newrev)] {
                if !sha.is_zero() {
                    put(name, json!(sha));
                }
            }
        }
    }
    facts
}

fn describe(checkout: &Checkout) -> Map<String, Value> {
    let name = &checkout.source.project;
    let canonical_name = canonical_name(checkout);
    object(json!({
        "name": name,
        "short_name": name.rsplit('/').next(),
        "canonical_hostname": checkout.host,
        "src_dir": format!("src/{canonical_name}"),
        "canonical_name": canonical_name,
    }))
}

fn canonical_name(checkout: &Checkout) -> String {
    format!("{}/{}", checkout.host, checkout.source.project)
}

/// The map of a literal object.
fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => Map::new(),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use menagerie_znodes::pipelines::{BranchState, Change, FrozenJob, RepoState, Sha, Source};

    use super::*;

    fn sha(digit: &str) -> Sha {
        digit.repeat(40).parse().unwrap()
    }

    fn link(topic: &str, digit: &str) -> Link {
        let change = Change { project: "org/app".into(), target: "main".into(), topic: topic.into() };
        Link { change, patchset: sha(digit), commit: sha("c") }
    }

    fn params(subject: Subject) -> BuildParams {
        let source = Source { connection: "local".into(), project: "org/app".into() };
        let checkout = Checkout { source, host: "example.org".into(), branch: "main".into() };
        let state = BranchState { base: sha("b"), links: vec![link("first", "1"), link("second", "2")] };
        let job = FrozenJob {
            name: "unit".into(),
            run: "ci/test.sh".into(),
            project: "org/app".into(),
            branch: "main".into(),
            is_trusted: false,
            is_voting: true,
            timeout_s: 60,
            attempts: 3,
            dependencies: Vec::new(),
            required_projects: Vec::new(),
            vars: [("colour".to_owned(), "green".into()), ("zuul".to_owned(), "forged".into())]
                .into_iter()
                .collect(),
        };
        let id = |text: &str| Id::new(text).unwrap();
        BuildParams {
            tenant: id("main"),
            pipeline: id("gate"),
            buildset: id("set"),
            job,
            attempt: 2,
            subject,
            commit: sha("c"),
            parent: sha("b"),
            checkouts: vec![checkout.clone()],
            run_from: Some(checkout),
            state: RepoState(BTreeMap::from([("org/app".into(), BTreeMap::from([("main".into(), state)]))])),
        }
    }

    fn told(subject: Subject) -> (BTreeMap<&'static str, String>, Value) {
        let (build, params) = (Id::new("build").unwrap(), params(subject));
        let (work, vars_file) = (Path::new("/b/work"), Path::new("/b/vars.json"));
        let fence = Fence { generation: 1, zxid: 7 };
        let told = Surroundings { build: &build, params: &params, work, vars_file, fence };
        (told.environment().into_iter().collect(), told.vars("host"))
    }

    #[test]
    fn a_change_is_told_with_those_ahead_of_it() {
        let Link { change, patchset, .. } = link("second", "2");
        let (environment, vars) = told(Subject::Change { change, patchset });
        assert_eq!(environment["ZUUL_CHANGE"], "propose/main/second");
        assert_eq!(environment["ZUUL_PATCHSET"], sha("2").to_string());
        let zuul = &vars["zuul"];
        assert_eq!(
            (&vars["colour"], &zuul["voting"], &zuul["attempts"]),
            (&json!("green"), &json!(true), &json!(2))
        );
        assert_eq!(zuul["ref"], "refs/heads/propose/main/second");
        assert_eq!(zuul["executor"]["src_root"], "/b/work/src");
        let items = zuul["items"].as_array().unwrap();
        let topics: Vec<&Value> = items.iter().map(|item| &item["change"]).collect();
        assert_eq!(topics, ["propose/main/first", "propose/main/second"]);
        assert_eq!(items[0]["project"]["short_name"], "app");
    }

    #[test]
    fn a_new_tag_has_no_branch_no_change_and_no_old_commit() {
        let (project, reference) = ("org/app".into(), "refs/tags/v1".into());
        let (environment, vars) =
            told(Subject::Ref { project, reference, oldrev: Sha::zero(), newrev: sha("c") });
        for name in ["ZUUL_BRANCH", "ZUUL_CHANGE", "ZUUL_PATCHSET"] {
            assert_eq!(environment[name], "", "{name}");
        }
        let zuul = vars["zuul"].as_object().unwrap();
        assert_eq!((&zuul["tag"], &zuul["newrev"]), (&json!("v1"), &json!(sha("c"))));
        for name in ["branch", "change", "patchset", "oldrev"] {
            assert!(!zuul.contains_key(name), "{name}");
        }
    }
}
