//! Ending a client's session behind its back.

use std::net::SocketAddr;

use crate::client::{Connect, RawClient};

/// Ends a session as if its time had run out, and does not wait for that time: takes it over on a second connection and
/// closes it there. When this returns, its ephemeral znodes are gone; its owner's connection is closed, and will hear that
/// the session has expired when it comes back. The server may be any of the ensemble.
///
/// # Panics
/// If there is no such session, or the password is wrong.
#[track_caller]
pub fn expire_session(address: SocketAddr, session_id: i64, password: &[u8]) {
    let connect = Connect { session: Some((session_id, password.to_vec())), ..Connect::default() };
    match RawClient::connect(address, &connect) {
        Ok(client) => client.end_session(),
        Err(refusal) => panic!("session {session_id:#x} cannot be taken over at {address}: {refusal:?}"),
    }
}
