//! The history: every buildset that has ended, as messages of the topic `pipeline-history`.
//!
//! As a rule one journal has the topic, and entries go there. While that journal is away, they go to another one that has
//! the topic, or else to the first by name, which then has it, too. So readers merge what all registered journals have:
//! by `ltime`, and each buildset once. What a journal that is away has is missing until it is back.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use futures_util::future::{join_all, select_all};
use menagerie_journal::{
    Append, Commit, Journal, JournalError, Message, MessageId, NewMessage, PartitionId, Read, Topic,
    TopicConfig,
};
use menagerie_journal_directory::{JournalRef, Journals};
use menagerie_kernel::whole;
use menagerie_znodes::Name;
use menagerie_znodes::pipelines::{HistoryRecord, Id};
use tracing::warn;

use crate::PipelineError;

/// The topic, of one partition.
const TOPIC: &str = "pipeline-history";
/// A report that is made again after a take-over names the same buildset. Nobody is away for longer than this.
const DEDUP_WINDOW: Duration = Duration::from_secs(24 * 60 * 60);
/// How long to wait for a first journal, so that processes can be started in any order.
const JOURNAL_PATIENCE: Duration = Duration::from_secs(5);
/// Entries per request.
const PAGE: u32 = 500;

/// Which entries to list. `None` matches everything.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filter {
    /// Of this tenant.
    pub tenant: Option<Name>,
    /// About this project.
    pub project: Option<String>,
    /// About this change: `propose/TARGET/TOPIC`, or `PROJECT:propose/TARGET/TOPIC`.
    pub change: Option<String>,
    /// Of this pipeline.
    pub pipeline: Option<String>,
    /// With a build of this job.
    pub job: Option<String>,
    /// With this build.
    pub build: Option<Id>,
    /// With this result, whatever the case of its letters.
    pub result: Option<String>,
    /// Return at most this many.
    pub limit: Option<usize>,
}

impl Filter {
    /// Whether an entry is among those that are wanted.
    pub fn matches(&self, record: &HistoryRecord) -> bool {
        fn is<T: PartialEq<str> + ?Sized>(wanted: Option<&String>, found: &T) -> bool {
            wanted.is_none_or(|wanted| found == wanted.as_str())
        }
        let names_change = |wanted: &String| {
            let (project, branch) = match wanted.split_once(':') {
                Some((project, branch)) => (Some(project), branch),
                None => (None, wanted.as_str()),
            };
            record.refs.iter().any(|found| {
                found.change.as_deref() == Some(branch)
                    && project.is_none_or(|project| found.project == project)
            })
        };
        self.tenant.as_ref().is_none_or(|tenant| record.tenant == *tenant)
            && is(self.pipeline.as_ref(), record.pipeline.as_str())
            && self.result.as_ref().is_none_or(|result| record.result.eq_ignore_ascii_case(result))
            && self
                .project
                .as_ref()
                .is_none_or(|project| record.refs.iter().any(|one| one.project == *project))
            && self.change.as_ref().is_none_or(names_change)
            && self.job.as_ref().is_none_or(|job| record.builds.iter().any(|build| build.job_name == *job))
            && self
                .build
                .as_ref()
                .is_none_or(|wanted| record.builds.iter().any(|build| build.uuid == *wanted))
    }
}

/// Appends an entry. Of several for one buildset, the first counts, so it is safe to repeat.
pub async fn append(journals: &Journals, record: &HistoryRecord) -> Result<(), PipelineError> {
    let journal = destination(journals).await?;
    let body = serde_json::to_vec(record).expect("an entry has string keys and nothing that can fail");
    let dedup = Some(record.uuid.as_str().as_bytes().to_vec().into());
    let message = NewMessage { dedup, ..NewMessage::new(body) };
    let commit = || Commit {
        appends: vec![Append { partition: partition(), message: message.clone() }],
        ..Commit::default()
    };
    match journal.commit(commit()).await {
        Err(JournalError::NoTopic { .. }) => {
            let config = TopicConfig { dedup_window: DEDUP_WINDOW, ..TopicConfig::partitions(1) };
            journal.create_topic(&partition().topic, config).await?;
            journal.commit(commit()).await?;
        }
        committed => drop(committed?),
    }
    Ok(())
}

