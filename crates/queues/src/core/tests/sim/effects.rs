//! What comes of a worker's effects: happening now or later, whole or not at all, answered or not.

use menagerie_journal::{JournalError, Message, MessageId};
use menagerie_kernel::Fence;
use menagerie_znodes::queues::{Order, PartitionName};

use super::store::{Checks, Ticket};
use super::worker::{Pending, Running};
use super::world::{Script, World};
use crate::core::lane::{Holder, Ownership, RecordPlan};
use crate::core::ledger::{Ack, Recorded};
use crate::core::machine::{Effect, Fact, Fetched, Noted, Owned, Run};
use crate::core::window::RunId;
use crate::task::Outcome;

impl World {
    pub(super) fn perform(&mut self, worker: usize, effect: Effect) {
        if let Effect::Tell(happening) = &effect {
            return self.on_happening(worker, happening);
        }
        match &effect {
            Effect::Run(owned, run) => self.check_run(worker, owned, run),
            Effect::Record(owned, plan, _) => self.check_plan(worker, owned, plan),
            _ => {}
        }
        let Some(process) = self.workers[worker].as_mut() else { return };
        match effect {
            Effect::Claim(partition) => process.pending.push(Pending::Claim(partition, None)),
            Effect::CancelClaim(partition) => {
                let stored = self.stored.get_mut(&partition).expect("it is there");
                process.pending.retain(|pending| match pending {
                    Pending::Claim(name, ticket) if *name == partition => {
                        stored.tickets.retain(|one| Some(one.fence) != *ticket);
                        false
                    }
                    _ => true,
                });
            }
            Effect::Fetch(owned, fetch) => process.pending.push(Pending::Fetch(owned, fetch)),
            Effect::CancelFetch(owned) => {
                process.pending.retain(|pending| !matches!(pending, Pending::Fetch(of, _) if *of == owned));
            }
            Effect::Run(owned, run) => {
                let messages = run.messages.iter().map(|message| message.id).collect();
                process.begun.insert(run.run, messages);
                process.pending.push(Pending::Start(owned, run));
            }
            Effect::Stop(run) => {
                if let Some(running) = process.running.get_mut(&run) {
                    running.is_stopped = true;
                }
            }
            Effect::Note(owned, note) => process.pending.push(Pending::Note(owned, note)),
            Effect::Record(owned, plan, _) => process.pending.push(Pending::Record(owned, plan)),
            Effect::Release(owned, handover) => process.pending.push(Pending::Release(owned, handover)),
            Effect::Drop(owned) => drop(process.cursors.remove(&owned)),
            Effect::GiveUpNotes(owned) => process.lost.push(owned),
            Effect::Publish(_) | Effect::Report { .. } | Effect::Tell(_) => {}
        }
    }

