//! Four-letter words: the questions a server answers in plain text.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use crate::wait::DEADLINE;

/// Long for a server that lives, short for who asks several and expects some to be paused.
const MODE_PATIENCE: Duration = Duration::from_secs(1);

/// Asks the server and returns all it says before it hangs up.
///
/// # Panics
/// If the server cannot be reached or does not finish its answer in time.
#[track_caller]
pub fn four_letter_word(address: SocketAddr, word: &str) -> String {
    match ask(address, word, DEADLINE) {
        Ok(answer) => answer,
        Err(error) => panic!("cannot ask {address} for {word}: {error}"),
    }
}

/// What a server says it is: `standalone`, `leader` or `follower`; `None` while it serves nobody.
pub(crate) fn mode(address: SocketAddr) -> Option<String> {
    let answer = ask(address, "srvr", MODE_PATIENCE).ok()?;
    let mode = answer.lines().find_map(|line| line.strip_prefix("Mode: "))?;
    Some(mode.to_owned())
}

/// For who expects that nobody may answer.
fn ask(address: SocketAddr, word: &str, patience: Duration) -> io::Result<String> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(patience))?;
    stream.write_all(word.as_bytes())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}
