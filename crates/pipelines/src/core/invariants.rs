//! What holds after every step: of the state alone ([`all`]), and between a state and the next ([`step`]).

use std::collections::BTreeSet;

use menagerie_znodes::pipelines::{Id, JobsStep, Link, MergeStep, Params, Subject};

use super::{Buildset, Effect, Item, State};

type Invariant = fn(&State) -> bool;

/// All of the state; `Err` names the one that does not hold.
pub fn all(state: &State) -> Result<(), &'static str> {
    let named: [(Invariant, &str); 8] = [
        (every_item_is_in_one_queue, "every item is in one queue"),
        (items_are_linked_to_items_before_them, "items are linked to items before them"),
        (nobody_counts_on_a_failing_item, "nobody counts on a failing item"),
        (items_are_tested_on_top_of_the_one_ahead, "items are tested on top of the one ahead"),
        (a_patchset_is_tested_once_at_a_time, "a patchset is tested once at a time"),
        (a_job_has_one_deciding_build, "a job has one deciding build"),
        (only_the_head_is_pushed, "only the head is pushed"),
        (what_is_pushed_has_succeeded, "what is pushed has succeeded"),
    ];
    named.into_iter().find(|(holds, _)| !holds(state)).map_or(Ok(()), |(_, name)| Err(name))
}

/// All of a step; `Err` names the one that does not hold.
pub fn step(before: &State, after: &State, effects: &[Effect]) -> Result<(), &'static str> {
    let named: [(bool, &str); 5] = [
        (new_requests_are_submitted_once(before, after, effects), "new requests are submitted once"),
        (only_active_items_ask(before, after), "only active items ask for something"),
        (only_what_is_not_pushed_is_made_again(after, effects), "only what is not pushed is made again"),
        (a_buildset_ends_once(before, after), "a buildset ends once"),
        (results_are_in_order(before, after), "results are in order"),
    ];
    named.into_iter().find(|(holds, _)| !holds).map_or(Ok(()), |(_, name)| Err(name))
}

/// The requests whose results a buildset waits for.
pub fn requests(buildset: &Buildset) -> Vec<Id> {
    let merge = match &buildset.record.merge {
        MergeStep::Pending { request } => Some(request),
        MergeStep::New | MergeStep::Done { .. } | MergeStep::Failed { .. } => None,
    };
    let tips = match &buildset.record.jobs {
        JobsStep::Tips { request, .. } => Some(request),
        JobsStep::New | JobsStep::Ready { .. } | JobsStep::Failed { .. } => None,
    };
    let builds = buildset.jobs.iter().filter_map(|job| job.in_flight()).map(|build| &build.id);
    merge.into_iter().chain(tips).chain(builds).cloned().collect()
}

fn every_item_is_in_one_queue(state: &State) -> bool {
    let listed: Vec<&Id> = state.queues.values().flat_map(|queue| &queue.items).collect();
    let known: BTreeSet<&Id> = state.items.keys().collect();
    listed.len() == known.len() && listed.into_iter().collect::<BTreeSet<_>>() == known
}

fn items_are_linked_to_items_before_them(state: &State) -> bool {
    state.queues.values().all(|queue| {
        queue.items.iter().enumerate().all(|(at, id)| {
            let ahead = state.items.get(id).and_then(|item| item.record.item_ahead.as_ref());
            ahead.is_none_or(|ahead| queue.items[..at].contains(ahead))
        })
    })
}

/// Unless it fails with it.
fn nobody_counts_on_a_failing_item(state: &State) -> bool {
    state.items.values().all(|item| {
        let is_failing = |item: &Item| !item.record.failing.is_empty();
        item_ahead(state, item).is_none_or(|ahead| !is_failing(ahead) || is_failing(item))
    })
}

fn items_are_tested_on_top_of_the_one_ahead(state: &State) -> bool {
    let is_queued = |link: &Link| {
        let subject = Subject::Change { change: link.change.clone(), patchset: link.patchset.clone() };
        state.items.values().any(|item| item.record.subject == subject)
    };
    state.items.values().all(|item| {
        let MergeStep::Done { parent, .. } = &item.buildset.record.merge else { return true };
        let Some(ahead) = item_ahead(state, item).map(|ahead| &ahead.buildset) else { return true };
        let (MergeStep::Done { .. }, Some(ahead)) = (&ahead.record.merge, &ahead.state) else { return false };
        let own = (item.record.subject.project(), item.record.subject.branch().unwrap_or_default());
        let branches =
            ahead.0.iter().flat_map(|(project, found)| found.iter().map(move |one| (project, one)));
        // Others are merged by now, and looked at anew.
        let mut speculative = branches.filter(|(_, (_, branch))| branch.links.last().is_some_and(is_queued));
        speculative.all(|(project, (name, branch))| {
            let ours = item.buildset.state.as_ref().and_then(|ours| ours.branch(project, name));
            let ours = if (project.as_str(), name.as_str()) == own {
                Some(parent)
            } else {
                ours.map(|ours| ours.head())
            };
            ours == Some(branch.head())
        })
    })
}

