//! Backups, while the journal goes on.

use menagerie_journal::store::backup::restore;
use menagerie_journal::{Commit, Journal, MessageId, NewMessage, Read, TopicConfig};
use menagerie_testkit::eventually;

use crate::rig::{Rig, partition, topic};

#[tokio::test(flavor = "multi_thread")]
async fn what_is_removed_while_a_backup_is_written_is_in_it_and_goes_then() {
    let rig = Rig::small();
    let store = rig.open();
    let partition_id = partition("mail", 1);
    let config = TopicConfig { compression: menagerie_journal::Compression::None, ..TopicConfig::default() };
    store.create_topic(&topic("mail"), config).await.unwrap();
    for number in 0..100 {
        let message = NewMessage { dedup: Some(vec![number].into()), ..NewMessage::new(vec![number; 1000]) };
        store.commit(Commit::append(partition_id.clone(), message)).await.unwrap();
    }
    let backup = store.backup().unwrap();
    let segments = || std::fs::read_dir(rig.config.data.join("segments")).unwrap().count();
    let before = segments();
    assert!(before > 5);
    store.delete_topic(&topic("mail")).await.unwrap();
    store.checkpoint().unwrap();
    store.checkpoint().unwrap();
    let file = rig.folder.path().join("backup");
    backup.write(&mut std::fs::File::create(&file).unwrap()).unwrap();
    assert_eq!(std::fs::metadata(&file).unwrap().len(), backup.bytes());
    drop(backup);
    eventually("what nobody needs to go", || (segments() < before && segments() <= 1).then_some(()));
    store.close().unwrap();
    let mut elsewhere = rig;
    elsewhere.config.data = elsewhere.folder.path().join("restored");
    restore(&file, &elsewhere.config.data).unwrap();
    let batch = elsewhere.open().read(Read::after(partition_id, MessageId::ZERO)).await.unwrap();
    assert_eq!(batch.messages.len(), 100);
}

#[test]
fn what_is_restored_is_another_folder_that_knows_where_it_comes_from() {
    let mut rig = Rig::small();
    let mut before = Vec::new();
    for round in 0..3 {
        let store = rig.open();
        let folder = store.identity().folder;
        store.note_start().unwrap();
        assert!(!before.contains(&folder));
        assert_eq!(store.lineage().unwrap().continues, before, "newest first");
        before.insert(0, folder);
        let file = rig.folder.path().join(format!("backup-{round}"));
        let backup = store.backup().unwrap();
        backup.write(&mut std::fs::File::create(&file).unwrap()).unwrap();
        drop(backup);
        store.close().unwrap();
        drop(store);
        assert_eq!(rig.open().identity().folder, folder, "it keeps its own");
        rig.config.data = rig.folder.path().join(format!("restored-{round}"));
        // Leftovers of a folder without data do not matter.
        std::fs::create_dir(&rig.config.data).unwrap();
        std::fs::copy(rig.folder.path().join("journal/identity"), rig.config.data.join("identity")).unwrap();
        restore(&file, &rig.config.data).unwrap();
    }
    assert_eq!(rig.open().lineage().unwrap().starts, [], "nobody knows of any");
}
