//! The journal's entry under `/components/journal`: what it is called, where it listens, and where its token is. Two of one name
//! are not registered: messages would go to one and be looked for in the other.

use std::net::IpAddr;
use std::path::PathBuf;
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use menagerie_kernel::recipes::membership::{Member, MembershipError, Registered, Registry};
use menagerie_kernel::{Config, Session, whole};
use menagerie_znodes::Name;
use menagerie_znodes::components::{Component, ComponentState};
use serde_json::Value;
use tokio::net::TcpStream;
use tokio::sync::oneshot;
use tracing::warn;

use crate::exit::CliError;

/// Between two attempts to reach ZooKeeper: the journal serves without it.
const AGAIN: Duration = Duration::from_secs(2);
/// Taking leave takes no longer.
const LEAVE: Duration = Duration::from_secs(2);

/// How long one that is registered may take to answer.
const ANSWER: Duration = Duration::from_secs(2);
/// Between two looks whether one that does not answer is still registered.
const LOOK: Duration = Duration::from_secs(1);
/// Whoever starts waits so long for what comes of it.
const VERDICT: Duration = Duration::from_secs(2);

/// What a journal is called unless it is told: one is enough for most.
pub const NAME: &str = "main";

/// What is registered.
pub struct Entry {
    /// What queues call it.
    pub name: Name,
    /// `HOST:PORT`, as others reach it.
    pub address: String,
    /// The file with its token.
    pub token: PathBuf,
    /// It speaks TLS.
    pub tls: bool,
}

/// Another journal that has the name, and answers.
#[derive(Debug)]
pub struct Taken {
    name: String,
    address: String,
    host: String,
}

impl From<Taken> for CliError {
    fn from(Taken { name, address, host }: Taken) -> Self {
        Self::Refused {
            what: format!("journal {name:?} runs already, on {address} of {host}, with other data"),
            help: "give this one a name of its own with --name, or stop the other one".to_owned(),
        }
    }
}

/// A registration on a thread of its own. Dropped, it leaves.
pub struct Registration {
    stop: Option<oneshot::Sender<()>>,
    thread: Option<thread::JoinHandle<Option<Taken>>>,
    refused: bool,
}

impl Registration {
    /// Registers, now or when ZooKeeper can be reached. If another has the name, `taken` is called, and nothing is registered;
    /// that is known on return, unless ZooKeeper or the other one do not answer.
    pub fn begin(
        config: Config,
        mut entry: Entry,
        taken: impl FnOnce() + Send + 'static,
    ) -> std::io::Result<Self> {
        let (stop, stopped) = oneshot::channel();
        let (first, told) = mpsc::channel();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        entry.token = entry.token.canonicalize().unwrap_or(entry.token);
        let run = move || {
            let by = runtime.block_on(stay(config, entry, stopped, &first));
            if by.is_some() {
                taken();
            }
            let _ = first.send(by.is_some());
            by
        };
        let thread = thread::Builder::new().name("journal-member".to_owned()).spawn(run)?;
        let refused = told.recv_timeout(VERDICT).unwrap_or_default();
        Ok(Self { stop: Some(stop), thread: Some(thread), refused })
    }

    /// Whether another had the name from the beginning.
    pub fn is_refused(&self) -> bool {
        self.refused
    }

    /// Leaves; an error if another had the name.
    pub fn end(mut self) -> Result<(), CliError> {
        self.leave().map_or(Ok(()), |taken| Err(taken.into()))
    }

    fn leave(&mut self) -> Option<Taken> {
        if let Some(stop) = self.stop.take() {
            // It may have ended by itself.
            let _ = stop.send(());
        }
        self.thread.take()?.join().ok().flatten()
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        self.leave();
    }
}

