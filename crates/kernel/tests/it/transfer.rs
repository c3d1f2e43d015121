//! A namespace that is being imported belongs to nobody else; one that changes while it is exported is noticed.

use std::io::Write as _;

use menagerie_kernel::session::{IfLate, Rights};
use menagerie_kernel::transfer::format::Line;
use menagerie_kernel::transfer::{self, ExportError, ImportError, Options, Progress, WhenChanged};
use menagerie_kernel::{ConnectError, Session};
use menagerie_znodes::Kind;

use crate::world::{LONG, World};

/// A session that sees the test's root, and owns nothing.
async fn observer(world: &World) -> Session {
    let mut config = world.config(LONG);
    config.rights = Rights::Observer;
    config.namespace = "/".to_owned();
    Session::connect(config).await.unwrap()
}

async fn export(session: &Session, namespace: &str) -> tempfile::NamedTempFile {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    let mut put = |line: &Line| writeln!(file, "{}", serde_json::to_string(line).unwrap());
    let exported =
        transfer::export(&session.term(), namespace, WhenChanged::Fail, &mut put, &mut |_| {}).await.unwrap();
    assert!(!exported.changed);
    file
}

#[tokio::test]
async fn owners_wait_until_an_import_is_finished() {
    let world = World::new("importing");
    let owner = world.session().await;
    owner.term().create("/x", b"data", Kind::Persistent, IfLate::Report).await.unwrap();
    let observer = observer(&world).await;
    let file = export(&observer, "/menagerie").await;
    owner.close().await;

    let term = observer.term();
    term.create("/menagerie/importing", b"{}", Kind::Persistent, IfLate::Report).await.unwrap();
    let refused = Session::connect(world.config(LONG)).await.unwrap_err();
    assert!(matches!(refused, ConnectError::Importing { .. }), "{refused:?}");
    let path = file.path();
    let other = transfer::import(&term, "/menagerie", path, Options::default(), &mut |_| {}).await;
    assert!(matches!(other, Err(ImportError::Other { .. })), "{other:?}");

    let replace = Options { replace: true, ..Options::default() };
    let mut steps = Vec::new();
    let mut progress = |at: Progress| steps.push(at.step);
    transfer::import(&term, "/menagerie", path, replace, &mut progress).await.unwrap();
    assert!(steps.contains(&"deleted") && steps.contains(&"imported"), "{steps:?}");
    let owner = world.session().await;
    assert_eq!(owner.term().get("/x").await.unwrap().0, b"data");
}

const REPLACE: Options = Options { replace: true, all_counters: false };

#[tokio::test]
async fn what_is_in_use_is_left_as_it_was() {
    let world = World::new("in-use");
    let owner = world.session().await;
    let observer = observer(&world).await;
    let file = export(&observer, "/menagerie").await;
    owner.term().create("/held", b"", Kind::Ephemeral, IfLate::Report).await.unwrap();
    let term = observer.term();
    let generation = term.get("/menagerie/generation").await.unwrap().0;

    let used = transfer::import(&term, "/menagerie", file.path(), REPLACE, &mut |_| {}).await;
    assert!(matches!(used, Err(ImportError::InUse { ephemerals: 1, .. })), "{used:?}");
    assert_eq!(term.stat("/menagerie/importing").await.unwrap(), None, "the note was taken back");
    assert_eq!(term.get("/menagerie/generation").await.unwrap().0, generation);
    assert!(owner.term().stat("/held").await.unwrap().is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_taken_while_an_import_deletes_is_spared() {
    let world = World::new("taken-late");
    let owner = world.session().await;
    let observer = observer(&world).await;
    let holder = owner.term();
    for path in ["/a", "/a/b", "/a/b/c", "/a/b/c/d"] {
        holder.create(path, b"", Kind::Persistent, IfLate::Report).await.unwrap();
    }
    let file = export(&observer, "/menagerie").await;
    // The deepest goes first; by then the note is written and nobody held anything.
    let mut taken = false;
    let mut take = |_: Progress| {
        if !std::mem::replace(&mut taken, true) {
            let hold = holder.create("/a/held", b"", Kind::Ephemeral, IfLate::Report);
            tokio::task::block_in_place(|| tokio::runtime::Handle::current().block_on(hold)).unwrap();
        }
    };
    let term = observer.term();
    let used = transfer::import(&term, "/menagerie", file.path(), REPLACE, &mut take).await;
    assert!(matches!(used, Err(ImportError::InUse { ephemerals: 1, .. })), "{used:?}");
    // Run again, it sees the ephemeral before it deletes anything.
    let again = transfer::import(&term, "/menagerie", file.path(), REPLACE, &mut |_| {}).await;
    assert!(matches!(again, Err(ImportError::InUse { .. })), "{again:?}");
    assert!(holder.stat("/a/held").await.unwrap().is_some());

    owner.close().await;
    let imported = transfer::import(&term, "/menagerie", file.path(), REPLACE, &mut |_| {}).await.unwrap();
    assert!(imported.resumed);
    assert!(world.session().await.term().stat("/a/b/c/d").await.unwrap().is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_during_an_export_are_noticed() {
    let world = World::new("changing");
    let owner = world.session().await;
    let observer = observer(&world).await;
    let term = owner.term();
    term.create("/x", b"", Kind::Persistent, IfLate::Report).await.unwrap();
    let mut ends = 0;
    // Whenever the export writes a line, somebody else has just written a znode.
    let mut put = |line: &Line| {
        if matches!(line, Line::End(_)) {
            ends += 1;
        }
        let change = async { term.set("/x", b"changed", None).await };
        tokio::task::block_in_place(|| tokio::runtime::Handle::current().block_on(change)).unwrap();
        Ok(())
    };
    let source = observer.term();
    let live = transfer::export(&source, "/menagerie", WhenChanged::Tell, &mut put, &mut |_| {}).await;
    assert!(live.unwrap().changed);
    let failed = transfer::export(&source, "/menagerie", WhenChanged::Fail, &mut put, &mut |_| {}).await;
    assert!(matches!(failed, Err(ExportError::Changed { .. })), "{failed:?}");
    assert_eq!(ends, 1, "an export that failed has no end, so nobody can import it");
}
