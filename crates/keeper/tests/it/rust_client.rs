//! The client that Menagerie itself uses, against the keeper.

use std::future::Future;
use std::time::Duration;

use menagerie_testkit::{DEADLINE, Keeper, Server, eventually, four_letter_word};
use zookeeper_client::{
    Acls, AddWatchMode, Client, CreateMode, CreateOptions, Error, EventType, LockOptions, LockPrefix,
    MultiReadResult, MultiWriteError, MultiWriteResult, SessionState,
};

const PERSISTENT: CreateOptions<'static> = CreateMode::Persistent.with_acls(Acls::anyone_all());
const EPHEMERAL: CreateOptions<'static> = CreateMode::Ephemeral.with_acls(Acls::anyone_all());
const SEQUENTIAL: CreateOptions<'static> = CreateMode::PersistentSequential.with_acls(Acls::anyone_all());
const CONTAINER: CreateOptions<'static> = CreateMode::Container.with_acls(Acls::anyone_all());

/// Time-out of each wait.
async fn soon<T>(what: impl Future<Output = T>) -> T {
    tokio::time::timeout(DEADLINE, what).await.expect("it happens in time")
}

async fn connect(server: &Server) -> Client {
    soon(Client::connect(&server.address().to_string())).await.unwrap()
}

async fn start() -> (Server, Client) {
    let server = Keeper::new().start();
    let client = connect(&server).await;
    (server, client)
}

#[tokio::test]
async fn znodes_are_created_read_set_listed_and_deleted() {
    let (_server, client) = start().await;
    let (stat, _) = client.create("/a", b"1", &PERSISTENT).await.unwrap();
    assert_eq!(stat.czxid, stat.mzxid);
    assert_eq!(client.create("/a", b"1", &PERSISTENT).await.unwrap_err(), Error::NodeExists);
    for expected in ["0000000000", "0000000001"] {
        let (_, sequence) = client.create("/a/n-", b"", &SEQUENTIAL).await.unwrap();
        assert_eq!(sequence.to_string(), expected);
    }
    assert_eq!(client.get_data("/a").await.unwrap().0, b"1");
    assert_eq!(client.set_data("/a", b"2", Some(7)).await.unwrap_err(), Error::BadVersion);
    assert_eq!(client.set_data("/a", b"2", Some(0)).await.unwrap().version, 1);
    let (mut names, stat) = client.get_children("/a").await.unwrap();
    names.sort_unstable();
    assert_eq!(names, ["n-0000000000", "n-0000000001"]);
    assert_eq!((stat.num_children, stat.version), (2, 1));
    assert_eq!(client.count_descendants_number("/a").await.unwrap(), 2);
    assert_eq!(client.delete("/a", None).await.unwrap_err(), Error::NotEmpty);
    client.delete("/a/n-0000000000", None).await.unwrap();
    assert_eq!(client.check_stat("/a/n-0000000000").await.unwrap(), None);
    client.sync("/a").await.unwrap();
    client.get_config().await.unwrap();
}

#[tokio::test]
async fn containers_and_times_to_live_are_accepted() {
    let (_server, client) = start().await;
    let (stat, _) = client.create("/container", b"", &CONTAINER).await.unwrap();
    assert_eq!(stat.ephemeral_owner, 0);
    let mortal = PERSISTENT.with_ttl(Duration::from_secs(3600));
    let (stat, _) = client.create("/mortal", b"", &mortal).await.unwrap();
    assert_eq!(stat.ephemeral_owner, 0);
    client.mkdir("/deep/er/still", &CONTAINER).await.unwrap();
}

