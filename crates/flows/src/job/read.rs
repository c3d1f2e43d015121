//! From values to a job, or the first reason why not. Unknown keys are refused: a typing error must not be a default.

use std::path::{Path, PathBuf};

use menagerie_znodes::Name;
use serde_json::{Map, Value};

use super::document::{Problem, join};
use super::{
    BATCH_SIZE, BATCH_SIZE_MAX, CatalogEntry, Consumption, Function, Job, PARTITIONS, PARTITIONS_MAX,
    TASKS_MAX, graph,
};
use crate::segments::KeyPath;

/// Reads a job. Relative paths begin at `folder`.
pub fn job(value: &Value, folder: &Path) -> Result<Job, Problem> {
    let table = object(value, "")?;
    known(table, "", &["name", "workflow", "catalog"])?;
    let name = name(table, "", "name")?;
    let catalog = array(table, "", "catalog", "list the tasks as [[catalog]] tables")?;
    if catalog.len() > TASKS_MAX {
        return Err(Problem::at("catalog", format!("more than {TASKS_MAX} tasks"), "split the job"));
    }
    let catalog: Vec<CatalogEntry> = catalog
        .iter()
        .enumerate()
        .map(|(index, value)| entry(value, &format!("catalog[{index}]"), folder))
        .collect::<Result<_, _>>()?;
    for (index, entry) in catalog.iter().enumerate() {
        if catalog[..index].iter().any(|before| before.name == entry.name) {
            let why = format!("there are two tasks with the name {:?}", entry.name.as_str());
            return Err(Problem::at(
                format!("catalog[{index}].name"),
                why,
                "give each task a name of its own",
            ));
        }
    }
    let edges = array(table, "", "workflow", "write it as pairs of names: [[\"read\", \"count\"], …]")?;
    let workflow = edges
        .iter()
        .enumerate()
        .map(|(index, value)| edge(value, &format!("workflow[{index}]")))
        .collect::<Result<_, _>>()?;
    let job = Job { name, workflow, catalog };
    graph::check(&job)?;
    Ok(job)
}

fn edge(value: &Value, key: &str) -> Result<(Name, Name), Problem> {
    let pair = || Problem::at(key, "an edge is a pair of names", "write it as [\"from\", \"to\"]");
    let [from, to] = value.as_array().ok_or_else(pair)?.as_slice() else { return Err(pair()) };
    let name = |value: &Value| {
        let text = value.as_str().ok_or_else(pair)?;
        Name::new(text).map_err(|error| Problem::at(key, error.to_string(), "use a name of the catalogue"))
    };
    Ok((name(from)?, name(to)?))
}

fn entry(value: &Value, key: &str, folder: &Path) -> Result<CatalogEntry, Problem> {
    let table = object(value, key)?;
    let entry_name = name(table, key, "name")?;
    let (task_type, type_key) = (text(table, key, "type")?, join(key, "type"));
    let own: &[&str] = match task_type {
        "input" | "output" => &["plugin", "path"],
        "transformer" | "aggregator" => &["builtin"],
        "grouper" => &["key"],
        other => {
            return Err(Problem::at(
                type_key,
                format!("there is no type {other:?}"),
                "use input, output, transformer, grouper or aggregator",
            ));
        }
    };
    let common = ["name", "type", "consumption", "batch_size", "partitions"];
    known(table, key, &[&common, own].concat())?;
    let function = match task_type {
        "input" => Function::JsonlInput { path: jsonl_path(table, key, folder)? },
        "output" => Function::JsonlOutput { path: jsonl_path(table, key, folder)? },
        "transformer" => builtin(table, key, "identity", Function::Identity)?,
        "aggregator" => builtin(table, key, "count", Function::Count)?,
        _ => {
            let path: Result<KeyPath, String> = text(table, key, "key")?.parse();
            let refuse = |why| Problem::at(join(key, "key"), why, "write a path such as .word or .user.name");
            Function::Group { key: path.map_err(refuse)? }
        }
    };
    Ok(CatalogEntry {
        name: entry_name,
        function,
        consumption: consumption(table, key)?,
        batch_size: number(table, key, "batch_size", BATCH_SIZE, BATCH_SIZE_MAX)?,
        partitions: number(table, key, "partitions", PARTITIONS, PARTITIONS_MAX)?,
    })
}

fn consumption(table: &Map<String, Value>, key: &str) -> Result<Consumption, Problem> {
    match table.get("consumption").map(Value::as_str) {
        None | Some(Some("concurrent")) => Ok(Consumption::Concurrent),
        Some(Some("sequential")) => Ok(Consumption::Sequential),
        Some(_) => Err(Problem::at(
            join(key, "consumption"),
            "there is no such consumption",
            "use \"concurrent\" or \"sequential\"",
        )),
    }
}

fn jsonl_path(table: &Map<String, Value>, key: &str, folder: &Path) -> Result<PathBuf, Problem> {
    match text(table, key, "plugin")? {
        "jsonl" => {}
        other => {
            let why = format!("there is no plugin {other:?}");
            return Err(Problem::at(join(key, "plugin"), why, "use \"jsonl\""));
        }
    }
    match text(table, key, "path")? {
        "" => Err(Problem::at(join(key, "path"), "the path is empty", "name files or a folder")),
        path => Ok(folder.join(path)),
    }
}

fn builtin(
    table: &Map<String, Value>,
    key: &str,
    only: &str,
    function: Function,
) -> Result<Function, Problem> {
    match text(table, key, "builtin")? {
        name if name == only => Ok(function),
        other => {
            let why = format!("there is no builtin {other:?} of this type");
            Err(Problem::at(join(key, "builtin"), why, format!("use {only:?}")))
        }
    }
}

