//! Creating, listing, changing and deleting queues.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use menagerie_queues::QueueError;
use menagerie_queues::admin::{self, Change, Changed};
use menagerie_queues::coordination::claim::topic;
use menagerie_queues::journals::{self, JournalRef};
use menagerie_znodes::queues::{QueueName, Settings};

use crate::access::{Action, Caller};
use crate::bodies::is_json;
use crate::form::{Form, ListForm, QueueForm, principles};
use crate::keys;
use crate::reply::{Listed, Reply};
use crate::service::{Request, Service, journal_refusal, unavailable};

/// How long to wait for the first journal to register: it may have just started.
const JOURNAL_WAIT: Duration = Duration::from_secs(5);

/// Hexadecimal digits of a random queue name.
const NAME_DIGITS: usize = 32;

/// Attempts to create a queue while others keep creating and deleting it.
const CREATE_ATTEMPTS_MAX: usize = 10;

impl Service {
    /// `POST /v1/{application}`
    pub(crate) async fn create(
        &self,
        request: &Request,
        caller: &Caller,
        application: &str,
    ) -> Result<Reply, Reply> {
        if !caller.can(Action::Manage, application, None) {
            return Err(Reply::forbidden());
        }
        let form = queue_form(request)?;
        let name = match &form.name {
            Some(name) => name.clone(),
            None => random_name()?,
        };
        let bad = |why: &str| Reply::error(400, "queue_name", why);
        let queue = QueueName::new(application, &name).map_err(|error| bad(&error.to_string()))?;
        if queue.failures_of().is_some() {
            return Err(bad("names that end with .failed are for messages that were given up"));
        }
        let change = change_of(&form);
        for _ in 0..CREATE_ATTEMPTS_MAX {
            match self.try_change(&queue, &change).await? {
                Changed::To(settings) => {
                    return Ok(Reply::created(&queue, &settings, form.principles.as_deref()));
                }
                Changed::Fewer(_) => return Err(Reply::fewer_partitions(409)),
                Changed::Missing => {}
            }
            let settings = self.settings_of(&form).await?;
            match admin::create_with(&self.session, &self.journals, &queue, &settings).await {
                Ok(admin::Created::Fresh) => {
                    return Ok(Reply::created(&queue, &settings, form.principles.as_deref()));
                }
                // Somebody else created it first: go round and change it instead.
                Ok(admin::Created::Existed) | Err(QueueError::Exists { .. }) => {}
                Err(QueueError::Narrow { .. }) => return Err(Reply::fewer_partitions(409)),
                Err(error) => return Err(refusal(error)),
            }
        }
        Err(Reply::storage_down("others make and delete the queue again and again"))
    }

    async fn settings_of(&self, form: &QueueForm) -> Result<Settings, Reply> {
        let journal = match &self.options.journal {
            Some(journal) => journal.clone(),
            None => match self.journals.names(JOURNAL_WAIT).await.as_slice() {
                [only] => only.clone(),
                [] => return Err(Reply::storage_down("no journal is registered")),
                _ => {
                    return Err(Reply::storage_down(
                        "several journals are registered: choose with --journal",
                    ));
                }
            },
        };
        let mut settings = admin::default_settings(form.partitions.unwrap_or(1), &journal);
        let change = change_of(form);
        settings.visibility = change.visibility.unwrap_or_default();
        settings.consistency = change.consistency.unwrap_or_default();
        settings.principles = change.principles.unwrap_or_default();
        Ok(settings)
    }

