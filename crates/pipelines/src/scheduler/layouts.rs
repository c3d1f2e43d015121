//! Layouts: makes a new one when configuration has changed, and follows those that others make.
//!
//! `/layout/<tenant>` is the commit of a layout: it names the edition of the cached files of each branch. Everybody who reads
//! the same editions has the same layout.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use menagerie_kernel::recipes::blob::Blob;
use menagerie_kernel::recipes::lock::Lock;
use menagerie_kernel::recipes::tree_cache::TreeCache;
use menagerie_kernel::session::now_ms;
use menagerie_kernel::{CallError, Session, retry, whole};
use menagerie_znodes::Name;
use menagerie_znodes::pipelines::{LayoutRecord, Sha, Source, branches, layout, layouts, tenant_lock};
use tokio::sync::watch;
use tracing::{info, warn};

use super::config_cache;
use super::watcher::decode;
use crate::config::{SourceFile, Tenant};
use crate::core::{Refs, TenantConfig};
use crate::{PipelineError, submit};

/// What is said of a repository that nobody has looked at.
pub const NOT_SEEN: &str = "its repository was not seen yet";

/// Branches whose files are read concurrently.
const READS_IN_FLIGHT: usize = 8;
/// Before files that were being written are read again.
const AGAIN: Duration = Duration::from_millis(100);

/// Problems that a layout lists, and how long each may be: they are in its znode.
const PROBLEMS_MAX: usize = 200;
const PROBLEM_CHARS_MAX: usize = 1_000;

/// The configuration of each tenant, as far as it is known.
pub type Configs = watch::Sender<BTreeMap<Name, Arc<TenantConfig>>>;

/// A tenant, and what its layout is made of.
pub struct Layouts<'a> {
    /// The session.
    pub session: &'a Session,
    /// The name of the tenant.
    pub name: &'a Name,
    /// The tenant, as the tenant file has it.
    pub tenant: &'a Tenant,
    /// The host of each connection.
    pub hosts: &'a BTreeMap<String, String>,
    /// Who we are.
    pub host: &'a str,
}

/// Reads the refs of these connections as they are now.
pub async fn read_refs<'c>(
    session: &Session,
    connections: impl Iterator<Item = &'c String>,
) -> Result<Refs, PipelineError> {
    let mut refs = Refs::default();
    for connection in connections {
        if let Some((data, _)) = Blob::new(session, branches(connection)).read().await? {
            refs.0.insert(connection.clone(), decode(&data)?);
        }
    }
    Ok(refs)
}

