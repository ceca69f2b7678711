//! What a seed says: what each client does, and what befalls them while they do it.

use khoa_server::Fault;
use std::time::Duration;

use super::random::Random;
use super::store::{Command, Key, When};

const LOCKS: [Key; 2] = ['a', 'b'];
const COUNTER: Key = 'c';
const QUEUES: [Key; 2] = ['q', 'r'];
/// The commands that a fault may strike: none of them opens or ends a transaction.
const STRUCK: [&str; 8] = [
    "SET", "GET", "DELIFEQ", "EVAL", "EVALSHA", "INCR", "RPUSH", "BLPOP",
];
/// The commands whose answers may be swallowed, or whose connection may be dropped.
const CUT: [&str; 9] = [
    "SET", "GET", "DELIFEQ", "EVAL", "EVALSHA", "EXEC", "MULTI", "RPUSH", "BLPOP",
];
/// How long an injected latency is, by the real clock: it only shifts who comes when.
const LATENCY: Duration = Duration::from_micros(300);
/// The answer of an injected error.
pub const REFUSAL: &str = "LOADING injected";

/// A mistake that is made on purpose, so that a check can prove that it finds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// A release reads the lock and deletes it in two steps.
    GetThenDel,
    /// An acquisition sets the lock whoever has it.
    AcquireWithoutNx,
}

/// By which means a lock is given back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Release {
    /// A script that compares and deletes, by its digest.
    Script,
    /// DELIFEQ.
    DelIfEq,
    /// WATCH, GET, and DEL in a transaction.
    Watch,
    /// The seeded bug.
    GetThenDel,
}

/// What a client does next.
#[derive(Clone, Debug)]
pub enum Step {
    /// One command.
    One(Command),
    /// Commands between MULTI and EXEC.
    Transaction(Vec<Command>),
    /// Commands that a script runs.
    Script(Vec<Command>),
    /// SET NX PX, and what it is when the seeded bug is in.
    Acquire {
        /// The lock.
        key: Key,
        /// What to know it by.
        token: i64,
        /// The lease.
        ticks: u64,
        /// Whether NX is given.
        nx: bool,
    },
    /// A compare-and-delete.
    Release {
        /// The lock.
        key: Key,
        /// Whose it must be.
        token: i64,
        /// How.
        by: Release,
    },
    /// WATCH, GET, and SET in a transaction.
    Increment(Key),
    /// A blocking pop.
    Wait {
        /// Where from.
        from: Vec<Key>,
        /// Where to.
        into: Option<Key>,
        /// For how long.
        ticks: Option<u64>,
    },
}

/// What befalls everybody.
#[derive(Clone, Debug)]
pub enum Blow {
    /// The clock moves on by so many ticks.
    Ticks(u64),
    /// A fault strikes a command once.
    Strike(&'static str, Fault),
    /// Every connection is cut.
    Cut,
    /// Everybody is held back for so many ticks (CLIENT PAUSE).
    Pause(u64),
    /// The server restarts and keeps what it has.
    Restart,
    /// The server restarts and has lost everything.
    Forget,
    /// The server forgets its scripts.
    FlushScripts,
}

impl Blow {
    /// What it is called when blows are counted.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Ticks(_) => "clock advanced",
            Self::Strike(_, Fault::Latency(_)) => "latency",
            Self::Strike(..) => "fault armed",
            Self::Cut => "all connections cut",
            Self::Pause(_) => "pause",
            Self::Restart => "restart",
            Self::Forget => "restart that loses data",
            Self::FlushScripts => "scripts flushed",
        }
    }
}

/// A world: its clients and its blows, each with the stamp that it waits for.
#[derive(Clone, Debug)]
pub struct Program {
    /// Threads that serve connections.
    pub workers: usize,
    /// What each client does.
    pub clients: Vec<Vec<Step>>,
    /// What befalls them, and when.
    pub blows: Vec<(u64, Blow)>,
}

impl Program {
    /// The program of a seed.
    pub fn of(seed: u64, bug: Option<Bug>) -> Self {
        let mut random = Random::seeded(seed);
        let workers = random.between(1, 2) as usize;
        let timeless = random.one_in(4);
        let hostile = !timeless && !random.one_in(4);
        let number = random.between(2, 5);
        let clients: Vec<Vec<Step>> = (0..number)
            .map(|client| {
                let mut author = Author {
                    random: random.fork(),
                    last: client as i64 * 1000,
                    timeless,
                    bug,
                };
                author.steps(random.between(4, 12))
            })
            .collect();
        let steps: usize = clients.iter().map(Vec::len).sum();
        // An operation takes two stamps.
        let end = 2 * steps as u64;
        let mut blows = Vec::new();
        for _ in 0..if timeless { 0 } else { random.between(3, 10) } {
            blows.push((random.between(0, end), Blow::Ticks(random.between(1, 2))));
        }
        for _ in 0..if hostile { random.between(1, 4) } else { 0 } {
            blows.push((random.between(0, end), blow(&mut random)));
        }
        blows.sort_by_key(|(at, _)| *at);
        Self {
            workers,
            clients,
            blows,
        }
    }
}

