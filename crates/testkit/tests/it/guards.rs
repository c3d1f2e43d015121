//! What is left when a test binary is killed: nothing.

use std::env;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

use menagerie_testkit::{Ensemble, eventually};

/// Tells this binary to play the victim.
const VICTIM: &str = "MENAGERIE_TEST_VICTIM";

#[test]
fn servers_and_their_data_go_with_the_process_that_started_them() {
    if env::var_os(VICTIM).is_some() {
        let servers = Ensemble::Keeper.start_own();
        let server = servers.server(0);
        println!("left: {} {}", server.pid(), server.data().display());
        std::thread::park();
    }
    let me = "guards::servers_and_their_data_go_with_the_process_that_started_them";
    let mut victim = Command::new(env::current_exe().unwrap())
        .args(["--exact", me, "--nocapture"])
        .env(VICTIM, "1")
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(victim.stdout.take().unwrap()).lines().map_while(Result::ok);
    let left = lines.find_map(|line| Some(line.split_once("left: ")?.1.to_owned())).unwrap();
    let (pid, data) = left.split_once(' ').unwrap();
    let (process, data) = (Path::new("/proc").join(pid), Path::new(data));
    assert!(is_running(&process) && data.exists());
    victim.kill().unwrap();
    victim.wait().unwrap();
    eventually("server and data are gone", || (!is_running(&process) && !data.exists()).then_some(()));
}

/// Whether it runs; whoever inherits a zombie may take its time to reap it.
fn is_running(process: &Path) -> bool {
    std::fs::read_to_string(process.join("stat")).is_ok_and(|stat| !stat.contains(") Z "))
}