/// The entries that match, newest first. A journal that does not answer is left out with a warning, unless none does.
pub async fn list(journals: &Journals, filter: &Filter) -> Result<Vec<HistoryRecord>, PipelineError> {
    Ok(read_all(journals, filter).await?.0)
}

/// The entries of all journals that match, newest first; and each journal with the newest id that it has assigned.
async fn read_all(
    journals: &Journals,
    filter: &Filter,
) -> Result<(Vec<HistoryRecord>, Vec<Followed>), PipelineError> {
    let opened = open_all(journals, JOURNAL_PATIENCE).await?;
    let answers = join_all(opened.iter().map(|(_, journal)| newest(&**journal, filter))).await;
    let (mut found, mut followed, mut failure) = (Vec::new(), Vec::new(), None);
    for ((name, journal), answer) in opened.into_iter().zip(answers) {
        match answer {
            Ok((records, after)) => {
                found.extend(records);
                followed.push(Followed { journal, after });
            }
            Err(error) => {
                warn!(journal = name, error = %whole(&error), "the history of a journal cannot be read");
                failure = Some(error);
            }
        }
    }
    if let Some(failure) = failure.filter(|_| followed.is_empty()) {
        return Err(failure);
    }
    let mut seen = BTreeSet::new();
    found.sort_by_key(|record| std::cmp::Reverse(record.ltime));
    found.retain(|record| seen.insert(record.uuid.clone()));
    found.truncate(filter.limit.unwrap_or(usize::MAX));
    Ok((found, followed))
}

/// The entries that match, newest first, and the newest id that the journal has assigned.
async fn newest(
    journal: &dyn Journal,
    filter: &Filter,
) -> Result<(Vec<HistoryRecord>, MessageId), PipelineError> {
    let mut found: Vec<HistoryRecord> = Vec::new();
    let mut seen = BTreeSet::new();
    let (mut before, mut last) = (MessageId::MAX, None);
    while filter.limit.is_none_or(|limit| found.len() < limit) {
        let read = Read { before, ..Read::after(partition(), MessageId::ZERO) }.descending().limit(PAGE);
        let batch = match journal.read(read).await {
            // Nothing has ended yet.
            Err(JournalError::NoTopic { .. }) => break,
            batch => batch?,
        };
        last.get_or_insert(batch.last);
        let Some(oldest) = batch.messages.last() else { break };
        before = oldest.id;
        let records = batch.messages.iter().filter_map(decode).filter(|record| filter.matches(record));
        found.extend(records.filter(|record| seen.insert(record.uuid.clone())));
    }
    found.sort_by_key(|record| std::cmp::Reverse(record.ltime));
    found.truncate(filter.limit.unwrap_or(usize::MAX));
    Ok((found, last.unwrap_or_default()))
}

/// Follows the history: what there is, and then what is added to the journals that there are.
pub struct Follower {
    journals: Vec<Followed>,
    filter: Filter,
}

/// A journal, and the last of its entries that was seen.
struct Followed {
    journal: Arc<dyn Journal>,
    after: MessageId,
}

impl Follower {
    /// Begins with the entries that there are, newest first.
    pub async fn start(
        journals: &Journals,
        filter: Filter,
    ) -> Result<(Self, Vec<HistoryRecord>), PipelineError> {
        let (found, journals) = read_all(journals, &filter).await?;
        Ok((Self { journals, filter }, found))
    }

    /// The entries that were added since, oldest first; waits a while for the first. One that was reported twice, while a
    /// journal was away, may come twice.
    pub async fn next(&mut self, wait: Duration) -> Result<Vec<HistoryRecord>, PipelineError> {
        let mut reads: Vec<_> = self.journals.iter_mut().map(|one| Box::pin(one.next(wait))).collect();
        while !reads.is_empty() {
            let (read, _, others) = select_all(reads).await;
            let records: Vec<_> = read?.into_iter().filter(|record| self.filter.matches(record)).collect();
            if !records.is_empty() {
                return Ok(records);
            }
            reads = others;
        }
        Ok(Vec::new())
    }
}

