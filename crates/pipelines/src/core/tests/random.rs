//! Random stories: whatever happens, in whatever order, invariants hold (see `world.rs`), only what was tested on the tip of
//! its branch is merged, nothing is tested anew without a reason, and everything ends.

use std::collections::{BTreeMap, BTreeSet};

use menagerie_znodes::pipelines::{
    Action, EventKind, HistoryRecord, Id, Management, MergeStep, Params, Sha, Vote,
};
use proptest::prelude::*;

use super::world::{Merged, PROJECTS, Passed, World};
use crate::core::{Input, Item, PushResult, State};

/// All changes; the project of each never changes.
const CHANGES: [(&str, &str); 7] =
    [("a", "app"), ("b", "lib"), ("c", "app"), ("d", "lib"), ("e", "other"), ("f", "app"), ("g", "other")];
/// More steps than any story needs to come to its end.
const DRAIN_MAX: usize = 300;

#[derive(Debug, Clone)]
enum Verb {
    /// A change, or a further patchset of it, that depends on some others.
    Propose(usize, Vec<usize>),
    Vote(usize, i64),
    Abandon(usize),
    Manage(Action, usize),
    /// The answer to one of the requests that are awaited.
    Answer(usize, Quality),
    /// The answers to all of them, and how a push ended, in one step.
    AnswerAll(Vec<Quality>),
    /// The answer to a request of the past, whether or not it was answered before.
    AnswerOld(usize, Quality),
    Push {
        is_refused: bool,
    },
    PushByHand(usize),
    MergeByHand(usize),
    See,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Quality {
    Good,
    Bad,
    /// The executor was lost, or the merger could not try.
    Lost,
}

/// All changes are proposed, and most of them approved; then anything happens.
fn stories() -> impl Strategy<Value = Vec<Verb>> {
    let proposals: Vec<_> =
        (0..CHANGES.len()).map(|at| needs(at).prop_map(move |needs| Verb::Propose(at, needs))).collect();
    let votes =
        prop::sample::subsequence((0..CHANGES.len()).collect::<Vec<_>>(), 3..=CHANGES.len()).prop_shuffle();
    (proposals, votes, prop::collection::vec(verb(), 1..150)).prop_map(|(proposals, votes, verbs)| {
        let votes = votes.into_iter().map(|at| Verb::Vote(at, 1));
        proposals.into_iter().chain(votes).chain(verbs).collect()
    })
}

/// What a change depends on: mostly nothing, or some that come before it; sometimes anything, itself included.
fn needs(at: usize) -> impl Strategy<Value = Vec<usize>> {
    prop_oneof![
        6 => Just(Vec::new()),
        4 => prop::collection::vec(0..at.max(1), usize::from(at > 0)..=usize::from(at > 0) * 2),
        1 => prop::collection::vec(0..CHANGES.len(), 0..3),
    ]
}

fn verb() -> impl Strategy<Value = Verb> {
    let change = 0..CHANGES.len();
    let quality =
        || prop_oneof![16 => Just(Quality::Good), 1 => Just(Quality::Bad), 1 => Just(Quality::Lost)];
    prop_oneof![
        2 => change.clone().prop_flat_map(|at| needs(at).prop_map(move |needs| Verb::Propose(at, needs))),
        6 => change.clone().prop_map(|at| Verb::Vote(at, 1)),
        1 => change.clone().prop_map(|at| Verb::Vote(at, 0)),
        1 => change.clone().prop_map(Verb::Abandon),
        1 => (prop_oneof![Just(Action::Enqueue), Just(Action::Dequeue)], change.clone())
            .prop_map(|(action, at)| Verb::Manage(action, at)),
        40 => (any::<usize>(), quality()).prop_map(|(at, quality)| Verb::Answer(at, quality)),
        4 => prop::collection::vec(quality(), 1..8).prop_map(Verb::AnswerAll),
        2 => (any::<usize>(), quality()).prop_map(|(at, quality)| Verb::AnswerOld(at, quality)),
        10 => prop::bool::weighted(0.05).prop_map(|is_refused| Verb::Push { is_refused }),
        1 => (1..PROJECTS.len()).prop_map(Verb::PushByHand),
        1 => change.prop_map(Verb::MergeByHand),
        2 => Just(Verb::See),
    ]
}

/// A story under way, and what is known about it besides the state of the core.
struct Run {
    world: World,
    /// Buildsets that ended.
    history: Vec<HistoryRecord>,
    /// What was pushed: buildset, parent and commit.
    pushed: Vec<(Id, Sha, Sha)>,
    /// Topics that were ever merged.
    merged: BTreeSet<String>,
}

impl Run {
    fn play(&mut self, verb: &Verb) {
        let is_check = self.world.state.record.manager == "independent";
        match verb {
            Verb::Propose(at, needs) => {
                let (topic, project) = CHANGES[*at];
                let name = |at: &usize| format!("{}:propose/main/{}", CHANGES[*at].1, CHANGES[*at].0);
                self.world.propose(project, topic, needs.iter().map(name).collect());
                self.tell(topic, EventKind::PatchsetCreated, is_check);
            }
            Verb::Vote(at, value) => {
                let topic = CHANGES[*at].0;
                let Some(proposal) = self.world.proposals.get_mut(topic) else { return };
                proposal.votes =
                    vec![Vote { label: "Approved".to_owned(), value: *value, by: "ada".to_owned() }];
                self.tell(topic, EventKind::CommentAdded, !is_check && *value > 0);
            }
            Verb::Abandon(at) => {
                let Some(proposal) = self.world.proposals.remove(CHANGES[*at].0) else { return };
                self.world.see_change(CHANGES[*at].0);
                let event =
                    self.world.trigger(EventKind::ChangeAbandoned, &proposal.change, Sha::zero(), false);
                self.step(vec![event]);
            }
            Verb::Manage(action, at) => {
                let Some(proposal) = self.world.proposals.get(CHANGES[*at].0) else { return };
                let (answer, change) = ("answer".parse().unwrap(), proposal.change.clone());
                self.step(vec![Input::Management(Management { answer, action: *action, change })]);
            }
            Verb::Answer(at, quality) => self.answer_any(self.world.awaited(), *at, *quality),
            Verb::AnswerAll(qualities) => {
                let awaited = self.world.awaited();
                let answers = awaited.iter().zip(qualities.iter().cycle());
                let mut inputs: Vec<Input> =
                    answers.map(|(id, quality)| self.answer_to(id, *quality)).collect();
                inputs.extend(self.push_any(false));
                self.deliver(inputs, qualities.iter().all(|quality| *quality == Quality::Good));
            }
            Verb::AnswerOld(at, quality) => {
                let awaited = self.world.awaited();
                let old = self.world.asked.keys().filter(|id| !awaited.contains(id)).cloned().collect();
                let before = self.world.state.clone();
                self.answer_any(old, *at, *quality);
                assert_eq!(self.world.state, before, "an answer that nobody waits for changes something");
            }
            Verb::Push { is_refused } => {
                let input = self.push_any(*is_refused);
                self.deliver(input.into_iter().collect(), true);
            }
            Verb::PushByHand(at) => self.world.move_branch(PROJECTS[*at]),
            Verb::MergeByHand(at) => {
                if self.world.proposals.contains_key(CHANGES[*at].0) {
                    self.world.merge_by_hand(CHANGES[*at].0);
                    self.merged.insert(CHANGES[*at].0.to_owned());
                }
            }
            Verb::See => {
                self.world.see();
                self.step(Vec::new());
            }
        }
    }

