//! Two journals on copies of one folder: nobody can tell which of them has the acknowledged messages.

use std::path::{Path, PathBuf};
use std::process::Command;

use menagerie_testkit::{End, Process, eventually, free_port};
use rustix::process::Signal;

use super::{Fleet, assert_all, assert_order};

/// A queue whose journal has acknowledged three messages, and an earlier copy of that journal's data.
struct Copied {
    fleet: Fleet,
    data: PathBuf,
    copy: PathBuf,
}

impl Copied {
    fn new(name: &str) -> Self {
        Self::of(Fleet::with_queue(name, "mail", 1))
    }

    fn of(mut fleet: Fleet) -> Self {
        let (data, copy) = (fleet.user.folder().join("data"), fleet.user.folder().join("copy"));
        stop(&mut fleet.journal);
        duplicate(&data, &copy);
        let mut copied = Self { fleet, data, copy };
        copied.start(&[]);
        copied.fleet.put("mail", 0..3);
        copied
    }

    /// Starts the original, on the same port as before.
    fn start(&mut self, more: &[&str]) {
        let address = self.fleet.journal.address().to_string();
        let journal = ["journal", "--log-level", "warn", "--listen", &address];
        self.fleet.journal = self.fleet.user.start(&[&journal, more].concat());
    }

    /// Updates the copy with all starts so far.
    fn copy_again(&self) {
        std::fs::remove_dir_all(&self.copy).expect("it is there");
        duplicate(&self.data, &self.copy);
    }

    /// Starts the copy.
    fn twin(&self, more: &[&str]) -> Process {
        let twin = ["journal", "--listen", "127.0.0.1:0", "--data", text(&self.copy)];
        self.fleet.user.spawn(&[&twin, more].concat())
    }

    /// The starts registered as serving the folder.
    fn registered(&self) -> Vec<String> {
        let list = |path: &str| -> Vec<String> {
            let listed = self.fleet.user.ok(&["zk", "ls", path]);
            listed.lines().skip(1).filter_map(|line| line.split(' ').next().map(str::to_owned)).collect()
        };
        let folders = list("/menagerie/journals");
        assert_eq!(folders.len(), 1, "{folders:?}");
        list(&format!("/menagerie/journals/{}", folders[0]))
    }
}

fn stop(journal: &mut Process) {
    assert!(journal.stop().status.success());
}

fn duplicate(from: &Path, to: &Path) {
    let copied = Command::new("cp").arg("-a").arg(from).arg(to).status().expect("it can be run");
    assert!(copied.success());
}

fn text(path: &Path) -> &str {
    path.to_str().expect("its name is text")
}

/// Whether it ended because of a copy, and names both and what to do.
#[track_caller]
fn assert_refused(end: &End, address: &str) {
    assert_eq!(end.status.code(), Some(1), "{}", end.stderr);
    for word in ["one is a copy of the other", address, "menagerie journal renew --data"] {
        assert!(end.stderr.contains(word), "{word:?} is missing in:\n{}", end.stderr);
    }
}

/// Mounts the copy in place of the folder, visible only to this process, and execs the journal: like a container made
/// from a copy of another one's volume.
#[cfg(feature = "strace")]
#[test]
fn of_two_journals_with_one_name_host_and_path_neither_serves() {
    const IN_PLACE: &str = r#"mount --bind "$0" "$1" && shift && exec "$@""#;
    let mut copied = Copied::new("containers");
    let line = [
        "unshare",
        crate::journal::full::unshare(),
        "sh",
        "-c",
        IN_PLACE,
        text(&copied.copy),
        text(&copied.data),
    ];
    let twin = ["journal", "--listen", "127.0.0.1:0"];
    let mut twin = Process::spawn(&mut copied.fleet.user.command_under(&line, &twin));
    let address = copied.fleet.journal.address().to_string();
    assert_refused(&twin.wait_for_end(), &address);
    assert_refused(&copied.fleet.journal.wait_for_end(), &address);
}

#[test]
fn neither_of_two_copies_serves_until_an_operator_has_decided() {
    let mut copied = Copied::new("copies");
    let address = copied.fleet.journal.address().to_string();
    // Another name does not make it another folder.
    assert_refused(&copied.twin(&["--name", "other"]).wait_for_end(), &address);
    assert_refused(&copied.fleet.journal.wait_for_end(), &address);
    copied.fleet.user.fails(&["queue", "put", "mail", "x"], 69, &["copies of one folder", &address]);
    // Restarting them gets no further.
    assert_refused(&copied.twin(&[]).wait_for_end(), &address);
    let mut again = copied.fleet.user.spawn(&["journal", "--listen", &address]);
    assert_refused(&again.wait_for_end(), &address);
    // The one with the messages should go on.
    copied.fleet.user.ok(&["journal", "renew"]);
    copied.start(&[]);
    copied.fleet.put("mail", 3..4);
    let _worker = copied.fleet.worker("mail", &[]);
    copied.fleet.wait_until_drained("mail");
    assert_all(&copied.fleet.handled(), 0..4);
    assert_order(&copied.fleet.handled());
    assert_refused(&copied.twin(&[]).wait_for_end(), &address);
    copied.fleet.put("mail", 4..5);
}

