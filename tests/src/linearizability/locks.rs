//! One history of the lock library: `Redlock` over five servers, or `Lock` over one, and a model
//! of what a lock is.
//!
//! The model is a register that says who holds the lock. A grant makes the caller the holder and
//! must carry a higher fencing token than any before; `Work` is a moment at which a holder looked
//! at its lease and was told that it is valid, so then it must be the holder; and a hold may `End`
//! at any time after it began, by release or by time, after which no more work of its can come.
//! So every history in which two leases were valid at the same moment, or tokens fell, has no
//! order.
//!
//! Time is one: the clocks of all servers and clients are moved together, a millisecond at a time,
//! each at its own speed, at most two thousandths off. That they run apart by no more than the
//! library allows for is what a lease rests on.
//!
//! A server that lost its data stays away for longer than the longest lease, one at a time. Were
//! it back at once, it could vote for a second holder while the first one's majority still
//! counts on it: no lock over a majority survives that, and the tests of this check prove that
//! such a world is found out. A clock that jumps ahead takes leases away early and so is the
//! same loss: the server stays away as long. It jumps once in a world, and by less than that
//! time, since fencing tokens follow the servers' clocks where a counter was lost. A restart that
//! keeps the data needs no such care and comes at any time.

use std::net::SocketAddr;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;

use khoa::{Guard, Lock, Manager, ManualClock, Redlock};
use khoa_server::{Fault, Server};
use tokio::sync::oneshot;

use super::checker::Model;
use super::counts::Counts;
use super::history::{Operation, Stamps};
use super::random::Random;

const MS: Duration = Duration::from_millis(1);
/// Leases in milliseconds. Of the shortest one the library keeps 3 ms back: 1 ms is lost to the
/// server's deadlines being whole milliseconds, 1 ms to clocks being moved one after the other,
/// and 0.4 ms to their speeds.
const LEASE_MS: (u64, u64) = (100, 200);
/// Where a lease renews itself, that ends by then.
const LONGEST_HOLD: Duration = Duration::from_millis(500);
/// For how long a server that lost its data stays away.
const AWAY_MS: u64 = 220;
/// How long a world lasts.
const WORLD_MS: u64 = 1200;
/// How long time waits, by the real clock, for requests that are on their way. It only paces a
/// history: a request that takes longer just seems slow to its client.
const PATIENCE: Duration = Duration::from_micros(200);
/// A client that has not ended after so much more time never will.
const MOST_MS: u64 = 200_000;

/// What a client of the lock can see.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Call {
    /// It was granted the lock under this number.
    Acquire(u32),
    /// It was told that its lease is valid.
    Work(u32),
    /// It holds no more.
    End(u32),
}

/// The fencing token of a grant; 0 for everything else.
pub type Fence = u64;

/// The model of a lock.
#[derive(Clone, Copy, Debug)]
pub struct Register;

/// Who holds it, and the highest fencing token so far.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct State {
    holder: Option<u32>,
    fence: Fence,
}

impl Model for Register {
    type Call = Call;
    type Outcome = Fence;
    type State = State;

    fn initial(&self) -> State {
        State::default()
    }

    fn step(&self, state: &State, call: &Call, heard: Option<&Fence>) -> Option<State> {
        let held_by = |id: u32| state.holder == Some(id);
        match *call {
            Call::Acquire(id) => {
                let fence = *heard?;
                let free = state.holder.is_none() && fence > state.fence;
                let holder = Some(id);
                free.then_some(State { holder, fence })
            }
            Call::Work(id) => held_by(id).then(|| state.clone()),
            Call::End(id) => held_by(id).then_some(State {
                holder: None,
                ..*state
            }),
        }
    }

    fn objects(&self, _: &Call) -> Option<Vec<char>> {
        None
    }
}

/// What a client saw of the lock.
pub type Seen = Operation<Call, Fence>;

/// Notes what one client sees.
pub struct Witness {
    client: usize,
    stamps: Arc<Stamps>,
    attempts: u64,
    grants: u32,
    history: Vec<Seen>,
}

impl Witness {
    /// One who has seen nothing yet.
    pub fn new(client: usize, stamps: Arc<Stamps>) -> Self {
        Self {
            client,
            stamps,
            attempts: 0,
            grants: 0,
            history: Vec::new(),
        }
    }

