//! The work on one share: a lane for each partition; and, for whoever seals, the end of the task.

use std::collections::BTreeMap;
use std::path::Path;

use menagerie_journal::JournalError;
use menagerie_journal_directory::JournalRef;
use menagerie_kernel::{CallError, Session, Term, unique, whole};
use menagerie_znodes::Znode;
use menagerie_znodes::flows::Ends;
use serde_json::json;
use tokio::task::JoinSet;
use tracing::warn;

use super::Peers;
use super::ends::EndsFollower;
use super::payload::Share;
use crate::FlowError;
use crate::core::JobId;
use crate::files::output;
use crate::job::{Function, read};
use crate::lane::{self, After, LaneEnd, Task};
use crate::links::Links;

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
pub async fn run(
    peers: &Peers,
    session: &Session,
    term: &Term,
    share: &Share,
    is_sealing: bool,
) -> Result<Done, FlowError> {
    let (task, _following) = match task(peers, session, &term.patient(), share).await? {
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
    if is_sealing { Ok(seal_in_the_end(&task).await) } else { Ok(Done::Drained) }
}

/// Seals the task; waits for a journal that is away.
async fn seal_in_the_end(task: &Task) -> Done {
    let mut pause = lane::RETRY_PAUSE;
    loop {
        let error = match seal(task).await {
            Ok(done) => return done,
            Err(error) => error,
        };
        match lane::after(&error) {
            // The job is over, or somebody else seals: we are dropped.
            After::Stop => std::future::pending().await,
            After::Fail => {
                return Done::Failed(format!("task {:?}: {}", task.record.name.as_str(), whole(&error)));
            }
            After::Reopen | After::Wait => {
                let task = task.record.name.as_str();
                warn!(task, error = %whole(&error), "cannot seal yet; trying again");
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(lane::RETRY_PAUSE_MAX);
            }
        }
    }
}

/// Ends the task: publishes what it wrote, and says where its links end. We have all partitions, by the newest fence, so
/// nobody can add to them any more.
async fn seal(task: &Task) -> Result<Done, JournalError> {
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
    session: &Session,
    term: &Term,
    share: &Share,
) -> Result<Result<(Task, EndsFollower), String>, FlowError> {
    let tree = &peers.deployment;
    let job = required(term, &tree.job(&share.job)).await?;
    let catalog = required(term, &tree.catalog(&share.job)).await?;
    let workflow = required(term, &tree.workflow(&share.job)).await?;
    let numbers: Vec<_> = (1..=job.tasks).map(|number| tree.task(&share.job, number)).collect();
    let mut records = BTreeMap::new();
    for ((number, znode), found) in (1..).zip(&numbers).zip(term.read_many(&numbers).await?) {
        let found = found.ok_or_else(|| CallError::no_znode(znode))?;
        records.insert(number, found.value);
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
    let following = EndsFollower::start(session, tree, share, &record.before);
    let ends = following.ends.clone();
    let (topics, job, number) = (Links::of(&share.job), share.job.clone(), share.task);
    let task = Task { journal, topics, job, number, record, entry, after, ends };
    Ok(Ok((task, following)))
}

async fn required<T: menagerie_znodes::Payload>(term: &Term, znode: &Znode<T>) -> Result<T, CallError> {
    term.read(znode).await?.map(|found| found.value).ok_or_else(|| CallError::no_znode(znode))
}

fn no_journal(name: &str) -> JournalError {
    JournalError::Unreachable { address: format!("{name:?}"), why: "it is not known here".to_owned() }
}
