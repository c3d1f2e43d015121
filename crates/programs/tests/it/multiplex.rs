//! One program with many questions at a time. A question is `ID WHAT`, an answer `ID good`.

use std::sync::Arc;
use std::time::Instant;

use menagerie_kernel::Moment;
use menagerie_programs::serve::multiplex::{Multiplexer, Question};
use menagerie_programs::serve::{AskOutcome, Judged};
use menagerie_programs::{Lease, Program};
use menagerie_testkit::eventually_async;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::{SECOND, lease, no_delay, script};

type Outcome = AskOutcome<String>;

/// Each question is answered on its own, as it says.
const SERVER: &str = r#"
    echo start >&2
    handle() {
        case "$2" in
            slow) sleep 0.5; echo "$1 good" ;;
            bad) echo "why $1" >&2; echo "$1 bad" ;;
            chatty) echo hello; echo; echo "nobody good"; echo "$1 good"; echo "$1 good" ;;
            halves) printf "$1 go"; sleep 0.2; echo od ;;
            invalid) echo "$1 nonsense" ;;
            huge) head -c 10000 /dev/zero | tr '\0' x; echo ;;
            flood) yes ;;
            dies) kill -KILL $$ ;;
            hangs) sleep 1000 ;;
            *) echo "$1 good" ;;
        esac
    }
    while read -r id what; do handle "$id" "$what" & done"#;

fn parse(line: &[u8]) -> Option<(String, Judged<String>)> {
    let line = String::from_utf8_lossy(line);
    let (id, answer) = line.split_once(' ')?;
    let judged = match answer {
        "good" => Judged::Good(answer.to_owned()),
        "bad" => Judged::Bad(answer.to_owned()),
        other => Judged::Invalid(format!("it said {other}")),
    };
    Some((id.to_owned(), judged))
}

/// A program and those who ask it.
#[derive(Clone)]
struct World(Arc<Multiplexer<String>>);

impl World {
    async fn new(program: Program) -> Self {
        Self(Arc::new(Multiplexer::start(program, 4096, parse, no_delay).await.unwrap()))
    }

    async fn ask_under(&self, lease: &Lease, id: &str, what: &str) -> Outcome {
        let line = format!("{id} {what}\n").into_bytes();
        self.0.ask(&Question { id: id.to_owned(), line, lease: lease.clone(), time_limit: None }).await
    }

    async fn ask(&self, id: &str, what: &str) -> Outcome {
        let (lease, _stop) = lease();
        self.ask_under(&lease, id, what).await
    }

    /// Asks in the background, and returns when the program has the question.
    async fn asked(&self, lease: &Lease, id: &str, what: &str) -> JoinHandle<Outcome> {
        let (world, lease, id, what) = (self.clone(), lease.clone(), id.to_owned(), what.to_owned());
        let name = id.clone();
        let asked = tokio::spawn(async move { world.ask_under(&lease, &id, &what).await });
        eventually_async("the program has the question", async || {
            let is_asked = self.0.unanswered().iter().any(|question| question.id == name);
            (is_asked || asked.is_finished()).then_some(())
        })
        .await;
        asked
    }
}

fn good() -> Outcome {
    AskOutcome::Answered { answer: "good".to_owned(), output: Vec::new() }
}

/// The error; the outcome must be a failure.
fn error(outcome: Outcome) -> String {
    match outcome {
        AskOutcome::Failed(failure) => failure.error,
        other => panic!("{other:?} is no failure"),
    }
}

#[tokio::test]
async fn answers_come_in_any_order_and_other_lines_cost_nothing() {
    let world = World::new(script(SERVER)).await;
    let (lease, _stop) = lease();
    let slow = world.asked(&lease, "1", "slow").await;
    assert_eq!(world.ask("3", "quick").await, good());
    assert_eq!(world.ask("4", "chatty").await, good());
    assert!(!slow.is_finished());
    assert_eq!(error(world.ask("5", "invalid").await), "it said nonsense");
    let AskOutcome::Answered { answer, output } = world.ask("6", "bad").await else { panic!("it answers") };
    assert_eq!(answer, "bad");
    assert!(String::from_utf8_lossy(&output).contains("why 6"), "{output:?}");
    assert_eq!(slow.await.unwrap(), good());
    assert_eq!(world.ask("2", "halves").await, good());
    eventually_async("all strays are read", async || (world.0.stray_lines() >= 4).then_some(())).await;
    assert_eq!(world.0.unanswered(), []);
}

