//! The keeper on threads of the test.

use menagerie_testkit::{InProcess, RawClient};

use crate::ask::{EPHEMERAL, create, exists};

#[test]
fn a_restarted_keeper_has_its_data_its_address_and_its_sessions() {
    let mut keeper = InProcess::start();
    let mut client = RawClient::open(keeper.address());
    create(&mut client, "/e", EPHEMERAL);
    let address = keeper.address();
    keeper.stop();
    assert!(std::net::TcpStream::connect(address).is_err());
    keeper.restart();
    assert_eq!(keeper.address(), address);
    let mut client = RawClient::connect(address, &client.resumption()).unwrap();
    assert!(exists(&mut client, "/e"));
    let data = keeper.data().to_owned();
    drop(keeper);
    assert!(!data.exists());
}
