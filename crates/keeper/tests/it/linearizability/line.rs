//! A connection that may break at any time, which is what these tests are about.

use std::io::{self, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};

use menagerie_testkit::{DEADLINE, Reply};
use menagerie_wire::{ConnectRequest, Reader, ReplyHeader, Request, framed};

/// One connection with a session of its own.
pub struct Line {
    stream: TcpStream,
}

impl Line {
    pub fn open(address: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect(address)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(DEADLINE))?;
        let mut line = Self { stream };
        let connect = ConnectRequest {
            protocol_version: 0,
            last_zxid_seen: 0,
            timeout_ms: 30_000,
            session_id: 0,
            password: &[0; 16],
            read_only: None,
        };
        line.send(|out| connect.encode(out))?;
        line.frame()?;
        Ok(line)
    }

    /// Asks, and waits for the answer.
    pub fn call(&mut self, request: &Request<'_>) -> io::Result<Reply> {
        self.send(|out| request.encode(1, out))?;
        let frame = self.frame()?;
        let mut r = Reader::new(&frame);
        let header = ReplyHeader::decode(&mut r).map_err(io::Error::other)?;
        Ok(Reply { header, body: r.rest().to_owned() })
    }

    fn send(&mut self, body: impl FnOnce(&mut Vec<u8>)) -> io::Result<()> {
        let mut bytes = Vec::new();
        framed(&mut bytes, body);
        self.stream.write_all(&bytes)
    }

    fn frame(&mut self) -> io::Result<Vec<u8>> {
        let mut length = [0; 4];
        self.stream.read_exact(&mut length)?;
        let mut body = vec![0; u32::from_be_bytes(length) as usize];
        self.stream.read_exact(&mut body)?;
        Ok(body)
    }
}
