//! Debian's Apache ZooKeeper: one server, alone or as a member of three.

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use tempfile::TempDir;

use crate::ports::free_port;
use crate::process::Process;
use crate::server::{Recipe, Server};
use crate::wait::DEADLINE;
use crate::words;

/// Its manifest names every dependency except a logger.
const JARS: [&str; 2] = ["/usr/share/java/zookeeper.jar", "/usr/share/java/slf4j-simple.jar"];

/// For tests that run several servers on few cores: garbage collectors and compilers with many threads cost more than
/// they save.
const LEAN: [&str; 3] = ["-Xmx96m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"];

const HELP: &str = "tests against Apache ZooKeeper need Debian's packages: \
                    apt-get install default-jre-headless libzookeeper-java libslf4j-java";

/// Apache ZooKeeper 3.8 on fresh data: TTLs allowed, all four-letter words, no admin server.
#[derive(Debug)]
pub struct Apache {
    data: TempDir,
    tick_ms: u32,
    jvm: &'static [&'static str],
    synced: bool,
    properties: Vec<String>,
    member: Option<Member>,
}

/// Configuration of a server in an ensemble of several.
#[derive(Debug)]
pub(crate) struct Member {
    /// From 1.
    pub(crate) id: usize,
    /// Configuration lines that name all members, this one included, and their time limits.
    pub(crate) lines: Vec<String>,
}

impl Apache {
    /// A server with default settings except for a small heap.
    ///
    /// # Panics
    /// If Java or a jar is missing.
    #[expect(clippy::new_without_default, reason = "it makes a directory, which nobody expects of a default")]
    pub fn new() -> Self {
        if let Some(missing) = JARS.into_iter().find(|jar| !Path::new(jar).is_file()) {
            panic!("{missing} is missing; {HELP}");
        }
        assert_java();
        let data = tempfile::tempdir().expect("a temporary directory can be made");
        Self { data, tick_ms: 2000, jvm: &["-Xmx256m"], synced: true, properties: Vec::new(), member: None }
    }

    /// Sets `tickTime`; session time-outs lie between 2 and 20 ticks.
    pub fn tick_ms(mut self, tick_ms: u32) -> Self {
        self.tick_ms = tick_ms;
        self
    }

    /// Uses as little memory and as few threads as possible.
    pub fn lean(mut self) -> Self {
        self.jvm = &LEAN;
        self
    }

    pub(crate) fn member(mut self, member: Member) -> Self {
        self.member = Some(member);
        self
    }

    /// Answers before the log is on disk: for tests where durability does not matter.
    pub fn unsynced(mut self) -> Self {
        self.synced = false;
        self
    }

    /// Sets a Java property, as `name=value`.
    pub fn property(mut self, property: &str) -> Self {
        self.properties.push(format!("-D{property}"));
        self
    }

    /// Starts it and waits until it serves.
    pub fn start(self) -> Server {
        Server::start(self)
    }

    fn write_config(&self, port: u16) -> io::Result<PathBuf> {
        let data = self.data.path().join("data");
        fs::create_dir_all(&data)?;
        let mut config = String::new();
        for (name, value) in [
            ("tickTime", self.tick_ms.to_string()),
            ("dataDir", data.display().to_string()),
            ("clientPort", port.to_string()),
            ("clientPortAddress", Ipv4Addr::LOCALHOST.to_string()),
            ("admin.enableServer", "false".to_owned()),
            ("4lw.commands.whitelist", "*".to_owned()),
            // Tests open many connections from one address.
            ("maxClientCnxns", "0".to_owned()),
        ] {
            writeln!(config, "{name}={value}").expect("strings take everything");
        }
        if let Some(member) = &self.member {
            config.push_str(&member.lines.join("\n"));
            fs::write(data.join("myid"), member.id.to_string())?;
        }
        let path = self.data.path().join("zoo.cfg");
        fs::write(&path, config)?;
        Ok(path)
    }
}

impl Recipe for Apache {
    fn address(&self) -> SocketAddr {
        (Ipv4Addr::LOCALHOST, free_port()).into()
    }

    fn spawn(&self, address: SocketAddr) -> Process {
        let config = self.write_config(address.port()).expect("the configuration can be written");
        let mut command = Command::new("java");
        command.args(self.jvm);
        if !self.synced {
            command.arg("-Dzookeeper.forceSync=no");
        }
        command
            .args(["-Dzookeeper.extendedTypesEnabled=true", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"])
            // A vote lost together with the killed leader's connection is repeated after this time; the default is up
            // to a minute.
            .arg("-Dzookeeper.fastleader.maxNotificationInterval=1000")
            .args(&self.properties)
            .args(["-cp", &JARS.join(":"), "org.apache.zookeeper.server.quorum.QuorumPeerMain"])
            .arg(config);
        Process::spawn(&mut command)
    }

    fn wait_until_ready(&self, process: &mut Process, address: SocketAddr) -> SocketAddr {
        // It answers `imok` before it grants sessions; only then does it have a mode.
        process.wait_until("Apache ZooKeeper", DEADLINE, || words::mode(address).is_some());
        address
    }

    fn data(&self) -> &Path {
        self.data.path()
    }

    fn set_tick_ms(&mut self, tick_ms: u32) {
        self.tick_ms = tick_ms;
    }
}

/// Checks once per process: each check takes a whole JVM.
fn assert_java() {
    static JAVA: OnceLock<()> = OnceLock::new();
    JAVA.get_or_init(|| {
        if let Err(error) = Command::new("java").arg("-version").output() {
            panic!("cannot run java: {error}; {HELP}");
        }
    });
}
