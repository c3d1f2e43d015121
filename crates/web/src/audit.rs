//! The audit trail: who changed what from where over the web interface, and how it ended.
//!
//! An entry is written before the change, so a change that nobody recorded cannot happen, and again with its outcome.

use std::net::IpAddr;

use menagerie_kernel::{CallError, Session, Term, retry, unique};
use menagerie_types::Name;
use menagerie_znodes::web::{self, AuditEntry, AuditOutcome, Scope};
use menagerie_znodes::{Kind, Payload as _, Znode};
use schemars::JsonSchema;
use serde::Serialize;
use tracing::warn;

/// Entries kept: so many of those who submit, and as many of others, because whoever may only bring work must not be able to
/// drive out what operators did.
pub const ENTRIES_MAX: usize = 1_000;
/// One in this many writers trims, so the trail exceeds its limit by fewer than this.
const TRIM_EVERY: u32 = 50;
/// Characters of what was asked for, and of what was reported, that are kept.
const TEXT_CHARS_MAX: usize = 300;

/// Who makes a change.
#[derive(Debug, Clone)]
pub struct Actor {
    /// Name of the token.
    pub who: Name,
    /// Its id.
    pub token: Name,
    /// Where the request came from.
    pub from: IpAddr,
}

impl Actor {
    /// As histories of engines name it.
    pub fn by(&self) -> String {
        format!("{}@{} (web)", self.who, self.from)
    }
}

/// An entry of the trail, for tables and JSON.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct EntryView {
    /// Its number; gives the order of all entries.
    pub number: u32,
    /// When it was begun, in milliseconds since 1970, by the server's clock.
    pub at_ms: i64,
    /// Name of the token.
    pub who: String,
    /// Id of the token.
    pub token: String,
    /// Address of the client.
    pub from: String,
    /// What was done, such as `slots.freeze`.
    pub act: String,
    /// To what: the path of the request.
    pub target: String,
    /// What else was asked for.
    pub detail: Option<String>,
    /// How it ended.
    pub outcome: AuditOutcome,
    /// What was reported to the client.
    pub message: Option<String>,
}

/// A change that has been written down and not made yet.
pub struct Begun {
    path: String,
    entry: AuditEntry,
}

/// Writes down that a change is about to be made.
pub async fn begin(
    session: &Session,
    actor: &Actor,
    scope: Scope,
    act: &str,
    target: &str,
    detail: Option<String>,
) -> Result<Begun, CallError> {
    let term = session.term();
    let entry = AuditEntry {
        who: actor.who.to_string(),
        token: actor.token.to_string(),
        from: actor.from.to_string(),
        act: act.to_owned(),
        target: shorten(target),
        detail: detail.map(|detail| shorten(&detail)),
        outcome: AuditOutcome::Begun,
        message: None,
    };
    let id = Name::new(format!("{}-{}", scope.word(), unique::hex())).expect("letters and digits are a name");
    let znode = web::audit_entry(&id);
    let prefix = znode.path().rsplit('/').next().unwrap_or_default();
    let root = web::audit();
    retry::ensure(&term, root.path(), b"").await?;
    let created =
        retry::create_unique(&term, root.path(), prefix, &entry.encode(), Kind::PersistentSequence).await?;
    if number(&created.path).is_some_and(|number| number > 0 && number.is_multiple_of(TRIM_EVERY)) {
        let term = term.clone();
        term.clone().in_background(async move {
            // A later writer tries again.
            let _ = trim(&term).await;
        });
    }
    Ok(Begun { path: created.path, entry })
}

impl Begun {
    /// Writes down how it ended. If that fails, the entry goes on to say that it was begun.
    pub async fn end(self, session: &Session, outcome: AuditOutcome, message: &str) {
        let entry = AuditEntry { outcome, message: Some(shorten(message)), ..self.entry };
        if let Err(error) = retry::touch(&session.term(), &self.path, &entry.encode()).await {
            warn!(%error, path = self.path, "the outcome of a change is not in the audit trail");
        }
    }
}

fn shorten(text: &str) -> String {
    match text.char_indices().nth(TEXT_CHARS_MAX) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

fn number(name: &str) -> Option<u32> {
    menagerie_znodes::lookup::sequence_number(name)
}

/// The names of all entries, newest first.
async fn names(session: &Session) -> Result<Vec<(u32, String)>, CallError> {
    let found = match session.term().children(web::audit().path()).await {
        Err(CallError::NoZnode { .. }) => Vec::new(),
        found => found?,
    };
    let mut names: Vec<(u32, String)> =
        found.into_iter().filter_map(|name| Some((number(&name)?, name))).collect();
    names.sort_unstable_by(|one, other| other.cmp(one));
    Ok(names)
}

/// Entries before a number, newest first. Those that cannot be read are left out.
pub async fn list(session: &Session, before: Option<u32>, limit: usize) -> Result<Vec<EntryView>, CallError> {
    let wanted = names(session).await?.into_iter();
    let wanted = wanted.filter(|(number, _)| before.is_none_or(|before| *number < before)).take(limit);
    let wanted: Vec<(u32, String)> = wanted.collect();
    let path = |name: &str| format!("{}/{name}", web::audit().path());
    let znodes: Vec<Znode<AuditEntry>> =
        wanted.iter().map(|(_, name)| Znode::foreign(path(name), Kind::PersistentSequence)).collect();
    let znodes: Vec<_> = znodes.iter().map(Znode::maybe_damaged).collect();
    let found = session.term().read_many(&znodes).await?;
    let views = wanted.into_iter().zip(found).filter_map(|((number, _), found)| {
        let found = found?;
        let AuditEntry { who, token, from, act, target, detail, outcome, message } = found.value.sound()?;
        let at_ms = found.stat.ctime_ms;
        Some(EntryView { number, at_ms, who, token, from, act, target, detail, outcome, message })
    });
    Ok(views.collect())
}

async fn trim(term: &Term) -> Result<(), CallError> {
    let root = web::audit();
    let mut names: Vec<(u32, String)> = term
        .children(root.path())
        .await?
        .into_iter()
        .filter_map(|name| Some((number(&name)?, name)))
        .collect();
    names.sort_unstable();
    let of_submitters = format!("entry-{}-", Scope::Submit.word());
    let (submitted, others): (Vec<_>, Vec<_>) =
        names.into_iter().partition(|(_, name)| name.starts_with(&of_submitters));
    for names in [submitted, others] {
        let old = names.len().saturating_sub(ENTRIES_MAX);
        for (_, name) in names.into_iter().take(old) {
            retry::delete(term, &format!("{}/{name}", root.path())).await?;
        }
    }
    Ok(())
}
