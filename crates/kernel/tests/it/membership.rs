//! Who is there: the registry of components, and the party.

use menagerie_kernel::Session;
use menagerie_kernel::recipes::membership::{Member, MemberList, MembershipError, Registered, Registry};
use menagerie_kernel::recipes::party::Party;
use menagerie_kernel::retry;
use menagerie_kernel::session::IfLate;
use menagerie_testkit::{OpCode, Proxy, eventually_async};
use menagerie_znodes::components::{Component, ComponentState};
use menagerie_znodes::{Dir, Kind, Name, Znode};
use std::time::Duration;

use crate::world::{LONG, SHORT, World};

fn name(text: &str) -> Name {
    Name::new(text).unwrap()
}

fn component(host: &str) -> Component {
    Component::new(&name(host), "1.0")
}

async fn join(session: &Session, host: &str) -> Member {
    Member::join(session, &name("web"), component(host)).await.unwrap()
}

fn shown(members: &[Registered]) -> Vec<String> {
    members.iter().map(|member| format!("{} {}", member.component.host, member.component.state)).collect()
}

async fn wait_for(view: &MemberList, wanted: &[&str]) {
    let mut members = view.members();
    let seen = members.wait_for(|members| shown(members) == wanted);
    let seen = tokio::time::timeout(menagerie_testkit::DEADLINE, seen).await.map(drop);
    assert!(seen.is_ok(), "wanted {wanted:?}, seen {:?}", shown(&view.members().borrow()));
}

#[tokio::test]
async fn view_follows_who_comes_changes_and_goes() {
    let world = World::new("members");
    let (a, b) = (world.session().await, world.session().await);
    let registry = Registry::new(&b);
    let view = registry.watch(&name("web")).await.unwrap();
    assert_eq!(registry.members(&name("web")).await.unwrap(), []);
    let one = join(&a, "host-1").await;
    let other = join(&a, "host-1").await;
    wait_for(&view, &["host-1 initializing"; 2]).await;
    one.set_state(ComponentState::Running).await.unwrap();
    other.update(|component| drop(component.details.insert("load".to_owned(), 7.into()))).await.unwrap();
    wait_for(&view, &["host-1 running", "host-1 initializing"]).await;
    let listed = registry.members(&name("web")).await.unwrap();
    assert_eq!(listed[1].component, other.component());
    assert_eq!(listed[1].component.details["load"], 7);
    assert_eq!(listed[0].component.pid, std::process::id());
    assert_ne!(listed[0].component.id, listed[1].component.id);
    assert_eq!(one.path().unwrap(), format!("/components/web/{}", listed[0].name));
    assert_eq!(listed[0].name.len(), "host-1".len() + 10);
    let merger = Member::join(&b, &name("merger"), component("host-2")).await.unwrap();
    let kinds: Vec<String> = registry.all().await.unwrap().iter().map(|one| one.kind.to_string()).collect();
    assert_eq!(kinds, ["merger", "web", "web"]);
    one.leave().await.unwrap();
    assert_eq!(registry.members(&name("web")).await.unwrap().len(), 1);
    drop((other, merger));
    wait_for(&view, &[]).await;
}

