//! The tree cache: it shows what is there, whatever happens on the way.

use std::collections::BTreeMap;

use menagerie_kernel::recipes::tree_cache::{Changed, Freshness, TreeCache};
use menagerie_kernel::session::{IfLate, Stat};
use menagerie_kernel::{CallError, Session, Term, Transaction, retry};
use menagerie_testkit::{Ensemble, OpCode, eventually_async};
use menagerie_znodes::{Dir, Kind, Raw, Znode};

use crate::world::{LONG, SHORT, World};

const ROOT: &str = "/tree";

fn start(session: &Session) -> TreeCache {
    TreeCache::start(session, &Znode::<Dir>::foreign(ROOT, Kind::Persistent))
}

async fn put(term: &Term, path: &str, data: &str) -> Stat {
    retry::ensure(term, path, b"").await.unwrap();
    retry::touch(term, path, data.as_bytes()).await.unwrap()
}

fn shown(cache: &TreeCache, path: &str) -> Option<String> {
    cache.get(path).map(|(data, _)| String::from_utf8(data.to_vec()).unwrap())
}

/// Waits until the cache shows this.
async fn shows(cache: &TreeCache, path: &str, data: Option<&str>) {
    let mut revision = cache.subscribe();
    let wait = async {
        while shown(cache, path).as_deref() != data {
            revision.changed().await.unwrap();
        }
    };
    let in_time = tokio::time::timeout(menagerie_testkit::DEADLINE, wait).await;
    assert!(in_time.is_ok(), "{path} shows {:?} and not {data:?}", shown(cache, path));
}

/// What the server has, and what the cache shows, as far as events tell of it.
async fn same(cache: &TreeCache, term: &Term) -> bool {
    term.sync("/").await.unwrap();
    let (mut server, mut cached) = (BTreeMap::new(), BTreeMap::new());
    let mut left = vec![ROOT.to_owned()];
    while let Some(path) = left.pop() {
        let (Ok((data, stat)), Ok(names)) = (term.get(&path).await, term.children(&path).await) else {
            continue;
        };
        left.extend(names.into_iter().map(|name| format!("{path}/{name}")));
        server.insert(path, (data, stat.czxid, stat.mzxid));
    }
    let mut left = vec![ROOT.to_owned()];
    while let Some(path) = left.pop() {
        let Some((data, stat)) = cache.get(&path) else { continue };
        left.extend(cache.children(&path).into_iter().map(|name| format!("{path}/{name}")));
        cached.insert(path, (data.to_vec(), stat.czxid, stat.mzxid));
    }
    server == cached && cache.len() == cached.len()
}

async fn becomes_same(cache: &TreeCache, term: &Term) {
    eventually_async("the cache shows what is there", async || same(cache, term).await.then_some(())).await;
}

async fn is(cache: &TreeCache, freshness: Freshness) {
    cache.freshness().wait_for(|now| *now == freshness).await.unwrap();
}

#[tokio::test]
async fn what_is_there_is_loaded_and_what_changes_is_followed() {
    let world = World::new("cache");
    let (session, other) = (world.session().await, world.session().await);
    let term = other.term();
    for (path, data) in [("/tree/a", "1"), ("/tree/a/x", "2"), ("/tree/b", "3"), ("/tree-2", "no")] {
        put(&term, path, data).await;
    }
    session.term().sync("/").await.unwrap();
    let cache = start(&session);
    cache.ready().await.unwrap();
    assert_eq!((cache.children(ROOT), cache.len()), (vec!["a".to_owned(), "b".to_owned()], 4));
    assert_eq!((shown(&cache, "/tree/a/x").as_deref(), shown(&cache, "/tree-2")), (Some("2"), None));
    let written = put(&term, "/tree/a", "new").await;
    shows(&cache, "/tree/a", Some("new")).await;
    assert_eq!(cache.get("/tree/a").unwrap().1.mzxid, written.mzxid);
    put(&term, "/tree/b/deep/er", "4").await;
    shows(&cache, "/tree/b/deep/er", Some("4")).await;
    retry::delete(&term, "/tree/a/x").await.unwrap();
    shows(&cache, "/tree/a/x", None).await;
    assert!(cache.children("/tree/a").is_empty());
    becomes_same(&cache, &term).await;
}

