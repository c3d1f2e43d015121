//! The one binary of Menagerie: see the library beside it.

use std::process::ExitCode;

fn main() -> ExitCode {
    menagerie::main()
}
