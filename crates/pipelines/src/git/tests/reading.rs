use menagerie_znodes::pipelines::Sha;

use super::super::{Caches, GitError};
use super::{World, merged};

#[tokio::test]
async fn refs_that_matter_are_listed() {
    let world = World::new();
    let patchset = world.propose("fix", "a", "a\n");
    let main = world.sha("main");
    world.git(&["tag", "-a", "-m", "first", "v1"]);
    world.git(&["push", "-q", "origin", "v1", "main:refs/menagerie/merged/main/old", "main:refs/other/x"]);
    world.git(&["push", "-q", "origin", "main:refs/odd/refs/heads/x"]);
    let refs = world.machine("here").await.remote_refs().await.unwrap();
    let expected = [
        ("refs/heads/main", main.clone()),
        ("refs/heads/propose/main/fix", patchset),
        ("refs/menagerie/merged/main/old", main.clone()),
        ("refs/tags/v1", main),
    ];
    assert_eq!(refs.into_iter().collect::<Vec<_>>(), expected.map(|(name, sha)| (name.to_owned(), sha)));
}

#[tokio::test]
async fn commits_without_a_ref_are_fetched_by_their_hash() {
    let world = World::new();
    let old = world.propose("fix", "a", "a\n");
    let new = world.propose("fix", "a", "b\n");
    let repository = world.machine("here").await;
    repository.require(&[&old, &new]).await.unwrap();
    let gone: Sha = "12".repeat(20).parse().unwrap();
    let error = repository.require(&[&new, &gone]).await.unwrap_err();
    assert!(matches!(&error, GitError::Missing { sha } if *sha == gone), "{error:?}");
}

#[tokio::test]
async fn a_branch_may_turn_into_a_folder_of_branches() {
    let world = World::new();
    let repository = world.machine("here").await;
    let first = world.propose("a", "a", "a\n");
    repository.require(&[&first]).await.unwrap();
    world.git(&["push", "-q", "origin", ":propose/main/a"]);
    world.git(&["branch", "-q", "-D", "propose/main/a"]);
    let second = world.propose("a/b", "b", "b\n");
    repository.require(&[&second]).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn loops_that_need_the_same_commits_do_not_clash() {
    let world = World::new();
    let patchset = world.propose("fix", "a", "a\n");
    let mut loops = Vec::new();
    for _ in 0..8 {
        let (repository, patchset) = (world.machine("here").await, patchset.clone());
        loops.push(tokio::spawn(async move { repository.require(&[&patchset]).await }));
    }
    for one in loops {
        one.await.unwrap().unwrap();
    }
}

#[tokio::test]
async fn a_proposal_is_its_messages_and_files() {
    let world = World::new();
    let main = world.sha("main");
    world.propose("fix", "dir/ü name", "a\n");
    world.git(&["checkout", "-q", "propose/main/fix"]);
    world.git(&["mv", "README", "LIESMICH"]);
    let patchset = world.commit("more", "m\n", "Second\n\nBody\n");
    world.git(&["push", "-q", "origin", "propose/main/fix"]);
    let repository = world.machine("here").await;
    repository.require(&[&patchset]).await.unwrap();
    let messages = repository.messages(&main, &patchset).await.unwrap();
    let subjects: Vec<&str> = messages.iter().map(|message| message.trim_end()).collect();
    assert_eq!(subjects, ["Second\n\nBody", "Change dir/ü name\n\nDepends-On: nothing"]);
    assert_eq!(repository.messages(&patchset, &main).await.unwrap(), [""; 0]);
    let changed = repository.changed_files(&main, &patchset).await.unwrap();
    assert_eq!(changed, ["LIESMICH", "README", "dir/ü name", "more"]);
}

#[tokio::test]
async fn files_are_filtered_and_bounded() {
    let world = World::new();
    world.commit(".zuul.d/a.yaml", "- job: a\n", "a");
    world.commit(".zuul.d/same.yaml", "- job: a\n", "same");
    world.commit(".zuul.d/empty.yaml", "", "empty");
    world.commit(".zuul.d/binary.yaml", "a\0b", "binary");
    std::os::unix::fs::symlink("/etc/passwd", world.path("clone/.zuul.d/link.yaml")).unwrap();
    world.commit("big", &"x".repeat(2 << 20), "big");
    world.git(&["push", "-q", "origin", "main"]);
    let repository = world.machine("here").await;
    let main = world.sha("main");
    repository.require(&[&main]).await.unwrap();
    let files = repository.files(&main, |path| path.starts_with(".zuul.d/")).await.unwrap();
    let found: Vec<(&str, &str)> = files.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect();
    let expected =
        [(".zuul.d/a.yaml", "- job: a\n"), (".zuul.d/empty.yaml", ""), (".zuul.d/same.yaml", "- job: a\n")];
    assert_eq!(found, expected);
    let error = repository.files(&main, |_| true).await.unwrap_err();
    assert!(matches!(&error, GitError::TooLarge { what, .. } if what == "big"), "{error:?}");
}

#[tokio::test]
async fn a_missing_repository_is_unreachable() {
    let world = World::new();
    let caches = Caches::new(world.path("here"));
    for url in [world.path("nowhere").to_str().unwrap(), "http://127.0.0.1:1/app", "git://127.0.0.1:1/app"] {
        let repository = caches.repository("git", "gone", url).await.unwrap();
        let error = repository.remote_refs().await.unwrap_err();
        assert!(matches!(error, GitError::Unreachable { .. }), "{url}: {error:?}");
        let error = repository.require(&[&world.sha("main")]).await.unwrap_err();
        assert!(matches!(error, GitError::Unreachable { .. }), "{url}: {error:?}");
        assert!(error.help().contains("ls-remote"));
    }
    let error = caches.repository("git", "app", "ext::sh -c id").await.unwrap_err();
    assert!(matches!(error, GitError::Invalid(_)), "{error:?}");
}

#[tokio::test]
async fn a_cache_is_private_and_made_once() {
    use std::os::unix::fs::PermissionsExt;
    let world = World::new();
    let (one, other) = tokio::join!(world.machine("here"), world.machine("here"));
    assert_eq!(one.cache, other.cache);
    assert_eq!(one.cache.metadata().unwrap().permissions().mode() & 0o777, 0o700);
    let left_over = std::fs::read_dir(one.cache.parent().unwrap()).unwrap().count();
    assert_eq!(left_over, 1);
}

#[tokio::test]
async fn packs_are_joined_before_they_are_too_many_and_lose_nothing() {
    let world = World::new();
    let repository = world.machine("here").await;
    // Neither a replaced patchset nor a speculative merge has a ref.
    let replaced = world.propose("fix", "a", "a\n");
    let speculative = merged(&repository, &world.sha("main"), "fix", &replaced).await;
    world.propose("fix", "a", "b\n");
    for number in 0..60 {
        let commit = world.commit("n", &format!("{number}\n"), "n");
        world.git(&["push", "-q", "origin", "main"]);
        repository.require(&[&commit]).await.unwrap();
    }
    let packs = std::fs::read_dir(repository.cache.join("objects/pack")).unwrap().flatten();
    let count = packs.filter(|entry| entry.path().extension().is_some_and(|e| e == "pack")).count();
    assert!(count < 50, "{count} packs");
    assert_eq!(repository.missing(&[&replaced, &speculative]).await.unwrap(), []);
    world.git_in(&repository.cache, &["rev-list", "--objects", speculative.as_str()]);
    assert_eq!(repository.messages(&world.sha("main~5"), &world.sha("main")).await.unwrap().len(), 5);
}
