//! The verbs of all ensembles.

use std::time::Duration;

use menagerie_testkit::{DEADLINE, Ensemble, RawClient};
use menagerie_wire::Request;

use crate::ask::{create, exists};

#[test]
fn an_ensemble_serves_again_after_all_that_can_happen_to_it() {
    let mut servers = Ensemble::from_env().start_own();
    let path = servers.fresh_path("verbs");
    let client = |servers: &menagerie_testkit::Servers| RawClient::open(servers.address(servers.leader()));
    create(&mut client(&servers), &format!("{path}/a"), 0);

    let killed = servers.kill_leader();
    create(&mut client(&servers), &format!("{path}/b"), 0);
    servers.restart(killed);
    assert!(exists(&mut RawClient::open(servers.address(killed)), &format!("{path}/b")));

    servers.restart_all();
    let mut client = client(&servers);
    assert!(exists(&mut client, &format!("{path}/a")));

    servers.pause();
    client.send(&Request::Ping);
    assert_eq!(client.reply(Duration::from_millis(150)), None);
    servers.resume();
    assert!(client.reply(DEADLINE).is_some());
    assert_eq!(servers.connect_string().split(',').count(), servers.addresses().len());
}
