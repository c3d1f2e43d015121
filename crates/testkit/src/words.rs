//! Four-letter words: questions that a server answers in plain text.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

use crate::wait::DEADLINE;

/// Long for a healthy server, short for callers that ask several and expect some to be paused.
const MODE_PATIENCE: Duration = Duration::from_secs(1);

/// Asks the server and returns everything it sends before it hangs up.
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

/// The server's mode: `standalone`, `leader` or `follower`; `None` while it does not serve.
pub(crate) fn mode(address: SocketAddr) -> Option<String> {
    let answer = ask(address, "srvr", MODE_PATIENCE).ok()?;
    let mode = answer.lines().find_map(|line| line.strip_prefix("Mode: "))?;
    Some(mode.to_owned())
}

/// For callers that expect that nobody may answer.
fn ask(address: SocketAddr, word: &str, patience: Duration) -> io::Result<String> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(patience))?;
    stream.write_all(word.as_bytes())?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    Ok(answer)
}
