//! Sixty processes on six simulated hosts compete for three slots while wrappers, commands and servers are killed and
//! stopped, and connections cut: never more than three hold, none holds twice, and in the end everybody gets a turn.

use std::collections::{BTreeMap, BTreeSet};
use std::env;
use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use menagerie_testkit::{Ensemble, Process, Proxy, Servers};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::cli::User;
use crate::dice::{Dice, seed};

const HOSTS: usize = 6;
const PROCESSES: usize = 60;
const MAX: usize = 3;

/// Time for everybody's turn once the storm is over. Each killed process delays the others by a session.
const CALM: Duration = Duration::from_secs(180);

/// When the first server falls, and how often: an election takes its time, and meanwhile nothing happens.
const FIRST_FALL: Duration = Duration::from_secs(4);
const BETWEEN_RESTARTS: Duration = Duration::from_secs(5);
const BETWEEN_ELECTIONS: Duration = Duration::from_secs(20);

/// The command: exactly one may run under each number, and the kernel enforces it: a file lock ends with the last
/// process that has it.
const WORK: &str = r#"
echo $$ > "pid-$1"
[ "$MENAGERIE_SLOT" -le 3 ] || echo "$1 is in slot $MENAGERIE_SLOT" >> violations
exec 9>> "slot-$MENAGERIE_SLOT"
flock -n 9 || echo "$1 is not alone in slot $MENAGERIE_SLOT" >> violations
echo "$1" >> turns
sleep 0.05
"#;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Persistent,
    Ephemeral,
}

#[test]
fn storm_over_persistent_slots() {
    Storm::new(Kind::Persistent).run();
}

#[test]
fn storm_over_ephemeral_slots() {
    Storm::new(Kind::Ephemeral).run();
}

/// One of the sixty.
struct Actor {
    holder: String,
    host: String,
    /// Its process; reaped only under this lock, so that no reused pid is hit in its place.
    process: Mutex<Option<Process>>,
}

struct Storm {
    kind: Kind,
    servers: Mutex<Servers>,
    proxy: Proxy,
    near: User,
    far: User,
    actors: Vec<Actor>,
    /// The storm is over.
    over: AtomicBool,
    /// And everybody had a turn.
    done: AtomicBool,
}

