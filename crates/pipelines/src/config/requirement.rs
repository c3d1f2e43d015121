//! Votes, and the conditions that pipelines and triggers put on them.

use menagerie_znodes::pipelines::Vote;

use super::fields::{self, Fields};
use super::pattern::Pattern;
use super::problem::Fault;
use super::yaml::{Node, Value};

/// Conditions on votes that Zuul has and this program has not.
const LATER_IN_APPROVAL: [&str; 2] = ["older-than", "newer-than"];
const LATER_IN_REQUIREMENT: [&str; 1] = ["hashtags"];

/// A condition that one vote meets or not.
#[derive(Debug, Clone)]
pub(super) struct Approval {
    /// The label and its accepted values; `None`: any vote.
    pub label: Option<(String, Vec<i64>)>,
    /// All of these must match the voter's name.
    pub voters: Vec<Pattern>,
    /// As it was written, for messages.
    pub text: String,
}

impl Approval {
    fn is_met_by(&self, vote: &Vote) -> bool {
        self.label
            .as_ref()
            .is_none_or(|(label, values)| is_label(label, vote) && values.contains(&vote.value))
            && self.voters.iter().all(|voter| voter.matches(&vote.by))
    }
}

/// Whether the vote has this label: `Code Review` and `code-review` are the same one.
pub(super) fn is_label(label: &str, vote: &Vote) -> bool {
    let fold = |label: &str| label.to_lowercase().replace(' ', "-");
    fold(label) == fold(&vote.label)
}

/// What must and what must not be voted.
#[derive(Debug, Clone, Default)]
pub(super) struct Requirement {
    pub require: Vec<Approval>,
    pub reject: Vec<Approval>,
}

impl Requirement {
    /// Whether the votes allow it; the error names the vote that is missing or in the way.
    pub fn check(&self, votes: &[Vote]) -> Result<(), String> {
        if let Some(missing) = self.require.iter().find(|need| !votes.iter().any(|vote| need.is_met_by(vote)))
        {
            return Err(format!("the vote {} is missing", missing.text));
        }
        for refused in &self.reject {
            if let Some(vote) = votes.iter().find(|vote| refused.is_met_by(vote)) {
                return Err(format!("the vote {} {:+} by {} is in the way", vote.label, vote.value, vote.by));
            }
        }
        Ok(())
    }
}

/// Reads the value of `require` or `reject` for one connection. Items are open and current as long as they are in a
/// pipeline, so those two conditions need no check.
pub(super) fn read_conditions(what: &str, node: &Node) -> Result<Vec<Approval>, Fault> {
    let mut fields = Fields::new(what, node)?;
    let mut approvals = match fields.node("approval") {
        Some(node) => read_approvals(&format!("`approval` of {what}"), node)?,
        None => Vec::new(),
    };
    fields.boolean("open")?;
    fields.boolean("current-patchset")?;
    fields.boolean("wip")?;
    fields.texts("status")?;
    let mut voters = fields.patterns("username")?.unwrap_or_default();
    voters.extend(fields.patterns("email")?.unwrap_or_default());
    fields.finish(&LATER_IN_REQUIREMENT)?;
    if !voters.is_empty() {
        approvals.push(Approval { label: None, voters, text: "of the required user".to_owned() });
    }
    Ok(approvals)
}

/// Reads a list of conditions on votes, or a single one.
pub(super) fn read_approvals(what: &str, node: &Node) -> Result<Vec<Approval>, Fault> {
    fields::items(node).iter().map(|item| read_approval(what, item)).collect()
}

fn read_approval(what: &str, node: &Node) -> Result<Approval, Fault> {
    let mut fields = Fields::new(what, node)?;
    let mut voters = fields.patterns("username")?.unwrap_or_default();
    voters.extend(fields.patterns("email")?.unwrap_or_default());
    let labels = fields.rest();
    if let Some(later) = labels.iter().find(|entry| LATER_IN_APPROVAL.contains(&entry.key.as_str())) {
        return Err(fields.refuse(later, &LATER_IN_APPROVAL));
    }
    let label = match labels.as_slice() {
        [] if voters.is_empty() => {
            let message = format!("an item of {what} has no label");
            return Err(Fault::at(node.line, message, "write for example `- Code-Review: 2`"));
        }
        [] => None,
        [entry] => Some((entry.key.clone(), read_values(what, &entry.key, &entry.node)?)),
        [_, second, ..] => {
            let message = format!("an item of {what} has two labels, and no single vote can have both");
            return Err(Fault::at(second.line, message, "write one list item for each label"));
        }
    };
    Ok(Approval { label, voters, text: node.to_json().to_string() })
}

/// Reads the labels and values of a trigger's `approval`, which are all required.
pub(super) fn read_labels(what: &str, node: &Node) -> Result<Vec<(String, Vec<i64>)>, Fault> {
    let mut labels = Vec::new();
    for item in fields::items(node) {
        for entry in Fields::new(what, item)?.rest() {
            labels.push((entry.key.clone(), read_values(what, &entry.key, &entry.node)?));
        }
    }
    Ok(labels)
}

/// Reads a whole number or a list of them. `+1` may be written for `1`.
pub(super) fn read_values(what: &str, label: &str, node: &Node) -> Result<Vec<i64>, Fault> {
    let read = |node: &Node| match &node.value {
        Value::Number(number) => number.as_i64(),
        Value::Text(text) => text.trim().parse().ok(),
        Value::Null | Value::Bool(_) | Value::List(_) | Value::Map(_) => None,
    };
    let values: Option<Vec<i64>> = fields::items(node).iter().map(read).collect();
    values.filter(|values| !values.is_empty()).ok_or_else(|| {
        let message =
            format!("`{label}` of {what} must be a whole number or a list of them, not {}", node.kind());
        Fault::at(node.line, message, format!("write for example `{label}: 1`, or correct the key"))
    })
}
