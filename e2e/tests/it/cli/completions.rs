//! Completion in the shell.

use std::time::{Duration, Instant};

use super::{Done, User};
use crate::queues::Fleet;

/// Completes the last of the given words with the printed script, as bash does when somebody presses TAB.
const PRESS_TAB: &str = r#"
mkdir -p bin && ln -sf "$1" bin/menagerie && shift
PATH="$PWD/bin:$PATH"
source <(menagerie completions bash)
complete -p menagerie | grep -q _menagerie_complete || exit 3
COMP_LINE="menagerie $*" COMP_TYPE=9
COMP_POINT=${#COMP_LINE}
_menagerie_complete
printf '%s\n' "${COMPREPLY[@]}"
"#;

/// What bash offers for the last of these words.
fn offered(user: &User, words: &[&str]) -> Vec<String> {
    user.write("tab.sh", PRESS_TAB);
    let done = Done::of(user.command_under(&["bash", "tab.sh"], words).output().expect("bash is there"));
    assert_eq!((done.code, done.stderr.as_str()), (Some(0), ""), "{words:?}");
    done.text().lines().map(str::to_owned).collect()
}

#[test]
fn bash_completes_commands_and_names_of_queues_and_pools() {
    let fleet = Fleet::new("completions");
    let user = &fleet.user;
    for queue in ["mail", "market", "orders", "notes:mail", "notes:letters"] {
        fleet.create(queue, 1);
    }
    user.ok(&["slots", "create", "reboots", "--max", "1"]);
    assert_eq!(offered(user, &["doc"]), ["doctor"]);
    assert_eq!(offered(user, &["queue", "sh"]), ["show"]);
    assert_eq!(offered(user, &["queue", "show", "ma"]), ["mail", "market"]);
    assert_eq!(offered(user, &["queue", "put", "o"]), ["orders"]);
    assert_eq!(offered(user, &["worker", "mail", "or"]), ["orders"]);
    assert_eq!(offered(user, &["check", "lag", "mai"]), ["mail"]);
    assert_eq!(offered(user, &["slots", "show", "re"]), ["reboots"]);
    // Bash replaces only what is behind the last colon.
    assert_eq!(offered(user, &["queue", "show", "notes:"]), ["letters", "mail"]);
    assert_eq!(offered(user, &["queue", "show", "notes:ma"]), ["mail"]);
    assert_eq!(offered(user, &["queue", "show", "not"]), ["notes:letters", "notes:mail"]);
    let elsewhere = offered(user, &["--namespace", "/elsewhere", "queue", "show", "ma"]);
    assert!(elsewhere.iter().all(|word| word.is_empty()), "{elsewhere:?}");
}

#[test]
fn without_zookeeper_nothing_is_said_and_nobody_waits() {
    // A port that accepts and never answers is the slowest that there is.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").expect("there is a free port");
    let user = User::at(silent.local_addr().expect("it is bound").to_string());
    let began = Instant::now();
    let offered = offered(&user, &["queue", "show", "ma"]);
    assert!(offered.iter().all(|word| word.is_empty()), "{offered:?}");
    // A second, and some for a busy machine.
    assert!(began.elapsed() < Duration::from_secs(10), "{:?}", began.elapsed());
}

#[test]
fn scripts_are_there_for_every_shell() {
    let user = User::nowhere();
    for shell in ["bash", "zsh", "fish"] {
        let script = user.ok(&["completions", shell]);
        assert!(script.contains("_MENAGERIE_COMPLETE") && script.contains("menagerie"), "{shell}: {script}");
    }
}