/// Stays registered until it is stopped, or finds that another has the name. `first` is told when it is not
/// refused at once.
async fn stay(
    config: Config,
    entry: Entry,
    mut stopped: oneshot::Receiver<()>,
    first: &mpsc::Sender<bool>,
) -> Option<Taken> {
    loop {
        let session = tokio::select! {
            session = Session::connect(config.clone()) => session,
            _ = &mut stopped => return None,
        };
        match session {
            Ok(session) => {
                let registered = tokio::select! {
                    registered = register(&session, &entry) => registered,
                    _ = &mut stopped => return None,
                };
                match registered {
                    Ok(Ok(member)) => {
                        // Nobody may wait for it any more.
                        let _ = first.send(false);
                        let _ = (&mut stopped).await;
                        let _ = tokio::time::timeout(LEAVE, member.leave()).await;
                        let _ = tokio::time::timeout(LEAVE, session.close()).await;
                        return None;
                    }
                    Ok(Err(taken)) => return Some(taken),
                    Err(error) => warn!(error, "cannot register the journal; trying again"),
                }
            }
            Err(error) => {
                let _ = first.send(false);
                warn!(error = %whole(&error), "cannot reach ZooKeeper to register the journal; trying again");
            }
        }
        tokio::select! {
            () = tokio::time::sleep(AGAIN) => {}
            _ = &mut stopped => return None,
        }
    }
}

/// Registers, unless another has the name. One that is gone is waited for: its entry goes with its session.
async fn register(session: &Session, entry: &Entry) -> Result<Result<Member, Taken>, String> {
    let kind = Name::new("journal").map_err(|error| error.to_string())?;
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let host = Name::new(host).map_err(|error| error.to_string())?;
    let mut component = Component::new(&host, env!("CARGO_PKG_VERSION"));
    component.state = ComponentState::Running;
    let Entry { name, address, token, tls } = entry;
    component.details.insert("name".to_owned(), name.as_str().into());
    component.details.insert("address".to_owned(), address.as_str().into());
    component.details.insert("token_file".to_owned(), token.display().to_string().into());
    component.details.insert("tls".to_owned(), (*tls).into());
    let whole = |error: MembershipError| whole(&error).to_string();
    let registry = Registry::new(session);
    let mut told = false;
    loop {
        let mut rival = rival(&registry.members(&kind).await.map_err(whole)?, &component);
        if rival.is_none() {
            let member = Member::join(session, &kind, component.clone()).await.map_err(whole)?;
            // Of two that begin at once, the later one sees the other now.
            rival = self::rival(&registry.members(&kind).await.map_err(whole)?, &member.component());
            if rival.is_none() {
                return Ok(Ok(member));
            }
            member.leave().await.map_err(whole)?;
        }
        let Some(rival) = rival else { continue };
        // Where we listen now, it does not any more; a container that is made anew has another host's name. But every host has
        // a loopback of its own.
        let ours = rival.address == *address && (rival.host == host.as_str() || !is_loopback(address));
        if !ours && answers(&rival.address).await {
            return Ok(Err(rival));
        }
        if !told {
            let Taken { name, address, host } = &rival;
            warn!(
                name,
                address, host, "a journal of our name is registered and does not answer; waiting for its end"
            );
            told = true;
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// Another one of our name that was registered before us; one with our data is us before a restart.
fn rival(members: &[Registered], ours: &Component) -> Option<Taken> {
    let text = |component: &Component, key: &str| {
        component.details.get(key).and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    let place = |component: &Component| (component.host.clone(), text(component, "token_file"));
    let since = members.iter().find(|member| member.component.id == ours.id).map(|member| member.zxid);
    members
        .iter()
        .filter(|member| since.is_none_or(|since| member.zxid < since))
        .map(|member| &member.component)
        .find(|other| text(other, "name") == text(ours, "name") && place(other) != place(ours))
        .map(|other| Taken {
            name: text(other, "name"),
            address: text(other, "address"),
            host: other.host.clone(),
        })
}

/// Whether an address is one that every host has for itself.
fn is_loopback(address: &str) -> bool {
    let host = address.rsplit_once(':').map_or(address, |(host, _)| host).trim_matches(['[', ']']);
    host == "localhost" || host.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback())
}

async fn answers(address: &str) -> bool {
    matches!(tokio::time::timeout(ANSWER, TcpStream::connect(address)).await, Ok(Ok(_)))
}
