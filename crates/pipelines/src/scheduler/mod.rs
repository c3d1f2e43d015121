//! The scheduler: watches repositories, hands their events to tenants and pipelines, and makes the passes of pipelines.
//!
//! Everything that one scheduler at a time does is an office (`office.rs`), with a lock of the seed. Any number of schedulers
//! run; whoever dies is replaced by those that wait for its locks.
//!
//! - this file: which offices there are. `watcher.rs`: repositories to events. `forwarder.rs`: from connections to tenants.
//!   `tenant.rs`: from tenants to pipelines. `layouts.rs`, `config_cache.rs`: configuration. `pipeline.rs`: the passes of one
//!   pipeline; `pass.rs`: a pass as one transaction; `tree.rs`: the state as znodes. `wanted.rs`: requests follow the state.
//!   `pushes.rs`, `reports.rs`: what leaves ZooKeeper. `commit.rs`: entries of event queues.

mod commit;
mod config_cache;
mod forwarder;
mod layouts;
mod office;
mod pass;
mod pipeline;
mod pushes;
mod reports;
mod tenant;
mod tree;
mod wanted;
mod watcher;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::LocalBoxFuture;
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt as _, StreamExt as _};
use menagerie_journal_directory::Journals;
use menagerie_kernel::recipes::lock::Lock;
use menagerie_kernel::recipes::tree_cache::TreeCache;
use menagerie_kernel::{CallError, Session, TermError as _, retry, whole};
use menagerie_znodes::pipelines::{
    JobQueue, PipelineZnodes, SystemConf, forwarder_election, system_conf, system_conf_lock,
    tenant_pipelines, trigger_lock, watcher_election,
};
use menagerie_znodes::{Name, Payload as _};
use tokio::sync::watch;
use tracing::{info, warn};

pub use layouts::NOT_SEEN;
pub use watcher::{decode as decode_refs, poke_watcher};

use self::layouts::{Configs, Layouts};
use self::office::Stopping;
use self::pipeline::{Passes, Shared};
use self::reports::Reporter;
use self::wanted::Requests;
use self::watcher::Watcher;
use crate::config::{Tenant, tenants};
use crate::core::TenantConfig;
use crate::git::Caches;
use crate::{Folder, PipelineError, Settings};

/// After it was told to stop, a scheduler has this long to let go of its locks.
const LAST_PASS: Duration = Duration::from_secs(2);
/// Before offices that could not be opened are opened again.
const AGAIN: Duration = Duration::from_secs(1);

/// A scheduler.
#[derive(Clone)]
pub struct Scheduler {
    /// Its session.
    pub session: Session,
    /// Where the history is.
    pub journals: Journals,
    /// Tenants and connections.
    pub settings: Settings,
    /// Where its caches are.
    pub folder: Folder,
    /// Who it is, for others.
    pub name: String,
}

/// All tenants by name.
type Tenants = Vec<(Name, Tenant)>;

impl Scheduler {
    /// Works until `stop`. `ready` is called once it contends for its offices.
    pub async fn run(
        &self,
        ready: impl AsyncFnOnce(),
        stop: impl Future<Output = ()>,
    ) -> Result<(), PipelineError> {
        parse(&self.settings.tenants)?;
        let publish = self.session.across_terms(async |_| self.publish().await);
        let mut stop = std::pin::pin!(stop);
        tokio::select! {
            published = publish => published?,
            () = &mut stop => return Ok(()),
        }
        ready().await;
        let (tell, stopping) = watch::channel(false);
        let stopped = async {
            stop.await;
            tell.send_replace(true);
            tokio::time::sleep(LAST_PASS).await;
        };
        tokio::select! {
            served = self.serve(&stopping) => served,
            () = stopped => Ok(()),
        }
    }

