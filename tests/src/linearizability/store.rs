//! The sequential model of the store: strings with deadlines, lists, and clients that wait.
//!
//! It is written from the documented behaviour and shares no code with the server. Time goes in
//! ticks, each a call of its own, so every deadline is exact. A blocking pop is two calls with the
//! same ends: `Wait` puts the client in its place, and `Leave` may only come once it was served or
//! its time was up. In between it is served by whoever pushes, first come, first served; though
//! who came first, nobody outside can know of two that both wait.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::checker::Model;

/// How long a tick is on the server's clock.
pub const TICK_MS: u64 = 10;
/// What stands for the clock among the objects.
const CLOCK: char = '@';

/// The name of a key: one letter.
pub type Key = char;

/// A reply as far as the model is concerned.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Reply {
    /// None of any kind.
    Nil,
    /// A status.
    Ok,
    /// An integer, or a value, all of which are numbers.
    Number(i64),
    /// A key's name.
    Key(Key),
    /// Several.
    Many(Vec<Reply>),
    /// An error, which the model never gives.
    Error(String),
}

/// When SET sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum When {
    /// Whatever is there.
    Always,
    /// Only where nothing is (NX).
    Missing,
    /// Only where something is (XX).
    Present,
}

/// A command that is done in one step, also within a transaction or a script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Command {
    /// GET.
    Get(Key),
    /// SET, with a deadline so many ticks away if there is one.
    Set {
        /// The string.
        key: Key,
        /// What it becomes.
        value: i64,
        /// On which condition.
        when: When,
        /// The time it has.
        ticks: Option<u64>,
    },
    /// DEL of one key.
    Delete(Key),
    /// DELIFEQ, or whatever does the same in one step.
    DeleteIfEqual(Key, i64),
    /// INCR.
    Increment(Key),
    /// PEXPIRE.
    Expire(Key, u64),
    /// PTTL.
    TimeLeft(Key),
    /// RPUSH of one value.
    Push(Key, i64),
    /// LPOP.
    Pop(Key),
    /// LLEN.
    Length(Key),
}

impl Command {
    fn key(&self) -> Key {
        match self {
            Self::Get(key)
            | Self::Set { key, .. }
            | Self::Delete(key)
            | Self::DeleteIfEqual(key, _)
            | Self::Increment(key)
            | Self::Expire(key, _)
            | Self::TimeLeft(key)
            | Self::Push(key, _)
            | Self::Pop(key)
            | Self::Length(key) => *key,
        }
    }

    fn asks_the_clock(&self) -> bool {
        let sets_deadline = matches!(self, Self::Set { ticks: Some(_), .. });
        sets_deadline || matches!(self, Self::Expire(..) | Self::TimeLeft(_))
    }

    fn only_reads(&self) -> bool {
        matches!(self, Self::Get(_) | Self::TimeLeft(_) | Self::Length(_))
    }
}

/// What a client, or time, asks of the store.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Call {
    /// A command by itself.
    One(Command),
    /// Commands in one step: a transaction or a script.
    Together(Vec<Command>),
    /// A blocking pop begins: BLPOP, or BLMOVE from left to right.
    Wait {
        /// Its number.
        id: u64,
        /// The lists to take from, the first that has something.
        from: Vec<Key>,
        /// Where to put what was taken.
        into: Option<Key>,
        /// How long it waits; `None` for ever.
        ticks: Option<u64>,
    },
    /// The blocking pop of this number ends.
    Leave(u64),
    /// The connection of a blocking pop is gone, so it waits no more.
    Depart(u64),
    /// A tick of the clock.
    Tick,
    /// Everything is lost.
    Forget,
}

impl Call {
    /// Whether it leaves no trace, so that one nobody heard of says nothing.
    pub fn only_reads(&self) -> bool {
        match self {
            Self::One(command) => command.only_reads(),
            Self::Together(commands) => commands.iter().all(Command::only_reads),
            _ => false,
        }
    }
}

/// The model.
#[derive(Clone, Copy, Debug)]
pub struct Store;

