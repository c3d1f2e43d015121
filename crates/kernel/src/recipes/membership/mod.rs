//! Membership: the registry of all running components, by kind.
//!
//! **It promises** that a component is listed while it runs and is connected, with its last published state; that it
//! lists itself again after its ZooKeeper session was lost or its entry removed; and that it is gone from the list when
//! it leaves, or a session time-out after it has crashed.
//!
//! **It does not promise** that a listed component is alive right now, nor that an unlisted one is dead: a component
//! that cannot reach ZooKeeper is not listed and may work on. Use a lock or an election where that matters.
//!
//! # Layout in ZooKeeper
//! `/components/<kind>/<host><number>`, ephemeral, JSON ([`Component`]).
//!
//! ```no_run
//! # use menagerie_kernel::{Session, recipes::membership::{Member, MembershipError, Registry}};
//! # use menagerie_znodes::{Name, components::{Component, ComponentState}};
//! # async fn example(session: &Session, kind: Name, host: Name) -> Result<(), MembershipError> {
//! let member = Member::join(session, &kind, Component::new(&host, "1.0")).await?;
//! member.set_state(ComponentState::Running).await?;
//! let view = Registry::new(session).watch(&kind).await?;
//! let mut members = view.members();
//! while members.borrow_and_update().len() < 3 && members.changed().await.is_ok() {}
//! member.leave().await?;
//! # Ok(())
//! # }
//! ```

mod member_list;
mod registry;
mod view;

use std::sync::{Mutex, PoisonError};

use menagerie_znodes::components::{self, Component, ComponentState};
use menagerie_znodes::{Name, NameError, Payload as _};
use thiserror::Error;

pub use member_list::MemberList;
pub use registry::{Registered, Registry};
pub use view::{ComponentView, components};

use super::registration::{Naming, Registration};
use crate::error::{CallError, Remedy};
use crate::session::Session;
use crate::unique;

/// Errors of the registry.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[allow(missing_docs, reason = "the fields of errors name themselves")]
pub enum MembershipError {
    /// The component's host name cannot be part of a path.
    #[error("a component cannot register from host {host:?}")]
    Host { host: String, source: NameError },
    /// A call to ZooKeeper failed.
    #[error("cannot use the registry at {path}")]
    Call { path: String, source: CallError },
}

impl MembershipError {
    /// What the caller may do.
    pub fn remedy(&self) -> Remedy {
        match self {
            Self::Host { .. } => Remedy::TellUser,
            Self::Call { source, .. } => source.remedy(),
        }
    }
}

/// A listed component. Dropping it leaves in the background.
#[derive(Debug)]
#[must_use = "dropped, it leaves"]
pub struct Member {
    registration: Registration,
    /// What the entry publishes. Locked only to change it, never across an await.
    component: Mutex<Component>,
    dir: String,
}

impl Member {
    /// Registers a component, and keeps it registered: in every new ZooKeeper session, and when somebody removes its
    /// entry. Draws its `id`, which tells it from all others, also from itself before a restart.
    pub async fn join(
        session: &Session,
        kind: &Name,
        mut component: Component,
    ) -> Result<Self, MembershipError> {
        let host = Name::new(component.host.as_str())
            .map_err(|source| MembershipError::Host { host: component.host.clone(), source })?;
        component.id = unique::hex();
        let dir = components::kind(kind).path().to_owned();
        let member = components::member(kind, &host);
        let prefix = member.path().strip_prefix(&dir).unwrap_or_default().trim_start_matches('/');
        let naming = Naming::Numbered { prefix: prefix.to_owned() };
        match Registration::begin(session, &dir, naming, component.encode()).await {
            Ok(registration) => Ok(Self { registration, component: Mutex::new(component), dir }),
            Err(source) => Err(MembershipError::Call { path: dir, source }),
        }
    }

    /// What the entry publishes now.
    pub fn component(&self) -> Component {
        self.component.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The path of its entry; `None` between two sessions.
    pub fn path(&self) -> Option<String> {
        self.registration.path()
    }

    /// Publishes a new state, and waits until it is stored.
    pub async fn set_state(&self, state: ComponentState) -> Result<(), MembershipError> {
        self.update(|component| component.state = state).await
    }

    /// Changes what the entry publishes, and waits until it is stored: in the next session, if this one is lost.
    /// Dropping the future does not undo the change. Host and id cannot be changed.
    pub async fn update(&self, change: impl FnOnce(&mut Component)) -> Result<(), MembershipError> {
        let change = {
            let mut component = self.component.lock().unwrap_or_else(PoisonError::into_inner);
            let (host, id) = (component.host.clone(), component.id.clone());
            change(&mut component);
            (component.host, component.id) = (host, id);
            self.registration.want(component.encode())
        };
        self.registration.reach(change).await.map_err(|source| self.call_error(source))
    }

    /// Removes the entry.
    pub async fn leave(self) -> Result<(), MembershipError> {
        let Self { registration, dir, .. } = self;
        registration.leave().await.map_err(|source| MembershipError::Call { path: dir, source })
    }

    fn call_error(&self, source: CallError) -> MembershipError {
        MembershipError::Call { path: self.dir.clone(), source }
    }
}
