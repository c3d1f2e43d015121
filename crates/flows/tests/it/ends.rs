//! Jobs that do not complete: they fail, are killed, or are refused; nobody else is disturbed.

use menagerie_flows::FlowError;
use menagerie_flows::client::Ended;
use menagerie_flows::view::Standing;
use menagerie_testkit::eventually_async;

use crate::world::World;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_line_that_is_no_object_fails_its_job_by_name_and_the_next_job_is_done() {
    let world = World::new("bad-line");
    let path = world.write("a.jsonl", ["{\"word\": \"a\"}", "", "[1, 2]"].map(str::to_owned));
    let session = world.session().await;
    let coordinator = world.coordinator(&session, world.journals()).await;
    let peers = world.peers(2, &world.journals()).await;
    let bad = world.submit(&session, &world.word_count()).await;
    let Ended::Failed(why) = world.wait(&session, &bad).await else { panic!("it cannot be done") };
    assert_eq!(why, format!("task \"read\": {}:3: JSON, but no object", path.display()));
    let expected = world.write_words("a.jsonl", 500, 20);
    let good = world.submit(&session, &world.word_count()).await;
    assert_eq!(world.wait(&session, &good).await, Ended::Complete);
    assert_eq!(world.counts(), expected);
    let list = world.jobs(&session).list().await.unwrap();
    assert_eq!(list.iter().map(|job| job.state).collect::<Vec<_>>(), [Standing::Complete, Standing::Failed]);
    drop((coordinator, peers));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_is_killed_before_and_after_it_is_planned_and_not_twice() {
    let world = World::new("kill");
    world.write_words("a.jsonl", 100, 10);
    let (session, job) = (world.session().await, world.word_count());
    let jobs = world.jobs(&session);
    let early = world.submit(&session, &job).await;
    jobs.kill(&early).await.unwrap();
    let coordinator = world.coordinator(&session, world.journals()).await;
    assert_eq!(world.wait(&session, &early).await, Ended::Killed);
    // There is no peer, so it runs until it is killed.
    let running = world.submit(&session, &job).await;
    eventually_async("it runs", async || {
        (jobs.show(&running).await.unwrap().job.state == Standing::Running).then_some(())
    })
    .await;
    jobs.kill(&running).await.unwrap();
    assert_eq!(world.wait(&session, &running).await, Ended::Killed);
    eventually_async("its topics are deleted", async || world.topics().await.is_empty().then_some(())).await;
    let again = jobs.kill(&running).await;
    assert!(matches!(again, Err(FlowError::Ended { state: "killed", .. })), "{again:?}");
    drop(coordinator);
}

/// Whoever deletes the folder of a job gives it away: nothing that is there now is overwritten.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_whose_folder_is_given_away_fails_and_overwrites_nothing() {
    let world = World::new("given-away");
    world.write_words("a.jsonl", 100, 10);
    let session = world.session().await;
    let id = world.submit(&session, &world.word_count()).await;
    let precious = world.give_away_output("part-00001.jsonl");
    let coordinator = world.coordinator(&session, world.journals()).await;
    let peers = world.peers(1, &world.journals()).await;
    let Ended::Failed(why) = world.wait(&session, &id).await else { panic!("it must not be complete") };
    assert!(why.starts_with("task \"write\": ") && why.contains("not the job's any more"), "{why}");
    assert_eq!(std::fs::read_to_string(precious).unwrap(), "precious");
    drop((coordinator, peers));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_whose_files_are_gone_is_refused_and_leaves_no_topic() {
    let world = World::new("refused");
    let session = world.session().await;
    let coordinator = world.coordinator(&session, world.journals()).await;
    let id = world.submit(&session, &world.word_count()).await;
    let Ended::Refused(why) = world.wait(&session, &id).await else { panic!("there is no file") };
    assert!(why.starts_with("no file matches "), "{why}");
    assert_eq!(world.topics().await, Vec::<String>::new());
    drop(coordinator);
}
