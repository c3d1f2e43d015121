//! Reads or removes a path and everything below it.

use futures_util::{StreamExt as _, TryStreamExt as _, stream};

use crate::error::CallError;
use crate::session::{Stat, Term};

/// Calls in flight: enough to hide the round trip, and far from a flood.
const AT_ONCE: usize = 64;

/// A znode that was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SeenZnode {
    /// Its full path.
    pub path: String,
    /// As of the read.
    pub stat: Stat,
}

/// Joins a parent and the name of a child.
pub fn join(parent: &str, name: &str) -> String {
    if parent == "/" { format!("/{name}") } else { format!("{parent}/{name}") }
}

/// Reads `root` and the znodes below it, level by level, at most `depth` levels deep. Children are sorted; znodes that
/// disappear meanwhile are left out.
pub async fn levels(term: &Term, root: &str, depth: usize) -> Result<Vec<Vec<SeenZnode>>, CallError> {
    let Some(stat) = term.stat(root).await? else {
        return Err(CallError::NoZnode { path: root.to_owned() });
    };
    let mut levels = vec![vec![SeenZnode { path: root.to_owned(), stat }]];
    for _ in 0..depth {
        let above = levels.last().into_iter().flatten();
        let parents: Vec<String> =
            above.filter(|seen| seen.stat.children > 0).map(|seen| seen.path.clone()).collect();
        let below: Vec<Vec<SeenZnode>> = stream::iter(parents)
            .map(|parent| children(term, parent))
            .buffered(AT_ONCE)
            .try_collect()
            .await?;
        let below: Vec<SeenZnode> = below.into_iter().flatten().collect();
        if below.is_empty() {
            break;
        }
        levels.push(below);
    }
    Ok(levels)
}

/// The children of one znode with their stats, sorted; none if it is gone.
async fn children(term: &Term, parent: String) -> Result<Vec<SeenZnode>, CallError> {
    let mut names = match term.children(&parent).await {
        Ok(names) => names,
        Err(CallError::NoZnode { .. }) => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    names.sort_unstable();
    stream::iter(names)
        .map(|name| {
            let path = join(&parent, &name);
            async move {
                let stat = term.stat(&path).await?;
                Ok(stat.map(|stat| SeenZnode { path, stat }))
            }
        })
        .buffered(AT_ONCE)
        .try_filter_map(async |seen| Ok(seen))
        .try_collect()
        .await
}

/// Removes these znodes, deepest first; those that are gone already count as removed. Calls `removed` with the count so
/// far.
pub async fn remove(
    term: &Term,
    levels: Vec<Vec<SeenZnode>>,
    mut removed: impl FnMut(u64),
) -> Result<(), CallError> {
    let mut count = 0;
    for level in levels.into_iter().rev() {
        let mut deletions = stream::iter(level)
            .map(|seen| async move { crate::retry::delete(term, &seen.path).await })
            .buffer_unordered(AT_ONCE);
        while let Some(deleted) = deletions.next().await {
            deleted?;
            count += 1;
            removed(count);
        }
    }
    Ok(())
}