fn blow(random: &mut Random) -> Blow {
    match random.between(0, 11) {
        0..=1 => Blow::Strike(random.pick(&CUT), Fault::SwallowReply),
        2..=3 => Blow::Strike(random.pick(&CUT), Fault::DropAfter),
        4 => Blow::Strike(random.pick(&CUT), Fault::DropBefore),
        5 => Blow::Strike(random.pick(&STRUCK), Fault::Error(REFUSAL.to_owned())),
        6 => Blow::Strike(random.pick(&STRUCK), Fault::Latency(LATENCY)),
        7 => Blow::Cut,
        8 => Blow::Pause(random.between(1, 3)),
        9 => Blow::Restart,
        10 => Blow::Forget,
        _ => Blow::FlushScripts,
    }
}

/// Writes one client's part.
struct Author {
    random: Random,
    /// The last token or value, which nobody else has.
    last: i64,
    /// Nothing has a deadline, so that keys are independent of each other.
    timeless: bool,
    bug: Option<Bug>,
}

impl Author {
    fn steps(&mut self, number: u64) -> Vec<Step> {
        let mut steps = Vec::new();
        while (steps.len() as u64) < number {
            match self.random.between(0, 9) {
                0..=3 => self.lock(&mut steps),
                4 => steps.push(Step::Increment(COUNTER)),
                5 => steps.push(Step::Transaction(self.several())),
                6 => steps.push(Step::Script(self.several())),
                7..=8 => steps.push(self.wait()),
                _ => {
                    let command = self.command();
                    steps.push(Step::One(command));
                }
            }
        }
        steps
    }

    /// Takes a lock, perhaps looks at it, and gives it back.
    fn lock(&mut self, steps: &mut Vec<Step>) {
        let (key, token) = (self.random.pick(&LOCKS), self.fresh());
        let nx = self.bug != Some(Bug::AcquireWithoutNx);
        steps.push(if self.timeless {
            Step::One(set(key, token, When::Missing, None))
        } else {
            let ticks = self.random.between(1, 4);
            Step::Acquire {
                key,
                token,
                ticks,
                nx,
            }
        });
        for _ in 0..self.random.between(0, 2) {
            let command = self.command();
            steps.push(Step::One(command));
        }
        let by = match self.bug {
            Some(Bug::GetThenDel) => Release::GetThenDel,
            _ => (self.random).pick(&[Release::Script, Release::DelIfEq, Release::Watch]),
        };
        steps.push(Step::Release { key, token, by });
    }

    fn wait(&mut self) -> Step {
        let mut from = vec![self.random.pick(&QUEUES)];
        let into = self.random.one_in(4).then(|| self.random.pick(&QUEUES));
        if into.is_none() && self.random.one_in(3) {
            from = QUEUES.to_vec();
            if self.random.one_in(2) {
                from.reverse();
            }
        }
        let ticks = (!self.timeless).then(|| self.random.between(1, 5));
        Step::Wait { from, into, ticks }
    }

    fn several(&mut self) -> Vec<Command> {
        (0..self.random.between(2, 4))
            .map(|_| self.command())
            .collect()
    }

    fn command(&mut self) -> Command {
        let (lock, queue) = (self.random.pick(&LOCKS), self.random.pick(&QUEUES));
        match self.random.between(0, 14) {
            0..=2 => Command::Get(lock),
            3 => Command::Get(COUNTER),
            4 => Command::Increment(COUNTER),
            5..=8 => Command::Push(queue, self.fresh()),
            9 => Command::Pop(queue),
            10 => Command::Length(queue),
            11 => Command::Delete(COUNTER),
            _ if self.timeless => Command::Get(lock),
            12 => Command::Expire(lock, self.random.between(1, 4)),
            13 => Command::TimeLeft(lock),
            _ => {
                let ticks = self.random.between(1, 4);
                set(COUNTER, self.fresh(), When::Present, Some(ticks))
            }
        }
    }

    fn fresh(&mut self) -> i64 {
        self.last += 1;
        self.last
    }
}

fn set(key: Key, value: i64, when: When, ticks: Option<u64>) -> Command {
    Command::Set {
        key,
        value,
        when,
        ticks,
    }
}
