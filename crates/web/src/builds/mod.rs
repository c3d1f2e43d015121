//! Builds of pipelines: what this process remembers of them, so that it need not ask again for every look at a page.
//!
//! - this file: the memory: estimates, builds that have ended, searches under way. Losing it costs time alone.
//! - [`text`]: logs as text for people. [`search`]: lines of a log that contain something. Both are pure.

pub mod search;
pub mod text;

use std::collections::HashMap;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use menagerie_kernel::whole;
use menagerie_pipelines::client::logs::BuildId;
use menagerie_pipelines::history::{self, Filter};
use menagerie_pipelines::view::{BuildView, Estimates};
use menagerie_queues::Journals;
use menagerie_types::Name;
use tokio::time::{Instant, timeout};
use tracing::warn;

use search::LogSearch;

/// Estimates are made anew this often at most.
const ESTIMATES_EVERY: Duration = Duration::from_secs(60);
/// Buildsets of the history that estimates are made of.
const HISTORY: usize = 500;
/// A page waits this long for estimates, and is shown without them then.
const PATIENCE: Duration = Duration::from_millis(300);
/// Entries of each kind that are remembered.
const ENTRIES: usize = 500;
/// Searches that are remembered.
const SEARCHES: usize = 50;

/// What this process remembers.
#[derive(Debug, Clone, Default)]
pub struct Memory(Arc<Mutex<Known>>);

#[derive(Debug, Default)]
struct Known {
    estimates: HashMap<Name, TenantEstimates>,
    ended: HashMap<(Name, BuildId), BuildView>,
    searches: HashMap<(BuildId, String), LogSearch>,
}

#[derive(Debug)]
struct TenantEstimates {
    known: Arc<Estimates>,
    /// When to read them again.
    due: Instant,
}

impl Memory {
    /// How long the jobs of a tenant usually take; as it was known a minute ago at worst, or while the journal is away.
    pub async fn estimates(&self, journals: &Journals, tenant: &Name) -> Arc<Estimates> {
        if let Some(reading) = self.begin_reading(journals, tenant) {
            // It goes on if this page does not wait for it.
            let _ = timeout(PATIENCE, reading).await;
        }
        self.known().estimates.get(tenant).map(|found| found.known.clone()).unwrap_or_default()
    }

    /// Reads them if that is due. Whoever comes meanwhile takes what is known.
    fn begin_reading(&self, journals: &Journals, tenant: &Name) -> Option<tokio::task::JoinHandle<()>> {
        let mut known = self.known();
        let now = Instant::now();
        if known.estimates.get(tenant).is_some_and(|found| now < found.due) {
            return None;
        }
        make_room(&mut known.estimates, ENTRIES);
        let entry = known
            .estimates
            .entry(tenant.clone())
            .or_insert_with(|| TenantEstimates { known: Arc::default(), due: now });
        entry.due = now + ESTIMATES_EVERY;
        let (memory, journals, tenant) = (self.clone(), journals.clone(), tenant.clone());
        Some(tokio::spawn(async move {
            let filter = Filter { tenant: Some(tenant.clone()), limit: Some(HISTORY), ..Filter::default() };
            match history::list(&journals, &filter).await {
                Ok(records) => {
                    let read = Arc::new(Estimates::of(&records));
                    if let Some(entry) = memory.known().estimates.get_mut(&tenant) {
                        entry.known = read;
                    }
                }
                Err(error) => warn!(%tenant, error = %whole(&error), "no estimates of durations of jobs"),
            }
        }))
    }

    /// A build that had ended when somebody looked: nothing of it changes.
    pub fn ended(&self, tenant: &Name, build: &BuildId) -> Option<BuildView> {
        self.known().ended.get(&(tenant.clone(), build.clone())).cloned()
    }

    /// Remembers a build of the history.
    pub fn remember(&self, build: &BuildId, view: &BuildView) {
        let mut known = self.known();
        make_room(&mut known.ended, ENTRIES);
        known.ended.insert((view.tenant.clone(), build.clone()), view.clone());
    }

    /// A search, as far as it is; a new one if there is none. It is the caller's until it is put back.
    pub fn take_search(&self, build: &BuildId, wanted: &str) -> LogSearch {
        let found = self.known().searches.remove(&(build.clone(), wanted.to_owned()));
        found.unwrap_or_else(|| LogSearch::new(wanted))
    }

    /// Puts a search back, so that the next look goes on with it.
    pub fn put_search(&self, build: &BuildId, wanted: &str, search: LogSearch) {
        let mut known = self.known();
        make_room(&mut known.searches, SEARCHES);
        known.searches.insert((build.clone(), wanted.to_owned()), search);
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Forgets an entry, whichever, if there are too many.
fn make_room<K: Clone + Eq + Hash, V>(entries: &mut HashMap<K, V>, max: usize) {
    if entries.len() >= max
        && let Some(key) = entries.keys().next().cloned()
    {
        entries.remove(&key);
    }
}
