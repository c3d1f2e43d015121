//! Where settings come from, and which wins.

use std::fs;

use menagerie_testkit::{Authority, Keeper, Process, free_port};

use super::User;
use crate::up::up;

/// Value and origin of a key.
#[track_caller]
fn shown(user: &User, key: &str, args: &[&str]) -> (String, String) {
    let entries = user.json(&[&["config", "show", "--origin"], args].concat());
    let entries = entries.as_array().expect("it is a list");
    let entry = entries.iter().find(|entry| entry["key"] == key).expect("every key is there");
    let word = |field: &str| entry[field].as_str().unwrap_or("-").to_owned();
    (word("value"), word("origin"))
}

#[test]
fn flag_beats_environment_beats_file_beats_default() {
    let user = User::nowhere();
    let servers = "zookeeper.servers";
    assert_eq!(shown(&user, servers, &[]), ("127.0.0.1:2181".to_owned(), "default".to_owned()));
    user.write(".config/menagerie/menagerie.toml", "[zookeeper]\nservers = \"home:1\"\n");
    let home = user.folder().join(".config/menagerie/menagerie.toml");
    assert_eq!(shown(&user, servers, &[]), ("home:1".to_owned(), format!("{}:2", home.display())));
    user.write("menagerie.toml", "\n[zookeeper]\nnamespace = \"/mine\"\nservers = \"here:1\"\n");
    assert_eq!(shown(&user, servers, &[]), ("here:1".to_owned(), "menagerie.toml:4".to_owned()));
    assert_eq!(shown(&user, "config", &[]).0, "menagerie.toml");

    let named = user.write("named.toml", "[zookeeper]\nservers = \"named:1\"\nsession_timeout = \"90s\"\n");
    let user = user.with("MENAGERIE_CONFIG", &named);
    assert_eq!(shown(&user, servers, &[]), ("named:1".to_owned(), format!("{named}:2")));
    assert_eq!(shown(&user, "zookeeper.session_timeout", &[]).0, "90s");
    assert_eq!(shown(&user, "zookeeper.namespace", &[]), ("/menagerie".to_owned(), "default".to_owned()));
    let other = user.write("other.toml", "[zookeeper]\nservers = \"other:1\"\n");
    assert_eq!(shown(&user, servers, &["--config", &other]).0, "other:1");

    let user = user.with("MENAGERIE_ZOOKEEPER", "environment:1");
    let (value, origin) = shown(&user, servers, &["--config", &other]);
    assert_eq!((value.as_str(), origin.as_str()), ("environment:1", "environment MENAGERIE_ZOOKEEPER"));
    let (value, origin) = shown(&user, servers, &["--zookeeper", "flag:1/root"]);
    assert_eq!((value.as_str(), origin.as_str()), ("flag:1/root", "--zookeeper"));
    let table = user.ok(&["config", "show"]);
    assert!(table.contains("zookeeper.servers") && !table.contains("ORIGIN"), "{table}");
}

#[test]
fn mistakes_are_told_with_file_line_and_what_to_try() {
    let user = User::nowhere();
    for (text, words) in [
        (
            "[zookeeper]\nsevrers = \"a:1\"\n",
            ["menagerie.toml:2", "unknown field `sevrers`", "docs/config.md"],
        ),
        ("[zookeeper]\nsession_timeout = \"soon\"\n", ["menagerie.toml:2", "session_timeout", "1s and 1h"]),
        ("[zookeeper]\nservers = \"a:b\"\n", ["menagerie.toml:2", "zookeeper.servers", "HOST:PORT"]),
        ("zookeeper", ["menagerie.toml:1", "because: ", "help: "]),
    ] {
        user.write("menagerie.toml", text);
        user.fails(&["config", "show"], 2, &words);
        user.fails(&["zk", "ls"], 2, &words);
    }
    fs::remove_file(user.folder().join("menagerie.toml")).unwrap();
    user.fails(&["config", "show", "--config", "none.toml"], 2, &["none.toml", "--config"]);
    user.fails(&["config", "show", "--namespace", "x"], 2, &["--namespace", "is not a path", "/menagerie"]);
    user.fails(&["zk", "ls", "--zookeeper", "a:b"], 2, &["--zookeeper", "HOST:PORT"]);
}

#[test]
fn secrets_are_never_printed() {
    let user = User::new("secrets");
    let servers = user.servers.clone().unwrap();
    let file = user.write("secret", "me:hush\n");
    let text = "[zookeeper]\nauth = \"me:hush\"\n";
    user.write("menagerie.toml", text);
    assert_eq!(shown(&user, "zookeeper.auth", &[]), ("********".to_owned(), "menagerie.toml:2".to_owned()));
    user.ok(&["zk", "create", "-p", "/menagerie/x"]);
    let commands: [&[&str]; 6] = [
        &["config", "show", "--origin"],
        &["--log-level", "trace", "zk", "ls", "/menagerie"],
        &["--log-level", "debug", "doctor"],
        &["status"],
        &["zk", "get", "/nope"],
        &["zk", "ls", "--zookeeper", "127.0.0.1:1"],
    ];
    let silent = |user: &User| {
        for args in commands {
            let done = user.run(args);
            assert!(!format!("{}{}", done.text(), done.stderr).contains("hush"), "{args:?}: {}", done.stderr);
        }
    };
    silent(&user);
    assert!(
        user.run(&["doctor"]).text().contains("chmod 600 menagerie.toml"),
        "others may read the password"
    );
    // A typo beside it must not reveal it either, nor missing quotes.
    for unquoted in ["hush", "me:hush", "hush hush"] {
        user.write("menagerie.toml", &format!("[zookeeper]\nauth = {unquoted}\n"));
        user.fails(&["zk", "ls"], 2, &["menagerie.toml:2"]);
        silent(&user);
    }
    user.write("menagerie.toml", "[zookeeper]\nauth = 471108150815\n");
    assert!(!user.run(&["zk", "ls"]).stderr.contains("0815"));
    user.write("menagerie.toml", &format!("{text}x = 1\n"));
    silent(&user);
    silent(&User::at(&servers).with("MENAGERIE_ZOOKEEPER_AUTH", "me:hush"));
    let filed = User::at(&servers).with("MENAGERIE_ZOOKEEPER_AUTH_FILE", &file);
    assert_eq!(shown(&filed, "zookeeper.auth_file", &[]).0, file);
    assert_eq!(filed.ok(&["zk", "ls", "--names", "/menagerie"]), "x\n", "the file is read");
    silent(&filed);
}

