//! Which events a change of refs means. Pure: the watcher reads repositories, this compares what it saw.

use std::collections::{BTreeMap, BTreeSet};

use menagerie_znodes::pipelines::{Change, ChangeRecord, Event, EventKind, NoteLine, ProjectRefs, Sha, Vote};

use super::knowledge::branch_of;

/// The ref with votes, comments and reports.
pub const NOTES_REF: &str = "refs/notes/menagerie";

/// The proposals among these refs. TARGET is the longest prefix that is a branch.
pub fn proposals(project: &str, refs: &BTreeMap<String, Sha>) -> Vec<(Change, Sha)> {
    let is_branch = |name: &str| refs.contains_key(&format!("refs/heads/{name}"));
    let heads = refs.iter().filter_map(|(name, sha)| Some((name.strip_prefix("refs/heads/")?, sha)));
    heads
        .filter_map(|(name, sha)| Some((Change::of_branch(project, name, is_branch)?, sha.clone())))
        .collect()
}

/// What the footers `Depends-On:` of these commit messages name, each once.
pub fn dependencies(messages: &[String]) -> Vec<String> {
    let mut found = Vec::new();
    for line in messages.iter().flat_map(|message| message.lines()) {
        let Some((key, value)) = line.split_once(':') else { continue };
        let value = value.trim();
        if key.trim().eq_ignore_ascii_case("depends-on")
            && !value.is_empty()
            && !found.iter().any(|known| known == value)
        {
            found.push(value.to_owned());
        }
    }
    found
}

/// The votes that stand: the newest of each voter and label.
pub fn votes(change: &Change, lines: &[NoteLine]) -> Vec<Vote> {
    let name = change.to_string();
    let mut standing: BTreeMap<(String, String), i64> = BTreeMap::new();
    for line in lines.iter().filter(|line| line.change == name) {
        for (label, value) in &line.votes {
            standing.insert((label.clone(), line.by.clone()), *value);
        }
    }
    standing.into_iter().map(|((label, by), value)| Vote { label, value, by }).collect()
}

/// What became of a repository since it was seen last. `old` is `None` if it never was: its branches and tags are then no
/// news, but its proposals and their votes are. `added` has the new lines of notes, for each open change.
pub fn events(
    connection: &str,
    project: &str,
    old: Option<&ProjectRefs>,
    new: &ProjectRefs,
    added: &[(ChangeRecord, Vec<NoteLine>)],
) -> Vec<Event> {
    let (place, none) = (Place { connection, project }, ProjectRefs::default());
    let known = old.unwrap_or(&none);
    // Branches first: what they say about configuration holds for the proposals behind them.
    let mut events = old.map_or_else(Vec::new, |old| place.moved_refs(old, new));
    events.extend(place.new_patchsets(known, new));
    events.extend(place.closed_changes(known, new));
    for (record, lines) in added {
        events.extend(lines.iter().map(|line| place.comment(record, line)));
    }
    events
}

/// Where something happened.
#[derive(Clone, Copy)]
struct Place<'a> {
    connection: &'a str,
    project: &'a str,
}