fn object<'a>(value: &'a Value, key: &str) -> Result<&'a Map<String, Value>, Problem> {
    value
        .as_object()
        .ok_or_else(|| Problem::at(key, "this must be a table", "see docs/flows.md for an example"))
}

fn known(table: &Map<String, Value>, key: &str, names: &[&str]) -> Result<(), Problem> {
    match table.keys().find(|name| !names.contains(&name.as_str())) {
        Some(name) => Err(Problem::at(
            join(key, name),
            format!("there is no key {name:?} here"),
            format!("use one of {}", names.join(", ")),
        )),
        None => Ok(()),
    }
}

fn text<'a>(table: &'a Map<String, Value>, key: &str, name: &str) -> Result<&'a str, Problem> {
    match table.get(name) {
        Some(Value::String(text)) => Ok(text),
        Some(_) => Err(Problem::at(join(key, name), format!("{name} must be a text"), "put it in quotes")),
        None => {
            Err(Problem::at(join(key, name), format!("there is no {name}"), format!("add {name} = \"…\"")))
        }
    }
}

fn name(table: &Map<String, Value>, key: &str, field: &str) -> Result<Name, Problem> {
    let help = "use a short name without `/` and blanks";
    Name::new(text(table, key, field)?)
        .map_err(|error| Problem::at(join(key, field), error.to_string(), help))
}

fn array<'a>(
    table: &'a Map<String, Value>,
    key: &str,
    name: &str,
    help: &str,
) -> Result<&'a [Value], Problem> {
    match table.get(name) {
        Some(Value::Array(items)) if !items.is_empty() => Ok(items),
        Some(Value::Array(_)) => Err(Problem::at(join(key, name), format!("{name} is empty"), help)),
        Some(_) => Err(Problem::at(join(key, name), format!("{name} must be a list"), help)),
        None => Err(Problem::at(join(key, name), format!("there is no {name}"), help)),
    }
}

fn number(table: &Map<String, Value>, key: &str, name: &str, default: u32, max: u32) -> Result<u32, Problem> {
    let Some(value) = table.get(name) else { return Ok(default) };
    match value.as_u64().and_then(|number| u32::try_from(number).ok()) {
        Some(number) if (1..=max).contains(&number) => Ok(number),
        _ => Err(Problem::at(
            join(key, name),
            format!("{name} must be a number from 1 to {max}, not {value}"),
            format!("leave it out for {default}"),
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::job::Document;

    pub const WORD_COUNT: &str = r#"
name = "wordcount"
workflow = [["read", "by-word"], ["by-word", "count"], ["count", "write"]]
[[catalog]]
name = "read"
type = "input"
plugin = "jsonl"
path = "words/*.jsonl"
[[catalog]]
name = "by-word"
type = "grouper"
key = ".word"
[[catalog]]
name = "count"
type = "aggregator"
builtin = "count"
[[catalog]]
name = "write"
type = "output"
plugin = "jsonl"
path = "out"
"#;

    fn read(text: &str) -> Result<Job, (String, Problem)> {
        let document = Document::parse(text).unwrap();
        job(&document.value, Path::new("/jobs")).map_err(|problem| (document.place(&problem.key), problem))
    }

    #[test]
    fn a_job_survives_being_stored_and_has_absolute_paths() {
        let read = read(WORD_COUNT).unwrap();
        assert_eq!(read.catalog[0].function, Function::JsonlInput { path: "/jobs/words/*.jsonl".into() });
        assert_eq!((read.catalog[1].batch_size, read.catalog[1].partitions), (BATCH_SIZE, PARTITIONS));
        assert_eq!(job(&read.to_value(), Path::new("/elsewhere")), Ok(read));
    }

    #[test]
    fn bad_jobs_are_refused_where_the_fault_is() {
        for (instead_of, write, line, why) in [
            ("type = \"grouper\"", "type = \"gruoper\"", ":11: ", "there is no type \"gruoper\""),
            ("key = \".word\"", "key = \"word\"", ":12: ", "a key's path begins with a dot"),
            ("key = \".word\"", "kye = \".word\"", ":12: ", "there is no key \"kye\" here"),
            (
                "builtin = \"count\"",
                "builtin = \"cuont\"",
                ":16: ",
                "there is no builtin \"cuont\" of this type",
            ),
            ("name = \"by-word\"", "name = \"read\"", ":10: ", "there are two tasks with the name \"read\""),
            (
                "key = \".word\"",
                "key = \".word\"\nbatch_size = 0",
                ":13: ",
                "batch_size must be a number from 1",
            ),
            ("plugin = \"jsonl\"\npath = \"out\"", "path = \"out\"", ":17: ", "there is no plugin"),
            ("workflow = [", "workflow = [[\"read\"], ", ":3: ", "an edge is a pair of names"),
            ("[\"count\", \"write\"]", "[\"count\", \"wrote\"]", ":3: ", "there is no task \"wrote\""),
            ("[\"count\", \"write\"]", "[\"count\", \"by-word\"]", ":3: ", "the workflow has a cycle"),
            ("workflow = [", "workflow = [[\"read\", \"count\"], ", ":3: ", "only a grouper may be before"),
        ] {
            let text = WORD_COUNT.replacen(instead_of, write, 1);
            assert_ne!(text, WORD_COUNT);
            let (place, problem) = read(&text).unwrap_err();
            assert!(problem.why.starts_with(why), "{write}: {problem}");
            assert_eq!(place, line, "{write}: {problem}");
            assert!(!problem.help.is_empty());
        }
    }
}
