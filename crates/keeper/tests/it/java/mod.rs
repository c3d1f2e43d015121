//! The clients that the Java world uses.

mod curator;
mod zk_cli;

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
