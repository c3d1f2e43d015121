//! Paths: which are valid, and what their parent is.

use menagerie_wire::ErrorCode;

/// The ancestor of every other znode.
pub const ROOT: &str = "/";
/// Where the server keeps its own znodes.
pub const SYSTEM: &str = "/zookeeper";
/// The configuration of the ensemble, for clients that look for it.
pub const CONFIG: &str = "/zookeeper/config";
/// Quotas, below the path that they are for.
pub const QUOTA: &str = "/zookeeper/quota";

/// The longest path of a znode. Every request that names a single path of this length fits into a frame.
pub const BYTES_MAX: usize = 1_048_000;

/// Znodes that exist from the start and cannot be deleted.
pub const UNDELETABLE: [&str; 4] = [ROOT, SYSTEM, CONFIG, QUOTA];

/// Checks a path in full, by the rules of the reference implementation.
pub fn validate(path: &str) -> Result<(), ErrorCode> {
    let Some(rest) = path.strip_prefix('/') else { return Err(ErrorCode::BadArguments) };
    if rest.is_empty() {
        return Ok(());
    }
    let sound =
        rest.split('/').all(|name| !matches!(name, "" | "." | "..")) && !path.chars().any(is_forbidden);
    if sound { Ok(()) } else { Err(ErrorCode::BadArguments) }
}

/// Control characters, private use, specials, and everything that Java writes as a surrogate pair.
fn is_forbidden(c: char) -> bool {
    matches!(c, '\0'..='\u{1f}' | '\u{7f}'..='\u{9f}' | '\u{e000}'..='\u{f8ff}' | '\u{fff0}'..)
}

/// The parent by slashes alone: the reference looks it up before it checks the path itself. `None` if there is no
/// slash, or a NUL, which is refused at once.
pub fn parent_unchecked(path: &str) -> Option<&str> {
    if path.contains('\0') {
        return None;
    }
    path.rfind('/').map(|slash| if slash == 0 { ROOT } else { &path[..slash] })
}

/// The parent of a valid path; `None` for the root.
pub fn parent(path: &str) -> Option<&str> {
    if path == ROOT {
        return None;
    }
    parent_unchecked(path)
}

/// The last component of a valid path.
pub fn name(path: &str) -> &str {
    path.rfind('/').map_or(path, |slash| &path[slash + 1..])
}

/// The path itself and everything above it, the root last.
pub fn ancestry(path: &str) -> impl Iterator<Item = &str> {
    std::iter::successors(Some(path), |path| parent(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_well_formed_paths_are_valid() {
        for good in ["/", "/a", "/a/b", "/ä", "/a.b", "/...", "/zookeeper/x"] {
            assert_eq!(validate(good), Ok(()), "{good:?}");
        }
        for bad in [
            "",
            "a",
            "/a/",
            "//",
            "/a//b",
            "/.",
            "/a/..",
            "/a/./b",
            "/a\0",
            "/a\u{1}",
            "/\u{1f600}",
            "/\u{f000}",
        ] {
            assert_eq!(validate(bad), Err(ErrorCode::BadArguments), "{bad:?}");
        }
    }

    #[test]
    fn ancestry_ends_at_the_root() {
        assert_eq!(ancestry("/a/b").collect::<Vec<_>>(), ["/a/b", "/a", "/"]);
        assert_eq!(ancestry("/").collect::<Vec<_>>(), ["/"]);
    }
}
