//! Who may use the namespace of `menagerie up`: its own user, or everybody with --open. Brought about at every start, by the
//! keeper's superuser, whose password lives as long as the process: so a lost secret locks nobody out, and data of a
//! namespace that was open becomes its user's.

use futures_util::stream::{self, StreamExt as _, TryStreamExt as _};
use menagerie_kernel::session::{Access, Auth, Role};
use menagerie_kernel::{CallError, Config, Session, Term, subtree};
use tracing::info;

use super::Local;
use super::secret::USER;
use crate::client;
use crate::config::Origin;
use crate::exit::CliError;

/// Access lists on their way at once.
const AT_ONCE: usize = 64;

/// Makes the namespace what it is to be. `fresh` says that the keeper has just been made: then it is empty, or somebody
/// was quicker.
pub async fn establish(local: &Local, superuser: Auth, fresh: bool) -> Result<(), CliError> {
    let mut config = Config::new(local.keeper.to_string(), "/");
    config.role = Role::Observer;
    config.auth = Some(superuser);
    let session = connect(config).await?;
    let term = session.term().patient();
    let outcome = if term.stat(super::NAMESPACE).await.map_err(failed)?.is_none() {
        // The first of our sessions makes it, with our access list.
        connect(local.config()).await.map(drop)
    } else if fresh {
        Err(CliError::Usage {
            what: format!("somebody else has made {} in the new keeper", super::NAMESPACE),
            help: "see who on this machine connects to it, remove the data folder, and start again"
                .to_owned(),
        })
    } else {
        adjust(&term, local.digest()).await.map_err(failed)
    };
    client::close(session).await;
    outcome
}

fn failed(source: CallError) -> CliError {
    CliError::Call { doing: format!("set the access lists of {}", super::NAMESPACE), source }
}

async fn connect(config: Config) -> Result<Session, CliError> {
    let origin = Origin::Flag("--keeper-listen");
    Session::connect(config).await.map_err(|source| CliError::Connect { source, origin })
}

/// Adjusts every access list that is not as it should be, the namespace's own last: it tells whether all are done.
async fn adjust(term: &Term, ours: Option<String>) -> Result<(), CallError> {
    let wanted = Wanted::new(ours);
    let (list, _) = term.access(super::NAMESPACE).await?;
    if wanted.adjusted(&list).is_none() {
        return Ok(());
    }
    let levels = subtree::levels(term, super::NAMESPACE, usize::MAX).await?;
    let znodes: usize = levels.iter().map(Vec::len).sum();
    info!(znodes, open = wanted.ours.is_none(), "setting access lists");
    for level in levels.into_iter().rev() {
        stream::iter(level)
            .map(|seen| adjust_one(term, seen.path, &wanted))
            .buffer_unordered(AT_ONCE)
            .try_collect::<()>()
            .await?;
    }
    Ok(())
}

async fn adjust_one(term: &Term, path: String, wanted: &Wanted) -> Result<(), CallError> {
    let adjusted = match term.access(&path).await {
        Ok((list, _)) => wanted.adjusted(&list),
        Err(CallError::NoZnode { .. }) => None,
        Err(error) => return Err(error),
    };
    match adjusted {
        None => Ok(()),
        Some(list) => match term.set_access(&path, &list, None).await {
            Ok(_) | Err(CallError::NoZnode { .. }) => Ok(()),
            Err(error) => Err(error),
        },
    }
}

/// Who is to have access.
struct Wanted {
    /// Our user alone; `None`: everybody.
    ours: Option<Access>,
}

impl Wanted {
    fn new(digest: Option<String>) -> Self {
        let ours = |id| Access { scheme: "digest".to_owned(), id, permissions: "cdrwa".to_owned() };
        Self { ours: digest.map(ours) }
    }

    /// The list as it should be, if it is not so. What an operator has granted to others stays; only "everybody may
    /// write" and our own earlier secrets go.
    fn adjusted(&self, list: &[Access]) -> Option<Vec<Access>> {
        let world =
            Access { scheme: "world".to_owned(), id: "anyone".to_owned(), permissions: "cdrwa".to_owned() };
        let entry = self.ours.as_ref().unwrap_or(&world);
        let is_stale = |access: &Access| {
            access != entry
                && match &self.ours {
                    Some(_) => access.is_open() || is_our_user(access),
                    None => access.scheme == "world" || is_our_user(access),
                }
        };
        if list.contains(entry) && !list.iter().any(is_stale) {
            return None;
        }
        let kept = list.iter().filter(|access| !is_stale(access) && *access != entry);
        Some(kept.chain([entry]).cloned().collect())
    }
}

fn is_our_user(access: &Access) -> bool {
    access.scheme == "digest" && access.id.split(':').next() == Some(USER)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(texts: &[&str]) -> Vec<Access> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    #[test]
    fn lists_become_what_is_wanted_and_then_stay() {
        let ours = Wanted::new(Some("menagerie:new".to_owned()));
        let everybody = Wanted::new(None);
        let mine = "digest:menagerie:new:cdrwa";
        for (wanted, before, after) in [
            (&ours, &["world:anyone:cdrwa"][..], &[mine][..]),
            (&ours, &["digest:menagerie:old:cdrwa"], &[mine]),
            (&ours, &["digest:menagerie:new:r"], &[mine]),
            (&ours, &["world:anyone:r", "digest:menagerie:old:cdrwa"], &["world:anyone:r", mine]),
            (&ours, &["digest:monitor:x:r", "world:anyone:cdrwa"], &["digest:monitor:x:r", mine]),
            (&everybody, &[mine], &["world:anyone:cdrwa"]),
            (&everybody, &["world:anyone:r", mine], &["world:anyone:cdrwa"]),
        ] {
            let adjusted = wanted.adjusted(&list(before)).unwrap();
            assert_eq!(adjusted, list(after), "{before:?}");
            assert_eq!(wanted.adjusted(&adjusted), None, "{after:?}");
        }
        assert_eq!(ours.adjusted(&list(&[mine, "world:anyone:r"])), None, "what an operator granted stays");
    }
}
