//! Connections are lost, peers and coordinators are cut off: the counts are exact all the same.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use menagerie_flows::JobId;
use menagerie_flows::client::{Ended, Progress};
use menagerie_kernel::Session;
use menagerie_testkit::{LONG, Proxy, SHORT, eventually_async};

use crate::world::World;

/// Between two losses of all connections to the journal.
const LOSS_INTERVAL: Duration = Duration::from_millis(20);
/// How often connections are lost at the most: a job must be able to end.
const LOSSES: usize = 30;

/// Commits are in flight when their connection is lost: some have happened, some have not, and nobody knows which.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn commits_whose_answers_are_lost_happen_once() {
    let mut world = World::new("lost-answers");
    let once = world.write_words("a.jsonl", 20_000, 500);
    let mut job = world.diamond();
    job.catalog.iter_mut().for_each(|entry| entry.batch_size = 20);
    let (journals, proxy) = world.journals_through_proxy();
    let session = world.session().await;
    let coordinator = world.coordinator(&session, world.journals()).await;
    let peers = world.peers(3, &journals).await;
    let id = world.submit(&session, &job).await;
    assert_eq!(wait_while_losing(&world, &session, &id, &proxy).await, Ended::Complete);
    assert_eq!(world.counts(), once.into_iter().map(|(word, count)| (word, 2 * count)).collect());
    drop((coordinator, peers));
}

/// Waits for the end of a job while connections to the journal are lost again and again.
async fn wait_while_losing(world: &World, session: &Session, id: &JobId, proxy: &Proxy) -> Ended {
    let lose = async {
        let mut pace = tokio::time::interval(LOSS_INTERVAL);
        for _ in 0..LOSSES {
            pace.tick().await;
            proxy.lose_connections();
        }
        std::future::pending::<()>().await;
    };
    tokio::select! {
        ended = world.wait(session, id) => ended,
        () = lose => unreachable!(),
    }
}

/// The lengths that commits record of a file cover lines of both links: one that is lost must not be followed by the next.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lines_from_two_links_are_written_once_though_answers_are_lost() {
    let mut world = World::new("two-links");
    let lines: Vec<String> = (0..10_000).map(|n| format!("{{\"n\":{n}}}")).collect();
    world.write("a.jsonl", lines.clone());
    let pass =
        |name| format!("[[catalog]]\nname = \"{name}\"\ntype = \"transformer\"\nbuiltin = \"identity\"\n");
    let workflow = r#"[["read", "a"], ["read", "b"], ["a", "write"], ["b", "write"]]"#;
    let mut job = world.job(workflow, &(pass("a") + &pass("b")));
    job.catalog.iter_mut().for_each(|entry| entry.batch_size = 5);
    let (journals, proxy) = world.journals_through_proxy();
    let session = world.session().await;
    let coordinator = world.coordinator(&session, world.journals()).await;
    let peers = world.peers(4, &journals).await;
    let id = world.submit(&session, &job).await;
    assert_eq!(wait_while_losing(&world, &session, &id, &proxy).await, Ended::Complete);
    let mut counts = BTreeMap::<String, u32>::new();
    world.written().into_iter().for_each(|line| *counts.entry(line).or_default() += 1);
    assert_eq!(counts, lines.into_iter().map(|line| (line, 2)).collect());
    drop((coordinator, peers));
}

/// Submits a word count, and stops its data until `fault` has happened.
async fn count_with_fault(world: &World, journal: &Proxy, fault: impl AsyncFnOnce()) -> Ended {
    let session = world.session().await;
    let id = world.submit(&session, &world.word_count()).await;
    let (tell, at_work) = tokio::sync::oneshot::channel();
    let mut tell = Some(tell);
    journal.partition();
    let jobs = world.jobs(&session);
    let report = |progress: &Progress| {
        if matches!(progress, Progress::Running { peers: 3.., .. })
            && let Some(tell) = tell.take()
        {
            let _ = tell.send(());
        }
    };
    let disturb = async {
        at_work.await.unwrap();
        fault().await;
        journal.heal();
        std::future::pending::<()>().await;
    };
    tokio::select! {
        ended = jobs.wait(&id, report) => ended.unwrap(),
        () = disturb => unreachable!(),
    }
}

/// It can still reach the journal, and works on what others have meanwhile: its fence is old.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_peer_that_is_cut_off_from_zookeeper_alone_changes_nothing_any_more() {
    let mut world = World::new("cut-off-peer");
    let expected = world.write_words("a.jsonl", 20_000, 500);
    let (journals, journal) = world.journals_through_proxy();
    let (its_journals, its_journal) = world.journals_through_proxy();
    let session = world.session().await;
    let coordinator = world.coordinator(&session, world.journals()).await;
    let (cut_off, zookeeper) = world.session_through_proxy(SHORT).await;
    let lonely = world.peer(cut_off, its_journals).await;
    let peers = world.peers(2, &journals).await;
    // What it has sent is on its way, and arrives when others have its share.
    its_journal.hold_requests();
    let tree = world.deployment();
    let ended = count_with_fault(&world, &journal, async || {
        zookeeper.partition();
        eventually_async("its session has ended", async || {
            let pulses = session.term().children(tree.pulses().path()).await.unwrap();
            (pulses.len() == 2).then_some(())
        })
        .await;
        its_journal.heal();
    });
    assert_eq!(ended.await, Ended::Complete);
    assert_eq!(world.counts(), expected);
    drop((coordinator, lonely, peers));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stand_by_goes_on_where_the_leader_was_cut_off() {
    let mut world = World::new("cut-off-leader");
    let expected = world.write_words("a.jsonl", 20_000, 500);
    let (journals, journal) = world.journals_through_proxy();
    let (leading, zookeeper) = world.session_through_proxy(SHORT).await;
    let leader = world.coordinator(&leading, world.journals()).await;
    let session = world.session().await;
    let stand_by = world.coordinator(&session, world.journals()).await;
    let peers = world.peers(3, &journals).await;
    let ended = count_with_fault(&world, &journal, async || zookeeper.partition());
    assert_eq!(ended.await, Ended::Complete);
    assert_eq!(world.counts(), expected);
    drop((leader, stand_by, peers));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_is_stopped_hands_over_before_its_session_would_end() {
    let mut world = World::new("handing-over");
    let expected = world.write_words("a.jsonl", 2_000, 100);
    let (journals, journal) = world.journals_through_proxy();
    let sessions = [world.session().await, world.session().await];
    let leader = world.coordinator(&sessions[0], world.journals()).await;
    let stand_by = world.coordinator(&sessions[1], world.journals()).await;
    let mut peers = world.peers(3, &journals).await;
    let leaving = peers.swap_remove(0);
    let begun = Instant::now();
    let ended = count_with_fault(&world, &journal, async || {
        leader.stop().await;
        leaving.stop().await;
    });
    assert_eq!(ended.await, Ended::Complete);
    assert_eq!(world.counts(), expected);
    assert!(begun.elapsed() < LONG, "nobody waited for the end of a session");
    drop((stand_by, peers));
}
