//! What users do with jobs: submit, watch, kill.

use std::collections::BTreeSet;
use std::time::Duration;

use menagerie_kernel::session::now_ms;
use menagerie_kernel::{CallError, Session, Term, Versioned, retry, unique};
use menagerie_znodes::flows::{
    Answer, Deployment, JobRecord, Payload, PeerRecord, PeerStateRecord, Plan, complete_tasks, newest_state,
};
use menagerie_znodes::{MaybeDamaged, Name, Payload as _, Znode};
use tokio::time::timeout;

use crate::core::JobId;
use crate::job::{JOB_BYTES_MAX, Job};
use crate::view::{EdgeView, JobRow, JobView, PeerView, Standing, TaskRow};
use crate::{FlowError, layout};

/// A look at the tree is repeated at least this often, for the number of complete tasks.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// Jobs of one deployment.
#[derive(Clone)]
pub struct Jobs {
    /// Its session.
    pub session: Session,
    /// Whose jobs.
    pub deployment: Deployment,
}

/// How far a job is, while somebody waits for it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Progress {
    /// No coordinator has taken note of it yet.
    Submitted,
    /// So many of its tasks are complete.
    Running {
        /// Complete tasks.
        complete: u32,
        /// All tasks.
        tasks: u32,
        /// Peers that work on it.
        peers: usize,
    },
}

/// How far a job is, or how it ended.
enum Stage {
    Underway(Progress),
    Ended(Ended),
}

/// How a job ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ended {
    /// All tasks are complete.
    Complete,
    /// A task could not be done.
    Failed(String),
    /// Somebody killed it.
    Killed,
    /// The coordinator refused it.
    Refused(String),
}

/// A new id for a job.
pub fn new_id() -> JobId {
    Name::new(unique::hex()).expect("hex digits are a name")
}

impl Jobs {
    /// Submits a job under an id. Safe to repeat: the id decides.
    pub async fn submit(&self, id: &JobId, job: &Job) -> Result<(), FlowError> {
        let plan = Plan { job: job.to_value(), submitted_ms: now_ms() as u64, kill: false, answer: None };
        let (znode, data) = (self.deployment.plan(id), plan.encode());
        if data.len() > JOB_BYTES_MAX {
            let why =
                format!("it has {} KiB as JSON, and {} are allowed", data.len() >> 10, JOB_BYTES_MAX >> 10);
            return Err(FlowError::Refused { why });
        }
        let submit = async |term: Term| {
            layout::ensure(&term, &self.deployment).await?;
            retry::create_named(&term, znode.path(), &data).await
        };
        Ok(self.session.across_terms(submit).await?)
    }

    /// Waits until a job has ended, and reports each progress once.
    pub async fn wait(&self, id: &JobId, mut report: impl FnMut(&Progress)) -> Result<Ended, FlowError> {
        let mut last = None;
        loop {
            match self.session.across_terms(|term| self.progress(term, id.clone())).await? {
                Stage::Ended(ended) => return Ok(ended),
                Stage::Underway(progress) => {
                    if last.as_ref() != Some(&progress) {
                        report(&progress);
                        last = Some(progress);
                    }
                }
            }
            self.session.across_terms(|term| self.changed(term, id.clone())).await?;
        }
    }

    /// How far a job is, or how it ended.
    async fn progress(&self, term: Term, id: JobId) -> Result<Stage, FlowError> {
        let (term, tree) = (term.patient(), &self.deployment);
        let plan = term.read(&tree.plan(&id)).await?.ok_or_else(|| self.no_job(&id))?.value;
        let job = term.read(&tree.job(&id)).await?.map(|job| job.value);
        let why = || match &plan.answer {
            Some(Answer::Refused(why)) => why.clone(),
            Some(Answer::Accepted) | None => job.as_ref().and_then(|job| job.why.clone()).unwrap_or_default(),
        };
        Ok(match Standing::of(&plan, job.as_ref()) {
            Standing::Submitted => Stage::Underway(Progress::Submitted),
            Standing::Running => {
                let complete = self.complete_tasks(&term, &id).await?.len() as u32;
                let peers = self.busy_peers(&term).await?;
                let peers = peers.iter().filter(|(_, job, _)| *job == id).count();
                let tasks = job.as_ref().map_or(0, |job| job.tasks);
                Stage::Underway(Progress::Running { complete, tasks, peers })
            }
            Standing::Complete => Stage::Ended(Ended::Complete),
            Standing::Failed | Standing::Damaged => Stage::Ended(Ended::Failed(why())),
            Standing::Killed => Stage::Ended(Ended::Killed),
            Standing::Refused => Stage::Ended(Ended::Refused(why())),
        })
    }

