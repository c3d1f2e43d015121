//! Deleting messages while others do something with them.

use std::time::Duration;

use menagerie_journal::{
    Edit, Journal as _, JournalError, MessageId, NewMessage, PartitionId, Read, Ticks, Topic,
};
use menagerie_queues::Origin;
use menagerie_queues::admin::{Destination, Putter};
use menagerie_testkit::LONG;
use serde_json::{Value, json};

use crate::site::Site;
use crate::watched::Watched;

const QUEUE: &str = "/v1/notes/mail";

fn partition() -> PartitionId {
    PartitionId::new(Topic::new("notes:mail").unwrap(), 1)
}

async fn post(site: &Site, bodies: &[&str]) -> Vec<String> {
    let mut ids = Vec::new();
    for body in bodies {
        ids.push(site.post(QUEUE, 1, body).await);
    }
    ids
}

async fn bodies(site: &Site) -> Vec<String> {
    site.own("GET", QUEUE, "").await.bodies()
}

async fn state(site: &Site, id: &str) -> Value {
    site.own("GET", &format!("{QUEUE}/messages/{id}"), "").await.json()["message"]["state"].clone()
}

/// Whether the story of a message says that somebody deleted it.
async fn is_noted(site: &Site, id: &str) -> bool {
    let found = site.own("GET", &format!("{QUEUE}/messages/{id}"), "").await;
    found.code == 200 && String::from_utf8_lossy(&found.body).contains("\"deleted\"")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_is_gone_meanwhile_does_not_keep_others_from_being_deleted() {
    let (_world, journal, site) = Watched::world("http-delete-gone").await;
    let ids = post(&site, &["a", "b", "c"]).await;
    journal.before_commit(|store, commit| {
        let edits = commit.edits.clone();
        Box::pin(async move {
            // As if the queue had dropped the first.
            if let Some(Edit::Remove { partition, id }) = edits.first() {
                store.trim(partition, *id).await?;
            }
            Ok(())
        })
    });
    let deleted = site.own("DELETE", &format!("{QUEUE}/{}", ids.join(",")), "").await;
    assert_eq!(deleted.code, 200, "{deleted:?}");
    assert!(bodies(&site).await.is_empty());
    assert!(is_noted(&site, &ids[1]).await && is_noted(&site, &ids[2]).await);
    assert!(!is_noted(&site, &ids[0]).await, "we have not deleted it");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_that_falls_due_while_it_is_deleted_is_deleted() {
    let (world, journal, site) = Watched::world("http-delete-due").await;
    let due = Some(Ticks::now().plus(Duration::from_secs(2)));
    let queue = "notes:mail".parse().unwrap();
    let mut putter =
        Putter::open(&site.session, &world.journals(), &queue, 0, Origin::library()).await.unwrap();
    let message = NewMessage { due, ..NewMessage::new("late") };
    let put = putter.put(vec![(Destination::Partition(1), message)]).await.unwrap().remove(0);
    let id = put.id.unwrap().hex();
    assert_eq!(state(&site, &id).await, "delayed");
    journal.before_commit(|store, commit| {
        let cancels = commit.edits.iter().any(|edit| matches!(edit, Edit::Cancel { .. }));
        Box::pin(async move {
            if cancels {
                let read = Read::after(partition(), MessageId::ZERO).wait(LONG);
                assert_eq!(store.read(read).await?.messages.len(), 1, "it is due");
            }
            Ok(())
        })
    });
    assert_eq!(site.own("DELETE", &format!("{QUEUE}/{id}"), "").await.code, 200);
    assert!(bodies(&site).await.is_empty());
    assert_eq!(state(&site, &id).await, "forgotten");
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_are_deleted_from_a_journal_that_is_full() {
    let (_world, journal, site) = Watched::world("http-delete-full").await;
    for (body, full) in [("a", JournalError::DiskFull), ("b", JournalError::Quota { used: 2, quota: 1 })] {
        journal.before_commit(|_, _| Box::pin(async { Ok(()) }));
        let ids = post(&site, &[body]).await;
        journal.refuse_appends(full);
        assert_eq!(site.own("POST", QUEUE, "x").await.code, 500, "it is full");
        assert_eq!(site.own("DELETE", &format!("{QUEUE}/{}", ids[0]), "").await.code, 200);
        assert!(bodies(&site).await.is_empty());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn deleting_from_a_queue_that_is_deleted_meanwhile_says_so() {
    let (_world, journal, site) = Watched::world("http-delete-queue").await;
    let ids = post(&site, &["a"]).await;
    journal.before_commit(|store, _| {
        Box::pin(async move { store.delete_topic(&partition().topic).await.map(drop) })
    });
    let deleted = site.own("DELETE", &format!("{QUEUE}/{}", ids[0]), "").await;
    assert_eq!(deleted.code, 404, "{deleted:?}");
    assert_eq!(deleted.json()["error_msg"], json!({"InvalidQueueName": "Queue of that name was not found."}));
}
