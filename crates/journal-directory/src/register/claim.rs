//! Whether a journal may serve its folder, by what ZooKeeper knows of it. Decides only; `claimant.rs` does it.

use menagerie_znodes::journals::{Folder, Server};

/// A journal that wants to serve its folder.
#[derive(Debug, Clone)]
pub struct Ours {
    /// What it registers.
    pub server: Server,
    /// All starts of this folder that it knows of, itself among them.
    pub starts: Vec<String>,
}

/// What is found of the folder.
#[derive(Debug, Clone, Default)]
pub struct Seen {
    /// Its record.
    pub folder: Folder,
    /// Who is registered as serving it.
    pub servers: Vec<Server>,
    /// We are among them, in the session that we have now.
    pub is_ours: bool,
}

/// What to do next.
#[derive(Debug, PartialEq, Eq)]
pub enum Step<'a> {
    /// We serve it.
    Held,
    /// Nobody else does: take it, and remove these, who are dead.
    Take {
        /// Registered, and dead.
        dead: Vec<&'a Server>,
    },
    /// This one may be alive, or may have died a moment ago: ask it. If it answers, [`Step::Contest`]; else wait until its
    /// session is over.
    Ask(&'a Server),
    /// This one has served a copy of the folder: from now on, nobody may.
    Contest(&'a Server),
    /// That was found before.
    Contested(&'a Server, &'a Server),
}

/// Decides.
///
/// Copies share the folder's id; what tells them apart are their starts. A start that ZooKeeper knows and the folder does not
/// was made on a copy, whether that still runs or not: from then on each of the two may have acknowledged messages that the
/// other lacks. While a start that the folder knows is registered, it is either the process before us or the original that
/// we were copied from: only the former can have run at our place, whose lock we hold now.
pub fn step<'a>(seen: &'a Seen, ours: &Ours) -> Step<'a> {
    if let Folder { last: Some(one), contested_by: Some(other) } = &seen.folder {
        return Step::Contested(one, other);
    }
    let own = &ours.server;
    match &seen.folder.last {
        Some(last) if last.start == own.start && seen.is_ours => return Step::Held,
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

    fn ours(starts: &[&str], place: &str) -> Ours {
        let starts: Vec<String> = starts.iter().map(|start| (*start).to_owned()).collect();
        Ours { server: server(starts.last().unwrap(), place), starts }
    }

    fn seen(last: Option<Server>, servers: &[Server], is_ours: bool) -> Seen {
        Seen { folder: Folder { last, contested_by: None }, servers: servers.to_vec(), is_ours }
    }

    #[test]
    fn a_folder_that_nobody_serves_is_taken() {
        let ours = ours(&["1", "2"], "here");
        for last in [None, Some(server("1", "there"))] {
            assert_eq!(step(&seen(last, &[], false), &ours), Step::Take { dead: vec![] });
        }
        // A start that never came to register, and a ZooKeeper that was set back, change nothing.
        let older = Ours { starts: vec!["0".to_owned(), "1".to_owned(), "2".to_owned()], ..ours };
        assert_eq!(step(&seen(Some(server("0", "here")), &[], false), &older), Step::Take { dead: vec![] });
    }

    #[test]
    fn who_takes_it_holds_it_until_its_session_is_another() {
        let ours = ours(&["1"], "here");
        let own = ours.server.clone();
        let held = seen(Some(own.clone()), std::slice::from_ref(&own), true);
        assert_eq!(step(&held, &ours), Step::Held);
        // Our entry is of the session before.
        assert_eq!(step(&Seen { is_ours: false, ..held }, &ours), Step::Take { dead: vec![] });
        assert_eq!(step(&seen(Some(own), &[], false), &ours), Step::Take { dead: vec![] });
    }

    #[test]
    fn the_process_before_us_at_the_same_place_is_dead() {
        let (before, ours) = (server("1", "here"), ours(&["1", "2"], "here"));
        let seen = seen(Some(before.clone()), std::slice::from_ref(&before), false);
        assert_eq!(step(&seen, &ours), Step::Take { dead: vec![&before] });
    }

    #[test]
    fn one_elsewhere_is_asked() {
        let (before, ours) = (server("1", "there"), ours(&["1", "2"], "here"));
        let found = seen(Some(before.clone()), std::slice::from_ref(&before), false);
        assert_eq!(step(&found, &ours), Step::Ask(&before));
        // Nobody knows where it was.
        let nowhere = Server { place: None, ..before };
        let found = seen(Some(nowhere.clone()), std::slice::from_ref(&nowhere), false);
        let ours = Ours { server: Server { place: None, ..ours.server.clone() }, ..ours };
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
    fn what_is_contested_stays_so_for_all() {
        let (one, other) = (server("1", "here"), server("2", "there"));
        let folder = Folder { last: Some(one.clone()), contested_by: Some(other.clone()) };
        for (starts, place) in [(&["1"][..], "here"), (&["1", "2"], "there"), (&["3"], "elsewhere")] {
            let found = Seen { folder: folder.clone(), servers: vec![one.clone()], is_ours: true };
            assert_eq!(step(&found, &ours(starts, place)), Step::Contested(&one, &other));
        }
    }
}
