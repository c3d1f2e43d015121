//! What one would script: for each change, merge it into the branch as it is, test it three times at once in clones of its own,
//! and push. Nothing is tested ahead, and nobody may die.

use std::fs;
use std::path::Path;
use std::process::Command;
use std::time::Instant;

use anyhow::{Result, ensure};

use super::site::{git, make};

/// Changes a minute.
pub fn changes_per_minute(scratch: &Path, changes: usize) -> Result<f64> {
    let folder = tempfile::Builder::new().prefix("bench-by-hand-").tempdir_in(scratch)?;
    let root = folder.path();
    make(root, "app", &[("true.sh", "#!/bin/sh\n")])?;
    let (work, bare) = (root.join("work/app"), root.join("git/app"));
    for number in 0..changes {
        let branch = format!("change-{number}");
        git(&work, &["checkout", "-q", "-b", &branch, "main"])?;
        fs::write(work.join(&branch), "x")?;
        git(&work, &["add", "."])?;
        git(&work, &["commit", "-q", "-m", &branch])?;
        git(&work, &["push", "-q", "origin", &branch])?;
    }
    let begun = Instant::now();
    for number in 0..changes {
        one(root, &bare, number)?;
    }
    Ok(changes as f64 * 60.0 / begun.elapsed().as_secs_f64())
}

fn one(root: &Path, bare: &Path, number: usize) -> Result<()> {
    let script = "set -e
git clone -q --shared \"$1\" \"$2\"
cd \"$2\"
git -c user.name=bench -c user.email=bench@localhost merge -q --no-ff -m merge \"origin/change-$3\"
for job in 1 2 3; do
    ( git clone -q --shared . \"$2-$job\" && cd \"$2-$job\" && ./true.sh ) &
    jobs=\"$jobs $!\"
done
for job in $jobs; do wait $job; done
git push -q --atomic origin HEAD:main \":change-$3\"
rm -rf \"$2\" \"$2-1\" \"$2-2\" \"$2-3\"
";
    let work = root.join("merge");
    let status =
        Command::new("sh").args(["-c", script, "sh"]).arg(bare).arg(work).arg(number.to_string()).status()?;
    ensure!(status.success(), "change {number} was not merged");
    Ok(())
}
