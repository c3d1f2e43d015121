use menagerie_znodes::pipelines::Link;

use super::super::{GitError, Merge};
use super::{World, change, merged};

#[tokio::test]
async fn two_machines_make_the_same_merge() {
    let world = World::new();
    let base = world.sha("main");
    let patchset = world.propose("fix", "new.txt", "new\n");
    let here = merged(&world.machine("here").await, &base, "fix", &patchset).await;
    let there = merged(&world.machine("there").await, &base, "fix", &patchset).await;
    assert_eq!(here, there);
}

/// Machines that run different versions of Menagerie must agree too: a change of this hash breaks their replays.
#[tokio::test]
async fn the_hash_of_a_merge_is_the_same_for_ever() {
    let world = World::new();
    let write = |kind: &str, content: &str| {
        std::fs::write(world.path("object"), content).unwrap();
        world.git(&["hash-object", "-w", "-t", kind, world.path("object").to_str().unwrap()])
    };
    let tree = world.git(&["rev-parse", "main^{tree}"]);
    let ada = "Ada <ada@example.org>";
    let base = write(
        "commit",
        &format!("tree {tree}\nauthor {ada} 5 +0100\ncommitter {ada} 1700000000 +0100\n\nA\n"),
    );
    let patchset = write(
        "commit",
        &format!("tree {tree}\nparent {base}\nauthor {ada} 9 +0000\ncommitter {ada} 1600000000 -0500\n\nB\n"),
    );
    world.git(&[
        "push",
        "-q",
        "-f",
        "origin",
        &format!("{base}:refs/heads/main"),
        &format!("{patchset}:refs/heads/x"),
    ]);
    let (base, patchset) = (base.parse().unwrap(), patchset.parse().unwrap());
    let commit = merged(&world.machine("here").await, &base, "fix", &patchset).await;
    assert_eq!(commit.as_str(), "62c211e6889e2d6a36bbbe22e59d6d50d8c44d45");
}

#[tokio::test]
async fn a_patchset_that_could_be_fast_forwarded_still_gets_a_merge_commit() {
    let world = World::new();
    let base = world.sha("main");
    let patchset = world.propose("fix", "new.txt", "new\n");
    let repository = world.machine("here").await;
    let commit = merged(&repository, &base, "fix", &patchset).await;
    let shown = world.git_in(
        &repository.cache,
        &["show", "-s", "--format=%P%n%an <%ae>%n%cn%n%ai|%ci%n%B", commit.as_str()],
    );
    let date = world.git(&["log", "-1", "--format=%ct", patchset.as_str()]);
    let made = world.git_in(&repository.cache, &["log", "-1", "--format=%ct %at", commit.as_str()]);
    assert_eq!(made, format!("{date} {date}"));
    let lines: Vec<&str> = shown.lines().collect();
    assert_eq!(lines[0], format!("{base} {patchset}"));
    assert_eq!(lines[1..3], ["Menagerie <menagerie@localhost>", "Menagerie"]);
    assert!(lines[3].ends_with("+0000"));
    assert_eq!(lines[4], "Merge org/app:propose/main/fix");
    assert_eq!(lines[5], "");
    assert_eq!(lines[6], "Menagerie-Change: org/app:propose/main/fix");
    assert_eq!(lines[7], format!("Menagerie-Patchset: {patchset}"));
}

#[tokio::test]
async fn a_patchset_that_the_base_contains_is_merged_once_more() {
    let world = World::new();
    let old = world.sha("main");
    let base = world.commit("README", "one\n2\nthree\n", "Second");
    world.git(&["push", "-q", "origin", "main"]);
    let repository = world.machine("here").await;
    for patchset in [&old, &base] {
        let commit = merged(&repository, &base, "old", patchset).await;
        let tree = |sha: &str| world.git_in(&repository.cache, &["rev-parse", &format!("{sha}^{{tree}}")]);
        assert_eq!(tree(commit.as_str()), tree(base.as_str()));
        assert_ne!(commit, base);
    }
}

#[tokio::test]
async fn a_conflict_names_the_files_that_clash() {
    let world = World::new();
    let patchset = world.propose("fix", "README", "one\nTWO\nthree\n");
    let base = world.commit("README", "one\n2\nthree\n", "Second");
    world.git(&["push", "-q", "origin", "main"]);
    let repository = world.machine("here").await;
    repository.require(&[&base, &patchset]).await.unwrap();
    let outcome = repository.merge(&base, &change("fix"), &patchset).await.unwrap();
    assert_eq!(outcome, Merge::Conflict { message: "merge conflict in README".into() });
}

#[tokio::test]
async fn histories_without_a_common_commit_are_a_conflict() {
    let world = World::new();
    let base = world.sha("main");
    world.git(&["checkout", "-q", "--orphan", "propose/main/alien"]);
    let patchset = world.commit("alien", "x\n", "From elsewhere");
    world.git(&["push", "-q", "origin", "propose/main/alien"]);
    let repository = world.machine("here").await;
    repository.require(&[&base, &patchset]).await.unwrap();
    let outcome = repository.merge(&base, &change("alien"), &patchset).await.unwrap();
    assert!(matches!(outcome, Merge::Conflict { message } if message.contains("in common")));
}

#[tokio::test]
async fn a_merge_with_a_commit_that_is_not_there_says_which() {
    let world = World::new();
    let patchset = world.propose("fix", "new.txt", "new\n");
    let repository = world.machine("here").await;
    let error = repository.merge(&world.sha("main"), &change("fix"), &patchset).await.unwrap_err();
    assert!(matches!(error, GitError::Missing { .. }), "{error:?}");
}

#[tokio::test]
async fn another_machine_replays_a_chain_of_merges() {
    let world = World::new();
    let base = world.sha("main");
    let here = world.machine("here").await;
    let mut links = Vec::new();
    let mut tip = base.clone();
    for topic in ["a", "b", "c"] {
        let patchset = world.propose(topic, topic, "x\n");
        let commit = merged(&here, &tip, topic, &patchset).await;
        links.push(Link { change: change(topic), patchset, commit: commit.clone() });
        tip = commit;
    }
    let there = world.machine("there").await;
    assert_eq!(there.replay(&base, &links[..2]).await.unwrap(), links[1].commit);
    assert_eq!(there.replay(&base, &links).await.unwrap(), tip);
    assert_eq!(there.replay(&base, &links).await.unwrap(), tip);
    assert_eq!(there.replay(&base, &[]).await.unwrap(), base);
    links[0].change.topic = "other".into();
    let error = world.machine("third").await.replay(&base, &links[..1]).await.unwrap_err();
    assert!(matches!(error, GitError::Differs { .. }), "{error:?}");
}