impl Layouts<'_> {
    fn canonical(&self, connection: &str, project: &str) -> String {
        format!("{}/{project}", self.hosts.get(connection).map_or("", String::as_str))
    }

    /// The branches that configuration is read from: all, and of a config project the main one. Which that is must not depend on
    /// what somebody else pushes.
    fn branches_of(
        &self,
        refs: &Refs,
        connection: &str,
        project: &str,
        is_trusted: bool,
    ) -> Vec<(String, Sha)> {
        let Some(found) = refs.project(connection, project) else { return Vec::new() };
        let mut names = refs.branches(connection, project);
        if is_trusted {
            let main = ["main", "master"].into_iter().find(|name| names.contains(*name)).map(str::to_owned);
            names = match (main, names.len()) {
                (Some(main), _) => BTreeSet::from([main]),
                (None, 1) => names,
                (None, _) => BTreeSet::new(),
            };
        }
        let tip = |name: String| Some((found.refs.get(&format!("refs/heads/{name}"))?.clone(), name));
        names.into_iter().filter_map(tip).map(|(tip, name)| (name, tip)).collect()
    }

    /// Brings the cached files up to date, and commits a new layout if they have changed. Returns the current layout's id, and
    /// whether every repository could be read.
    pub async fn renew(&self) -> Result<(String, bool), PipelineError> {
        let refs = read_refs(self.session, self.hosts.keys()).await?;
        let mut trouble = Vec::new();
        let mut wanted = Vec::new();
        for project in &self.tenant.projects {
            let (connection, name) = (&project.connection, &project.name);
            match refs.project(connection, name) {
                None => trouble.push(format!("{name}: {NOT_SEEN}")),
                Some(found) => trouble.extend(found.trouble.as_ref().map(|why| format!("{name}: {why}"))),
            }
            let read = self.branches_of(&refs, connection, name, project.is_trusted);
            if project.is_trusted && read.is_empty() {
                trouble.push(format!(
                    "{name}: a config project has a branch main or master, or a single branch"
                ));
            }
            wanted.extend(
                read.into_iter().map(|(branch, tip)| (connection.clone(), name.clone(), branch, tip)),
            );
        }
        let reads = wanted.into_iter().map(|(connection, project, branch, tip)| async move {
            let canonical = self.canonical(&connection, &project);
            let source = Source { connection, project: project.clone() };
            let edition = config_cache::refresh(self.session, &canonical, source, &branch, &tip).await;
            // What cannot be read now is as it was: pipelines must not vanish because a repository is away.
            let (edition, why) = match edition {
                Ok(edition) => (Some(edition), None),
                Err(error @ PipelineError::Refused { .. }) => {
                    let last = config_cache::read(self.session, &canonical, &branch).await?;
                    (last.map(|(record, _)| record.edition), Some(format!("{branch}: {error}")))
                }
                Err(error) => return Err(error),
            };
            Ok((project, branch, edition, why))
        });
        let read: Vec<_> = stream::iter(reads).buffered(READS_IN_FLIGHT).try_collect().await?;
        let mut editions: BTreeMap<String, BTreeMap<String, u64>> = BTreeMap::new();
        for (project, branch, edition, why) in read {
            trouble.extend(why);
            if let Some(edition) = edition {
                editions.entry(project).or_default().insert(branch, edition);
            }
        }
        let is_whole = trouble.is_empty();
        Ok((self.commit(editions, trouble).await?, is_whole))
    }

    async fn commit(
        &self,
        branches: BTreeMap<String, BTreeMap<String, u64>>,
        trouble: Vec<String>,
    ) -> Result<String, PipelineError> {
        let lock = Lock::new(self.session, tenant_lock(self.name)).identified_by(self.host).acquire().await?;
        let (term, znode) = (lock.term().patient(), layout(self.name));
        let current = term.read(&znode.maybe_damaged()).await?;
        let known = current.as_ref().and_then(|found| found.value.clone().sound());
        let tenant = serde_json::to_value(self.tenant).unwrap_or_default();
        let same = known.filter(|known| known.branches == branches && known.tenant == tenant);
        if let Some(same) = same.as_ref().filter(|same| same.trouble == trouble) {
            lock.release().await?;
            return Ok(same.uuid.to_string());
        }
        let uuid = same.map_or_else(submit::draw_id, |same| same.uuid);
        let (host, at_ms) = (self.host.to_owned(), now_ms() as i64);
        let mut record = LayoutRecord {
            uuid,
            host,
            at_ms,
            branches,
            tenant,
            pipelines: Vec::new(),
            problems: Vec::new(),
            trouble,
        };
        let config = self.load(&record).await?.ok_or_else(|| PipelineError::Refused {
            why: "configuration files were changed while they were read".to_owned(),
            help: "nothing is to be done: they are read again".to_owned(),
        })?;
        record.pipelines = config.layout().pipelines().map(|pipeline| pipeline.name.clone()).collect();
        let problems = config.layout().problems();
        record.problems =
            problems.iter().take(PROBLEMS_MAX).map(|problem| short(problem.to_string())).collect();
        if problems.len() > PROBLEMS_MAX {
            record.problems.push(format!("and {} more", problems.len() - PROBLEMS_MAX));
        }
        info!(tenant = %self.name, layout = %record.uuid, problems = record.problems.len(), "a new layout");
        let transaction = match current {
            Some(_) => lock.transaction().set(&znode, &record, None),
            None => {
                retry::ensure(&term, layouts().path(), b"").await?;
                lock.transaction().create(&znode, &record)
            }
        };
        let (there, ours) = (&term, &record);
        let proof = || async move {
            let found = there.read(&layout(self.name)).await?;
            Ok(found.filter(|found| found.value == *ours).map(|_| Vec::new()))
        };
        retry::commit(transaction, proof).await?;
        lock.release().await?;
        Ok(record.uuid.to_string())
    }

    /// The configuration that a layout names; `None` while its files are being changed.
    async fn load(&self, record: &LayoutRecord) -> Result<Option<TenantConfig>, PipelineError> {
        let mut files = Vec::new();
        let mut known: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for project in &self.tenant.projects {
            for (branch, edition) in record.branches.get(&project.name).into_iter().flatten() {
                let canonical = self.canonical(&project.connection, &project.name);
                let found = config_cache::read(self.session, &canonical, branch).await?;
                let Some((_, texts)) = found.filter(|(found, _)| found.edition == *edition) else {
                    return Ok(None);
                };
                known.entry(project.name.clone()).or_default().insert(branch.clone());
                files.extend(texts.into_iter().map(|(path, text)| SourceFile {
                    project: project.name.clone(),
                    branch: branch.clone(),
                    path,
                    text,
                }));
            }
        }
        let id = record.uuid.to_string();
        Ok(Some(TenantConfig::new(id, self.tenant.clone(), self.hosts.clone(), known, files)))
    }

    /// Publishes the layout that the record names, unless it is the one that is known.
    async fn take_over(&self, record: &LayoutRecord, configs: &Configs) -> Result<bool, PipelineError> {
        if configs.borrow().get(self.name).is_some_and(|known| known.id() == record.uuid.as_str()) {
            return Ok(true);
        }
        if serde_json::to_value(self.tenant).unwrap_or_default() != record.tenant {
            // It was made of another tenant file; ours follows.
            return Ok(true);
        }
        let Some(config) = self.load(record).await? else { return Ok(false) };
        configs.send_modify(|configs| drop(configs.insert(self.name.clone(), Arc::new(config))));
        Ok(true)
    }
}

fn short(mut text: String) -> String {
    if let Some((end, _)) = text.char_indices().nth(PROBLEM_CHARS_MAX) {
        text.truncate(end);
        text.push('…');
    }
    text
}

/// Follows the layouts of all tenants, until the session is closed.
pub async fn follow(tenants: &[Layouts<'_>], configs: &Configs) -> Result<(), PipelineError> {
    let Some(first) = tenants.first() else { return std::future::pending().await };
    let cache = TreeCache::start(first.session, &layouts());
    cache.ready().await?;
    let mut revision = cache.subscribe();
    loop {
        revision.borrow_and_update();
        let mut is_whole = true;
        for tenant in tenants {
            let record = match cache.read(&layout(tenant.name)) {
                Ok(record) => record,
                Err(error @ CallError::Payload { .. }) => {
                    warn!(tenant = %tenant.name, %error, "the layout is damaged; it is made anew when a branch moves");
                    None
                }
                Err(error) => return Err(error.into()),
            };
            if let Some(record) = record {
                is_whole &= match tenant.take_over(&record.value, configs).await {
                    Ok(taken) => taken,
                    Err(error) => {
                        warn!(tenant = %tenant.name, error = %whole(&error), "cannot read a layout; trying again");
                        false
                    }
                };
            }
        }
        tokio::select! {
            changed = revision.changed() => if changed.is_err() {
                cache.ready().await?;
            },
            () = tokio::time::sleep(AGAIN), if !is_whole => {}
        }
    }
}