    fn tell(&mut self, topic: &str, kind: EventKind, enqueues: bool) {
        self.world.see_change(topic);
        let proposal = self.world.proposals[topic].clone();
        self.step(vec![self.world.trigger(kind, &proposal.change, proposal.patchset, enqueues)]);
    }

    fn answer_any(&mut self, requests: Vec<Id>, at: usize, quality: Quality) {
        if let Some(request) = requests.get(at % requests.len().max(1)) {
            let answer = self.answer_to(request, quality);
            self.deliver(vec![answer], quality == Quality::Good);
        }
    }

    fn answer_to(&mut self, request: &Id, quality: Quality) -> Input {
        match (&self.world.asked[request], quality) {
            (Params::Merge(_), Quality::Good) => self.world.merge_outcome(request, Merged::Yes),
            (Params::Merge(_), Quality::Bad) => self.world.merge_outcome(request, Merged::Clash),
            (Params::Merge(_), Quality::Lost) => {
                self.world.merge_outcome(request, Merged::No("gone".to_owned()))
            }
            (Params::Tips(_), Quality::Good) => self.world.tips_outcome(request, None),
            (Params::Tips(_), Quality::Bad | Quality::Lost) => {
                self.world.tips_outcome(request, Some("gone".to_owned()))
            }
            (Params::Build(_), Quality::Good) => self.world.build_outcome(request, "SUCCESS"),
            (Params::Build(_), Quality::Bad) => self.world.build_outcome(request, "FAILURE"),
            (Params::Build(_), Quality::Lost) => self.world.build_outcome(request, "ABORTED"),
            (Params::Cat(_), _) => panic!("the core reads no files"),
        }
    }

    /// The end of a push, if there is one under way.
    fn push_any(&mut self, is_refused: bool) -> Option<Input> {
        let (id, item) = self.world.state.items.iter().find(|(_, item)| item.record.is_pushing)?;
        let (id, item) = (id.clone(), item.clone());
        if is_refused {
            let result = PushResult::Refused("a hook says no".to_owned());
            return Some(Input::Pushed { buildset: item.record.buildset, result });
        }
        let input = self.world.push(&id);
        if matches!(&input, Input::Pushed { result: PushResult::Merged, .. }) {
            let MergeStep::Done { commit, parent, .. } = &item.buildset.record.merge else {
                panic!("it is merged")
            };
            self.pushed.push((item.record.buildset.clone(), parent.clone(), commit.clone()));
            self.merged.insert(topic(&item));
        }
        Some(input)
    }

