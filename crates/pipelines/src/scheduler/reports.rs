//! Reports: notes on patchsets, and the history. They are written down in the pipeline's tree before, and removed after; done
//! twice, they are the same.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use menagerie_journal_directory::Journals;
use menagerie_kernel::{Session, whole};
use menagerie_znodes::pipelines::{Id, Note, ReportRecord, Source};
use serde_json::Value;
use tokio::sync::Mutex;
use tracing::{error, warn};

use super::watcher::poke_watcher;
use crate::core::Input;
use crate::git::Caches;
use crate::{PipelineError, Settings, history};

const PAUSE: Duration = Duration::from_millis(200);
const PAUSE_MAX: Duration = Duration::from_secs(30);
/// A note is given up after so many attempts, within about an hour: the history has the result in any case.
const NOTE_ATTEMPTS: u32 = 120;

/// Makes the reports of one pipeline. Cheap to clone.
#[derive(Clone)]
pub struct Reporter {
    /// The session.
    pub session: Session,
    /// Where the history is.
    pub journals: Journals,
    /// Caches of repositories.
    pub caches: Caches,
    /// Connections.
    pub settings: Arc<Settings>,
    /// Notes of one repository are written one after the other: they are one ref.
    pub turns: Arc<std::sync::Mutex<BTreeMap<Source, Arc<Mutex<()>>>>>,
}

impl Reporter {
    /// Makes a report; ends when it is made, or its notes cannot be written.
    pub async fn report(self, id: Id, record: ReportRecord) -> Input {
        tokio::join!(self.write_history(&record), self.write_notes(&record.notes));
        Input::Reported(id)
    }

    /// A journal that is away delays it.
    async fn write_history(&self, record: &ReportRecord) {
        let Some(history) = &record.history else { return };
        let mut pause = PAUSE;
        while let Err(error) = history::append(&self.journals, history).await {
            warn!(buildset = %history.uuid, error = %whole(&error), ?pause, "the history is behind; trying again");
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(PAUSE_MAX);
        }
    }

    async fn write_notes(&self, notes: &[Note]) {
        for note in notes {
            let (mut pause, mut attempt) = (PAUSE, 1);
            while let Err(error) = self.write_note(note).await {
                let change = &note.line.change;
                if attempt == NOTE_ATTEMPTS {
                    error!(change, error = %whole(&error), "a report cannot be written as a note; the history has it");
                    break;
                }
                warn!(change, error = %whole(&error), ?pause, "cannot write a note; trying again");
                tokio::time::sleep(pause).await;
                pause = (pause * 2).min(PAUSE_MAX);
                attempt += 1;
            }
        }
    }

    async fn write_note(&self, note: &Note) -> Result<(), PipelineError> {
        let Source { connection: name, project } = &note.source;
        let Some(connection) = self.settings.connections.get(name) else {
            let why = format!("connection {name} is not configured here");
            return Err(PipelineError::Refused { why, help: "add it to [pipelines.connections]".to_owned() });
        };
        let turn = {
            let mut turns = self.turns.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            turns.entry(note.source.clone()).or_default().clone()
        };
        let _turn = turn.lock().await;
        let repository = self.caches.repository(name, project, &connection.url(project)).await?;
        let line = serde_json::to_value(&note.line).unwrap_or_default();
        let is_ours = |line: &Value| line.get("id").and_then(Value::as_str) == Some(note.line.id.as_str());
        let is_new = repository.append_note(&note.patchset, &line, |lines| lines.iter().any(is_ours)).await?;
        if is_new && !note.line.votes.is_empty() {
            poke_watcher(&self.session, name, project).await;
        }
        Ok(())
    }
}
