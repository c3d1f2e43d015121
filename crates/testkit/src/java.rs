//! Java clients, from Debian's packages.
//!
//! A Java runtime has no compiler; Eclipse's is a library, so that tests can keep plain `.java` files.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use tempfile::TempDir;

use crate::process::Process;

const COMPILER: &str = "/usr/share/java/eclipse-jdt-core.jar";
const COMPILER_CLASS: &str = "org.eclipse.jdt.internal.compiler.batch.Main";

/// ZooKeeper's own client and its shell.
pub const ZOOKEEPER_JARS: [&str; 3] = [
    "/usr/share/java/zookeeper.jar",
    "/usr/share/java/zookeeper-jute.jar",
    "/usr/share/java/slf4j-simple.jar",
];

/// Curator's recipes; they need [`ZOOKEEPER_JARS`] too.
pub const CURATOR_JARS: [&str; 4] = [
    "/usr/share/java/curator-recipes.jar",
    "/usr/share/java/curator-framework.jar",
    "/usr/share/java/curator-client.jar",
    "/usr/share/java/guava.jar",
];

const HELP: &str = "tests with Java clients need Debian's packages: apt-get install default-jre-headless \
                    libzookeeper-java libslf4j-java libcurator-recipes-java libeclipse-jdt-core-java";

/// A program of one source file, compiled. Dropping it removes the classes.
#[derive(Debug)]
pub struct JavaProgram {
    classes: TempDir,
    jars: Vec<&'static str>,
    main: String,
}

impl JavaProgram {
    /// Compiles `Name.java`, whose class `Name` has the main function.
    ///
    /// # Panics
    /// If the source is wrong, or something is not installed.
    #[track_caller]
    pub fn compile(source: &Path, jars: &[&'static str]) -> Self {
        let main = source.file_stem().and_then(|stem| stem.to_str()).expect("a source file has a name");
        let program = Self {
            classes: tempfile::tempdir().expect("a temporary directory can be made"),
            jars: jars.to_vec(),
            main: main.to_owned(),
        };
        let (class_path, source) = (jars.join(":"), source.to_str().expect("a source's path is plain"));
        let options = ["-17", "-proc:none", "-nowarn", "-cp", &class_path, "-d", program.classes(), source];
        let compiled = java(&[COMPILER], &[&[COMPILER_CLASS], &options[..]].concat(), "");
        let said = String::from_utf8_lossy(&compiled.stderr);
        assert!(compiled.status.success(), "cannot compile {source}:\n{said}");
        program
    }

    /// Runs it with these arguments until it ends.
    #[track_caller]
    pub fn run(&self, args: &[&str]) -> Output {
        let class_path = [&[self.classes()], &self.jars[..]].concat();
        java(&class_path, &[&[self.main.as_str()], args].concat(), "")
    }

    /// Starts it with these arguments, without waiting.
    ///
    /// # Panics
    /// If it cannot be started.
    pub fn start(&self, args: &[&str]) -> Process {
        let class_path = [&[self.classes()], &self.jars[..]].concat();
        Process::spawn(command(&class_path).arg(&self.main).args(args))
    }

    fn classes(&self) -> &str {
        self.classes.path().to_str().expect("a temporary path is plain")
    }
}

/// Runs a class (`args` begins with its name) with this standard input until it ends.
///
/// # Panics
/// If something is not installed.
#[track_caller]
pub fn java(class_path: &[&str], args: &[&str], input: &str) -> Output {
    if let Some(missing) = class_path.iter().find(|path| !Path::new(path).exists()) {
        panic!("{missing} is missing; {HELP}");
    }
    let mut child = command(class_path)
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("cannot run java: {error}; {HELP}"));
    let mut stdin = child.stdin.take().expect("standard input is piped");
    // A program that has ended already is judged by its output.
    let _ = stdin.write_all(input.as_bytes());
    drop(stdin);
    child.wait_with_output().expect("a child can be waited for")
}

/// A small JVM that prints only errors.
fn command(class_path: &[&str]) -> Command {
    let mut command = Command::new("java");
    command.args([
        "-Xmx128m",
        "-Dorg.slf4j.simpleLogger.defaultLogLevel=error",
        "-cp",
        &class_path.join(":"),
    ]);
    command
}
