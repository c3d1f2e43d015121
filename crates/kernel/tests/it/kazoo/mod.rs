//! Python programs that use kazoo contend with ours.

mod contest;
mod groups;

use std::path::Path;
use std::process::Command;

use menagerie_testkit::Process;

/// Runs a script from beside this file.
fn python(script: &str, args: &[&str]) -> Process {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/kazoo").join(script);
    Process::spawn(Command::new(menagerie_testkit::python()).arg(script).args(args))
}
