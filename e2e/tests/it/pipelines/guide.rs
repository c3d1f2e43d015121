//! The guide "Gate your first repository", as typed: its shell blocks are run as they stand.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use menagerie_testkit::{Process, binary};
use rustix::process::Signal;

use super::site::wait_for_pipelines;
use crate::cli::{Done, User};

const GUIDE: &str = "../docs/guide/first-gate.md";

/// A newcomer with an empty folder, who has `menagerie` in the PATH, and told git who they are.
struct Newcomer {
    user: User,
    /// Where their shell is.
    folder: PathBuf,
    up: Option<Process>,
}

impl Newcomer {
    fn new() -> Self {
        let mut user = User::nowhere();
        for variable in [
            "MENAGERIE_KEEPER_LISTEN",
            "MENAGERIE_JOURNAL_LISTEN",
            "MENAGERIE_QUEUE_LISTEN",
            "MENAGERIE_SLOTS_LISTEN",
        ] {
            user = user.with(variable, "127.0.0.1:0");
        }
        let bin = user.folder().join("bin");
        fs::create_dir_all(&bin).expect("a folder can be made");
        symlink(binary(), bin.join("menagerie")).expect("a link can be made");
        let path = std::env::var("PATH").expect("there is a PATH");
        let user = user.with("PATH", format!("{}:{path}", bin.display()));
        user.write(".gitconfig", "[user]\nname = Newcomer\nemail = newcomer@localhost\n");
        let folder = user.folder().join("empty");
        fs::create_dir_all(&folder).expect("a folder can be made");
        Self { user, folder, up: None }
    }

    fn in_folder(&self, mut command: Command) -> Command {
        command.current_dir(&self.folder);
        command
    }

    /// Types lines into the shell, which ends with the first that fails, and stays where they lead.
    fn type_in(&mut self, lines: &str) -> Done {
        let place = self.user.folder().join("place");
        let script = format!("{lines}\npwd >'{}'", place.display());
        let shell = self.user.command_under(&["sh", "-ec", &script], &[]);
        let done = Done::of(self.in_folder(shell).output().expect("a shell runs"));
        if let Ok(folder) = fs::read_to_string(&place) {
            self.folder = PathBuf::from(folder.trim());
        }
        done
    }

    /// Does what the guide says.
    fn follow(&mut self, step: &str) -> String {
        let command = step.split('#').next().unwrap_or_default().trim();
        if command == "menagerie up" {
            let up = Process::spawn(&mut self.in_folder(self.user.command(&["up"])));
            up.wait_for_line("how to stop it", |line| line.contains("Ctrl-C").then_some(()));
            self.up = Some(up);
            // People are slower than this.
            wait_for_pipelines(&self.user);
            return String::new();
        }
        let expected = if step.contains("# exits with 1") { 1 } else { 0 };
        let done = self.type_in(step);
        assert_eq!(done.code, Some(expected), "{step}\n{}{}", done.text(), done.stderr);
        done.text() + &done.stderr
    }
}

/// The shell blocks of a page, each cut into steps: a command of ours is one by itself.
fn steps(page: &str) -> Vec<String> {
    let (mut steps, mut step, mut is_shell) = (Vec::new(), String::new(), false);
    for line in page.lines() {
        let is_ours = is_shell && line.starts_with("menagerie ");
        if (is_ours || line.starts_with("```")) && !step.is_empty() {
            steps.push(std::mem::take(&mut step));
        }
        match line {
            "```sh" => is_shell = true,
            "```" => is_shell = false,
            line if is_ours => steps.push(line.to_owned()),
            line if is_shell => step.push_str(&format!("{line}\n")),
            _ => {}
        }
    }
    steps
}

#[test]
fn first_gate() {
    let page = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join(GUIDE)).expect("the guide");
    let mut newcomer = Newcomer::new();
    let steps = steps(&page);
    let outputs: Vec<String> = steps.iter().map(|step| newcomer.follow(step)).collect();
    let said = |what: &str| -> String {
        let steps = steps.iter().zip(&outputs).filter(|(step, _)| step.contains(what));
        steps.map(|(_, output)| output.as_str()).collect()
    };
    assert!(
        said("pipeline status").contains("nothing is queued in check, gate"),
        "{}",
        said("pipeline status")
    );
    assert!(said("log --oneline").contains("Merge app:propose/main/greeting"), "{}", said("log --oneline"));
    // That of the gate may still be on its way.
    assert!(said("--notes=menagerie").contains("Build succeeded. (check"), "{}", said("--notes=menagerie"));
    let why = said("wait app:propose/main/later");
    assert!(why.contains("FAILURE"), "{why}");
    let hint = why.split("menagerie pipeline logs ").nth(1).expect("it says where the log is");
    let log = newcomer.follow(&format!("menagerie pipeline logs {hint}"));
    assert!(log.contains("BROKEN"), "{log}");
    let mut up = newcomer.up.take().expect("the guide says so");
    up.signal(Signal::INT);
    assert_eq!(up.wait_for_end().status.code(), Some(0));
}