#[tokio::test]
async fn all_in_flight_have_failed_when_the_program_dies_but_only_one_the_next_time() {
    let world = World::new(script(SERVER)).await;
    let (lease, _stop) = lease();
    let first = world.asked(&lease, "1", "hangs").await;
    let second = world.asked(&lease, "2", "hangs").await;
    let third = world.asked(&lease, "3", "dies").await;
    for asked in [first, second, third] {
        let why = "the program ended while 3 messages were in flight: it ended without an answer";
        assert_eq!(error(asked.await.unwrap()), why);
    }
    // Each of them is asked alone, while others wait.
    let ask = |id: &'static str, what: &'static str| {
        let world = world.clone();
        tokio::spawn(async move { world.ask(id, what).await })
    };
    let again = [ask("1", "slow"), ask("3", "dies"), ask("2", "slow"), ask("4", "slow"), ask("5", "quick")];
    let mut outcomes = Vec::new();
    for asked in again {
        outcomes.push(asked.await.unwrap());
    }
    assert_eq!(error(outcomes.remove(1)), "it ended without an answer");
    assert_eq!(outcomes, [good(), good(), good(), good()]);
}

#[tokio::test]
async fn a_program_that_was_killed_is_started_again_and_idle_deaths_cost_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let pid = folder.path().join("pid");
    let world = World::new(script(&format!("echo $$ > {}; {SERVER}", pid.display()))).await;
    for id in ["1", "2"] {
        assert_eq!(error(world.ask(id, "dies").await), "it ended without an answer");
        assert_eq!(world.ask("3", "quick").await, good());
    }
    let pid = std::fs::read_to_string(pid).unwrap().trim().to_owned();
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    let guard = stat.rsplit_once(") ").unwrap().1.split(' ').nth(1).unwrap().to_owned();
    assert!(std::process::Command::new("kill").args(["-KILL", &pid]).status().unwrap().success());
    let guard = std::path::PathBuf::from(format!("/proc/{guard}"));
    eventually_async("its guard has said so", async || (!guard.exists()).then_some(())).await;
    assert_eq!(world.ask("4", "quick").await, good());
}

#[tokio::test]
async fn one_that_takes_too_long_has_failed_and_the_others_were_stopped() {
    // While it ends, it answers 2 and, too late, 1.
    let text = r#"
        trap 'echo "1 good"; echo "2 good"; exit 0' TERM
        while :; do read -r id what && { [ "$what" = hangs ] || echo "$id good"; }; done"#;
    let world = World::new(script(text)).await;
    let (lease, _stop) = lease();
    let limit = |id: &str, time_limit| {
        let line = format!("{id} hangs\n").into_bytes();
        let question = Question { id: id.to_owned(), line, lease: lease.clone(), time_limit };
        let world = world.clone();
        tokio::spawn(async move { world.0.ask(&question).await })
    };
    let (two, three) = (limit("2", None), limit("3", Some(SECOND * 1000)));
    eventually_async("they are asked", async || (world.0.unanswered().len() == 2).then_some(())).await;
    let one = limit("1", Some(SECOND / 2));
    let why = "it took longer than its time limit of 500ms; does it flush its output?";
    assert_eq!(error(one.await.unwrap()), why);
    assert_eq!(two.await.unwrap(), good(), "it was answered meanwhile");
    assert_eq!(three.await.unwrap(), AskOutcome::Stopped);
    assert_eq!(world.0.stray_lines(), 1, "the late answer");
    assert_eq!(world.ask("1", "quick").await, good());
}

