//! Checks the licences of all dependencies with no tool besides cargo. `cargo deny`, where installed, checks
//! advisories, too; deny.toml has the same list.

use anyhow::{Result, bail};

use crate::run::{cargo, output, root};

/// Checks that every dependency offers a licence that deny.toml allows.
pub fn run() -> Result<()> {
    eprintln!("==> licences");
    let allowed = allowed(&std::fs::read_to_string(root().join("deny.toml"))?);
    let format = "{p}\t{l}";
    let tree = output(&mut cargo(&[
        "tree",
        "--workspace",
        "--edges",
        "normal,build,dev",
        "--prefix",
        "none",
        "--format",
        format,
    ]))?;
    let mut bad: Vec<&str> = tree
        .lines()
        .filter(|line| {
            line.split_once('\t')
                .is_some_and(|(_, licence)| !is_allowed(licence.trim_end_matches(" (*)"), &allowed))
        })
        .collect();
    bad.sort_unstable();
    bad.dedup();
    if bad.is_empty() {
        Ok(())
    } else {
        bail!("dependencies under licences that deny.toml does not allow:\n{}", bad.join("\n"))
    }
}

/// The strings of the `allow = […]` list.
fn allowed(deny: &str) -> Vec<String> {
    let list = deny.split("allow = [").nth(1).and_then(|rest| rest.split(']').next()).unwrap_or_default();
    list.split('"').skip(1).step_by(2).map(str::to_owned).collect()
}

/// One allowed alternative is enough for `OR`; `AND` needs all.
fn is_allowed(licence: &str, allowed: &[String]) -> bool {
    licence.replace('/', " OR ").split(" OR ").any(|alternative| {
        alternative
            .split(" AND ")
            .all(|part| allowed.iter().any(|known| known == part.trim_matches(['(', ')', ' '])))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_choice_needs_one_and_a_sum_needs_all() {
        let allowed = ["MIT".to_owned(), "ISC".to_owned()];
        assert!(is_allowed("GPL-3.0 OR MIT", &allowed));
        assert!(is_allowed("Apache-2.0/MIT", &allowed));
        assert!(is_allowed("MIT AND ISC", &allowed));
        assert!(!is_allowed("MIT AND GPL-3.0", &allowed));
        assert!(!is_allowed("", &allowed));
    }
}
