//! Whether a journal may serve its folder, given its state in ZooKeeper. Pure; `claimant.rs` acts on it.

use menagerie_znodes::journals::{Folder, Server};

/// A journal that wants to serve its folder.
#[derive(Debug, Clone)]
pub struct OwnServer {
    /// Its entry.
    pub server: Server,
    /// All starts of this folder that the folder knows of, including this one.
    pub starts: Vec<String>,
}

/// A folder in ZooKeeper.
#[derive(Debug, Clone, Default)]
pub struct FolderState {
    /// The folder's record.
    pub folder: Folder,
    /// Servers registered for it.
    pub servers: Vec<Server>,
    /// Whether we are among them, in the current session.
    pub is_ours: bool,
}

/// What to do next.
#[derive(Debug, PartialEq, Eq)]
pub enum Step<'a> {
    /// We are registered and serve it.
    Serving,
    /// Nobody else serves it: claim it.
    Take {
        /// Dead servers whose entries to remove.
        dead: Vec<&'a Server>,
    },
    /// This server may be alive or may have just died: ask it. If it answers, [`Step::Contest`]; otherwise wait until
    /// its session is over.
    Ask(&'a Server),
    /// This server has served a copy of the folder: mark it contested, so that neither serves.
    Contest(&'a Server),
    /// The folder is marked contested by these two.
    Contested(&'a Server, &'a Server),
}

/// Decides what to do next.
///
/// Copies share the folder's id; their starts tell them apart. A start that ZooKeeper knows and the folder does not was
/// made on a copy, whether that still runs or not: from then on each of the two may have acknowledged messages that the
/// other lacks. A registered start that the folder does know is either the process before us or the original of our
/// copy. Only the former can have run in our place, whose lock we hold now.
pub fn step<'a>(seen: &'a FolderState, ours: &OwnServer) -> Step<'a> {
    if let Folder { last: Some(one), contested_by: Some(other) } = &seen.folder {
        return Step::Contested(one, other);
    }
    let own = &ours.server;
    match &seen.folder.last {
        Some(last) if last.start == own.start && seen.is_ours => return Step::Serving,
        Some(last) if !ours.starts.contains(&last.start) => return Step::Contest(last),
        Some(_) | None => {}
    }
    let is_dead = |server: &&Server| server.place.is_some() && server.place == own.place;
    let others = || seen.servers.iter().filter(|server| server.start != own.start);
    match others().find(|server| !is_dead(server)) {
        Some(other) => Step::Ask(other),
        None => Step::Take { dead: others().collect() },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn server(start: &str, place: &str) -> Server {
        Server {
            start: start.to_owned(),
            name: "main".to_owned(),
            host: "web-1".to_owned(),
            address: "127.0.0.1:1".to_owned(),
            tls: false,
            continues: Vec::new(),
            place: Some(place.to_owned()),
        }
    }

    fn ours(starts: &[&str], place: &str) -> OwnServer {
        let starts: Vec<String> = starts.iter().map(|start| (*start).to_owned()).collect();
        OwnServer { server: server(starts.last().unwrap(), place), starts }
    }

    fn seen(last: Option<Server>, servers: &[Server], is_ours: bool) -> FolderState {
        FolderState { folder: Folder { last, contested_by: None }, servers: servers.to_vec(), is_ours }
    }

    #[test]
    fn a_folder_that_nobody_serves_is_taken() {
        let ours = ours(&["1", "2"], "here");
        for last in [None, Some(server("1", "there"))] {
            assert_eq!(step(&seen(last, &[], false), &ours), Step::Take { dead: vec![] });
        }
        // A start that never registered, or a ZooKeeper restored from a backup, changes nothing.
        let older = OwnServer { starts: vec!["0".to_owned(), "1".to_owned(), "2".to_owned()], ..ours };
        assert_eq!(step(&seen(Some(server("0", "here")), &[], false), &older), Step::Take { dead: vec![] });
    }

    #[test]
    fn a_claimed_folder_is_served_until_the_session_changes() {
        let ours = ours(&["1"], "here");
        let own = ours.server.clone();
        let held = seen(Some(own.clone()), std::slice::from_ref(&own), true);
        assert_eq!(step(&held, &ours), Step::Serving);
        // Our entry is from the previous session.
        assert_eq!(step(&FolderState { is_ours: false, ..held }, &ours), Step::Take { dead: vec![] });
        assert_eq!(step(&seen(Some(own), &[], false), &ours), Step::Take { dead: vec![] });
    }

    #[test]
    fn the_process_before_us_at_the_same_place_is_dead() {
        let (before, ours) = (server("1", "here"), ours(&["1", "2"], "here"));
        let seen = seen(Some(before.clone()), std::slice::from_ref(&before), false);
        assert_eq!(step(&seen, &ours), Step::Take { dead: vec![&before] });
    }

    #[test]
    fn a_server_elsewhere_is_asked() {
        let (before, ours) = (server("1", "there"), ours(&["1", "2"], "here"));
        let found = seen(Some(before.clone()), std::slice::from_ref(&before), false);
        assert_eq!(step(&found, &ours), Step::Ask(&before));
        // Its place is unknown.
        let nowhere = Server { place: None, ..before };
        let found = seen(Some(nowhere.clone()), std::slice::from_ref(&nowhere), false);
        let ours = OwnServer { server: Server { place: None, ..ours.server.clone() }, ..ours };
        assert_eq!(step(&found, &ours), Step::Ask(&nowhere));
    }

    #[test]
    fn a_start_that_the_folder_does_not_know_was_made_on_a_copy() {
        let (copy, ours) = (server("3", "there"), ours(&["1", "2"], "here"));
        for servers in [vec![copy.clone()], vec![], vec![ours.server.clone()]] {
            for is_ours in [false, true] {
                let found = seen(Some(copy.clone()), &servers, is_ours);
                assert_eq!(step(&found, &ours), Step::Contest(&copy));
            }
        }
        let same_place = Server { place: Some("here".to_owned()), ..copy };
        let found = seen(Some(same_place.clone()), &[], false);
        assert_eq!(step(&found, &ours), Step::Contest(&same_place));
    }

    #[test]
    fn a_contested_folder_stays_contested_for_all() {
        let (one, other) = (server("1", "here"), server("2", "there"));
        let folder = Folder { last: Some(one.clone()), contested_by: Some(other.clone()) };
        for (starts, place) in [(&["1"][..], "here"), (&["1", "2"], "there"), (&["3"], "elsewhere")] {
            let found = FolderState { folder: folder.clone(), servers: vec![one.clone()], is_ours: true };
            assert_eq!(step(&found, &ours(starts, place)), Step::Contested(&one, &other));
        }
    }
}
