use proptest::prelude::*;

use super::*;
use crate::recipes::contest::{Dialect, Standing, standing};

fn limit(permits: u32) -> Limit {
    Limit { permits, version: 0 }
}

#[test]
fn room_is_what_the_limit_leaves() {
    let holders = ["a".to_owned(), "b".to_owned()];
    for (permits, decision) in [(0, Decision::Wait), (2, Decision::Wait), (3, Decision::Enter)] {
        assert_eq!(decide("me", &holders, limit(permits)), decision, "{permits}");
    }
    assert_eq!(decide("a", &holders, limit(1)), Decision::Inside);
}

#[test]
fn limits_are_read_as_python_reads_them() {
    for (data, read) in [
        ("3", Ok(3)),
        (" 3\n", Ok(3)),
        ("+3", Ok(3)),
        ("0", Ok(0)),
        ("", Err(NoLimit::Nothing)),
        ("-1", Err(NoLimit::Unreadable("-1".to_owned()))),
        ("{\"max\":3}", Err(NoLimit::Unreadable("{\"max\":3}".to_owned()))),
    ] {
        assert_eq!(parse(data.as_bytes()), read, "{data:?}");
    }
}

/// The part of ZooKeeper that a semaphore sees, after each transaction.
#[derive(Debug, Clone)]
struct Tree {
    queue: Vec<String>,
    holders: Vec<String>,
    limit: Limit,
}

/// A contender's progress. What it knows comes from a server that may lag.
#[derive(Debug, Clone, PartialEq)]
enum Stage {
    Out,
    Queued(String),
    First(String),
    /// It is about to enter, with the limit that it saw.
    Entering(String, Limit),
    /// Python's way: it has entered, and is still in the queue.
    Leaving(String),
    In,
}

#[derive(Debug, Clone)]
struct Contender {
    stage: Stage,
    /// What its server has seen: an index into the history.
    seen: usize,
    /// Whether it works as kazoo does, in separate steps.
    python: bool,
    /// How often it has begun: names are never used twice.
    lives: usize,
}

/// Contenders on servers that lag behind each other.
struct Model {
    history: Vec<Tree>,
    contenders: Vec<Contender>,
    tickets: usize,
}

#[derive(Debug, Clone)]
enum Act {
    /// A contender takes a step, after its server has caught up by this many transactions.
    Step(usize, usize),
    /// Its session ends; or it gives up, which is the same to the tree.
    Crash(usize),
    Release(usize),
    SetLimit(u32),
    /// Somebody removes all of the queue.
    RemoveQueue,
}

impl Model {
    fn new(pythons: &[bool], permits: u32) -> Self {
        let tree = Tree { queue: vec![], holders: vec![], limit: limit(permits) };
        let contender = |python: &bool| Contender { stage: Stage::Out, seen: 0, python: *python, lives: 0 };
        Self { history: vec![tree], contenders: pythons.iter().map(contender).collect(), tickets: 0 }
    }

    fn now(&self) -> &Tree {
        self.history.last().unwrap()
    }

    fn write(&mut self, change: impl FnOnce(&mut Tree)) {
        let mut tree = self.now().clone();
        change(&mut tree);
        self.history.push(tree);
    }

    fn name(&self, who: usize) -> String {
        format!("holder-{who}-{}", self.contenders[who].lives)
    }

    /// What the server of this contender shows: it never goes back, and has all that the contender itself has written.
    fn view(&mut self, who: usize, catch_up: usize) -> Tree {
        let newest = self.history.len() - 1;
        let contender = &mut self.contenders[who];
        contender.seen = (contender.seen + catch_up).min(newest);
        self.history[contender.seen].clone()
    }

    fn act(&mut self, act: &Act) {
        match *act {
            Act::Step(who, catch_up) => self.step(who, catch_up),
            Act::Crash(who) => {
                let (name, stage) = (self.name(who), self.contenders[who].stage.clone());
                self.write(|tree| {
                    tree.holders.retain(|holder| *holder != name);
                    if let Stage::Queued(me)
                    | Stage::First(me)
                    | Stage::Entering(me, _)
                    | Stage::Leaving(me) = stage
                    {
                        tree.queue.retain(|queued| *queued != me);
                    }
                });
                self.begin_again(who);
            }
            Act::Release(who) => {
                if self.contenders[who].stage == Stage::In {
                    let name = self.name(who);
                    self.write(|tree| tree.holders.retain(|holder| *holder != name));
                    self.begin_again(who);
                }
            }
            Act::SetLimit(permits) => {
                self.write(|tree| tree.limit = Limit { permits, version: tree.limit.version + 1 });
            }
            Act::RemoveQueue => self.write(|tree| tree.queue.clear()),
        }
    }

