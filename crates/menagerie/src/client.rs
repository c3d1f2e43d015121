//! What every command that talks to ZooKeeper needs: its options, a session, and a clean end on SIGINT and SIGTERM.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use menagerie_kernel::local_secret::Owner;
use menagerie_kernel::session::{Auth as KernelAuth, Rights, Tls};
use menagerie_kernel::{Config, Session, State, Term, local_secret};
use tokio::signal::unix::{SignalKind, signal};

use crate::config::{self, Auth, Chosen, ConfigError, Origin, Secret, Servers, Settings, TlsText};
use crate::exit::CliError;

/// Longest wait for one reply before the command reports an error.
const CALL_TIMEOUT: Duration = Duration::from_secs(10);

/// Longest wait for a server that answers to close our session. A busy one gets some time: until the session is
/// closed, the waiter behind us in a queue waits for its time-out.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(5);

/// The same for a server that does not answer: it expires the session by itself.
const CLOSE_TIMEOUT_UNHEARD: Duration = Duration::from_secs(1);

/// Where ZooKeeper is.
#[derive(Debug, Clone, Args)]
pub struct ClientArgs {
    /// ZooKeeper servers [env: MENAGERIE_ZOOKEEPER] [default: the keeper of a local `menagerie up`, else
    /// 127.0.0.1:2181].
    #[arg(long, global = true, value_name = "HOST:PORT,…[/CHROOT]", help_heading = "ZooKeeper")]
    zookeeper: Option<String>,
    /// Znode below which Menagerie keeps everything [env: MENAGERIE_NAMESPACE] [default: /menagerie].
    #[arg(long, global = true, value_name = "PATH", help_heading = "ZooKeeper")]
    namespace: Option<String>,
    /// Configuration file [env: MENAGERIE_CONFIG] [default: the first of ./menagerie.toml,
    /// ~/.config/menagerie/menagerie.toml, /etc/menagerie/menagerie.toml].
    #[arg(long, global = true, value_name = "FILE", help_heading = "ZooKeeper")]
    config: Option<PathBuf>,
}

impl ClientArgs {
    /// As if these were on the command line.
    pub fn new(zookeeper: Option<String>, namespace: Option<String>, config: Option<PathBuf>) -> Self {
        Self { zookeeper, namespace, config }
    }

    /// Resolves the settings from flags, environment and file.
    pub fn settings(self) -> Result<Settings, CliError> {
        let inputs = config::gather::gather(self.zookeeper, self.namespace, self.config)?;
        let mut settings = config::resolve(&inputs)?;
        // The keeper of `menagerie up` gives its secret to programs of its own user.
        if settings.auth.is_none()
            && let Some((address, secret)) = keeper_of_up(&settings.servers.value)
        {
            settings.servers.value = settings.servers.value.at(address);
            settings.auth = Some(Chosen { value: Auth::Digest(Secret(secret)), origin: Origin::Up });
        }
        Ok(settings)
    }
}

/// Address and secret of the keeper of this user's `menagerie up`, if these servers mean it. We connect to the
/// address that gave the secret and to no other: another user's server may listen on the same port elsewhere.
fn keeper_of_up(servers: &Servers) -> Option<(SocketAddr, String)> {
    servers.addresses_here().into_iter().find_map(|address| {
        let everywhere: IpAddr = match address {
            SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
            SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
        };
        let listens = [address, SocketAddr::new(everywhere, address.port())];
        let secret = listens.iter().find_map(|address| local_secret::ask(&Owner::keeper(*address)));
        secret.map(|secret| (address, secret))
    })
}

/// How to open a session in the namespace.
#[derive(Debug, Clone)]
pub struct Connection {
    /// Servers, namespace and credentials.
    pub config: Config,
    /// Where the server list comes from, for error messages.
    pub origin: Origin,
}

impl Connection {
    /// A session in the namespace, with these rights.
    pub fn within(settings: &Settings, rights: Rights) -> Result<Self, CliError> {
        let mut config = kernel_config(settings, &settings.servers.value)?;
        config.namespace.clone_from(&settings.namespace.value);
        config.rights = rights;
        Ok(Self { config, origin: settings.servers.origin.clone() })
    }

    /// Opens a session.
    pub async fn open(&self) -> Result<Session, CliError> {
        let opened = Session::connect(self.config.clone()).await;
        opened.map_err(|source| CliError::Connect { source, origin: self.origin.clone() })
    }
}

/// A session that sees the ensemble from its root, and the settings that opened it.
pub struct Client {
    /// The resolved settings.
    pub settings: Settings,
    /// The session.
    pub session: Session,
}

