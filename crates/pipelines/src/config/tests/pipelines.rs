//! Triggers, requirements, reporters and windows.

use super::*;
use menagerie_znodes::pipelines::{EventKind, Vote};

fn vote(label: &str, value: i64, by: &str) -> Vote {
    Vote { label: label.to_owned(), value, by: by.to_owned() }
}

fn event(kind: EventKind) -> Event<'static> {
    Event {
        kind,
        branch: Some("main"),
        reference: "refs/heads/main",
        is_delete: false,
        votes_added: &[],
        votes: &[],
        comment: None,
        by: "bob",
    }
}

/// Names of the pipelines that an event starts.
fn started(layout: &Layout, event: &Event<'_>) -> Vec<String> {
    layout
        .pipelines()
        .filter(|one| one.is_triggered_by("gerrit", event))
        .map(|one| one.name.clone())
        .collect()
}

#[test]
fn usual_pipelines_load_without_problems() {
    let layout = layout_of(&[]);
    assert_eq!(messages(&layout), [""; 0]);
    let names: Vec<_> = layout.pipelines().map(|pipeline| pipeline.name.as_str()).collect();
    assert_eq!(names, ["check", "gate", "post"]);
    let (check, gate) = (layout.pipeline("check").unwrap(), layout.pipeline("gate").unwrap());
    assert_eq!((check.manager, check.window), (Manager::Independent, Window::UNLIMITED));
    assert_eq!(check.precedence, Precedence::Normal);
    assert_eq!(gate.manager, Manager::Dependent);
    assert_eq!(
        gate.window,
        Window { start: 10, floor: 2, increase: Step::Exponential(2), ..Window::DEFAULT }
    );
    let success = &gate.success["gerrit"];
    assert!(success.submit && success.comment && success.votes["Verified"] == 2);
    assert!(!gate.failure["gerrit"].comment);
    assert_eq!(gate.merge_conflict["gerrit"].votes["Verified"], -1);
    assert_eq!(gate.config_error, gate.failure);
    assert_eq!(check.merge_conflict, check.failure);
    assert!(layout.pipeline("post").unwrap().is_post_review);
}

#[test]
fn events_start_the_pipelines_that_name_them() {
    let layout = layout_of(&[]);
    let workflow = [vote("workflow", 1, "bob")];
    let verified = [vote("Verified", 1, "bob")];
    let cases = [
        (event(EventKind::PatchsetCreated), vec!["check"]),
        (event(EventKind::ChangeMerged), vec![]),
        (event(EventKind::CommentAdded), vec![]),
        (Event { comment: Some("recheck"), ..event(EventKind::CommentAdded) }, vec!["check"]),
        (Event { comment: Some("Patch Set 3:\n\nrecheck"), ..event(EventKind::CommentAdded) }, vec!["check"]),
        (Event { comment: Some("please do not recheck"), ..event(EventKind::CommentAdded) }, vec![]),
        (Event { votes_added: &workflow, ..event(EventKind::CommentAdded) }, vec!["gate"]),
        (Event { votes_added: &verified, votes: &workflow, ..event(EventKind::CommentAdded) }, vec![]),
        (event(EventKind::RefUpdated), vec!["post"]),
        (Event { is_delete: true, ..event(EventKind::RefUpdated) }, vec![]),
        (Event { branch: None, reference: "refs/tags/1", ..event(EventKind::RefUpdated) }, vec![]),
    ];
    for (event, expected) in cases {
        assert_eq!(started(&layout, &event), expected, "{event:?}");
    }
    assert!(!layout.pipeline("check").unwrap().is_triggered_by("other", &event(EventKind::PatchsetCreated)));
}

/// A layout with one more pipeline `x`, which has this trigger.
fn with_trigger(trigger: &str) -> Layout {
    let text = format!("- pipeline: {{name: x, manager: independent, trigger: {{gerrit: [{{{trigger}}}]}}}}");
    layout_of(&[file("config", "main", &text)])
}

#[test]
fn a_tag_is_known_by_its_full_and_its_short_name() {
    let tag = Event { branch: None, reference: "refs/tags/v1", ..event(EventKind::RefUpdated) };
    for (reference, expected) in
        [("^v1$", true), ("^refs/tags/v1$", true), ("^(?!refs/).*$", false), ("^v2$", false)]
    {
        let layout = with_trigger(&format!("event: ref-updated, ref: '{reference}'"));
        let pipeline = layout.pipeline("x").unwrap();
        assert_eq!(pipeline.is_triggered_by("gerrit", &tag), expected, "{reference}");
    }
}

