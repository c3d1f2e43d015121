//! `menagerie pipeline hook REPO`: a post-receive hook, so that a push is noticed at once.

use std::fs;
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use clap::Args;

use super::settings;
use crate::client::ClientArgs;
use crate::config::{Auth, Chosen, Origin, Settings};
use crate::exit::CliError;

/// Our hooks have this line; others are left alone.
const MARK: &str = "# Installed by `menagerie pipeline hook`: tells of a push at once, and never fails it.";

/// Install a post-receive hook into a repository on this machine, so that pushes are noticed at once. Without it they are
/// noticed within the connection's `poll`.
#[derive(Debug, Args)]
pub struct Hook {
    /// Folder of the repository, bare or not.
    repo: PathBuf,
    /// Connection of the repository.
    #[arg(long, value_name = "NAME")]
    connection: String,
    /// Project of the repository.
    #[arg(long, value_name = "NAME")]
    project: String,
}

impl Hook {
    pub fn run(self, client: ClientArgs) -> Result<(), CliError> {
        let settings = client.settings()?;
        let known = &settings::required(&settings)?.connections;
        if !known.contains_key(&self.connection) {
            let names: Vec<&str> = known.keys().map(String::as_str).collect();
            return Err(CliError::Usage {
                what: format!("there is no connection {}", self.connection),
                help: format!("the connections of [pipelines] are: {}", names.join(", ")),
            });
        }
        let folder = hooks_folder(&self.repo)?;
        let program = std::env::current_exe().map_err(CliError::io("find this program"))?;
        let line = command_line(&program, &self.connection, &self.project, &Given::of(&settings));
        let hook = folder.join("post-receive");
        require_ours(&hook, &line)?;
        install(&folder, &hook, &script(&line)).map_err(CliError::io(format!("write {}", hook.display())))?;
        eprintln!("installed {}", hook.display());
        if matches!(&settings.auth, Some(Chosen { value: Auth::Digest(_), origin: Origin::Environment(_) })) {
            eprintln!(
                "the hook does not hold the password of MENAGERIE_ZOOKEEPER_AUTH: write it into a file, and name that with \
                 zookeeper.auth_file in the configuration"
            );
        }
        Ok(())
    }
}

