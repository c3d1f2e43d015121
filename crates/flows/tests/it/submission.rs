//! Jobs that come as data, without a file of their own.

use menagerie_flows::client::Ended;
use menagerie_flows::submission::{SubmissionError, Submitted, submit_value};
use menagerie_types::Explain as _;

use crate::world::World;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_same_job_under_the_same_id_is_one_job() {
    let world = World::new("same-id");
    let expected = world.write_words("a.jsonl", 500, 20);
    let session = world.session().await;
    let (jobs, job) = (world.jobs(&session), world.word_count().to_value());
    let submit = async || submit_value(&jobs, Some("nightly"), &job).await;
    // Sent at once, as by somebody who is impatient: one of them is the first.
    let both = tokio::join!(submit(), submit());
    let (Submitted::Now(id) | Submitted::Before(id)) = both.0.unwrap();
    both.1.unwrap();
    assert_eq!(submit().await, Ok(Submitted::Before(id.clone())));
    let coordinator = world.coordinator(&session, world.journals()).await;
    let peers = world.peers(1, &world.journals()).await;
    assert_eq!(world.wait(&session, &id).await, Ended::Complete);
    assert_eq!(world.counts(), expected);
    assert_eq!(submit().await, Ok(Submitted::Before(id.clone())), "also when it has ended");
    assert_eq!(jobs.list().await.unwrap().len(), 1);
    let other = submit_value(&jobs, Some("nightly"), &world.diamond().to_value()).await;
    assert_eq!(other, Err(SubmissionError::Taken { id }));
    drop((coordinator, peers));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_job_that_is_refused_leaves_nothing_behind() {
    let world = World::new("refused-submission");
    let session = world.session().await;
    let (jobs, mut job) = (world.jobs(&session), world.word_count().to_value());
    let refuse = async |job: &serde_json::Value| submit_value(&jobs, None, job).await.unwrap_err();
    let error = refuse(&job).await;
    assert!(error.to_string().starts_with("catalog[0].path: no file matches "), "{error}");
    world.write_words("a.jsonl", 10, 2);
    let whole = job["catalog"][1]["path"].clone();
    job["catalog"][1]["path"] = "out".into();
    let error = refuse(&job).await;
    assert_eq!(
        (error.to_string().as_str(), &*error.help(), error.exit_code()),
        (
            "catalog[1].path: the path out is relative, and there is no folder where it begins",
            "write the whole path, from / on",
            2
        )
    );
    job["catalog"][1]["path"] = whole;
    assert_eq!(jobs.list().await.unwrap(), []);
    let first = submit_value(&jobs, None, &job).await.unwrap();
    let error = refuse(&job).await;
    let Submitted::Now(first) = first else { panic!("{first:?}") };
    assert!(error.to_string().ends_with(&format!("is in use by job {first}")), "{error}");
    assert_eq!(jobs.list().await.unwrap().len(), 1);
}