#[test]
fn conditions_of_triggers_narrow_them() {
    let stood = [vote("Verified", 1, "zuul"), vote("Code-Review", 2, "ann")];
    let event = Event { votes: &stood, ..event(EventKind::RefUpdated) };
    let cases = [
        ("event: [change-merged, ref-updated]", true),
        ("event: ref-.*", true),
        ("event: change-restored", false),
        ("event: ref-updated, branch: ^mai", true),
        ("event: ref-updated, branch: [x, {regex: main, negate: true}]", false),
        ("event: ref-updated, ref: ^main$", true),
        ("event: ref-updated, ref: '^(?!refs/).*$'", true),
        ("event: ref-updated, ref: '^(?!main).*$', branch: x", false),
        ("event: ref-updated, ref: '^(refs/tags|refs/heads/stable)'", false),
        ("event: ref-updated, ref: {regex: main, negate: true}", false),
        ("event: ref-updated, username: ^bob$", true),
        ("event: ref-updated, username: ^ann$", false),
        ("event: ref-updated, require-approval: [{Verified: [1, 2], username: zuul}]", true),
        ("event: ref-updated, require-approval: [{Verified: [1, 2], username: ann}]", false),
        ("event: ref-updated, require: {approval: {Code-Review: 2}}", true),
        ("event: ref-updated, reject-approval: [{Code-Review: 2}]", false),
        ("event: ref-updated, reject: {approval: [{Code-Review: -2}]}", true),
    ];
    for (trigger, expected) in cases {
        let layout = with_trigger(trigger);
        assert_eq!(messages(&layout), [""; 0], "{trigger}");
        let is_triggered = layout.pipeline("x").unwrap().is_triggered_by("gerrit", &event);
        assert_eq!(is_triggered, expected, "{trigger}");
    }
}

#[test]
fn requirements_name_the_vote_that_is_missing_or_in_the_way() {
    let layout = layout_of(&[]);
    let gate = layout.pipeline("gate").unwrap();
    let good = [vote("Workflow", 1, "bob"), vote("Code-Review", 2, "ann")];
    assert_eq!(gate.meets_requirements("gerrit", &good), Ok(()));
    assert_eq!(gate.meets_requirements("other", &[]), Ok(()));
    let error = gate.meets_requirements("gerrit", &good[..1]).unwrap_err();
    assert_eq!(error, r#"the vote {"Code-Review":2,"username":"^ann$"} is missing"#);
    let wrong = [good[0].clone(), vote("Code-Review", 2, "bob")];
    assert!(gate.meets_requirements("gerrit", &wrong).is_err());
    let vetoed = [good[0].clone(), good[1].clone(), vote("Code-Review", -2, "cat")];
    let error = gate.meets_requirements("gerrit", &vetoed).unwrap_err();
    assert_eq!(error, "the vote Code-Review -2 by cat is in the way");
}

#[test]
fn pipelines_that_cannot_work_are_left_out() {
    let cases = [
        ("manager: serial", "the manager `serial` of pipeline `x` is not supported yet"),
        ("manager: parallel", "pipeline `x` has the unknown manager `parallel`"),
        (
            "manager: independent, success: {smtp: {to: a}}",
            "`smtp` in `success` of pipeline `x` is not supported yet",
        ),
        (
            "manager: independent, trigger: {timer: {time: 1}}",
            "`timer` in `trigger` of pipeline `x` is not supported yet",
        ),
        (
            "manager: independent, trigger: {gerit: {}}",
            "`trigger` of pipeline `x` names `gerit`, which is no connection",
        ),
        ("manager: independent, sucess: {}", "pipeline `x` has the unknown key `sucess`"),
        (
            "manager: independent, ignore-dependencies: true",
            "`ignore-dependencies: true` of pipeline `x` is not supported yet",
        ),
        (
            "manager: independent, trigger: {gerrit: {event: comment-aded}}",
            "has the unknown event `comment-aded`",
        ),
        (
            "manager: independent, success: {gerrit: {Verified: yes}}",
            "`Verified` of `gerrit` in `success` of pipeline `x` must be a whole number",
        ),
        ("manager: dependent, window: -1", "`window` of pipeline `x` must be a whole number"),
        (
            "manager: independent, trigger: {gerrit: {event: ref-updated, ref: '(?!x)'}}",
            "has the invalid regular expression `(?!x)`",
        ),
    ];
    for (body, message) in cases {
        let layout = layout_of(&[file("config", "main", &format!("- pipeline: {{name: x, {body}}}"))]);
        assert!(layout.pipeline("x").is_none(), "{body}");
        let messages = messages(&layout);
        assert_eq!(messages.len(), 1, "{messages:?}");
        assert!(messages[0].contains(message), "{messages:?}");
        assert!(messages[0].starts_with("config@main zuul.d/test.yaml:1: "), "{messages:?}");
    }
}

#[test]
fn unsupported_supercedes_keeps_the_pipeline() {
    let text = "- pipeline: {name: x, manager: dependent, supercedes: [check]}";
    let layout = layout_of(&[file("config", "main", text)]);
    assert!(layout.pipeline("x").is_some());
    assert!(messages(&layout)[0].contains("works without it"));
}

#[test]
fn only_config_projects_define_pipelines() {
    let layout = layout_of(&[file("org/lib", "main", "- pipeline: {name: x, manager: independent}")]);
    assert!(layout.pipeline("x").is_none());
    assert!(messages(&layout)[0].contains("may not define pipelines"));
}