    fn begin_again(&mut self, who: usize) {
        let contender = &mut self.contenders[who];
        (contender.stage, contender.lives) = (Stage::Out, contender.lives + 1);
        contender.seen = self.history.len() - 1;
    }

    fn step(&mut self, who: usize, catch_up: usize) {
        let next = match self.contenders[who].stage.clone() {
            Stage::Out => {
                let me = format!("{who}__lock__{:010}", self.tickets);
                self.tickets += 1;
                self.write(|tree| tree.queue.push(me.clone()));
                self.contenders[who].seen = self.history.len() - 1;
                Stage::Queued(me)
            }
            Stage::Queued(me) => {
                let tree = self.view(who, catch_up);
                let all = Dialect::Kazoo.contenders(tree.queue.iter().map(String::as_str));
                match standing(&me, &all) {
                    Standing::Holds => Stage::First(me),
                    Standing::WaitsFor(_) => Stage::Queued(me),
                    Standing::Gone | Standing::Exhausted => Stage::Out,
                }
            }
            Stage::First(me) => {
                let tree = self.view(who, catch_up);
                match decide(&self.name(who), &tree.holders, tree.limit) {
                    Decision::Enter => Stage::Entering(me, tree.limit),
                    Decision::Wait => Stage::Queued(me),
                    Decision::Inside => unreachable!("names are never used twice"),
                }
            }
            Stage::Entering(me, limit) => self.enter(who, me, limit),
            Stage::Leaving(me) => {
                self.write(|tree| tree.queue.retain(|queued| *queued != me));
                Stage::In
            }
            Stage::In => Stage::In,
        };
        self.contenders[who].stage = next;
    }

    /// What the transaction checks, and what it does; Python checks nothing.
    fn enter(&mut self, who: usize, me: String, limit: Limit) -> Stage {
        let name = self.name(who);
        let python = self.contenders[who].python;
        if !python && !self.now().queue.contains(&me) {
            return Stage::Out;
        }
        if !python && self.now().limit != limit {
            return Stage::Queued(me);
        }
        let held = self.now().holders.len();
        assert!(held < self.now().limit.permits as usize, "{name} enters where {held} are");
        self.write(|tree| {
            tree.holders.push(name);
            if !python {
                tree.queue.retain(|queued| *queued != me);
            }
        });
        self.contenders[who].seen = self.history.len() - 1;
        if python { Stage::Leaving(me) } else { Stage::In }
    }
}

fn acts(contenders: usize, changes: bool) -> impl Strategy<Value = Vec<Act>> {
    let who = move || 0..contenders;
    let act = prop_oneof![
        12 => (who(), 0_usize..6).prop_map(|(who, catch_up)| Act::Step(who, catch_up)),
        1 => who().prop_map(Act::Crash),
        2 => who().prop_map(Act::Release),
        u32::from(changes) => (0_u32..4).prop_map(Act::SetLimit),
        u32::from(changes) => Just(Act::RemoveQueue),
    ];
    prop::collection::vec(act, 0..120)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    /// The check is in `Model::enter`: at no time does anybody enter where there is no room.
    #[test]
    fn nobody_enters_a_full_room(permits in 0_u32..4, acts in acts(5, true)) {
        let mut model = Model::new(&[false; 5], permits);
        acts.iter().for_each(|act| model.act(act));
    }

    /// Kazoo knows neither a limit that changes nor a queue that is removed; without these, it and ours keep to the limit.
    #[test]
    fn nobody_enters_a_full_room_with_python_either(
        permits in 0_u32..4,
        pythons in prop::collection::vec(any::<bool>(), 5),
        acts in acts(5, false),
    ) {
        let mut model = Model::new(&pythons, permits);
        acts.iter().for_each(|act| model.act(act));
    }

    /// When everybody goes on and whoever is in leaves, everybody gets in.
    #[test]
    fn everybody_gets_in(acts in acts(4, true)) {
        let mut model = Model::new(&[false; 4], 1);
        acts.iter().for_each(|act| model.act(act));
        model.act(&Act::SetLimit(1));
        let mut entered = [false; 4];
        for _ in 0..40 {
            for (who, entered) in entered.iter_mut().enumerate() {
                model.act(&Act::Step(who, usize::MAX / 2));
                *entered |= model.contenders[who].stage == Stage::In;
                model.act(&Act::Release(who));
            }
        }
        prop_assert_eq!(entered, [true; 4]);
    }
}