    /// The numbers of a job's complete tasks.
    async fn complete_tasks(&self, term: &Term, id: &JobId) -> Result<BTreeSet<u32>, CallError> {
        Ok(complete_tasks(&term.children(self.deployment.tasks(id).path()).await?))
    }

    /// Waits until a job has changed, or a while.
    async fn changed(&self, term: Term, id: JobId) -> Result<(), CallError> {
        let (term, tree) = (term.patient(), &self.deployment);
        let (_, job) = term.stat_watched(tree.job(&id).path()).await?;
        let (_, plan) = term.stat_watched(tree.plan(&id).path()).await?;
        let either = async {
            tokio::select! {
                change = job.changed() => change,
                change = plan.changed() => change,
            }
        };
        // Too long only means to look again.
        let _ = timeout(LOOK_EVERY, either).await;
        Ok(())
    }

    /// All jobs, the newest first.
    pub async fn list(&self) -> Result<Vec<JobRow>, FlowError> {
        let term = self.session.term().patient();
        let tree = &self.deployment;
        let mut rows = Vec::new();
        for id in names(&term, &tree.plans()).await? {
            rows.extend(self.row(&term, &id).await?);
        }
        rows.sort_by(|a, b| (b.submitted_ms, &b.id).cmp(&(a.submitted_ms, &a.id)));
        Ok(rows)
    }

    async fn row(&self, term: &Term, id: &JobId) -> Result<Option<JobRow>, FlowError> {
        let tree = &self.deployment;
        // One that is damaged must not hide the others.
        let damaged = |path: &str, why: String| Ok(Some(JobRow::damaged(id, format!("{path}: {why}"))));
        let (plan, job) = (tree.plan(id).maybe_damaged(), tree.job(id).maybe_damaged());
        let plan = match term.read(&plan).await?.map(|found| found.value) {
            None => return Ok(None),
            Some(MaybeDamaged::Sound(plan)) => plan,
            Some(MaybeDamaged::Damaged { why, .. }) => return damaged(tree.plan(id).path(), why),
        };
        let job = match term.read(&job).await?.map(|found| found.value) {
            None => None,
            Some(MaybeDamaged::Sound(job)) => Some(job),
            Some(MaybeDamaged::Damaged { why, .. }) => return damaged(tree.job(id).path(), why),
        };
        let complete = match &job {
            Some(_) => self.complete_tasks(term, id).await?.len() as u32,
            None => 0,
        };
        Ok(Some(JobRow::new(id, &plan, job.as_ref(), complete)))
    }

    /// A job with its tasks and links; [`Jobs::measure`] adds what waits in these.
    pub async fn show(&self, id: &JobId) -> Result<JobView, FlowError> {
        let term = self.session.term().patient();
        let job = self.row(&term, id).await?.ok_or_else(|| self.no_job(id))?;
        if job.tasks == 0 {
            return Ok(JobView { job, tasks: Vec::new(), edges: Vec::new() });
        }
        let (busy, complete) = (self.busy_peers(&term).await?, self.complete_tasks(&term, id).await?);
        let znodes: Vec<_> = (1..=job.tasks).map(|number| self.deployment.task(id, number)).collect();
        let (mut tasks, mut edges) = (Vec::new(), Vec::new());
        for (number, record) in (1..).zip(term.read_many(&znodes).await?) {
            let Some(Versioned { value: record, .. }) = record else { continue };
            let peers = busy.iter().filter(|(_, job, task)| job == id && *task == number);
            let workers = self.workers(&term, peers.map(|(peer, ..)| peer)).await?;
            edges.extend(record.before.iter().map(|from| EdgeView::new(*from, number, record.partitions)));
            tasks.push(TaskRow::new(number, record, complete.contains(&number), workers));
        }
        edges.sort_by_key(|edge| (edge.from, edge.to));
        Ok(JobView { job, tasks, edges })
    }

