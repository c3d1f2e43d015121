//! A worker's name: its host's full name and its process.

use menagerie_testkit::{Process, eventually};

use super::{Fleet, ready};
use crate::journal::full::unshare;

/// Makes the resolver know the host's full name, visible only to this process, and execs the worker.
const NAMED: &str =
    r#"echo "127.0.1.1 $1.example.org $1" > hosts && mount --bind hosts /etc/hosts && shift && exec "$@""#;

#[test]
fn a_worker_has_the_full_name_of_its_host() {
    let fleet = Fleet::new("name");
    fleet.create("mail", 1);
    let uname = rustix::system::uname();
    let host = uname.nodename().to_str().expect("it is text");
    // A name with a domain is used as it is.
    let full = if host.contains('.') { host.to_owned() } else { format!("{host}.example.org") };
    let line = ["unshare", unshare(), "sh", "-c", NAMED, "sh", host];
    let worker = ["worker", "mail", "--settle", "300ms", "--", "true"];
    let worker = Process::spawn(&mut fleet.user.command_under(&line, &worker));
    ready(&worker);
    let name = format!("{full}-{}", worker.id());
    eventually("it is listed under that name", || {
        let workers = fleet.user.run(&["zk", "ls", "/menagerie/workers"]).text();
        workers.lines().any(|line| line.split(" ").next() == Some(&*name)).then_some(())
    });
}
