//! A journal within the test.

use std::net::TcpStream;

use menagerie_journal::{Commit, Journal as _, MessageId, NewMessage, PartitionId, Read, Topic, TopicConfig};
use menagerie_testkit::LocalJournal;

#[tokio::test(flavor = "multi_thread")]
async fn a_restarted_journal_has_its_messages_and_its_clients() {
    let mut journal = LocalJournal::new();
    let mail = Topic::new("mail").unwrap();
    journal.store().create_topic(&mail, TopicConfig::default()).await.unwrap();
    let partition = PartitionId::new(mail, 1);
    let append = |body: &'static str| Commit::append(partition.clone(), NewMessage::new(body));
    journal.store().commit(append("one")).await.unwrap();
    journal.restart();
    assert!(TcpStream::connect(journal.address()).is_err(), "nobody serves it yet");
    journal.serve();
    let client = journal.client();
    client.commit(append("two")).await.unwrap();
    journal.stop_serving();
    assert!(TcpStream::connect(journal.address()).is_err());
    journal.serve();
    journal.restart();
    let messages = client.read(Read::after(partition.clone(), MessageId::ZERO)).await.unwrap().messages;
    let bodies: Vec<&[u8]> = messages.iter().map(|message| &message.body[..]).collect();
    assert_eq!(bodies, [b"one", b"two"]);
}
