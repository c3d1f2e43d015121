//! The work on one share: a lane for each partition; and, for whoever seals, the end of the task.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use menagerie_journal::{Fence, JournalError};
use menagerie_journal_directory::JournalRef;
use menagerie_kernel::{CallError, Term, Versioned, unique};
use menagerie_znodes::flows::{Ends, Payload, TaskRecord};
use serde_json::json;
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::Peers;
use super::follow::Followed;
use crate::FlowError;
use crate::core::JobId;
use crate::files::output;
use crate::job::{Function, read};
use crate::lane::{self, KnownEnds, LaneEnd, Task};
use crate::links::Links;

/// A peer's share of a task.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Share {
    /// The offer's number.
    pub offer: u64,
    /// The share's number.
    pub number: u64,
    job: JobId,
    task: u32,
    /// None before the offer is acknowledged.
    pub partitions: Vec<u32>,
    fence: Fence,
}

impl Share {
    /// What a payload says; `None` if it offers nothing.
    pub fn of(payload: &Payload, fence: Fence) -> Option<Self> {
        Some(Self {
            offer: payload.offer,
            number: payload.share,
            job: payload.job.clone()?,
            task: payload.task,
            partitions: payload.partitions.clone(),
            fence,
        })
    }
}

/// How a share ended.
#[derive(Debug)]
pub enum Done {
    /// All its partitions are drained.
    Drained,
    /// And it was all of the task: the links out of it end here.
    Sealed(Ends),
    /// The job cannot be done.
    Failed(String),
}

/// Works until all partitions are drained. If somebody else has one of them now, waits until it is dropped.
pub async fn run(peers: &Peers, term: &Term, share: &Share, is_sealing: bool) -> Result<Done, FlowError> {
    let (task, _following) = match task(peers, &term.patient(), share).await? {
        Ok(task) => task,
        Err(why) => return Ok(Done::Failed(why)),
    };
    let mut lanes = JoinSet::new();
    for partition in &share.partitions {
        lanes.spawn(lane::run(task.clone(), *partition, share.fence));
    }
    while let Some(ended) = lanes.join_next().await {
        match ended {
            Ok(LaneEnd::Drained) => {}
            Ok(LaneEnd::Superseded) => std::future::pending().await,
            Ok(LaneEnd::Failed(why)) => return Ok(Done::Failed(why)),
            Err(error) => return Ok(Done::Failed(format!("a task panicked: {error}"))),
        }
    }
    if is_sealing { seal(&task).await } else { Ok(Done::Drained) }
}

/// Ends the task: publishes what it wrote, and says where its links end. We have all partitions, by the newest fence, so
/// nobody can add to them any more.
async fn seal(task: &Task) -> Result<Done, FlowError> {
    if let Function::JsonlOutput { path } = &task.entry.function {
        let parts = lane::parts(task).await?;
        if let Err(why) = publish(path, &task.job, parts).await {
            return Ok(Done::Failed(format!("task {:?}: {why}", task.record.name.as_str())));
        }
    }
    let mut ends = Ends::new();
    for after in task.after.keys() {
        let stats = task.journal.stats(&task.topics.link(task.number, *after)).await?;
        ends.insert(*after, stats.iter().map(|stats| stats.last.0.0).collect());
    }
    Ok(Done::Sealed(ends))
}

async fn publish(folder: &Path, job: &JobId, parts: Vec<output::Part>) -> Result<(), String> {
    let (folder, job) = (folder.to_owned(), job.clone());
    let publish = move || {
        output::publish(&folder, job.as_str(), &parts, &unique::hex())
            .map_err(|error| format!("cannot publish the output in {}: {error}", folder.display()))
    };
    tokio::task::spawn_blocking(publish).await.unwrap_or_else(|error| Err(error.to_string()))
}

/// What the tree says about a task; or why it makes no sense. Also follows where its inputs end, until dropped.
async fn task(
    peers: &Peers,
    term: &Term,
    share: &Share,
) -> Result<Result<(Task, Following), String>, FlowError> {
    let tree = &peers.deployment;
    let job = required(term.read(&tree.job(&share.job)).await?, tree.job(&share.job).path())?;
    let catalog = required(term.read(&tree.catalog(&share.job)).await?, tree.catalog(&share.job).path())?;
    let workflow = required(term.read(&tree.workflow(&share.job)).await?, tree.workflow(&share.job).path())?;
    let numbers: Vec<_> = (1..=job.tasks).map(|number| tree.task(&share.job, number)).collect();
    let mut records = BTreeMap::new();
    for (number, found) in (1..).zip(term.read_many(&numbers).await?) {
        records.insert(number, required(found, tree.task(&share.job, number).path())?);
    }
    let value = json!({ "name": job.name.as_str(), "catalog": catalog.0, "workflow": workflow.0 });
    let parsed = match read::job(&value, Path::new("/")) {
        Ok(parsed) => parsed,
        Err(problem) => return Ok(Err(format!("the stored job is damaged: {problem}"))),
    };
    let Some((record, entry)) = records
        .get(&share.task)
        .and_then(|record| Some((record.clone(), parsed.entry(&record.name)?.clone())))
    else {
        return Ok(Err(format!("there is no task {} in the job", share.task)));
    };
    let target = JournalRef { journal: job.journal.clone(), folder: Some(job.folder) };
    let journal = peers.journals.get(&target).ok_or_else(|| no_journal(&job.journal))?;
    let after =
        record.after.iter().filter_map(|after| Some((*after, records.get(after)?.partitions))).collect();
    let following = Following::start(peers, term, share, &record);
    let ends = following.ends.clone();
    let (topics, job, number) = (Links::of(&share.job), share.job.clone(), share.task);
    let task = Task { journal, topics, job, number, record, entry, after, ends };
    Ok(Ok((task, following)))
}

fn required<T>(found: Option<Versioned<T>>, path: &str) -> Result<T, CallError> {
    found.map(|found| found.value).ok_or_else(|| CallError::NoZnode { path: path.to_owned() })
}

fn no_journal(name: &str) -> JournalError {
    JournalError::Unreachable { address: format!("{name:?}"), why: "it is not known here".to_owned() }
}

/// Where the links into a task end, as far as it is known.
struct Following {
    ends: watch::Receiver<KnownEnds>,
    _collecting: JoinSet<()>,
}

impl Following {
    fn start(peers: &Peers, term: &Term, share: &Share, record: &TaskRecord) -> Self {
        let (known, ends) = watch::channel(KnownEnds::new());
        let known = Arc::new(known);
        let mut collecting = JoinSet::new();
        for before in record.before.iter().copied() {
            let sealed = Followed::start(term, peers.deployment.task_sealed(&share.job, before));
            let (known, task) = (known.clone(), share.task);
            collecting.spawn(async move {
                let mut seen = sealed.seen();
                // An error is the end of the session, which ends the peer.
                let ends = match seen.wait_for(Option::is_some).await {
                    Ok(found) => found.as_ref().and_then(|(sealed, _)| sealed.ends.get(&task).cloned()),
                    Err(_) => None,
                };
                if let Some(ends) = ends {
                    known.send_modify(|known| drop(known.insert(before, ends.into())));
                }
                // The others are told as long as we are there.
                std::future::pending().await
            });
        }
        Self { ends, _collecting: collecting }
    }
}