#[tokio::test]
async fn multis_take_effect_as_a_whole_or_not_at_all() {
    let (_server, client) = start().await;
    let mut writer = client.new_multi_writer();
    writer.add_create("/a", b"", &PERSISTENT).unwrap();
    writer.add_create("/a/c", b"", &CONTAINER).unwrap();
    writer.add_set_data("/a", b"1", Some(0)).unwrap();
    writer.add_check_version("/a", 1).unwrap();
    writer.add_delete("/a/c", None).unwrap();
    let results = writer.commit().await.unwrap();
    assert_eq!(results.len(), 5);
    assert!(matches!(&results[0], MultiWriteResult::Create { path, .. } if path == "/a"), "{results:?}");
    let mut writer = client.new_multi_writer();
    writer.add_set_data("/a", b"2", None).unwrap();
    writer.add_delete("/missing", None).unwrap();
    let failed = MultiWriteError::OperationFailed { index: 1, source: Error::NoNode };
    assert_eq!(writer.commit().await.unwrap_err(), failed);
    let mut reader = client.new_multi_reader();
    reader.add_get_data("/a").unwrap();
    reader.add_get_data("/missing").unwrap();
    reader.add_get_children("/a").unwrap();
    let results = reader.commit().await.unwrap();
    assert!(matches!(&results[0], MultiReadResult::Data { data, .. } if data == b"1"), "{results:?}");
    assert!(matches!(&results[1], MultiReadResult::Error { err: Error::NoNode }), "{results:?}");
    assert!(matches!(&results[2], MultiReadResult::Children { children } if children.is_empty()));
}

#[tokio::test]
async fn one_shot_watches_fire_with_the_zxid_of_their_cause() {
    let (_server, client) = start().await;
    let (missing, created) = client.check_and_watch_stat("/a").await.unwrap();
    assert_eq!(missing, None);
    let (stat, _) = client.create("/a", b"", &PERSISTENT).await.unwrap();
    let event = soon(created.changed()).await;
    assert_eq!((event.event_type, event.zxid), (EventType::NodeCreated, stat.czxid));
    let (_, _, changed) = client.get_and_watch_data("/a").await.unwrap();
    let (_, children) = client.list_and_watch_children("/a").await.unwrap();
    let stat = client.set_data("/a", b"1", None).await.unwrap();
    let event = soon(changed.changed()).await;
    assert_eq!((event.event_type, event.zxid), (EventType::NodeDataChanged, stat.mzxid));
    client.create("/a/b", b"", &PERSISTENT).await.unwrap();
    assert_eq!(soon(children.changed()).await.event_type, EventType::NodeChildrenChanged);
}

#[tokio::test]
async fn persistent_watches_fire_every_time() {
    let (_server, client) = start().await;
    let mut node = client.watch("/a", AddWatchMode::Persistent).await.unwrap();
    let mut tree = client.watch("/a", AddWatchMode::PersistentRecursive).await.unwrap();
    client.create("/a", b"", &PERSISTENT).await.unwrap();
    client.create("/a/b", b"", &PERSISTENT).await.unwrap();
    client.set_data("/a/b", b"1", None).await.unwrap();
    for expected in [EventType::NodeCreated, EventType::NodeChildrenChanged] {
        let event = soon(node.changed()).await;
        assert_eq!((event.event_type, event.path.as_str()), (expected, "/a"));
    }
    for expected in [
        (EventType::NodeCreated, "/a"),
        (EventType::NodeCreated, "/a/b"),
        (EventType::NodeDataChanged, "/a/b"),
    ] {
        let event = soon(tree.changed()).await;
        assert_eq!((event.event_type, event.path.as_str()), expected);
    }
}

/// On several threads, because waiting for the server blocks one of them.
#[tokio::test(flavor = "multi_thread")]
async fn dropped_watch_is_removed_on_the_server() {
    let (server, client) = start().await;
    client.create("/a", b"", &PERSISTENT).await.unwrap();
    let watches = || four_letter_word(server.address(), "mntr").contains("zk_watch_count\t1");
    let (_, _, one_shot) = client.get_and_watch_data("/a").await.unwrap();
    assert!(watches());
    drop(one_shot);
    eventually("the one-shot watch is removed", || (!watches()).then_some(()));
    let persistent = client.watch("/a", AddWatchMode::PersistentRecursive).await.unwrap();
    assert!(watches());
    drop(persistent);
    eventually("the persistent watch is removed", || (!watches()).then_some(()));
}

