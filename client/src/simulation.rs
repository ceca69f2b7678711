//! Many clients over servers that delay, drop, swallow, pause, restart and run their clocks apart.
//!
//! Each seed is a world of its own. Whatever happens in it, never do two holders believe in their
//! lease at the same time, fencing tokens rise, and every lock is gone within its TTL.
//! `KHOA_SEED=n` runs one seed, `KHOA_SEEDS=n` runs that many.

use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use khoa_server::Answer;
use khoa_server::Server;
use redis::{Arg, Cmd, RedisError, RedisResult, Value};
use tokio::sync::{Notify, oneshot};

use crate::clock::ManualClock;
use crate::connection::{BoxFuture, Link, Messages};
use crate::{Lease, Lock, Manager, Redlock};

const MS: Duration = Duration::from_millis(1);
const NAMES: [&str; 2] = ["a", "b"];
const LONGEST_TTL: Duration = Duration::from_millis(1500);
const STEPS: usize = 60;

thread_local! {
    static JITTER: RefCell<Option<Random>> = const { RefCell::new(None) };
}

/// The library's own jitter, so that a seed repeats it.
pub(crate) fn fraction() -> Option<f64> {
    JITTER.with_borrow_mut(|random| random.as_mut().map(Random::fraction))
}

/// The generator `SplitMix64`.
#[derive(Clone, Debug)]
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }

    fn fraction(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }

    fn one_in(&mut self, chances: u64) -> bool {
        self.below(chances) == 0
    }

    fn millis(&mut self, least: u64, most: u64) -> Duration {
        Duration::from_millis(least + self.below(most - least + 1))
    }

    /// A clock's speed, at most four thousandths off; the library allows for ten between two.
    fn speed(&mut self) -> f64 {
        0.996 + 0.008 * self.fraction()
    }

    fn fork(&mut self) -> Self {
        Self(self.next())
    }
}

/// A server and what the world does to it.
struct Host {
    server: Arc<Server>,
    speed: f64,
    /// Something may have been published.
    spoke: Notify,
    /// Until when, on the world's clock, it cannot be reached.
    down_for: Mutex<Duration>,
}

impl Host {
    fn is_down(&self) -> bool {
        !self.down_for.lock().unwrap().is_zero()
    }
}

/// A client process with its own clock, which stands still while the process is paused.
struct Process {
    clock: ManualClock,
    speed: f64,
    paused: AtomicBool,
    missed: Mutex<Duration>,
}

impl Process {
    fn pass(&self, time: Duration) {
        let time = time.mul_f64(self.speed);
        let mut missed = self.missed.lock().unwrap();
        if self.paused.load(Ordering::Relaxed) {
            *missed += time;
        } else {
            self.clock.advance(time + std::mem::take(&mut *missed));
        }
    }
}

/// The way of one process to one server.
struct Wire {
    host: Arc<Host>,
    network: ManualClock,
    random: Arc<Mutex<Random>>,
    hostile: bool,
}

enum Fate {
    /// Delays there and back; the answer may get lost, or the connection with it.
    Arrives {
        there: Duration,
        back: Duration,
        lost: bool,
        cut: bool,
    },
    Refused,
}

impl Wire {
    fn fate(&self) -> Fate {
        let mut random = self.random.lock().unwrap();
        if self.host.is_down() || (self.hostile && random.one_in(30)) {
            return Fate::Refused;
        }
        let slow = self.hostile && random.one_in(8);
        let mut delay = || {
            if slow {
                random.millis(0, 900)
            } else {
                random.millis(0, 2)
            }
        };
        let (there, back) = (delay(), delay());
        let (lost, cut) = (
            self.hostile && random.one_in(25),
            self.hostile && random.one_in(25),
        );
        Fate::Arrives {
            there,
            back,
            lost,
            cut,
        }
    }
}

