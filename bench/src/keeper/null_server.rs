//! The null server: the best that this client and this disk could do.
//!
//! It speaks the protocol but has no tree: it answers reads at once, always with the same 128 bytes, and writes after
//! one inline fdatasync. A thread blocks on each connection, so that nothing stands between the socket and the disk.
//! Pipelined requests that arrive with one read share one fdatasync and one reply: a server cannot do better, because
//! it cannot sync what it has not read yet. Connections do not wait for each other; the kernel merges their
//! concurrent flushes.

use std::fs::File;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};

use anyhow::{Context, Result, ensure};
use menagerie_wire::{
    ConnectRequest, ConnectResponse, ErrorCode, FRAME_BYTES_MAX, OpCode, Reader, ReplyHeader, Request,
    RequestHeader, Response, Stat, frame, framed,
};

/// Serve as the physical limit.
#[derive(clap::Args)]
pub struct NullServer {
    /// Where to listen
    #[arg(long, default_value = "127.0.0.1:0")]
    listen: SocketAddr,
    /// The folder for the file that is written and synced
    #[arg(long)]
    data: PathBuf,
}

/// A small log segment, filled with zeros in advance: overwriting it changes no metadata, as in a server with
/// preallocated segments.
const FILE_BYTES: u64 = 32 * 1024 * 1024;

/// Size of one write: the value and a header.
const RECORD_BYTES: u64 = 256;

/// Bytes per read from a socket; 64 pipelined requests take about 16 KiB.
const READ_BYTES: usize = 256 * 1024;

const VALUE: [u8; 128] = [7; 128];

/// The bit of a create request that asks for a sequence number.
const FLAG_SEQUENTIAL: i32 = 2;

impl NullServer {
    pub fn run(self) -> Result<()> {
        let disk = Arc::new(Disk::create(&self.data.join("null.log"))?);
        let listener =
            TcpListener::bind(self.listen).with_context(|| format!("cannot bind {}", self.listen))?;
        println!("null ready on {}", listener.local_addr()?);
        loop {
            let (stream, _) = listener.accept().context("cannot accept")?;
            let disk = Arc::clone(&disk);
            // A client that hangs up reports the error on its own side.
            std::thread::spawn(move || Connection { stream, disk }.serve());
        }
    }
}

struct Disk {
    file: File,
    /// Writes so far; determines where the next one goes.
    writes: AtomicU64,
    /// Source of session ids, zxids and sequence numbers alike.
    counter: AtomicI64,
}

impl Disk {
    fn create(path: &std::path::Path) -> Result<Self> {
        let context = || format!("cannot create {}", path.display());
        let mut file = File::create(path).with_context(context)?;
        let zeros = vec![0; 1024 * 1024];
        for _ in 0..FILE_BYTES / zeros.len() as u64 {
            file.write_all(&zeros).with_context(context)?;
        }
        file.sync_all().with_context(context)?;
        Ok(Self { file, writes: AtomicU64::new(0), counter: AtomicI64::new(1) })
    }

    /// Makes this many writes durable.
    fn commit(&self, writes: u64) -> std::io::Result<()> {
        let first = self.writes.fetch_add(writes, Ordering::Relaxed);
        for n in first..first + writes {
            let offset = (n * RECORD_BYTES) % FILE_BYTES;
            self.file.write_all_at(&[n as u8; RECORD_BYTES as usize], offset)?;
        }
        self.file.sync_data()
    }

    fn next(&self) -> i64 {
        self.counter.fetch_add(1, Ordering::Relaxed)
    }
}

struct Connection {
    stream: TcpStream,
    disk: Arc<Disk>,
}

impl Connection {
    fn serve(mut self) -> Result<()> {
        self.stream.set_nodelay(true)?;
        let mut input = vec![0; READ_BYTES];
        let mut filled = 0;
        let mut greeted = false;
        let mut output = Vec::new();
        loop {
            let read = self.stream.read(&mut input[filled..])?;
            if read == 0 {
                return Ok(());
            }
            filled += read;
            let mut taken = 0;
            let mut writes = 0;
            while let Some((body, length)) = frame::split(&input[taken..filled], FRAME_BYTES_MAX)? {
                match greeted {
                    true => writes += u64::from(self.answer(body, &mut output)?),
                    false => self.greet(body, &mut output)?,
                }
                greeted = true;
                taken += length;
            }
            input.copy_within(taken..filled, 0);
            filled -= taken;
            ensure!(filled < READ_BYTES, "frame beyond {READ_BYTES} bytes");
            if writes > 0 {
                self.disk.commit(writes)?;
            }
            self.stream.write_all(&output)?;
            output.clear();
        }
    }

    fn greet(&self, body: &[u8], output: &mut Vec<u8>) -> Result<()> {
        let request = ConnectRequest::decode(body)?;
        let response = ConnectResponse {
            timeout_ms: request.timeout_ms,
            session_id: self.disk.next(),
            password: &[1; 16],
            read_only: request.read_only.map(|_| false),
        };
        framed(output, |out| response.encode(out));
        Ok(())
    }

    /// Appends the reply; returns whether the request was a write.
    fn answer(&self, body: &[u8], output: &mut Vec<u8>) -> Result<bool> {
        let mut reader = Reader::new(body);
        let header = RequestHeader::decode(&mut reader)?;
        let op = OpCode::from_code(header.op).with_context(|| format!("no operation {}", header.op))?;
        let request = Request::decode(op, &mut reader)?;
        let zxid = self.disk.next();
        let stat = Stat { czxid: zxid, mzxid: zxid, data_length: VALUE.len() as i32, ..Stat::default() };
        // Declared here, because the response borrows it.
        let path;
        let response = match &request {
            Request::Create { create, .. } => {
                let sequence = zxid % i64::from(i32::MAX);
                path = match create.flags & FLAG_SEQUENTIAL {
                    0 => create.path.to_owned(),
                    _ => format!("{}{sequence:010}", create.path),
                };
                Some(Response::Created2 { path: &path, stat })
            }
            Request::SetData { .. } | Request::Exists { .. } => Some(Response::Stat(stat)),
            Request::GetData { .. } => Some(Response::Data { data: Some(&VALUE), stat }),
            Request::GetChildren { .. } => Some(Response::Names(Vec::new())),
            Request::GetChildren2 { .. } => Some(Response::Children2 { names: Vec::new(), stat }),
            Request::Delete { .. } | Request::Ping | Request::CloseSession => Some(Response::Empty),
            // Not used by the benchmark.
            _ => None,
        };
        let err = if response.is_some() { ErrorCode::Ok } else { ErrorCode::Unimplemented };
        framed(output, |out| {
            ReplyHeader { xid: header.xid, zxid, err }.encode(out);
            if let Some(response) = response {
                response.encode(out);
            }
        });
        Ok(matches!(request, Request::Create { .. } | Request::SetData { .. } | Request::Delete { .. }))
    }
}
