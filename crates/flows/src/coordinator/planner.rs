//! What a job needs in the journal: topics for its links, and the files of its inputs.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use menagerie_journal::{
    Append, Commit, Consumer, Created, Fence, Journal, JournalError, MessageId, Move, NewMessage, Remedy,
    Ticks, Topic,
};
use menagerie_journal_directory::{JournalRef, Journals};
use menagerie_kernel::whole;
use menagerie_znodes::Name;
use menagerie_znodes::flows::{JobRecord, JobState, Plan, TaskRecord};
use tracing::warn;

use crate::core::{Event, JobId, JobView, TaskView};
use crate::files::input;
use crate::job::{CatalogEntry, Consumption, Function, Job, graph, read};
use crate::links::{self, Links};

/// How long to wait for a first journal, so that processes can be started in any order.
const JOURNAL_PATIENCE: Duration = Duration::from_secs(5);

/// Prepares jobs, under the fence of the leader.
#[derive(Clone)]
pub struct Planner {
    journals: Journals,
    fence: Fence,
}

/// Why a job is not prepared.
enum Refusal {
    Refused(String),
    Later(String),
}

impl From<JournalError> for Refusal {
    fn from(error: JournalError) -> Self {
        match error.remedy() {
            Remedy::Retry | Remedy::Reacquire | Remedy::Conflict => Self::Later(error.to_string()),
            Remedy::TellUser | Remedy::Bug => match error {
                JournalError::Unknown(_) => Self::Later(error.to_string()),
                error => Self::Refused(error.to_string()),
            },
        }
    }
}

impl Planner {
    /// A planner with the fence of a leader.
    pub fn new(journals: Journals, fence: Fence) -> Self {
        Self { journals, fence }
    }

    /// Makes a job's topics, and stores which files its inputs read; the event says whether it is planned or refused. Done
    /// twice, it is the same. The error says why it cannot be done yet.
    pub async fn prepare(&self, id: &JobId, plan: &Plan) -> Result<Event, String> {
        let planned = match plan.kill {
            true => Err(Refusal::Refused("it was killed before it was planned".to_owned())),
            false => self.plan(id, plan).await,
        };
        match planned {
            Ok((view, documents)) => Ok(Event::Plan { job: id.clone(), view, documents }),
            Err(Refusal::Refused(why)) => {
                self.clear_everywhere(id).await;
                Ok(Event::Refuse { job: id.clone(), why })
            }
            Err(Refusal::Later(why)) => Err(why),
        }
    }

    /// Deletes what an earlier leader has made for a job before it was refused.
    async fn clear_everywhere(&self, id: &JobId) {
        for name in self.journals.names(Duration::ZERO).await {
            if let Some(journal) = self.journals.get(&JournalRef::named(&name))
                && let Err(error) = delete_topics(&*journal, id).await
            {
                warn!(job = %id, journal = name, error = %whole(&error), "topics of a refused job may be left");
            }
        }
    }

    async fn plan(
        &self,
        id: &JobId,
        plan: &Plan,
    ) -> Result<(JobView, (serde_json::Value, serde_json::Value)), Refusal> {
        // Paths are absolute: the submitter saw to that.
        let job =
            read::job(&plan.job, Path::new("/")).map_err(|problem| Refusal::Refused(problem.to_string()))?;
        // Folders may be slow: the leader's session must live meanwhile.
        let looked = {
            let job = job.clone();
            tokio::task::spawn_blocking(move || input_files(&job)).await
        };
        let files = looked.map_err(|error| Refusal::Later(error.to_string()))?.map_err(Refusal::Refused)?;
        let (name, journal) = self.choose(id).await?;
        let folder = journal.folder().await?.to_string();
        let tasks = self.make_topics(&*journal, id, &job, &files).await?;
        let record = JobRecord {
            name: job.name.clone(),
            state: JobState::Running,
            why: None,
            journal: name,
            folder,
            submitted_ms: plan.submitted_ms,
            ended_ms: None,
            tasks: tasks.len() as u32,
            is_cleared: false,
        };
        Ok((JobView { record, tasks }, (job.catalog_value(), job.workflow_value())))
    }

