//! JetStream under the same load. We speak its line protocol by hand, so that both sides have the same kind of client
//! and need no other.

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::TcpStream;

use super::{BATCH, BATCHES, BODY, SINGLES};

struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn free_port() -> Result<u16> {
    Ok(std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

/// Measures one setting of `sync_interval`.
pub async fn rows(binary: &Path, folder: &Path, sync: &str, seconds: f64) -> Result<()> {
    let (port, store) = (free_port()?, folder.join(format!("nats-{sync}")));
    std::fs::create_dir_all(&store)?;
    let config = store.join("nats.conf");
    let text = format!(
        "host: 127.0.0.1\nport: {port}\njetstream {{ store_dir: \"{}\", sync_interval: {sync} }}\n",
        store.display()
    );
    std::fs::write(&config, text)?;
    let child = Command::new(binary)
        .arg("-c")
        .arg(&config)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .with_context(|| format!("cannot start {}", binary.display()))?;
    let _running = Running(child);
    let mut client = Connection::open(port).await?;
    let created = client
        .ask(
            "$JS.API.STREAM.CREATE.bench",
            r#"{"name":"bench","subjects":["bench.*"],"storage":"file","allow_atomic":true}"#,
        )
        .await?;
    if created.contains("\"error\"") {
        bail!("nats-server: {created}");
    }
    let rate = client.batches(seconds).await?;
    println!(
        "nats-server, sync_interval {sync}: {BATCHES} atomic batches of {BATCH} in flight on one connection: {rate:.0}/s"
    );
    let rate = client.publish(SINGLES, seconds).await?;
    println!(
        "nats-server, sync_interval {sync}: {SINGLES} single ones in flight on one connection: {rate:.0}/s"
    );
    let begun = Instant::now();
    let loops = (0..16).map(|_| async move { Connection::open(port).await?.publish(1, seconds).await });
    let rates = futures_util::future::try_join_all(loops).await?;
    let rate = rates.iter().sum::<f64>();
    println!(
        "nats-server, sync_interval {sync}: single, 16 connections: {rate:.0}/s ({:.0} s)",
        begun.elapsed().as_secs_f64()
    );
    Ok(())
}

struct Connection {
    stream: BufReader<TcpStream>,
}

impl Connection {
    async fn open(port: u16) -> Result<Self> {
        let deadline = Instant::now() + Duration::from_secs(20);
        let stream = loop {
            match TcpStream::connect(("127.0.0.1", port)).await {
                Ok(stream) => break stream,
                Err(error) if Instant::now() > deadline => return Err(error.into()),
                Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
            }
        };
        stream.set_nodelay(true)?;
        let mut connection = Self { stream: BufReader::with_capacity(256 << 10, stream) };
        let hello =
            "CONNECT {\"verbose\":false,\"pedantic\":false,\"headers\":true}\r\nSUB reply.* 1\r\nPING\r\n";
        // Each connection has its own reply subjects.
        let hello = hello.replace("reply.*", &format!("{}.*", connection.inbox()));
        connection.stream.get_mut().write_all(hello.as_bytes()).await?;
        while connection.line().await? != "PONG" {}
        Ok(connection)
    }

    fn inbox(&self) -> String {
        let port = self.stream.get_ref().local_addr().map_or(0, |address| address.port());
        format!("reply{port}")
    }

    async fn line(&mut self) -> Result<String> {
        let mut line = String::new();
        if self.stream.read_line(&mut line).await? == 0 {
            bail!("nats-server has closed the connection");
        }
        Ok(line.trim_end().to_owned())
    }

    /// The next message's payload.
    async fn message(&mut self) -> Result<String> {
        loop {
            let line = self.line().await?;
            if line == "PING" {
                self.stream.get_mut().write_all(b"PONG\r\n").await?;
            }
            if let Some(head) = line.strip_prefix("MSG ") {
                let bytes: usize = head.rsplit(' ').next().unwrap_or_default().parse()?;
                let mut payload = vec![0; bytes + 2];
                self.stream.read_exact(&mut payload).await?;
                return Ok(String::from_utf8_lossy(&payload[..bytes]).into_owned());
            }
            if line.starts_with("-ERR") {
                bail!("nats-server: {line}");
            }
        }
    }

    async fn ask(&mut self, subject: &str, body: &str) -> Result<String> {
        let request = format!("PUB {subject} {}.a {}\r\n{body}\r\n", self.inbox(), body.len());
        self.stream.get_mut().write_all(request.as_bytes()).await?;
        self.message().await
    }

    /// Publishes with this many in flight, each acknowledged, and returns the rate.
    async fn publish(&mut self, in_flight: usize, seconds: f64) -> Result<f64> {
        let mut one = format!("PUB bench.1 {}.p {BODY}\r\n", self.inbox()).into_bytes();
        one.extend(std::iter::repeat_n(b'x', BODY));
        one.extend(b"\r\n");
        // Write in parts, so that acknowledgements are read while more is sent.
        let part = (in_flight / 8).max(1);
        let many = one.repeat(part);
        let (mut waiting, mut done) = (0, 0u64);
        let begun = Instant::now();
        loop {
            let over = begun.elapsed().as_secs_f64() >= seconds;
            while !over && waiting + part <= in_flight {
                self.stream.get_mut().write_all(&many).await?;
                waiting += part;
            }
            if waiting == 0 {
                return Ok(done as f64 / begun.elapsed().as_secs_f64());
            }
            let acknowledged = self.message().await?;
            if acknowledged.contains("\"error\"") {
                bail!("nats-server: {acknowledged}");
            }
            waiting -= 1;
            done += 1;
        }
    }

    /// Publishes atomic batches, several in flight, each acknowledged as a whole, and returns the rate of messages.
    async fn batches(&mut self, seconds: f64) -> Result<f64> {
        let inbox = self.inbox();
        let (mut waiting, mut sent, mut done) = (0, 0u64, 0u64);
        let begun = Instant::now();
        loop {
            let over = begun.elapsed().as_secs_f64() >= seconds;
            while !over && waiting < BATCHES {
                sent += 1;
                let batch = batch(&inbox, sent);
                self.stream.get_mut().write_all(&batch).await?;
                waiting += 1;
            }
            if waiting == 0 {
                return Ok(done as f64 / begun.elapsed().as_secs_f64());
            }
            let acknowledged = self.message().await?;
            if !acknowledged.contains(&format!("\"count\":{BATCH}")) {
                bail!("nats-server: {acknowledged}");
            }
            waiting -= 1;
            done += BATCH as u64;
        }
    }
}

/// An atomic batch: only its last message asks for a reply.
fn batch(inbox: &str, number: u64) -> Vec<u8> {
    let mut out = Vec::with_capacity(BATCH * (BODY + 128));
    for sequence in 1..=BATCH {
        let last = sequence == BATCH;
        let commit = if last { "Nats-Batch-Commit:1\r\n" } else { "" };
        let head = format!(
            "NATS/1.0\r\nNats-Batch-Id:{inbox}-{number}\r\nNats-Batch-Sequence:{sequence}\r\n{commit}\r\n"
        );
        let reply = if last { format!("{inbox}.b ") } else { String::new() };
        let line = format!("HPUB bench.1 {reply}{} {}\r\n{head}", head.len(), head.len() + BODY);
        out.extend(line.as_bytes());
        out.extend(std::iter::repeat_n(b'x', BODY));
        out.extend(b"\r\n");
    }
    out
}
