//! What items and jobs wait for: in a word, as Zuul has it, and in a sentence that says why and what would end it. Pure.

use menagerie_znodes::pipelines::{Id, JobsStep, MergeStep, QueueRecord, RequestState};

use super::fleet::{Crew, Fleet};
use crate::core::{Item, Job, State};

/// What an item waits for as a whole; once its jobs may run, they wait themselves.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ItemWait {
    /// The window is full.
    Window {
        /// Its place in the queue, from 1.
        place: usize,
        /// How many items are tested at a time.
        window: u32,
    },
    /// It needs a change that is failing ahead of it.
    Needed,
    /// A merger makes the commit to be tested, or reads its configuration.
    Merger,
    /// A scheduler finds out which jobs it has.
    Jobs,
    /// Its end is known.
    Report,
    /// Items ahead end first.
    Ahead {
        /// How many.
        count: usize,
        /// Whether one of them is failing.
        is_failing: bool,
    },
    /// The tested commit is being pushed.
    Push,
}

/// What a job waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum JobWait {
    /// An executor.
    Executor,
    /// It runs.
    Running,
    /// Its build has ended; a scheduler is to hear of it.
    Result,
    /// These jobs.
    Jobs(Vec<String>),
    /// A scheduler is to start it, unless the item as a whole waits.
    Scheduler,
}

/// What an item waits for.
pub fn of_item(state: &State, queue: &QueueRecord, id: &Id, item: &Item) -> Option<ItemWait> {
    let record = &item.record;
    if !record.is_live {
        return None;
    }
    let place = queue.items.iter().position(|other| other == id).unwrap_or_default();
    if !record.is_active {
        return Some(ItemWait::Window { place: place + 1, window: queue.window });
    }
    if record.is_pushing {
        return Some(ItemWait::Push);
    }
    let set = &item.buildset;
    let is_untested = matches!(set.record.merge, MergeStep::New) || set.jobs.iter().all(was_never_built);
    let is_failing = !record.failing.is_empty();
    match (&set.record.merge, &set.record.jobs) {
        (MergeStep::Failed { .. }, _) | (_, JobsStep::Failed { .. }) => Some(ItemWait::Report),
        // Nothing of its own has failed.
        (MergeStep::New | MergeStep::Done { .. }, _) if is_failing && is_untested => Some(ItemWait::Needed),
        (MergeStep::New | MergeStep::Pending { .. }, _) => Some(ItemWait::Merger),
        (MergeStep::Done { .. }, JobsStep::New) => Some(ItemWait::Jobs),
        (MergeStep::Done { .. }, JobsStep::Tips { .. }) => Some(ItemWait::Merger),
        (MergeStep::Done { .. }, JobsStep::Ready { .. }) if set.is_complete() => {
            let ahead = queue.items.iter().take(place).filter_map(|other| state.items.get(other));
            let ahead: Vec<&Item> = ahead.filter(|other| other.record.is_live).collect();
            let is_failing = ahead.iter().any(|other| !other.record.failing.is_empty());
            Some(ItemWait::Ahead { count: ahead.len(), is_failing })
        }
        (MergeStep::Done { .. }, JobsStep::Ready { .. }) => None,
    }
}

fn was_never_built(job: &Job) -> bool {
    job.builds.is_empty() && job.result().is_none()
}

/// What a job waits for; `None` once it has ended. `request` says where its newest build is.
pub fn of_job(item: &Item, job: &Job, request: Option<RequestState>) -> Option<JobWait> {
    if job.result().is_some() {
        return None;
    }
    if job.in_flight().is_some() {
        return Some(match request {
            Some(RequestState::Requested) => JobWait::Executor,
            Some(RequestState::Running) => JobWait::Running,
            Some(RequestState::Completed) | None => JobWait::Result,
        });
    }
    let jobs = &item.buildset.jobs;
    let is_missing =
        |name: &str| jobs.iter().any(|other| other.record.job.name == *name && other.result().is_none());
    let dependencies = job.record.job.dependencies.iter().map(|dependency| &dependency.name);
    let missing: Vec<String> = dependencies.filter(|name| is_missing(name)).cloned().collect();
    Some(if missing.is_empty() { JobWait::Scheduler } else { JobWait::Jobs(missing) })
}

impl ItemWait {
    /// As Zuul has it.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Window { .. } => "waiting for its turn in the window",
            Self::Needed => "waiting for a change that it needs",
            Self::Merger => "waiting for merger",
            Self::Jobs => "waiting for its jobs to be known",
            Self::Report => "waiting to be reported",
            Self::Ahead { .. } => "waiting for the items ahead",
            Self::Push => "being merged",
        }
    }

    /// Why it does not go on.
    pub fn why(&self, fleet: &Fleet) -> String {
        if fleet.schedulers.running == 0 {
            return nobody("scheduler", fleet.schedulers);
        }
        match self {
            Self::Window { place, window } => format!(
                "It is number {place} of its queue, and {window} are tested at a time: it begins when items ahead have \
                 ended."
            ),
            Self::Needed => {
                "It is not tested, because a change that it needs is failing ahead of it.".to_owned()
            }
            Self::Merger if fleet.mergers.running == 0 => nobody("merger", fleet.mergers),
            Self::Merger => "A merger is asked to put it on top of what is ahead of it.".to_owned(),
            Self::Jobs => "A scheduler is about to find out which jobs it has.".to_owned(),
            Self::Report => "It cannot be tested; it is reported when all items ahead have ended.".to_owned(),
            Self::Ahead { count: 0, .. } => {
                "Its jobs have ended; a scheduler is about to report it.".to_owned()
            }
            Self::Ahead { count, is_failing } => {
                let items = counted(*count, "item");
                let failing = if *is_failing { ", and one of them is failing" } else { "" };
                format!("Its jobs have ended; {items} ahead must end first{failing}.")
            }
            Self::Push => "The commit that was tested is being pushed.".to_owned(),
        }
    }
}

