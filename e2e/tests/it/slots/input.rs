//! Invalid input is refused with a reason, and leaves nothing held.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use super::{holders, pool, user};
use crate::cli::User;

#[test]
fn bad_input_is_refused_with_a_reason_and_nothing_is_held() {
    let user = user("input", 1);
    let refused: [(&[&str], i32, &[&str]); 21] = [
        (&["run", "none", "--", "true"], 2, &["there is no pool none", "slots create none"]),
        (&["show", "none"], 2, &["there is no pool none"]),
        (&["set-max", "none", "3"], 2, &["there is no pool none"]),
        (&["freeze", "none"], 2, &["there is no pool none"]),
        (&["create", "p", "--max", "0"], 2, &["at least 1", "slots freeze"]),
        (&["create", "p", "--max", "-1"], 2, &["'-1'", "a whole number from 1"]),
        (&["create", "p", "--max", "many"], 2, &["'many'", "a whole number from 1"]),
        (&["set-max", "pool", "0"], 2, &["at least 1", "slots freeze"]),
        (&["set-max", "pool", "-1"], 2, &["'-1'", "a whole number from 1"]),
        (&["create", "a/b", "--max", "1"], 2, &["must not contain '/'"]),
        (&["run", "a/b", "--", "true"], 2, &["must not contain '/'"]),
        (&["run", "pool", "true"], 2, &["unexpected argument 'true'", "comes behind `--`"]),
        (&["run", "pool", "ls", "-l"], 2, &["comes behind `--`"]),
        (&["run", "pool"], 2, &["COMMAND"]),
        (&["run", "pool", "--", "./no-such-program"], 127, &["cannot run ./no-such-program", "No such file"]),
        (&["run", "pool", "--window", "25:00-26:00", "--", "true"], 2, &["not a window", "22:00-04:00"]),
        (&["run", "pool", "--wait", "-1", "--", "true"], 2, &["'-1'", "not a duration"]),
        (&["acquire", "pool", "--wait", "-1"], 2, &["'-1'", "not a duration"]),
        (&["run", "pool", "--ephemeral", "--on-failure", "hold", "--", "true"], 2, &["cannot hold"]),
        (&["release", "pool", "nobody"], 1, &["nobody holds no slot of pool pool"]),
        (&["serve", "--listen", "0.0.0.0:0"], 2, &["unencrypted", "--insecure"]),
    ];
    for (args, code, words) in refused {
        user.fails(&[&["slots"], args].concat(), code, words);
    }
    let open = ["slots", "serve", "--listen", "0.0.0.0:0", "--insecure"];
    user.fails(&open, 2, &["--allow", "anybody"]);
    assert_eq!(holders(&user), [""; 0]);
    assert_eq!(pool(&user)["waiters"].as_array().map(Vec::len), Some(0));
}

#[test]
fn nobody_there_is_69() {
    let user = User::at("127.0.0.1:1");
    user.fails(&["slots", "run", "pool", "--", "true"], 69, &["no ZooKeeper server answers"]);
    user.fails(&["slots", "list"], 69, &["no ZooKeeper server answers"]);
}

#[test]
fn not_in_time_is_75_and_says_who_holds() {
    let user = user("full", 1);
    user.ok(&["slots", "acquire", "pool", "--holder", "host7"]);
    for wait in ["0", "1s"] {
        let args = ["slots", "run", "pool", "--wait", wait, "--", "true"];
        user.fails(&args, 75, &["no slot of pool pool", "slots show pool"]);
    }
    for wait in ["0", "1s"] {
        user.fails(
            &["slots", "run", "pool", "--wait", wait, "--", "true"],
            75,
            &["because:", "held by host7"],
        );
    }
    user.fails(
        &["slots", "acquire", "pool", "--holder", "b", "--wait", "0"],
        75,
        &["no slot of pool pool", "full"],
    );
    user.ok(&["slots", "set-max", "pool", "2"]);
    user.ok(&["slots", "freeze", "pool", "--reason", "bad update"]);
    for wait in ["0", "1s"] {
        let words = ["no slot of pool pool", "frozen by", "(bad update)"];
        user.fails(&["slots", "run", "pool", "--wait", wait, "--", "true"], 75, &words);
        user.fails(&["slots", "acquire", "pool", "--holder", "b", "--wait", wait], 75, &words);
    }
    assert_eq!(holders(&user), ["host7"]);
}

#[test]
fn window_that_is_closed_lets_nobody_in() {
    let user = user("window", 1).with("TZ", "UTC");
    let since = SystemTime::now().duration_since(UNIX_EPOCH).expect("it is after 1970");
    let hour = |ahead: u64| (since + Duration::from_secs(ahead * 3600)).as_secs() / 3600 % 24;
    let closed = format!("{:02}:00-{:02}:00", hour(6), hour(7));
    let args = ["slots", "run", "pool", "--wait", "0", "--window", &closed, "--", "true"];
    user.fails(&args, 75, &["outside of the window"]);
    let open = format!("{:02}:00-{:02}:00", hour(23), hour(3));
    user.ok(&["slots", "run", "pool", "--wait", "0", "--window", &open, "--", "true"]);
}

#[test]
fn dry_run_only_says_what_would_happen() {
    let user = user("dry", 1);
    let dry = ["slots", "run", "pool", "--dry-run", "--holder", "b", "--", "touch", "made"];
    assert!(user.ok(&dry).contains("it would run now"));
    user.ok(&["slots", "acquire", "pool", "--holder", "a"]);
    let said = user.ok(&dry);
    assert!(said.contains("it would wait") && said.contains("held by a"), "{said}");
    assert!(!user.folder().join("made").exists());
    user.fails(&["slots", "run", "none", "--dry-run", "--", "true"], 2, &["there is no pool none"]);
}
