//! Which of the journals that are registered has the messages that somebody looks for. Pure.

use menagerie_journal::Identity;

/// Where messages are, as whoever put them there remembers.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Home {
    /// What the journal is called; empty for the only one that there is.
    pub journal: String,
    /// The id of its data folder, if that is known.
    pub folder: Option<String>,
}

impl Home {
    /// Whichever folder the journal of this name has.
    pub fn named(journal: &str) -> Self {
        Self { journal: journal.to_owned(), folder: None }
    }
}

/// A journal, as it is registered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Registered {
    /// What it is called.
    pub name: String,
    /// `HOST:PORT`.
    pub address: String,
    /// Who answers there.
    pub identity: Identity,
    /// The folders that its own goes on from.
    pub continues: Vec<String>,
    /// It speaks TLS.
    pub tls: bool,
    /// When it was registered: rises.
    pub since: i64,
}

impl Registered {
    /// Whether both lead to the same process at the same address; it may have been registered anew.
    pub fn leads_where(&self, other: &Self) -> bool {
        (self.identity, &self.address, self.tls) == (other.identity, &other.address, other.tls)
    }

    fn has(&self, home: &Home) -> bool {
        let has = |folder: &String| {
            self.identity.folder.to_string() == *folder
                || self.continues.iter().any(|before| before == folder)
        };
        home.folder.as_ref().is_none_or(has)
    }
}

/// What a home stands for.
#[derive(Debug, PartialEq, Eq)]
pub enum Choice<'a> {
    /// Nothing that is registered.
    None,
    /// This one.
    One(&'a Registered),
    /// The name is right, but the messages are in another folder than this one's.
    Strange(&'a Registered),
    /// Several that are not the same, by their addresses: messages would go to one and be looked for in another.
    Several(Vec<String>),
}

/// Finds the journal that has the messages.
pub fn choose<'a>(entries: &'a [Registered], home: &Home) -> Choice<'a> {
    let called = || entries.iter().filter(|entry| home.journal.is_empty() || entry.name == home.journal);
    let meant = || called().filter(|entry| entry.has(home));
    let Some(newest) = meant().max_by_key(|entry| entry.since) else {
        return called().max_by_key(|entry| entry.since).map_or(Choice::None, Choice::Strange);
    };
    // A folder has one entry; two at most while one process follows another.
    if meant().all(|entry| entry.identity.folder == newest.identity.folder) {
        return Choice::One(newest);
    }
    Choice::Several(meant().map(|entry| entry.address.clone()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(number: u8) -> String {
        format!("{number:032x}")
    }

    fn entry(name: &str, folder: u8, start: u8, since: i64) -> Registered {
        let identity = Identity { folder: id(folder).parse().unwrap(), start: id(start).parse().unwrap() };
        let address = format!("{name}:{start}");
        Registered { name: name.to_owned(), address, identity, continues: Vec::new(), tls: false, since }
    }

    fn in_folder(journal: &str, folder: u8) -> Home {
        Home { journal: journal.to_owned(), folder: Some(id(folder)) }
    }

    #[test]
    fn restarted_journal_is_found_where_it_is_now() {
        let all = [entry("main", 1, 2, 9), entry("main", 1, 1, 5), entry("other", 2, 3, 10)];
        assert_eq!(choose(&all, &Home::named("main")), Choice::One(&all[0]));
        assert_eq!(choose(&all, &in_folder("main", 1)), Choice::One(&all[0]));
        assert_eq!(choose(&all, &Home::named("other")), Choice::One(&all[2]));
        assert_eq!(choose(&all, &Home::named("third")), Choice::None);
    }

    #[test]
    fn two_of_one_name_are_not_guessed_between_unless_the_folder_is_known() {
        let all = [entry("main", 1, 1, 5), entry("main", 2, 2, 6)];
        let several = Choice::Several(vec!["main:1".to_owned(), "main:2".to_owned()]);
        assert_eq!(choose(&all, &Home::named("main")), several);
        assert_eq!(choose(&all, &in_folder("main", 1)), Choice::One(&all[0]));
    }

    #[test]
    fn another_folder_of_the_name_is_not_taken_for_the_one_that_is_meant() {
        let all = [entry("main", 2, 1, 5), entry("other", 1, 2, 6)];
        assert_eq!(choose(&all, &in_folder("main", 1)), Choice::Strange(&all[0]));
    }

    #[test]
    fn a_folder_that_goes_on_from_the_one_that_is_meant_has_its_messages() {
        let restored = Registered { continues: vec![id(1), id(7)], ..entry("main", 2, 2, 6) };
        let all = [restored, entry("main", 1, 1, 5)];
        for folder in [1, 2, 7] {
            assert_eq!(choose(&all[..1], &in_folder("main", folder)), Choice::One(&all[0]), "{folder}");
        }
        assert!(matches!(choose(&all, &in_folder("main", 1)), Choice::Several(_)), "both have them");
    }

    #[test]
    fn without_a_name_the_only_one_is_meant() {
        let all = [entry("main", 1, 1, 5), entry("other", 2, 2, 6)];
        assert_eq!(choose(&all[..1], &Home::named("")), Choice::One(&all[0]));
        assert!(matches!(choose(&all, &Home::named("")), Choice::Several(_)));
        assert_eq!(choose(&[], &Home::named("")), Choice::None);
    }
}
