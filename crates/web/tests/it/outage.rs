//! ZooKeeper or the journal away: said plainly, healed by itself.

use menagerie_kernel::session::IfLate;
use menagerie_testkit::{SHORT, eventually_async};
use menagerie_znodes::Kind;

use crate::site::{Site, start};
use crate::viewer::Viewer;
use crate::world::World;

#[tokio::test(flavor = "multi_thread")]
async fn while_zookeeper_is_away_everything_says_so_and_then_goes_on() {
    let world = World::new("web-cut");
    let (session, proxy) = world.session_through_proxy(SHORT).await;
    let server = start(&session, world.journals(), 10).await;
    let site = Site::with(world, session, server).await;
    site.pool("deploy", &[]).await;
    let mut api = Viewer::open(site.address(), "/api/v1/slots").await;
    let mut page = Viewer::open(site.address(), "/slots").await;
    let (value, _) = (api.expect("value").await, page.expect("page").await);

    let alive = site.session.term().create("/alive", b"", Kind::Ephemeral, IfLate::Undo).await.unwrap();

    proxy.partition();
    for viewer in [&mut api, &mut page] {
        let stale = viewer.expect("stale").await.json();
        assert!(
            stale["since_ms"].as_u64().unwrap() > 0 && !stale["why"].as_str().unwrap().is_empty(),
            "{stale}"
        );
    }
    let refused = site.ask("GET", "/api/v1/slots", &[], b"").await;
    assert!(!refused.problem(503).is_empty());
    let shown = site.ask("GET", "/slots", &[], b"").await;
    assert!(shown.code == 503 && shown.text().contains("<h1>Not available now</h1>"), "{shown:?}");
    assert_eq!(site.ask("GET", "/healthz", &[], b"").await.code, 200);
    // Whether a token is valid cannot be said now, so nothing is changed with it.
    let refused = site.post("/slots/deploy/freeze", "{}").await;
    refused.problem(503);
    // Long enough for the session to end: the server goes on in another one.
    let elsewhere = site.world.session().await;
    eventually_async("the session has expired", async || {
        elsewhere.term().stat(&alive.path).await.unwrap().is_none().then_some(())
    })
    .await;
    menagerie_slots::admin::set_max(&elsewhere, &"deploy".parse().unwrap(), 7, None, "a test").await.unwrap();

    proxy.heal();
    let mut told = Vec::new();
    let changed = loop {
        let event = api.next().await.unwrap();
        told.push(event.name.clone());
        if event.name == "value" {
            break event;
        }
    };
    assert!(told.contains(&"fresh".to_owned()), "{told:?}");
    assert_eq!(changed.json()["items"][0]["view"]["max"], 7);
    assert_ne!(changed.id, value.id);
    eventually_async("tokens are known again", async || {
        (site.post("/slots/deploy/freeze", "{}").await.code == 200).then_some(())
    })
    .await;
}