impl JobWait {
    /// As Zuul has it.
    pub fn word(&self) -> String {
        match self {
            Self::Executor => "waiting for executor".to_owned(),
            Self::Running => "running".to_owned(),
            Self::Result | Self::Scheduler => "waiting for scheduler".to_owned(),
            Self::Jobs(jobs) => format!("waiting for dependencies: {}", jobs.join(", ")),
        }
    }

    /// Why it does not run; `None` if it does. `item` is what the item as a whole waits for.
    pub fn why(&self, item: Option<&ItemWait>, fleet: &Fleet) -> Option<String> {
        if *self == Self::Running {
            return None;
        }
        if *self == Self::Executor && fleet.executors.running == 0 {
            return Some(nobody("executor", fleet.executors));
        }
        if *self != Self::Executor && fleet.schedulers.running == 0 {
            return Some(nobody("scheduler", fleet.schedulers));
        }
        Some(match self {
            Self::Running => return None,
            Self::Executor => {
                let executors = counted(fleet.executors.running, "executor");
                let places = usize::try_from(fleet.places).unwrap_or(usize::MAX);
                format!(
                    "It waits for a free place: {executors} with room for {} in all.",
                    counted(places, "job")
                )
            }
            Self::Result => "Its build has ended, and a scheduler is about to take in the result.".to_owned(),
            Self::Jobs(jobs) => format!("It runs after these jobs: {}.", jobs.join(", ")),
            Self::Scheduler => match item {
                Some(wait @ (ItemWait::Window { .. } | ItemWait::Needed)) => wait.why(fleet),
                Some(
                    ItemWait::Merger
                    | ItemWait::Jobs
                    | ItemWait::Report
                    | ItemWait::Ahead { .. }
                    | ItemWait::Push,
                )
                | None => "A scheduler is about to ask for it.".to_owned(),
            },
        })
    }
}

/// `1 job`, `2 jobs`.
fn counted(count: usize, what: &str) -> String {
    format!("{count} {what}{}", if count == 1 { "" } else { "s" })
}

/// Nobody of this kind takes work.
fn nobody(kind: &str, crew: Crew) -> String {
    match crew.idle {
        0 => format!("No {kind} is registered: start one with `menagerie {kind}`."),
        1 => format!("The only {kind} takes no work: it is starting, paused or leaving."),
        idle => format!("None of the {idle} {kind}s takes work: they are starting, paused or leaving."),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fleet() -> Fleet {
        let crew = Crew { running: 2, idle: 0 };
        Fleet { schedulers: crew, mergers: crew, executors: crew, places: 8 }
    }

    #[test]
    fn items_say_who_is_missing_or_what_is_ahead() {
        let window = ItemWait::Window { place: 25, window: 20 };
        assert!(window.why(&fleet()).contains("number 25 of its queue, and 20 are tested"));
        let without = Fleet { mergers: Crew::default(), ..fleet() };
        assert_eq!(
            ItemWait::Merger.why(&without),
            "No merger is registered: start one with `menagerie merger`."
        );
        assert!(ItemWait::Push.why(&without).contains("pushed"), "mergers do not push");
        let paused = Fleet { mergers: Crew { running: 0, idle: 1 }, ..fleet() };
        assert!(ItemWait::Merger.why(&paused).starts_with("The only merger takes no work"));
        let alone = Fleet { schedulers: Crew::default(), ..fleet() };
        assert!(ItemWait::Merger.why(&alone).starts_with("No scheduler is registered"));
        let ahead = ItemWait::Ahead { count: 3, is_failing: true }.why(&fleet());
        assert_eq!(ahead, "Its jobs have ended; 3 items ahead must end first, and one of them is failing.");
    }

    #[test]
    fn jobs_say_who_is_missing_or_what_runs_first() {
        let why = |wait: JobWait, fleet: &Fleet| wait.why(None, fleet).unwrap();
        assert_eq!(JobWait::Running.why(None, &Fleet::default()), None);
        assert!(why(JobWait::Executor, &fleet()).contains("2 executors with room for 8 jobs in all"));
        let without = Fleet { executors: Crew::default(), ..fleet() };
        assert!(why(JobWait::Executor, &without).starts_with("No executor is registered"));
        let paused = Fleet { executors: Crew { running: 0, idle: 3 }, ..fleet() };
        assert!(why(JobWait::Executor, &paused).starts_with("None of the 3 executors"));
        let jobs = JobWait::Jobs(vec!["unit".to_owned(), "lint".to_owned()]);
        assert_eq!(why(jobs, &without), "It runs after these jobs: unit, lint.");
        let outside = ItemWait::Window { place: 3, window: 2 };
        let told = JobWait::Scheduler.why(Some(&outside), &fleet()).unwrap();
        assert!(told.contains("number 3"), "{told}");
    }
}
