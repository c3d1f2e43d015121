//! `menagerie up`, and a `menagerie web` beside it whose CPU time can be told.

use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader, Write as _};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use tokio::time::timeout;

use super::viewers::{post, wait_for, watch};

/// Commands at a time, while queues are made.
const THREADS: usize = 4;
/// Batches in a second of a steady stream of messages.
const BATCHES: usize = 10;
/// A change that is not shown by then is lost.
const PATIENCE: Duration = Duration::from_secs(10);

/// Servers; killed when dropped.
pub struct Site {
    menagerie: PathBuf,
    data: PathBuf,
    up: Child,
    web: Child,
    /// That of the user of `up`.
    token: String,
    pub address: SocketAddr,
}

impl Site {
    pub fn start(menagerie: &Path, folder: &Path) -> Result<Self> {
        let data = folder.join("data");
        let mut up = Command::new(menagerie);
        up.args(["--log-level", "warn", "up", "--data"]).arg(&data);
        for flag in
            ["--keeper-listen", "--journal-listen", "--queue-listen", "--slots-listen", "--web-listen"]
        {
            up.args([flag, "127.0.0.1:0"]);
        }
        let (up, _) = start(up, "Ctrl-C")?;
        let mut web = Command::new(menagerie);
        web.args(["--log-level", "warn", "web", "--listen", "127.0.0.1:0"]).env("MENAGERIE_DATA", &data);
        let token = std::fs::read_to_string(data.join("web.token"))?.trim().to_owned();
        let (web, line) = start(web, "web ready on ")?;
        let address = line.trim_start_matches("web ready on ").parse().context("it says where it is")?;
        Ok(Self { menagerie: menagerie.to_owned(), data, up, web, token, address })
    }

    pub fn web_pid(&self) -> u32 {
        self.web.id()
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.menagerie);
        command.args(arguments).env("MENAGERIE_DATA", &self.data).stdout(Stdio::null()).stderr(Stdio::null());
        command
    }

    /// Makes queues, and puts messages into the first.
    pub fn fill(&self, queues: usize, messages: usize) -> Result<()> {
        thread::scope(|scope| {
            let makers: Vec<_> = (0..THREADS)
                .map(|thread| {
                    scope.spawn(move || -> Result<()> {
                        for number in (thread..queues).step_by(THREADS) {
                            let name = format!("q{number:04}");
                            let made =
                                self.command(&["queue", "create", &name, "--partitions", "4"]).status()?;
                            ensure!(made.success(), "queue {name} was not made");
                        }
                        Ok(())
                    })
                })
                .collect();
            makers.into_iter().try_for_each(|maker| maker.join().expect("it does not panic"))
        })?;
        let mut lines = String::new();
        for number in 0..messages {
            writeln!(lines, "message {number}")?;
        }
        let file = self.data.with_file_name("lines");
        std::fs::write(&file, lines)?;
        let put = self.command(&["queue", "put", "q0000", "--file"]).arg(&file).status()?;
        ensure!(put.success(), "the messages were not put");
        Ok(())
    }

    /// Puts so many messages a second into a queue, until what is returned is dropped.
    pub fn put_steadily(&self, queue: &str, rate: usize) -> Result<Putting> {
        let mut putter =
            self.command(&["queue", "put", queue, "--file", "-"]).stdin(Stdio::piped()).spawn()?;
        let input = putter.stdin.take().context("its input is ours")?;
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let writer = thread::spawn(move || write_steadily(input, rate, &stopped));
        Ok(Putting { stop, writer: Some(writer), putter })
    }

    /// Puts a message over REST, and times how long it takes from the request until the page of the queue shows it.
    pub async fn time_change(&self, number: usize) -> Result<Duration> {
        let queue = format!("q{:04}", 2 + number % 100);
        let mut stream = watch(self.address, &format!("/queues/{queue}")).await?;
        timeout(PATIENCE, wait_for(&mut stream, "event: page")).await.context("no page")??;
        let body = format!("change-{number}-of-{queue}");
        let begun = Instant::now();
        let shown = async {
            wait_for(&mut stream, &body).await?;
            Ok::<_, anyhow::Error>(begun.elapsed())
        };
        let path = format!("/api/v1/queues/{queue}/messages");
        let json = serde_json::json!({ "body": body }).to_string();
        let put = post(self.address, &path, &self.token, &json);
        let (shown, put) = tokio::join!(timeout(PATIENCE, shown), put);
        put?;
        shown.context("it was not shown")?
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        for child in [&mut self.web, &mut self.up] {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

/// Starts a server, and waits for a line that begins like this.
fn start(mut command: Command, ready: &str) -> Result<(Child, String)> {
    let mut child = command.stdout(Stdio::piped()).spawn().context("cannot start menagerie")?;
    let lines = BufReader::new(child.stdout.take().context("its output is ours")?).lines();
    for line in lines {
        let line = line?;
        if line.starts_with(ready) {
            return Ok((child, line));
        }
    }
    anyhow::bail!("it ended before it said {ready:?}")
}

/// A steady stream of messages; it ends when dropped.
pub struct Putting {
    stop: Arc<AtomicBool>,
    writer: Option<JoinHandle<()>>,
    putter: Child,
}

impl Drop for Putting {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let _ = self.writer.take().map(JoinHandle::join);
        let _ = self.putter.wait();
    }
}

fn write_steadily(mut input: ChildStdin, rate: usize, stopped: &AtomicBool) {
    let batch = "x\n".repeat(rate / BATCHES);
    while !stopped.load(Ordering::Relaxed) {
        if input.write_all(batch.as_bytes()).and_then(|()| input.flush()).is_err() {
            return;
        }
        thread::sleep(Duration::from_secs(1) / BATCHES as u32);
    }
}