    /// Something that is pending happens, or its answer arrives.
    pub(super) fn handle_pending(&mut self, worker: usize) {
        let Some(process) = self.workers[worker].as_mut().filter(|process| !process.pending.is_empty())
        else {
            return;
        };
        let index = self.dice.below(process.pending.len());
        let pending = process.pending.remove(index);
        match pending {
            Pending::Answer(fact) => {
                // The shell watches the ticket of what it has claimed.
                if let Fact::Claimed(owned) = &fact
                    && !self.stored[&owned.partition].tickets.iter().any(|ticket| ticket.fence == owned.fence)
                {
                    let owned = Owned { partition: owned.partition.clone(), fence: owned.fence };
                    self.pend(worker, Pending::Answer(Fact::Lost(owned)));
                }
                self.step(worker, fact);
            }
            Pending::Claim(partition, ticket) => self.claim(worker, partition, ticket),
            Pending::Fetch(owned, fetch) => {
                let stored = &self.stored[&owned.partition];
                let wanted = |message: &&Message| match fetch.only {
                    Some(id) => message.id == id,
                    None => message.id > fetch.after,
                };
                let found = stored.messages.iter().filter(wanted).take(fetch.budget.messages as usize);
                let found: Vec<Message> = found.cloned().collect();
                if found.is_empty() && fetch.waits && fetch.only.is_none() {
                    return self.pend(worker, Pending::Fetch(owned, fetch));
                }
                let read = match !self.is_healed && self.dice.one_in(30) {
                    true => Err(JournalError::Damaged("it may heal".to_owned())),
                    false => Ok((found, None)),
                };
                let fetched = Fetched { asked: fetch.only, read };
                self.pend(worker, Pending::Answer(Fact::Fetched(owned, fetched)));
            }
            Pending::Start(owned, run) => self.begin_task(worker, owned, run),
            Pending::Note(owned, note) => {
                let process = self.workers[worker].as_ref().expect("it is alive");
                let is_abandoned = process.lost.contains(&owned) || process.machine.is_stopping();
                let stored = self.stored.get_mut(&owned.partition).expect("it is there");
                let is_stored = stored.note(owned.fence, &note);
                let id = note.message.id;
                if is_stored && note.attempts.given_up {
                    self.finish(&owned.partition, id);
                    let truth = self.truth.get_mut(&(owned.partition.clone(), id)).expect("it was put");
                    truth.is_given_up = true;
                }
                let noted = match is_stored {
                    _ if is_abandoned && self.dice.one_in(3) => Noted::Abandoned,
                    // The answer is lost, and the worker repeats it.
                    true if !self.is_healed && self.dice.one_in(5) => {
                        return self.pend(worker, Pending::Note(owned, note));
                    }
                    true => Noted::Stored,
                    false => Noted::Refused(JournalError::Damaged("fenced".to_owned())),
                };
                self.pend(worker, Pending::Answer(Fact::Noted(owned, id, noted)));
            }
            Pending::Record(owned, plan) => self.record(worker, owned, &plan),
            Pending::Release(owned, handover) => {
                let is_noted = self.is_healed || !self.dice.one_in(5);
                let stored = self.stored.get_mut(&owned.partition).expect("it is there");
                if is_noted {
                    stored.close(owned.fence, &handover);
                }
                stored.tickets.retain(|ticket| ticket.fence != owned.fence);
                self.workers[worker].as_mut().expect("it is alive").cursors.remove(&owned);
                self.pend(worker, Pending::Answer(Fact::Released(owned.partition)));
            }
        }
    }

    pub(super) fn pend(&mut self, worker: usize, pending: Pending) {
        if let Some(process) = self.workers[worker].as_mut() {
            process.pending.push(pending);
        }
    }

    pub(super) fn claim(&mut self, worker: usize, partition: PartitionName, ours: Option<Fence>) {
        let number = i64::try_from(self.next_number()).expect("small");
        let session = self.workers[worker].as_ref().expect("it is alive").session;
        let stored = self.stored.get_mut(&partition).expect("it is there");
        // A ticket that went with its session is replaced.
        let ours = ours.filter(|ours| stored.tickets.iter().any(|ticket| ticket.fence == *ours));
        let fence = ours.unwrap_or_else(|| {
            let fence = Fence::new(1, number);
            stored.tickets.push(Ticket { session, fence });
            fence
        });
        if !stored.is_held_by(fence) {
            return self.pend(worker, Pending::Claim(partition, Some(fence)));
        }
        let Some((attempts, predecessor)) = stored.open(fence) else {
            return self.violate(format!("{partition} was opened by somebody newer than its holder"));
        };
        stored.held = Some(Holder::new(fence, predecessor.as_ref(), self.handling.order, &self.options));
        let owned = Ownership {
            partition: partition.clone(),
            fence,
            term: session,
            cursor: stored.cursor,
            beyond: stored.beyond.clone(),
            attempts,
            predecessor,
            reported: MessageId::ZERO,
            handling: self.handling,
        };
        let process = self.workers[worker].as_mut().expect("it is alive");
        process.cursors.insert(Owned { partition, fence }, owned.cursor);
        self.pend(worker, Pending::Answer(Fact::Claimed(Box::new(owned))));
    }