impl Link for Wire {
    fn request<'a>(&'a self, command: &'a Cmd) -> BoxFuture<'a, RedisResult<Value>> {
        let words: Vec<Vec<u8>> = command
            .args_iter()
            .map(|arg| match arg {
                Arg::Simple(bytes) => bytes.to_vec(),
                _ => b"0".to_vec(),
            })
            .collect();
        let (sender, receiver) = oneshot::channel();
        let Fate::Arrives {
            there,
            back,
            lost,
            cut,
        } = self.fate()
        else {
            return Box::pin(std::future::ready(Err(broken())));
        };
        let (host, network) = (Arc::clone(&self.host), self.network.clock());
        // Detached: what is on the wire arrives, whether or not anyone still waits for it.
        tokio::spawn(async move {
            network.sleep(there).await;
            let answer = if host.is_down() {
                Err(broken())
            } else {
                let answer = host.server.run(&words);
                host.spoke.notify_waiters();
                reply(answer)
            };
            network.sleep(back).await;
            let answer = if cut { Err(broken()) } else { answer };
            if lost {
                std::future::pending::<()>().await;
            }
            let _ = sender.send(answer);
        });
        Box::pin(async move { receiver.await.unwrap_or_else(|_| Err(broken())) })
    }

    fn listen(
        &self,
        channel: Vec<u8>,
        _sharded: bool,
    ) -> Option<BoxFuture<'_, RedisResult<Messages>>> {
        let (host, subscriber) = (
            Arc::clone(&self.host),
            self.host.server.subscribe([channel]),
        );
        let (random, hostile) = (Arc::clone(&self.random), self.hostile);
        let network = self.network.clock();
        Some(Box::pin(async move {
            let messages = futures_util::stream::unfold(
                (Mutex::new(subscriber), random, network, host),
                move |(subscriber, random, network, host)| async move {
                    loop {
                        let message = subscriber.lock().unwrap().try_next();
                        if let Some(message) = message {
                            let (late, cut) = fate_of_a_message(&random, hostile);
                            network.sleep(late).await;
                            let next = (message.payload, (subscriber, random, network, host));
                            return (!cut).then_some(next);
                        }
                        host.spoke.notified().await;
                    }
                },
            );
            Ok(Box::pin(messages) as Messages)
        }))
    }
}

/// How late it comes, and whether the connection breaks instead.
fn fate_of_a_message(random: &Mutex<Random>, hostile: bool) -> (Duration, bool) {
    let mut random = random.lock().unwrap();
    let slow = hostile && random.one_in(6);
    let late = random.millis(0, if slow { 900 } else { 2 });
    (late, hostile && random.one_in(20))
}

fn broken() -> RedisError {
    std::io::Error::from(std::io::ErrorKind::ConnectionReset).into()
}

fn reply(answer: Answer) -> RedisResult<Value> {
    Ok(match answer {
        Answer::Integer(number) => Value::Int(number),
        Answer::Bytes(bytes) => Value::BulkString(bytes),
        Answer::List(items) => {
            Value::Array(items.into_iter().map(reply).collect::<RedisResult<_>>()?)
        }
        Answer::Error(text) => {
            let (code, detail) = text.split_once(' ').unwrap_or((&text, ""));
            return Err(redis::make_extension_error(
                code.to_owned(),
                Some(detail.to_owned()),
            ));
        }
        _ => Value::Nil,
    })
}

/// What all clients of a world report to.
#[derive(Default)]
struct Record {
    /// Every lease that was ever held: its name, its process, and what it says of itself.
    leases: Vec<(usize, usize, Lease)>,
    last_fence: [u64; NAMES.len()],
}

impl Record {
    fn acquired(&mut self, name: usize, process: usize, lease: Lease) {
        assert!(
            lease.fencing_token() > self.last_fence[name],
            "the fencing token {} came after {}",
            lease.fencing_token(),
            self.last_fence[name],
        );
        self.last_fence[name] = lease.fencing_token();
        self.leases.push((name, process, lease));
    }

    fn check(&mut self, processes: &[Arc<Process>]) {
        let awake = |process: usize| !processes[process].paused.load(Ordering::Relaxed);
        for name in 0..NAMES.len() {
            let holders = self
                .leases
                .iter()
                .filter(|(n, p, lease)| *n == name && awake(*p) && lease.is_valid());
            let holders: Vec<_> = holders
                .map(|(_, process, lease)| (process, lease))
                .collect();
            assert!(holders.len() <= 1, "two holders: {holders:?}");
        }
        // A paused process must be looked at again when it goes on.
        self.leases
            .retain(|(_, process, lease)| !awake(*process) || lease.is_valid());
    }
}

