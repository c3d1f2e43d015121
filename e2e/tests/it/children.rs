//! The environment of programs that we run: what they are promised and what the operator passes, and none of our
//! secrets.

use menagerie_testkit::{Process, eventually};

use crate::cli::User;
use crate::queues::Fleet;

const AUTH: &str = "fleet:hunter2";

/// Reports how often our password is in its own environment and in its guard's, whether it knows ZooKeeper's address,
/// and how many sockets it inherited.
const REPORT: &str = r#"
count() { tr '\0' '\n' < "$1" | grep -c "$2"; }
echo "seen: own $(env | grep -c hunter2), guard's $(count /proc/$PPID/environ hunter2), \
ZooKeeper $(env | grep -c ^MENAGERIE_ZOOKEEPER=), sockets $(ls -l /proc/$$/fd | grep -c socket:)" >&2
"#;

const SEEN: &str = "seen: own 0, guard's 0, ZooKeeper 1, sockets 0";

/// A user with a password in the environment.
fn user(name: &str) -> User {
    User::new(&format!("children-{name}")).with("MENAGERIE_ZOOKEEPER_AUTH", AUTH)
}

#[track_caller]
fn assert_seen(what: &str, process: &Process) {
    let report = eventually(&format!("{what} to report"), || {
        let said = process.stderr();
        said.lines().find(|line| line.starts_with("seen:")).map(str::to_owned)
    });
    assert_eq!(report, SEEN, "{what}");
}

#[test]
fn commands_under_slots_see_no_secret() {
    let user = user("slots");
    user.ok(&["slots", "create", "pool", "--max", "1"]);
    let script = user.write("report.sh", REPORT);
    let check = format!("sh {script}");
    for (what, args) in [
        ("a command", vec!["slots", "run", "pool", "--", "sh", "-c", REPORT]),
        ("a hook", vec!["slots", "run", "pool", "--on-acquire", &check, "--", "sleep", "600"]),
        ("a check", vec!["slots", "watch", "pool", "--when", REPORT, "--every", "1s", "--", "true"]),
    ] {
        let process = user.spawn(&args);
        assert_seen(what, &process);
    }
}

#[test]
fn tasks_see_no_secret() {
    let fleet = Fleet::of(user("tasks"));
    fleet.create("mail", 1);
    let serve = format!(
        "{REPORT}\nwhile read -r line; do id=${{line#*\\\"id\\\":\\\"}}; echo \"{{\\\"id\\\":\\\"${{id%%\\\"*}}\\\",\\\"ok\\\":true}}\"; done"
    );
    let mut ways = vec![
        ("a task", vec![], vec!["sh", "-c", REPORT]),
        ("a program that is fed", vec!["--serve"], vec!["sh", "-c", &serve]),
        ("a start-up command", vec!["--on-startup", REPORT], vec!["true"]),
    ];
    if rustix::process::geteuid().is_root() {
        ways.push(("somebody else's task", vec!["--user", "nobody"], vec!["sh", "-c", REPORT]));
    }
    for (what, options, command) in ways {
        fleet.user.ok(&["queue", "put", "mail", "x"]);
        let worker = fleet.starting("mail", &options, &command);
        assert_seen(what, &worker);
        fleet.wait_until_drained("mail");
    }
}

#[cfg(feature = "python")]
#[test]
fn python_functions_see_no_secret() {
    const FUNCTION: &str = r#"
import os, sys
def report(message, context):
    own = sum("hunter2" in value for value in os.environ.values())
    parent = open(f"/proc/{os.getppid()}/environ").read().count("hunter2")
    print(f"seen: own {own}, guard's {parent}, ZooKeeper {int('MENAGERIE_ZOOKEEPER' in os.environ)}, sockets 0", file=sys.stderr)
"#;
    let fleet = Fleet::of(user("python"));
    fleet.create("mail", 1);
    fleet.user.write("tasks.py", FUNCTION);
    fleet.user.ok(&["queue", "put", "mail", "x"]);
    let worker = fleet.user.spawn(&["worker", "mail", "--settle", "300ms", "--python", "tasks:report"]);
    assert_seen("a function", &worker);
}

#[test]
fn whoever_is_to_talk_to_zookeeper_is_given_a_file() {
    let user = user("passed");
    user.ok(&["slots", "create", "pool", "--max", "1"]);
    let file = user.write("digest", AUTH);
    let menagerie = menagerie_testkit::binary();
    let show = format!("{} slots show pool -o json", menagerie.display());
    // Everything we create is for our user alone.
    let done = user.run(&["slots", "run", "pool", "--", "sh", "-c", &show]);
    assert_ne!(done.code, Some(0), "{}", done.text());
    let passed = format!("MENAGERIE_ZOOKEEPER_AUTH_FILE={file}");
    assert!(user.ok(&["slots", "run", "pool", "--", "env", &passed, "sh", "-c", &show]).contains("holders"));
}