fn a_patchset_is_tested_once_at_a_time(state: &State) -> bool {
    let live: Vec<&Subject> =
        state.items.values().filter(|item| item.record.is_live).map(|item| &item.record.subject).collect();
    live.len() == live.iter().collect::<BTreeSet<_>>().len()
}

fn a_job_has_one_deciding_build(state: &State) -> bool {
    let mut jobs = state.items.values().flat_map(|item| &item.buildset.jobs);
    jobs.all(|job| job.builds.iter().filter(|build| build.record.is_final).count() <= 1)
}

fn only_the_head_is_pushed(state: &State) -> bool {
    state.queues.values().all(|queue| {
        queue.items.iter().skip(1).all(|id| state.items.get(id).is_none_or(|item| !item.record.is_pushing))
    })
}

fn what_is_pushed_has_succeeded(state: &State) -> bool {
    let mut pushed = state.items.values().filter(|item| item.record.is_pushing);
    pushed.all(|item| {
        let mut jobs = item.buildset.jobs.iter().filter(|job| job.record.job.is_voting);
        item.record.failing.is_empty()
            && matches!(item.buildset.record.merge, MergeStep::Done { .. })
            && item.buildset.is_complete()
            && item.buildset.jobs.iter().any(|job| job.result() == Some("SUCCESS"))
            && jobs.all(|job| matches!(job.result(), Some("SUCCESS" | "SKIPPED")))
    })
}

fn new_requests_are_submitted_once(before: &State, after: &State, effects: &[Effect]) -> bool {
    let of = |state: &State| {
        state.items.values().flat_map(|item| requests(&item.buildset)).collect::<BTreeSet<Id>>()
    };
    let mut submitted: Vec<&Id> = Vec::new();
    for effect in effects {
        match effect {
            Effect::Submit { id, .. } => submitted.push(id),
            Effect::Answer { .. } => {}
        }
    }
    let (before, after) = (of(before), of(after));
    let new: BTreeSet<&Id> = after.difference(&before).collect();
    submitted.len() == new.len() && submitted.into_iter().collect::<BTreeSet<_>>() == new
}

fn only_active_items_ask(before: &State, after: &State) -> bool {
    after.items.iter().all(|(id, item)| {
        let known = before.items.get(id).map(|item| requests(&item.buildset)).unwrap_or_default();
        item.record.is_active || requests(&item.buildset).iter().all(|request| known.contains(request))
    })
}

/// Otherwise requests would grow as long as a queue is never empty.
fn only_what_is_not_pushed_is_made_again(after: &State, effects: &[Effect]) -> bool {
    let is_pushed = |link: &Link| {
        after
            .record
            .merged
            .iter()
            .any(|merged| merged.change == link.change && merged.patchset == link.patchset)
    };
    effects.iter().all(|effect| match effect {
        Effect::Submit { params: Params::Merge(params), .. } => {
            !params.onto.iter().flat_map(|onto| &onto.links).any(is_pushed)
        }
        Effect::Submit { .. } | Effect::Answer { .. } => true,
    })
}

/// Results of the buildsets that ended in a step, in order.
fn ended<'a>(before: &'a State, after: &'a State) -> Vec<(&'a Id, &'a str)> {
    let new = after.reports.iter().filter(|(id, _)| !before.reports.contains_key(*id));
    let mut records: Vec<_> = new.filter_map(|(_, report)| report.history.as_ref()).collect();
    records.sort_by_key(|record| record.ltime);
    records.into_iter().map(|record| (&record.uuid, record.result.as_str())).collect()
}

fn a_buildset_ends_once(before: &State, after: &State) -> bool {
    let ended: Vec<&Id> = ended(before, after).into_iter().map(|(buildset, _)| buildset).collect();
    let is_alive = |buildset: &&Id| after.items.values().any(|item| item.record.buildset == **buildset);
    ended.len() == ended.iter().collect::<BTreeSet<_>>().len() && !ended.iter().any(is_alive)
}

/// What was decided by a test was at the head; what was ahead of it has ended before.
fn results_are_in_order(before: &State, after: &State) -> bool {
    let ended = ended(before, after);
    let ends_at =
        |item: &Id| ended.iter().position(|(buildset, _)| **buildset == before.items[item].record.buildset);
    before.queues.values().all(|queue| {
        let live: Vec<&Id> = queue.items.iter().filter(|id| before.items[*id].record.is_live).collect();
        let mut decided = live.iter().enumerate().filter_map(|(at, id)| {
            let end = ends_at(id).filter(|end| !matches!(ended[*end].1, "CANCELED" | "DEQUEUED"))?;
            Some((at, end))
        });
        let is_before =
            |id: &Id, end| !after.items.contains_key(id) && ends_at(id).is_some_and(|ahead| ahead < end);
        decided.all(|(at, end)| live[..at].iter().all(|ahead| is_before(ahead, end)))
    })
}

fn item_ahead<'a>(state: &'a State, item: &Item) -> Option<&'a Item> {
    item.record.item_ahead.as_ref().and_then(|ahead| state.items.get(ahead))
}