/// A client: acquires, works, extends, releases, drops and gives up at random, for ever.
async fn client(
    number: usize,
    process: Arc<Process>,
    locks: Vec<Lock>,
    mut random: Random,
    record: Arc<Mutex<Record>>,
    acquired: Arc<AtomicU64>,
) {
    let clock = process.clock.clock();
    loop {
        clock.sleep(random.millis(0, 100)).await;
        let name = random.below(NAMES.len() as u64) as usize;
        let lock = locks[name]
            .clone()
            .ttl(random.millis(100, LONGEST_TTL.as_millis() as u64))
            .auto_renew(random.one_in(3))
            .max_hold(random.millis(1000, 4000));
        let patience = random.millis(0, 1000);
        let held = clock
            .before(clock.now() + patience, lock.acquire_within(patience * 2))
            .await;
        let Some(Ok(guard)) = held else { continue };
        while process.paused.load(Ordering::Relaxed) {
            tokio::task::yield_now().await;
        }
        if !guard.is_valid() {
            continue;
        }
        record.lock().unwrap().acquired(name, number, guard.lease());
        acquired.fetch_add(1, Ordering::Relaxed);
        clock.sleep(random.millis(0, 300)).await;
        if random.one_in(3) {
            let _ = guard.extend().await;
            clock.sleep(random.millis(0, 300)).await;
        }
        if random.one_in(2) {
            let limit = clock.now() + random.millis(0, 50);
            let _ = clock.before(limit, guard.release()).await;
        }
    }
}

struct World {
    hosts: Vec<Arc<Host>>,
    processes: Vec<Arc<Process>>,
    network: ManualClock,
    random: Random,
    record: Arc<Mutex<Record>>,
    loses_data: bool,
}

impl World {
    /// Lets everyone run, and looks at them before and after.
    async fn step(&mut self, time: Duration) {
        for host in &self.hosts {
            host.server.advance(time.mul_f64(host.speed));
            let mut down = host.down_for.lock().unwrap();
            *down = down.saturating_sub(time);
        }
        self.network.advance(time);
        for process in &self.processes {
            process.pass(time);
        }
        for _ in 0..4 {
            self.record.lock().unwrap().check(&self.processes);
            for _ in 0..4 {
                tokio::task::yield_now().await;
            }
        }
        self.record.lock().unwrap().check(&self.processes);
    }

    fn strike(&mut self) {
        let (hosts, processes) = (self.hosts.len() as u64, self.processes.len() as u64);
        match self.random.below(12) {
            0 => {
                let process = &self.processes[self.random.below(processes) as usize];
                process.paused.fetch_xor(true, Ordering::Relaxed);
            }
            1 => {
                let host = &self.hosts[self.random.below(hosts) as usize];
                *host.down_for.lock().unwrap() += self.random.millis(0, 500);
            }
            // Not often: each script is compiled anew then.
            2 if self.random.one_in(12) => {
                let host = &self.hosts[self.random.below(hosts) as usize];
                host.server.run(["SCRIPT", "FLUSH"]);
            }
            3 if self.loses_data => self.crash(),
            _ => {}
        }
    }

    /// A server loses everything. As the docs ask for, it then stays away for the longest TTL,
    /// and no second one does so meanwhile.
    fn crash(&mut self) {
        if self.hosts.iter().any(|host| host.is_down()) {
            return;
        }
        let host = &self.hosts[self.random.below(self.hosts.len() as u64) as usize];
        host.server.run(["FLUSHALL"]);
        *host.down_for.lock().unwrap() = LONGEST_TTL.mul_f64(1.1);
    }
}

