//! Which names are allowed, and which known name a misspelt one resembles.

use super::problem::Fault;

/// Longest name of a project, tenant, pipeline, queue or job, in bytes. Names become parts of znode paths.
const NAME_BYTES_MAX: usize = 255;

/// Checks the name of a tenant: letters, digits, `.`, `_` and `-`.
pub(super) fn check_tenant(name: &str, line: u32) -> Result<(), Fault> {
    let is_plain = name.chars().all(|c| c.is_ascii_alphanumeric() || "._-".contains(c));
    if is_plain && is_component(name) {
        return Ok(());
    }
    let message = format!("`{name}` cannot be the name of a tenant: it is used in paths and addresses");
    Err(Fault::at(line, message, "use letters, digits, `.`, `_` and `-`"))
}

/// Checks the name of a project: components separated by `/` that git can serve as a path.
pub(super) fn check_project(name: &str, line: u32) -> Result<(), Fault> {
    let is_valid = name.len() <= NAME_BYTES_MAX
        && name.split('/').all(|part| {
            is_component(part)
                && part.chars().all(|c| c.is_ascii_alphanumeric() || "._-+~".contains(c))
                && !part.starts_with('-')
                && !part.ends_with(".git")
                && !part.ends_with(".lock")
        });
    if is_valid {
        return Ok(());
    }
    let message = format!("`{name}` cannot be the name of a project: it is used as the path of a repository");
    let help = "use letters, digits and `._-+~`, separated by single `/`; \
                no part may begin with `-` or end in `.git` or `.lock`";
    Err(Fault::at(line, message, help))
}

/// Checks the name of a pipeline, queue, job or template: `what` says which.
pub(super) fn check_object(what: &str, name: &str, line: u32) -> Result<(), Fault> {
    if is_component(name) && !name.chars().any(|c| c == '/' || c.is_control()) {
        return Ok(());
    }
    let message = format!("{name:?} cannot be the name of a {what}: it is used in paths");
    Err(Fault::at(
        line,
        message,
        format!("use 1 to {NAME_BYTES_MAX} bytes without `/` and control characters"),
    ))
}

fn is_component(part: &str) -> bool {
    !part.is_empty() && part.len() <= NAME_BYTES_MAX && part != "." && part != ".."
}

/// The candidate that `name` most likely means, if one is close enough.
pub(super) fn nearest<'a>(name: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // A third of the letters may differ, so that short names are not taken for each other.
    let distance_max = (name.chars().count() / 3).clamp(1, 3);
    candidates
        .into_iter()
        .map(|candidate| (edit_distance(name, candidate), candidate))
        .filter(|(distance, _)| *distance <= distance_max)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// Levenshtein's distance, without regard to case and to `_` against `-`.
fn edit_distance(a: &str, b: &str) -> usize {
    let fold = |text: &str| text.to_lowercase().replace('_', "-").chars().take(64).collect::<Vec<_>>();
    let (a, b) = (fold(a), fold(b));
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, from) in a.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, to) in b.iter().enumerate() {
            let replaced = diagonal + usize::from(from != to);
            diagonal = row[j + 1];
            row[j + 1] = replaced.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[b.len()]
}
