//! When a snapshot may be started.

use super::rig::Rig;
use crate::shell::server::Finished;

#[test]
fn next_snapshot_waits_until_the_last_one_is_in_place() {
    let mut server = Rig::new().server;
    assert!(server.may_capture());
    server.capturing = true;
    assert!(!server.may_capture(), "one is being written");
    server.capturing = false;
    server.finished = Some(Finished { path: "snapshot.new".into(), sequence: 1, bytes: 1 });
    assert!(!server.may_capture(), "one is written, but still under the name that the next would use");
    server.finished = None;
    assert!(server.may_capture());
}