#[tokio::test]
async fn root_may_come_and_go() {
    let session = World::new("cache-root").session().await;
    let term = session.term();
    let cache = start(&session);
    cache.ready().await.unwrap();
    assert!(cache.is_empty());
    for round in ["first", "second"] {
        put(&term, "/tree/a", round).await;
        shows(&cache, "/tree/a", Some(round)).await;
        for path in ["/tree/a", ROOT] {
            retry::delete(&term, path).await.unwrap();
        }
        shows(&cache, ROOT, None).await;
        shows(&cache, "/tree/a", None).await;
    }
}

/// Some znodes, all at once.
async fn plant(term: &Term, dirs: usize, leaves: usize) {
    retry::ensure(term, ROOT, b"").await.unwrap();
    for dir in 0..dirs {
        let dir: Znode<Raw> = Znode::foreign(format!("{ROOT}/{dir}"), Kind::Persistent);
        let mut planting = Transaction::new(term).create(&dir, &Raw(Vec::new()));
        for leaf in 0..leaves {
            planting =
                planting.create(&dir.child(&leaf.to_string(), Kind::Persistent), &Raw(b"leaf".to_vec()));
        }
        planting.commit().await.unwrap();
    }
}

#[tokio::test]
async fn many_znodes_are_loaded_with_few_requests() {
    let world = World::new("cache-many");
    let (session, proxy) = world.session_through_proxy(LONG).await;
    let other = world.session().await;
    plant(&other.term(), 10, 400).await;
    session.term().sync("/").await.unwrap();
    proxy.take_requests();
    let cache = start(&session);
    cache.ready().await.unwrap();
    assert_eq!(cache.len(), 4_011);
    let (reads, lists) = (proxy.requests_of(OpCode::MultiRead), proxy.requests_of(OpCode::GetChildren));
    assert!(reads < 40 && lists == 11, "{reads} reads, {lists} lists");
    assert!(same(&cache, &other.term()).await);
}

#[tokio::test]
async fn storm_of_changes_ends_with_what_is_there() {
    let world = World::new("cache-storm");
    let (session, other) = (world.session().await, world.session().await);
    let term = &other.term();
    plant(term, 3, 3).await;
    let cache = start(&session);
    let changes = futures_util::future::join_all((0..8_usize).map(|who| async move {
        for round in 0..40 {
            let path = format!("{ROOT}/{}/{}", who % 3, (who + round) % 5);
            // The slower one fails, which does not matter.
            match (who + round) % 3 {
                0 => drop(term.create(&path, b"new", Kind::Persistent, IfLate::Report).await),
                1 => drop(term.set(&path, round.to_string().as_bytes(), None).await),
                _ => drop(term.delete(&path, None).await),
            }
        }
    }));
    tokio::join!(changes, async { cache.ready().await.unwrap() });
    becomes_same(&cache, term).await;
}

#[tokio::test]
async fn cut_connection_leaves_it_stale_until_all_is_read_again() {
    let world = World::new("cache-cut");
    let (session, proxy) = world.session_through_proxy(LONG).await;
    let other = world.session().await;
    let term = other.term();
    plant(&term, 2, 2).await;
    let cache = start(&session);
    cache.ready().await.unwrap();
    for round in ["first", "second"] {
        proxy.cut();
        is(&cache, Freshness::Stale).await;
        put(&term, "/tree/0/0", round).await;
        put(&term, "/tree/new/deep", round).await;
        let _ = term.delete("/tree/1/1", None).await;
        assert_ne!(shown(&cache, "/tree/0/0").as_deref(), Some(round));
        proxy.heal();
        cache.ready().await.unwrap();
        shows(&cache, "/tree/0/0", Some(round)).await;
        becomes_same(&cache, &term).await;
        // The watch is back, too.
        put(&term, "/tree/0/1", round).await;
        shows(&cache, "/tree/0/1", Some(round)).await;
    }
    assert_eq!(session.term().number(), 1);
}