#[test]
fn encrypted_connections_need_only_files() {
    let authority = Authority::new();
    let tls = format!("127.0.0.1:{}", free_port());
    let [cert, key, ca] =
        ["cert.pem", "key.pem", "ca.pem"].map(|name| authority.file(name).display().to_string());
    let keeper = Keeper::new()
        .args(["--tls-listen", &tls, "--tls-cert", &cert, "--tls-key", &key, "--tls-ca", &ca])
        .start();
    let user = User::at(&tls);
    user.fails(&["zk", "create", "/x"], 69, &["no ZooKeeper server answers"]);
    user.write(
        "menagerie.toml",
        &format!("[zookeeper.tls]\nca = \"{ca}\"\ncert = \"{cert}\"\nkey = \"{key}\"\n"),
    );
    user.ok(&["zk", "create", "-p", "/menagerie/generation", "1"]);
    assert_eq!(User::at(keeper.address().to_string()).ok(&["zk", "ls", "-n", "/menagerie"]), "generation\n");
    let text = user.ok(&["doctor"]);
    assert!(text.lines().any(|line| line.starts_with("ok") && line.ends_with("TLS, mutual")), "{text}");
}

#[test]
fn files_that_cannot_be_used_are_told_with_who_named_them() {
    let authority = Authority::new();
    let [ca, cert] = ["ca.pem", "cert.pem"].map(|name| authority.file(name).display().to_string());
    let user = User::at("127.0.0.1:1");
    let bad = |user: &User, words: &[&str]| {
        for command in [&["zk", "ls"][..], &["status"]] {
            user.fails(command, 2, &[words, &["help: "]].concat());
        }
        let done = user.run(&["doctor", "-o", "json"]);
        assert_eq!(done.code, Some(1), "{}", done.stderr);
        assert!(words.iter().all(|word| done.text().contains(word)), "{words:?}: {}", done.text());
        assert!(
            done.text().contains("\"credentials\"") && done.text().contains("\"remedy\""),
            "{}",
            done.text()
        );
    };
    user.write("menagerie.toml", "[zookeeper.tls]\n\nca = \"none.pem\"\n");
    bad(&user, &["zookeeper.tls.ca", "menagerie.toml:3", "none.pem", "No such file"]);
    user.write("text", "hush");
    user.write("menagerie.toml", "[zookeeper.tls]\nca = \"text\"\n");
    bad(&user, &["zookeeper.tls.ca", "menagerie.toml:2", "no certificate in PEM"]);
    user.write(
        "menagerie.toml",
        &format!("[zookeeper.tls]\nca = \"{ca}\"\ncert = \"{cert}\"\nkey = \"{cert}\"\n"),
    );
    bad(&user, &["zookeeper.tls.key", "menagerie.toml:4", "no private key in PEM"]);
    user.write("menagerie.toml", "[zookeeper]\nauth_file = \".\"\n");
    bad(&user, &["zookeeper.auth_file", "menagerie.toml:2", "Is a directory"]);
    let filed = User::at("127.0.0.1:1").with("MENAGERIE_ZOOKEEPER_AUTH_FILE", "text");
    filed.write("text", "hush");
    bad(&filed, &["zookeeper.auth_file", "MENAGERIE_ZOOKEEPER_AUTH_FILE", "does not hold USER:PASSWORD"]);
    assert!(!filed.run(&["zk", "ls"]).stderr.contains("hush"));
}

#[test]
fn what_runs_on_this_machine_is_found_by_itself() {
    let user = User::nowhere();
    let data = user.folder().join("data");
    let data = data.to_str().unwrap();
    let mut up = Process::menagerie(up(&["--data", data]));
    let address = up.wait_until_listening("keeper");
    up.wait_for_line("that all is ready", |line| line.contains("Ctrl-C").then_some(()));
    let (value, origin) = shown(&user, "zookeeper.servers", &[]);
    assert_eq!((value, origin), (address.to_string(), format!("{data}/addresses.json")));
    user.ok(&["zk", "create", "/found"]);

    // A file left by a killed process is ignored.
    let left = fs::read(format!("{data}/addresses.json")).unwrap();
    assert_eq!(up.stop().status.code(), Some(0));
    fs::write(format!("{data}/addresses.json"), left).unwrap();
    assert_eq!(shown(&user, "zookeeper.servers", &[]).1, "default");
}
