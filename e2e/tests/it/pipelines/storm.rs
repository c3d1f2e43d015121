//! Two of every role, forty proposals over three projects, with dependencies, failures and clashes, and pushes by hand: nothing
//! is merged but what was tested, and everything that can be merged is. Once in peace, and once with a scheduler and an
//! executor killed; `cargo xtask soak` repeats that.

use std::collections::BTreeSet;
use std::env;

use menagerie_testkit::{Daemon, eventually};
use serde_json::Value;

use super::site::Site;
use crate::cli::User;

const PROJECTS: [&str; 3] = ["org/app", "org/lib", "org/web"];
const PROPOSALS: usize = 40;

/// A proposal, and what is to become of it.
struct Proposal {
    change: String,
    project: &'static str,
    file: String,
    fate: Fate,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Fate {
    /// It is merged.
    Merged,
    /// It is not.
    Out,
    /// One of each pair is merged.
    Clash(usize),
}

fn propose(site: &Site) -> Vec<Proposal> {
    let mut proposals: Vec<Proposal> = Vec::new();
    for number in 0..PROPOSALS {
        let project = PROJECTS[number % PROJECTS.len()];
        let (topic, file) = (format!("t{number}"), format!("files/t{number}"));
        let mut message = format!("Change {number}");
        let mut files = vec![(file.clone(), format!("{number}\n"))];
        let fate = match number {
            // Fails.
            7 | 18 => {
                files.push((format!("fail/{number}"), "x\n".to_owned()));
                Fate::Out
            }
            // Depends on one that fails.
            19 => {
                message.push_str(&format!("\n\nDepends-On: {}\n", proposals[18].change));
                Fate::Out
            }
            // Depends on ones of other projects.
            10 | 23 => {
                message.push_str(&format!("\n\nDepends-On: {}\n", proposals[number - 2].change));
                Fate::Merged
            }
            // Clash in pairs: both of one project.
            12 | 15 | 27 | 30 => {
                files.push((format!("clash/{}", number / 20), format!("by {number}\n")));
                Fate::Clash(number / 20)
            }
            _ => Fate::Merged,
        };
        let texts: Vec<(&str, &str)> =
            files.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
        let change = site.propose(project, &topic, &texts, &message);
        proposals.push(Proposal { change, project, file, fate });
    }
    proposals
}

/// What is on the branches is what was tested.
fn assert_only_tested_commits(site: &Site, by_hand: &[String], beginnings: &[String]) {
    let buildsets = site.history(&["--pipeline", "gate"]);
    for (project, beginning) in PROJECTS.iter().zip(beginnings) {
        let commits = site.history_of_main(project);
        let new = commits.iter().take_while(|(commit, _)| commit != beginning);
        for (commit, parent) in new.filter(|(commit, _)| !by_hand.contains(commit)) {
            let is_it = |buildset: &&Value| {
                buildset["refs"][0]["commit"] == commit.as_str() && buildset["result"] == "SUCCESS"
            };
            let tested: Vec<&Value> = buildsets.iter().filter(is_it).collect();
            assert_eq!(tested.len(), 1, "{project}: {commit} is the commit of one successful buildset");
            let reference = &tested[0]["refs"][0];
            assert_eq!(reference["parent"], parent.as_str());
            assert_eq!(reference["merged"], true);
            assert_eq!(reference["project"], *project);
            let branch = reference["branch"].as_str().expect("a branch");
            assert_eq!(tested[0]["state"][project][branch], commit.as_str());
            for build in
                tested[0]["builds"].as_array().expect("builds").iter().filter(|build| build["final"] == true)
            {
                let log = site.ok(&["pipeline", "logs", build["uuid"].as_str().expect("an id")]);
                let expected = format!("commit {commit} parent {parent} head {commit} first {parent}");
                assert!(log.contains(&expected), "{log}\n{expected}");
            }
        }
    }
    for buildset in &buildsets {
        let finals: Vec<&str> = buildset["builds"]
            .as_array()
            .expect("builds")
            .iter()
            .filter(|build| build["final"] == true)
            .map(|build| build["job_name"].as_str().expect("a job"))
            .collect();
        let jobs: BTreeSet<&str> = finals.iter().copied().collect();
        assert_eq!(jobs.len(), finals.len(), "one final build a job: {buildset}");
    }
    let merged: Vec<i64> = buildsets
        .iter()
        .filter(|buildset| buildset["refs"][0]["merged"] == true)
        .map(|buildset| buildset["ltime"].as_i64().expect("a time"))
        .collect();
    assert!(merged.is_sorted_by(|newer, older| newer > older), "{merged:?}");
}

fn assert_fates(site: &Site, proposals: &[Proposal]) {
    for proposal in proposals {
        let is_merged = site.has(proposal.project, &proposal.file);
        match proposal.fate {
            Fate::Merged => {
                assert!(is_merged, "{} is merged: {:?}", proposal.change, site.result(&proposal.change))
            }
            Fate::Out => assert!(!is_merged, "{} is not merged", proposal.change),
            Fate::Clash(pair) => {
                let both = proposals.iter().filter(|other| other.fate == Fate::Clash(pair));
                let merged = both.filter(|other| site.has(other.project, &other.file)).count();
                assert_eq!(merged, 1, "one of {} and the other is merged", proposal.change);
            }
        }
        let branch = proposal.change.split_once(':').expect("a change").1;
        let is_open = !site.reference(proposal.project, branch).is_empty();
        assert_eq!(is_open, !is_merged, "{}", proposal.change);
    }
}

/// All items of all pipelines.
fn items(site: &Site) -> Vec<Value> {
    let status = site.json(&["pipeline", "status"]);
    let list = |value: &Value| value.as_array().expect("a list").clone();
    let pipelines = list(&status["pipelines"]).into_iter();
    let queues = pipelines.flat_map(|pipeline| list(&pipeline["change_queues"]));
    queues.flat_map(|queue| list(&queue["heads"])).flat_map(|head| list(&head)).collect()
}

/// How many builds run.
fn running(site: &Site) -> usize {
    let jobs = items(site).into_iter().flat_map(|item| item["jobs"].as_array().expect("jobs").clone());
    jobs.filter(|job| job["waiting_status"] == "running").count()
}

fn storm(name: &str, is_held: bool, disturb: impl FnOnce(&Site, &mut [Daemon])) {
    let user = User::new(name).with("MENAGERIE_SESSION_TIMEOUT", "4s");
    let site = Site::new(user, &PROJECTS);
    let beginnings: Vec<String> = PROJECTS.iter().map(|project| site.reference(project, "main")).collect();
    let _journal = site.serve(&["journal"]);
    let _mergers = [site.start(&["merger"]), site.start(&["merger"])];
    let mut fleet = [
        site.start(&["scheduler"]),
        site.start(&["scheduler"]),
        site.serve(&["executor", "--jobs", "2"]),
        site.serve(&["executor", "--jobs", "2"]),
    ];
    let proposals = propose(&site);
    let (first, second) = proposals.split_at(PROPOSALS / 2);
    let approve = |proposals: &[Proposal]| {
        for proposal in proposals {
            site.ok(&["pipeline", "approve", &proposal.change]);
        }
    };
    if is_held {
        site.hold_builds();
    }
    approve(first);
    let before = site.push_by_hand("org/app", &[("by-hand", "1\n")]);
    disturb(&site, &mut fleet);
    approve(second);
    let by_hand = [before, site.push_by_hand("org/lib", &[("by-hand", "1\n")])];
    site.ok(&["pipeline", "wait", "--timeout", "240s"]);
    assert_eq!(items(&site), Vec::<Value>::new(), "nothing stays queued");
    assert_only_tested_commits(&site, &by_hand, &beginnings);
    assert_fates(&site, &proposals);
}

#[test]
fn nothing_is_merged_but_what_was_tested() {
    storm("pipeline-storm", false, |_, _| {});
}

#[test]
fn nothing_is_merged_but_what_was_tested_though_a_scheduler_and_an_executor_are_killed() {
    let rounds: usize =
        env::var("MENAGERIE_PIPELINE_ROUNDS").map_or(1, |text| text.parse().expect("it is a number"));
    (0..rounds).for_each(storm_with_kills);
}

fn storm_with_kills(round: usize) {
    storm(&format!("pipeline-kills-{round}"), true, |site, fleet| {
        // Otherwise a kill would prove nothing.
        eventually("both executors run builds", || (running(site) == 4).then_some(()));
        fleet[2].kill();
        site.release_builds();
        let merged = || site.history(&["--pipeline", "gate", "--result", "SUCCESS"]).len();
        eventually("the gate goes on", || (merged() > 0).then_some(()));
        fleet[0].kill();
    });
}
