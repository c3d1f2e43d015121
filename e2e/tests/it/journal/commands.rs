//! The journal's commands.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::SystemTime;

use menagerie_journal::{Commit, Journal, NewMessage, TopicConfig};
use menagerie_testkit::{Process, RawClient, binary, eventually};

use super::{Served, runtime, spot, topic};
use crate::ask::{children, read_znode};
use crate::up::up;

fn menagerie(args: &[&str]) -> Output {
    Command::new(binary()).args(args).output().expect("it can be run")
}

fn text(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Modification times of a folder and its files.
fn written(folder: &Path) -> BTreeMap<PathBuf, SystemTime> {
    let files = std::fs::read_dir(folder).expect("it is there").map(|entry| entry.expect("a file").path());
    let changed = |path: PathBuf| {
        let changed = std::fs::metadata(&path).and_then(|metadata| metadata.modified());
        (path, changed.expect("it can be looked at"))
    };
    files.chain([folder.to_owned()]).map(changed).collect()
}

#[test]
fn a_journal_is_listed_read_backed_up_verified_and_restored() {
    let mut served = Served::start();
    let client = served.client();
    runtime().block_on(async {
        client.create_topic(&topic(), TopicConfig::partitions(2)).await.expect("a topic");
        for n in 0..5 {
            client
                .commit(Commit::append(spot(1), NewMessage::new(format!("message {n}"))))
                .await
                .expect("appended");
        }
    });
    let data = served.data();
    let data = data.to_str().expect("its name is text");
    let topics = text(&menagerie(&["journal", "topics", "--data", data]));
    assert!(topics.contains("mail") && topics.contains("MESSAGES"), "{topics}");
    let topics = text(&menagerie(&["journal", "topics", "--data", data, "-o", "json"]));
    assert!(topics.contains("\"messages\": 5") || topics.contains("\"messages\":5"), "{topics}");
    let cat = text(&menagerie(&["journal", "cat", "mail", "--data", data, "-o", "json"]));
    assert_eq!(cat.lines().count(), 5);
    assert!(cat.lines().next().expect("a line").contains("\"body\":\"message 0\""));
    let tail = text(&menagerie(&["journal", "tail", "mail", "-n", "2", "--data", data]));
    assert_eq!(tail.lines().count(), 2);
    assert!(tail.ends_with("message 4\n"));
    assert!(text(&menagerie(&["journal", "stat", "mail", "--data", data])).contains("CONSUMER"));
    assert!(text(&menagerie(&["journal", "stat", "--data", data])).contains("MESSAGES"));
    // One command accepts what another shows, and no number is beyond what programs read exactly.
    let stat = text(&menagerie(&["journal", "stat", "mail", "--data", data, "-o", "json"]));
    let stat: serde_json::Value = serde_json::from_str(&stat).expect("it is JSON");
    let newest = text(&menagerie(&["journal", "tail", "mail", "-n", "1", "--data", data, "-o", "json"]));
    let newest: serde_json::Value = serde_json::from_str(&newest).expect("it is JSON");
    assert_eq!(stat[0]["last"], newest["id"], "{stat}");
    assert_eq!((&stat[0]["messages"], &stat[1]["last"]), (&5.into(), &serde_json::Value::Null), "{stat}");
    let missing = menagerie(&["journal", "cat", "nothing", "--data", data]);
    assert!(String::from_utf8_lossy(&missing.stderr).contains("there is no topic nothing"));
    let busy = menagerie(&["journal", "verify", "--data", data]);
    assert_eq!(busy.status.code(), Some(74), "a running journal is not verified");

    let file = served.data().join("backup");
    let file = file.to_str().expect("its name is text").to_owned();
    text(&menagerie(&["journal", "backup", &file, "--data", data]));
    assert_eq!(served.process.stop().status.code(), Some(0));
    // Verifying writes nothing: the disk may be read-only.
    let before = written(&served.data().join("journal"));
    text(&menagerie(&["journal", "verify", "--data", data]));
    assert_eq!(written(&served.data().join("journal")), before);
    let gone = menagerie(&["journal", "topics", "--data", data]);
    assert_eq!(gone.status.code(), Some(69));
    let elsewhere = tempfile::tempdir().expect("a temporary folder");
    let elsewhere = elsewhere.path().to_str().expect("its name is text");
    refuse_to_restore_what_is_no_backup(&file, elsewhere);
    text(&menagerie(&["journal", "restore", &file, "--data", elsewhere]));
    text(&menagerie(&["journal", "verify", "--data", elsewhere]));
    let again = menagerie(&["journal", "restore", &file, "--data", elsewhere]);
    assert_eq!(again.status.code(), Some(74));
    assert!(String::from_utf8_lossy(&again.stderr).contains("holds journal data already"));
    text(&menagerie(&["journal", "verify", "--data", elsewhere]));
    let args = ["journal", "--unregistered", "--listen", "127.0.0.1:0", "--data", elsewhere];
    let restored = Process::menagerie(args);
    restored.wait_until_listening("journal");
    let again = text(&menagerie(&["journal", "cat", "mail", "--data", elsewhere, "-o", "json"]));
    assert_eq!(again, cat);
}

/// A backup breaks off, here because a segment is shorter than recorded: the older backup stays intact.
#[test]
fn half_a_backup_does_not_replace_a_whole_one() {
    let served = Served::start();
    let client = served.client();
    runtime().block_on(async {
        client.create_topic(&topic(), TopicConfig::default()).await.expect("a topic");
        let message = NewMessage::new(vec![7; 1000]);
        client.commit(Commit::append(spot(1), message)).await.expect("appended");
    });
    let folder = served.data();
    let data = folder.to_str().expect("its name is text");
    let file = folder.join("backup");
    let command = ["journal", "backup", file.to_str().expect("its name is text"), "--data", data];
    text(&menagerie(&command));
    let whole = std::fs::read(&file).expect("it is there");
    for segment in std::fs::read_dir(folder.join("journal/segments")).expect("they are there") {
        let segment = std::fs::OpenOptions::new().write(true).open(segment.expect("a file").path());
        segment.and_then(|file| file.set_len(10)).expect("it can be cut");
    }
    let failed = menagerie(&command);
    let said = String::from_utf8_lossy(&failed.stderr);
    assert_eq!(failed.status.code(), Some(74), "{said}");
    assert!(said.contains("it broke off after") && said.contains(data), "{said}");
    assert!(std::fs::read(&file).expect("it is there") == whole, "the older one is as it was");
    assert!(!folder.join("backup.partial").exists());
}

/// Whatever is wrong with the file, the folder stays untouched: the right command works afterwards.
fn refuse_to_restore_what_is_no_backup(whole: &str, data: &str) {
    let bytes = std::fs::read(whole).expect("the backup is there");
    let (middle, end) = (bytes.len() / 2, bytes.len() - 1);
    let flipped = [&bytes[..end], &[bytes[end] ^ 1]].concat();
    let wrong = format!("{whole}.wrong");
    for (contents, reason) in [
        (None, "No such file".to_owned()),
        (Some(&b"short"[..]), "it ends after 5 bytes and is no backup of a journal".to_owned()),
        (Some(&[7; 1000][..]), "it is no backup of a journal".to_owned()),
        (Some(&bytes[..middle]), format!("damaged at byte {middle}: it ends there")),
        (Some(&bytes[..end]), format!("damaged at byte {end}: it ends there")),
        (Some(&flipped[..]), "it does not have its checksum".to_owned()),
    ] {
        if let Some(contents) = contents {
            std::fs::write(&wrong, contents).expect("a file can be written");
        }
        let refused = menagerie(&["journal", "restore", &wrong, "--data", data]);
        let said = String::from_utf8_lossy(&refused.stderr);
        assert_eq!(refused.status.code(), Some(74), "{said}");
        assert!(said.contains(&reason) && said.contains(&wrong), "{reason}: {said}");
        let nothing = menagerie(&["journal", "verify", "--data", data]);
        let said = String::from_utf8_lossy(&nothing.stderr);
        assert_eq!(nothing.status.code(), Some(74), "{said}");
        assert!(said.contains("there is no journal data in") && said.contains("--data"), "{said}");
    }
}

#[test]
fn up_runs_a_journal_and_registers_it() {
    let root = tempfile::tempdir().expect("a temporary folder");
    let data = root.path().to_str().expect("its name is text");
    let mut up = Process::menagerie(up(&["--data", data, "--open"]));
    let keeper = up.wait_until_listening("keeper");
    up.wait_until_listening("journal");
    let mut client = RawClient::open(keeper);
    let name = eventually("the journal to register", || {
        let found = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            children(&mut client, "/menagerie/components/journal")
        }));
        found.ok().filter(|found| found.len() == 1)?.pop()
    });
    let (component, _) =
        read_znode(&mut client, &format!("/menagerie/components/journal/{name}")).expect("it is listed");
    let [folder] = &children(&mut client, "/menagerie/journals")[..] else { panic!("one folder") };
    let folder = format!("/menagerie/journals/{folder}");
    let [start] = &children(&mut client, &folder)[..] else { panic!("one start") };
    let (entry, _) = read_znode(&mut client, &format!("{folder}/{start}")).expect("it is registered");
    let secret = std::fs::read_to_string(root.path().join("journal/token")).expect("it has a token");
    for told in [component, entry].map(|told| String::from_utf8(told).expect("text")) {
        assert!(told.contains(r#""name":"main""#), "{told}");
        assert!(!told.contains("token") && !told.contains(secret.trim()), "{told}");
    }
    assert!(text(&menagerie(&["journal", "stat", "--data", data])).contains("TOPICS"));
    assert_eq!(up.stop().status.code(), Some(0));
}