    /// Jobs are spread over the journals.
    async fn choose(&self, id: &JobId) -> Result<(String, Arc<dyn Journal>), Refusal> {
        let mut names = self.journals.names(JOURNAL_PATIENCE).await;
        if names.is_empty() {
            return Err(Refusal::Later("there is no journal; start one with `menagerie journal`".to_owned()));
        }
        let index = crc32c::crc32c(id.as_str().as_bytes()) as usize % names.len();
        let name = names.swap_remove(index);
        match self.journals.get(&JournalRef::named(&name)) {
            Some(journal) => Ok((name, journal)),
            None => Err(Refusal::Later(format!("there is no journal {name:?} any more"))),
        }
    }

    async fn make_topics(
        &self,
        journal: &dyn Journal,
        id: &JobId,
        job: &Job,
        files: &BTreeMap<Name, Vec<String>>,
    ) -> Result<BTreeMap<u32, TaskView>, Refusal> {
        let topics = Links::of(id);
        let mut tasks = BTreeMap::new();
        for node in graph::tasks(job) {
            let entry = job.entry(&node.name).expect("a task is an entry of the catalogue");
            let partitions = match files.get(&node.name) {
                Some(files) => {
                    let control = topics.control(node.number);
                    self.store_files(journal, &topics, &control, entry, files).await?
                }
                None => entry.link_partitions(),
            };
            let mut needed: Vec<Topic> =
                node.before.iter().map(|from| topics.link(*from, node.number)).collect();
            if entry.function == Function::Count {
                needed.push(topics.state(node.number));
            }
            for topic in needed {
                journal.create_topic(&topic, topics.config(partitions)).await?;
            }
            let record = TaskRecord {
                name: node.name,
                task_type: entry.function.task_type().to_owned(),
                phase: node.phase,
                is_sequential: entry.consumption == Consumption::Sequential,
                partitions,
                before: node.before,
                after: node.after,
            };
            tasks.insert(node.number, TaskView { record, is_complete: false });
        }
        Ok(tasks)
    }

    /// Stores once which files an input reads, dealt to the partitions of its control topic. Returns their number.
    async fn store_files(
        &self,
        journal: &dyn Journal,
        topics: &Links,
        control: &Topic,
        entry: &CatalogEntry,
        files: &[String],
    ) -> Result<u32, Refusal> {
        let wanted = entry.link_partitions().min(files.len() as u32);
        let partitions = match journal.create_topic(control, topics.config(wanted)).await? {
            Created::Fresh => wanted,
            Created::Existed(config) => config.partitions,
        };
        let (first, planner) =
            (links::partition(control, 1), Consumer::new("planner").expect("it is a name"));
        let opened = journal.open(&first, &planner, self.fence).await?;
        if opened.position != MessageId::ZERO {
            // An earlier leader has stored them, and died before the job was planned.
            return Ok(partitions);
        }
        let appends = input::deal(files, partitions).into_iter().zip(1..).map(|(files, number)| {
            let body = serde_json::to_vec(&files).expect("paths were checked to be text");
            Append { partition: links::partition(control, number), message: NewMessage::new(body) }
        });
        let moved = Move {
            partition: first,
            consumer: planner,
            fence: self.fence,
            from: Some(MessageId::ZERO),
            position: MessageId(Ticks(1)),
        };
        journal
            .commit(Commit { appends: appends.collect(), moves: vec![moved], ..Commit::default() })
            .await?;
        Ok(partitions)
    }

    /// Deletes the topics of a job that has ended.
    pub async fn clear(&self, id: &JobId, record: &JobRecord) -> Result<(), String> {
        let target = JournalRef { journal: record.journal.clone(), folder: Some(record.folder.clone()) };
        let Some(journal) = self.journals.get(&target) else {
            return Err(format!("there is no journal {:?}", record.journal));
        };
        delete_topics(&*journal, id).await.map_err(|error| error.to_string())
    }
}

async fn delete_topics(journal: &dyn Journal, id: &JobId) -> Result<(), JournalError> {
    let topics = Links::of(id);
    for topic in journal.topics().await?.into_iter().map(|view| view.topic) {
        if topics.is_ours(&topic) {
            journal.delete_topic(&topic).await?;
        }
    }
    Ok(())
}

/// The files of each input, by its name. Looked for before any topic is made: a job that is refused leaves nothing behind.
fn input_files(job: &Job) -> Result<BTreeMap<Name, Vec<String>>, String> {
    let mut files = BTreeMap::new();
    for entry in &job.catalog {
        if let Function::JsonlInput { path } = &entry.function {
            files.insert(entry.name.clone(), input::matching(path)?);
        }
    }
    Ok(files)
}
