//! Requests that change hands, and results whose replies are lost.

use std::cell::RefCell;

use menagerie_pipelines::requests::{Answer, Claim, Consumer, Handling};
use menagerie_testkit::{LONG, OpCode, SHORT, eventually_async};
use menagerie_znodes::pipelines::{Id, JobQueue, MergeResult, Outcome, Params, RequestState, TipsParams};
use tokio::sync::Notify;
use tokio::task::LocalSet;

use crate::stage::{Stage, name};

const QUEUE: JobQueue = JobQueue::Merger;

/// A request whose parameters do not matter.
async fn request(stage: &Stage, precedence: u32) -> Id {
    let params = Params::Tips(TipsParams { buildset: name("buildset"), wanted: Vec::new() });
    stage.request(QUEUE, precedence, params).await
}

fn answer(claim: &Claim) -> Answer {
    let request = claim.id().clone();
    Answer::Outcome(Outcome::Tips { request, buildset: name("buildset"), tips: Ok(Vec::new()) })
}

fn never() -> impl Future<Output = ()> {
    std::future::pending()
}

#[tokio::test]
async fn a_dead_mergers_request_is_done_again_and_its_own_result_is_dropped() {
    let stage = Stage::new("requests-taken-over").await;
    let local = LocalSet::new();
    local
        .run_until(async {
            let (session, proxy) = stage.session_through_proxy(SHORT).await;
            let dying = Consumer::start(&session, QUEUE, "dying").await.unwrap();
            let (go_on, has_finished) = (Notify::new(), Notify::new());
            let work = async |claim: Claim, _| {
                go_on.notified().await;
                let request = claim.id().clone();
                let result = MergeResult::Failed { message: "from the dead".into() };
                let outcome = Outcome::Merge { request, buildset: name("buildset"), result };
                claim.finish(Answer::Outcome(outcome)).await;
                has_finished.notify_one();
                Handling::Done
            };
            let patchset = stage.propose("topic", "file", "text\n");
            let id = stage.request(QUEUE, 200, stage.merge_params("topic", &patchset, None)).await;
            let test = async {
                stage.wait_for_state(QUEUE, &id, RequestState::Running).await;
                assert_eq!(stage.holders(QUEUE, &id).await, ["dying"]);
                let _merger = stage.merger(stage.session().await, "heir").await;
                assert_eq!(stage.outcomes().await, [], "the holder lives");
                proxy.partition();
                let outcomes = stage.wait_for_outcomes(1).await;
                assert_eq!(stage.state(QUEUE, &id).await.unwrap().worker.unwrap().name, "heir");
                proxy.heal();
                go_on.notify_one();
                has_finished.notified().await;
                assert_eq!(stage.outcomes().await, outcomes);
                let [Outcome::Merge { result: MergeResult::Merged { .. }, .. }] = &outcomes[..] else {
                    panic!("{outcomes:?}")
                };
            };
            tokio::select! {
                ended = dying.run(1, never(), work) => ended.unwrap(),
                () = test => {}
            }
        })
        .await;
}

#[tokio::test]
async fn a_result_whose_reply_is_lost_is_put_once() {
    let stage = Stage::new("requests-lost-reply").await;
    let (session, proxy) = stage.session_through_proxy(LONG).await;
    let consumer = Consumer::start(&session, QUEUE, "one").await.unwrap();
    // The first transaction of the consumer takes the request, the second one finishes it.
    proxy.drop_reply_of(OpCode::Multi);
    let id = request(&stage, 200).await;
    let has_finished = Notify::new();
    let work = async |claim: Claim, _| {
        assert_eq!(proxy.dropped_replies(), 1);
        proxy.drop_reply_of(OpCode::Multi);
        let answer = answer(&claim);
        claim.finish(answer).await;
        has_finished.notify_one();
        Handling::Done
    };
    tokio::select! {
        ended = consumer.run(1, never(), work) => ended.unwrap(),
        () = has_finished.notified() => {}
    }
    assert_eq!(proxy.dropped_replies(), 2);
    assert_eq!((stage.outcomes().await.len(), stage.holders(QUEUE, &id).await), (1, vec![]));
    assert_eq!(stage.state(QUEUE, &id).await.unwrap().state, RequestState::Completed);
}

#[tokio::test]
async fn requests_are_taken_by_precedence_and_age_within_the_room_there_is() {
    let stage = Stage::new("requests-order").await;
    let mut ids = Vec::new();
    for precedence in [300, 100, 200, 100] {
        ids.push(request(&stage, precedence).await);
    }
    let session = stage.session().await;
    let consumer = Consumer::start(&session, QUEUE, "one").await.unwrap();
    let taken = RefCell::new(Vec::new());
    let work = async |claim: Claim, _| {
        taken.borrow_mut().push(claim.id().clone());
        let answer = answer(&claim);
        claim.finish(answer).await;
        Handling::Done
    };
    tokio::select! {
        ended = consumer.run(1, never(), work) => ended.unwrap(),
        _ = stage.wait_for_outcomes(4) => {}
    }
    let order: Vec<usize> =
        taken.borrow().iter().map(|id| ids.iter().position(|other| other == id).unwrap()).collect();
    assert_eq!(order, [1, 3, 2, 0]);
}

#[tokio::test]
async fn consumers_share_requests_and_each_is_done_once() {
    const COUNT: usize = 40;
    let stage = Stage::new("requests-shared").await;
    let (one, other) = (stage.session().await, stage.session().await);
    let one = Consumer::start(&one, QUEUE, "one").await.unwrap();
    let other = Consumer::start(&other, QUEUE, "other").await.unwrap();
    let work = async |claim: Claim, _| {
        let answer = answer(&claim);
        claim.finish(answer).await;
        Handling::Done
    };
    let test = async {
        let mut ids = Vec::new();
        for _ in 0..COUNT {
            ids.push(request(&stage, 200).await);
        }
        stage.wait_for_outcomes(COUNT).await;
        for id in &ids {
            stage.wait_for_state(QUEUE, id, RequestState::Completed).await;
            eventually_async("nobody holds it", async || {
                stage.holders(QUEUE, id).await.is_empty().then_some(())
            })
            .await;
        }
    };
    tokio::select! {
        ended = one.run(4, never(), work) => ended.unwrap(),
        ended = other.run(4, never(), work) => ended.unwrap(),
        () = test => {}
    }
    assert_eq!(stage.outcomes().await.len(), COUNT);
}
