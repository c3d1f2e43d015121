//! A small world around the core: repositories, mergers and executors that answer when they are told to, and ids that count up.
//! Every step is checked: invariants hold, reports can be acknowledged, and a further step without news changes nothing.

use std::collections::{BTreeMap, BTreeSet};

use menagerie_znodes::pipelines::{
    BranchState, Change, ChangeRecord, Event, EventKind, HistoryRecord, Id, Link, MergeResult, MergeStep,
    Note, Outcome, Params, PipelineRef, ProjectRefs, Sha, Trigger, Vote,
};

use crate::config::{SourceFile, tenants};
use crate::core::{Effect, Facts, Input, PushResult, Refs, State, TenantConfig, invariants, step};

/// The only connection.
const LOCAL: &str = "local";

/// All projects; `config` is the trusted one.
pub(super) const PROJECTS: [&str; 4] = ["config", "app", "lib", "other"];

/// Two pipelines. `app` and `lib` share a queue, `other` has its own.
const CONFIG: &str = "
- pipeline:
    name: check
    manager: independent
    trigger: {local: [{event: patchset-created}]}
    success: {local: {Verified: 1}}
    failure: {local: {Verified: -1}}
- pipeline:
    name: gate
    manager: dependent
    trigger: {local: [{event: comment-added, approval: {Approved: 1}}]}
    success: {local: {Verified: 2, submit: true}}
    failure: {local: {Verified: -2}}
- queue: {name: shared}
";
const APP: &str = "
- job: {name: unit, run: ci/unit}
- project: {queue: shared, check: {jobs: [unit]}, gate: {jobs: [unit]}}
";
const LIB: &str = "
- job: {name: lib-unit, run: ci/unit}
- project: {queue: shared, check: {jobs: [lib-unit]}, gate: {jobs: [lib-unit]}}
";
/// Its job needs another project, so a merger is asked where that is.
const OTHER: &str = "
- job: {name: other-unit, run: ci/unit, required-projects: [app]}
- project: {check: {jobs: [other-unit]}, gate: {jobs: [other-unit]}}
";

/// A proposal as it is in its repository.
#[derive(Debug, Clone)]
pub(super) struct Proposal {
    pub(super) change: Change,
    pub(super) patchset: Sha,
    /// What its footers say.
    pub(super) depends_on: Vec<String>,
    pub(super) votes: Vec<Vote>,
}

/// How a merger answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Merged {
    Yes,
    /// With the text of `zuul.yaml` that the change leaves.
    WithConfig(String),
    Clash,
    /// It could not be tried.
    No(String),
}

/// One step of the core, for whoever wants to tell or check it.
pub(super) struct Passed {
    pub(super) before: State,
    pub(super) effects: Vec<Effect>,
    pub(super) history: Vec<HistoryRecord>,
    pub(super) notes: Vec<Note>,
}

pub(super) struct World {
    /// `zuul.yaml` of each project.
    texts: BTreeMap<String, String>,
    config: TenantConfig,
    pipeline: PipelineRef,
    pub(super) state: State,
    /// Where `main` of each project is.
    pub(super) tips: BTreeMap<String, Sha>,
    /// Open ones, by topic.
    pub(super) proposals: BTreeMap<String, Proposal>,
    /// Refs that merges have left.
    merged_refs: BTreeMap<String, BTreeMap<String, Sha>>,
    /// What watchers have seen of all that.
    seen: Refs,
    /// All requests that were ever made.
    pub(super) asked: BTreeMap<Id, Params>,
    /// Commits, in words.
    labels: BTreeMap<Sha, String>,
    drawn: u64,
    steps: i64,
}

impl World {
    pub(super) fn new(pipeline: &str) -> Self {
        let texts = PROJECTS.into_iter().zip([CONFIG, APP, LIB, OTHER]);
        let texts: BTreeMap<String, String> =
            texts.map(|(name, text)| (name.to_owned(), text.to_owned())).collect();
        let pipeline = PipelineRef { tenant: id("acme"), pipeline: id(pipeline) };
        let mut world = Self {
            config: config(&PROJECTS, &texts, 0),
            texts,
            pipeline,
            state: State::default(),
            tips: BTreeMap::new(),
            proposals: BTreeMap::new(),
            merged_refs: BTreeMap::new(),
            seen: Refs::default(),
            asked: BTreeMap::new(),
            labels: BTreeMap::new(),
            drawn: 0,
            steps: 0,
        };
        for project in PROJECTS {
            world.move_branch(project);
        }
        world.see();
        world
    }

