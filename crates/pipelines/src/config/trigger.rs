//! What happens to changes and branches, and which of it starts a pipeline.

use menagerie_znodes::pipelines::{EventKind, Vote};

use super::fields::{self, Fields};
use super::names;
use super::pattern::Pattern;
use super::problem::Fault;
use super::requirement::{self, Requirement, is_label, read_approvals, read_conditions};
use super::yaml::Node;

/// Gerrit's events. Those without an [`EventKind`] are accepted and never happen here.
const GERRIT_EVENTS: [&str; 20] = [
    "patchset-created",
    "change-abandoned",
    "change-merged",
    "comment-added",
    "ref-updated",
    "change-restored",
    "change-deleted",
    "draft-published",
    "dropped-output",
    "hashtags-changed",
    "project-created",
    "reviewer-added",
    "reviewer-deleted",
    "topic-changed",
    "wip-state-changed",
    "private-state-changed",
    "vote-deleted",
    "pending-check",
    "ref-replicated",
    "merge-failed",
];

const LATER_IN_TRIGGER: [&str; 5] = ["approval-change", "added", "removed", "debug", "scheme"];

/// Its name in triggers.
fn name(kind: EventKind) -> &'static str {
    match kind {
        EventKind::PatchsetCreated => "patchset-created",
        EventKind::ChangeAbandoned => "change-abandoned",
        EventKind::ChangeMerged => "change-merged",
        EventKind::CommentAdded => "comment-added",
        EventKind::RefUpdated => "ref-updated",
    }
}

/// An event of a connection.
#[derive(Debug, Clone)]
pub struct Event<'a> {
    /// What happened.
    pub kind: EventKind,
    /// The branch a change is proposed for, or that was updated; `None` for tags.
    pub branch: Option<&'a str>,
    /// The full name of the ref, such as `refs/heads/main`.
    pub reference: &'a str,
    /// Whether the ref was deleted.
    pub is_delete: bool,
    /// The votes this event added.
    pub votes_added: &'a [Vote],
    /// All votes that stand after this event.
    pub votes: &'a [Vote],
    /// The comment, if the event has one.
    pub comment: Option<&'a str>,
    /// The name of whoever caused it.
    pub by: &'a str,
}

/// A condition on events. All parts must hold; within a list of patterns one match is enough.
#[derive(Debug, Clone)]
pub(super) struct Trigger {
    events: Vec<Pattern>,
    branches: Vec<Pattern>,
    refs: Vec<Pattern>,
    comments: Vec<Pattern>,
    emails: Vec<Pattern>,
    usernames: Vec<Pattern>,
    /// Votes that this very event must have added.
    approvals: Vec<(String, Vec<i64>)>,
    /// Conditions on all votes that stand.
    requirement: Requirement,
    ignores_deletes: bool,
}

impl Trigger {
    /// Reads one trigger of a connection.
    pub fn read(what: &str, node: &Node) -> Result<Self, Fault> {
        let mut fields = Fields::new(what, node)?;
        let events = read_events(&mut fields)?;
        let approvals = match fields.node("approval") {
            Some(node) => requirement::read_labels(&format!("`approval` of {what}"), node)?,
            None => Vec::new(),
        };
        let trigger = Self {
            events,
            branches: fields.patterns("branch")?.unwrap_or_default(),
            refs: fields.patterns("ref")?.unwrap_or_default(),
            comments: fields.patterns("comment")?.unwrap_or_default(),
            emails: fields.patterns("email")?.unwrap_or_default(),
            usernames: fields.patterns("username")?.unwrap_or_default(),
            approvals,
            requirement: read_requirement(&mut fields)?,
            ignores_deletes: fields.boolean("ignore-deletes")?.unwrap_or(true),
        };
        fields.finish(&LATER_IN_TRIGGER)?;
        Ok(trigger)
    }

    /// Whether the event fulfils all conditions.
    pub fn matches(&self, event: &Event<'_>) -> bool {
        let any = |patterns: &[Pattern], text: Option<&str>| {
            patterns.is_empty()
                || text.is_some_and(|text| patterns.iter().any(|pattern| pattern.matches(text)))
        };
        any(&self.events, Some(name(event.kind)))
            && any(&self.branches, event.branch)
            && (self.refs.is_empty() || self.refs.iter().any(|pattern| matches_ref(pattern, event.reference)))
            && !(self.ignores_deletes && event.is_delete)
            && self.matches_comment(event.comment)
            && any(&self.emails, Some(event.by))
            && any(&self.usernames, Some(event.by))
            && self.approvals.iter().all(|(label, values)| {
                event.votes_added.iter().any(|vote| is_label(label, vote) && values.contains(&vote.value))
            })
            && self.requirement.check(event.votes).is_ok()
    }

    fn matches_comment(&self, comment: Option<&str>) -> bool {
        self.comments.is_empty()
            || comment.is_some_and(|text| self.comments.iter().any(|pattern| pattern.is_found_in(text)))
    }
}

/// Tries the full and the short name. What a leading `^(?!refs/)` excludes of a tag is its full name: Zuul's post pipelines mean
/// branches by it.
fn matches_ref(pattern: &Pattern, reference: &str) -> bool {
    let branch = reference.strip_prefix("refs/heads/");
    let tag = reference.strip_prefix("refs/tags/").filter(|_| !pattern.excludes());
    pattern.matches_any(&[reference, branch.or(tag).unwrap_or(reference)])
}

fn read_events(fields: &mut Fields<'_>) -> Result<Vec<Pattern>, Fault> {
    let what = format!("`event` of {}", fields.what);
    let Some(node) = fields.node("event") else {
        let message = format!("{} has no `event`", fields.what);
        return Err(Fault::at(fields.line, message, "add for example `event: patchset-created`"));
    };
    let mut events = Vec::new();
    for item in fields::items(node) {
        let name = fields::text(&what, item)?;
        let is_plain = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_');
        if is_plain && !GERRIT_EVENTS.contains(&name.as_str()) {
            let guess = names::nearest(&name, GERRIT_EVENTS).map(|guess| format!("did you mean `{guess}`? "));
            let help =
                format!("{}known events are {}", guess.unwrap_or_default(), GERRIT_EVENTS[..5].join(", "));
            return Err(Fault::at(item.line, format!("{what} has the unknown event `{name}`"), help));
        }
        events.push(Pattern::new(&what, &name, item.line)?);
    }
    Ok(events)
}

/// Reads `require` and `reject`, and their older forms `require-approval` and `reject-approval`, which the newer
/// ones replace.
fn read_requirement(fields: &mut Fields<'_>) -> Result<Requirement, Fault> {
    let mut read = |key: &'static str, old_key: &'static str| {
        let what = format!("`{key}` of {}", fields.what);
        let old = fields.node(old_key);
        match (fields.node(key), old) {
            (Some(node), _) => read_conditions(&what, node),
            (None, Some(node)) => read_approvals(&format!("`{old_key}` of {}", fields.what), node),
            (None, None) => Ok(Vec::new()),
        }
    };
    Ok(Requirement {
        require: read("require", "require-approval")?,
        reject: read("reject", "reject-approval")?,
    })
}
