//! Live values: what comes, when, how often, and what does not.

use std::time::{Duration, Instant};

use menagerie_kernel::retry;
use menagerie_testkit::{LONG, eventually_async};
use menagerie_web::access::token::{self, Hash};

use crate::site::{Site, create_token, start};
use crate::viewer::Viewer;
use crate::world::World;

const POOL: &str = "/api/v1/slots/deploy";

async fn freeze(site: &Site, reason: &str) {
    let body = format!("{{\"reason\":\"{reason}\"}}");
    site.post("/slots/deploy/freeze", &body).await.value();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_value_comes_at_once_a_change_within_a_second_and_nothing_twice() {
    let site = Site::new("web-stream").await;
    site.pool("deploy", &[]).await;
    let mut viewer = Viewer::open(site.address(), POOL).await;
    let first = viewer.expect("value").await;
    assert_eq!(first.json(), site.get("/slots/deploy").await.value());
    let mut ids = vec![first.id.unwrap()];
    let mut times = Vec::new();
    for number in 0..5 {
        let began = Instant::now();
        let reason = number.to_string();
        freeze(&site, &reason).await;
        // A look between two writes of the same change may see the first of them.
        loop {
            let event = viewer.expect("value").await;
            assert!(!ids.contains(event.id.as_ref().unwrap()), "{event:?} has come before");
            ids.push(event.id.clone().unwrap());
            if event.json()["frozen"]["reason"] == reason.as_str() {
                break;
            }
        }
        times.push(began.elapsed());
    }
    // A busy machine may be slow once or twice.
    assert!(times.iter().min() < Some(&Duration::from_secs(1)), "{times:?}");
    // Pages are the same, as what is between header and footer.
    let mut page = Viewer::open(site.address(), "/slots/deploy").await;
    let shown = page.expect("page").await;
    assert!(
        shown.data.starts_with("<h1>Pool") && shown.data.contains("<p class=\"problem\">Frozen"),
        "{shown:?}"
    );
    freeze(&site, "again").await;
    assert!(page.expect("page").await.data.contains("again"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_resumed_stream_says_what_is_new_alone_on_any_server_of_this_version() {
    let site = Site::new("web-resume").await;
    site.pool("deploy", &[]).await;
    let mut first = Viewer::open(site.address(), POOL).await;
    let id = first.expect("value").await.id.unwrap();
    let other = start(&site.world.session().await, site.journals(), 10).await;
    for address in [site.address(), other.address] {
        // Another viewer has the value that the resumed one knows, so it is there to be sent.
        let mut beside = Viewer::open(address, POOL).await;
        let mut resumed = Viewer::resume(address, POOL, &id).await;
        let known = beside.expect("value").await;
        assert_eq!(known.id.as_deref(), Some(id.as_str()), "the same value has the same id everywhere");
        assert_eq!(resumed.next_within(Duration::from_millis(400)).await, None, "{address}");
        site.pool("other", &[]).await;
        freeze(&site, "x").await;
        let changed = resumed.expect("value").await;
        assert!(!changed.json()["frozen"].is_null(), "{changed:?}");
        // A value that went and came back is no news for those who know it.
        site.post("/slots/deploy/thaw", "{}").await.value();
        let back = resumed.expect("value").await;
        assert!(back.json()["frozen"].is_null(), "{back:?}");
        assert_eq!(back.id.as_deref(), Some(id.as_str()));
    }
    for foreign in ["0.0000000000000000", "nonsense", "", "caf\u{e9}.x", &"x".repeat(5_000)] {
        let mut viewer = Viewer::resume(site.address(), POOL, foreign).await;
        assert!(viewer.expect("reload").await.json()["why"].is_string());
        assert_eq!(viewer.expect("value").await.id.as_deref(), Some(id.as_str()), "{foreign}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn many_viewers_of_an_address_cost_as_many_reads_as_one() {
    let world = World::new("web-shared");
    let (session, proxy) = world.session_through_proxy(LONG).await;
    let server = start(&session, world.journals(), 100).await;
    let site = Site::with(world, session, server).await;
    site.pool("deploy", &[]).await;
    let count = || proxy.take_requests().values().sum::<usize>();
    count();
    site.ask("GET", POOL, &[], b"").await.value();
    let one = count();
    let mut viewers = Vec::new();
    for _ in 0..30 {
        viewers.push(Viewer::open(site.address(), POOL).await);
    }
    for viewer in &mut viewers {
        viewer.expect("value").await;
    }
    count();
    let began = Instant::now();
    // Over another connection, so the write is not among what is counted.
    let elsewhere = site.world.session().await;
    let pool = "deploy".parse().unwrap();
    menagerie_slots::admin::set_max(&elsewhere, &pool, 7, None, "a test").await.unwrap();
    for viewer in &mut viewers {
        assert_eq!(viewer.expect("value").await.json()["max"], 7);
    }
    // Reads are 150 ms apart at least; heartbeats come in between.
    let reads = began.elapsed().as_millis() as usize / 150 + 3;
    let counted = count();
    assert!(counted <= reads * (one + 1), "{counted} requests by 30 viewers, {one} by one");
    drop(viewers);
    // As long as two reads are apart.
    let mut quiet_polls = 0;
    eventually_async("nobody watches, and nothing is read", async || {
        quiet_polls = if count() == 0 { quiet_polls + 1 } else { 0 };
        (quiet_polls >= 60).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_viewer_that_does_not_read_keeps_nobody_waiting_and_misses_all_but_the_newest() {
    let site = Site::new("web-lazy").await;
    let (path, term) = ("/large", site.session.term());
    retry::ensure(&term, path, b"").await.unwrap();
    let address = "/api/v1/znodes?path=/large";
    let mut lazy = Viewer::open(site.address(), address).await;
    let mut eager = Viewer::open(site.address(), address).await;
    eager.expect("value").await;
    // More than sockets have room for: what is not taken is not kept either.
    const CHANGES: usize = 20;
    for number in 0..CHANGES {
        let data = format!("{number} {}", "\u{1}".repeat(60 << 10));
        term.set(path, data.as_bytes(), None).await.unwrap();
        let value = eager.expect("value").await.json();
        assert!(value["data"].as_str().unwrap().starts_with(&format!("{number} ")));
    }
    term.set(path, b"last", None).await.unwrap();
    eager.expect("value").await;
    let mut seen = 0;
    loop {
        let value = lazy.expect("value").await.json();
        if value["data"] == "last" {
            break;
        }
        seen += 1;
    }
    assert!(seen < CHANGES, "all {seen} were kept for it");
}

#[tokio::test(flavor = "multi_thread")]
async fn more_streams_than_there_may_be_are_refused_until_others_end() {
    let world = World::new("web-full");
    let session = world.session().await;
    let server = start(&session, world.journals(), 3).await;
    let site = Site::with(world, session, server).await;
    site.pool("deploy", &[]).await;
    let mut open = Vec::new();
    for path in [POOL, "/slots", "/api/v1/slots"] {
        open.push(Viewer::open(site.address(), path).await);
    }
    for viewer in &mut open {
        viewer.next().await.unwrap();
    }
    let refused = Viewer::try_open(site.address(), POOL, &[]).await.err().unwrap();
    assert!(refused.problem(503).contains("streams"), "{refused:?}");
    assert!(refused.header("retry-after").is_some(), "{refused:?}");
    assert_eq!(site.page("/slots").await.code, 200, "everything else is served");
    open.pop();
    let mut viewer = eventually_async("there is room again", async || {
        Viewer::try_open(site.address(), POOL, &[]).await.ok()
    })
    .await;
    viewer.expect("value").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_of_what_is_gone_says_so_and_goes_on_when_it_is_back() {
    let site = Site::new("web-gone").await;
    let mut viewer = Viewer::open(site.address(), POOL).await;
    assert_eq!(viewer.expect("gone").await.json()["status"], 404);
    site.pool("deploy", &[]).await;
    viewer.expect("fresh").await;
    assert_eq!(viewer.expect("value").await.json()["pool"], "deploy");
    menagerie_slots::admin::delete(&site.session, &"deploy".parse().unwrap()).await.unwrap();
    let gone = loop {
        // While it is deleted, parts of it are missing.
        let event = viewer.next().await.unwrap();
        if event.name == "gone" {
            break event;
        }
    };
    assert_eq!(gone.json()["status"], 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_ends_with_the_token_that_has_opened_it() {
    let site = Site::new("web-stream-revoked").await;
    site.pool("deploy", &[]).await;
    let read = create_token(&site.session, &["slots:read"]).await;
    let bearer = format!("Bearer {read}");
    let headers = [("Authorization", bearer.as_str())];
    let refused = Viewer::try_open(site.address(), "/api/v1/queues", &headers).await.err().unwrap();
    refused.problem(403);
    let mut viewer = Viewer::open_with(site.address(), POOL, &headers).await;
    viewer.expect("value").await;
    token::revoke(&site.session, &Hash::of(&read).id()).await.unwrap();
    eventually_async("it is refused", async || {
        (site.ask("GET", POOL, &headers, b"").await.code == 401).then_some(())
    })
    .await;
    freeze(&site, "secret").await;
    assert_eq!(viewer.next().await, None, "it is told nothing more");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_stops_ends_its_streams_at_once() {
    let site = Site::new("web-stop").await;
    site.pool("deploy", &[]).await;
    let mut viewers = Vec::new();
    for path in [POOL, "/slots", "/"] {
        let mut viewer = Viewer::open(site.address(), path).await;
        viewer.next().await.unwrap();
        viewers.push(viewer);
    }
    let began = Instant::now();
    site.server.stop.send(()).unwrap();
    for mut viewer in viewers {
        while viewer.next().await.is_some() {}
    }
    site.server.served.await.unwrap().unwrap();
    assert!(began.elapsed() < Duration::from_secs(10), "before the next heartbeat: {:?}", began.elapsed());
}
