//! Tells in words what a step did.

use std::collections::BTreeMap;

use menagerie_znodes::pipelines::{HistoryRecord, Id, MergeStep, Params};

use super::world::{Passed, World};
use crate::core::{Buildset, Effect, Item, State};

/// Names of buildsets: `a.2` is the second one of the change `a`.
#[derive(Default)]
pub(super) struct Names {
    sets: BTreeMap<Id, String>,
    counts: BTreeMap<String, u32>,
}

/// Something that happened: lines that differ in `who` only are told as one.
pub(super) struct Fact {
    verb: &'static str,
    who: String,
    rest: String,
}

impl Names {
    fn learn(&mut self, state: &State) {
        for item in
            state.record.queues.iter().flat_map(|queue| &state.queues[queue].items).map(|id| &state.items[id])
        {
            if !self.sets.contains_key(&item.record.buildset) {
                let topic = topic(item);
                let count = self.counts.entry(topic.clone()).or_default();
                *count += 1;
                self.sets.insert(item.record.buildset.clone(), format!("{topic}.{count}"));
            }
        }
    }

    pub(super) fn of(&self, buildset: &Id) -> &str {
        self.sets.get(buildset).map_or("refused", String::as_str)
    }

    /// The buildset of this name.
    pub(super) fn find(&self, name: &str) -> Option<&Id> {
        self.sets.iter().find(|(_, set)| *set == name).map(|(id, _)| id)
    }
}

pub(super) fn topic(item: &Item) -> String {
    item.record
        .subject
        .change()
        .map_or_else(|| item.record.subject.reference(), |change| change.topic.clone())
}

/// What a step did. `is_settling`: mergers answer at once, so nobody wants to know what they were asked.
pub(super) fn facts(world: &World, names: &mut Names, passed: &Passed, is_settling: bool) -> Vec<Fact> {
    names.learn(&world.state);
    let mut facts = of_items(names, &passed.before, &world.state);
    for (id, queue) in &world.state.queues {
        let window = passed.before.queues.get(id).map(|queue| queue.window);
        if let Some(before) = window.filter(|before| *before != queue.window) {
            facts.push(Fact::new("window", format!("{} -> {}", before, queue.window), ""));
        }
    }
    facts.extend(passed.history.iter().map(|record| of_history(names, record)));
    for note in passed.notes.iter().filter(|note| !note.line.votes.is_empty()) {
        let votes: Vec<String> =
            note.line.votes.iter().map(|(label, value)| format!("{label}={value}")).collect();
        facts.push(Fact::new("vote", world.label(&note.patchset), votes.join(" ")));
    }
    for effect in &passed.effects {
        match effect {
            Effect::Submit { params, .. } => facts.extend(of_request(world, names, params, is_settling)),
            Effect::Answer { error, .. } => {
                facts.push(Fact::new("answer", error.clone().unwrap_or_else(|| "done".to_owned()), ""));
            }
        }
    }
    for item in world.state.items.values().filter(|item| item.record.is_pushing) {
        let was = passed.before.items.values().any(|old| old.record.is_pushing && old.record == item.record);
        if let (false, MergeStep::Done { commit, parent, .. }) = (was, &item.buildset.record.merge) {
            let rest = format!("from {} to {}", world.label(parent), world.label(commit));
            facts.push(Fact::new("push", names.of(&item.record.buildset), rest));
        }
    }
    facts
}

fn of_items(names: &Names, before: &State, after: &State) -> Vec<Fact> {
    let mut facts = Vec::new();
    let items = after.record.queues.iter().flat_map(|queue| &after.queues[queue].items);
    for (id, item) in items.map(|id| (id, &after.items[id])) {
        let Some(old) = before.items.get(id) else {
            facts.push(Fact::new(
                "enqueue",
                topic(item),
                if item.record.is_live { "" } else { "(not live)" },
            ));
            continue;
        };
        if old.record.failing != item.record.failing && !item.record.failing.is_empty() {
            facts.push(Fact::new("failing", topic(item), format!("({})", item.record.failing.join("; "))));
        }
        let ahead = |state: &State, item: &Item| {
            item.record.item_ahead.as_ref().map(|ahead| topic(&state.items[ahead]))
        };
        // That the one ahead has left is told anyway.
        let is_relinked = old.record.item_ahead != item.record.item_ahead
            && old.record.item_ahead.as_ref().is_none_or(|ahead| after.items.contains_key(ahead));
        if is_relinked {
            let ahead = ahead(after, item).unwrap_or_else(|| "nothing".to_owned());
            facts.push(Fact::new("relink", topic(item), format!("to follow {ahead}")));
        }
        if old.record.buildset != item.record.buildset {
            facts.push(Fact::new("reset", names.of(&old.record.buildset), ""));
        }
        match (old.record.is_active, item.record.is_active) {
            (true, false) => facts.push(Fact::new("inactive", topic(item), "")),
            (false, true) => facts.push(Fact::new("active", topic(item), "")),
            (true, true) | (false, false) => {}
        }
        let skipped = |set: &Buildset| {
            let jobs = set.jobs.iter().filter(|job| job.record.is_skipped);
            jobs.map(|job| job.record.job.name.clone()).collect::<Vec<_>>()
        };
        let (old_skipped, skipped) = (skipped(&old.buildset), skipped(&item.buildset));
        for job in skipped.into_iter().filter(|job| !old_skipped.contains(job)) {
            facts.push(Fact::new("skip", names.of(&item.record.buildset), format!("job {job}")));
        }
    }
    facts
}