impl Client {
    /// Connects to the ensemble's root.
    pub async fn connect(settings: Settings) -> Result<Self, CliError> {
        let config = kernel_config(&settings, &settings.servers.value)?;
        let origin = settings.servers.origin.clone();
        match Session::connect(config).await {
            Ok(session) => Ok(Self { settings, session }),
            Err(source) => Err(CliError::Connect { source, origin }),
        }
    }

    /// Connects within the namespace, as an engine does.
    pub async fn connect_within(settings: Settings, rights: Rights) -> Result<Self, CliError> {
        let session = Connection::within(&settings, rights)?.open().await?;
        Ok(Self { settings, session })
    }

    /// The session's first term; a command needs no other.
    pub fn term(&self) -> Term {
        self.session.term()
    }

    /// If the chroot does not exist, every other "no such znode" follows from that: report the chroot instead.
    async fn explain(&self, result: Result<(), CliError>) -> Result<(), CliError> {
        match result {
            Err(error) if error.is_no_znode() => self.require_root().await.and(Err(error)),
            result => result,
        }
    }

    /// Fails if the chroot of the server list does not exist; an unreachable server is reported elsewhere.
    pub async fn require_root(&self) -> Result<(), CliError> {
        let Chosen { value: servers, origin } = &self.settings.servers;
        if servers.chroot().is_empty() || !matches!(self.term().stat("/").await, Ok(None)) {
            return Ok(());
        }
        let (chroot, hosts) = (servers.chroot(), servers.hosts().join(","));
        Err(CliError::Refused {
            what: format!("{chroot}, the chroot given after the servers, does not exist"),
            help: format!(
                "it comes from: {origin}. Correct it, or create it with `menagerie zk create -p {chroot} --zookeeper {hosts}`"
            ),
        })
    }

    /// Path of the namespace, from the ensemble's root.
    pub fn namespace(&self) -> &str {
        &self.settings.namespace.value
    }
}

/// Connects, works, and closes the session; also after SIGINT or SIGTERM.
pub fn run(
    args: ClientArgs,
    work: impl AsyncFnOnce(&Client) -> Result<(), CliError>,
) -> Result<(), CliError> {
    let settings = args.settings()?;
    block_on(async move {
        let client = until_stopped(Client::connect(settings)).await?;
        let result = until_stopped(work(&client)).await;
        let result = client.explain(result).await;
        close(client.session).await;
        result
    })
}

/// The same with a session within the namespace, as engines have it.
pub fn run_within(
    args: ClientArgs,
    rights: Rights,
    work: impl AsyncFnOnce(&Client) -> Result<(), CliError>,
) -> Result<(), CliError> {
    let settings = args.settings()?;
    block_on(async move {
        let client = until_stopped(Client::connect_within(settings, rights)).await?;
        let result = until_stopped(work(&client)).await;
        close(client.session).await;
        result
    })
}

/// Works until done, or until SIGINT or SIGTERM.
pub async fn until_stopped<T>(work: impl Future<Output = Result<T, CliError>>) -> Result<T, CliError> {
    tokio::select! {
        result = work => result,
        signal = stopped() => Err(CliError::Interrupted { signal: signal? }),
    }
}

/// Runs a future on a single-threaded runtime.
pub fn block_on<T>(work: impl Future<Output = Result<T, CliError>>) -> Result<T, CliError> {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(CliError::io("start the runtime"))?;
    runtime.block_on(work)
}

/// Closes the session, so that the server need not wait for its time-out.
pub async fn close(session: Session) {
    let patience = match *session.state().borrow() {
        State::Connected => CLOSE_TIMEOUT,
        State::Suspended | State::Lost => CLOSE_TIMEOUT_UNHEARD,
    };
    let _ = tokio::time::timeout(patience, session.close()).await;
}

/// Waits for SIGINT or SIGTERM and returns its number.
pub async fn stopped() -> Result<i32, CliError> {
    let listen = |kind| signal(kind).map_err(CliError::io("listen for signals"));
    let (interrupt, terminate) = (SignalKind::interrupt(), SignalKind::terminate());
    let (mut interrupts, mut terminations) = (listen(interrupt)?, listen(terminate)?);
    Ok(tokio::select! {
        _ = interrupts.recv() => interrupt.as_raw_value(),
        _ = terminations.recv() => terminate.as_raw_value(),
    })
}

/// Kernel settings for these servers: observer rights unless the caller asks for more.
pub fn kernel_config(settings: &Settings, servers: &Servers) -> Result<Config, ConfigError> {
    let mut config = Config::new(servers.to_string(), "/");
    config.rights = Rights::Observer;
    config.timeout = settings.session_timeout.value;
    config.call_timeout = CALL_TIMEOUT;
    let credentials = config::credentials(settings)?;
    config.auth = credentials.digest.map(|Secret(digest)| KernelAuth { digest });
    config.tls = credentials.tls.map(|TlsText { ca, identity }| Tls { ca, identity });
    Ok(config)
}