    /// Attempts once, waiting at most so long if there is a limit, and tells the hold's number.
    pub async fn acquire(&mut self, lock: &Lock, limit: Option<Duration>) -> Option<(u32, Guard)> {
        self.attempts += 1;
        let invoked = self.stamps.next();
        let guard = match limit {
            Some(limit) => lock.acquire_within(limit).await.ok()?,
            None => lock.try_acquire().await.ok()??,
        };
        let returned = self.stamps.next();
        self.grants += 1;
        let id = self.client as u32 * 1000 + self.grants;
        let granted = Some((returned, guard.fencing_token()));
        self.note(Call::Acquire(id), invoked, granted);
        self.note(Call::End(id), invoked, None);
        Some((id, guard))
    }

    /// Looks whether the lease is valid at this moment.
    pub fn work(&mut self, id: u32, guard: &Guard) -> bool {
        let invoked = self.stamps.next();
        let valid = guard.is_valid();
        let returned = self.stamps.next();
        if valid {
            self.note(Call::Work(id), invoked, Some((returned, 0)));
        }
        valid
    }

    /// What it saw.
    pub fn into_history(self) -> Vec<Seen> {
        self.history
    }

    fn note(&mut self, call: Call, invoked: u64, returned: Option<(u64, Fence)>) {
        self.history.push(Operation {
            client: self.client,
            call,
            invoked,
            returned,
        });
    }
}

/// What befalls a server.
#[derive(Clone, Debug)]
enum Blow {
    Strike(Fault),
    Cut,
    Pause(u64),
    Restart,
    /// Everything is lost.
    Crash,
    /// The clock jumps ahead by so many milliseconds.
    Jump(u64),
}

impl Blow {
    fn name(&self) -> &'static str {
        match self {
            Self::Strike(Fault::Latency(_)) => "latency armed",
            Self::Strike(Fault::SwallowReply) => "swallowed reply armed",
            Self::Strike(_) => "cut under a request armed",
            Self::Cut => "all connections of a server cut",
            Self::Pause(_) => "server paused",
            Self::Restart => "restart",
            Self::Crash => "restart that loses data",
            Self::Jump(_) => "clock jumps ahead",
        }
    }
}

/// Runs the world of a seed and gives what its clients saw.
pub(super) fn play(seed: u64) -> (Vec<Seen>, Counts) {
    let mut random = Random::seeded(seed);
    let servers = if random.one_in(4) { 1 } else { 5 };
    let clients = random.between(2, 4) as usize;
    let mut world = World::new(&mut random, servers, clients);
    // One runtime for all clients, and nothing of theirs outlives the history.
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("threads for the clients");
    let waits = servers == 1;
    let addrs: Vec<SocketAddr> = world.servers.iter().map(Server::addr).collect();
    let tasks: Vec<_> = (world.processes.iter().enumerate())
        .map(|(number, process)| {
            let client = Client {
                lock: process.lock(&addrs),
                witness: Witness::new(number, Arc::clone(&world.stamps)),
                time: Arc::clone(&world.time),
                random: random.fork(),
                waits,
            };
            runtime.spawn(client.run())
        })
        .collect();
    let hostile = !random.one_in(5);
    for _ in 0..WORLD_MS {
        if hostile && random.one_in(60) {
            world.strike(&mut random);
        }
        world.pass();
    }
    world.calm();
    for _ in 0..MOST_MS {
        if tasks.iter().all(tokio::task::JoinHandle::is_finished) {
            break;
        }
        world.pass();
    }
    let (mut history, mut attempts) = (Vec::new(), 0);
    for task in tasks {
        assert!(
            task.is_finished(),
            "a client still waits after {MOST_MS} ms"
        );
        // A client that panicked has said why; its seed is told by whoever runs the world.
        let witness = runtime.block_on(task).expect("a client that ends");
        attempts += witness.attempts;
        history.extend(witness.into_history());
    }
    let granted = |seen: &&Seen| matches!(seen.call, Call::Acquire(_));
    let grants = history.iter().filter(granted).count();
    world.counts.add("locks granted", grants as u64);
    world
        .counts
        .add("locks not granted", attempts - grants as u64);
    (history, world.counts)
}

/// A clock and its speed.
struct Process {
    clock: ManualClock,
    pace: Duration,
}

