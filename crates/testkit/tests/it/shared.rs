//! The ensemble that tests share.

use menagerie_testkit::{RawClient, ensemble};

use crate::ask::exists;

#[test]
fn every_test_gets_a_root_that_is_there_and_its_own() {
    let (one, two) = (ensemble().chroot("same"), ensemble().chroot("same"));
    assert_ne!(one, two);
    let root = one.strip_prefix(&ensemble().connect_string()).unwrap();
    assert!(root.starts_with("/test-") && root.ends_with("-same"), "{root}");
    for address in ensemble().addresses() {
        assert!(exists(&mut RawClient::open(*address), root));
    }
}

#[test]
fn sessions_can_be_short() {
    let short = menagerie_testkit::Connect { timeout_ms: 800, ..Default::default() };
    let client = RawClient::connect(ensemble().addresses()[0], &short).unwrap();
    assert_eq!(client.session().timeout_ms, 800);
}
