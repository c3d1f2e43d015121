//! The hook tells of a push at once, and never stands in its way.

use std::fs;

use super::site::Site;
use crate::cli::User;

fn install(site: &Site) {
    site.ok(&["pipeline", "hook", "git/org/app", "--connection", "local", "--project", "org/app"]);
}

#[test]
fn push_is_noticed_at_once_with_a_hook() {
    let site = Site::new(User::new("pipeline-hook"), &["org/app", "org/lib"]);
    site.poll("1h");
    let _fleet = site.fleet();
    install(&site);
    install(&site);
    let silent = site.propose("org/lib", "silent", &[("x", "x\n")], "Nobody tells of it");
    let change = site.propose("org/app", "x", &[("x", "x\n")], "A change");
    let done = site.wait(&change, "check");
    assert_eq!(done.code, Some(0), "{}", done.stderr);
    assert!(site.history(&["--change", &silent]).is_empty(), "it would be noticed within an hour");
    site.merge(&change);

    let stanza = "- project:\n    check:\n      jobs: [none]\n";
    site.push_by_hand("org/app", &[(".zuul.yaml", stanza)]);
    let change = site.propose("org/app", "y", &[("y", "y\n")], "A change");
    site.fails(&["pipeline", "wait", &change, "--pipeline", "check"], 1, &["CONFIG_ERROR", "no job `none`"]);
    // A look at one change is a look at all of the repository.
    site.merge(&silent);
}

#[test]
fn hook_never_fails_a_push() {
    let site = Site::new(User::at("127.0.0.1:1"), &["org/app"]);
    install(&site);
    let pushed = site.propose("org/app", "x", &[("x", "x\n")], "Nobody listens");
    assert_eq!(pushed, "org/app:propose/main/x");
    assert!(!site.reference("org/app", "propose/main/x").is_empty());
}

#[test]
fn hook_of_somebody_else_is_left_alone() {
    let site = Site::new(User::at("127.0.0.1:1"), &["org/app"]);
    let hook = site.bare("org/app").join("hooks/post-receive");
    let text = "#!/bin/sh\nexit 0\n";
    fs::create_dir_all(hook.parent().expect("it lies in a folder")).expect("a folder can be made");
    fs::write(&hook, text).expect("it can be written");
    site.fails(
        &["pipeline", "hook", "git/org/app", "--connection", "local", "--project", "org/app"],
        1,
        &["not ours", "add this line to it", "pipeline poke --connection 'local' --project 'org/app'"],
    );
    assert_eq!(fs::read_to_string(&hook).expect("it is there"), text);
}
