//! A program that is fed, and its lease.

use std::ffi::OsString;
use std::path::Path;

use menagerie_journal::{Message, MessageId};
use tokio::sync::watch;

use super::*;
use crate::runner::Limits;
use crate::task::Lease;

/// Writes down what it is told.
fn writes(folder: &Path) -> Program {
    let text =
        r#"while read -r line; do echo "$line" >> "$1/told"; echo "$line" | sed 's/,.*/,"ok":true}/'; done"#;
    let command: Vec<OsString> = vec!["sh".into(), "-c".into(), text.into(), "sh".into(), folder.into()];
    let (grace, guard) = (Duration::from_millis(300), menagerie_testkit::binary().to_owned());
    Program { command, guard, grace, lease_grace: grace, limits: Limits::default(), user: None }
}

#[tokio::test]
async fn while_the_lease_is_short_nothing_is_asked() {
    let folder = tempfile::tempdir().unwrap();
    let serve = Serve::new(writes(folder.path()), Shape::One, Greeting::None);
    serve.warm_up().await.unwrap();
    let hour = Duration::from_secs(3_600);
    let (clock, valid_until) = watch::channel(Moment::after(Duration::from_millis(200)));
    let (_stop, stopped) = watch::channel(false);
    let body = bytes::Bytes::from_static(b"hello");
    let message = Message { id: MessageId::ZERO, meta: bytes::Bytes::new(), body, expires: None };
    let work = Work {
        partition: "mail-1".parse().unwrap(),
        messages: vec![message],
        attempt: 1,
        repeats: 0,
        fence: "1-1".parse().unwrap(),
        lease: Lease::new(valid_until, stopped),
    };
    let mut asked = serve.run(work);
    assert!(tokio::time::timeout(Duration::from_millis(500), &mut asked).await.is_err(), "it waits");
    assert!(!folder.path().join("told").exists());
    clock.send_replace(Moment::after(hour));
    assert_eq!(asked.await, [Outcome::Done]);
    let told = std::fs::read_to_string(folder.path().join("told")).unwrap();
    assert_eq!(told.lines().count(), 1, "{told}");
}
