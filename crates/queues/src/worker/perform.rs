//! Performs effects of the machine, and turns what they end with into facts.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Instant;

use menagerie_journal::Ticks;
use menagerie_kernel::whole;
use menagerie_znodes::queues::QueueName;
use tokio::sync::watch;
use tracing::{debug, info};

use super::background::{self, Event};
use super::happenings;
use super::holdings::{AbortOnDrop, Holding};
use super::records::{self, PendingRecord};
use super::report::{self, Position};
use super::shell::Shell;
use crate::coordination::claim::{self, Claimed};
use crate::coordination::cursor::Record;
use crate::core::lane::{Handover, RecordPlan};
use crate::core::ledger::Recorded;
use crate::core::machine::{Effect, Ending, Fact, Fetch, Happening, Note, Owned, Progress, Run, Urgency};
use crate::core::options::Begins;
use crate::core::window::RunId;
use crate::story::{self, Entry, OutcomeLog};
use crate::task::{Begun, Lease, SILENT_AFTER, Unanswered, Work};

impl Shell {
    pub fn perform(&mut self, effect: Effect) {
        match effect {
            Effect::Claim(partition) => {
                let (session, journals) = (self.session.clone(), self.journals.clone());
                let (options, metrics) = (self.machine.options().clone(), self.metrics.clone());
                let claimed = partition.clone();
                let claiming = self.events.spawn(async move {
                    Event::Claimed(background::claim(&session, &journals, &claimed, &options, &metrics).await)
                });
                self.claims.insert(partition, AbortOnDrop(claiming));
            }
            Effect::CancelClaim(partition) => drop(self.claims.remove(&partition)),
            Effect::Fetch(owned, fetch) => self.fetch(owned, fetch),
            Effect::CancelFetch(owned) => {
                if let Some(holding) = self.holdings.get(&owned) {
                    holding.fetching = None;
                }
            }
            Effect::Run(owned, run) => self.run_task(owned, run),
            Effect::Stop(run) => {
                if let Some(stop) = self.runs.get(&run) {
                    stop.send_replace(true);
                }
            }
            Effect::Note(owned, note) => self.note(owned, note),
            Effect::Record(owned, plan, urgency) => self.record(owned, &plan, urgency),
            Effect::Release(owned, handover) => self.release(&owned, handover),
            Effect::Drop(owned) => {
                drop(self.holdings.take(&owned));
                self.metrics.forget(&owned.partition);
            }
            Effect::GiveUpNotes(owned) => {
                if let Some(holding) = self.holdings.get(&owned) {
                    holding.is_lost.send_replace(true);
                }
            }
            Effect::Publish(me) => {
                self.metrics.partitions(me.queues.len());
                self.presence.publish(&me);
            }
            Effect::Report { all, positions } => self.report(all, positions),
            Effect::Tell(happening) => {
                happenings::tell(&self.machine.options().name, &happening, &self.metrics);
                if let Happening::Ended(ending) = &*happening {
                    self.write_story(ending);
                }
            }
        }
    }

    /// Turns the end of background work into facts.
    pub fn gather(&mut self, event: Event) {
        match event {
            Event::Fact(fact) => {
                if let Fact::Ran(_, run, _) = &*fact {
                    self.runs.remove(run);
                }
                self.step(*fact);
            }
            Event::Begun(owned, run, true) => self.step(Fact::Begun(owned, run)),
            Event::Begun(_, _, false) => {}
            Event::Told(news, listener) => {
                self.listen(listener);
                self.on_news(news);
            }
            Event::Claimed(claimed) => self.on_claimed(*claimed),
            Event::Lapsed(Some(term)) => {
                self.step(Fact::Lapsed(term));
                self.watch_lease();
            }
            Event::Lapsed(None) => {}
            Event::Recorded(urgency, recorded) => {
                if urgency == Urgency::Shared {
                    self.records.batch_done();
                }
                recorded.into_iter().for_each(|(due, recorded)| self.on_recorded(due, recorded));
            }
            Event::Released(partition, released) => {
                match released {
                    Ok(()) => info!(%partition, "partition released"),
                    Err(error) => {
                        debug!(%partition, error = %whole(&error), "partition was gone before it was released")
                    }
                }
                self.step(Fact::Released(partition));
            }
            Event::Reported(report) => {
                // The next owner reports the lag of what we have released.
                for (partition, lag) in report.lags.iter().filter(|(at, _)| self.holdings.contains(at)) {
                    self.metrics.lag(partition, *lag);
                }
                self.step(Fact::Reported { known: report.known, lost: report.lost, lags: report.lags });
            }
        }
    }

    fn on_claimed(&mut self, claimed: Claimed) {
        let Claimed { ownership, held, cursor, fenced } = claimed;
        self.claims.remove(&ownership.partition);
        let owned = Owned { partition: ownership.partition.clone(), fence: ownership.fence };
        let (grant, watched) = (held.grant(), owned.clone());
        let watcher = self.events.spawn(async move {
            claim::wait_until_removed(grant).await;
            Event::Fact(Box::new(Fact::Lost(watched)))
        });
        let outcomes = story::outcomes_of(owned.partition.queue(), owned.partition.number()).ok();
        let outcomes =
            outcomes.map(|partition| Arc::new(OutcomeLog { journal: fenced.journal.clone(), partition }));
        let holding = Holding {
            held,
            fenced,
            outcomes,
            cursor,
            fetching: None,
            is_lost: watch::Sender::new(false),
            _watcher: AbortOnDrop(watcher),
        };
        self.holdings.insert(owned, holding);
        self.step(Fact::Claimed(Box::new(ownership)));
    }