/// How long one storm lasts.
fn length() -> Duration {
    let seconds =
        env::var("MENAGERIE_STORM_SECONDS").map_or(15, |text| text.parse().expect("it is a number"));
    Duration::from_secs(seconds)
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Storm {
    fn new(kind: Kind) -> Self {
        let servers = Ensemble::from_env().start_own();
        let path = servers.fresh_path("storm");
        let proxy = Proxy::new(servers.addresses()[0]);
        let user = |address: String| User::at(address + &path).with("MENAGERIE_SESSION_TIMEOUT", "2s");
        let (near, far) = (user(servers.connect_string()), user(proxy.address().to_string()));
        near.ok(&["slots", "create", "pool", "--max", &MAX.to_string()]);
        near.write("work.sh", WORK);
        near.write("violations", "");
        near.write("turns", "");
        let actors = (0..PROCESSES)
            .map(|number| Actor {
                holder: format!("p{number}"),
                host: format!("host-{}", number % HOSTS),
                process: Mutex::new(None),
            })
            .collect();
        Self {
            kind,
            servers: Mutex::new(servers),
            proxy,
            near,
            far,
            actors,
            over: AtomicBool::new(false),
            done: AtomicBool::new(false),
        }
    }

    fn run(self) {
        let mut dice = Dice::new(seed());
        thread::scope(|scope| {
            let _over = SetOnDrop([&self.over, &self.done]);
            let actors: Vec<_> = (0..PROCESSES)
                .map(|number| {
                    scope.spawn({
                        let storm = &self;
                        move || storm.act(number)
                    })
                })
                .collect();
            let witness = scope.spawn(|| self.witness());
            self.blow(&mut dice);
            self.over.store(true, Ordering::SeqCst);
            let turns: usize = actors.into_iter().map(|actor| actor.join().expect("it got its turn")).sum();
            self.done.store(true, Ordering::SeqCst);
            let looks = witness.join().expect("it has seen nothing wrong");
            println!("{:?}: {turns} turns, {looks} looks at the pool", self.kind);
        });
        assert_eq!(fs::read_to_string(self.file("violations")).expect("it was made"), "");
        let turns: BTreeSet<String> =
            fs::read_to_string(self.file("turns")).expect("it was made").lines().map(str::to_owned).collect();
        assert_eq!(turns.len(), PROCESSES, "everybody had a turn");
        let pool = self.near.json(&["slots", "show", "pool"]);
        assert_eq!(pool["used"], 0, "nothing is left: {pool}");
    }

    fn file(&self, name: &str) -> PathBuf {
        self.near.folder().join(name)
    }

    /// Runs the command repeatedly; after the storm, until it succeeds. Counts its successes.
    fn act(&self, number: usize) -> usize {
        let actor = &self.actors[number];
        let mut turns = 0;
        let mut calm: Option<Instant> = None;
        loop {
            let over = self.over.load(Ordering::SeqCst);
            if over && calm.is_none() {
                calm = Some(Instant::now());
            }
            *locked(&actor.process) = Some(self.start(number));
            let status = loop {
                let ended = locked(&actor.process).as_mut().and_then(Process::try_wait);
                if let Some(status) = ended {
                    break status;
                }
                if self.over.load(Ordering::SeqCst) {
                    let since = *calm.get_or_insert_with(Instant::now);
                    let late = since.elapsed() > CALM;
                    let said = || locked(&actor.process).as_ref().map(Process::stderr).unwrap_or_default();
                    assert!(!late, "{} does not get its turn:\n{}", actor.holder, said());
                }
                thread::sleep(Duration::from_millis(20));
            };
            turns += usize::from(status.success());
            if over && status.success() {
                return turns;
            }
        }
    }

    fn start(&self, number: usize) -> Process {
        let Actor { holder, host, .. } = &self.actors[number];
        // Every other one is behind an unreliable connection.
        let user = if number.is_multiple_of(2) { &self.near } else { &self.far };
        let run = ["slots", "run", "pool", "--holder", holder, "--host", host, "--grace", "1s"];
        let kind: &[&str] = if self.kind == Kind::Ephemeral { &["--ephemeral"] } else { &[] };
        let mut command = user.command(&[&run, kind, &["--", "sh", "work.sh", holder]].concat());
        command.current_dir(self.near.folder());
        Process::spawn(&mut command)
    }

    /// Reads the pool all the time, and follows its history.
    fn witness(&self) -> usize {
        let mut looks = 0;
        let mut history: BTreeMap<i64, (String, String)> = BTreeMap::new();
        loop {
            let last = self.done.load(Ordering::SeqCst);
            // While the servers are down there is nothing to read.
            if let Some(pool) = self.run_json(&["slots", "show", "pool", "-o", "json"]) {
                looks += 1;
                let holders = super::names(&pool["holders"]);
                assert!(holders.len() <= MAX, "too many: {pool}");
                let distinct: BTreeSet<&String> = holders.iter().collect();
                assert_eq!(distinct.len(), holders.len(), "somebody is in twice: {pool}");
            }
            for event in self
                .run_json(&["slots", "history", "pool", "-o", "json"])
                .iter()
                .flat_map(Value::as_array)
                .flatten()
            {
                let word = |key: &str| event[key].as_str().unwrap_or_default().to_owned();
                history
                    .insert(event["zxid"].as_i64().expect("it has a zxid"), (word("what"), word("holder")));
            }
            if last {
                break;
            }
        }
        if self.kind == Kind::Persistent {
            follow(&history);
        }
        looks
    }

    fn run_json(&self, args: &[&str]) -> Option<Value> {
        let done = self.near.run(args);
        if done.code != Some(0) {
            return None;
        }
        serde_json::from_str(&done.text()).ok()
    }

    fn blow(&self, dice: &mut Dice) {
        let began = Instant::now();
        let mut stopped: Vec<(Instant, Target)> = Vec::new();
        let mut next_fall = FIRST_FALL;
        let mut fallen: Option<usize> = None;
        let mut falls = 0;
        while began.elapsed() < length() {
            thread::sleep(Duration::from_millis(20 + dice.below(150)));
            let due: Vec<_> = stopped.extract_if(.., |(until, _)| *until <= Instant::now()).collect();
            due.iter().for_each(|(_, target)| self.signal(target, Signal::CONT));
            let number = dice.below(PROCESSES as u64) as usize;
            let until = Instant::now() + Duration::from_millis(dice.below(4_000));
            match dice.below(20) {
                0..4 => self.signal(&Target::Wrapper(number), Signal::KILL),
                4..7 => {
                    self.signal(&Target::Wrapper(number), Signal::STOP);
                    stopped.push((until, Target::Wrapper(number)));
                }
                7..11 => self.signal_somebody_who_works(dice, Signal::KILL, None),
                11..14 => self.signal_somebody_who_works(dice, Signal::STOP, Some((until, &mut stopped))),
                14..17 => self.proxy.lose_connections(),
                17 => {
                    self.proxy.partition();
                    thread::sleep(Duration::from_millis(dice.below(3_000)));
                    self.proxy.heal();
                }
                _ => {}
            }
            if began.elapsed() > next_fall {
                falls += 1;
                if falls % 2 == 0 {
                    self.stand_still(dice)
                } else {
                    self.fall(&mut fallen)
                }
                let pause = if fallen.is_some() { BETWEEN_ELECTIONS } else { BETWEEN_RESTARTS };
                next_fall = began.elapsed() + pause;
            }
        }
        stopped.iter().for_each(|(_, target)| self.signal(target, Signal::CONT));
        self.proxy.heal();
        if let Some(server) = fallen {
            locked(&self.servers).restart(server);
        }
    }

    /// Kills the leader. Of three servers one is then always down, and comes back when the next one falls.
    fn fall(&self, fallen: &mut Option<usize>) {
        let mut servers = locked(&self.servers);
        if let Some(server) = fallen.take() {
            servers.restart(server);
        }
        let killed = servers.kill_leader();
        if servers.addresses().len() > 1 {
            *fallen = Some(killed);
        }
    }

    /// Pauses all servers for a while that may exceed a session: they answer nobody, and no connection ends.
    fn stand_still(&self, dice: &mut Dice) {
        let servers = locked(&self.servers);
        servers.pause();
        thread::sleep(Duration::from_millis(500 + dice.below(3_000)));
        servers.resume();
    }

    fn signal_somebody_who_works(
        &self,
        dice: &mut Dice,
        signal: Signal,
        then: Option<(Instant, &mut Vec<(Instant, Target)>)>,
    ) {
        let pids = self.actors.iter().filter_map(|actor| {
            let pid =
                fs::read_to_string(self.file(&format!("pid-{}", actor.holder))).ok()?.trim().parse().ok()?;
            is_work(pid).then_some(pid)
        });
        let pids: Vec<i32> = pids.collect();
        if pids.is_empty() {
            return;
        }
        let target = Target::Work(pids[dice.below(pids.len() as u64) as usize]);
        self.signal(&target, signal);
        if let Some((until, stopped)) = then {
            stopped.push((until, target));
        }
    }

    fn signal(&self, target: &Target, signal: Signal) {
        match target {
            Target::Wrapper(number) => {
                if let Some(process) = locked(&self.actors[*number].process).as_mut()
                    && process.try_wait().is_none()
                {
                    process.signal(signal);
                }
            }
            Target::Work(pid) => {
                if let (true, Some(pid)) = (is_work(*pid), Pid::from_raw(*pid)) {
                    // It may have ended a moment ago.
                    let _ = kill_process(pid, signal);
                }
            }
        }
    }
}

enum Target {
    Wrapper(usize),
    Work(i32),
}

/// Whether this is one of our commands, and not another process with a reused pid.
fn is_work(pid: i32) -> bool {
    let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
    line.starts_with(b"sh\0work.sh\0")
}

/// Counts the holders in the server's own order of events.
fn follow(history: &BTreeMap<i64, (String, String)>) {
    let mut inside: BTreeSet<&str> = BTreeSet::new();
    for (zxid, (what, holder)) in history {
        match what.as_str() {
            "acquired" => assert!(inside.insert(holder), "{holder} is in twice at {zxid:#x}"),
            "resumed" => {
                assert!(inside.contains(holder.as_str()), "{holder} resumes what it has not, {zxid:#x}")
            }
            "released" | "forced" => {
                assert!(inside.remove(holder.as_str()), "{holder} was not in at {zxid:#x}")
            }
            _ => {}
        }
        assert!(inside.len() <= MAX, "too many at {zxid:#x}: {inside:?}");
    }
    println!("{} events in the history", history.len());
}

/// Stops everybody when something fails, so that the failure is reported at once.
struct SetOnDrop<'a>([&'a AtomicBool; 2]);

impl Drop for SetOnDrop<'_> {
    fn drop(&mut self) {
        self.0.iter().for_each(|flag| flag.store(true, Ordering::SeqCst));
    }
}
