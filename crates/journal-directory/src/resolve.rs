//! Which registered journal a reference names. Pure.

use menagerie_journal::Identity;

/// A reference to a journal, as queues and flows store it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct JournalRef {
    /// Name of the journal; empty for the only one.
    pub journal: String,
    /// Id of its data folder, if known.
    pub folder: Option<String>,
}

impl JournalRef {
    /// The journal of this name, whatever its folder.
    pub fn named(journal: &str) -> Self {
        Self { journal: journal.to_owned(), folder: None }
    }
}

/// A registered journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RegisteredJournal {
    /// Its name.
    pub name: String,
    /// `HOST:PORT`.
    pub address: String,
    /// Folder and start of the process that answers there.
    pub identity: Identity,
    /// Folders that its own continues.
    pub continues: Vec<String>,
    /// Whether it requires TLS.
    pub tls: bool,
    /// When it registered: the czxid of its entry.
    pub since: i64,
}

impl RegisteredJournal {
    /// Whether both name the same process at the same address, even if it registered again.
    pub fn is_same_server(&self, other: &Self) -> bool {
        (self.identity, &self.address, self.tls) == (other.identity, &other.address, other.tls)
    }

    fn has_folder_of(&self, target: &JournalRef) -> bool {
        let has = |folder: &String| {
            self.identity.folder.to_string() == *folder
                || self.continues.iter().any(|before| before == folder)
        };
        target.folder.as_ref().is_none_or(has)
    }
}

/// What a reference resolves to.
#[derive(Debug, PartialEq, Eq)]
pub enum Resolution<'a> {
    /// No registered journal.
    None,
    /// This journal.
    One(&'a RegisteredJournal),
    /// A journal of this name that has another folder.
    OtherFolder(&'a RegisteredJournal),
    /// Addresses of several different journals: messages would be put to one and looked for in another.
    Several(Vec<String>),
}

/// Finds the journal that a reference names.
pub fn resolve<'a>(entries: &'a [RegisteredJournal], target: &JournalRef) -> Resolution<'a> {
    let called = || entries.iter().filter(|entry| target.journal.is_empty() || entry.name == target.journal);
    let meant = || called().filter(|entry| entry.has_folder_of(target));
    let Some(newest) = meant().max_by_key(|entry| entry.since) else {
        return called().max_by_key(|entry| entry.since).map_or(Resolution::None, Resolution::OtherFolder);
    };
    // A folder has one entry, or two while one process replaces another.
    if meant().all(|entry| entry.identity.folder == newest.identity.folder) {
        return Resolution::One(newest);
    }
    Resolution::Several(meant().map(|entry| entry.address.clone()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(number: u8) -> String {
        format!("{number:032x}")
    }

    fn entry(name: &str, folder: u8, start: u8, since: i64) -> RegisteredJournal {
        let identity = Identity { folder: id(folder).parse().unwrap(), start: id(start).parse().unwrap() };
        let address = format!("{name}:{start}");
        RegisteredJournal {
            name: name.to_owned(),
            address,
            identity,
            continues: Vec::new(),
            tls: false,
            since,
        }
    }

    fn in_folder(journal: &str, folder: u8) -> JournalRef {
        JournalRef { journal: journal.to_owned(), folder: Some(id(folder)) }
    }

    #[test]
    fn restarted_journal_is_found_where_it_is_now() {
        let all = [entry("main", 1, 2, 9), entry("main", 1, 1, 5), entry("other", 2, 3, 10)];
        assert_eq!(resolve(&all, &JournalRef::named("main")), Resolution::One(&all[0]));
        assert_eq!(resolve(&all, &in_folder("main", 1)), Resolution::One(&all[0]));
        assert_eq!(resolve(&all, &JournalRef::named("other")), Resolution::One(&all[2]));
        assert_eq!(resolve(&all, &JournalRef::named("third")), Resolution::None);
    }

    #[test]
    fn two_of_one_name_are_not_guessed_between_unless_the_folder_is_known() {
        let all = [entry("main", 1, 1, 5), entry("main", 2, 2, 6)];
        let several = Resolution::Several(vec!["main:1".to_owned(), "main:2".to_owned()]);
        assert_eq!(resolve(&all, &JournalRef::named("main")), several);
        assert_eq!(resolve(&all, &in_folder("main", 1)), Resolution::One(&all[0]));
    }

    #[test]
    fn another_folder_of_the_name_is_not_taken_for_the_one_that_is_meant() {
        let all = [entry("main", 2, 1, 5), entry("other", 1, 2, 6)];
        assert_eq!(resolve(&all, &in_folder("main", 1)), Resolution::OtherFolder(&all[0]));
    }

    #[test]
    fn a_folder_that_goes_on_from_the_one_that_is_meant_has_its_messages() {
        let restored = RegisteredJournal { continues: vec![id(1), id(7)], ..entry("main", 2, 2, 6) };
        let all = [restored, entry("main", 1, 1, 5)];
        for folder in [1, 2, 7] {
            assert_eq!(resolve(&all[..1], &in_folder("main", folder)), Resolution::One(&all[0]), "{folder}");
        }
        assert!(matches!(resolve(&all, &in_folder("main", 1)), Resolution::Several(_)), "both have them");
    }

    #[test]
    fn without_a_name_the_only_one_is_meant() {
        let all = [entry("main", 1, 1, 5), entry("other", 2, 2, 6)];
        assert_eq!(resolve(&all[..1], &JournalRef::named("")), Resolution::One(&all[0]));
        assert!(matches!(resolve(&all, &JournalRef::named("")), Resolution::Several(_)));
        assert_eq!(resolve(&[], &JournalRef::named("")), Resolution::None);
    }
}
