//! Work that continues in the next term.

use std::sync::atomic::{AtomicUsize, Ordering};

use menagerie_kernel::{CallError, Term};
use menagerie_testkit::Proxy;

use crate::world::{SHORT, World};

/// Ends the ZooKeeper session.
async fn lose(term: &Term, proxy: &Proxy) {
    proxy.partition();
    term.lost().await;
    proxy.heal();
}

/// Waits for the end of the term, and fails with it.
async fn outlive(term: &Term) -> Result<u64, CallError> {
    term.lost().await;
    term.patient().stat("/").await.map(|_| term.number())
}

#[tokio::test]
async fn work_is_done_again_in_the_next_term() {
    let (session, proxy) = World::new("across").session_through_proxy(SHORT).await;
    let first = session.term();
    let work = session.across_terms(|term| async move {
        // The first term ends during the work; the second one answers.
        if term.number() == 1 { outlive(&term).await } else { term.stat("/").await.map(|_| term.number()) }
    });
    let (done, ()) = tokio::join!(work, lose(&first, &proxy));
    assert_eq!(done, Ok(2));
}

#[tokio::test]
async fn what_was_kept_is_still_there_in_the_next_term() {
    let (session, proxy) = World::new("term-by-term").session_through_proxy(SHORT).await;
    let first = session.term();
    let work = async {
        let mut been = Vec::new();
        let mut terms = session.term_by_term();
        loop {
            let term = terms.term();
            been.push(term.number());
            let outcome = if been.len() == 1 { outlive(&term).await } else { Ok(term.number()) };
            if let Some(outcome) = terms.finished(outcome).await {
                return (outcome, been);
            }
        }
    };
    let (done, ()) = tokio::join!(work, lose(&first, &proxy));
    assert_eq!(done, (Ok(2), vec![1, 2]));
}

#[tokio::test]
async fn error_that_does_not_end_the_term_is_the_callers() {
    let session = World::new("across-error").session().await;
    let attempts = AtomicUsize::new(0);
    let work = session.across_terms(|term| {
        attempts.fetch_add(1, Ordering::Relaxed);
        async move { term.get("/missing").await }
    });
    assert_eq!(work.await, Err(CallError::NoZnode { path: "/missing".to_owned() }));
    assert_eq!(attempts.into_inner(), 1);
}

#[tokio::test]
async fn work_ends_when_the_session_is_closed() {
    let session = World::new("across-closed").session().await;
    let other = session.clone();
    let work = other.across_terms(|term| async move { outlive(&term).await });
    let (done, ()) = tokio::join!(work, session.close());
    assert_eq!(done, Err(CallError::Closed));
}

#[tokio::test]
async fn work_ends_when_the_session_is_closed_between_two_terms() {
    let (session, proxy) = World::new("across-between").session_through_proxy(SHORT).await;
    let (other, first) = (session.clone(), session.term());
    let close = async {
        proxy.cut();
        first.lost().await;
        session.close().await;
        proxy.heal();
    };
    let work = other.across_terms(|term| async move { outlive(&term).await });
    let (done, ()) = tokio::join!(work, close);
    assert_eq!(done, Err(CallError::Closed));
}