/// Everything that is in the store.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct State {
    now: u64,
    strings: BTreeMap<Key, Text>,
    lists: BTreeMap<Key, VecDeque<i64>>,
    /// Oldest first.
    waiting: Vec<Waiter>,
    /// Those who have their answer and have not left.
    served: BTreeSet<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Text {
    value: i64,
    until: Option<u64>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Waiter {
    id: u64,
    from: Vec<Key>,
    into: Option<Key>,
    until: Option<u64>,
    /// What its client was answered in the end, if anything.
    heard: Option<Reply>,
}

impl Model for Store {
    type Call = Call;
    type Outcome = Reply;
    type State = State;

    fn initial(&self) -> State {
        State::default()
    }

    fn step(&self, state: &State, call: &Call, heard: Option<&Reply>) -> Option<State> {
        let mut state = state.clone();
        match call {
            Call::One(command) => {
                let mut changed = VecDeque::new();
                let reply = state.run(command, &mut changed);
                agree(&reply, heard)?;
                state.serve(changed)?;
            }
            Call::Together(commands) => {
                let mut changed = VecDeque::new();
                let replies = commands.iter().map(|one| state.run(one, &mut changed));
                agree(&Reply::Many(replies.collect()), heard)?;
                state.serve(changed)?;
            }
            Call::Wait {
                id,
                from,
                into,
                ticks,
            } => state.wait(Waiter {
                id: *id,
                from: from.clone(),
                into: *into,
                until: ticks.map(|ticks| state.now + ticks),
                heard: heard.cloned(),
            })?,
            Call::Leave(id) => state.served.remove(id).then_some(())?,
            Call::Depart(id) => {
                let at = state.waiting.iter().position(|waiter| waiter.id == *id)?;
                state.waiting.remove(at);
            }
            Call::Tick => state.tick()?,
            Call::Forget => {
                state.strings.clear();
                state.lists.clear();
                state.waiting.clear();
            }
        }
        Some(state)
    }

    fn objects(&self, call: &Call) -> Option<Vec<char>> {
        let of = |commands: &[Command]| {
            let mut objects: Vec<char> = commands.iter().map(Command::key).collect();
            if commands.iter().any(Command::asks_the_clock) {
                objects.push(CLOCK);
            }
            objects
        };
        match call {
            Call::One(command) => Some(of(std::slice::from_ref(command))),
            Call::Together(commands) => Some(of(commands)),
            Call::Wait {
                id,
                from,
                into,
                ticks,
            } => {
                let clock = ticks.map(|_| CLOCK);
                let objects = from.iter().copied().chain(*into).chain(clock);
                Some(objects.chain([place(*id)]).collect())
            }
            Call::Leave(id) | Call::Depart(id) => Some(vec![place(*id)]),
            Call::Tick => Some(vec![CLOCK]),
            Call::Forget => None,
        }
    }
}

/// The object that a waiting client is: it ties the end of its wait to the beginning.
fn place(id: u64) -> char {
    let private_use = 0xF_0000 + u32::try_from(id).expect("few clients wait");
    char::from_u32(private_use).expect("few clients wait")
}

fn agree(reply: &Reply, heard: Option<&Reply>) -> Option<()> {
    heard.is_none_or(|heard| heard == reply).then_some(())
}

impl State {
    fn run(&mut self, command: &Command, changed: &mut VecDeque<Key>) -> Reply {
        let present = self.strings.contains_key(&command.key());
        match *command {
            Command::Get(key) => self.value(key).map_or(Reply::Nil, Reply::Number),
            Command::Set { when, .. } if present && when == When::Missing => Reply::Nil,
            Command::Set { when, .. } if !present && when == When::Present => Reply::Nil,
            Command::Set {
                key, value, ticks, ..
            } => {
                let until = ticks.map(|ticks| self.now + ticks);
                self.strings.insert(key, Text { value, until });
                Reply::Ok
            }
            Command::Delete(key) => {
                self.strings.remove(&key);
                Reply::Number(present.into())
            }
            Command::DeleteIfEqual(key, value) => {
                let equal = self.value(key) == Some(value);
                if equal {
                    self.strings.remove(&key);
                }
                Reply::Number(equal.into())
            }
            Command::Increment(key) => {
                let nothing = Text {
                    value: 0,
                    until: None,
                };
                let text = self.strings.entry(key).or_insert(nothing);
                text.value += 1;
                Reply::Number(text.value)
            }
            Command::Expire(key, ticks) => {
                if let Some(text) = self.strings.get_mut(&key) {
                    text.until = Some(self.now + ticks);
                }
                Reply::Number(present.into())
            }
            Command::TimeLeft(key) => Reply::Number(self.time_left(key)),
            Command::Push(key, value) => {
                changed.push_back(key);
                let list = self.lists.entry(key).or_default();
                list.push_back(value);
                Reply::Number(list.len() as i64)
            }
            Command::Pop(key) => self.pop(key).map_or(Reply::Nil, Reply::Number),
            Command::Length(key) => {
                Reply::Number(self.lists.get(&key).map_or(0, VecDeque::len) as i64)
            }
        }
    }

    fn value(&self, key: Key) -> Option<i64> {
        self.strings.get(&key).map(|text| text.value)
    }

    fn time_left(&self, key: Key) -> i64 {
        match self.strings.get(&key) {
            None => -2,
            Some(Text { until: None, .. }) => -1,
            Some(Text {
                until: Some(until), ..
            }) => ((until - self.now) * TICK_MS) as i64,
        }
    }

    /// Takes the first element; a list without elements does not exist.
    fn pop(&mut self, key: Key) -> Option<i64> {
        let list = self.lists.get_mut(&key)?;
        let value = list.pop_front();
        if list.is_empty() {
            self.lists.remove(&key);
        }
        value
    }

    fn wait(&mut self, waiter: Waiter) -> Option<()> {
        let mut changed = VecDeque::new();
        if self.is_ready(&waiter) {
            self.hand_over(waiter, &mut changed)?;
        } else {
            self.waiting.push(waiter);
        }
        self.serve(changed)
    }

    fn is_ready(&self, waiter: &Waiter) -> bool {
        waiter.from.iter().any(|key| self.lists.contains_key(key))
    }

    /// Serves those who wait for lists that changed, in the order of the changes.
    fn serve(&mut self, mut changed: VecDeque<Key>) -> Option<()> {
        while let Some(key) = changed.pop_front() {
            let waits =
                |waiter: &Waiter| waiter.from.contains(&key) && self.lists.contains_key(&key);
            if let Some(at) = self.waiting.iter().position(waits) {
                let waiter = self.waiting.remove(at);
                self.hand_over(waiter, &mut changed)?;
                changed.push_front(key);
            }
        }
        Some(())
    }

    /// Gives a waiting client the first element of its first list that has one.
    fn hand_over(&mut self, waiter: Waiter, changed: &mut VecDeque<Key>) -> Option<()> {
        let key = *waiter
            .from
            .iter()
            .find(|key| self.lists.contains_key(key))?;
        let value = self.pop(key)?;
        let reply = if let Some(into) = waiter.into {
            self.lists.entry(into).or_default().push_back(value);
            changed.push_back(into);
            Reply::Number(value)
        } else {
            Reply::Many(vec![Reply::Key(key), Reply::Number(value)])
        };
        self.answer(&waiter, &reply)
    }

    fn answer(&mut self, waiter: &Waiter, reply: &Reply) -> Option<()> {
        agree(reply, waiter.heard.as_ref())?;
        if waiter.heard.is_some() {
            self.served.insert(waiter.id);
        }
        Some(())
    }

    /// Whatever has its deadline now goes, and whoever has its deadline now is told so.
    fn tick(&mut self) -> Option<()> {
        self.now += 1;
        let now = self.now;
        let due = |until: Option<u64>| until.is_some_and(|until| until <= now);
        self.strings.retain(|_, text| !due(text.until));
        let (over, waiting) = std::mem::take(&mut self.waiting)
            .into_iter()
            .partition::<Vec<_>, _>(|waiter| due(waiter.until));
        self.waiting = waiting;
        over.iter()
            .try_for_each(|waiter| self.answer(waiter, &Reply::Nil))
    }
}
