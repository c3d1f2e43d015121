//! Clients in other languages.

use std::fs;
use std::process::Command;

use menagerie_testkit::{JavaProgram, ZOOKEEPER_JARS, ensemble, python};

const JAVA: &str = r#"
import org.apache.zookeeper.*;
class Hello {
    public static void main(String[] args) throws Exception {
        try (ZooKeeper zk = new ZooKeeper(args[0], 4000, event -> {})) {
            System.out.println(zk.create("/a", new byte[0], ZooDefs.Ids.OPEN_ACL_UNSAFE, CreateMode.PERSISTENT));
        }
    }
}
"#;

const PYTHON: &str = "
import sys, kazoo.client
client = kazoo.client.KazooClient(sys.argv[1])
client.start()
print(client.create('/a'))
client.stop()
";

#[test]
fn a_java_program_is_compiled_and_run() {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("Hello.java");
    fs::write(&source, JAVA).unwrap();
    let run = JavaProgram::compile(&source, &ZOOKEEPER_JARS).run(&[&ensemble().chroot("java")]);
    assert_eq!(String::from_utf8_lossy(&run.stdout), "/a\n", "{}", String::from_utf8_lossy(&run.stderr));
}

#[test]
fn a_python_script_has_kazoo() {
    let run = Command::new(python()).args(["-c", PYTHON, &ensemble().chroot("python")]).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&run.stdout), "/a\n", "{}", String::from_utf8_lossy(&run.stderr));
}
