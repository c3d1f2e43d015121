//! Reads the definition of a pipeline.

use std::collections::BTreeMap;

use super::fields::{self, Fields};
use super::pipeline::{Manager, Pipeline, Precedence, Reporter, Reporters, Step, Window};
use super::problem::Fault;
use super::requirement::{self, Requirement, read_conditions};
use super::trigger::Trigger;
use super::yaml::{Entry, Node};

/// Zuul's drivers that have no connection here, so that the message can say more than "unknown".
const LATER_DRIVERS: [&str; 10] =
    ["timer", "zuul", "github", "gitlab", "pagure", "smtp", "sql", "sqlreporter", "mqtt", "elasticsearch"];

const LATER_IN_PIPELINE: [&str; 3] = ["disabled", "disable-after-consecutive-failures", "workspace-checkout"];

/// Connections by name; the values are not used here.
pub(super) type Connections = BTreeMap<String, String>;

/// Reads a pipeline. The second value lists attributes that were left out although the pipeline is kept.
pub(super) fn read_pipeline(node: &Node, connections: &Connections) -> Result<(Pipeline, Vec<Fault>), Fault> {
    let mut fields = Fields::new("a pipeline", node)?;
    let name = fields.name("pipeline")?;
    let mut notes = Vec::new();
    if let Some(entry) = fields.entry("supercedes") {
        let message =
            format!("`supercedes` of pipeline `{name}` is not supported yet; the pipeline works without it");
        notes.push(Fault::at(entry.line, message, "remove it, or dequeue superseded items by hand"));
    }
    fields.only("allow-other-connections", true)?;
    fields.only("allow-parameters", false)?;
    fields.only("dequeue-on-new-patchset", true)?;
    fields.only("ignore-dependencies", false)?;
    // Purely descriptive.
    fields.text("variant-description")?;
    let manager = read_manager(&mut fields)?;
    let window = read_window(&mut fields)?;
    let failure = read_reporters(&mut fields, "failure", connections)?;
    let success = read_reporters(&mut fields, "success", connections)?.unwrap_or_default();
    let old_conflict = read_reporters(&mut fields, "merge-failure", connections)?;
    let conflict = read_reporters(&mut fields, "merge-conflict", connections)?.or(old_conflict);
    let config_error = read_reporters(&mut fields, "config-error", connections)?;
    let failure = failure.unwrap_or_default();
    let old_conflict_message = fields.text("merge-failure-message")?;
    let pipeline = Pipeline {
        description: fields.text("description")?,
        manager,
        precedence: read_precedence(&mut fields)?,
        window: match manager {
            Manager::Independent => Window::UNLIMITED,
            Manager::Dependent => window,
        },
        is_post_review: fields.boolean("post-review")?.unwrap_or(false),
        success,
        start: read_reporters(&mut fields, "start", connections)?.unwrap_or_default(),
        merge_conflict: conflict.unwrap_or_else(|| failure.clone()),
        config_error: config_error.unwrap_or_else(|| failure.clone()),
        failure,
        no_jobs: read_reporters(&mut fields, "no-jobs", connections)?.unwrap_or_default(),
        dequeue: read_reporters(&mut fields, "dequeue", connections)?.unwrap_or_default(),
        enqueue: read_reporters(&mut fields, "enqueue", connections)?.unwrap_or_default(),
        success_message: fields.text("success-message")?,
        failure_message: fields.text("failure-message")?,
        start_message: fields.text("start-message")?,
        merge_conflict_message: fields.text("merge-conflict-message")?.or(old_conflict_message),
        no_jobs_message: fields.text("no-jobs-message")?,
        dequeue_message: fields.text("dequeue-message")?,
        enqueue_message: fields.text("enqueue-message")?,
        footer_message: fields.text("footer-message")?,
        triggers: read_triggers(&mut fields, connections)?,
        requirements: read_requirements(&mut fields, connections)?,
        name,
    };
    fields.finish(&LATER_IN_PIPELINE)?;
    Ok((pipeline, notes))
}

fn read_manager(fields: &mut Fields<'_>) -> Result<Manager, Fault> {
    let help = "write `manager: independent` or `manager: dependent`";
    match fields.text("manager")?.as_deref() {
        Some("independent") => Ok(Manager::Independent),
        Some("dependent") => Ok(Manager::Dependent),
        Some(later @ ("serial" | "supercedent")) => {
            let message = format!("the manager `{later}` of {} is not supported yet", fields.what);
            Err(Fault::at(fields.line, message, help))
        }
        Some(other) => {
            Err(Fault::at(fields.line, format!("{} has the unknown manager `{other}`", fields.what), help))
        }
        None => Err(Fault::at(fields.line, format!("{} has no `manager`", fields.what), help)),
    }
}

fn read_precedence(fields: &mut Fields<'_>) -> Result<Precedence, Fault> {
    match fields.text("precedence")?.as_deref() {
        Some("high") => Ok(Precedence::High),
        Some("normal") | None => Ok(Precedence::Normal),
        Some("low") => Ok(Precedence::Low),
        Some(other) => {
            let message = format!("{} has the unknown precedence `{other}`", fields.what);
            Err(Fault::at(fields.line, message, "write `high`, `normal` or `low`"))
        }
    }
}