impl Process {
    fn lock(&self, addrs: &[SocketAddr]) -> Lock {
        let managers = addrs.iter().enumerate().map(|(index, addr)| {
            Manager::builder()
                .clock(self.clock.clock())
                .index(index)
                .request_timeout(60 * MS)
                .open(format!("redis://{addr}/"))
                .expect("a URL")
        });
        let mut managers: Vec<Manager> = managers.collect();
        if managers.len() == 1 {
            return managers.remove(0).lock("r");
        }
        let redlock = Redlock::new(managers).expect("an odd number");
        redlock.node_timeout(30 * MS).lock("r")
    }
}

/// A server that cannot be reached for longer than the longest lease.
struct Away {
    server: usize,
    until: u64,
    /// By how much its clock is ahead then; `None` when it lost its data instead.
    jump: Option<Duration>,
}

struct World {
    servers: Vec<Server>,
    paces: Vec<Duration>,
    processes: Vec<Process>,
    time: Arc<Time>,
    stamps: Arc<Stamps>,
    /// The server that is away.
    away: Option<Away>,
    jumped: bool,
    counts: Counts,
}

impl World {
    fn new(random: &mut Random, servers: usize, clients: usize) -> Self {
        let mut pace = || Duration::from_micros(random.between(998, 1002));
        let paces = (0..servers).map(|_| pace()).collect();
        let processes = (0..clients)
            .map(|_| Process {
                clock: ManualClock::new(),
                pace: pace(),
            })
            .collect();
        let start = || Server::builder().frozen_at_ms(1_700_000_000_000).start();
        Self {
            servers: (0..servers)
                .map(|_| start().expect("a server on a free port"))
                .collect(),
            paces,
            processes,
            time: Arc::new(Time::new(clients)),
            stamps: Arc::default(),
            away: None,
            jumped: false,
            counts: Counts::default(),
        }
    }

    /// Lets a millisecond pass everywhere.
    fn pass(&mut self) {
        for (server, pace) in self.servers.iter().zip(&self.paces) {
            server.advance(*pace);
        }
        for process in &self.processes {
            process.clock.advance(process.pace);
        }
        self.counts.add("clock advanced", 1);
        let now = self.time.now();
        if let Some(away) = self.away.take_if(|away| away.until <= now) {
            self.come_back(&away);
        }
        self.time.pass();
    }

    fn strike(&mut self, random: &mut Random) {
        let at = random.between(0, self.servers.len() as u64 - 1) as usize;
        let blow = match random.between(0, 10) {
            0..=1 => Blow::Strike(Fault::SwallowReply),
            2 => Blow::Strike(Fault::DropAfter),
            3 => Blow::Strike(Fault::DropBefore),
            4 => Blow::Strike(Fault::Latency(PATIENCE * 5)),
            5 => Blow::Cut,
            6..=7 => Blow::Pause(random.between(10, 120)),
            8 => Blow::Restart,
            9 => Blow::Jump(random.between(10, AWAY_MS / 2)),
            _ => Blow::Crash,
        };
        let takes_away = matches!(blow, Blow::Crash | Blow::Jump(_));
        let jumps_again = matches!(blow, Blow::Jump(_)) && self.jumped;
        let away = |away: &Away| takes_away || away.server == at;
        if jumps_again || self.away.as_ref().is_some_and(away) {
            return;
        }
        self.counts.add(blow.name(), 1);
        let server = &mut self.servers[at];
        match blow {
            Blow::Strike(fault) => server.inject_on("EVALSHA", fault, 1),
            Blow::Cut => server.kill_clients(),
            Blow::Pause(millis) => {
                server.run(["CLIENT", "PAUSE", &millis.to_string(), "ALL"]);
            }
            Blow::Restart => server.restart().expect("the same port again"),
            Blow::Crash => self.take_away(at, None),
            Blow::Jump(millis) => {
                self.jumped = true;
                self.take_away(at, Some(Duration::from_millis(millis)));
            }
        }
    }

    fn take_away(&mut self, server: usize, jump: Option<Duration>) {
        self.servers[server].disconnect_all();
        self.away = Some(Away {
            server,
            until: self.time.now() + AWAY_MS,
            jump,
        });
    }

    fn come_back(&mut self, away: &Away) {
        let server = &mut self.servers[away.server];
        let back = match away.jump {
            None => server.restart_empty(),
            Some(jump) => {
                server.advance(jump);
                server.restart()
            }
        };
        back.expect("the same port again");
    }

    /// Ends all faults, so that what is left to do can be done.
    fn calm(&mut self) {
        for server in &self.servers {
            server.clear_faults();
        }
    }
}