    /// `GET /v1/{application}`
    pub(crate) async fn list(
        &self,
        request: &Request,
        caller: &Caller,
        application: &str,
    ) -> Result<Reply, Reply> {
        if !caller.can(Action::List, application, None) {
            return Err(Reply::forbidden());
        }
        let form = Form::parse(request.query.as_bytes())
            .and_then(|form| ListForm::parse(&form))
            .map_err(|reasons| Reply::refused(400, &reasons))?;
        let found = self.settings.list(application).await.map_err(|error| unavailable(error.into()))?;
        let offset = form.offset.as_deref().unwrap_or_default();
        let limit = form.limit.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(usize::MAX));
        let shown: Vec<_> = found.iter().filter(|(queue, _)| queue.name() >= offset).take(limit).collect();
        let counts = match form.include_count {
            true => Some(self.counts(&shown).await?),
            false => None,
        };
        let listed = shown.iter().map(|(queue, settings)| {
            // A queue without a count was deleted a moment ago.
            let count = counts.as_ref().map(|counts| counts.get(queue).copied().unwrap_or_default());
            Listed::new(queue, form.details.then_some(settings), count)
        });
        Ok(Reply::queues(listed.collect()))
    }

    /// Messages per queue, with one request per journal.
    async fn counts(&self, queues: &[&(QueueName, Settings)]) -> Result<HashMap<QueueName, u64>, Reply> {
        let mut by_journal: BTreeMap<JournalRef, Vec<&(QueueName, Settings)>> = BTreeMap::new();
        for queue in queues {
            by_journal.entry(journals::journal_ref(&queue.1)).or_default().push(queue);
        }
        let mut counts = HashMap::new();
        for queues in by_journal.into_values() {
            let Some((first, settings)) = queues.first() else { continue };
            let store = admin::journal_of(&self.journals, first, settings).map_err(unavailable)?;
            let topics = store.topics().await.map_err(journal_refusal)?;
            let messages: HashMap<&str, u64> =
                topics.iter().map(|view| (view.topic.as_str(), view.messages)).collect();
            for (queue, _) in queues {
                let topic = topic(queue).map_err(unavailable)?;
                counts.extend(messages.get(topic.as_str()).map(|count| (queue.clone(), *count)));
            }
        }
        Ok(counts)
    }

    /// `PUT /v1/{application}/{queue}`
    pub(crate) async fn change(
        &self,
        request: &Request,
        caller: &Caller,
        path: (&str, &str),
    ) -> Result<Reply, Reply> {
        let (queue, _) = self.queue(caller, Action::Manage, path).await?;
        let form = queue_form(request)?;
        match self.try_change(&queue, &change_of(&form)).await? {
            Changed::To(settings) => Ok(Reply::updated(&queue, &settings)),
            Changed::Fewer(_) => Err(Reply::fewer_partitions(400)),
            Changed::Missing => Err(Reply::no_queue()),
        }
    }

    /// Changes a queue, unless that would give it more partitions: then the messages of a key would be in two of them,
    /// and handled side by side. Only an operator can tell whether that does harm.
    async fn try_change(&self, queue: &QueueName, change: &Change) -> Result<Changed, Reply> {
        let found = self.settings.read_fresh(queue).await.map_err(|error| unavailable(error.into()))?;
        let Some(settings) = found else { return Ok(Changed::Missing) };
        if let Some(wanted) = change.partitions.filter(|wanted| *wanted > settings.partitions) {
            return Err(Reply::more_partitions(queue, settings.partitions, wanted));
        }
        admin::change(&self.session, &self.journals, queue, change).await.map_err(refusal)
    }

    /// `DELETE /v1/{application}/{queue}`
    pub(crate) async fn remove(&self, caller: &Caller, path: (&str, &str)) -> Result<Reply, Reply> {
        let (queue, _) = self.queue(caller, Action::Manage, path).await?;
        // Our settings may be stale: another server may have deleted or changed the queue.
        self.fresh_settings(&queue).await?;
        match admin::delete(&self.session, &self.journals, &queue).await {
            Ok(()) => Ok(Reply::done()),
            Err(error) => Err(refusal(error)),
        }
    }
}

/// Ignores a JSON body: Queuey's clients send forms.
fn queue_form(request: &Request) -> Result<QueueForm, Reply> {
    let form = match is_json(request.headers.content_type.as_deref()) {
        true => Ok(Form::default()),
        false => Form::parse(&request.body),
    };
    form.and_then(|form| QueueForm::parse(&form)).map_err(|reasons| Reply::refused(400, &reasons))
}

fn change_of(form: &QueueForm) -> Change {
    Change {
        partitions: form.partitions,
        visibility: form.visibility,
        consistency: form.consistency,
        principles: form.principles.as_deref().and_then(|text| principles(text).ok()),
        ..Change::default()
    }
}

/// A version 4 UUID without dashes, as Queuey names queues.
fn random_name() -> Result<String, Reply> {
    let drawn = keys::generate().map_err(|error| Reply::storage_down(&error.to_string()))?;
    let mut name: String = drawn.chars().take(NAME_DIGITS).collect();
    name.replace_range(12..13, "4");
    name.replace_range(16..17, "a");
    Ok(name)
}

fn refusal(error: QueueError) -> Reply {
    match error {
        QueueError::NoQueue { .. } => Reply::no_queue(),
        QueueError::Topic { source, .. } => Reply::error(400, "queue_name", &source.to_string()),
        QueueError::Journal(error) => journal_refusal(error),
        error @ QueueError::Ahead { .. } => Reply::error(409, "queue", &error.to_string()),
        error => unavailable(error),
    }
}