    pub(super) fn record(&mut self, worker: usize, owned: Owned, plan: &RecordPlan) {
        let known = self.workers[worker].as_ref().and_then(|process| process.cursors.get(&owned).copied());
        let checks = Checks { ticket: !self.faults.no_ticket };
        let stored = self.stored.get_mut(&owned.partition).expect("it is there");
        let (before, from) = (stored.cursor, known.unwrap_or(stored.cursor));
        let is_stored = stored.record(owned.fence, from, plan, checks);
        if stored.cursor < before {
            self.violate(format!("the cursor went back from {} to {}", before.0.0, plan.cursor.0.0));
        }
        self.note(format!("record {owned:?} {plan:?} stored: {is_stored}"));
        self.check_recorded(&owned.partition);
        match &plan.beyond {
            _ if !is_stored => self.seen.count("refused record"),
            Some((_, open)) if !open.is_empty() => self.seen.count("record with gaps"),
            _ => {}
        }
        let recorded = match is_stored {
            // The answer is lost: that happens when the session ends.
            _ if !self.is_healed && self.dice.one_in(10) => {
                self.expire(worker);
                Recorded::Unknown
            }
            true => {
                if let Some(process) = self.workers[worker].as_mut() {
                    process.cursors.insert(owned.clone(), plan.cursor);
                }
                Recorded::Confirmed
            }
            false => Recorded::Refused,
        };
        self.pend(worker, Pending::Answer(Fact::Recorded(owned, recorded)));
    }

    pub(super) fn begin_task(&mut self, worker: usize, owned: Owned, run: Run) {
        let stored = self.stored.get_mut(&owned.partition).expect("it is there");
        let ids: Vec<MessageId> = run.messages.iter().map(|message| message.id).collect();
        if let Some(attempts) = run.store
            && !stored.store_attempts(owned.fence, ids[0], attempts)
        {
            let error = JournalError::Damaged("fenced".to_owned());
            return self.pend(worker, Pending::Answer(Fact::Ran(owned, run.run, Err(error))));
        }
        // The lease is over, and the task does not begin.
        if !stored.tickets.iter().any(|ticket| ticket.fence == owned.fence) {
            return self.pend(worker, Pending::Answer(Fact::Ran(owned, run.run, Ok(Vec::new()))));
        }
        self.note(format!(
            "w{worker} runs {:?} of {}",
            ids.iter().map(|id| id.0.0).collect::<Vec<_>>(),
            owned.partition
        ));
        for (index, id) in ids.iter().enumerate() {
            self.check_begin(worker, &owned, &run, index);
            let truth = self.truth.get_mut(&(owned.partition.clone(), *id)).expect("it was put");
            truth.runs += 1;
            truth.running = Some(worker);
        }
        self.seen.count(format!("run {:?} {:?}", self.handling.order, self.handling.retry()));
        if self.ack == Ack::Before {
            self.seen.count("run at most once");
        }
        if ids.len() > 1 {
            self.seen.count("batch");
        }
        let running = Running { owned, messages: ids, is_stopped: false };
        let process = self.workers[worker].as_mut().expect("it is alive");
        process.running.insert(run.run, running);
    }

    /// A task ends, as its messages' scripts say.
    pub(super) fn end_task(&mut self, worker: usize) {
        let Some(process) = self.workers[worker].as_mut() else { return };
        let runs: Vec<RunId> = process.running.keys().copied().collect();
        if runs.is_empty() {
            return;
        }
        let run = runs[self.dice.below(runs.len())];
        let Some(running) = process.running.remove(&run) else { return };
        if running.is_stopped && self.dice.one_in(2) {
            self.stop_running(&running);
            return self.pend(worker, Pending::Answer(Fact::Ran(running.owned, run, Ok(Vec::new()))));
        }
        let mut outcomes = Vec::new();
        for id in &running.messages {
            let key = (running.owned.partition.clone(), *id);
            let truth = self.truth.get_mut(&key).expect("it was put");
            let outcome = match truth.script {
                Script::Kill(times) if truth.failures < times => {
                    truth.failures += 1;
                    self.workers[worker].as_mut().expect("it is alive").running.insert(run, running);
                    return self.crash(worker);
                }
                Script::Fail(times) if truth.failures < times => {
                    truth.failures += 1;
                    Outcome::retry("not yet")
                }
                Script::FailForGood => Outcome::failed("never"),
                Script::Succeed | Script::Fail(_) | Script::Kill(_) => Outcome::Done,
            };
            let is_done = outcome == Outcome::Done;
            outcomes.push(outcome);
            if is_done {
                self.finish(&running.owned.partition, *id);
            } else if self.handling.order == Order::Partition {
                break;
            }
        }
        self.stop_running(&running);
        self.pend(worker, Pending::Answer(Fact::Ran(running.owned, run, Ok(outcomes))));
    }

    pub(super) fn finish(&mut self, partition: &PartitionName, id: MessageId) {
        self.truth.get_mut(&(partition.clone(), id)).expect("it was put").is_finished = true;
    }
}
