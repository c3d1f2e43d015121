//! Against the real git program: each test has a bare remote, a clone to push from, and caches of "machines".

mod merging;
mod names;
mod noting;
mod pushing;
mod reading;
mod running;
mod work_trees;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use menagerie_znodes::pipelines::{Change, Sha};
use tempfile::TempDir;

use super::{Caches, Merge, Repository};

/// A remote repository with one commit on `main`, and somebody's clone of it.
struct World {
    folder: TempDir,
}

impl World {
    fn new() -> Self {
        let world = Self { folder: tempfile::tempdir().unwrap() };
        world.git_in(world.path(""), &["init", "-q", "--bare", "-b", "main", "remote.git"]);
        world.git_in(world.path(""), &["init", "-q", "-b", "main", "clone"]);
        world.git(&["remote", "add", "origin", world.path("remote.git").to_str().unwrap()]);
        world.commit("README", "one\ntwo\nthree\n", "Begin");
        world.git(&["push", "-q", "origin", "main"]);
        world
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn git(&self, args: &[&str]) -> String {
        self.git_in(self.path("clone"), args)
    }

    fn git_in(&self, folder: impl AsRef<Path>, args: &[&str]) -> String {
        let mut command = Command::new("git");
        for (name, _) in std::env::vars_os().filter(|(name, _)| name.to_string_lossy().starts_with("GIT_")) {
            command.env_remove(name);
        }
        let output = command
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .args(["-c", "user.name=Ada", "-c", "user.email=ada@example.org"])
            .args(args)
            .current_dir(folder)
            .output()
            .unwrap();
        assert!(output.status.success(), "git {args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    }

    fn sha(&self, name: &str) -> Sha {
        self.git(&["rev-parse", name]).parse().unwrap()
    }

    fn commit(&self, file: &str, content: &str, message: &str) -> Sha {
        let path = self.path("clone").join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
        self.git(&["add", "-A"]);
        self.git(&["commit", "-q", "-m", message]);
        self.sha("HEAD")
    }

    /// Pushes a proposal of one commit on top of `main`, and returns to `main`.
    fn propose(&self, topic: &str, file: &str, content: &str) -> Sha {
        let branch = format!("propose/main/{topic}");
        self.git(&["checkout", "-q", "-B", &branch, "main"]);
        let patchset = self.commit(file, content, &format!("Change {file}\n\nDepends-On: nothing"));
        self.git(&["push", "-q", "-f", "origin", &branch]);
        self.git(&["checkout", "-q", "main"]);
        patchset
    }

    /// The repository as one machine sees it.
    async fn machine(&self, name: &str) -> Repository {
        let url = self.path("remote.git");
        Caches::new(self.path(name)).repository("git", "org/app", url.to_str().unwrap()).await.unwrap()
    }

    fn remote_ref(&self, name: &str) -> Option<Sha> {
        let listed = self.git_in(self.path("remote.git"), &["for-each-ref", "--format=%(objectname)", name]);
        listed.parse().ok()
    }

    fn install_hook(&self, name: &str, script: &str) {
        use std::os::unix::fs::PermissionsExt;
        let hook = self.path("remote.git/hooks").join(name);
        fs::create_dir_all(hook.parent().unwrap()).unwrap();
        fs::write(&hook, script).unwrap();
        fs::set_permissions(&hook, fs::Permissions::from_mode(0o755)).unwrap();
    }
}

fn change(topic: &str) -> Change {
    Change { project: "org/app".into(), target: "main".into(), topic: topic.into() }
}

/// Merges a patchset that is known not to clash.
async fn merged(repository: &Repository, base: &Sha, topic: &str, patchset: &Sha) -> Sha {
    repository.require(&[base, patchset]).await.unwrap();
    match repository.merge(base, &change(topic), patchset).await.unwrap() {
        Merge::Commit(commit) => commit,
        Merge::Conflict { message } => panic!("unexpected conflict: {message}"),
    }
}
