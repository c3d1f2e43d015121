//! `menagerie pipeline approve CHANGE`

use std::collections::BTreeMap;
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use clap::Args;
use menagerie_kernel::session::Rights::Owner;
use menagerie_pipelines::client::{self as engine, Approval, ChangeName};
use menagerie_pipelines::git::Caches;
use menagerie_znodes::pipelines::Sha;
use rustix::process::geteuid;
use tempfile::TempDir;

use super::settings;
use crate::client::{self, ClientArgs};
use crate::commands::data::DataArgs;
use crate::config::pipelines::is_label;
use crate::exit::{CliError, cannot};
use crate::output::FormatArg;
use crate::who;

/// Vote on a change: the votes that a merge takes, unless --label says otherwise. They are about the commit that the branch
/// of the change has now.
#[derive(Debug, Args)]
pub struct Approve {
    /// Change: PROJECT:propose/TARGET/TOPIC.
    change: ChangeName,
    /// Vote; may be repeated [default: `submit` of the connection].
    #[arg(long = "label", value_name = "LABEL=VALUE", value_parser = vote)]
    labels: Vec<(String, i64)>,
    /// Comment for people, and for pipelines that are triggered by comments.
    #[arg(long, value_name = "TEXT")]
    comment: Option<String>,
    /// Refuse if the branch of the change is not at this commit.
    #[arg(long, value_name = "COMMIT")]
    patchset: Option<Sha>,
    /// Connection that has the change, where several have a project of that name.
    #[arg(long, value_name = "NAME")]
    connection: Option<String>,
    /// Name of the voter [default: the user who runs the command].
    #[arg(long = "as", value_name = "NAME")]
    by: Option<String>,
    #[command(flatten)]
    data: DataArgs,
    #[command(flatten)]
    format: FormatArg,
}

impl Approve {
    pub fn run(self, client: ClientArgs) -> Result<(), CliError> {
        let Self { change, labels, comment, patchset, connection, by, data, format } = self;
        let by = by.unwrap_or_else(who::user);
        let approval = Approval { change, patchset, votes: labels.into_iter().collect(), comment, by };
        let (folder, _temporary) = cache_folder(&data)?;
        client::run_within(client, Owner, async |client| {
            let mut connections = settings::required(&client.settings)?.plain_connections();
            if let Some(name) = connection {
                let known: Vec<String> = connections.keys().cloned().collect();
                connections.retain(|other, _| *other == name);
                if connections.is_empty() {
                    return Err(CliError::Usage {
                        what: format!("there is no connection {name}"),
                        help: format!("the connections of [pipelines] are: {}", known.join(", ")),
                    });
                }
            }
            let doing = format!("vote on {}", approval.change);
            let approved =
                engine::approve(&client.session, &connections, &Caches::new(folder), approval).await;
            let approved = approved.map_err(cannot(doing))?;
            let votes = shown(&approved.votes);
            let text =
                format!("{} at {}: {votes} by {}", approved.change, approved.patchset.short(), approved.by);
            format.tell(&text, &approved)
        })
    }
}

fn shown(votes: &BTreeMap<String, i64>) -> String {
    match votes.is_empty() {
        true => "a comment".to_owned(),
        false => votes.iter().map(|(label, value)| format!("{label}={value}")).collect::<Vec<_>>().join(" "),
    }
}

/// Parses `LABEL=VALUE`.
fn vote(text: &str) -> Result<(String, i64), String> {
    let wrong = || format!("{text:?} is no vote: write LABEL=VALUE, such as Approved=1");
    let (label, value) = text.split_once('=').ok_or_else(wrong)?;
    let value: i64 = value.parse().map_err(|_| wrong())?;
    if !is_label(label) {
        return Err(wrong());
    }
    Ok((label.to_owned(), value))
}

/// Where git can keep what it needs for a vote: the caches of this machine's mergers if those are ours, else a folder that is
/// removed afterwards. What root would leave in the caches of a service's user, that user could not change any more.
pub fn cache_folder(data: &DataArgs) -> Result<(PathBuf, Option<TempDir>), CliError> {
    if let Ok(root) = data.root() {
        let folder = settings::folder(&root).git();
        let is_writable =
            || std::fs::create_dir_all(&folder).is_ok() && tempfile::tempfile_in(&folder).is_ok();
        if belongs_to(geteuid().as_raw(), &folder, &root) && is_writable() {
            return Ok((folder, None));
        }
    }
    let temporary = tempfile::tempdir().map_err(CliError::io("make a temporary folder"))?;
    Ok((temporary.path().to_owned(), Some(temporary)))
}

/// Whether a folder below the data folder `root` belongs to a user. One that does not exist belongs to whoever has `root` and
/// all that exists in between.
fn belongs_to(user: u32, folder: &Path, root: &Path) -> bool {
    let owner = |path: &Path| std::fs::metadata(path).map(|found| found.uid());
    match owner(folder) {
        Ok(owner) => owner == user,
        Err(error) if error.kind() == ErrorKind::NotFound && folder != root => {
            folder.parent().is_some_and(|parent| belongs_to(user, parent, root))
                && owner(root).is_ok_and(|owner| owner == user)
        }
        Err(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_caches_of_the_same_user_are_used() {
        let data = tempfile::tempdir().unwrap();
        let (root, us) = (data.path(), geteuid().as_raw());
        let folder = settings::folder(root).git();
        for exists in [false, true] {
            assert!(belongs_to(us, &folder, root), "{exists}");
            assert!(!belongs_to(us + 1, &folder, root), "{exists}");
            std::fs::create_dir_all(&folder).unwrap();
        }
        let nowhere = root.join("nowhere");
        assert!(!belongs_to(us, &settings::folder(&nowhere).git(), &nowhere), "no data folder is made");
        let used = |root: &Path| cache_folder(&DataArgs { data: Some(root.to_owned()) }).unwrap();
        assert_eq!(used(root).0, folder);
        assert!(used(&nowhere).1.is_some() && !nowhere.exists());
    }

    #[test]
    fn votes_are_a_label_and_a_number() {
        assert_eq!(vote("Approved=1"), Ok(("Approved".to_owned(), 1)));
        assert_eq!(vote("Code-Review=-2"), Ok(("Code-Review".to_owned(), -2)));
        for text in ["", "Approved", "=1", "Approved=", "Approved=yes", "a b=1"] {
            assert!(vote(text).is_err(), "{text}");
        }
    }
}
