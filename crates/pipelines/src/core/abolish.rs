//! The configuration has a pipeline no longer: everything in it is dequeued, but for what is being pushed. Only git can tell
//! what becomes of that.

use menagerie_znodes::pipelines::{Id, ItemRecord, ReportRecord};

use super::{DrawId, Effect, Facts, Input, PushResult, State, report};

pub(super) fn abolish(
    mut state: State,
    inputs: Vec<Input>,
    facts: &Facts<'_>,
    draw: DrawId<'_>,
) -> (State, Vec<Effect>) {
    state.record.layout = facts.config.id().to_owned();
    let (mut effects, mut ended) = (Vec::new(), 0);
    let mut end = |state: &mut State, id: &Id, result, message: Option<&str>| {
        ended += 1;
        if let Some(item) = state.items.get_mut(id) {
            item.buildset.cancel_builds(facts.now_ms);
        }
        let history = report::history(state, id, facts, ended, result, message.map(str::to_owned));
        if history.is_some() {
            state.reports.insert(draw(), ReportRecord { history, notes: Vec::new() });
        }
        state.items.remove(id);
    };
    for input in inputs {
        match input {
            Input::Management(request) => {
                let error = Some(format!("there is no pipeline {}", facts.pipeline.pipeline));
                effects.push(Effect::Answer { id: request.answer, error });
            }
            Input::Reported(report) => drop(state.reports.remove(&report)),
            Input::Pushed { buildset, result } => match (find_pushed(&mut state, &buildset), result) {
                (Some(id), PushResult::Merged) => {
                    state.remember_merge(&id);
                    end(&mut state, &id, "SUCCESS", None);
                }
                (Some(_), PushResult::TargetMoved | PushResult::Refused(_)) | (None, _) => {}
            },
            Input::Trigger(_) | Input::Outcome(_) => {}
        }
    }
    let queued: Vec<Id> =
        state.record.queues.iter().flat_map(|queue| state.queues[queue].items.clone()).collect();
    for id in queued {
        if state.items.get(&id).is_some_and(|item| !item.record.is_pushing) {
            end(&mut state, &id, "DEQUEUED", Some("the pipeline was removed"));
        }
    }
    for queue in state.queues.values_mut() {
        queue.items.retain(|id| state.items.contains_key(id));
    }
    state.queues.retain(|_, queue| !queue.items.is_empty());
    state.record.queues.retain(|id| state.queues.contains_key(id));
    (state, effects)
}

/// The item whose push has ended.
fn find_pushed(state: &mut State, buildset: &Id) -> Option<Id> {
    let is_it = |record: &ItemRecord| record.is_pushing && record.buildset == *buildset;
    let (id, item) = state.items.iter_mut().find(|(_, item)| is_it(&item.record))?;
    item.record.is_pushing = false;
    Some(id.clone())
}