    /// Says what all schedulers work by: the tenant file of whoever started last.
    async fn publish(&self) -> Result<(), PipelineError> {
        let connections = || self.settings.connections.iter();
        let conf = SystemConf {
            tenants: self.settings.tenants.clone(),
            hosts: connections().map(|(name, found)| (name.clone(), found.host.clone())).collect(),
            submit: connections().map(|(name, found)| (name.clone(), found.submit.clone())).collect(),
        };
        let term = self.session.term();
        for queue in [JobQueue::Executor, JobQueue::Merger] {
            for folder in queue.directories() {
                retry::ensure(&term, folder.path(), b"").await?;
            }
        }
        let lock = Lock::new(&self.session, system_conf_lock()).identified_by(&self.name).acquire().await?;
        let znode = system_conf();
        let known = term.read(&znode.maybe_damaged()).await?;
        if known.as_ref().and_then(|known| known.value.clone().sound()).as_ref() != Some(&conf) {
            if known.is_some() {
                info!("the tenant file differs from the one in ZooKeeper, and replaces it");
            }
            match retry::touch(&term, znode.path(), &conf.encode()).await {
                Err(CallError::NoZnode { .. }) => retry::ensure(&term, znode.path(), &conf.encode()).await?,
                written => drop(written?),
            }
        }
        Ok(lock.release().await?)
    }

    /// Keeps offices for the configuration in ZooKeeper; when that changes, closes them and opens others.
    async fn serve(&self, stopping: &Stopping) -> Result<(), PipelineError> {
        let znode = system_conf();
        let cache = TreeCache::start(&self.session, &znode);
        cache.ready().await?;
        let mut revision = cache.subscribe();
        loop {
            revision.borrow_and_update();
            let conf = cache.read(&znode.maybe_damaged())?.and_then(|found| found.value.sound());
            let Some(conf) = conf else {
                warn!(
                    path = znode.path(),
                    "the system configuration is missing or damaged; restart a scheduler to write it"
                );
                let _ = revision.changed().await;
                continue;
            };
            let changed = async {
                loop {
                    if revision.changed().await.is_err() {
                        return cache.ready().await;
                    }
                    let now = cache
                        .read(&znode.maybe_damaged())
                        .ok()
                        .flatten()
                        .and_then(|found| found.value.sound());
                    if now.is_some_and(|now| now != conf) {
                        return Ok(());
                    }
                }
            };
            tokio::select! {
                ended = self.keep_offices(&conf, stopping) => match ended {
                    Ok(()) => return Ok(()),
                    Err(mut error) => {
                        if matches!(error.call(), Some(CallError::Closed)) {
                            return Err(error);
                        }
                        warn!(error = %whole(&error), "offices cannot be kept; opening them again");
                        tokio::time::sleep(AGAIN).await;
                    }
                },
                changed = changed => {
                    changed?;
                    info!("the system configuration has changed");
                }
            }
        }
    }

    /// Opens all offices; ends when all are closed.
    async fn keep_offices(&self, conf: &SystemConf, stopping: &Stopping) -> Result<(), PipelineError> {
        let (session, caches) = (&self.session, &Caches::new(self.folder.git()));
        let tenants = parse(&conf.tenants)?;
        let configs: &Configs = &watch::Sender::default();
        let hosts = &conf.hosts;
        let layouts: Vec<Layouts<'_>> = tenants
            .iter()
            .map(|(name, tenant)| Layouts { session, name, tenant, hosts, host: &self.name })
            .collect();
        let projects = projects(&tenants);
        let requests = Requests::follow(session).await?;
        let settings = Arc::new(self.settings.clone());
        let reporter = Reporter {
            session: session.clone(),
            journals: self.journals.clone(),
            caches: caches.clone(),
            settings: settings.clone(),
            turns: Arc::default(),
        };
        let mut offices: FuturesUnordered<LocalBoxFuture<'_, ()>> = FuturesUnordered::new();
        for (name, connection) in &self.settings.connections {
            let Some(projects) = projects.get(name) else { continue };
            let watcher = Watcher { session, caches, name, connection, projects };
            let watch = async move |grant: &_| watcher.run(grant).await;
            offices.push(self.office(watcher_election(name), stopping, watch).boxed_local());
            let tenants = &tenants;
            let forward = async move |grant: &_| forwarder::run(session, grant, name, tenants).await;
            offices.push(self.office(forwarder_election(name), stopping, forward).boxed_local());
        }
        for layouts in &layouts {
            let handle = async move |grant: &_| tenant::run(layouts, grant, configs).await;
            offices.push(self.office(trigger_lock(layouts.name), stopping, handle).boxed_local());
        }
        let stored = self.stored_pipelines(&tenants).await?;
        let submit = &conf.submit;
        let shared =
            Shared { session, settings: &settings, caches, reporter: &reporter, requests: &requests, submit };
        let of_pipelines = self.keep_pipelines(&shared, configs, stored, stopping);
        tokio::select! {
            ended = layouts::follow(&layouts, configs) => ended,
            () = async { tokio::join!(of_pipelines, async { while offices.next().await.is_some() {} }); } => Ok(()),
        }
    }

