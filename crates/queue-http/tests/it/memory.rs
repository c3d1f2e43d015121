//! The memory budget of requests in flight.

use std::net::SocketAddr;

use menagerie_queue_http::service::Options;
use menagerie_testkit::eventually_async;
use tokio::io::AsyncWriteExt as _;
use tokio::net::{TcpSocket, TcpStream};

use crate::site::{KEY, OTHER_KEY, Site};
use crate::world::World;

const QUEUE: &str = "/v1/notes/mail";
const ROOM: usize = 1 << 20;
/// So little is buffered for a client that does not read.
const RECEIVE_BUFFER: u32 = 64 << 10;

/// Sends the first `bytes` of a body that never ends.
async fn unfinished(address: SocketAddr, bytes: usize) -> TcpStream {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let length = bytes + 1;
    let head = format!(
        "POST {QUEUE} HTTP/1.1\r\nHost: queue\r\nAuthorization: Application {KEY}\r\nContent-Length: {length}\r\n\r\n"
    );
    // The server may refuse it on the way.
    let _ = stream.write_all(&[head.as_bytes(), &vec![b'x'; bytes]].concat()).await;
    stream
}

#[tokio::test(flavor = "multi_thread")]
async fn bodies_in_flight_count_and_one_key_leaves_memory_to_others() {
    let world = World::new("http-memory");
    let options = Options { in_flight_bytes_max: Some(ROOM), ..Options::default() };
    let site = Site::start(&world, world.journals(), options).await;
    site.queue("queue_name=mail").await;
    let other = format!("Application {OTHER_KEY}");
    let other = [("Authorization", other.as_str())];
    assert_eq!(site.ask("POST", "/v1/other", &other, b"queue_name=mail").await.code, 201);
    let body = vec![b'y'; ROOM * 3 / 10];
    let held = eventually_async("what is held stands in the way", async || {
        let held = unfinished(site.address, ROOM * 4 / 10).await;
        let refused = site.own_with("POST", QUEUE, &[], &body).await;
        // Otherwise it has not arrived yet, or was itself refused.
        (refused.code == 503).then_some((held, refused))
    });
    let (held, refused) = held.await;
    assert!(refused.head.to_lowercase().contains("retry-after: 1"), "{}", refused.head);
    assert!(refused.reason("busy").contains("come again"));
    let others = site.ask("POST", "/v1/other/mail", &other, &body).await;
    assert_eq!(others.code, 201, "a key has no more than half of the budget");
    drop(held);
    eventually_async("there is memory again", async || {
        (site.own_with("POST", QUEUE, &[], &body).await.code == 201).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn replies_that_nobody_reads_count_and_the_only_request_is_never_refused() {
    let world = World::new("http-memory-answers");
    let options = Options { in_flight_bytes_max: Some(ROOM), ..Options::default() };
    let site = Site::start(&world, world.journals(), options).await;
    site.queue("queue_name=mail").await;
    // More than the budget, and together more than sockets buffer for a client that does not read.
    let large = vec![b'x'; 9 << 20];
    for _ in 0..3 {
        assert_eq!(site.own_with("POST", QUEUE, &[], &large).await.code, 201);
    }
    assert_eq!(site.own("GET", &format!("{QUEUE}?limit=1"), "").await.bodies()[0].len(), large.len());
    let ask = format!("GET {QUEUE} HTTP/1.1\r\nHost: queue\r\nAuthorization: Application {KEY}\r\n\r\n");
    // Kernels may let a receive buffer grow to 32 MiB: a size that was asked for stays.
    let idle = TcpSocket::new_v4().unwrap();
    idle.set_recv_buffer_size(RECEIVE_BUFFER).unwrap();
    let mut idle = idle.connect(site.address).await.unwrap();
    idle.write_all(ask.as_bytes()).await.unwrap();
    let mut status = [0; 12];
    assert_eq!(idle.peek(&mut status).await.unwrap(), status.len());
    assert_eq!(&status, b"HTTP/1.1 200");
    let refused = site.own("GET", &format!("{QUEUE}?limit=1"), "").await;
    assert_eq!(refused.code, 503, "an answer that nobody takes stands in the way");
    drop(idle);
    eventually_async("there is memory again", async || {
        (site.own("GET", QUEUE, "").await.code == 200).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn reading_by_id_is_truncated_at_the_limit_of_a_reply() {
    let world = World::new("http-memory-ids");
    let site = Site::new(&world).await;
    site.queue("queue_name=mail&type=public").await;
    let large = vec![b'x'; 9 << 20];
    let posted = site.own_with("POST", QUEUE, &[], &large).await.json();
    let id = posted["messages"][0]["key"].as_str().unwrap();
    // Anybody can ask for the same message as often as a request has ids.
    let picked = site.ask("GET", &format!("{QUEUE}/{}", vec![id; 1_000].join(",")), &[], b"").await;
    assert!(picked.head.contains("x-truncated: true"), "{}", picked.head);
    assert_eq!(picked.bodies().len(), 4);
}