#[tokio::test]
async fn entries_of_newer_peers_and_of_people_hide_nobody() {
    let session = World::new("members-odd").session().await;
    let _member = join(&session, "host-1").await;
    let term = session.term();
    for (entry, data) in
        [("newer0000000007", r#"{"host":"n","state":"draining","zone":1}"#), ("by-hand", "?")]
    {
        let path = format!("/components/web/{entry}");
        term.create(&path, data.as_bytes(), Kind::Persistent, IfLate::Report).await.unwrap();
    }
    let view = Registry::new(&session).watch(&name("web")).await.unwrap();
    wait_for(&view, &["host-1 initializing", "n draining", " "]).await;
}

#[tokio::test]
async fn host_that_cannot_be_a_name_is_refused() {
    let session = World::new("members-host").session().await;
    let refused =
        Member::join(&session, &name("web"), Component { host: "a/b".to_owned(), ..component("x") }).await;
    assert!(matches!(refused, Err(MembershipError::Host { .. })));
}

#[tokio::test]
async fn lost_replies_register_once() {
    let world = World::new("members-lost-reply");
    let watcher = world.session().await;
    let (session, proxy) = world.session_through_proxy(LONG).await;
    join(&session, "host-0").await.leave().await.unwrap();
    proxy.drop_reply_of(OpCode::Create2);
    let member = join(&session, "host-1").await;
    proxy.drop_reply_of(OpCode::SetData);
    member.set_state(ComponentState::Running).await.unwrap();
    let registry = Registry::new(&watcher);
    assert_eq!(shown(&registry.members(&name("web")).await.unwrap()), ["host-1 running"]);
    proxy.drop_reply_of(OpCode::Delete);
    member.leave().await.unwrap();
    assert_eq!(proxy.dropped_replies(), 3);
    assert_eq!(registry.members(&name("web")).await.unwrap(), []);
}

#[tokio::test]
async fn joining_that_is_given_up_leaves_nothing_behind() {
    let world = World::new("members-dropped");
    let watcher = world.session().await;
    let (session, proxy) = world.session_through_proxy(LONG).await;
    join(&session, "host-0").await.leave().await.unwrap();
    for hold in [Proxy::hold_requests, Proxy::hold_replies] {
        hold(&proxy);
        assert!(tokio::time::timeout(Duration::from_millis(50), join(&session, "host-1")).await.is_err());
        proxy.heal();
        session.term().sync("/").await.unwrap();
        eventually_async("nobody is listed", async || {
            Registry::new(&watcher).members(&name("web")).await.unwrap().is_empty().then_some(())
        })
        .await;
    }
}

#[tokio::test]
async fn member_registers_again_in_every_new_session() {
    let world = World::new("members-expired");
    let watcher = world.session().await;
    let view = Registry::new(&watcher).watch(&name("web")).await.unwrap();
    let (session, proxy) = world.session_through_proxy(SHORT).await;
    let member = join(&session, "host-1").await;
    member.set_state(ComponentState::Running).await.unwrap();
    wait_for(&view, &["host-1 running"]).await;
    let before = view.members().borrow()[0].clone();
    proxy.partition();
    wait_for(&view, &[]).await;
    // What changes meanwhile is what is registered then.
    let changed =
        tokio::time::timeout(Duration::from_millis(50), member.set_state(ComponentState::Paused)).await;
    assert!(changed.is_err());
    proxy.heal();
    wait_for(&view, &["host-1 paused"]).await;
    let after = view.members().borrow()[0].clone();
    assert_eq!(before.component.id, after.component.id);
    assert_ne!((before.session_id, before.zxid), (after.session_id, after.zxid));
    member.leave().await.unwrap();
    wait_for(&view, &[]).await;
}

#[tokio::test]
async fn view_goes_on_in_a_new_session() {
    let world = World::new("view-expired");
    let other = world.session().await;
    let (session, proxy) = world.session_through_proxy(SHORT).await;
    let view = Registry::new(&session).watch(&name("web")).await.unwrap();
    let _one = join(&other, "host-1").await;
    wait_for(&view, &["host-1 initializing"]).await;
    let term = session.term();
    proxy.partition();
    term.lost().await;
    let two = join(&other, "host-2").await;
    proxy.heal();
    wait_for(&view, &["host-1 initializing", "host-2 initializing"]).await;
    // The same through a lost connection.
    proxy.cut();
    two.set_state(ComponentState::Running).await.unwrap();
    proxy.heal();
    wait_for(&view, &["host-1 initializing", "host-2 running"]).await;
    // And what changes after that is seen.
    two.set_state(ComponentState::Paused).await.unwrap();
    wait_for(&view, &["host-1 initializing", "host-2 paused"]).await;
}

#[tokio::test]
async fn removed_entry_is_made_again_and_what_others_write_is_put_right() {
    let world = World::new("members-removed");
    let (a, b) = (world.session().await, world.session().await);
    let view = Registry::new(&b).watch(&name("web")).await.unwrap();
    let member = join(&a, "host-1").await;
    wait_for(&view, &["host-1 initializing"]).await;
    let first = view.members().borrow()[0].zxid;
    let path = member.path().unwrap();
    b.term().set(&path, b"{}", None).await.unwrap();
    let restored = async || b.term().get(&path).await.unwrap().0 != b"{}";
    eventually_async("it is put right", async || restored().await.then_some(())).await;
    // The whole directory.
    retry::delete(&b.term(), &path).await.unwrap();
    let _ = b.term().delete("/components/web", None).await;
    let mut members = view.members();
    members.wait_for(|members| members.first().is_some_and(|member| member.zxid > first)).await.unwrap();
    wait_for(&view, &["host-1 initializing"]).await;
}

#[tokio::test]
async fn party_lists_who_is_there() {
    let world = World::new("party");
    let dir: Znode<Dir> = Znode::foreign("/parties/birthday", Kind::Persistent);
    let other = world.session().await;
    let (session, proxy) = world.session_through_proxy(SHORT).await;
    let seen = Party::new(&other, dir.clone());
    let wait_for = async |wanted: &[&str]| {
        eventually_async(&format!("{wanted:?} are there"), async || {
            (seen.members().await.unwrap() == wanted).then_some(())
        })
        .await;
    };
    let party = Party::new(&session, dir);
    assert_eq!(seen.members().await.unwrap(), [""; 0]);
    proxy.drop_reply_of(OpCode::Create2);
    let one = party.join("one").await.unwrap();
    let two = party.join("two").await.unwrap();
    assert_eq!(seen.members().await.unwrap(), ["one", "two"]);
    assert!(one.path().unwrap().ends_with("__party__"));
    proxy.partition();
    wait_for(&[]).await;
    proxy.heal();
    eventually_async("both are back", async || {
        let mut there = seen.members().await.unwrap();
        there.sort();
        (there == ["one", "two"]).then_some(())
    })
    .await;
    two.leave().await.unwrap();
    assert_eq!(seen.members().await.unwrap(), ["one"]);
    drop(one);
    wait_for(&[]).await;
}
