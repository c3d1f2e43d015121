//! The loop that puts the periodic messages of one queue, while its process is elected.

use std::collections::BTreeMap;
use std::time::Duration;

use menagerie_journal::Fence;
use menagerie_kernel::recipes::tree_cache::TreeCache;
use menagerie_kernel::{Moment, Session, whole};
use menagerie_znodes::queues::{QueueName, Schedule};
use menagerie_znodes::{Name, queues, quote};
use tracing::{debug, warn};

use super::core::{Step, due};
use super::cron::{Calendar, ScheduleError};
use super::host_clock::HostClock;
use super::message::message;
use super::outlet::{Held, Outlet, append, is_about_the_message};
use super::patience::Patience;
use crate::error::QueueError;
use crate::journals::Journals;

/// Longest sleep while there is a next time: a clock that was set is noticed before a time counts as missed.
const SLEEP_MAX: Duration = Duration::from_secs(10);

/// Back-off after an error, such as a journal that is down.
const PAUSE: Duration = Duration::from_millis(500);
const PAUSE_MAX: Duration = Duration::from_secs(10);

/// All schedules, by name; a damaged one is left out.
pub(super) fn schedules(cache: &TreeCache) -> BTreeMap<Name, Schedule> {
    let mut all = BTreeMap::new();
    for child in cache.children(queues::schedules().path()) {
        let Some(name) = quote::unquote(&child).and_then(|name| Name::new(name).ok()) else { continue };
        let found = cache.read(&queues::schedule(&name).maybe_damaged()).ok().flatten();
        if let Some(schedule) = found.and_then(|found| found.value.sound()) {
            all.insert(name, schedule);
        }
    }
    all
}

/// Why schedules are left out: they are damaged, or were written by a version that understands more.
pub(super) fn complaints(cache: &TreeCache) -> BTreeMap<String, String> {
    let all = schedules(cache);
    let left_out = |child: String| {
        let named = quote::unquote(&child).and_then(|name| Name::new(name).ok());
        let why = match named.as_ref().and_then(|name| all.get(name)) {
            None => "it is damaged".to_owned(),
            Some(schedule) => understand(schedule).err()?.to_string(),
        };
        Some((child, why))
    };
    cache.children(queues::schedules().path()).into_iter().filter_map(left_out).collect()
}

/// The times of a schedule, if its message can be put, too.
fn understand(schedule: &Schedule) -> Result<Calendar, ScheduleError> {
    message(schedule)?;
    Calendar::of(schedule)
}

/// Why the loop of a queue ended.
pub(super) enum Ended {
    /// The queue has no schedules.
    Idle,
    /// It has failed for too long: another process may be able to reach the journal.
    GaveUp {
        /// The last error, with its causes.
        error: String,
        /// How long the loops of the next leadership may fail.
        patience: Duration,
    },
}

/// Puts what is due until the queue has no schedules, or cannot be reached for longer than `patience`. To stop, drop the
/// future: whoever opens the queue next knows what has happened.
pub(super) async fn run(
    session: Session,
    journals: Journals,
    clock: HostClock,
    cache: TreeCache,
    queue: QueueName,
    fence: Fence,
    mut patience: Patience,
) -> Ended {
    let mut changed = cache.subscribe();
    let (mut outlet, mut pause, mut told) = (None, PAUSE, None);
    loop {
        changed.borrow_and_update();
        let mut ours = schedules(&cache);
        ours.retain(|_, schedule| schedule.queue == queue);
        if ours.is_empty() {
            return Ended::Idle;
        }
        let began = Moment::now();
        let turn = async {
            let now = clock.now()?;
            let open = match outlet.take() {
                Some(open) => Held::Ours(open),
                None => Outlet::open(&session, &journals, &queue, fence).await?,
            };
            let Held::Ours(mut open) = open else { return Ok(Held::Deposed) };
            let next = put_due(&session, &journals, &mut open, &ours, now).await?;
            Ok::<_, QueueError>(match next {
                Held::Ours(next) => Held::Ours((open, next)),
                Held::Deposed => Held::Deposed,
            })
        };
        let sleep = match turn.await {
            Ok(Held::Ours((open, next))) => {
                (outlet, pause, told) = (Some(open), PAUSE, None);
                patience.on_success();
                next.map_or(SLEEP_MAX, |next| clock.until(next).min(SLEEP_MAX))
            }
            Ok(Held::Deposed) => {
                debug!(%queue, "somebody else puts its periodic messages");
                PAUSE_MAX
            }
            Err(error) => {
                // Into a queue that does not exist nobody else could put either.
                let is_exhausted = match error {
                    QueueError::NoQueue { .. } => false,
                    _ => patience.on_failure(began, Moment::now()),
                };
                let error = whole(&error).to_string();
                if is_exhausted {
                    return Ended::GaveUp { error, patience: patience.limit_after() };
                }
                if told.as_ref() != Some(&error) {
                    warn!(%queue, error, "periodic messages cannot be put now; trying again");
                    told = Some(error);
                }
                pause = (pause * 2).min(PAUSE_MAX);
                pause
            }
        };
        tokio::select! {
            _ = changed.changed() => {}
            () = tokio::time::sleep(sleep) => {}
        }
    }
}

/// Puts what is due by `now`. Returns the next time of all schedules.
async fn put_due(
    session: &Session,
    journals: &Journals,
    outlet: &mut Outlet,
    schedules: &BTreeMap<Name, Schedule>,
    now: i64,
) -> Result<Held<Option<i64>>, QueueError> {
    let mut first = None;
    for (name, schedule) in schedules {
        // The leader has told why not.
        let Ok(calendar) = understand(schedule) else { continue };
        let record = outlet.record(name, schedule);
        let due = due(|time| calendar.next_after(time), &record, now, schedule.catch_up);
        for step in due.steps {
            let stale = outlet.stale(schedules);
            let done = async {
                let append = match step {
                    Step::Put { time, .. } => Some(append(session, journals, name, schedule, time).await?),
                    Step::Skip { .. } => None,
                };
                outlet.perform(name, schedule, step, append, &stale).await
            };
            match done.await {
                Ok(Held::Ours(())) => tell(name, schedule, &calendar, step),
                Ok(Held::Deposed) => return Ok(Held::Deposed),
                Err(error) if is_about_the_message(&error) => {
                    let why = whole(&error).to_string();
                    if record.problem.as_ref() != Some(&why) {
                        warn!(schedule = %name, why, "this schedule cannot be put; others go on");
                    }
                    match outlet.set_aside(name, schedule, &why).await {
                        Ok(Held::Ours(())) => break,
                        Ok(Held::Deposed) => return Ok(Held::Deposed),
                        // What is too large is its record; the log has told.
                        Err(error) if is_about_the_message(&error) => break,
                        Err(error) => return Err(error),
                    }
                }
                Err(error) => return Err(error),
            }
        }
        first = [first, due.next].into_iter().flatten().min();
    }
    Ok(Held::Ours(first))
}

fn tell(name: &Name, schedule: &Schedule, calendar: &Calendar, step: Step) {
    let queue = &schedule.queue;
    match step {
        Step::Put { time, missed: false, .. } => {
            debug!(schedule = %name, %queue, time = calendar.show(time), "put");
        }
        Step::Put { time, missed: true, .. } => {
            warn!(schedule = %name, %queue, time = calendar.show(time), "this time was missed, and is put now");
        }
        Step::Skip { times, last } => {
            let last = calendar.show(last);
            warn!(schedule = %name, %queue, times, last, "these times are over and were not put; they are skipped");
        }
    }
}
