//! What every test needs: a pool of its own, and hosts that want a slot.

use std::ops::Deref;

use menagerie_kernel::Session;
use menagerie_slots::core::Local;
use menagerie_slots::{HeldSlot, Request, SlotsError, Snapshot, acquire, admin, identity};
pub use menagerie_testkit::LONG;
use menagerie_znodes::Name;
use tokio::task::JoinHandle;

/// A world with a pool in it.
pub struct World {
    world: menagerie_testkit::World,
    pub pool: Name,
}

impl Deref for World {
    type Target = menagerie_testkit::World;

    fn deref(&self) -> &Self::Target {
        &self.world
    }
}

impl World {
    /// Creates a pool with this maximum.
    pub async fn new(name: &str, max: u32) -> Self {
        let world = Self { world: menagerie_testkit::World::new(name), pool: Name::new("pool").unwrap() };
        let session = world.session().await;
        admin::create(&session, &world.pool, max, "test").await.unwrap();
        world
    }

    pub async fn snapshot(&self, session: &Session) -> Snapshot {
        let term = session.term();
        term.sync("/").await.unwrap();
        Snapshot::read(&term, &self.pool).await.unwrap()
    }

    /// Names of the holders, by slot.
    pub async fn holders(&self, session: &Session) -> Vec<String> {
        self.snapshot(session).await.slots.values().map(|holder| holder.holder.clone()).collect()
    }

    pub async fn acquire(&self, session: &Session, holder: &str) -> HeldSlot {
        acquire(session, &self.pool, &request(holder), |_| {}).await.unwrap()
    }

    /// Acquires in the background, and returns once it waits in the queue.
    pub async fn queue_up(
        &self,
        session: &Session,
        request: Request,
    ) -> JoinHandle<Result<HeldSlot, SlotsError>> {
        let (told, mut waits) = tokio::sync::mpsc::unbounded_channel();
        let (session, pool) = (session.clone(), self.pool.clone());
        let task = tokio::spawn(async move {
            acquire(&session, &pool, &request, |standing| {
                let _ = told.send(standing);
            })
            .await
        });
        waits.recv().await.unwrap();
        task
    }
}

/// A request of this process.
pub fn request(holder: &str) -> Request {
    Request {
        holder: holder.to_owned(),
        priority: 0,
        ephemeral: false,
        who: Some("tester".to_owned()),
        reason: None,
        command: Vec::new(),
        local: Local { host: holder.to_owned(), ..identity::local() },
        process: Some(identity::this_process()),
        guard: None,
    }
}
