//! What users see of the links of a job.

use menagerie_flows::client::Ended;
use menagerie_flows::view::{EdgeView, JobView, Standing};
use menagerie_journal::{Append, Commit, Journal as _, NewMessage, PartitionId, Topic};
use menagerie_journal_directory::Journals;
use menagerie_testkit::eventually_async;

use crate::world::World;

/// From, to, and batches that wait.
fn lags(view: &JobView) -> Vec<(u32, u32, Option<u64>)> {
    view.edges.iter().map(|edge| (edge.from, edge.to, edge.lag)).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn links_show_what_waits_in_them_while_the_job_runs_and_the_journal_answers() {
    let world = World::new("links");
    world.write_words("a.jsonl", 100, 10);
    let session = world.session().await;
    let (jobs, journals) = (world.jobs(&session), world.journals());
    let id = world.submit(&session, &world.diamond()).await;
    let mut early = jobs.show(&id).await.unwrap();
    jobs.measure(&journals, &id, &mut early).await.unwrap();
    assert_eq!(early.edges, [], "it is not planned yet");
    let coordinator = world.coordinator(&session, journals.clone()).await;
    // There is no peer, so it runs until it is killed.
    let running = eventually_async("it runs", async || {
        Some(jobs.show(&id).await.unwrap()).filter(|view| view.job.state == Standing::Running)
    })
    .await;
    let topic = Topic::new(format!("flow:{id}:1-2")).unwrap();
    let batch = |partition| Append {
        partition: PartitionId::new(topic.clone(), partition),
        message: NewMessage::new(vec![0; 100]),
    };
    let appends = vec![batch(1), batch(1), batch(3)];
    world.journal.store().commit(Commit { appends, ..Commit::default() }).await.unwrap();
    let mut view = running.clone();
    jobs.measure(&journals, &id, &mut view).await.unwrap();
    let expected = [(1, 2, Some(3)), (1, 3, Some(0)), (2, 4, Some(0)), (3, 4, Some(0)), (4, 5, Some(0))];
    assert_eq!(lags(&view), expected);
    let EdgeView { partitions, lag_bytes, is_held_back, written_ms, .. } = view.edges[0];
    assert_eq!((partitions, is_held_back), (16, Some(false)));
    // The journal adds a little to each.
    assert!(lag_bytes.is_some_and(|bytes| (300..1_000).contains(&bytes)), "{lag_bytes:?}");
    assert!(written_ms >= view.job.submitted_ms, "{written_ms:?}");
    let mut away = running.clone();
    jobs.measure(&Journals::from([]), &id, &mut away).await.unwrap();
    assert_eq!(away, running, "without the journal, the rest is shown");
    jobs.kill(&id).await.unwrap();
    assert_eq!(world.wait(&session, &id).await, Ended::Killed);
    let mut ended = jobs.show(&id).await.unwrap();
    jobs.measure(&journals, &id, &mut ended).await.unwrap();
    assert_eq!(ended.edges, running.edges, "its links are deleted");
    drop(coordinator);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn peers_of_a_task_are_named() {
    let mut world = World::new("named-peers");
    world.write_words("a.jsonl", 1_000, 10);
    let session = world.session().await;
    let (journals, journal) = world.journals_through_proxy();
    let coordinator = world.coordinator(&session, world.journals()).await;
    let peers = world.peers(1, &journals).await;
    // It can take a task, and not go on with it.
    journal.partition();
    let id = world.submit(&session, &world.word_count()).await;
    let jobs = world.jobs(&session);
    let task = eventually_async("a peer works", async || {
        let view = jobs.show(&id).await.unwrap();
        view.tasks.into_iter().find(|task| !task.workers.is_empty())
    })
    .await;
    let worker = &task.workers[0];
    assert_eq!((task.number, task.peers.as_slice()), (1, [worker.state].as_slice()));
    assert_eq!(worker.host.as_deref(), Some("test"));
    assert!(!worker.peer.is_empty() && worker.since_ms > 0);
    journal.heal();
    assert_eq!(world.wait(&session, &id).await, Ended::Complete);
    drop((coordinator, peers));
}