    async fn office(
        &self,
        lock: menagerie_znodes::Znode<menagerie_znodes::Dir>,
        stopping: &Stopping,
        work: impl AsyncFn(&menagerie_kernel::recipes::grant::Grant) -> Result<(), PipelineError>,
    ) {
        office::run(&self.session, lock, &self.name, stopping, work).await;
    }

    /// The pipelines that have a state. A layout may not have them any more.
    async fn stored_pipelines(&self, tenants: &Tenants) -> Result<Vec<PipelineZnodes>, PipelineError> {
        let mut stored = Vec::new();
        for (tenant, _) in tenants {
            let names = match self.session.term().children(tenant_pipelines(tenant).path()).await {
                Err(CallError::NoZnode { .. }) => Vec::new(),
                names => names?,
            };
            let named = names.into_iter().filter_map(|name| Name::new(name).ok());
            stored.extend(named.map(|pipeline| PipelineZnodes { tenant: tenant.clone(), pipeline }));
        }
        Ok(stored)
    }

    /// An office for each pipeline of each tenant, as layouts come.
    async fn keep_pipelines(
        &self,
        shared: &Shared<'_>,
        configs: &Configs,
        stored: Vec<PipelineZnodes>,
        stopping: &Stopping,
    ) {
        let mut opened: BTreeMap<PipelineZnodes, watch::Sender<Option<Arc<TenantConfig>>>> = BTreeMap::new();
        let mut offices: FuturesUnordered<LocalBoxFuture<'_, ()>> = FuturesUnordered::new();
        let mut seen = configs.subscribe();
        loop {
            let known = seen.borrow_and_update().clone();
            let defined = known.iter().flat_map(|(tenant, config)| {
                let names = config.layout().pipelines().filter_map(|pipeline| Name::new(&pipeline.name).ok());
                names.map(|pipeline| PipelineZnodes { tenant: tenant.clone(), pipeline })
            });
            // Also those that a layout does not have any more: what is in them must leave.
            for at in stored.iter().cloned().chain(defined) {
                if opened.contains_key(&at) {
                    continue;
                }
                let (tell, config) = watch::channel(None);
                opened.insert(at.clone(), tell);
                let lock = at.lock();
                let passes = Passes { shared, at, config };
                let work = async move |grant: &_| passes.run(grant).await;
                offices.push(self.office(lock, stopping, work).boxed_local());
            }
            for (at, tell) in &opened {
                tell.send_if_modified(|told| {
                    let now = known.get(&at.tenant).cloned();
                    let is_new = told.as_ref().map(|told| told.id()) != now.as_ref().map(|now| now.id());
                    *told = now;
                    is_new
                });
            }
            tokio::select! {
                _ = seen.changed() => {}
                _ = offices.next(), if !offices.is_empty() => if *stopping.borrow() && offices.is_empty() {
                    return;
                },
                () = office::stop_requested(stopping), if offices.is_empty() => return,
            }
        }
    }
}

/// The tenants of a tenant file.
fn parse(text: &str) -> Result<Tenants, PipelineError> {
    let found = tenants(text).map_err(PipelineError::Tenants)?;
    let named = |tenant: Tenant| match Name::new(&tenant.name) {
        Ok(name) => Ok((name, tenant)),
        Err(error) => Err(PipelineError::Refused {
            why: format!("tenant {:?}: {error}", tenant.name),
            help: "give it another name".to_owned(),
        }),
    };
    found.into_iter().map(named).collect()
}

/// The projects of each connection.
fn projects(tenants: &Tenants) -> BTreeMap<String, BTreeSet<String>> {
    let mut found: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for project in tenants.iter().flat_map(|(_, tenant)| &tenant.projects) {
        found.entry(project.connection.clone()).or_default().insert(project.name.clone());
    }
    found
}
