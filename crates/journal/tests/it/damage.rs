//! Flips every byte of a small store, and truncates every file: damage is refused or reported, and nothing wrong is
//! read.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;
use menagerie_journal::store::verify::verify;
use menagerie_journal::{
    Append, Commit, Compression, Consumer, Edit, Fence, Journal, JournalError, Message, MessageId, Move,
    NewMessage, Read, Store, TopicConfig,
};

use crate::rig::{Rig, partition, topic};

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap()
}

/// A store with data of every kind, closed or abandoned.
async fn fill(store: &Store) {
    let partition_id = partition("mail", 1);
    let config = TopicConfig { dedup_window: Duration::from_secs(600), ..TopicConfig::default() };
    store.create_topic(&topic("mail"), config).await.unwrap();
    let (worker, fence) = (Consumer::new("worker").unwrap(), Fence::new(1, 7));
    store.open(&partition_id, &worker, fence).await.unwrap();
    let mut ids = Vec::new();
    for round in 0..3u8 {
        let message = |n: u8| NewMessage {
            dedup: Some(Bytes::from(vec![round, n])),
            ..NewMessage::new(vec![n.wrapping_mul(31) ^ round; 40])
        };
        let appends =
            (0..4).map(|n| Append { partition: partition_id.clone(), message: message(n) }).collect();
        let committed = store.commit(Commit { appends, ..Commit::default() }).await.unwrap();
        ids.extend(committed.appends.iter().map(|appended| appended.id().unwrap()));
        store.checkpoint().unwrap();
    }
    let commit = Commit {
        moves: vec![Move {
            partition: partition_id.clone(),
            consumer: worker,
            fence,
            from: None,
            position: ids[2],
        }],
        edits: vec![
            Edit::Remove { partition: partition_id.clone(), id: ids[1] },
            Edit::Replace { partition: partition_id.clone(), id: ids[5], message: NewMessage::new("edited") },
        ],
        ..Commit::default()
    };
    store.commit(commit).await.unwrap();
    store.checkpoint().unwrap();
    store.commit(Commit::append(partition_id, NewMessage::new("in the log only"))).await.unwrap();
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().flatten() {
        let target = to.join(entry.file_name());
        if entry.file_type().unwrap().is_dir() {
            copy(&entry.path(), &target);
        } else if entry.file_type().unwrap().is_file() {
            fs::copy(entry.path(), target).unwrap();
        }
    }
}

/// Files in which every byte matters.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap().flatten() {
        let name = entry.file_name().into_string().unwrap();
        if entry.file_type().unwrap().is_dir() {
            found.extend(files(&entry.path()));
        } else if !matches!(name.as_str(), "lock" | "token") && !name.starts_with("spare-") {
            found.push(entry.path());
        }
    }
    found
}

async fn read_all(store: &Store) -> Result<Vec<Message>, JournalError> {
    let (mut found, mut after) = (Vec::new(), MessageId::ZERO);
    loop {
        let batch = store.read(Read::after(partition("mail", 1), after)).await?;
        let Some(last) = batch.messages.last() else { return Ok(found) };
        after = last.id;
        found.extend(batch.messages);
    }
}

/// How the store had ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum End {
    Closed,
    Crashed,
}

/// Whatever was done to a file: the store refuses it, or does not return damaged data, and `verify` reports it. Only
/// the end of a log that was not closed may look like a write that a crash has cut: then its last message is missing.
fn check(rig: &Rig, whole: &[Message], end: End, name: &Path, what: &str) {
    let may_be_cut = end == End::Crashed && name.starts_with("log");
    let vouched = verify(&rig.config.data).is_ok_and(|report| report.damaged.is_empty());
    assert!(!vouched || may_be_cut, "{what}: nobody has noticed");
    let Ok(store) = rig.try_open() else { return };
    match runtime().block_on(read_all(&store)) {
        Ok(messages) if may_be_cut && messages.len() < whole.len() => {
            assert_eq!(messages, whole[..whole.len() - 1], "{what}: more than the last message is lost");
        }
        Ok(messages) => assert_eq!(messages, whole, "{what}: something else was read"),
        Err(error) => assert!(matches!(error, JournalError::Damaged(_)), "{what}: {error:?}"),
    }
}