    /// A step; if all is well in it, nothing may be tested anew.
    fn deliver(&mut self, inputs: Vec<Input>, is_well: bool) {
        let is_good =
            |input: &Input| !matches!(input, Input::Pushed { result, .. } if *result != PushResult::Merged);
        let is_well = is_well && inputs.iter().all(is_good);
        let passed = self.step(inputs);
        if is_well && passed.history.iter().all(|record| record.result == "SUCCESS") {
            assert_eq!(reset(&passed.before, &self.world.state), [], "tested anew although all is well");
        }
    }

    fn step(&mut self, inputs: Vec<Input>) -> Passed {
        let passed = self.world.step(inputs);
        self.history.extend(passed.history.iter().cloned());
        let was_pushing = |id: &Id| passed.before.items.get(id).is_some_and(|item| item.record.is_pushing);
        for (id, item) in self.world.state.items.iter().filter(|(_, item)| item.record.is_pushing) {
            if !was_pushing(id) {
                self.check_may_merge(item);
            }
        }
        passed
    }

    /// A merge takes votes, and all that the change depends on.
    fn check_may_merge(&self, item: &Item) {
        let record = self.world.seen_change(&topic(item)).expect("what is pushed is open");
        assert!(
            record.votes.iter().any(|vote| vote.label == "Approved" && vote.value > 0),
            "merged without votes"
        );
        for needed in record.depends_on.iter().filter_map(|needed| needed.rsplit('/').next()) {
            assert!(needed == record.change.topic || self.merged.contains(needed), "merged before {needed}");
        }
    }

    /// Everything that is asked for succeeds from now on.
    fn drain(&mut self) {
        for _ in 0..DRAIN_MAX {
            self.world.see();
            self.step(Vec::new());
            let mut inputs: Vec<Input> = self.push_any(false).into_iter().collect();
            for request in self.world.awaited() {
                inputs.push(self.answer_to(&request, Quality::Good));
            }
            if inputs.is_empty() {
                break;
            }
            self.deliver(inputs, true);
        }
        assert_eq!(self.world.state.items, BTreeMap::new(), "something stays queued");
    }

    fn check_history(&self) {
        let ends: BTreeSet<&Id> = self.history.iter().map(|record| &record.uuid).collect();
        assert_eq!(ends.len(), self.history.len(), "a buildset has two entries");
        assert!(self.history.is_sorted_by(|one, next| one.ltime < next.ltime), "ends are not in order");
        let is_merge = |record: &&HistoryRecord| record.refs[0].merged;
        let merged = self.history.iter().filter(is_merge).map(|record| {
            assert_eq!(record.result, "SUCCESS");
            let (parent, commit) = (record.refs[0].parent.clone(), record.refs[0].commit.clone());
            (record.uuid.clone(), parent.unwrap(), commit.unwrap())
        });
        assert_eq!(merged.collect::<Vec<_>>(), self.pushed, "the history tells what was pushed, in order");
        for record in &self.history {
            let mut deciding: Vec<&str> = record
                .builds
                .iter()
                .filter(|build| build.is_final)
                .map(|build| build.job_name.as_str())
                .collect();
            let count = deciding.len();
            deciding.sort_unstable();
            deciding.dedup();
            assert_eq!(deciding.len(), count, "a job has two deciding builds");
            assert!(
                record.builds.iter().all(|build| build.result.is_some()),
                "a build has ended without a result"
            );
        }
    }
}

fn topic(item: &Item) -> String {
    item.record.subject.change().expect("only changes are enqueued").topic.clone()
}

/// Buildsets that were thrown away.
fn reset(before: &State, after: &State) -> Vec<Id> {
    let items = before.items.iter().filter_map(|(id, old)| Some((old, after.items.get(id)?)));
    items
        .filter(|(old, new)| old.record.buildset != new.record.buildset)
        .map(|(old, _)| old.record.buildset.clone())
        .collect()
}

proptest! {
    #[test]
    fn only_what_was_tested_is_merged_and_everything_ends(verbs in stories(), is_gate in prop::bool::weighted(0.8), window in 1_u32..6) {
        let mut world = World::new(if is_gate { "gate" } else { "check" });
        world.adjust_gate(&format!("window: {window}\nwindow-floor: 1"));
        let mut run = Run { world, history: Vec::new(), pushed: Vec::new(), merged: BTreeSet::new() };
        run.step(Vec::new());
        for verb in &verbs {
            run.play(verb);
        }
        run.drain();
        run.check_history();
    }
}