fn read_window(fields: &mut Fields<'_>) -> Result<Window, Fault> {
    let default = Window::DEFAULT;
    let window = Window {
        start: fields.number("window", 0, u32::MAX)?.unwrap_or(default.start),
        floor: fields.number("window-floor", 1, u32::MAX)?.unwrap_or(default.floor),
        ceiling: fields.number("window-ceiling", 1, u32::MAX)?,
        increase: read_step(fields, ["window-increase-type", "window-increase-factor"], default.increase)?,
        decrease: read_step(fields, ["window-decrease-type", "window-decrease-factor"], default.decrease)?,
    };
    if window.ceiling.is_some_and(|ceiling| ceiling < window.floor) {
        let message = format!("`window-ceiling` of {} is below its floor of {}", fields.what, window.floor);
        return Err(Fault::at(fields.line, message, "raise `window-ceiling` or lower `window-floor`"));
    }
    Ok(window)
}

fn read_step(fields: &mut Fields<'_>, keys: [&'static str; 2], default: Step) -> Result<Step, Fault> {
    let kind = fields.text(keys[0])?;
    let factor = fields.number(keys[1], 1, u32::MAX)?;
    let default_factor = match default {
        Step::Linear(factor) | Step::Exponential(factor) => factor,
    };
    let factor = factor.unwrap_or(default_factor);
    match (kind.as_deref(), default) {
        (Some("linear"), _) | (None, Step::Linear(_)) => Ok(Step::Linear(factor)),
        (Some("exponential"), _) | (None, Step::Exponential(_)) => Ok(Step::Exponential(factor)),
        (Some(other), _) => {
            let message = format!("`{}` of {} has the unknown value `{other}`", keys[0], fields.what);
            Err(Fault::at(fields.line, message, "write `linear` or `exponential`"))
        }
    }
}

/// The entries of a mapping by connection. An unknown connection refuses the pipeline: one that never hears or tells
/// anything would look healthy.
fn by_connection<'a>(
    fields: &mut Fields<'a>,
    key: &'static str,
    connections: &Connections,
) -> Result<Option<Vec<&'a Entry>>, Fault> {
    let Some(node) = fields.node(key) else { return Ok(None) };
    let what = format!("`{key}` of {}", fields.what);
    let entries = Fields::new(what.clone(), node)?.rest();
    for entry in &entries {
        let name = entry.key.as_str();
        if connections.contains_key(name) {
            continue;
        }
        if LATER_DRIVERS.contains(&name) {
            return Err(Fault::unsupported(entry.line, format_args!("`{name}` in {what}")));
        }
        let known = connections.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
        let message = format!("{what} names `{name}`, which is no connection");
        return Err(Fault::at(entry.line, message, format!("known connections are {known}")));
    }
    Ok(Some(entries))
}

fn read_reporters(
    fields: &mut Fields<'_>,
    key: &'static str,
    connections: &Connections,
) -> Result<Option<Reporters>, Fault> {
    let what = format!("`{key}` of {}", fields.what);
    let Some(entries) = by_connection(fields, key, connections)? else { return Ok(None) };
    let read = |entry: &&Entry| Ok((entry.key.clone(), read_reporter(&what, entry)?));
    entries.iter().map(read).collect::<Result<_, _>>().map(Some)
}

fn read_reporter(what: &str, entry: &Entry) -> Result<Reporter, Fault> {
    let mut reporter = Reporter { votes: BTreeMap::new(), comment: true, submit: false };
    if entry.node.value == super::yaml::Value::Null {
        return Ok(reporter);
    }
    let what = format!("`{}` in {what}", entry.key);
    let mut fields = Fields::new(what.clone(), &entry.node)?;
    reporter.comment = fields.boolean("comment")?.unwrap_or(true);
    reporter.submit = fields.boolean("submit")?.unwrap_or(false);
    // Nobody is notified here, whatever Gerrit is asked for.
    fields.text("notify")?;
    for label in fields.rest() {
        match requirement::read_values(&what, &label.key, &label.node)?.as_slice() {
            [value] => reporter.votes.insert(label.key.clone(), *value),
            _ => {
                return Err(fields::expected(
                    &format!("`{}` of {what}", label.key),
                    "one whole number",
                    &label.node,
                ));
            }
        };
    }
    Ok(reporter)
}

fn read_triggers(
    fields: &mut Fields<'_>,
    connections: &Connections,
) -> Result<BTreeMap<String, Vec<Trigger>>, Fault> {
    let what = format!("`trigger` of {}", fields.what);
    let mut triggers = BTreeMap::new();
    for entry in by_connection(fields, "trigger", connections)?.unwrap_or_default() {
        let what = format!("`{}` in {what}", entry.key);
        let list = fields::items(&entry.node).iter().map(|item| Trigger::read(&what, item));
        triggers.insert(entry.key.clone(), list.collect::<Result<_, _>>()?);
    }
    Ok(triggers)
}

fn read_requirements(
    fields: &mut Fields<'_>,
    connections: &Connections,
) -> Result<BTreeMap<String, Requirement>, Fault> {
    let mut requirements: BTreeMap<String, Requirement> = BTreeMap::new();
    for key in ["require", "reject"] {
        for entry in by_connection(fields, key, connections)?.unwrap_or_default() {
            let what = format!("`{}` in `{key}` of {}", entry.key, fields.what);
            let approvals = read_conditions(&what, &entry.node)?;
            let requirement = requirements.entry(entry.key.clone()).or_default();
            if key == "require" {
                requirement.require = approvals;
            } else {
                requirement.reject = approvals;
            }
        }
    }
    Ok(requirements)
}
