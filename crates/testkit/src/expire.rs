//! Expiring a client's session from outside.

use std::net::SocketAddr;

use crate::client::{Connect, RawClient};

/// Ends a session as if it had expired, without waiting for its time-out: resumes it on a second connection and
/// closes it there. When this returns, its ephemeral znodes are gone and its owner's connection is closed; a
/// reconnect will learn that the session has expired. Any server of the ensemble will do.
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
