//! Words are counted exactly, whatever the shape of the job.

use std::collections::BTreeMap;

use menagerie_flows::client::Ended;
use menagerie_flows::view::Standing;
use menagerie_testkit::eventually_async;
use menagerie_znodes::flows::{PeerState, newest_state};

use crate::world::World;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn words_of_several_files_are_counted_and_nothing_is_left_of_the_job_in_the_journal() {
    let world = World::new("words");
    let mut expected = world.write_words("a.jsonl", 5_000, 300);
    world.write("b.jsonl", [String::new()]);
    for (word, count) in world.write_words("c.jsonl", 3_000, 700) {
        *expected.entry(word).or_default() += count;
    }
    let session = world.session().await;
    let coordinator = world.coordinator(&session, world.journals()).await;
    let peers = world.peers(3, &world.journals()).await;
    let id = world.submit(&session, &world.word_count()).await;
    assert_eq!(world.wait(&session, &id).await, Ended::Complete);
    assert_eq!(world.counts(), expected);
    let view = world.jobs(&session).show(&id).await.unwrap();
    assert_eq!((view.job.state, view.job.complete, view.tasks.len()), (Standing::Complete, 4, 4));
    assert_eq!(view.tasks[0].partitions, 3, "an input has no more partitions than files");
    eventually_async("its topics are deleted", async || world.topics().await.is_empty().then_some(())).await;
    drop((coordinator, peers));
}

/// A lane with two links into its task commits steps of both: one that is lost must not be hidden by the next.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_aggregator_behind_two_groupers_counts_what_comes_from_both() {
    let world = World::new("diamond");
    let once = world.write_words("a.jsonl", 4_000, 250);
    let twice: BTreeMap<String, u64> = once.into_iter().map(|(word, count)| (word, 2 * count)).collect();
    let job = world.diamond();
    let session = world.session().await;
    let coordinator = world.coordinator(&session, world.journals()).await;
    let peers = world.peers(2, &world.journals()).await;
    let id = world.submit(&session, &job).await;
    assert_eq!(world.wait(&session, &id).await, Ended::Complete);
    assert_eq!(world.counts(), twice);
    drop((coordinator, peers));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn segments_arrive_to_the_letter_and_peers_are_idle_afterwards() {
    let world = World::new("letter");
    let lines = [
        r#"{"z":1,"a":12345678901234567890123456789.10,"n":{"b":null,"a":[]}}"#,
        r#"{"text":"\u00e9 é \n","empty":{}}"#,
    ];
    world.write("a.jsonl", lines.map(|line| format!("  {line} ")));
    let pass = "[[catalog]]\nname = \"pass\"\ntype = \"transformer\"\nbuiltin = \"identity\"\n";
    let job = world.job(r#"[["read", "pass"], ["pass", "write"]]"#, pass);
    let session = world.session().await;
    let coordinator = world.coordinator(&session, world.journals()).await;
    let peers = world.peers(1, &world.journals()).await;
    let id = world.submit(&session, &job).await;
    assert_eq!(world.wait(&session, &id).await, Ended::Complete);
    assert_eq!(world.written(), lines);
    let states = history(&world, &session).await;
    use PeerState::{Acking, Active, Idle, Sealing};
    let expected = [[Idle].as_slice(), &[Acking, Active, Sealing, Idle].repeat(3)].concat();
    assert_eq!(states, expected, "three tasks, one after the other");
    drop((coordinator, peers));
}

/// The states of the only peer, as the tree has them.
async fn history(world: &World, session: &menagerie_kernel::Session) -> Vec<PeerState> {
    let (term, tree) = (session.term(), world.deployment());
    let peers = term.children(tree.peer_histories().path()).await.unwrap();
    let peer = menagerie_znodes::Name::new(&*peers[0]).unwrap();
    let names = term.children(tree.peer_history(&peer).path()).await.unwrap();
    let mut states = Vec::new();
    for number in 1..=newest_state(&names).unwrap() {
        states.push(term.read(&tree.peer_state(&peer, number)).await.unwrap().unwrap().value.state);
    }
    states
}
