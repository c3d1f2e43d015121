//! Access to the namespace of `menagerie up`: for its own user, or with --open for everybody. Every start sets it
//! anew, as the keeper's superuser, whose password lives only as long as the process. So a lost secret locks nobody
//! out, and the data of a namespace that was open becomes its user's.

use futures_util::stream::{self, StreamExt as _, TryStreamExt as _};
use menagerie_kernel::session::{Access, Auth, Rights};
use menagerie_kernel::{CallError, Config, Session, Term, subtree};
use menagerie_znodes::kernel;
use tracing::info;

use super::secret::USER;
use super::servers::{Local, NAMESPACE};
use crate::client;
use crate::config::Origin;
use crate::exit::{CliError, cannot};

/// Concurrent access-list updates per parent, and concurrent parents.
const AT_ONCE: usize = 16;
/// Stands in place of a digest; shorter than any real one.
const UNFINISHED: &str = "unfinished";

/// Gives the namespace its access list. `fresh` says that the keeper's data was created just now: then the namespace
/// must not exist yet.
pub async fn establish(local: &Local, superuser: Auth, fresh: bool) -> Result<(), CliError> {
    let mut config = Config::new(local.keeper.to_string(), "/");
    config.rights = Rights::Observer;
    config.auth = Some(superuser);
    let session = connect(config).await?;
    let term = session.term().patient();
    let outcome = if term.stat(NAMESPACE).await.map_err(cannot_set)?.is_none() {
        make(&term, local).await
    } else if fresh {
        Err(taken())
    } else {
        adjust(&term, local.digest()).await.map_err(cannot_set)
    };
    client::close(session).await;
    outcome
}

/// Creates the namespace: the first of our sessions does, with our access list. Then verifies that list, because the
/// keeper is already reachable and another client may have been quicker.
async fn make(term: &Term, local: &Local) -> Result<(), CliError> {
    client::close(connect(local.config()).await?).await;
    let wanted = [Wanted::new(local.digest()).entry()];
    for path in [NAMESPACE.to_owned(), format!("{}{}", NAMESPACE, kernel::generation().path())] {
        let (list, _) = term.access(&path).await.map_err(cannot_set)?;
        if list != wanted {
            return Err(taken());
        }
    }
    Ok(())
}

fn taken() -> CliError {
    CliError::Usage {
        what: format!("somebody else has made {} in the new keeper", NAMESPACE),
        help: "see who on this machine connects to it, remove the data folder, and start again".to_owned(),
    }
}

fn cannot_set(source: CallError) -> CliError {
    cannot(format!("set the access lists of {}", NAMESPACE))(source)
}

async fn connect(config: Config) -> Result<Session, CliError> {
    let origin = Origin::Flag("--keeper-listen");
    Session::connect(config).await.map_err(|source| CliError::Connect { source, origin })
}

/// Adjusts every access list that differs, top down: each level is listed only after the one above is done, so that a
/// client that is shut out cannot add znodes behind our back. A mark in the namespace's own list says that this is
/// unfinished, however often it is interrupted.
async fn adjust(term: &Term, ours: Option<String>) -> Result<(), CallError> {
    let wanted = Wanted::new(ours);
    let (list, _) = term.access(NAMESPACE).await?;
    if wanted.is_settled(&list) {
        return Ok(());
    }
    info!(open = wanted.ours.is_none(), "setting access lists");
    let settled = wanted.adjusted(&list).unwrap_or(list);
    let begun: Vec<Access> = settled.iter().cloned().chain([unfinished()]).collect();
    term.set_access(NAMESPACE, &begun, None).await?;
    let mut level = vec![NAMESPACE.to_owned()];
    while !level.is_empty() {
        level = stream::iter(level)
            .map(|path| adjust_below(term, path, &wanted))
            .buffer_unordered(AT_ONCE)
            .try_concat()
            .await?;
    }
    term.set_access(NAMESPACE, &settled, None).await.map(drop)
}