#[tokio::test]
async fn connection_that_breaks_while_loading_does_no_harm() {
    let world = World::new("cache-loading");
    let (session, proxy) = world.session_through_proxy(LONG).await;
    let other = world.session().await;
    plant(&other.term(), 3, 100).await;
    session.term().sync("/").await.unwrap();
    for requests in 0..8 {
        proxy.cut_after(requests);
        let cache = start(&session);
        let heal = async {
            eventually_async("it is cut", async || {
                let live = matches!(*cache.freshness().borrow(), Freshness::Live);
                (proxy.is_cut() || live).then_some(())
            })
            .await;
            proxy.heal();
        };
        tokio::join!(heal, async { cache.ready().await.unwrap() });
        becomes_same(&cache, &other.term()).await;
    }
}

#[tokio::test]
async fn expired_session_is_followed_by_another_that_reads_everything() {
    let world = World::new("cache-expired");
    let (session, proxy) = world.session_through_proxy(SHORT).await;
    let other = world.session().await;
    let term = other.term();
    plant(&term, 2, 2).await;
    let cache = start(&session);
    cache.ready().await.unwrap();
    let mut changes = cache.changes();
    let old = session.term();
    proxy.partition();
    old.lost().await;
    is(&cache, Freshness::Stale).await;
    put(&term, "/tree/0/0", "meanwhile").await;
    retry::delete(&term, "/tree/1/0").await.unwrap();
    proxy.heal();
    shows(&cache, "/tree/0/0", Some("meanwhile")).await;
    shows(&cache, "/tree/1/0", None).await;
    cache.ready().await.unwrap();
    becomes_same(&cache, &term).await;
    put(&term, "/tree/0/1", "after").await;
    shows(&cache, "/tree/0/1", Some("after")).await;
    let mut told = Vec::new();
    while told.last() != Some(&"/tree/0/1".to_owned()) {
        match changes.next().await {
            Changed::At(path) => told.push(path.to_string()),
            other => panic!("{other:?}"),
        }
    }
    assert!(told.contains(&"/tree/0/0".to_owned()) && told.contains(&"/tree/1/0".to_owned()), "{told:?}");
}

#[tokio::test]
async fn restarted_servers_with_changes_meanwhile() {
    let mut servers = Ensemble::from_env().start_own();
    let world = World::on(&servers, "cache-restart");
    let (session, proxy) = world.session_through_proxy(LONG).await;
    let other = world.session().await;
    plant(&other.term(), 2, 2).await;
    let cache = start(&session);
    cache.ready().await.unwrap();
    proxy.cut();
    put(&other.term(), "/tree/0/0", "before").await;
    servers.restart_all();
    // Whether its session has survived is no matter here.
    let other = world.session().await;
    put(&other.term(), "/tree/0/1", "after").await;
    retry::delete(&other.term(), "/tree/1/1").await.unwrap();
    proxy.heal();
    shows(&cache, "/tree/0/1", Some("after")).await;
    cache.ready().await.unwrap();
    becomes_same(&cache, &other.term()).await;
    assert_eq!(shown(&cache, "/tree/0/0").as_deref(), Some("before"));
}

#[tokio::test]
async fn slow_listener_is_told_to_read_everything() {
    let session = World::new("cache-slow").session().await;
    let term = session.term();
    let cache = start(&session);
    cache.ready().await.unwrap();
    let mut changes = cache.changes();
    plant(&term, 4, 400).await;
    becomes_same(&cache, &term).await;
    assert_eq!(changes.next().await, Changed::Everything);
    put(&term, "/tree/0", "x").await;
    assert_eq!(changes.next().await, Changed::At("/tree/0".into()));
    drop(cache);
    assert_eq!(changes.next().await, Changed::Ended);
}

#[tokio::test]
async fn cache_of_a_closed_session_has_stopped_and_says_why() {
    let session = World::new("cache-closed").session().await;
    put(&session.term(), ROOT, "last").await;
    let cache = start(&session);
    cache.ready().await.unwrap();
    session.close().await;
    let mut freshness = cache.freshness();
    let stopped = freshness.wait_for(|now| matches!(now, Freshness::Stopped(_))).await.unwrap().clone();
    assert!(matches!(stopped, Freshness::Stopped(error) if error.source == CallError::Closed));
    assert!(cache.ready().await.is_err());
    assert_eq!(shown(&cache, ROOT).as_deref(), Some("last"));
}
