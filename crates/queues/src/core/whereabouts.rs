//! Which of the journals that are registered is the one with a name.

/// A journal, as it is registered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// What queues call it.
    pub name: String,
    /// `HOST:PORT`.
    pub address: String,
    /// Where its token is, on its host.
    pub token_file: String,
    /// The machine that it runs on.
    pub host: String,
    /// It speaks TLS.
    pub tls: bool,
    /// When it was registered: rises.
    pub since: i64,
}

/// What a name stands for.
#[derive(Debug, PartialEq, Eq)]
pub enum Choice<'a> {
    /// Nothing that is registered.
    None,
    /// This one.
    One(&'a Entry),
    /// Several that are not the same, by their addresses: messages would go to one and be looked for in another.
    Several(Vec<String>),
}

/// Finds the one with this name; without a name, the only one that there is.
pub fn choose<'a>(entries: &'a [Entry], name: &str) -> Choice<'a> {
    let meant = || entries.iter().filter(|entry| name.is_empty() || entry.name == name);
    let Some(newest) = meant().max_by_key(|entry| entry.since) else { return Choice::None };
    // One that died and was started again is there twice for a while, with the same folder on the same host.
    let place = |entry: &Entry| (entry.host.clone(), entry.token_file.clone());
    if meant().all(|entry| place(entry) == place(newest)) {
        return Choice::One(newest);
    }
    Choice::Several(meant().map(|entry| entry.address.clone()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(name: &str, host: &str, port: u16, since: i64) -> Entry {
        Entry {
            name: name.to_owned(),
            address: format!("{host}:{port}"),
            token_file: "/data/journal/token".to_owned(),
            host: host.to_owned(),
            tls: false,
            since,
        }
    }

    #[test]
    fn restarted_journal_is_found_where_it_is_now() {
        let all = [entry("main", "a", 2, 9), entry("main", "a", 1, 5), entry("other", "b", 3, 10)];
        assert_eq!(choose(&all, "main"), Choice::One(&all[0]));
        assert_eq!(choose(&all, "other"), Choice::One(&all[2]));
        assert_eq!(choose(&all, "third"), Choice::None);
    }

    #[test]
    fn two_of_one_name_are_not_guessed_between() {
        let all = [entry("main", "a", 1, 5), entry("main", "b", 1, 6)];
        assert_eq!(choose(&all, "main"), Choice::Several(vec!["a:1".to_owned(), "b:1".to_owned()]));
    }

    #[test]
    fn without_a_name_the_only_one_is_meant() {
        let all = [entry("main", "a", 1, 5), entry("other", "b", 1, 6)];
        assert_eq!(choose(&all[..1], ""), Choice::One(&all[0]));
        assert!(matches!(choose(&all, ""), Choice::Several(_)));
        assert_eq!(choose(&[], ""), Choice::None);
    }
}
