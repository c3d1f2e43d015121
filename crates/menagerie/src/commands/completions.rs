//! `menagerie completions SHELL`: shell completion scripts. The script asks this binary what fits, so it completes names
//! of queues and pools, too.

use std::any::TypeId;
use std::env;
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::time::Duration;

use clap::{Arg, Args, Command, CommandFactory as _};
use clap_complete::env::Shells;
use clap_complete::{ArgValueCompleter, CompleteEnv, CompletionCandidate};
use menagerie_kernel::Session;
use menagerie_kernel::session::Rights;
use menagerie_queues::admin::show;
use menagerie_znodes::queues::QueueName;

use crate::cli::Cli;
use crate::client::{self, ClientArgs, Connection};
use crate::exit::CliError;
use crate::output;

/// Set when a script asks: its value is the shell. A name of our own, because whoever sets it gets no command.
const VARIABLE: &str = "_MENAGERIE_COMPLETE";

/// Longest wait for names: somebody sits in front of the terminal.
const NAMES_TIMEOUT: Duration = Duration::from_secs(1);

/// What Bash needs beyond the script of the library.
const BASH_WORDS: &str = include_str!("completions.bash");

/// Print shell completions, e.g. `menagerie completions bash > /etc/bash_completion.d/menagerie`. They complete names of
/// queues and pools, too, if ZooKeeper answers within a second.
#[derive(Debug, Args)]
pub struct Completions {
    /// Shell to complete for.
    shell: clap_complete::Shell,
}

impl Completions {
    pub fn run(self) -> Result<(), CliError> {
        let (shells, mut script) = (Shells::builtins(), Vec::new());
        if let Some(shell) = shells.completer(&self.shell.to_string()) {
            let written =
                shell.write_registration(VARIABLE, "menagerie", "menagerie", "menagerie", &mut script);
            written.map_err(CliError::io("write a script"))?;
            if self.shell == clap_complete::Shell::Bash {
                script.extend_from_slice(BASH_WORDS.as_bytes());
            }
        }
        output::write_bytes(&script)
    }
}

/// Answers a script that asks what fits. False if no script does.
pub fn answer() -> bool {
    if env::var_os(VARIABLE).is_none() {
        return false;
    }
    let here = env::current_dir().ok();
    let asked = CompleteEnv::with_factory(command).var(VARIABLE).bin("menagerie").completer("menagerie");
    // Nobody reads an error here: it would stand in the middle of a line that is being typed.
    let _ = asked.try_complete(env::args_os(), here.as_deref());
    true
}

/// The command line, with arguments that know what fits.
fn command() -> Command {
    with_names(Cli::command())
}

fn with_names(command: Command) -> Command {
    command.mut_args(with_names_of).mut_subcommands(with_names)
}

/// Arguments are told apart by their type, so that a new command completes names of queues without saying so.
fn with_names_of(argument: Arg) -> Arg {
    let is_queue = argument.get_value_parser().type_id() == TypeId::of::<QueueName>();
    if is_queue {
        argument.add(ArgValueCompleter::new(queues))
    } else if argument.get_id() == "pool" {
        argument.add(ArgValueCompleter::new(pools))
    } else {
        argument
    }
}

fn queues(begun: &OsStr) -> Vec<CompletionCandidate> {
    let list = async |session: &Session| {
        let all = show::list(session).await.ok()?;
        Some(all.into_iter().map(|queue| queue.to_string()).collect())
    };
    names(begun, list)
}

fn pools(begun: &OsStr) -> Vec<CompletionCandidate> {
    let list = async |session: &Session| {
        let all = menagerie_slots::admin::list(session).await.ok()?;
        Some(all.into_iter().map(|pool| pool.to_string()).collect())
    };
    names(begun, list)
}

/// The names that begin like this; none if ZooKeeper does not answer.
fn names(begun: &OsStr, list: impl AsyncFnOnce(&Session) -> Option<Vec<String>>) -> Vec<CompletionCandidate> {
    let read = async {
        let settings = said(env::args_os().collect()).settings().ok()?;
        let session = Connection::within(&settings, Rights::Observer).ok()?.open().await.ok()?;
        let names = list(&session).await;
        client::close(session).await;
        names
    };
    let timed = client::block_on(async { Ok(tokio::time::timeout(NAMES_TIMEOUT, read).await) });
    let all = timed.ok().and_then(Result::ok).flatten().unwrap_or_default();
    let begun = begun.to_string_lossy();
    let fits = |name: &String| name.starts_with(&*begun) && is_plain(name);
    all.into_iter().filter(fits).map(CompletionCandidate::new).collect()
}

/// Whether a shell takes a name as it is. Others are not offered: scripts insert names without quotes, and whoever may
/// create a queue over HTTP chooses its name.
fn is_plain(name: &str) -> bool {
    !name.starts_with('-') && name.chars().all(|letter| letter.is_alphanumeric() || "._-@+:".contains(letter))
}

/// Where ZooKeeper is, as far as the unfinished line says so.
fn said(line: Vec<OsString>) -> ClientArgs {
    let value = |flag: &str| {
        let joined = format!("{flag}=");
        let mut words = line.iter().map(|word| word.to_string_lossy());
        words.find_map(|word| word.strip_prefix(&joined).map(str::to_owned)).or_else(|| {
            let at = line.iter().position(|word| word == flag)?;
            Some(line.get(at + 1)?.to_string_lossy().into_owned())
        })
    };
    ClientArgs::new(value("--zookeeper"), value("--namespace"), value("--config").map(PathBuf::from))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_mean_something_to_a_shell_are_not_offered() {
        for plain in ["mail", "notes:mail.failed", "büro-2_a@b+c"] {
            assert!(is_plain(plain), "{plain}");
        }
        for other in
            ["notes:$(reboot)", "a;b", "a`b`", "a b", "a'b", "a\\b", "--all", "~root", "a*", "=ls", "a{b"]
        {
            assert!(!is_plain(other), "{other}");
        }
    }
}