/// Adjusts the children of a znode and returns their paths.
async fn adjust_below(term: &Term, parent: String, wanted: &Wanted) -> Result<Vec<String>, CallError> {
    let names = match term.children(&parent).await {
        Ok(names) => names,
        Err(CallError::NoZnode { .. }) => Vec::new(),
        Err(error) => return Err(error),
    };
    let paths: Vec<String> = names.iter().map(|name| subtree::join(&parent, name)).collect();
    stream::iter(&paths)
        .map(|path| adjust_one(term, path, wanted))
        .buffer_unordered(AT_ONCE)
        .try_collect::<()>()
        .await?;
    Ok(paths)
}

async fn adjust_one(term: &Term, path: &str, wanted: &Wanted) -> Result<(), CallError> {
    let adjusted = match term.access(path).await {
        Ok((list, _)) => wanted.adjusted(&list),
        Err(CallError::NoZnode { .. }) => None,
        Err(error) => return Err(error),
    };
    match adjusted {
        None => Ok(()),
        Some(list) => match term.set_access(path, &list, None).await {
            Ok(_) | Err(CallError::NoZnode { .. }) => Ok(()),
            Err(error) => Err(error),
        },
    }
}

/// The access that should be granted.
struct Wanted {
    /// Our user alone; `None`: everybody.
    ours: Option<Access>,
}

impl Wanted {
    fn new(digest: Option<String>) -> Self {
        let ours = |id| Access { scheme: "digest".to_owned(), id, permissions: "cdrwa".to_owned() };
        Self { ours: digest.map(ours) }
    }

    fn entry(&self) -> Access {
        let world = || Access {
            scheme: "world".to_owned(),
            id: "anyone".to_owned(),
            permissions: "cdrwa".to_owned(),
        };
        self.ours.clone().unwrap_or_else(world)
    }

    /// Whether the namespace's own list says that adjusting is finished. Then later grants by an operator stay.
    fn is_settled(&self, list: &[Access]) -> bool {
        let entry = self.entry();
        list.contains(&entry)
            && !list.iter().any(|access| *access != entry && (access.is_open() || is_our_user(access)))
    }

    /// The list as it should be, or `None` if it already is. Others keep read access; write access may have been
    /// gained while the namespace was open, or with a leaked secret.
    fn adjusted(&self, list: &[Access]) -> Option<Vec<Access>> {
        let entry = self.entry();
        let stays = |access: &&Access| {
            **access != entry
                && !is_our_user(access)
                && match &self.ours {
                    Some(_) => access.permissions == "r",
                    None => access.scheme != "world",
                }
        };
        let adjusted: Vec<Access> = list.iter().filter(stays).chain([&entry]).cloned().collect();
        let is_same = adjusted.len() == list.len() && adjusted.iter().all(|access| list.contains(access));
        (!is_same).then_some(adjusted)
    }
}

/// An entry of our user that grants nothing, because no secret has that digest. It marks that adjusting is
/// unfinished.
fn unfinished() -> Access {
    Access { scheme: "digest".to_owned(), id: format!("{USER}:{UNFINISHED}"), permissions: "r".to_owned() }
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
        assert_eq!(ours.adjusted(&list(&[mine, "world:anyone:r"])), None, "what lets others read stays");
        let taken = ["ip:127.0.0.1:cdrwa", "digest:mallory:x:rw", "world:anyone:cdrwa"];
        assert_eq!(ours.adjusted(&list(&taken)).unwrap(), list(&[mine]), "what was taken while open goes");
    }
    #[test]
    fn what_was_begun_is_not_settled_either_way() {
        let ours = Wanted::new(Some("menagerie:new".to_owned()));
        let everybody = Wanted::new(None);
        for (wanted, other) in [(&ours, &everybody), (&everybody, &ours)] {
            let done = [wanted.entry()];
            assert!(wanted.is_settled(&done));
            assert!(!other.is_settled(&done));
            let begun = [wanted.entry(), unfinished()];
            assert!(!wanted.is_settled(&begun));
            assert!(!other.is_settled(&begun));
            assert_eq!(wanted.adjusted(&begun).unwrap(), done);
        }
        let granted = list(&["digest:menagerie:new:cdrwa", "digest:deploy:x:cdrwa"]);
        assert!(ours.is_settled(&granted), "what an operator grants does not set all lists anew");
    }
}