impl Place<'_> {
    fn event(self, kind: EventKind, reference: &str, oldrev: Option<&Sha>, newrev: Option<&Sha>) -> Event {
        Event {
            kind,
            connection: self.connection.to_owned(),
            project: self.project.to_owned(),
            reference: reference.to_owned(),
            change: None,
            oldrev: oldrev.cloned().unwrap_or_else(Sha::zero),
            newrev: newrev.cloned().unwrap_or_else(Sha::zero),
            votes: Vec::new(),
            comment: None,
            by: String::new(),
            pipeline: None,
        }
    }

    fn of_change(
        self,
        kind: EventKind,
        change: &Change,
        oldrev: Option<&Sha>,
        newrev: Option<&Sha>,
    ) -> Event {
        Event { change: Some(change.clone()), ..self.event(kind, &change.proposal_ref(), oldrev, newrev) }
    }

    fn moved_refs(self, old: &ProjectRefs, new: &ProjectRefs) -> Vec<Event> {
        let names: BTreeSet<&String> = old.refs.keys().chain(new.refs.keys()).collect();
        let is_told = |name: &&&String| branch_of(name).is_some() || name.starts_with("refs/tags/");
        let moved = names.iter().filter(is_told).map(|name| (name, old.refs.get(*name), new.refs.get(*name)));
        let moved = moved.filter(|(_, before, now)| before != now);
        moved.map(|(name, before, now)| self.event(EventKind::RefUpdated, name, before, now)).collect()
    }

    fn new_patchsets(self, old: &ProjectRefs, new: &ProjectRefs) -> Vec<Event> {
        let patchset = |branch: &String| old.changes.get(branch).map(|record| &record.patchset);
        let is_new = |(branch, record): &(&String, &ChangeRecord)| patchset(branch) != Some(&record.patchset);
        let created = new.changes.iter().filter(is_new);
        let event = |(branch, record): (&String, &ChangeRecord)| {
            self.of_change(
                EventKind::PatchsetCreated,
                &record.change,
                patchset(branch),
                Some(&record.patchset),
            )
        };
        created.map(event).collect()
    }

    /// A merge leaves its ref in the same push that deletes the proposal.
    fn closed_changes(self, old: &ProjectRefs, new: &ProjectRefs) -> Vec<Event> {
        let closed = old.changes.iter().filter(|(branch, _)| !new.changes.contains_key(*branch));
        let event = |(_, record): (&String, &ChangeRecord)| {
            let name = record.change.merged_ref();
            let merged = new.refs.get(&name).filter(|commit| old.refs.get(&name) != Some(commit));
            match merged {
                Some(commit) => self.of_change(EventKind::ChangeMerged, &record.change, None, Some(commit)),
                None => {
                    self.of_change(EventKind::ChangeAbandoned, &record.change, Some(&record.patchset), None)
                }
            }
        };
        closed.map(event).collect()
    }

    fn comment(self, record: &ChangeRecord, line: &NoteLine) -> Event {
        let vote = |(label, value): (&String, &i64)| Vote {
            label: label.clone(),
            value: *value,
            by: line.by.clone(),
        };
        Event {
            votes: line.votes.iter().map(vote).collect(),
            // What a report says is not meant for triggers: it quotes names of files and jobs.
            comment: line.comment.clone().filter(|_| line.pipeline.is_none()),
            by: line.by.clone(),
            pipeline: line.pipeline.clone(),
            ..self.of_change(EventKind::CommentAdded, &record.change, None, Some(&record.patchset))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sha(digit: char) -> Sha {
        Sha::new(digit.to_string().repeat(40)).unwrap()
    }

    fn seen(refs: &[(&str, char)]) -> ProjectRefs {
        let refs: BTreeMap<String, Sha> =
            refs.iter().map(|(name, digit)| ((*name).to_owned(), sha(*digit))).collect();
        let record = |(change, patchset): (Change, Sha)| {
            let record = ChangeRecord {
                change,
                patchset,
                subject: String::new(),
                depends_on: Vec::new(),
                votes: Vec::new(),
            };
            (record.change.branch(), record)
        };
        let changes = proposals("app", &refs).into_iter().map(record).collect();
        ProjectRefs { refs, changes, trouble: None }
    }

    fn told(old: Option<&ProjectRefs>, new: &ProjectRefs) -> Vec<(EventKind, String)> {
        events("local", "app", old, new, &[]).into_iter().map(|event| (event.kind, event.reference)).collect()
    }

    #[test]
    fn branches_of_a_new_repository_are_no_news_and_its_proposals_are() {
        let new = seen(&[("refs/heads/main", 'a'), ("refs/heads/propose/main/x", 'b')]);
        assert_eq!(told(None, &new), [(EventKind::PatchsetCreated, "refs/heads/propose/main/x".to_owned())]);
        assert!(told(Some(&new), &new).is_empty());
    }

    #[test]
    fn a_deleted_proposal_is_merged_if_it_left_its_ref_and_abandoned_otherwise() {
        let open = seen(&[("refs/heads/main", 'a'), ("refs/heads/propose/main/x", 'b')]);
        let gone = seen(&[("refs/heads/main", 'a')]);
        assert_eq!(
            told(Some(&open), &gone),
            [(EventKind::ChangeAbandoned, "refs/heads/propose/main/x".to_owned())]
        );
        let merged = seen(&[("refs/heads/main", 'c'), ("refs/menagerie/merged/main/x", 'c')]);
        assert_eq!(
            told(Some(&open), &merged),
            [
                (EventKind::RefUpdated, "refs/heads/main".to_owned()),
                (EventKind::ChangeMerged, "refs/heads/propose/main/x".to_owned()),
            ]
        );
    }

    #[test]
    fn footers_of_all_commits_count_once() {
        let messages = [
            "Fix\n\nDepends-On: lib:propose/main/y\n",
            "More\n\ndepends-on:  lib:propose/main/y\nDepends-On:\n",
        ];
        assert_eq!(dependencies(&messages.map(str::to_owned)), ["lib:propose/main/y"]);
    }

    #[test]
    fn the_newest_vote_of_each_voter_stands() {
        let change = Change { project: "app".to_owned(), target: "main".to_owned(), topic: "x".to_owned() };
        let line = |by: &str, value: i64, change: &str| NoteLine {
            id: String::new(),
            change: change.to_owned(),
            by: by.to_owned(),
            at_ms: 0,
            votes: BTreeMap::from([("Approved".to_owned(), value)]),
            comment: None,
            pipeline: None,
            result: None,
        };
        let ours = change.to_string();
        let lines = [
            line("a", 1, &ours),
            line("b", 1, &ours),
            line("a", 0, &ours),
            line("a", 1, "app:propose/main/z"),
        ];
        let standing: Vec<(String, i64)> =
            votes(&change, &lines).into_iter().map(|vote| (vote.by, vote.value)).collect();
        assert_eq!(standing, [("a".to_owned(), 0), ("b".to_owned(), 1)]);
    }
}