    /// The layout changes: `projects` are all that the tenant has, `text` is what one of them says.
    pub(super) fn reconfigure(&mut self, projects: &[&str], project: &str, text: String) {
        self.texts.insert(project.to_owned(), text);
        let edition = self.config.id().parse::<u32>().expect("editions are numbers") + 1;
        self.config = config(projects, &self.texts, edition);
    }

    /// Attributes of the pipeline `gate` besides those that it has.
    pub(super) fn adjust_gate(&mut self, attributes: &str) {
        let lines: String = attributes.lines().map(|line| format!("    {line}\n")).collect();
        let text = self.texts["config"]
            .replace("    manager: dependent\n", &format!("    manager: dependent\n{lines}"));
        self.reconfigure(&PROJECTS, "config", text);
        assert!(self.config.layout().problems().is_empty(), "{:?}", self.config.layout().problems());
    }

    /// A new commit, with a name for people.
    fn commit(&mut self, label: String) -> Sha {
        let sha = sha(&label);
        self.labels.insert(sha.clone(), label);
        sha
    }

    /// A commit in words.
    pub(super) fn label(&self, sha: &Sha) -> String {
        let label = self.labels.get(sha).map_or(sha.as_str(), String::as_str);
        let parts: Vec<&str> = label.split('+').collect();
        match parts.as_slice() {
            [base, first, more @ .., last] if more.len() > 2 => {
                format!("{base}+{first}+({})+{last}", more.len())
            }
            _ => label.to_owned(),
        }
    }

    /// Somebody pushes to `main`.
    pub(super) fn move_branch(&mut self, project: &str) {
        let is_of_branch =
            |label: &&String| label.starts_with(&format!("{project}@")) && !label.contains('+');
        let number = self.labels.values().filter(is_of_branch).count();
        let commit = self.commit(format!("{project}@{number}"));
        self.tips.insert(project.to_owned(), commit);
    }

    /// Somebody merges a change without us.
    pub(super) fn merge_by_hand(&mut self, topic: &str) {
        let change = self.proposals.remove(topic).expect("it is open").change;
        self.move_branch(&change.project);
        let tip = self.tips[&change.project].clone();
        self.merged_refs.entry(change.project.clone()).or_default().insert(change.merged_ref(), tip);
    }

    /// Proposes a change, or a further patchset of it.
    pub(super) fn propose(&mut self, project: &str, topic: &str, depends_on: Vec<String>) {
        let change =
            Change { project: project.to_owned(), target: "main".to_owned(), topic: topic.to_owned() };
        let number = self.labels.values().filter(|label| label.starts_with(&format!("{topic}/"))).count() + 1;
        let patchset = self.commit(format!("{topic}/{number}"));
        self.proposals.insert(topic.to_owned(), Proposal { change, patchset, depends_on, votes: Vec::new() });
    }

    /// Watchers look at all repositories.
    pub(super) fn see(&mut self) {
        let connection = self.seen.0.entry(LOCAL.to_owned()).or_default();
        for (project, tip) in &self.tips {
            let refs = connection.projects.entry(project.clone()).or_default();
            *refs = ProjectRefs::default();
            refs.refs.insert("refs/heads/main".to_owned(), tip.clone());
            refs.refs.extend(self.merged_refs.get(project).cloned().unwrap_or_default());
        }
        for topic in self.proposals.keys().cloned().collect::<Vec<_>>() {
            self.see_change(&topic);
        }
    }

    /// Watchers see what became of one proposal.
    pub(super) fn see_change(&mut self, topic: &str) {
        let projects = &mut self.seen.0.entry(LOCAL.to_owned()).or_default().projects;
        for refs in projects.values_mut() {
            refs.changes.retain(|_, record| record.change.topic != topic);
        }
        let Some(Proposal { change, patchset, depends_on, votes }) = self.proposals.get(topic).cloned()
        else {
            return;
        };
        let refs = projects.entry(change.project.clone()).or_default();
        refs.refs.insert(change.proposal_ref(), patchset.clone());
        let record = ChangeRecord { change, patchset, subject: topic.to_owned(), depends_on, votes };
        refs.changes.insert(record.change.branch(), record);
    }

    /// A change as watchers saw it last.
    pub(super) fn seen_change(&self, topic: &str) -> Option<&ChangeRecord> {
        self.seen.open(LOCAL).find(|record| record.change.topic == topic)
    }

