//! Messages that wait in a task before they begin.

use std::time::Duration;

use menagerie_znodes::queues::Order;

use super::super::message;
use super::script::{Script, fresh, partition};
use crate::core::activity::RunningMessage;
use crate::core::machine::{Effect, Fact, Happening};
use crate::core::options::Begins;
use crate::core::window::RunId;
use crate::message_uuid::MessageUuid;
use crate::task::Outcome;

/// What the worker would tell whoever looks.
fn running(script: &mut Script) -> Vec<RunningMessage> {
    let effects = script.machine.step(Fact::ReportDue { all: false }, script.now());
    let report = effects.into_iter().find_map(|effect| match effect {
        Effect::Report { positions, .. } => positions.into_iter().next(),
        _ => None,
    });
    script.step(Fact::Reported { known: Vec::new(), lost: Vec::new(), lags: Vec::new() });
    report.and_then(|progress| progress.activity).expect("there is news").running
}

/// How long the attempt took that ends now.
fn took(script: &mut Script, run: u64) -> Option<Duration> {
    let ran = Fact::Ran(script.owned(), RunId(run), Ok(vec![Outcome::Done]));
    let effects = script.machine.step(ran, script.now());
    let ended = effects.into_iter().find_map(|effect| match effect {
        Effect::Tell(happening) => match *happening {
            Happening::Ended(ending) => Some(ending),
            _ => None,
        },
        _ => None,
    });
    ended.expect("it has ended").took
}

#[test]
fn what_a_task_has_not_begun_does_not_run_and_its_time_counts_from_its_begin() {
    let minute = Duration::from_secs(60);
    let options = |options: &mut crate::core::options::Options| {
        (options.begins, options.concurrency) = (Begins::WhenToldSo, 2);
    };
    let mut script = Script::new(Order::None, None, options).owning(fresh());
    script.read_numbers([1, 2]);
    assert_eq!(script.running(), [[1], [2]], "the task has both");
    assert_eq!(running(&mut script), []);
    script.pass(minute);
    script.step(Fact::Begun(script.owned(), RunId(2)));
    let second = MessageUuid::of(&partition(), &message(2, None, 0));
    let now = running(&mut script);
    assert_eq!((now.len(), now[0].id), (1, second));
    script.pass(minute);
    script.step(Fact::Begun(script.owned(), RunId(2)));
    assert_eq!(running(&mut script)[0].since_ms, now[0].since_ms, "it has begun only once");
    assert_eq!(took(&mut script, 2), Some(minute));
    assert_eq!(took(&mut script, 1), None, "it was taken back");
}
