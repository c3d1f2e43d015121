//! Rules for the edges of a workflow, and the tasks and links that it makes.

use menagerie_znodes::Name;

use super::document::Problem;
use super::{CatalogEntry, EDGES_OUT_MAX, Function, Job};

/// A task of a job: a number, and how it is connected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TaskNode {
    /// From 1, in an order in which every task comes after those that it reads from.
    pub number: u32,
    /// Its name in the catalogue.
    pub name: Name,
    /// From 1: one more than the largest of those before it.
    pub phase: u32,
    /// The tasks that it reads from, by number.
    pub before: Vec<u32>,
    /// The tasks that it writes to, by number.
    pub after: Vec<u32>,
}

/// Whether the edges make a workflow.
pub fn check(job: &Job) -> Result<(), Problem> {
    let key = |index: usize| format!("workflow[{index}]");
    for (index, edge) in job.workflow.iter().enumerate() {
        for name in [&edge.0, &edge.1] {
            if job.entry(name).is_none() {
                let why = format!("there is no task {:?} in the catalogue", name.as_str());
                return Err(Problem::at(key(index), why, "add it to the catalogue, or correct the name"));
            }
        }
        if job.workflow[..index].contains(edge) {
            let why = format!("the edge from {:?} to {:?} is there twice", edge.0.as_str(), edge.1.as_str());
            return Err(Problem::at(key(index), why, "write it once"));
        }
    }
    for (index, (from, _)) in job.workflow.iter().enumerate() {
        if job.workflow[..index].iter().filter(|(other, _)| other == from).count() >= EDGES_OUT_MAX {
            let why = format!("more than {EDGES_OUT_MAX} edges leave task {:?}", from.as_str());
            return Err(Problem::at(
                key(index),
                why,
                "put a transformer with builtin = \"identity\" between them",
            ));
        }
    }
    job.catalog.iter().try_for_each(|entry| check_direction(job, entry))?;
    if let Some(index) = on_cycle(job) {
        let (from, to) = &job.workflow[index];
        let why =
            format!("the workflow has a cycle, by the edge from {:?} to {:?}", from.as_str(), to.as_str());
        return Err(Problem::at(key(index), why, "segments flow in one direction; remove an edge"));
    }
    job.catalog.iter().enumerate().try_for_each(|(index, _)| check_entry(job, index))
}

/// Whether edges lead out of inputs and into outputs only.
fn check_direction(job: &Job, entry: &CatalogEntry) -> Result<(), Problem> {
    let name = entry.name.as_str();
    let (edge, why) = match entry.function {
        Function::JsonlInput { .. } => {
            let into = job.workflow.iter().position(|(_, to)| *to == entry.name);
            (into, format!("task {name:?} is an input, and nothing can flow into it"))
        }
        Function::JsonlOutput { .. } => {
            let from = job.workflow.iter().position(|(from, _)| *from == entry.name);
            (from, format!("task {name:?} is an output, and nothing can flow out of it"))
        }
        Function::Identity | Function::Group { .. } | Function::Count => return Ok(()),
    };
    match edge {
        Some(edge) => Err(Problem::at(format!("workflow[{edge}]"), why, "remove this edge")),
        None => Ok(()),
    }
}

/// Whether a task stands where its type may.
fn check_entry(job: &Job, index: usize) -> Result<(), Problem> {
    let entry = &job.catalog[index];
    let name = entry.name.as_str();
    let entry_key = |field: &str| format!("catalog[{index}].{field}");
    let edge_into = job.workflow.iter().position(|(_, to)| *to == entry.name);
    let edge_from = job.workflow.iter().position(|(from, _)| *from == entry.name);
    let is_input = matches!(entry.function, Function::JsonlInput { .. });
    let is_output = matches!(entry.function, Function::JsonlOutput { .. });
    let refuse = |key, why: String, help: &str| Err(Problem::at(key, why, help));
    match (edge_into, edge_from) {
        (None, None) => {
            return refuse(
                entry_key("name"),
                format!("task {name:?} is in no edge"),
                "connect it, or remove it",
            );
        }
        (None, _) if !is_input => {
            let why = format!("nothing flows into task {name:?}, and it is no input");
            return refuse(entry_key("type"), why, "let it be an input, or add an edge to it");
        }
        (_, None) if !is_output => {
            let why = format!("nothing flows out of task {name:?}, and it is no output");
            return refuse(entry_key("type"), why, "let it be an output, or add an edge from it");
        }
        _ => {}
    }
    if entry.function != Function::Count {
        return Ok(());
    }
    let is_grouper =
        |name| job.entry(name).is_some_and(|entry| matches!(entry.function, Function::Group { .. }));
    let other = job.workflow.iter().position(|(from, to)| *to == entry.name && !is_grouper(from));
    match other {
        Some(edge) => refuse(
            format!("workflow[{edge}]"),
            format!(
                "only a grouper may be before aggregator {name:?}, and {:?} is none",
                job.workflow[edge].0.as_str()
            ),
            "put a grouper between them",
        ),
        None => Ok(()),
    }
}