    /// An event about a change.
    pub(super) fn trigger(&self, kind: EventKind, change: &Change, newrev: Sha, enqueues: bool) -> Input {
        let event = Event {
            kind,
            connection: LOCAL.to_owned(),
            project: change.project.clone(),
            reference: change.proposal_ref(),
            change: Some(change.clone()),
            oldrev: Sha::zero(),
            newrev,
            votes: Vec::new(),
            comment: None,
            by: "ada".to_owned(),
            pipeline: None,
        };
        Input::Trigger(Trigger { event, enqueues })
    }

    /// Requests that the state waits for, those of the head first.
    pub(super) fn awaited(&self) -> Vec<Id> {
        let items = self.state.record.queues.iter().flat_map(|queue| &self.state.queues[queue].items);
        items.flat_map(|item| invariants::requests(&self.state.items[item].buildset)).collect()
    }

    /// A merger has tried a merge.
    pub(super) fn merge_outcome(&mut self, request: &Id, merged: Merged) -> Input {
        let Params::Merge(params) = self.asked[request].clone() else { panic!("{request} is no merge") };
        let tip = self.tips[&params.change.project].clone();
        let mut state = params.onto.unwrap_or(BranchState { base: tip, links: Vec::new() });
        let parent = state.head().clone();
        let result = match merged {
            Merged::Yes | Merged::WithConfig(_) => {
                let patchset = self.labels[&params.patchset].trim_end_matches("/1");
                let commit = self.commit(format!("{}+{patchset}", self.labels[&parent]));
                state.links.push(Link { change: params.change, patchset: params.patchset, commit });
                let config = match merged {
                    Merged::WithConfig(text) => Some(BTreeMap::from([("zuul.yaml".to_owned(), text)])),
                    _ => None,
                };
                let file = if config.is_some() { "zuul.yaml" } else { "README" };
                MergeResult::Merged { state, parent, files: Some(vec![file.to_owned()]), config }
            }
            Merged::Clash => MergeResult::Conflict { message: format!("clash with {}", self.label(&parent)) },
            Merged::No(message) => MergeResult::Failed { message },
        };
        Input::Outcome(Outcome::Merge { request: request.clone(), buildset: params.buildset, result })
    }

    /// A merger has looked where branches are.
    pub(super) fn tips_outcome(&self, request: &Id, trouble: Option<String>) -> Input {
        let Params::Tips(params) = self.asked[request].clone() else { panic!("{request} asks for no tips") };
        let tip = |(source, branch): (menagerie_znodes::pipelines::Source, String)| {
            let sha = self.tips[&source.project].clone();
            (source.project, branch, sha)
        };
        let tips = trouble.map_or_else(|| Ok(params.wanted.into_iter().map(tip).collect()), Err);
        Input::Outcome(Outcome::Tips { request: request.clone(), buildset: params.buildset, tips })
    }

    /// A build has ended.
    pub(super) fn build_outcome(&self, build: &Id, result: &str) -> Input {
        let Params::Build(params) = self.asked[build].clone() else { panic!("{build} is no build") };
        let outcome = Outcome::Build {
            build: build.clone(),
            buildset: params.buildset,
            result: result.to_owned(),
            start_ms: self.steps,
            end_ms: self.steps,
            executor: "executor-1".to_owned(),
            detail: None,
        };
        Input::Outcome(outcome)
    }

    /// Pushes what an item has tested, as git would: only from the commit that it was merged into, and only while the
    /// proposal is where it was.
    pub(super) fn push(&mut self, item: &Id) -> Input {
        let item = &self.state.items[item];
        let change = item.record.subject.change().expect("only changes are pushed").clone();
        let MergeStep::Done { commit, parent, .. } = &item.buildset.record.merge else {
            panic!("pushed unmerged")
        };
        let (commit, buildset) = (commit.clone(), item.record.buildset.clone());
        let patchset = match &item.record.subject {
            menagerie_znodes::pipelines::Subject::Change { patchset, .. } => patchset,
            menagerie_znodes::pipelines::Subject::Ref { .. } => panic!("only changes are pushed"),
        };
        let is_there =
            self.proposals.get(&change.topic).is_some_and(|proposal| proposal.patchset == *patchset);
        let result = if !is_there {
            PushResult::Refused("the proposal has moved".to_owned())
        } else if self.tips[&change.project] != *parent {
            PushResult::TargetMoved
        } else {
            self.proposals.remove(&change.topic);
            self.tips.insert(change.project.clone(), commit.clone());
            self.merged_refs.entry(change.project.clone()).or_default().insert(change.merged_ref(), commit);
            PushResult::Merged
        };
        Input::Pushed { buildset, result }
    }

