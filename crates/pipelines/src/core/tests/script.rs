//! Plays the commands of a story. See `testdata/README.md` for the commands.

use menagerie_znodes::pipelines::{
    Action, Change, ChangeRecord, EventKind, Id, Management, Params, Sha, Vote,
};

use super::telling::{Fact, Names, facts, show, tell, topic};
use super::world::{Merged, PROJECTS, World};
use crate::core::{Input, PushResult, invariants};

pub(super) struct Script {
    world: World,
    names: Names,
    told: Vec<Fact>,
}

impl Script {
    pub(super) fn new(pipeline: &str) -> Self {
        Self { world: World::new(pipeline), names: Names::default(), told: Vec::new() }
    }

    /// Plays one command; returns what came of it.
    pub(super) fn play(&mut self, command: &str, body: &str) -> Vec<String> {
        self.told.clear();
        let words: Vec<&str> = command.split_whitespace().collect();
        let (verb, rest) = words.split_first().expect("a command has a verb");
        match (*verb, rest) {
            ("pipeline", [name]) => *self = Self::new(name),
            ("gate", []) => self.world.adjust_gate(body),
            ("config", [project]) => {
                self.world.reconfigure(&PROJECTS, project, body.to_owned());
                self.step(Vec::new(), false);
            }
            ("forget", [project]) => {
                let projects: Vec<&str> = PROJECTS.into_iter().filter(|name| name != project).collect();
                self.world.reconfigure(&projects, project, String::new());
                self.step(Vec::new(), false);
            }
            ("propose", [project, topic, "needs", needed @ ..]) => self.propose(project, topic, needed),
            ("propose", [project, topics @ ..]) => {
                topics.iter().for_each(|topic| self.propose(project, topic, &[]))
            }
            ("patchset", [topic]) => {
                self.propose(&self.world.proposals[*topic].change.project.clone(), topic, &[])
            }
            ("approve", topics) => topics.iter().for_each(|topic| self.approve(topic)),
            ("unapprove", [topic]) => {
                self.world.proposals.get_mut(*topic).expect("it is open").votes.clear();
                self.world.see_change(topic);
                self.step(Vec::new(), false);
            }
            ("abandon", [topic]) => {
                let change = self.world.proposals.remove(*topic).expect("it is open").change;
                self.world.see_change(topic);
                let event = self.world.trigger(EventKind::ChangeAbandoned, &change, Sha::zero(), false);
                self.step(vec![event], false);
            }
            ("dequeue", [topic]) => self.manage(Action::Dequeue, topic),
            ("enqueue", [topic]) => self.manage(Action::Enqueue, topic),
            ("push-by-hand", [project]) => self.world.move_branch(project),
            ("merge-by-hand", [topic]) => self.world.merge_by_hand(topic),
            ("see", []) => {
                self.world.see();
                self.step(Vec::new(), false);
            }
            ("settle", []) => self.settle(),
            ("show", []) => return show(&self.world, &self.names),
            _ => self.answer(verb, rest, body),
        }
        let is_preparation =
            matches!(*verb, "pipeline" | "gate" | "config" | "propose" | "push-by-hand" | "merge-by-hand");
        if is_preparation && self.told.is_empty() { Vec::new() } else { tell(&self.told) }
    }

    /// Commands by which mergers, executors and git answer.
    fn answer(&mut self, verb: &str, rest: &[&str], body: &str) {
        let inputs = match (verb, rest) {
            ("merged", [set]) if body.is_empty() => vec![self.merge(set, Merged::Yes)],
            ("merged", [set]) => vec![self.merge(set, Merged::WithConfig(body.to_owned()))],
            ("clash", [set]) => vec![self.merge(set, Merged::Clash)],
            ("no-merge", [set, why @ ..]) => vec![self.merge(set, Merged::No(why.join(" ")))],
            ("no-tips", [set, why @ ..]) => {
                let request = self.request(set, |params| matches!(params, Params::Tips(_)));
                vec![self.world.tips_outcome(&request, Some(why.join(" ")))]
            }
            ("pass", sets) => sets.iter().flat_map(|set| self.pass(set)).collect(),
            ("fail", [set, job]) => vec![self.build(set, job, "FAILURE")],
            ("lose", [set, job]) => vec![self.build(set, job, "ABORTED")],
            ("result", [set, job, result]) => vec![self.build(set, job, result)],
            ("push", [topic]) => vec![self.world.push(&self.item(topic))],
            ("push", [topic, "refused", why @ ..]) => {
                let buildset = self.world.state.items[&self.item(topic)].record.buildset.clone();
                vec![Input::Pushed { buildset, result: PushResult::Refused(why.join(" ")) }]
            }
            _ => panic!("there is no command {verb} {}", rest.join(" ")),
        };
        self.step(inputs, false);
    }

