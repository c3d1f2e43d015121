//! Servers under load; killed when dropped.

use std::io::{BufRead as _, BufReader};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

/// `menagerie up`, and a key for it.
pub struct Ours {
    child: Child,
    pub address: SocketAddr,
    pub key: String,
}

impl Ours {
    pub fn start(menagerie: &Path, folder: &Path) -> Result<Self> {
        let mut up = Command::new(menagerie);
        up.args(["--log-level", "warn", "up", "--data"]).arg(folder.join("data"));
        for flag in
            ["--keeper-listen", "--journal-listen", "--queue-listen", "--slots-listen", "--web-listen"]
        {
            up.args([flag, "127.0.0.1:0"]);
        }
        let child = up.stdout(Stdio::piped()).spawn();
        let mut child = child.with_context(|| format!("cannot start {}", menagerie.display()))?;
        let lines = BufReader::new(child.stdout.take().context("its output is ours")?).lines();
        let (mut keeper, mut queue) = (None, None);
        for line in lines {
            let line = line?;
            keeper = keeper.or(line.strip_prefix("keeper ready on ").map(str::to_owned));
            queue = queue.or(line.strip_prefix("queue ready on ").and_then(|at| at.parse().ok()));
            if line.starts_with("Ctrl-C") {
                break;
            }
        }
        let (keeper, address) = keeper.zip(queue).context("it did not say where it is")?;
        let key = Command::new(menagerie)
            .args(["queue", "key", "add", "bench", "--admin", "--zookeeper", &keeper])
            .output()?;
        let key = String::from_utf8(key.stdout)?.trim().to_owned();
        Ok(Self { child, address, key })
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Drop for Ours {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// nginx with one worker that answers an empty 200.
pub struct Nginx {
    child: Child,
    pub address: SocketAddr,
}

impl Nginx {
    pub fn start(nginx: &Path, folder: &Path) -> Result<Self> {
        // nginx cannot choose a port by itself: take one that is free now.
        let address = TcpListener::bind("127.0.0.1:0")?.local_addr()?;
        let at = folder.display();
        let config = format!(
            "worker_processes 1; daemon off; pid {at}/nginx.pid; error_log {at}/nginx.log;
events {{ worker_connections 64; }}
http {{
  access_log off; keepalive_requests 100000000;
  client_body_temp_path {at}/body; proxy_temp_path {at}/proxy; fastcgi_temp_path {at}/fastcgi;
  uwsgi_temp_path {at}/uwsgi; scgi_temp_path {at}/scgi;
  server {{ listen {address}; location / {{ return 200 \"\"; }} }}
}}
"
        );
        let file = folder.join("nginx.conf");
        std::fs::write(&file, config)?;
        let child = Command::new(nginx).arg("-c").arg(&file).arg("-p").arg(folder).spawn();
        let child = child.with_context(|| format!("cannot start {}", nginx.display()))?;
        let (server, begun) = (Self { child, address }, Instant::now());
        while TcpStream::connect(address).is_err() {
            if begun.elapsed() > Duration::from_secs(10) {
                bail!("nginx does not answer at {address}");
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        Ok(server)
    }
}

impl Drop for Nginx {
    fn drop(&mut self) {
        // The master stops its worker on SIGTERM, not when it is killed.
        if let Ok(pid) = crate::procfs::as_pid(self.child.id()) {
            let _ = nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM);
        }
        let _ = self.child.wait();
    }
}
