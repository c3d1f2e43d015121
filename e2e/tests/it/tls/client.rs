//! A client over TLS that sees the records on the wire.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;

use menagerie_testkit::{Authority, DEADLINE, Identity, Reply};
use menagerie_wire::{ConnectRequest, ConnectResponse, Reader, ReplyHeader, Request, framed};
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

/// The type of a TLS record that carries data.
const APPLICATION_DATA: u8 = 23;

/// A socket that records what it received.
struct Tap {
    socket: TcpStream,
    received: Vec<u8>,
}

impl Read for Tap {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.socket.read(buffer)?;
        self.received.extend_from_slice(&buffer[..read]);
        Ok(read)
    }
}

impl Write for Tap {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.socket.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.socket.flush()
    }
}

pub struct TlsClient {
    stream: StreamOwned<ClientConnection, Tap>,
    last_xid: i32,
}

/// A TLS connection that trusts `authority` and presents `identity`.
pub fn connection(
    address: SocketAddr,
    authority: &Authority,
    identity: Option<Identity>,
) -> ClientConnection {
    let mut roots = RootCertStore::empty();
    roots.add(authority.certificate()).expect("the authority is one");
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = ClientConfig::builder_with_provider(provider);
    let builder = builder.with_safe_default_protocol_versions().expect("they are supported");
    let builder = builder.with_root_certificates(roots);
    let config = match identity {
        Some(Identity { certificate, key, .. }) => {
            builder.with_client_auth_cert(vec![certificate], key).expect("they belong together")
        }
        None => builder.with_no_client_auth(),
    };
    let name = ServerName::from(address.ip());
    ClientConnection::new(Arc::new(config), name).expect("the settings make sense")
}

impl TlsClient {
    /// Connects, trusting `authority` and presenting `identity`, and opens a session.
    pub fn open(address: SocketAddr, authority: &Authority, identity: Option<Identity>) -> io::Result<Self> {
        let connection = connection(address, authority, identity);
        let socket = TcpStream::connect(address)?;
        socket.set_read_timeout(Some(DEADLINE))?;
        let stream = StreamOwned::new(connection, Tap { socket, received: Vec::new() });
        let mut client = Self { stream, last_xid: 0 };
        client.greet()?;
        Ok(client)
    }

    fn greet(&mut self) -> io::Result<()> {
        let hello = ConnectRequest {
            protocol_version: 0,
            last_zxid_seen: 0,
            timeout_ms: 30_000,
            session_id: 0,
            password: &[0; 16],
            read_only: Some(false),
        };
        let mut bytes = Vec::new();
        framed(&mut bytes, |out| hello.encode(out));
        self.stream.write_all(&bytes)?;
        let frame = self.frame()?;
        let answer = ConnectResponse::decode(&frame).expect("the answer to a connect request");
        assert_ne!(answer.session_id, 0);
        Ok(())
    }

    /// The server's certificate.
    pub fn server_certificate(&self) -> CertificateDer<'static> {
        let shown = self.stream.conn.peer_certificates().expect("the handshake is over");
        shown.first().expect("a server shows a certificate").clone().into_owned()
    }

    /// Sends requests in one piece and returns their replies.
    pub fn call_all(&mut self, requests: &[Request<'_>]) -> Vec<Reply> {
        let mut bytes = Vec::new();
        for request in requests {
            self.last_xid += 1;
            framed(&mut bytes, |out| request.encode(self.last_xid, out));
        }
        self.stream.write_all(&bytes).expect("the server takes it");
        requests.iter().map(|_| self.reply()).collect()
    }

    pub fn call(&mut self, request: Request<'_>) -> Reply {
        self.call_all(&[request]).remove(0)
    }

    fn reply(&mut self) -> Reply {
        let frame = self.frame().expect("a reply");
        let mut reader = Reader::new(&frame);
        let header = ReplyHeader::decode(&mut reader).expect("every frame starts with a header");
        Reply { header, body: reader.rest().to_owned() }
    }

    fn frame(&mut self) -> io::Result<Vec<u8>> {
        let mut length = [0; 4];
        self.stream.read_exact(&mut length)?;
        let mut frame = vec![0; u32::from_be_bytes(length) as usize];
        self.stream.read_exact(&mut frame)?;
        Ok(frame)
    }

    /// Data records received so far; those of the handshake look the same.
    pub fn data_records(&self) -> usize {
        let mut rest = self.stream.sock.received.as_slice();
        let mut count = 0;
        while let [kind, _, _, high, low, after @ ..] = rest {
            count += usize::from(*kind == APPLICATION_DATA);
            let length = usize::from(u16::from_be_bytes([*high, *low]));
            rest = after.get(length..).unwrap_or_default();
        }
        count
    }
}