impl Followed {
    async fn next(&mut self, wait: Duration) -> Result<Vec<HistoryRecord>, PipelineError> {
        let read = Read::after(partition(), self.after).limit(PAGE).wait(wait);
        let batch = match self.journal.read(read).await {
            Err(JournalError::NoTopic { .. }) => {
                tokio::time::sleep(wait).await;
                return Ok(Vec::new());
            }
            batch => batch?,
        };
        self.after = batch.messages.last().map_or(self.after, |last| last.id);
        Ok(batch.messages.iter().filter_map(decode).collect())
    }
}

/// An entry; one that a newer version has written differently is left out.
fn decode(message: &Message) -> Option<HistoryRecord> {
    serde_json::from_slice(&message.body).ok()
}

fn partition() -> PartitionId {
    PartitionId::new(Topic::new(TOPIC).expect("it is a name"), 1)
}

/// The journal that the next entry goes to: the first by name of those that have the topic, or of all. While somebody who
/// may have it does not answer, nobody else begins.
async fn destination(journals: &Journals) -> Result<Arc<dyn Journal>, PipelineError> {
    let opened = open_all(journals, Duration::ZERO).await?;
    let mut failure = None;
    for (_, journal) in &opened {
        match journal.stats(&partition().topic).await {
            Ok(_) => return Ok(Arc::clone(journal)),
            Err(JournalError::NoTopic { .. }) => {}
            Err(error) => failure = Some(error),
        }
    }
    match (failure, opened.into_iter().next()) {
        (Some(failure), _) => Err(failure.into()),
        (None, Some((_, first))) => Ok(first),
        (None, None) => Err(no_journal()),
    }
}

/// All registered journals, by name; there is at least one.
async fn open_all(
    journals: &Journals,
    patience: Duration,
) -> Result<Vec<(String, Arc<dyn Journal>)>, PipelineError> {
    let mut names = journals.names(patience).await;
    names.sort_unstable();
    names.dedup();
    let open = |name: String| journals.get(&JournalRef::named(&name)).map(|journal| (name, journal));
    let opened: Vec<_> = names.into_iter().filter_map(open).collect();
    if opened.is_empty() { Err(no_journal()) } else { Ok(opened) }
}