#[tokio::test]
async fn when_one_lease_says_stop_the_others_go_on_until_its_grace_is_over() {
    let world = World::new(script(SERVER)).await;
    let ((going, _going), (stopping, stop)) = (lease(), lease());
    // Answered within its grace of a second.
    let (other, one) = (world.asked(&going, "1", "slow").await, world.asked(&stopping, "2", "slow").await);
    stop.send_replace(true);
    assert_eq!(one.await.unwrap(), good());
    assert_eq!(other.await.unwrap(), good());
    assert_eq!(world.ask_under(&stopping, "3", "quick").await, AskOutcome::Stopped, "it may not begin");
    // Not answered: the program is ended, and the other may be asked again.
    let (stopping, stop) = lease();
    let (other, one) = (world.asked(&going, "4", "hangs").await, world.asked(&stopping, "5", "hangs").await);
    let began = Instant::now();
    stop.send_replace(true);
    assert_eq!(one.await.unwrap(), AskOutcome::Stopped);
    assert!(began.elapsed() >= SECOND, "it had its grace");
    assert_eq!(other.await.unwrap(), AskOutcome::Stopped);
    assert_eq!(world.ask("6", "quick").await, good());
    // Nobody else needs the program: it gets no grace to answer.
    let mut program = script(SERVER);
    program.grace = SECOND * 1000;
    let world = World::new(program).await;
    let (stopping, stop) = lease();
    let one = world.asked(&stopping, "7", "hangs").await;
    stop.send_replace(true);
    assert_eq!(one.await.unwrap(), AskOutcome::Stopped);
}

#[tokio::test]
async fn the_earliest_lease_ends_the_program_and_leases_are_extended() {
    let mut program = script(SERVER);
    program.lease_grace = SECOND / 4;
    let world = World::new(program).await;
    let (long, _long) = lease();
    let (clock, valid_until) = watch::channel(Moment::after(SECOND));
    let (_stop, stopped) = watch::channel(false);
    let short = Lease::new(valid_until, watch::channel(SECOND * 100).1, stopped);
    let (mut one, other) = (world.asked(&short, "1", "hangs").await, world.asked(&long, "2", "hangs").await);
    clock.send_replace(Moment::after(SECOND * 2));
    assert!(timeout(SECOND * 3 / 2, &mut one).await.is_err(), "its lease was extended");
    let end = *clock.borrow();
    assert_eq!(one.await.unwrap(), AskOutcome::Stopped);
    assert!(Moment::now() < end + SECOND / 2, "nothing outlives its lease");
    assert_eq!(other.await.unwrap(), AskOutcome::Stopped, "it was not to blame");
    assert_eq!(world.ask("3", "quick").await, good());
    // An answered question's lease does not count any more.
    let (_clock, valid_until) = watch::channel(Moment::after(SECOND));
    let (_stop, stopped) = watch::channel(false);
    let short = Lease::new(valid_until, watch::channel(SECOND * 100).1, stopped);
    let mut other = world.asked(&long, "4", "hangs").await;
    assert_eq!(world.ask_under(&short, "5", "quick").await, good());
    assert!(timeout(SECOND * 3 / 2, &mut other).await.is_err(), "it goes on beyond that lease");
    assert_eq!(world.ask("6", "quick").await, good());
}

#[tokio::test]
async fn dropping_one_question_ends_the_program_and_does_not_spoil_the_next() {
    let world = World::new(script(SERVER)).await;
    let (lease, _stop) = lease();
    let (one, other) = (world.asked(&lease, "1", "hangs").await, world.asked(&lease, "2", "hangs").await);
    one.abort();
    assert_eq!(other.await.unwrap(), AskOutcome::Stopped);
    assert_eq!(world.ask("1", "quick").await, good());
    assert_eq!(world.0.unanswered(), []);
}

#[tokio::test]
async fn a_huge_line_ends_the_program_and_a_flood_of_strays_does_not_outrun_the_time_limit() {
    let mut program = script(SERVER);
    program.limits.time = Some(SECOND * 2);
    let world = World::new(program).await;
    assert_eq!(error(world.ask("1", "huge").await), "it printed a line of more than 4096 bytes");
    let (lease, _stop) = lease();
    let flood = world.asked(&lease, "2", "flood").await;
    let outcome = world.ask("3", "quick").await;
    // Two processes write to one pipe: the answer may be in the middle of a line of the flood.
    assert!(outcome == good() || outcome == AskOutcome::Stopped, "{outcome:?}");
    assert!(error(flood.await.unwrap()).starts_with("it took longer than its time limit of 2s"));
    assert!(world.0.stray_lines() > 1000);
    assert_eq!(world.ask("4", "quick").await, good());
}
