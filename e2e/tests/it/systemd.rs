//! Notifications to systemd, over the socket that it names.

use std::os::unix::net::UnixDatagram;
use std::process::Command;

use menagerie_testkit::{DEADLINE, Process, binary};
use rustix::process::Signal;

use crate::up::up;

/// Waits for this line.
#[track_caller]
fn wait_for_line(socket: &UnixDatagram, wanted: &str) {
    let mut message = [0; 4096];
    loop {
        let length =
            socket.recv(&mut message).unwrap_or_else(|error| panic!("{wanted} is not said: {error}"));
        if String::from_utf8_lossy(&message[..length]).lines().any(|line| line == wanted) {
            return;
        }
    }
}

fn says_when_it_is_ready_and_when_it_stops(args: &[&str]) {
    let folder = tempfile::tempdir().expect("a temporary directory can be made");
    let path = folder.path().join("notify");
    let socket = UnixDatagram::bind(&path).expect("a socket can be made");
    socket.set_read_timeout(Some(DEADLINE)).expect("it is not zero");
    let mut command = Command::new(binary());
    command.args(args).arg("--data").arg(folder.path().join("data")).env("NOTIFY_SOCKET", &path);
    let mut process = Process::spawn(&mut command);
    wait_for_line(&socket, "READY=1");
    process.signal(Signal::TERM);
    wait_for_line(&socket, "STOPPING=1");
    assert!(process.wait_for_end().status.success());
}

#[test]
fn systemd_is_told_of_a_keeper() {
    says_when_it_is_ready_and_when_it_stops(&["keeper", "--listen", "127.0.0.1:0"]);
}

#[test]
fn systemd_is_told_of_everything_together() {
    says_when_it_is_ready_and_when_it_stops(&up(&[]));
}
