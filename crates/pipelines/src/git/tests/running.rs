use std::time::Duration;

use menagerie_testkit::eventually_async;

use super::super::GitError;
use super::super::lock::{FileLock, remove_if_stale};
use super::super::run::{Git, Scope};

/// A git command that takes a minute, in a child of its own, and leaves a file when it is asked to end.
fn slow(folder: &std::path::Path) -> Git {
    let script = "alias.slow=!trap 'touch ended; exit 1' TERM; touch started; sleep 60 & wait";
    Git::new(Scope::Local, folder, "wait").args(["-c", script, "slow"])
}

async fn appears(file: std::path::PathBuf) {
    eventually_async("the program leaves a file", async || file.exists().then_some(())).await;
}

#[tokio::test]
async fn a_command_that_takes_too_long_is_ended_with_its_children() {
    let folder = tempfile::tempdir().unwrap();
    let error = slow(folder.path()).time_limit(Duration::from_millis(500)).succeed().await.unwrap_err();
    assert!(matches!(error, GitError::TimedOut { .. }), "{error:?}");
    appears(folder.path().join("ended")).await;
}

#[tokio::test]
async fn a_command_that_nobody_waits_for_is_ended() {
    let folder = tempfile::tempdir().unwrap();
    tokio::select! {
        _ = slow(folder.path()).succeed() => panic!("it should take long"),
        () = appears(folder.path().join("started")) => {}
    }
    appears(folder.path().join("ended")).await;
}

#[tokio::test]
async fn an_endless_answer_is_cut_off() {
    let folder = tempfile::tempdir().unwrap();
    let git =
        Git::new(Scope::Local, folder.path(), "listen").args(["-c", "alias.talk=!cat /dev/zero", "talk"]);
    let error = git.succeed().await.unwrap_err();
    assert!(matches!(error, GitError::TooLarge { .. }), "{error:?}");
}

#[tokio::test]
async fn a_vanished_folder_is_not_taken_for_a_missing_git() {
    let error =
        Git::new(Scope::Local, "/nonexistent".as_ref(), "try").arg("version").succeed().await.unwrap_err();
    assert!(matches!(error, GitError::Io { .. }), "{error:?}");
}

#[tokio::test]
async fn a_lock_is_held_by_one_at_a_time() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a.lock");
    let held = FileLock::acquire(&path, Duration::ZERO).await.unwrap();
    let error = FileLock::acquire(&path, Duration::from_millis(10)).await.unwrap_err();
    assert!(matches!(error, GitError::TimedOut { .. }), "{error:?}");
    drop(held);
    FileLock::acquire(&path, Duration::ZERO).await.unwrap();
}

#[test]
fn only_old_lock_files_are_removed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("packed-refs.lock");
    let file = std::fs::File::create(&path).unwrap();
    remove_if_stale(&path);
    assert!(path.exists());
    file.set_modified(std::time::SystemTime::now() - Duration::from_secs(3_600)).unwrap();
    remove_if_stale(&path);
    assert!(!path.exists());
}