    /// One step of the core, checked.
    pub(super) fn step(&mut self, inputs: Vec<Input>) -> Passed {
        let before = self.state.clone();
        let effects = self.raw_step(inputs);
        if let Err(broken) =
            invariants::all(&self.state).and(invariants::step(&before, &self.state, &effects))
        {
            panic!("does not hold: {broken}\nbefore: {before:#?}\nafter: {:#?}\n{effects:#?}", self.state);
        }
        for effect in &effects {
            if let Effect::Submit { id, params, .. } = effect {
                assert!(self.asked.insert(id.clone(), params.clone()).is_none(), "{id} is submitted twice");
            }
        }
        let new = self.state.reports.iter().filter(|(id, _)| !before.reports.contains_key(*id));
        let new: Vec<_> = new.map(|(id, report)| (id.clone(), report.clone())).collect();
        let (ids, reports): (Vec<Id>, Vec<_>) = new.into_iter().unzip();
        self.expect_quiet_step(ids.into_iter().map(Input::Reported).collect());
        assert_eq!(self.state.reports, BTreeMap::new());
        self.expect_quiet_step(Vec::new());
        let mut history: Vec<_> = reports.iter().filter_map(|report| report.history.clone()).collect();
        history.sort_by_key(|record| record.ltime);
        Passed {
            before,
            effects,
            history,
            notes: reports.into_iter().flat_map(|report| report.notes).collect(),
        }
    }

    fn expect_quiet_step(&mut self, inputs: Vec<Input>) {
        let (before, drawn) = (State { reports: BTreeMap::new(), ..self.state.clone() }, self.drawn);
        let effects = self.raw_step(inputs);
        assert_eq!((effects, self.drawn), (Vec::new(), drawn), "a step without news has effects");
        assert_eq!(
            State { reports: BTreeMap::new(), ..self.state.clone() },
            before,
            "a step without news changes state"
        );
    }

    fn raw_step(&mut self, inputs: Vec<Input>) -> Vec<Effect> {
        self.steps += 1;
        let submit = BTreeMap::from([(LOCAL.to_owned(), BTreeMap::from([("Approved".to_owned(), 1)]))]);
        let facts = Facts {
            now_ms: self.steps,
            ltime: self.steps,
            pipeline: &self.pipeline,
            config: &self.config,
            refs: &self.seen,
            submit: &submit,
        };
        let drawn = &mut self.drawn;
        let mut draw = || {
            *drawn += 1;
            id(&format!("{drawn:032x}"))
        };
        let effects;
        (self.state, effects) = step(std::mem::take(&mut self.state), inputs, &facts, &mut draw);
        effects
    }
}

fn config(projects: &[&str], texts: &BTreeMap<String, String>, edition: u32) -> TenantConfig {
    let untrusted =
        projects.iter().filter(|project| **project != "config").copied().collect::<Vec<_>>().join(", ");
    let tenant = format!(
        "- tenant:\n    name: acme\n    source:\n      local:\n        config-projects: [config]\n        untrusted-projects: [{untrusted}]\n"
    );
    let tenant = tenants(&tenant).unwrap().remove(0);
    let file = |project: &&str| SourceFile {
        project: (*project).to_owned(),
        branch: "main".to_owned(),
        path: "zuul.yaml".to_owned(),
        text: texts[*project].clone(),
    };
    let branches =
        projects.iter().map(|name| ((*name).to_owned(), BTreeSet::from(["main".to_owned()]))).collect();
    let hosts = BTreeMap::from([(LOCAL.to_owned(), "localhost".to_owned())]);
    TenantConfig::new(edition.to_string(), tenant, hosts, branches, projects.iter().map(file).collect())
}

fn id(text: &str) -> Id {
    text.parse().unwrap()
}

/// Some commit: a function of the text.
fn sha(text: &str) -> Sha {
    let hash = |seed: u64| {
        text.bytes().fold(seed, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
    };
    let (one, two) = (hash(0xcbf2_9ce4_8422_2325), hash(0x9e37_79b9_7f4a_7c15));
    Sha::new(format!("{one:016x}{two:016x}{:08x}", one as u32 ^ 0x5a5a_5a5a)).unwrap()
}