    fn step(&mut self, inputs: Vec<Input>, is_settling: bool) {
        let passed = self.world.step(inputs);
        self.told.extend(facts(&self.world, &mut self.names, &passed, is_settling));
    }

    fn is_check(&self) -> bool {
        self.world.state.record.manager == "independent"
    }

    fn propose(&mut self, project: &str, topic: &str, needed: &[&str]) {
        // What is not proposed is named in full.
        let name = |topic: &&str| {
            let proposal = self.world.proposals.get(*topic);
            proposal.map_or_else(|| (*topic).to_owned(), |proposal| proposal.change.to_string())
        };
        let depends_on = needed.iter().map(name).collect();
        self.world.propose(project, topic, depends_on);
        self.world.see_change(topic);
        self.step(Vec::new(), false);
        let proposal = self.world.proposals[topic].clone();
        let kind = EventKind::PatchsetCreated;
        let event = self.world.trigger(kind, &proposal.change, proposal.patchset, self.is_check());
        self.step(vec![event], false);
    }

    fn approve(&mut self, topic: &str) {
        // It may be merged, and nobody has seen that.
        if let Some(proposal) = self.world.proposals.get_mut(topic) {
            proposal.votes = vec![Vote { label: "Approved".to_owned(), value: 1, by: "ada".to_owned() }];
            self.world.see_change(topic);
        }
        let ChangeRecord { change, patchset, .. } =
            self.world.seen_change(topic).expect("it is open").clone();
        let event = self.world.trigger(EventKind::CommentAdded, &change, patchset, !self.is_check());
        self.step(vec![event], false);
    }

    fn manage(&mut self, action: Action, topic: &str) {
        let known = self.world.proposals.get(topic).map(|proposal| proposal.change.clone());
        let unknown =
            || Change { project: "app".to_owned(), target: "main".to_owned(), topic: topic.to_owned() };
        let answer = "answer".parse().unwrap();
        let change = known.unwrap_or_else(unknown);
        self.step(vec![Input::Management(Management { answer, action, change })], false);
    }

    /// Mergers answer all that they are asked, and succeed.
    fn settle(&mut self) {
        loop {
            let mut inputs = Vec::new();
            for id in self.world.awaited() {
                match self.world.asked[&id] {
                    Params::Merge(_) => inputs.push(self.world.merge_outcome(&id, Merged::Yes)),
                    Params::Tips(_) => inputs.push(self.world.tips_outcome(&id, None)),
                    Params::Cat(_) | Params::Build(_) => {}
                }
            }
            if inputs.is_empty() {
                break;
            }
            self.step(inputs, true);
        }
    }

    fn item(&self, name: &str) -> Id {
        let items = self.world.state.items.iter().filter(|(_, item)| topic(item) == name);
        let found = items.max_by_key(|(_, item)| item.record.is_live);
        found.unwrap_or_else(|| panic!("{name} is not queued")).0.clone()
    }

    /// A request of a buildset: `a` is the current one of the change `a`, `a.1` its first.
    fn request(&self, set: &str, is_meant: impl Fn(&Params) -> bool) -> Id {
        let buildset = match self.names.find(set) {
            Some(id) => id.clone(),
            None => self.world.state.items[&self.item(set)].record.buildset.clone(),
        };
        let is_of_set = |params: &Params| match params {
            Params::Merge(params) => params.buildset == buildset,
            Params::Tips(params) => params.buildset == buildset,
            Params::Build(params) => params.buildset == buildset,
            Params::Cat(_) => false,
        };
        let found = self.world.asked.iter().rev().find(|(_, params)| is_of_set(params) && is_meant(params));
        found.unwrap_or_else(|| panic!("{set} has asked for no such thing")).0.clone()
    }

    fn merge(&mut self, set: &str, merged: Merged) -> Input {
        let request = self.request(set, |params| matches!(params, Params::Merge(_)));
        self.world.merge_outcome(&request, merged)
    }

    fn build(&self, set: &str, job: &str, result: &str) -> Input {
        let request =
            self.request(set, |params| matches!(params, Params::Build(params) if params.job.name == job));
        self.world.build_outcome(&request, result)
    }

    /// All builds that run succeed.
    fn pass(&self, topic: &str) -> Vec<Input> {
        let builds = invariants::requests(&self.world.state.items[&self.item(topic)].buildset);
        builds.iter().map(|build| self.world.build_outcome(build, "SUCCESS")).collect()
    }
}