/// Runs one seed; how often a lock was acquired in it.
async fn run(seed: u64, servers: &[Arc<Server>]) -> u64 {
    JITTER.set(Some(Random(seed)));
    let mut random = Random(seed);
    let quorum = random.one_in(2);
    let hostile = !random.one_in(4);
    let mut world = World {
        hosts: servers[..if quorum { 3 } else { 1 }]
            .iter()
            .map(|server| {
                server.run(["FLUSHALL"]);
                let (server, speed) = (Arc::clone(server), random.speed());
                Arc::new(Host {
                    server,
                    speed,
                    spoke: Notify::new(),
                    down_for: Mutex::default(),
                })
            })
            .collect(),
        processes: (0..3 + random.below(3))
            .map(|_| {
                let (clock, speed) = (ManualClock::new(), random.speed());
                let (paused, missed) = (AtomicBool::new(false), Mutex::default());
                Arc::new(Process {
                    clock,
                    speed,
                    paused,
                    missed,
                })
            })
            .collect(),
        network: ManualClock::new(),
        record: Arc::default(),
        loses_data: quorum,
        random: random.fork(),
    };
    let acquired = Arc::new(AtomicU64::new(0));
    for (number, process) in world.processes.iter().enumerate() {
        let locks = locks(&world, process, &mut random, hostile);
        let (record, acquired) = (Arc::clone(&world.record), Arc::clone(&acquired));
        let process = Arc::clone(process);
        tokio::spawn(client(
            number,
            process,
            locks,
            random.fork(),
            record,
            acquired,
        ));
    }
    for _ in 0..STEPS {
        world.strike();
        let time = random.millis(1, 60);
        world.step(time).await;
    }
    everything_ends_by_itself(&world);
    acquired.load(Ordering::Relaxed)
}

/// The locks of one process, which sees each server through a wire of its own.
fn locks(world: &World, process: &Process, random: &mut Random, hostile: bool) -> Vec<Lock> {
    let managers: Vec<Manager> = world
        .hosts
        .iter()
        .enumerate()
        .map(|(index, host)| {
            let random = Arc::new(Mutex::new(random.fork()));
            let (host, network) = (Arc::clone(host), world.network.clone());
            let wire = Wire {
                host,
                network,
                random,
                hostile,
            };
            let settings = Manager::builder().clock(process.clock.clock()).index(index);
            settings
                .request_timeout(300 * MS)
                .over(Arc::new(wire))
                .unwrap()
        })
        .collect();
    let lock = |name| match &managers[..] {
        [manager] => manager.lock(name),
        several => {
            let redlock = Redlock::new(several.iter().cloned()).unwrap();
            redlock.node_timeout(100 * MS).lock(name)
        }
    };
    NAMES.map(lock).to_vec()
}

/// Every client is gone and nothing more arrives: the servers alone must let everything go.
fn everything_ends_by_itself(world: &World) {
    for host in &world.hosts {
        host.server.advance(LONGEST_TTL + MS);
        let locks = host.server.run(["EXISTS", "khoa:a", "khoa:b"]);
        // A turn that was kept for a waiter may last a little longer than the shortest TTL.
        host.server.advance(crate::resource::TURN_KEPT);
        assert_eq!(
            host.server.run(["EXISTS", "khoa:a", "khoa:b"]),
            0,
            "before: {locks:?}"
        );
        host.server.advance(crate::resource::QUEUE_KEPT + MS);
        for key in host.server.run(["KEYS", "*"]).into_list() {
            assert!(key.ends_with(b"fence"), "{} is left", key.escape_ascii());
        }
    }
}

fn server() -> Arc<Server> {
    let server = Server::builder().no_port().frozen();
    Arc::new(server.setting("databases", "1").start().unwrap())
}

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

#[test]
fn no_seed_finds_two_holders_a_falling_token_or_an_endless_lock() {
    let seeds = match number("KHOA_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("KHOA_SEEDS").unwrap_or(2000),
    };
    let (next, acquired) = (AtomicU64::new(seeds.start), AtomicU64::new(0));
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let servers: Vec<_> = (0..3).map(|_| server()).collect();
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= seeds.end {
                        return;
                    }
                    let told = SeedOnPanic(seed);
                    let runtime = tokio::runtime::Builder::new_current_thread();
                    let runtime = { runtime }.enable_time().build().unwrap();
                    acquired.fetch_add(runtime.block_on(run(seed, &servers)), Ordering::Relaxed);
                    std::mem::forget(told);
                }
            });
        }
    });
    let acquired = acquired.into_inner();
    println!(
        "{} seeds from {}, {acquired} acquisitions",
        seeds.end - seeds.start,
        seeds.start
    );
    // A world in which nobody gets anything would prove nothing.
    assert!(acquired >= (seeds.end - seeds.start) * 2, "{acquired}");
}

/// Says which seed it was, when it is dropped by a panic.
struct SeedOnPanic(u64);

impl Drop for SeedOnPanic {
    fn drop(&mut self) {
        println!("failed with KHOA_SEED={}", self.0);
    }
}