fn of_history(names: &Names, record: &HistoryRecord) -> Fact {
    let change = record.refs[0].change.as_deref().and_then(|change| change.rsplit('/').next()).unwrap_or("?");
    let who = match names.of(&record.uuid) {
        "refused" => change,
        set => set,
    };
    let mut rest = record.result.clone();
    if record.refs[0].merged {
        rest.push_str(", merged");
    }
    if let Some(message) = &record.message {
        rest.push_str(&format!(" ({message})"));
    }
    for build in &record.builds {
        let result = build.result.as_deref().unwrap_or("-");
        let last = if build.is_final { "" } else { " (not final)" };
        rest.push_str(&format!("; {} {result}{last}", build.job_name));
    }
    Fact::new("ended", who, rest)
}

fn of_request(world: &World, names: &Names, params: &Params, is_settling: bool) -> Option<Fact> {
    let onto = |onto: &Option<menagerie_znodes::pipelines::BranchState>| {
        onto.as_ref().map_or_else(|| "the branch".to_owned(), |state| world.label(state.head()))
    };
    match params {
        Params::Merge(_) | Params::Tips(_) if is_settling => None,
        Params::Merge(params) => {
            Some(Fact::new("merge", names.of(&params.buildset), format!("onto {}", onto(&params.onto))))
        }
        Params::Tips(params) => {
            let wanted = params.wanted.iter().map(|(source, branch)| format!("{}:{branch}", source.project));
            Some(Fact::new("look up", names.of(&params.buildset), wanted.collect::<Vec<_>>().join(" ")))
        }
        Params::Build(params) => {
            let attempt =
                if params.attempt > 1 { format!(", attempt {}", params.attempt) } else { String::new() };
            Some(Fact::new("run", names.of(&params.buildset), format!("{}{attempt}", params.job.name)))
        }
        Params::Cat(_) => None,
    }
}

impl Fact {
    fn new(verb: &'static str, who: impl Into<String>, rest: impl Into<String>) -> Self {
        Self { verb, who: who.into(), rest: rest.into() }
    }
}

/// Facts as lines, those of a kind together.
pub(super) fn tell(facts: &[Fact]) -> Vec<String> {
    let mut groups: Vec<(&str, &str, Vec<&str>)> = Vec::new();
    for fact in facts {
        match groups.iter_mut().find(|(verb, rest, _)| (*verb, *rest) == (fact.verb, fact.rest.as_str())) {
            Some((_, _, who)) => who.push(&fact.who),
            None => groups.push((fact.verb, &fact.rest, vec![&fact.who])),
        }
    }
    let line = |(verb, rest, who): (&str, &str, Vec<&str>)| {
        let line = format!("  {verb}: {} {rest}", ranges(&who));
        line.trim_end().to_owned()
    };
    if groups.is_empty() { vec!["  nothing".to_owned()] } else { groups.into_iter().map(line).collect() }
}

/// `b01 b02 b03 b04` as `b01..b04`.
fn ranges(names: &[&str]) -> String {
    let follows = |one: &str, next: &str| {
        let parts = |name: &str| {
            let at = name.find(|c: char| c.is_ascii_digit())?;
            let end = name[at..].find(|c: char| !c.is_ascii_digit()).map_or(name.len(), |end| at + end);
            Some((name[..at].to_owned(), name[at..end].parse::<u32>().ok()?, name[end..].to_owned()))
        };
        let (Some(one), Some(next)) = (parts(one), parts(next)) else { return false };
        (one.0, one.1 + 1, one.2) == next
    };
    let mut runs: Vec<Vec<&str>> = Vec::new();
    for name in names {
        match runs.last_mut() {
            Some(run) if run.last().is_some_and(|last| follows(last, name)) => run.push(name),
            _ => runs.push(vec![name]),
        }
    }
    let told = runs.into_iter().map(|run| match run.as_slice() {
        [first, _, .., last] => format!("{first}..{last}"),
        _ => run.join(" "),
    });
    told.collect::<Vec<_>>().join(" ")
}

/// The queues as they stand.
pub(super) fn show(world: &World, names: &Names) -> Vec<String> {
    let mut lines = Vec::new();
    for queue in world.state.record.queues.iter().map(|id| &world.state.queues[id]) {
        let window = if queue.window == 0 { "unlimited".to_owned() } else { queue.window.to_string() };
        lines.push(format!(
            "  queue {}, window {window}{}",
            queue.name,
            if queue.items.is_empty() { ", empty" } else { "" }
        ));
        for item in queue.items.iter().map(|id| &world.state.items[id]) {
            let mut words = vec![names.of(&item.record.buildset).to_owned()];
            words.push(match &item.buildset.record.merge {
                MergeStep::New => "waits".to_owned(),
                MergeStep::Pending { .. } => "is being merged".to_owned(),
                MergeStep::Done { commit, .. } => format!("is {}", world.label(commit)),
                MergeStep::Failed { .. } => "cannot be merged".to_owned(),
            });
            let jobs = item.buildset.jobs.iter();
            words.extend(jobs.map(|job| format!("{}={}", job.record.job.name, job.result().unwrap_or("-"))));
            for (word, holds) in [
                ("not live", !item.record.is_live),
                ("inactive", !item.record.is_active),
                ("failing", !item.record.failing.is_empty()),
                ("pushing", item.record.is_pushing),
            ] {
                words.extend(holds.then(|| format!("({word})")));
            }
            lines.push(format!("    {}", words.join(" ")));
        }
    }
    if lines.is_empty() { vec!["  there are no queues".to_owned()] } else { lines }
}
