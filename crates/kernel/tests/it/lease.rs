//! The lease clock on a follower that is cut off from its leader: the follower goes on answering for a while, and those
//! answers must not extend the lease. Needs three servers, so it is compiled with the feature `apache`.

use std::time::Instant;

use menagerie_kernel::session::Change;
use menagerie_kernel::{Config, Session, retry};
use menagerie_testkit::Ensemble;

use crate::world::{LONG, SHORT};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn holder_on_a_cut_off_follower_stops_before_the_leader_gives_its_place_away() {
    let servers = Ensemble::Apache3.start_own();
    let (leader, follower) = (servers.leader(), servers.follower());
    let root = servers.fresh_path("lease");
    let config = |server, timeout| {
        let mut config = Config::new(format!("{}{root}", servers.address(server)), "/menagerie");
        config.timeout = timeout;
        config
    };
    let witness = Session::connect(config(leader, LONG)).await.unwrap();
    let holder = Session::connect(config(follower, SHORT)).await.unwrap();
    let term = holder.term();
    retry::create(&term, "/held", b"").await.unwrap();
    witness.term().sync("/").await.unwrap();
    let (_, gone) = witness.term().stat_watched("/held").await.unwrap();
    let gone = tokio::spawn(async move { (gone.changed().await, Instant::now()) });
    servers.cut_off(follower);
    term.lapsed().await;
    let lapsed = Instant::now();
    let (change, gone) = gone.await.unwrap();
    assert_eq!(change, Change::Deleted);
    assert!(lapsed < gone, "the holder stopped {:?} after its place was given away", lapsed - gone);
}