fn damage_everything(end: End) {
    let mut rig = Rig::small();
    let whole = runtime().block_on(async {
        let store = rig.open();
        fill(&store).await;
        let whole = read_all(&store).await.unwrap();
        if end == End::Closed {
            store.close().unwrap();
        }
        whole
    });
    assert_eq!(whole.len(), 12);
    let pristine = rig.config.data.clone();
    assert!(verify(&pristine).unwrap().damaged.is_empty());
    let names: Vec<PathBuf> =
        files(&pristine).iter().map(|path| path.strip_prefix(&pristine).unwrap().to_owned()).collect();
    for name in names {
        let bytes = fs::read(pristine.join(&name)).unwrap();
        // Every byte of small files; only some of the log's files, where the log's own tests cover every byte.
        let step = if name.starts_with("log") { bytes.len() / 20 + 1 } else { 1 };
        for at in (0..bytes.len()).step_by(step) {
            let work = rig.folder.path().join("work");
            copy(&pristine, &work);
            rig.config.data.clone_from(&work);
            let mut changed = bytes.clone();
            changed[at] ^= 0x40;
            fs::write(work.join(&name), &changed).unwrap();
            check(&rig, &whole, end, &name, &format!("byte {at} of {} flipped", name.display()));
            fs::remove_dir_all(&work).unwrap();
            if at.is_multiple_of(7) {
                copy(&pristine, &work);
                fs::write(work.join(&name), &bytes[..at]).unwrap();
                check(&rig, &whole, end, &name, &format!("{} cut at {at}", name.display()));
                fs::remove_dir_all(&work).unwrap();
            }
        }
    }
}

#[test]
fn every_flipped_or_cut_byte_of_a_closed_store_is_noticed() {
    damage_everything(End::Closed);
}

#[test]
fn every_flipped_or_cut_byte_of_a_crashed_store_is_noticed_or_at_the_end_of_its_log() {
    damage_everything(End::Crashed);
}

/// Three blocks of two messages; the second one is damaged.
async fn damage_the_second_of_three(rig: &Rig) -> Vec<MessageId> {
    let store = rig.open();
    let config = TopicConfig { compression: Compression::None, ..TopicConfig::default() };
    store.create_topic(&topic("mail"), config).await.unwrap();
    let mut ids = Vec::new();
    for text in ["first", "second", "third"] {
        for _ in 0..2 {
            let committed =
                store.commit(Commit::append(partition("mail", 1), NewMessage::new(text))).await.unwrap();
            ids.push(committed.appends[0].id().unwrap());
        }
        store.checkpoint().unwrap();
    }
    store.close().unwrap();
    for path in files(&rig.config.data.join("segments")) {
        let mut bytes = fs::read(&path).unwrap();
        if let Some(at) = bytes.windows(6).position(|window| window == b"second") {
            bytes[at] ^= 1;
            fs::write(&path, bytes).unwrap();
        }
    }
    ids
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_around_a_damaged_block_is_read_and_the_block_can_be_stepped_over() {
    let rig = Rig::small();
    let partition_id = partition("mail", 1);
    let ids = damage_the_second_of_three(&rig).await;
    let store = rig.open();
    // Without replaced messages, and beside them.
    for round in 0..2 {
        let read = async |read: Read| {
            let batch = store.read(read).await?;
            Ok::<_, JournalError>(batch.messages.iter().map(|message| message.id).collect::<Vec<_>>())
        };
        let all = Read::after(partition_id.clone(), MessageId::ZERO);
        assert_eq!(read(all.clone()).await.unwrap(), ids[..2], "round {round}");
        let backwards = read(all.clone().descending()).await.unwrap();
        assert_eq!(backwards, [ids[5], ids[4]], "round {round}");
        for blocked in
            [Read::after(partition_id.clone(), ids[1]), Read { before: ids[4], ..all.clone() }.descending()]
        {
            let refused = read(blocked).await.unwrap_err();
            let JournalError::Damaged(what) = &refused else { panic!("{refused:?}") };
            let named = [ids[2], ids[3]].iter().all(|id| what.contains(&id.to_string()));
            assert!(named, "round {round}: {what}");
        }
        assert_eq!(read(Read::after(partition_id.clone(), ids[3])).await.unwrap(), ids[4..], "round {round}");
        let edits = [0, 5].map(|nth| Edit::Replace {
            partition: partition_id.clone(),
            id: ids[nth],
            message: NewMessage::new("replaced"),
        });
        store.commit(Commit { edits: edits.into(), ..Commit::default() }).await.unwrap();
    }
}

#[test]
fn what_a_crash_has_left_half_written_is_removed() {
    let rig = Rig::small();
    runtime().block_on(async { fill(&rig.open()).await });
    let left = ["snapshot-00000000000000ff.new", "ids-00000000000000ff.new", "format.new"];
    left.iter().for_each(|name| fs::write(rig.config.data.join(name), b"half").unwrap());
    rig.open().close().unwrap();
    for name in left {
        assert!(!rig.config.data.join(name).exists(), "{name} is left");
    }
}

#[test]
fn what_a_crash_has_left_and_cannot_be_removed_is_in_nobodys_way() {
    let rig = Rig::small();
    runtime().block_on(async { fill(&rig.open()).await });
    // Not even root can remove a folder as a file.
    let left = ["segments/00000099-00000000", "ids-0000000000000000", "format.new"];
    left.iter().for_each(|name| fs::create_dir(rig.config.data.join(name)).unwrap());
    rig.open().close().unwrap();
}
