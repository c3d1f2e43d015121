use menagerie_znodes::pipelines::{Change, Sha, is_ref_name};

use super::super::error::{GitError, useful_part, without_secrets};
use super::super::names::{is_project_name, is_repository_url};

#[test]
fn ref_names_follow_the_rules_of_git() {
    for good in ["main", "a/b", "release-1.0", "feature/ü", "a@b", "a.b/c", "@a", "HEAD", "a{b}"] {
        assert!(is_ref_name(good), "{good}");
    }
    let bad = [
        "", "@", "-a", "a/../b", "a..b", ".a", "a/.b", "a.lock", "a.lock/b", "a.", "/a", "a/", "a//b", "a b",
        "a\tb", "a\x7f", "a\nb", "a~1", "a^", "a:b", "a?", "a*", "a[", "a\\b", "a@{1}",
    ];
    for bad in bad {
        assert!(!is_ref_name(bad), "{bad:?}");
    }
}

#[test]
fn ref_names_agree_with_the_git_program() {
    let mut names =
        vec!["a".to_owned(), "a@{b".into(), "a.lock".into(), "x.lock.y".into(), "@/a".into(), "a/@".into()];
    for byte in 1..=127_u8 {
        let c = char::from(byte);
        names.extend([
            format!("{c}b"),
            format!("a{c}b"),
            format!("a{c}"),
            format!("a/{c}b"),
            format!("a{c}{c}b"),
        ]);
    }
    for name in names.iter().filter(|name| !name.starts_with('-')) {
        let mut command = std::process::Command::new("git");
        let git = command.args(["check-ref-format", "--allow-onelevel", name]).status().unwrap();
        assert_eq!(is_ref_name(name), git.success(), "{name:?}");
    }
}

#[test]
fn project_names_cannot_leave_or_enter_a_cache() {
    for good in ["app", "org/app", "app.git", "org/app.js", "a b"] {
        assert!(is_project_name(good), "{good}");
    }
    for bad in ["", "/etc", "a/../b", "..", "a//b", "a/", "-a", ".a", "a.git/b", "a:b", "a\nb", "a\\b"] {
        assert!(!is_project_name(bad), "{bad:?}");
    }
}

#[test]
fn urls_that_run_programs_are_refused() {
    let good = [
        "/srv/git/app",
        "https://u:p@host/app.git",
        "http://host/a",
        "ssh://git@host:22/app",
        "git://host/app",
        "file:///srv/app",
        "git@host:org/app",
        "host:app",
    ];
    for good in good {
        assert!(is_repository_url(good), "{good}");
    }
    let bad = [
        "",
        "ext::sh -c id",
        "fd::7",
        "-uid",
        "--upload-pack=id",
        "ftp://host/a",
        "app",
        "../app",
        "ssh://-oProxy=x/a",
        "https://",
        "a b:c",
        "git@-oProxyCommand=x:y",
        "https://host/a\nb",
    ];
    for bad in bad {
        assert!(!is_repository_url(bad), "{bad:?}");
    }
}

#[test]
fn the_target_of_a_change_is_the_longest_branch() {
    let is_branch = |_: &str, name: &str| ["main", "rel", "rel/1"].contains(&name);
    let parsed = Change::parse("org/app:propose/rel/1/fix/it", is_branch).unwrap();
    assert_eq!((parsed.target.as_str(), parsed.topic.as_str()), ("rel/1", "fix/it"));
    assert_eq!(parsed.to_string(), "org/app:propose/rel/1/fix/it");
    assert_eq!(parsed.proposal_ref(), "refs/heads/propose/rel/1/fix/it");
    assert_eq!(parsed.merged_ref(), "refs/menagerie/merged/rel/1/fix/it");
    for bad in [
        "org/app",
        "org/app:main",
        "org/app:propose/main",
        "a:propose/x/y",
        "a:propose/main/",
        "a:propose/main/x y",
    ] {
        assert!(Change::parse(bad, is_branch).is_err(), "{bad}");
    }
}

#[test]
fn hashes_are_checked_wherever_they_come_from() {
    let text = format!("\"{}\"", "ab".repeat(20));
    let sha: Sha = serde_json::from_str(&text).unwrap();
    assert_eq!(serde_json::to_string(&sha).unwrap(), text);
    assert!(Sha::zero().is_zero() && !sha.is_zero());
    for bad in ["", "abc", "--upload-pack", &"AB".repeat(20), &"g".repeat(40), &"a".repeat(41)] {
        assert!(bad.parse::<Sha>().is_err(), "{bad}");
    }
    assert!("a".repeat(64).parse::<Sha>().is_ok());
}

#[test]
fn passwords_do_not_reach_messages() {
    assert_eq!(
        without_secrets("at 'https://me:pa@ss@host/a' and ssh://git@h:1/b"),
        "at 'https://host/a' and ssh://h:1/b"
    );
    assert_eq!(without_secrets("https://host/a@b"), "https://host/a@b");
    assert_eq!(
        useful_part("hint: x\nfatal: unable to access 'https://t:k@h/'\n"),
        "unable to access 'https://h/'"
    );
}

#[test]
fn faults_of_this_machine_are_told_from_those_of_the_repository() {
    let error = |stderr: &str, exit| GitError::from_stderr("fetch", stderr.as_bytes(), exit);
    for stderr in [
        "fatal: write error: No space left on device\nfatal: fetch-pack: invalid index-pack output",
        "error: unable to read sha1 file: Input/output error",
        "fatal: Out of memory, malloc failed (tried to allocate 1 bytes)",
    ] {
        assert!(error(stderr, Some(128)).is_local(), "{stderr}");
    }
    assert!(error("", None).is_local(), "it was killed");
    for stderr in ["remote: fatal: No space left on device", "fatal: refusing", "fatal: bad object HEAD"] {
        assert!(!error(stderr, Some(128)).is_local(), "{stderr}");
    }
}
