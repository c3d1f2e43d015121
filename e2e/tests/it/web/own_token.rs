//! The token with which the user of `menagerie up` acts.

use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;

use menagerie_testkit::{Process, eventually};
use serde_json::Value;

use super::{page, post};
use crate::cli::User;
use crate::up::up;

struct Up {
    process: Process,
    web: SocketAddr,
    keeper: String,
    /// The link that it has printed.
    link: String,
}

fn data(user: &User) -> PathBuf {
    user.folder().join("data")
}

fn start(user: &User) -> Up {
    let process = user.spawn(&up(&[]));
    let link = process.wait_for_line("the link", |line| {
        let at = line.find("http://127.0.0.1:").filter(|_| line.contains("/login?token="))?;
        line[at..].split_whitespace().next().map(str::to_owned)
    });
    process.wait_for_line("how to stop it", |line| line.contains("Ctrl-C").then_some(()));
    let addresses = fs::read_to_string(data(user).join("addresses.json")).expect("it is ready");
    let addresses: Value = serde_json::from_str(&addresses).expect("it is JSON");
    let text = |name: &str| addresses[name].as_str().expect("an address").to_owned();
    Up { process, web: text("web").parse().expect("an address"), keeper: text("keeper"), link }
}

fn token(user: &User) -> String {
    fs::read_to_string(data(user).join("web.token")).expect("it is there once it is ready").trim().to_owned()
}

/// Whether a change with this token is taken: the pool does not exist, so nothing happens.
fn may(up: &Up, token: &str) -> bool {
    let answer = post(up.web, token, "/slots/none/thaw", "{}");
    assert!(matches!(answer.code, 401 | 404), "{}", answer.text());
    answer.code == 404
}

#[test]
fn it_is_its_users_alone_printed_as_a_link_and_kept() {
    let user = User::nowhere();
    let mut first = start(&user);
    let file = data(&user).join("web.token");
    let about = fs::metadata(&file).expect("it is there");
    assert_eq!(about.permissions().mode() & 0o777, 0o600);
    let secret = token(&user);
    assert!(first.link.contains(&format!("token={secret}")), "{}", first.link);
    assert!(first.link.starts_with(&format!("http://{}/", first.web)), "{}", first.link);
    assert_eq!(page(first.web, &format!("/login?token={secret}")).code, 303);
    assert!(may(&first, &secret) && !may(&first, ""));
    assert_eq!(first.process.stop().status.code(), Some(0));

    let mut second = start(&user);
    assert_eq!(token(&user), secret);
    assert!(may(&second, &secret), "it is valid after a restart");
    second.process.stop();
    fs::remove_file(&file).expect("it can be removed");
    let mut third = start(&user);
    let other = token(&user);
    assert_ne!(other, secret);
    assert!(may(&third, &other));
    eventually("the lost one is refused", || (!may(&third, &secret)).then_some(()));
    let list = user.json(&["token", "list", "--zookeeper", &third.keeper]);
    assert_eq!(list.as_array().map(Vec::len), Some(1), "{list}");
    assert_eq!((&list[0]["name"], &list[0]["by"]), (&"up".into(), &"menagerie up".into()));

    // Revoked, it is replaced at the next start.
    user.ok(&["token", "revoke", list[0]["id"].as_str().expect("an id"), "--zookeeper", &third.keeper]);
    third.process.stop();
    let fourth = start(&user);
    assert!(may(&fourth, &token(&user)) && token(&user) != other);
    drop(fourth);

    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).expect("its mode can be changed");
    let end = user.spawn(&up(&[])).wait_for_end();
    assert_eq!(end.status.code(), Some(2), "{}", end.stderr);
    assert!(end.stderr.contains("others may know the secret in it"), "{}", end.stderr);
}
