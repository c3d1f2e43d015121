//! Backups, while the journal goes on.

use menagerie_journal::store::backup::restore;
use menagerie_journal::{Commit, Journal, MessageId, NewMessage, Read, TopicConfig};
use menagerie_testkit::eventually;

use crate::rig::{Rig, partition, topic};

#[tokio::test(flavor = "multi_thread")]
async fn what_is_removed_while_a_backup_is_written_is_in_it_and_goes_then() {
    let rig = Rig::small();
    let store = rig.open();
    let spot = partition("mail", 1);
    let config = TopicConfig { compression: menagerie_journal::Compression::None, ..TopicConfig::default() };
    store.create_topic(&topic("mail"), config).await.unwrap();
    for number in 0..100 {
        let message = NewMessage { dedup: Some(vec![number].into()), ..NewMessage::new(vec![number; 1000]) };
        store.commit(Commit::append(spot.clone(), message)).await.unwrap();
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
    let batch = elsewhere.open().read(Read::after(spot, MessageId::ZERO)).await.unwrap();
    assert_eq!(batch.messages.len(), 100);
}
