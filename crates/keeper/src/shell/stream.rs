//! Sockets, plain and TLS, behind one non-blocking read and write.

use std::io::{self, Read, Write};

use menagerie_wire::Id;
use mio::net::TcpStream;
use rustls::ServerConnection;

use super::tls;

/// One client's socket.
pub enum Stream {
    /// Plain TCP.
    Plain(TcpStream),
    /// TLS over TCP.
    Tls(Box<TlsStream>),
}

/// A socket and the TLS state over it.
pub struct TlsStream {
    socket: TcpStream,
    tls: ServerConnection,
    /// Bytes that the socket has taken.
    taken: u64,
}

impl Stream {
    /// Wraps a socket into TLS.
    pub fn tls(socket: TcpStream, mut tls: ServerConnection) -> Self {
        // Replies are bounded where they are produced; TLS must never truncate them.
        tls.set_buffer_limit(None);
        Self::Tls(Box::new(TlsStream { socket, tls, taken: 0 }))
    }

    /// Whether it is without TLS, so that a read returns exactly what the socket holds.
    pub fn is_plain(&self) -> bool {
        matches!(self, Self::Plain(_))
    }

    /// Bytes that the socket has accepted from TLS's own buffer, which [`Self::write`] does not count.
    pub fn taken(&self) -> u64 {
        match self {
            Self::Plain(_) => 0,
            Self::Tls(stream) => stream.taken,
        }
    }

    /// Whether the client has sent something that was not read yet.
    pub fn has_unread(&self) -> bool {
        let socket = match self {
            Self::Plain(socket) => socket,
            Self::Tls(stream) => &stream.socket,
        };
        matches!(socket.peek(&mut [0]), Ok(1))
    }

    /// Reads available bytes.
    pub fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Plain(socket) => socket.read(buffer),
            Self::Tls(stream) => stream.read(buffer),
        }
    }

    /// Sends as much of `bytes` as the socket accepts. Each frame ends with its TLS record: some clients wait for the
    /// socket although the next frame is already decrypted in their buffer.
    pub fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Plain(socket) => socket.write(bytes),
            Self::Tls(stream) => stream.write(bytes),
        }
    }

    /// Sends TLS's own buffer. `true`: nothing is left.
    pub fn flush(&mut self) -> io::Result<bool> {
        match self {
            Self::Plain(_) => Ok(true),
            Self::Tls(stream) => stream.flush(),
        }
    }

    /// The client's certificate as an identity, once the TLS handshake is done.
    pub fn certificate_identity(&self) -> Option<Id> {
        match self {
            Self::Plain(_) => None,
            Self::Tls(stream) => tls::identity(stream.tls.peer_certificates()?.first()?),
        }
    }
}

impl TlsStream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.tls.reader().read(buffer) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
                other => return other,
            }
            let read = self.tls.read_tls(&mut self.socket)?;
            let outcome = self.tls.process_new_packets();
            // An alert about the error, or the next step of the handshake, is due either way.
            self.flush()?;
            outcome.map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
            if read == 0 {
                return Ok(0);
            }
        }
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // Encrypt one frame at a time, and only when the last one is sent: encrypted bytes cannot be taken back.
        if !self.flush()? {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let frame = match menagerie_wire::frame::split(bytes, usize::MAX) {
            Ok(Some((_, length))) => &bytes[..length],
            Ok(None) | Err(_) => bytes,
        };
        self.tls.writer().write_all(frame)?;
        match self.flush() {
            Ok(_) => Ok(frame.len()),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(frame.len()),
            Err(error) => Err(error),
        }
    }

    fn flush(&mut self) -> io::Result<bool> {
        while self.tls.wants_write() {
            match self.tls.write_tls(&mut self.socket) {
                Ok(taken) => self.taken += taken as u64,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(false),
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }
}
