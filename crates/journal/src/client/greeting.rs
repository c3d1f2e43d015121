//! The client's side of the handshake, and identifying a journal.

use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt as _, ReadHalf, WriteHalf};
use tokio::net::TcpStream;
use tokio::time::timeout;
use tokio_rustls::TlsConnector;

use super::{Address, broken, outcome};
use crate::error::JournalError;
use crate::identity::Identity;
use crate::protocol::frame::{self, Frames};
use crate::protocol::handshake::{self, Binding, Challenge, Nonce, Side, Transcript};
use crate::protocol::{HANDSHAKE_BYTES_MAX, Kind, liveness};

/// A connection over which both sides have proven that they know the token.
pub(super) struct Greeted<S> {
    pub(super) frames: Frames<ReadHalf<S>>,
    pub(super) writing: WriteHalf<S>,
    pub(super) identity: Identity,
}

/// A connection on which the server has answered, but has not proven its identity yet.
struct Challenged<S> {
    frames: Frames<ReadHalf<S>>,
    writing: WriteHalf<S>,
    nonce: Nonce,
    challenge: Challenge,
}

impl Address {
    pub(super) fn unreachable(&self, why: impl ToString) -> JournalError {
        unreachable(&self.address, why)
    }

    /// Proves our identity, after the server has proven its own.
    pub(super) async fn greet<S: AsyncRead + AsyncWrite>(
        &self,
        stream: S,
        binding: Binding,
    ) -> Result<Greeted<S>, JournalError> {
        let Challenged { mut frames, mut writing, nonce, challenge } =
            challenged(&self.address, stream).await?;
        let Challenge { identity, nonce: server, proof, .. } = challenge;
        let transcript = Transcript { client: nonce, server, identity, binding };
        // The server's proof shows which of our tokens is the right one.
        let proven = |token: &&_| transcript.is_proven(Side::Server, token, &proof);
        let token = self.tokens.iter().find(proven).ok_or_else(|| {
            JournalError::Denied(format!(
                "what answers at {} does not know the token that we have for it",
                self.address
            ))
        })?;
        if let Some(expected) = self.identity.filter(|expected| *expected != identity) {
            return Err(self.unreachable(another(expected, identity)));
        }
        let ours = transcript.proof(Side::Client, token);
        send(&mut writing, Kind::Proof, |out| out.extend_from_slice(&ours))
            .await
            .map_err(|error| self.unreachable(error))?;
        receive(&self.address, &mut frames).await?;
        frames.max = u32::MAX;
        Ok(Greeted { frames, writing, identity })
    }
}

/// Why this is not the expected journal.
fn another(expected: Identity, found: Identity) -> String {
    if expected.folder == found.folder {
        "the journal there was started again and is not registered yet".to_owned()
    } else {
        format!("another journal answers there, with folder {} instead of {}", found.folder, expected.folder)
    }
}

fn unreachable(address: &str, why: impl ToString) -> JournalError {
    JournalError::Unreachable { address: address.to_owned(), why: why.to_string() }
}

/// The first half of the handshake. It sends no secrets.
async fn challenged<S: AsyncRead + AsyncWrite>(
    address: &str,
    stream: S,
) -> Result<Challenged<S>, JournalError> {
    let (reading, mut writing) = tokio::io::split(stream);
    let nonce = handshake::nonce().map_err(|error| unreachable(address, error))?;
    send(&mut writing, Kind::Hello, |out| handshake::put_hello(&nonce, out))
        .await
        .map_err(|error| unreachable(address, error))?;
    let mut frames = Frames::new(reading, HANDSHAKE_BYTES_MAX);
    let challenge = Challenge::decode(receive(address, &mut frames).await?).map_err(broken)?;
    Ok(Challenged { frames, writing, nonce, challenge })
}

async fn send<S: AsyncWrite>(
    writing: &mut WriteHalf<S>,
    kind: Kind,
    put: impl FnOnce(&mut Vec<u8>),
) -> std::io::Result<()> {
    let mut request = frame::begin(0, kind as u8);
    put(&mut request);
    frame::finish(&mut request, 0);
    writing.write_all(&request).await?;
    writing.flush().await
}

async fn receive<S: AsyncRead>(
    address: &str,
    frames: &mut Frames<ReadHalf<S>>,
) -> Result<bytes::Bytes, JournalError> {
    let reply = frames.next().await.map_err(|error| unreachable(address, error))?;
    let reply = reply.ok_or_else(|| unreachable(address, "it closed the connection"))?;
    Ok(outcome(reply)?.rest())
}

/// Connects, with keep-alives that detect a dead peer.
pub(super) async fn connect(address: &str) -> Result<TcpStream, JournalError> {
    let stream = TcpStream::connect(address).await.map_err(|error| unreachable(address, error))?;
    // A request must not wait to be batched with later ones.
    let _ = stream.set_nodelay(true);
    liveness::watch_over(&stream).map_err(|error| unreachable(address, error))?;
    Ok(stream)
}

/// Starts TLS on the connection.
pub(super) async fn encrypt(
    address: &str,
    connector: TlsConnector,
    stream: TcpStream,
) -> Result<(tokio_rustls::client::TlsStream<TcpStream>, Binding), JournalError> {
    let host = address.rsplit_once(':').map_or("", |(host, _)| host).trim_matches(['[', ']']);
    let name = rustls::pki_types::ServerName::try_from(host.to_owned())
        .map_err(|error| unreachable(address, error))?;
    let stream = connector.connect(name, stream).await.map_err(|error| unreachable(address, error))?;
    let binding = Binding::of(stream.get_ref().1).map_err(|error| unreachable(address, error))?;
    Ok((stream, binding))
}

/// Asks which journal answers at an address. The answer is unproven: use it only to check whether a registered journal
/// is still alive, and send it nothing confidential.
pub async fn identify(address: &str, tls: bool, patience: Duration) -> Result<Identity, JournalError> {
    let ask = async {
        let stream = connect(address).await?;
        if !tls {
            return Ok(challenged(address, stream).await?.challenge.identity);
        }
        let connector = crate::tls::undemanding().map_err(|error| unreachable(address, error))?;
        let (stream, _) = encrypt(address, connector, stream).await?;
        Ok(challenged(address, stream).await?.challenge.identity)
    };
    timeout(patience, ask).await.unwrap_or_else(|_| Err(unreachable(address, "it took too long")))
}