    fn fetch(&mut self, owned: Owned, fetch: Fetch) {
        let Some(holding) = self.holdings.get(&owned) else { return };
        let fenced = holding.fenced.clone();
        let fetching = self.events.spawn(async move {
            let fetched = background::fetch(fenced, fetch).await;
            Event::Fact(Box::new(Fact::Fetched(owned, fetched)))
        });
        holding.fetching = Some(AbortOnDrop(fetching));
    }

    fn run_task(&mut self, owned: Owned, run: Run) {
        let patience = self.machine.options().stop_timeout;
        let time_limit = self.machine.time_limit(&owned.partition);
        let begun = self.listen_for_begin(&owned, run.run);
        let Some(holding) = self.holdings.get(&owned) else { return };
        let (stop, stopped) = watch::channel(false);
        let Run { run, messages, attempts, store } = run;
        let work = Work {
            partition: owned.partition.clone(),
            messages,
            attempts,
            time_limit,
            fence: owned.fence,
            lease: Lease::new(holding.held.valid_until(), holding.held.term().timeouts(), stopped),
            begun,
        };
        let (task, fenced, term) = (self.task.clone(), holding.fenced.clone(), holding.held.term().clone());
        let (metrics, stopping) = (self.metrics.clone(), self.stopping.subscribe());
        self.runs.insert(run, stop);
        // Boxed, as tokio would move its several KiB a dozen times.
        self.events.spawn(Box::pin(async move {
            let (given, begun, lapsed) = (Instant::now(), work.begun.clone(), term.lapsed());
            let outcomes = background::run(&*task, fenced, work, store, patience, lapsed, stopping).await;
            if let Some(began) = begun.since(given) {
                metrics.task(began.elapsed());
            }
            Event::Fact(Box::new(Fact::Ran(owned, run, outcomes)))
        }));
    }

    fn listen_for_begin(&mut self, owned: &Owned, run: RunId) -> Begun {
        match self.machine.options().begins {
            Begins::AtOnce => Begun::default(),
            Begins::WhenToldSo => {
                let (begun, listener) = Begun::listen();
                let owned = owned.clone();
                self.events.spawn(async move { Event::Begun(owned, run, listener.await) });
                begun
            }
        }
    }

    /// Has the outcome written, sooner or later.
    fn write_story(&self, ending: &Ending) {
        let Some(log) = self.holdings.outcomes(&ending.partition) else { return };
        if let Some(entry) = Entry::of(ending, Ticks::now()) {
            self.pen.write(log, entry);
        }
    }

    fn note(&mut self, owned: Owned, note: Note) {
        let Some(holding) = self.holdings.get(&owned) else { return };
        let (fenced, is_lost) = (holding.fenced.clone(), holding.is_lost.subscribe());
        let stopping = self.stopping.subscribe();
        self.events.spawn(async move {
            let message = note.message.id;
            let noted = background::note(&owned.partition, &fenced, note, is_lost, stopping).await;
            Event::Fact(Box::new(Fact::Noted(owned, message, noted)))
        });
    }

    fn record(&mut self, owned: Owned, plan: &RecordPlan, urgency: Urgency) {
        let Some(holding) = self.holdings.get(&owned) else { return };
        let record = Record::new(holding.cursor.clone(), holding.held.grant(), plan);
        let due = PendingRecord { owned, record, since: Instant::now() };
        match urgency {
            Urgency::First => self.spawn_records(vec![due], urgency),
            Urgency::Shared => self.records.add(due),
        }
    }

    /// Writes the pending records, unless others are in flight.
    pub fn write_records(&mut self) {
        if let Some(due) = self.records.take_batch() {
            self.spawn_records(due, Urgency::Shared);
        }
    }

    fn spawn_records(&mut self, due: Vec<PendingRecord>, urgency: Urgency) {
        let metrics = self.metrics.clone();
        let written = Box::pin(async move { Event::Recorded(urgency, records::write(due, &metrics).await) });
        self.events.spawn(written);
    }

    fn on_recorded(&mut self, due: PendingRecord, recorded: Recorded) {
        let holding = self.holdings.get(&due.owned);
        if let Some(holding) = holding.filter(|_| recorded == Recorded::Confirmed) {
            holding.cursor = holding.cursor.moved(due.record.position());
        }
        self.step(Fact::Recorded(due.owned, recorded));
    }

    fn release(&mut self, owned: &Owned, handover: Handover) {
        self.metrics.forget(&owned.partition);
        let Some(Holding { held, fenced, .. }) = self.holdings.take(owned) else { return };
        let partition = owned.partition.clone();
        self.events.spawn(async move {
            let released = claim::release(held, &fenced, handover).await;
            Event::Released(partition, released)
        });
    }

    /// Reports positions and asks for lags; of all partitions, also trims handled messages.
    fn report(&mut self, all: bool, positions: Vec<Progress>) {
        let silent: BTreeSet<String> =
            self.task.unanswered().into_iter().filter(is_silent).map(|one| one.id).collect();
        let position = |mut at: Progress| {
            for running in at.activity.iter_mut().flat_map(|activity| &mut activity.running) {
                running.silent = silent.contains(&running.id.to_string());
            }
            let fenced = self.holdings.get(&at.owned)?.fenced.clone();
            Some(Position { fenced, progress: at })
        };
        let positions = positions.into_iter().filter_map(position).collect();
        // While disconnected we may miss a longer retention, so drop nothing.
        let drops = all && self.machine.is_connected();
        let (metrics, instructions) = (self.metrics.clone(), self.instructions.clone());
        let keep = move |queue: &QueueName| instructions.keep(queue).filter(|_| drops);
        self.events.spawn(async move { Event::Reported(report::report(positions, keep, &metrics).await) });
    }
}

fn is_silent(question: &Unanswered) -> bool {
    question.since.elapsed() >= SILENT_AFTER
}
