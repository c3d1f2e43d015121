//! No file descriptors left: what needs one is refused with the true reason, and resumes when there are some.

use menagerie_journal::{
    Client, Commit, Consumer, Fence, Journal, JournalError, MessageId, StateWrite, TopicConfig,
};
use menagerie_testkit::eventually;
use rustix::process::{Pid, Resource, Rlimit, prlimit};

use super::full::{append, append_all, assert_all_there};
use super::{Served, runtime, spot, topic};

/// Limits the journal's open files; open ones stay open. Returns the former limit.
fn allow(served: &Served, files: Option<u64>) -> Option<u64> {
    let journal = Pid::from_raw(served.process.id().try_into().expect("it is small"));
    // Only the soft limit: without privileges the hard one cannot be raised again.
    let maximum = rustix::process::getrlimit(Resource::Nofile).maximum;
    prlimit(journal, Resource::Nofile, Rlimit { current: files, maximum }).expect("it is ours").current
}

/// Writes state, which grows only the log, until that is refused.
async fn write_states(client: &Client, consumer: &Consumer, fence: Fence) -> JournalError {
    for round in 0..10_000u32 {
        let value = Some(vec![round as u8; 60_000].into());
        let state =
            StateWrite { partition: spot(1), consumer: consumer.clone(), fence, key: "k".into(), value };
        if let Err(error) = client.commit(Commit { states: vec![state], ..Commit::default() }).await {
            return error;
        }
    }
    panic!("the log needs no other file");
}

#[test]
fn without_files_to_open_it_refuses_with_that_reason_and_resumes() {
    let mut served = Served::start();
    let client = served.client();
    let runtime = runtime();
    let (consumer, fence) = (Consumer::new("worker").expect("a name"), Fence::new(1, 1));
    let mut ids: Vec<MessageId> = Vec::new();
    runtime.block_on(async {
        client.create_topic(&topic(), TopicConfig::default()).await.expect("a topic");
        client.open(&spot(1), &consumer, fence).await.expect("it is there");
        ids.push(append(&client, 0).await.expect("there are files"));
    });
    let before = allow(&served, Some(0));
    runtime.block_on(async {
        let error = append_all(&client, &mut ids).await;
        assert_eq!(error, JournalError::OutOfFiles);
        assert!(error.help().contains("ulimit -n"), "{}", error.help());
        assert_eq!(write_states(&client, &consumer, fence).await, JournalError::OutOfFiles);
        assert_all_there(&client, &ids).await;
    });
    assert!(served.process.try_wait().is_none(), "it goes on");
    allow(&served, before);
    for _ in 0..100 {
        ids.push(eventually("it resumes", || runtime.block_on(append(&client, ids.len() as u64)).ok()));
    }
    runtime.block_on(assert_all_there(&client, &ids));
    served.crash();
    runtime.block_on(assert_all_there(&served.client(), &ids));
}
