use std::fs;

use super::super::{BranchTip, GitError};
use super::{World, merged};

#[tokio::test]
async fn a_work_tree_has_the_speculative_branches_and_the_remote_ones() {
    let world = World::new();
    let base = world.sha("main");
    let patchset = world.propose("fix", "dir/new.txt", "new\n");
    let repository = world.machine("here").await;
    let commit = merged(&repository, &base, "fix", &patchset).await;
    let tips = [
        BranchTip { branch: "main".into(), commit: commit.clone(), base: base.clone() },
        BranchTip { branch: "rel/1".into(), commit: base.clone(), base: base.clone() },
    ];
    let folder = world.path("job");
    repository.check_out(&folder, &tips, "main").await.unwrap();
    assert_eq!(fs::read_to_string(folder.join("dir/new.txt")).unwrap(), "new\n");
    let git = |args: &[&str]| world.git_in(&folder, args);
    assert_eq!(git(&["status", "--porcelain", "--branch"]), "## main");
    assert_eq!(git(&["rev-parse", "main"]), commit.as_str());
    assert_eq!(
        git(&["rev-parse", "rel/1", "origin/rel/1", "origin/main"]),
        format!("{base}\n{base}\n{base}")
    );
    assert_eq!(git(&["config", "remote.origin.url"]), "file:///dev/null");
    git(&["fsck", "--connectivity-only"]);
    git(&["commit", "-q", "--allow-empty", "-m", "a job may commit"]);
    git(&["checkout", "-q", "rel/1"]);
    assert!(!folder.join("dir").exists());

    let error = repository.check_out(&folder, &tips, "main").await.unwrap_err();
    assert!(matches!(error, GitError::Io { .. }), "{error:?}");
    repository.check_out(&world.path("detached"), &tips, patchset.as_str()).await.unwrap();
    assert_eq!(world.git_in(world.path("detached"), &["rev-parse", "HEAD"]), patchset.as_str());
}

#[tokio::test]
async fn a_failed_check_out_leaves_nothing() {
    let world = World::new();
    let base = world.sha("main");
    let repository = world.machine("here").await;
    let tips = [BranchTip { branch: "main".into(), commit: base.clone(), base }];
    let folder = world.path("job");
    let error = repository.check_out(&folder, &tips, "main").await.unwrap_err();
    assert!(matches!(error, GitError::Missing { .. }), "{error:?}");
    assert!(!folder.exists());
    for head in ["other", "-f", "../x"] {
        let error = repository.check_out(&folder, &tips, head).await.unwrap_err();
        assert!(matches!(error, GitError::Invalid(_)), "{error:?}");
    }
}

/// The bound is generous, for busy machines; `--nocapture` shows what they really take.
#[tokio::test]
async fn common_operations_take_less_than_a_second() {
    let world = World::new();
    let repository = world.machine("here").await;
    let mut times: std::collections::BTreeMap<&str, Vec<u128>> = std::collections::BTreeMap::new();
    for round in 0..9 {
        let base = world.sha("main");
        let patchset = world.propose("fix", &format!("file-{round}"), "new\n");
        repository.require(&[&base, &patchset]).await.unwrap();
        let mut lap = std::time::Instant::now();
        let mut stop = |name| {
            times.entry(name).or_default().push(lap.elapsed().as_micros());
            lap = std::time::Instant::now();
        };
        let commit = match repository.merge(&base, &super::change("fix"), &patchset).await.unwrap() {
            super::Merge::Commit(commit) => commit,
            super::Merge::Conflict { message } => panic!("{message}"),
        };
        stop("merge");
        let tips = [BranchTip { branch: "main".into(), commit: commit.clone(), base: base.clone() }];
        repository.check_out(&world.path(&format!("job-{round}")), &tips, "main").await.unwrap();
        stop("check_out");
        repository.append_note(&patchset, &serde_json::json!({"n": round}), |_| false).await.unwrap();
        stop("append_note");
        repository.push_merge(&super::change("fix"), &patchset, &base, &commit).await.unwrap();
        stop("push_merge");
        world.git(&["push", "-q", "origin", ":refs/menagerie/merged/main/fix"]);
        world.git(&["pull", "-q", "--ff-only", "origin", "main"]);
    }
    for (name, mut micros) in times {
        micros.sort_unstable();
        println!("{name}: p50 {} µs, max {} µs", micros[micros.len() / 2], micros[micros.len() - 1]);
        assert!(micros[micros.len() / 2] < 1_000_000, "{name} is slow");
    }
}
