//! Messages of every kind reach their task unchanged.

use std::fs;

use super::{Fleet, ready};

/// Empty, large, and not text.
fn bodies() -> Vec<Vec<u8>> {
    let large: Vec<u8> = (0..10_000_000_u32).map(|at| (at % 251) as u8).collect();
    vec![Vec::new(), b"plain text".to_vec(), vec![0xff, 0xfe, 0, b'\n', 0x80], large]
}

/// This much takes a while to handle: sessions have to last.
fn fleet(name: &str) -> Fleet {
    let fleet = Fleet::with_queue(name, "odd-queue-7", 2);
    put(&fleet);
    fleet
}

fn put(fleet: &Fleet) {
    for (number, body) in bodies().iter().enumerate() {
        let path = fleet.user.folder().join(format!("in-{number}"));
        fs::write(&path, body).expect("it can be written");
        let path = path.to_str().expect("its name is text").to_owned();
        fleet.user.ok(&["queue", "put", "odd-queue-7", "--partition", "1", "--file", &path, "--whole"]);
    }
}

fn arrived(fleet: &Fleet) {
    fleet.wait_until_drained("odd-queue-7");
    for body in bodies() {
        let path = fleet.user.folder().join(format!("out-{}", body.len()));
        assert!(
            fs::read(&path).is_ok_and(|arrived| arrived == body),
            "{} is not what was put",
            path.display()
        );
    }
}

#[test]
fn commands_get_every_byte() {
    let fleet = fleet("bodies-exec");
    let task = "cat > arrived; mv arrived out-$(($(wc -c < arrived)))";
    let worker = fleet.starting("odd-queue-7", &[], &["sh", "-c", task]);
    ready(&worker);
    arrived(&fleet);
}

#[cfg(feature = "python")]
#[test]
fn programs_that_are_fed_get_every_byte() {
    const PROGRAM: &str = r#"
import base64, json, sys
for line in sys.stdin:
    asked = json.loads(line)
    body = asked["body"].encode() if "body" in asked else base64.b64decode(asked["body_base64"])
    open("out-%d" % len(body), "wb").write(body)
    print(json.dumps({"id": asked["id"], "ok": True}), flush=True)
"#;
    let fleet = fleet("bodies-serve");
    fleet.user.write("fed.py", PROGRAM);
    let worker = fleet.starting("odd-queue-7", &["--serve"], &["python3", "fed.py"]);
    ready(&worker);
    arrived(&fleet);
}