/// What the hook must be told, because it runs elsewhere: words for the command line, and variables. No secrets.
#[derive(Debug, Default, PartialEq, Eq)]
struct Given {
    variables: Vec<(&'static str, String)>,
    options: Vec<(&'static str, String)>,
}

impl Given {
    fn of(settings: &Settings) -> Self {
        let mut given = Self::default();
        let absolute =
            |path: &Path| std::path::absolute(path).unwrap_or(path.to_owned()).display().to_string();
        if let Some(file) = &settings.file {
            given.options.push(("--config", absolute(&file.value)));
        }
        match &settings.servers.origin {
            Origin::Flag(_) | Origin::Environment(_) => {
                given.options.push(("--zookeeper", settings.servers.value.to_string()));
            }
            // Its port may be another one after a restart, but it will be in the same file.
            Origin::Addresses(file) => {
                let data = file.parent().unwrap_or(Path::new("/"));
                given.variables.push(("MENAGERIE_DATA", absolute(data)));
            }
            Origin::File { .. } | Origin::Up | Origin::Default => {}
        }
        if matches!(settings.namespace.origin, Origin::Flag(_) | Origin::Environment(_)) {
            given.options.push(("--namespace", settings.namespace.value.clone()));
        }
        let auth = match &settings.auth {
            Some(Chosen { value: Auth::File(path), origin }) => {
                Some(Chosen { value: path.clone(), origin: origin.clone() })
            }
            _ => None,
        };
        let files = [
            ("MENAGERIE_ZOOKEEPER_AUTH_FILE", &auth),
            ("MENAGERIE_ZOOKEEPER_TLS_CA", &settings.tls_ca),
            ("MENAGERIE_ZOOKEEPER_TLS_CERT", &settings.tls_cert),
            ("MENAGERIE_ZOOKEEPER_TLS_KEY", &settings.tls_key),
        ];
        for (name, file) in files {
            if let Some(Chosen { value, origin: Origin::Environment(_) }) = file {
                given.variables.push((name, absolute(value)));
            }
        }
        given
    }
}

/// The line that tells of a push. It returns at once: what it starts has nothing open that the push waits for.
fn command_line(program: &Path, connection: &str, project: &str, given: &Given) -> String {
    let program = program.display().to_string();
    let mut words: Vec<String> =
        given.variables.iter().map(|(name, value)| format!("{name}={}", quoted(value))).collect();
    words.push(quoted(&program));
    words.extend(["pipeline", "poke", "--connection"].map(str::to_owned));
    words.extend([quoted(connection), "--project".to_owned(), quoted(project)]);
    words.extend(given.options.iter().flat_map(|(name, value)| [(*name).to_owned(), quoted(value)]));
    format!("({} </dev/null >/dev/null 2>&1 &)", words.join(" "))
}

fn script(line: &str) -> String {
    format!("#!/bin/sh\n{MARK}\n{line}\nexit 0\n")
}

/// A word of the shell.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}

/// The folder of the repository's hooks, as git sees it.
fn hooks_folder(repo: &Path) -> Result<PathBuf, CliError> {
    let refused = |what: String, help: &str| Err(CliError::Usage { what, help: help.to_owned() });
    // Git would look for a repository in the folders above, too.
    if !repo.join("HEAD").is_file() && !repo.join(".git").exists() {
        let what = format!("{} is no git repository", repo.display());
        return refused(what, "name the folder that was pushed to: one with HEAD, or with .git in it");
    }
    let output = Command::new("git")
        .args(["-c", "safe.directory=*", "-C"])
        .arg(repo)
        .args(["rev-parse", "--path-format=absolute", "--git-common-dir", "--git-path", "hooks"])
        .env_remove("GIT_DIR")
        .output()
        .map_err(CliError::io("run git"))?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let mut lines = text.lines();
    let (true, Some(folder), Some(hooks)) = (output.status.success(), lines.next(), lines.next()) else {
        let why = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        return refused(
            format!("{} is no git repository: {why}", repo.display()),
            "name one with HEAD or .git in it",
        );
    };
    if !Path::new(hooks).starts_with(folder) {
        let what =
            format!("{} has its hooks elsewhere, where others may have theirs, too: {hooks}", repo.display());
        return refused(
            what,
            "unset core.hooksPath in the repository, or call `menagerie pipeline poke` from a hook there",
        );
    }
    Ok(PathBuf::from(hooks))
}

/// Fails if there is a hook that somebody else has written.
fn require_ours(hook: &Path, line: &str) -> Result<(), CliError> {
    match fs::read(hook) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(source) => Err(CliError::Io { doing: format!("read {}", hook.display()), source }),
        Ok(text) if String::from_utf8_lossy(&text).lines().any(|line| line == MARK) => Ok(()),
        Ok(_) => Err(CliError::Refused {
            what: format!("{} is there already, and not ours", hook.display()),
            help: format!("it stays as it is; add this line to it:\n\n{line}\n"),
        }),
    }
}

/// Atomic: a push meanwhile runs the old hook or the new one.
fn install(folder: &Path, hook: &Path, script: &str) -> std::io::Result<()> {
    fs::create_dir_all(folder)?;
    let mut file = tempfile::NamedTempFile::new_in(folder)?;
    file.write_all(script.as_bytes())?;
    file.as_file().set_permissions(fs::Permissions::from_mode(0o755))?;
    file.as_file().sync_all()?;
    file.persist(hook).map(drop).map_err(|error| error.error)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{self, Inputs};

    fn line(given: &Given) -> String {
        command_line(Path::new("/usr/bin/menagerie"), "local", "org/app", given)
    }

    #[test]
    fn script_runs_in_the_background_with_nothing_open() {
        let given = Given {
            variables: vec![("MENAGERIE_DATA", "/var/it's".to_owned())],
            options: vec![("--config", "/etc/menagerie.toml".to_owned())],
        };
        let expected = "(MENAGERIE_DATA='/var/it'\\''s' '/usr/bin/menagerie' pipeline poke --connection 'local' \
                        --project 'org/app' --config '/etc/menagerie.toml' </dev/null >/dev/null 2>&1 &)";
        assert_eq!(line(&given), expected);
        assert_eq!(script("x"), format!("#!/bin/sh\n{MARK}\nx\nexit 0\n"));
    }

    #[test]
    fn script_never_fails_and_ends_at_once() {
        let began = std::time::Instant::now();
        let slow = command_line(Path::new("/bin/sleep"), "5", "6", &Given::default());
        let gone = command_line(Path::new("/no/such/program"), "a", "b", &Given::default());
        for text in [slow.replace("pipeline poke --connection '5' --project '6'", "5"), gone] {
            let output = Command::new("/bin/sh").args(["-c", &script(&text)]).output().unwrap();
            assert!(
                output.status.success() && output.stdout.is_empty() && output.stderr.is_empty(),
                "{output:?}"
            );
        }
        assert!(began.elapsed().as_secs() < 4, "nobody waits for what it starts");
    }

    #[test]
    fn only_our_own_hook_is_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let hook = folder.path().join("post-receive");
        for text in ["one", "another"] {
            require_ours(&hook, "the line").unwrap();
            install(folder.path(), &hook, &script(text)).unwrap();
            assert_eq!(fs::read_to_string(&hook).unwrap(), script(text));
            assert_eq!(fs::metadata(&hook).unwrap().permissions().mode() & 0o777, 0o755);
        }
        fs::write(&hook, "#!/bin/sh\nmake\n").unwrap();
        let error = require_ours(&hook, "the line").unwrap_err();
        assert!(error.help().contains("the line"));
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1, "nothing is left behind");
    }

    #[test]
    fn settings_in_force_go_along_without_secrets() {
        let pairs = [
            ("MENAGERIE_ZOOKEEPER", "zk1:2181/prod"),
            ("MENAGERIE_ZOOKEEPER_AUTH", "me:hush"),
            ("MENAGERIE_ZOOKEEPER_TLS_CA", "/tls/ca.pem"),
        ];
        let inputs = Inputs {
            namespace: Some("/staging".to_owned()),
            environment: pairs.map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
            ..Inputs::default()
        };
        let given = Given::of(&config::resolve(&inputs).unwrap());
        assert_eq!(given.variables, [("MENAGERIE_ZOOKEEPER_TLS_CA", "/tls/ca.pem".to_owned())]);
        let options = [("--zookeeper", "zk1:2181/prod".to_owned()), ("--namespace", "/staging".to_owned())];
        assert_eq!(given.options, options);
        let local = Some(("127.0.0.1:5".to_owned(), PathBuf::from("/data/addresses.json")));
        let given = Given::of(&config::resolve(&Inputs { local, ..Inputs::default() }).unwrap());
        assert_eq!(given.variables, [("MENAGERIE_DATA", "/data".to_owned())]);
        assert!(given.options.is_empty());
    }
}
