//! The guide "Gate your first repository", as typed.

use super::site::wait_for_pipelines;
use crate::guide::{Newcomer, steps_of};

#[test]
fn first_gate() {
    let mut newcomer = Newcomer::new();
    let steps = steps_of("first-gate.md");
    let follow = |step: &String| {
        let output = newcomer.follow(step);
        if step == "menagerie up" {
            // People are slower than this.
            wait_for_pipelines(&newcomer.user);
        }
        output
    };
    let outputs: Vec<String> = steps.iter().map(follow).collect();
    let said = |what: &str| -> String {
        let steps = steps.iter().zip(&outputs).filter(|(step, _)| step.contains(what));
        steps.map(|(_, output)| output.as_str()).collect()
    };
    assert!(
        said("pipeline status").contains("nothing is queued in check, gate"),
        "{}",
        said("pipeline status")
    );
    assert!(said("log --oneline").contains("Merge app:propose/main/greeting"), "{}", said("log --oneline"));
    // That of the gate may still be on its way.
    assert!(said("--notes=menagerie").contains("Build succeeded. (check"), "{}", said("--notes=menagerie"));
    let why = said("wait app:propose/main/later");
    assert!(why.contains("FAILURE"), "{why}");
    let hint = why.split("menagerie pipeline logs ").nth(1).expect("it says where the log is");
    let log = newcomer.follow(&format!("menagerie pipeline logs {hint}"));
    assert!(log.contains("BROKEN"), "{log}");
    newcomer.stop();
}
