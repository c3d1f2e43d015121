//! Sessions ended from outside.

use menagerie_testkit::{DEADLINE, Incoming, RawClient, Refusal, ensemble, expire_session};

use crate::ask::{EPHEMERAL, create, exists};

#[test]
fn an_expired_session_is_gone_with_all_it_had() {
    let address = *ensemble().addresses().last().unwrap();
    let path = ensemble().fresh_path("expired") + "/e";
    let mut client = RawClient::open(address);
    create(&mut client, &path, EPHEMERAL);
    let session = client.session().clone();
    expire_session(ensemble().addresses()[0], session.id, &session.password);
    assert!(!exists(&mut RawClient::open(ensemble().addresses()[0]), &path));
    assert_eq!(client.reply(DEADLINE), Some(Incoming::Closed));
    assert!(matches!(RawClient::connect(address, &client.resumption()), Err(Refusal::Gone(_))));
}

#[test]
#[should_panic(expected = "cannot be taken over")]
fn a_wrong_password_ends_nothing() {
    let client = RawClient::open(ensemble().addresses()[0]);
    expire_session(ensemble().addresses()[0], client.session().id, &[7; 16]);
}
