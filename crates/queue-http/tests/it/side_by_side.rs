//! Two servers agree.

use menagerie_queues::admin::{self, Change};
use menagerie_testkit::eventually_async;

use crate::site::{OTHER_KEY, Site};
use crate::world::World;

#[tokio::test(flavor = "multi_thread")]
async fn each_server_sees_what_the_other_acknowledged() {
    let world = World::new("http-two");
    let (one, two) = (Site::new(&world).await, Site::new(&world).await);
    let other = [("Authorization", &*format!("Application {OTHER_KEY}"))];
    for round in 0..20 {
        let queue = format!("/v1/notes/q{round}");
        one.queue(&format!("queue_name=q{round}")).await;
        two.post(&queue, 1, "first").await;
        assert_eq!(one.own("GET", &queue, "").await.bodies(), ["first"]);
        let wider = Change { partitions: Some(2), ..Change::default() };
        let name = format!("notes:q{round}").parse().unwrap();
        admin::change(&two.session, &world.journals(), &name, &wider).await.unwrap();
        one.post(&queue, 2, "second").await;
        assert_eq!(
            two.own("GET", &format!("{queue}?partitions=1,2"), "").await.bodies(),
            ["first", "second"]
        );
        assert_eq!(one.ask("GET", &queue, &[], b"").await.code, 403);
        assert_eq!(two.own("PUT", &queue, "type=public").await.code, 200);
        assert_eq!(one.ask("GET", &queue, &[], b"").await.code, 200);
        assert_eq!(one.own("PUT", &queue, "type=user&principles=app:other").await.code, 200);
        assert_eq!(two.ask("GET", &queue, &other, b"").await.code, 200);
        // Access is withdrawn once the watch fires.
        eventually_async("it is private again", async || {
            (two.ask("GET", &queue, &[], b"").await.code == 403).then_some(())
        })
        .await;
        assert_eq!(one.own("DELETE", &queue, "").await.code, 200);
        assert_eq!(two.own("POST", &queue, "late").await.code, 404);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn creating_a_queue_on_two_servers_at_once_creates_one() {
    let world = World::new("http-race");
    let (one, two) = (Site::new(&world).await, Site::new(&world).await);
    for round in 0..10 {
        let form = |partitions: u16| format!("queue_name=r{round}&partitions={partitions}");
        let (first, second) = (form(2), form(4));
        let made = tokio::join!(one.own("POST", "/v1/notes", &first), two.own("POST", "/v1/notes", &second));
        let codes = [made.0.code, made.1.code];
        // The first one decides how many partitions there are.
        assert!(codes == [201, 409] || codes == [409, 201], "{codes:?}");
        let last = if codes[0] == 201 { 2 } else { 4 };
        let id = two.post(&format!("/v1/notes/r{round}"), last, "x").await;
        let read = one.own("GET", &format!("/v1/notes/r{round}/{last}:{id}"), "").await;
        assert_eq!(read.bodies(), ["x"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_queue_recreated_with_fewer_partitions_is_so_on_both_servers() {
    let world = World::new("http-anew");
    let (one, two) = (Site::new(&world).await, Site::new(&world).await);
    let queue = "/v1/notes/mail";
    for round in 0..20 {
        one.queue("queue_name=mail&partitions=9").await;
        // The other server still caches nine.
        let last = two.post(queue, 9, "old").await;
        assert_eq!(one.own("DELETE", queue, "").await.code, 200);
        one.queue("queue_name=mail&partitions=1").await;
        let read = two.own("GET", &format!("{queue}?partitions=9,1"), "").await;
        assert!(read.bodies().is_empty(), "{round}");
        assert!(two.own("GET", &format!("{queue}/9:{last}"), "").await.bodies().is_empty(), "{round}");
        let posted = two.own("POST", queue, "new").await;
        assert_eq!((posted.code, &posted.json()["messages"][0]["partition"]), (201, &1.into()), "{round}");
        let refused = two.own_with("POST", queue, &[("X-Partition", "9")], b"x").await;
        assert_eq!(refused.reason("partition"), "9 is greater than maximum value 1");
        assert_eq!(one.own("GET", queue, "").await.bodies(), ["new"], "{round}");
        assert_eq!(two.own("DELETE", queue, "").await.code, 200);
    }
}