#[test]
fn a_journal_whose_copy_has_served_meanwhile_does_not_go_on() {
    let mut copied = Copied::new("by-turns");
    let address = copied.fleet.journal.address().to_string();
    stop(&mut copied.fleet.journal);
    copied.copy_again();
    // Nobody can tell it from the folder itself, moved elsewhere.
    let mut twin = copied.twin(&[]);
    let elsewhere = twin.wait_until_listening("journal").to_string();
    eventually("it is registered", || (copied.registered().len() == 1).then_some(()));
    stop(&mut twin);
    let mut again = copied.fleet.user.spawn(&["journal", "--listen", &address]);
    assert_refused(&again.wait_for_end(), &elsewhere);
    assert_refused(&copied.twin(&[]).wait_for_end(), &elsewhere);
}

#[test]
fn a_copy_from_before_the_last_start_is_refused() {
    let mut copied = Copied::new("outdated");
    let address = copied.fleet.journal.address().to_string();
    stop(&mut copied.fleet.journal);
    assert_refused(&copied.twin(&[]).wait_for_end(), &address);
}

#[test]
fn a_copy_that_cannot_ask_the_original_waits_for_its_end() {
    let mut copied = Copied::new("unheard");
    stop(&mut copied.fleet.journal);
    // Others are given an address where nobody answers.
    copied.start(&["--advertise", &format!("127.0.0.1:{}", free_port())]);
    copied.copy_again();
    let original = copied.registered();
    assert_eq!(original.len(), 1, "{original:?}");
    let twin = copied.twin(&[]);
    twin.wait_until_listening("journal");
    eventually("it says what it waits for", || twin.stderr().contains("waiting for its end").then_some(()));
    assert_eq!(copied.registered(), original);
    stop(&mut copied.fleet.journal);
    eventually("it has the folder", || {
        let registered = copied.registered();
        (registered.len() == 1 && registered != original).then_some(())
    });
}

#[test]
fn a_journal_that_was_away_registers_again_unless_its_copy_has_served_meanwhile() {
    let mut copied = Copied::of(Fleet::hasty("away-and-back", "mail", 1, "2s"));
    let ours = copied.registered();
    copied.fleet.journal.signal(Signal::STOP);
    eventually("its session is over", || copied.registered().is_empty().then_some(()));
    copied.fleet.journal.signal(Signal::CONT);
    eventually("it is registered again", || (copied.registered() == ours).then_some(()));
    copied.fleet.put("mail", 3..4);
    copied.copy_again();
    copied.fleet.journal.signal(Signal::STOP);
    // Nobody else can tell that the first one lives.
    let mut twin = copied.twin(&[]);
    let elsewhere = twin.wait_until_listening("journal").to_string();
    let registered = || Some(copied.registered()).filter(|found| found.len() == 1 && *found != ours);
    eventually("the copy has the folder", registered);
    copied.fleet.journal.signal(Signal::CONT);
    assert_refused(&copied.fleet.journal.wait_for_end(), &elsewhere);
    assert_refused(&twin.wait_for_end(), &elsewhere);
}

#[test]
fn queues_go_on_with_a_journal_that_was_restored() {
    let mut copied = Copied::new("restored");
    let backup = copied.fleet.user.folder().join("backup");
    copied.fleet.user.ok(&["journal", "backup", text(&backup)]);
    stop(&mut copied.fleet.journal);
    let restored = copied.fleet.user.folder().join("restored");
    copied.fleet.user.ok(&["journal", "restore", text(&backup), "--data", text(&restored)]);
    copied.start(&["--data", text(&restored)]);
    let token = restored.join("journal/token");
    let put = ["queue", "put", "mail", "3", "--journal-token-file", text(&token)];
    copied.fleet.user.ok(&put);
    let _worker = copied.fleet.worker("mail", &["--journal-token-file", text(&token)]);
    eventually("all is handled", || (copied.fleet.handled().len() == 4).then_some(()));
    assert_all(&copied.fleet.handled(), 0..4);
    // The original is another folder now, of the same name.
    let mut original = copied.fleet.user.spawn(&["journal", "--listen", "127.0.0.1:0"]);
    let end = original.wait_for_end();
    assert!(end.stderr.contains("runs already") && end.stderr.contains("--name"), "{}", end.stderr);
}