    /// What these peers do at the moment; those that have just died are left out.
    async fn workers(
        &self,
        term: &Term,
        peers: impl Iterator<Item = &Name>,
    ) -> Result<Vec<PeerView>, FlowError> {
        let mut workers = Vec::new();
        for peer in peers {
            workers.extend(self.worker(term, peer).await?);
        }
        let records: Vec<_> =
            workers.iter().map(|(peer, _)| self.deployment.peer(peer).maybe_damaged()).collect();
        let records = term.read_many(&records).await?;
        let with_host = |((_, worker), record): ((&Name, PeerView), Option<Versioned<_>>)| {
            let host = match record?.value {
                MaybeDamaged::Sound(PeerRecord { host, .. }) => Some(host),
                MaybeDamaged::Damaged { .. } => None,
            };
            Some(PeerView { host, ..worker })
        };
        Ok(workers.into_iter().zip(records).filter_map(with_host).collect())
    }

    /// The peers that have a task, with its job and its number.
    async fn busy_peers(&self, term: &Term) -> Result<Vec<(Name, JobId, u32)>, FlowError> {
        let peers = names(term, &self.deployment.peer_histories()).await?;
        let payloads: Vec<_> = peers.iter().map(|peer| self.deployment.payload(peer)).collect();
        let payloads = term.read_many(&payloads).await?;
        let busy = |(peer, payload): (Name, Option<Versioned<Payload>>)| {
            let payload = payload?.value;
            Some((peer, payload.job?, payload.task))
        };
        Ok(peers.into_iter().zip(payloads).filter_map(busy).collect())
    }

    /// What a peer does at the moment; `None` if it has just died.
    async fn worker<'a>(
        &self,
        term: &Term,
        peer: &'a Name,
    ) -> Result<Option<(&'a Name, PeerView)>, FlowError> {
        let history = match term.children(self.deployment.peer_history(peer).path()).await {
            Err(CallError::NoZnode { .. }) => return Ok(None),
            history => history?,
        };
        let Some(newest) = newest_state(&history) else { return Ok(None) };
        let record = term.read(&self.deployment.peer_state(peer, newest)).await?;
        let worker = |record: Versioned<PeerStateRecord>| PeerView {
            peer: peer.as_str().to_owned(),
            host: None,
            state: record.value.state,
            since_ms: u64::try_from(record.stat.ctime_ms).unwrap_or_default(),
        };
        Ok(record.map(|record| (peer, worker(record))))
    }

    /// Asks for the end of a job. The coordinator ends it.
    pub async fn kill(&self, id: &JobId) -> Result<(), FlowError> {
        loop {
            match self.session.across_terms(|term| self.try_kill(term, id.clone())).await {
                // The coordinator has answered at this moment.
                Err(FlowError::Call(CallError::BadVersion { .. } | CallError::Unknown { .. })) => {}
                done => return done,
            }
        }
    }

    async fn try_kill(&self, term: Term, id: JobId) -> Result<(), FlowError> {
        let (term, tree) = (term.patient(), &self.deployment);
        let mut plan = term.read(&tree.plan(&id)).await?.ok_or_else(|| self.no_job(&id))?;
        let job: Option<JobRecord> = term.read(&tree.job(&id)).await?.map(|job| job.value);
        let standing = Standing::of(&plan.value, job.as_ref());
        if !matches!(standing, Standing::Running | Standing::Submitted) {
            return Err(FlowError::Ended { job: id.as_str().to_owned(), state: standing.as_str() });
        }
        if plan.value.kill {
            return Ok(());
        }
        plan.value.kill = true;
        retry::set(&term, tree.plan(&id).path(), &plan.value.encode(), plan.stat.version).await?;
        Ok(())
    }

    fn no_job(&self, id: &JobId) -> FlowError {
        FlowError::NoJob {
            job: id.as_str().to_owned(),
            deployment: self.deployment.name().as_str().to_owned(),
        }
    }
}

async fn names<T>(term: &Term, dir: &Znode<T>) -> Result<Vec<Name>, CallError> {
    match term.children(dir.path()).await {
        Ok(names) => Ok(names.into_iter().filter_map(|name| Name::new(name).ok()).collect()),
        Err(CallError::NoZnode { .. }) => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}