/// A process that wants the lock again and again.
struct Client {
    lock: Lock,
    witness: Witness,
    time: Arc<Time>,
    random: Random,
    /// Whether it may stand in a queue.
    waits: bool,
}

impl Client {
    async fn run(mut self) -> Witness {
        while self.time.now() < WORLD_MS {
            self.sleep(0, 40).await;
            self.once().await;
        }
        let nobody = Witness::new(0, Arc::default());
        std::mem::replace(&mut self.witness, nobody)
    }

    /// Acquires, works, extends, is paused, and gives back in one way or another.
    async fn once(&mut self) {
        let lease = self.random.between(LEASE_MS.0, LEASE_MS.1);
        let renews = self.random.one_in(4);
        let lock = self.lock.clone().ttl(Duration::from_millis(lease));
        let lock = lock.auto_renew(renews).max_hold(LONGEST_HOLD);
        let limit = self
            .waits
            .then(|| Duration::from_millis(self.random.between(0, 300)));
        let limit = limit.or_else(|| self.random.one_in(3).then_some(100 * MS));
        let Some((id, guard)) = self.witness.acquire(&lock, limit).await else {
            return;
        };
        for _ in 0..self.random.between(1, 4) {
            self.witness.work(id, &guard);
            match self.random.between(0, 9) {
                // The process is paused, for longer than its lease at times.
                0 => self.sleep(lease / 2, lease * 2).await,
                // It works on until the last moments of its lease.
                4..=5 => {
                    let left = guard.remaining().as_millis() as u64;
                    self.sleep(left.saturating_sub(1), left).await;
                    while self.witness.work(id, &guard) {
                        self.sleep(1, 1).await;
                    }
                }
                1..=3 => {
                    let _ = guard.extend().await;
                }
                _ => self.sleep(0, 30).await,
            }
        }
        self.witness.work(id, &guard);
        match self.random.between(0, 3) {
            // Given back in the background.
            0 => drop(guard),
            // A process that died: the lock ends by itself.
            1 if self.random.one_in(2) => std::mem::forget(guard),
            _ => {
                let _ = guard.release().await;
            }
        }
    }

    async fn sleep(&mut self, least: u64, most: u64) {
        let length = self.random.between(least, most);
        self.time.sleep(length).await;
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.time.leave();
    }
}

/// The time of a world, which knows its sleepers: a client that is awake is waited for.
struct Time {
    moment: Mutex<Moment>,
    all_sleep: Condvar,
}

struct Moment {
    /// Milliseconds since the beginning.
    now: u64,
    awake: usize,
    sleepers: Vec<(u64, oneshot::Sender<()>)>,
}

impl Time {
    fn new(clients: usize) -> Self {
        let moment = Moment {
            now: 0,
            awake: clients,
            sleepers: Vec::new(),
        };
        Self {
            moment: Mutex::new(moment),
            all_sleep: Condvar::new(),
        }
    }

    fn moment(&self) -> std::sync::MutexGuard<'_, Moment> {
        self.moment.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now(&self) -> u64 {
        self.moment().now
    }

    /// Lets a millisecond pass, and gives those who are awake then a while to get on.
    fn pass(&self) {
        let mut moment = self.moment();
        moment.now += 1;
        let now = moment.now;
        let sleepers = std::mem::take(&mut moment.sleepers);
        let (due, later): (Vec<_>, _) = sleepers.into_iter().partition(|(until, _)| *until <= now);
        moment.sleepers = later;
        moment.awake += due.len();
        for (_, sleeper) in due {
            // One that is gone has nothing to wake up for.
            let _ = sleeper.send(());
        }
        let busy = |moment: &mut Moment| moment.awake > 0;
        // Whether all sleep or patience is over, time goes on.
        let _ = self.all_sleep.wait_timeout_while(moment, PATIENCE, busy);
    }

    async fn sleep(&self, length: u64) {
        if length > 0 {
            // Time does not end before its sleepers do.
            let _ = self.woken_after(length).await;
        }
    }

    fn woken_after(&self, length: u64) -> oneshot::Receiver<()> {
        let (sleeper, woken) = oneshot::channel();
        let mut moment = self.moment();
        let until = moment.now + length;
        moment.sleepers.push((until, sleeper));
        self.rest(&mut moment);
        woken
    }

    fn leave(&self) {
        self.rest(&mut self.moment());
    }

    fn rest(&self, moment: &mut Moment) {
        moment.awake -= 1;
        if moment.awake == 0 {
            self.all_sleep.notify_one();
        }
    }
}