/// The first edge that is on a cycle, or between two: what is left when tasks without edges into them, and those without
/// edges out of them, are taken away, again and again.
fn on_cycle(job: &Job) -> Option<usize> {
    let mut left: Vec<usize> = (0..job.workflow.len()).collect();
    loop {
        let has_into = |name: &Name| left.iter().any(|edge| job.workflow[*edge].1 == *name);
        let has_out = |name: &Name| left.iter().any(|edge| job.workflow[*edge].0 == *name);
        let is_left = |edge: &usize| has_into(&job.workflow[*edge].0) && has_out(&job.workflow[*edge].1);
        let rest: Vec<usize> = left.iter().copied().filter(is_left).collect();
        match (rest.first(), rest.len() == left.len()) {
            (None, _) => return None,
            (Some(_), false) => left = rest,
            (Some(edge), true) => return Some(*edge),
        }
    }
}

/// The tasks of a valid job, by number.
pub fn tasks(job: &Job) -> Vec<TaskNode> {
    let phases = phases(job);
    let mut order: Vec<usize> = (0..job.catalog.len()).collect();
    order.sort_by_key(|index| (phases[*index], *index));
    let number = |name: &Name| {
        let place = order.iter().position(|index| job.catalog[*index].name == *name);
        place.expect("the workflow has only names of the catalogue") as u32 + 1
    };
    let node = |index: &usize| {
        let name = &job.catalog[*index].name;
        let before = job.workflow.iter().filter(|(_, to)| to == name).map(|(from, _)| number(from));
        let after = job.workflow.iter().filter(|(from, _)| from == name).map(|(_, to)| number(to));
        TaskNode {
            number: number(name),
            name: name.clone(),
            phase: phases[*index],
            before: before.collect(),
            after: after.collect(),
        }
    };
    order.iter().map(node).collect()
}

/// The phase of each task of the catalogue: along the longest way from an input.
fn phases(job: &Job) -> Vec<u32> {
    let index = |name: &Name| job.catalog.iter().position(|entry| entry.name == *name);
    let edges: Vec<(usize, usize)> =
        job.workflow.iter().filter_map(|(from, to)| index(from).zip(index(to))).collect();
    let mut phases = vec![1; job.catalog.len()];
    // No way is longer than the number of tasks.
    for _ in &job.catalog {
        for (from, to) in &edges {
            phases[*to] = phases[*to].max(phases[*from] + 1);
        }
    }
    phases
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use serde_json::json;

    use super::*;
    use crate::job::read;

    fn diamond() -> Job {
        let pass = |name: &str| json!({"name": name, "type": "transformer", "builtin": "identity"});
        let end =
            |name: &str, kind: &str| json!({"name": name, "type": kind, "plugin": "jsonl", "path": name});
        let value = json!({
            "name": "diamond",
            "workflow": [["in", "a"], ["in", "b"], ["a", "c"], ["b", "out"], ["c", "out"]],
            "catalog": [end("out", "output"), pass("c"), pass("b"), pass("a"), end("in", "input")],
        });
        read::job(&value, Path::new("/")).unwrap()
    }

    #[test]
    fn a_cycle_is_named_by_an_edge_that_is_on_it() {
        let mut job = diamond();
        let name = |name: &str| Name::new(name).unwrap();
        job.workflow.push((name("a"), name("a")));
        assert_eq!(check(&job).unwrap_err().key, "workflow[5]");
        job.workflow[5] = (name("c"), name("in"));
        assert!(check(&job).unwrap_err().why.contains("is an input"));
    }

    #[test]
    fn tasks_come_after_those_that_they_read_from() {
        let tasks = tasks(&diamond());
        let names: Vec<(&str, u32)> = tasks.iter().map(|task| (task.name.as_str(), task.phase)).collect();
        assert_eq!(names, [("in", 1), ("b", 2), ("a", 2), ("c", 3), ("out", 4)]);
        assert_eq!(tasks[4].before, [2, 4]);
        assert_eq!(tasks[0].after, [3, 2]);
        assert!(tasks.iter().all(|task| task.before.iter().all(|before| *before < task.number)));
    }
}