fn no_journal() -> PipelineError {
    PipelineError::Refused {
        why: "there is no journal, and the history of pipelines is kept in one".to_owned(),
        help: "start one with `menagerie journal`".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use menagerie_znodes::pipelines::{HistoryBuild, HistoryRef};

    use super::*;

    fn record() -> HistoryRecord {
        let name = |text: &str| Name::new(text).unwrap();
        HistoryRecord {
            uuid: name("s1"),
            tenant: name("main"),
            pipeline: name("gate"),
            queue: "org/app".to_owned(),
            result: "FAILURE".to_owned(),
            message: None,
            ltime: 1,
            end_ms: 1,
            refs: vec![HistoryRef {
                project: "org/app".to_owned(),
                branch: Some("main".to_owned()),
                change: Some("propose/main/x".to_owned()),
                patchset: None,
                reference: "refs/heads/propose/main/x".to_owned(),
                oldrev: None,
                newrev: None,
                parent: None,
                commit: None,
                merged: false,
            }],
            state: Default::default(),
            builds: vec![HistoryBuild {
                uuid: name("b1"),
                job_name: "unit".to_owned(),
                result: Some("FAILURE".to_owned()),
                voting: true,
                is_final: true,
                attempt: 1,
                start_time: None,
                end_time: None,
                executor: None,
            }],
        }
    }

    #[test]
    fn each_field_of_a_filter_narrows() {
        let text = |text: &str| Some(text.to_owned());
        let record = record();
        for (filter, is_wanted) in [
            (Filter::default(), true),
            (Filter { project: text("org/app"), ..Filter::default() }, true),
            (Filter { project: text("org/lib"), ..Filter::default() }, false),
            (Filter { change: text("propose/main/x"), ..Filter::default() }, true),
            (Filter { change: text("org/app:propose/main/x"), ..Filter::default() }, true),
            (Filter { change: text("org/lib:propose/main/x"), ..Filter::default() }, false),
            (Filter { change: text("propose/main/y"), ..Filter::default() }, false),
            (Filter { pipeline: text("check"), ..Filter::default() }, false),
            (Filter { job: text("unit"), result: text("failure"), ..Filter::default() }, true),
            (Filter { job: text("lint"), ..Filter::default() }, false),
            (Filter { build: Name::new("b1").ok(), ..Filter::default() }, true),
            (Filter { build: Name::new("b2").ok(), ..Filter::default() }, false),
            (Filter { tenant: Name::new("other").ok(), ..Filter::default() }, false),
        ] {
            assert_eq!(filter.matches(&record), is_wanted, "{filter:?}");
        }
    }

    #[tokio::test]
    async fn newest_are_listed_first_each_once_and_followed() {
        let journal = menagerie_testkit::LocalJournal::new();
        let journals = Journals::from([("main".to_owned(), Arc::new(journal.store().clone()) as _)]);
        let numbered = |number: i64| HistoryRecord {
            uuid: Name::new(format!("s{number}")).unwrap(),
            ltime: number,
            result: if number % 2 == 0 { "SUCCESS" } else { "FAILURE" }.to_owned(),
            ..record()
        };
        let listed = async |filter: &Filter| -> Vec<i64> {
            list(&journals, filter).await.unwrap().iter().map(|record| record.ltime).collect()
        };
        assert!(listed(&Filter::default()).await.is_empty(), "nobody has appended, so there is no topic");
        // More than a page.
        for number in (1..=600).chain([600, 5]) {
            append(&journals, &numbered(number)).await.unwrap();
        }
        assert_eq!(listed(&Filter::default()).await, (1..=600).rev().collect::<Vec<_>>());
        let good = Filter { result: Some("SUCCESS".to_owned()), limit: Some(2), ..Filter::default() };
        assert_eq!(listed(&good).await, [600, 598]);
        let (mut follower, before) = Follower::start(&journals, good).await.unwrap();
        assert_eq!(before.len(), 2);
        for number in [601, 602] {
            append(&journals, &numbered(number)).await.unwrap();
        }
        let added = follower.next(Duration::from_secs(5)).await.unwrap();
        assert_eq!(added.iter().map(|record| record.ltime).collect::<Vec<_>>(), [602]);
    }

    #[tokio::test]
    async fn an_absent_journal_splits_the_history_and_readers_join_it() {
        let (a, b) = (menagerie_testkit::LocalJournal::new(), menagerie_testkit::LocalJournal::new());
        let a = ("a".to_owned(), Arc::new(a.store().clone()) as Arc<dyn Journal>);
        let b = ("b".to_owned(), Arc::new(b.store().clone()) as Arc<dyn Journal>);
        let (both, only_b) = (Journals::from([a.clone(), b.clone()]), Journals::from([b.clone()]));
        let numbered = |number: i64| HistoryRecord {
            uuid: Name::new(format!("s{number}")).unwrap(),
            ltime: number,
            ..record()
        };
        let listed = async |journals: &Journals| -> Vec<i64> {
            let listed = list(journals, &Filter::default()).await.unwrap();
            listed.iter().map(|record| record.ltime).collect()
        };
        append(&only_b, &numbered(1)).await.unwrap();
        append(&both, &numbered(2)).await.unwrap();
        assert_eq!(listed(&only_b).await, [2, 1], "whoever has the topic keeps it");
        append(&Journals::from([a]), &numbered(3)).await.unwrap();
        append(&only_b, &numbered(3)).await.unwrap();
        append(&only_b, &numbered(4)).await.unwrap();
        assert_eq!(listed(&both).await, [4, 3, 2, 1]);
        let (mut follower, _) = Follower::start(&both, Filter::default()).await.unwrap();
        append(&only_b, &numbered(5)).await.unwrap();
        let added = follower.next(Duration::from_secs(60)).await.unwrap();
        assert_eq!(added.iter().map(|record| record.ltime).collect::<Vec<_>>(), [5]);
    }
}
