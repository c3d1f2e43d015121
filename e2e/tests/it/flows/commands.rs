//! What operators see and do, with coordinators and peers in processes of their own.

use menagerie_testkit::eventually;

use super::{counted, words};
use crate::cli::User;

#[test]
fn roles_start_in_any_order_and_a_job_is_submitted_listed_shown_and_killed() {
    let user = User::new("flow-commands");
    let expected = words(&user, 5_000);
    // Nobody is there yet: the submission is the submitter's own write.
    let id = user.ok(&["flow", "submit", "job.toml"]).trim().to_owned();
    assert_eq!(user.json(&["flow", "show", &id])["job"]["state"], "submitted");
    user.fails(&["flow", "check", "job.toml"], 2, &["is in use by job ", &id]);
    let peer = user.start(&["peer", "--count", "2"]);
    let _coordinator = user.start(&["coordinator"]);
    let _stand_by = user.start(&["coordinator"]);
    let _journal = user.serve(&["journal"]);
    eventually("the job is complete", || {
        (user.json(&["flow", "list"])[0]["state"] == "complete").then_some(())
    });
    assert_eq!(counted(&user), expected);
    let status = user.ok(&["status"]);
    assert!(status.contains("coordinator ") && status.contains("peer "), "{status}");
    assert!(user.ok(&["flow", "show", &id]).contains("aggregator"));
    user.fails(&["flow", "kill", &id], 1, &["has ended already: it is complete"]);
    user.fails(&["flow", "show", "nobody"], 1, &["there is no job nobody in deployment default"]);
    drop(peer);
    // Without peers it cannot end by itself.
    user.write("job.toml", &super::JOB.replace("\"out\"", "\"out-2\""));
    eventually("the peers are known to be dead", || {
        let peers = user.json(&["zk", "ls", "/menagerie/flows/default/peer"]);
        peers["children"].as_array()?.is_empty().then_some(())
    });
    let mut waiting = user.spawn(&["flow", "submit", "job.toml", "--wait"]);
    let id = waiting.wait_for_line("its id", |line| Some(line.to_owned()));
    eventually("it runs", || (user.json(&["flow", "show", &id])["job"]["state"] == "running").then_some(()));
    user.ok(&["flow", "kill", &id]);
    let end = waiting.wait_for_end();
    assert_eq!(end.status.code(), Some(3), "{}", end.stderr);
    assert!(end.stderr.contains("waiting for peers") && end.stderr.contains("was killed"), "{}", end.stderr);
    assert!(!user.folder().join("out-2").exists());
}