#[tokio::test]
async fn lock_is_held_by_one_client_at_a_time_and_fences_its_writes() {
    let (server, first) = start().await;
    let second = connect(&server).await;
    first.create("/guarded", b"", &PERSISTENT).await.unwrap();
    let prefix = || LockPrefix::new_curator("/locks/one", "latch-").unwrap();
    let options = || LockOptions::new(Acls::anyone_all()).with_ancestor_options(CONTAINER).unwrap();
    let held = first.lock(prefix(), b"", options()).await.unwrap();
    held.set_data("/guarded", b"first", None).await.unwrap();
    let path = held.lock_path().to_owned();
    let waiting = second.lock(prefix(), b"", options());
    tokio::pin!(waiting);
    let contenders = async {
        while first.list_children("/locks/one").await.unwrap().len() < 2 {
            tokio::task::yield_now().await;
        }
    };
    tokio::select! {
        _ = &mut waiting => panic!("the lock is taken"),
        () = soon(contenders) => {}
    }
    // Somebody else ends the first holder's claim: its writes are refused, and the second gets the lock.
    second.delete(&path, None).await.unwrap();
    assert_eq!(held.set_data("/guarded", b"late", None).await.unwrap_err(), Error::RuntimeInconsistent);
    let held = soon(waiting).await.unwrap();
    held.set_data("/guarded", b"second", None).await.unwrap();
    assert_eq!(first.get_data("/guarded").await.unwrap().0, b"second");
}

#[tokio::test]
async fn session_and_its_ephemeral_znodes_survive_a_restart() {
    let (mut server, client) = start().await;
    client.create("/here", b"", &EPHEMERAL).await.unwrap();
    client.create("/a", b"", &PERSISTENT).await.unwrap();
    let session = client.session_id();
    let (_, _, watch) = client.get_and_watch_data("/a").await.unwrap();
    let mut states = client.state_watcher();
    server.kill();
    assert_eq!(soon(states.changed()).await, SessionState::Disconnected);
    server.restart();
    assert_eq!(soon(states.changed()).await, SessionState::SyncConnected);
    assert_eq!(client.session_id(), session);
    assert_eq!(client.list_ephemerals("/").await.unwrap(), ["/here"]);
    let owner = client.check_stat("/here").await.unwrap().expect("it lives with its session").ephemeral_owner;
    assert_eq!(owner, session.0);
    // The client has set its watches again.
    client.set_data("/a", b"1", None).await.unwrap();
    assert_eq!(soon(watch.changed()).await.event_type, EventType::NodeDataChanged);
}

#[tokio::test]
async fn ephemeral_znodes_end_with_the_client() {
    let (server, client) = start().await;
    client.create("/here", b"", &EPHEMERAL).await.unwrap();
    assert_eq!(
        client.create("/here/child", b"", &PERSISTENT).await.unwrap_err(),
        Error::NoChildrenForEphemerals
    );
    let other = connect(&server).await;
    let (_, gone) = other.check_and_watch_stat("/here").await.unwrap();
    drop(client);
    assert_eq!(soon(gone.changed()).await.event_type, EventType::NodeDeleted);
}

#[tokio::test]
async fn credentials_open_what_they_closed() {
    let (server, client) = start().await;
    client.auth("digest", b"alice:secret").await.unwrap();
    let mut users: Vec<String> =
        client.list_auth_users().await.unwrap().iter().map(|user| user.user().to_owned()).collect();
    users.sort_unstable();
    assert_eq!(users, ["127.0.0.1", "alice"]);
    client.create("/own", b"1", &CreateMode::Persistent.with_acls(Acls::creator_all())).await.unwrap();
    let stranger = connect(&server).await;
    assert_eq!(stranger.get_data("/own").await.unwrap_err(), Error::NoAuth);
    stranger.auth("digest", b"alice:secret").await.unwrap();
    assert_eq!(stranger.get_data("/own").await.unwrap().0, b"1");
    stranger.set_acl("/own", &Acls::anyone_read(), None).await.unwrap();
    assert_eq!(stranger.set_data("/own", b"2", None).await.unwrap_err(), Error::NoAuth);
}
