//! Pages of the guide, as typed: their shell blocks are run as they stand.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use menagerie_testkit::{Process, binary};
use rustix::process::Signal;

use crate::cli::{Done, User};

/// The shell blocks of a page of the guide, each cut into steps: a command of ours is one by itself.
pub fn steps_of(page: &str) -> Vec<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/guide").join(page);
    steps(&fs::read_to_string(path).expect("the guide"))
}

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

/// A newcomer with an empty folder, who has `menagerie` in the PATH, and told git who they are.
pub struct Newcomer {
    pub user: User,
    /// Where their shell is.
    folder: PathBuf,
    /// What runs in other terminals; the first is `menagerie up`.
    terminals: Vec<Process>,
}

impl Newcomer {
    pub fn new() -> Self {
        let mut user = User::nowhere();
        for variable in [
            "MENAGERIE_KEEPER_LISTEN",
            "MENAGERIE_JOURNAL_LISTEN",
            "MENAGERIE_QUEUE_LISTEN",
            "MENAGERIE_SLOTS_LISTEN",
            "MENAGERIE_WEB_LISTEN",
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
        Self { user, folder, terminals: Vec::new() }
    }

    /// Where their shell is.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    fn in_folder(&self, mut command: Command) -> Command {
        command.current_dir(&self.folder);
        command
    }

    /// Types lines into the shell, which ends with the first that fails, and keeps its place and variables.
    fn type_in(&mut self, lines: &str) -> Done {
        let [place, variables] = ["place", "variables"].map(|name| self.user.folder().join(name));
        let (kept, place_name) = (variables.display(), place.display());
        let script = format!(
            "set -a\n[ ! -e '{kept}' ] || . '{kept}'\n{lines}\nexport -p >'{kept}'\npwd >'{place_name}'"
        );
        let shell = self.user.command_under(&["sh", "-ec", &script], &[]);
        let done = Done::of(self.in_folder(shell).output().expect("a shell runs"));
        if let Ok(folder) = fs::read_to_string(&place) {
            self.folder = PathBuf::from(folder.trim());
        }
        done
    }

    /// Does what the guide says, and returns what was printed. Servers get a terminal of their own.
    #[track_caller]
    pub fn follow(&mut self, step: &str) -> String {
        let command = step.split('#').next().unwrap_or_default().trim();
        let words: Vec<&str> = command.split_whitespace().skip(1).collect();
        if command == "menagerie up" || command.starts_with("menagerie worker ") {
            let server = Process::spawn(&mut self.in_folder(self.user.command(&words)));
            if words == ["up"] {
                server.wait_for_line("how to stop it", |line| line.contains("Ctrl-C").then_some(()));
            } else {
                server.wait_until_ready(words[0]);
            }
            self.terminals.push(server);
            return String::new();
        }
        let expected = if step.contains("# exits with 1") { 1 } else { 0 };
        let done = self.type_in(step);
        assert_eq!(done.code, Some(expected), "{step}\n{}{}", done.text(), done.stderr);
        done.text() + &done.stderr
    }

    /// Presses Ctrl-C in every other terminal, the newest first.
    #[track_caller]
    pub fn stop(mut self) {
        assert!(!self.terminals.is_empty(), "the guide starts servers");
        for mut server in self.terminals.drain(..).rev() {
            server.signal(Signal::INT);
            let end = server.wait_for_end();
            assert_eq!(end.status.code(), Some(0), "{}", end.stderr);
        }
    }
}
