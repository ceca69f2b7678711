//! The lock library on real servers in the set-ups that need several of them: a master with a
//! replica, sentinels with a fail-over in the middle of a hold, a cluster of three masters.
//!
//! `real_servers [PATH]`: starts what it needs from a redis-server or valkey-server, on free
//! loopback ports, and ends it. Debian's `redis-tools` is enough: its `redis-check-rdb` is the
//! server under another name. Each claim is a line; the first that fails ends in exit 1.
//!
//! It waits for what servers say and not for a time, so a busy machine makes it slower and
//! nothing else. What has not come after [`PATIENCE`] is a failure.

mod process;

use std::error::Error;
use std::future::Future;
use std::time::{Duration, Instant};

use khoa::redis::cluster::ClusterClient;
use khoa::redis::sentinel::{SentinelClient, SentinelServerType};
use khoa::redis::{self, AsyncCommands};
use khoa::{Lock, Manager, ManagerBuilder, ManualClock, Released, Wait};

use process::{Program, Running, Scratch};

type Outcome<T> = Result<T, Box<dyn Error>>;

const SECOND: Duration = Duration::from_secs(1);
const MS: Duration = Duration::from_millis(1);
/// For each single step, however busy the machine is.
const PATIENCE: Duration = Duration::from_secs(120);
/// A lease that outlasts every step, and a wait that only a message can end.
const LONG: Duration = Duration::from_secs(3600);

#[tokio::main]
async fn main() -> Outcome<()> {
    let scratch = Scratch::new()?;
    let program = Program::find(std::env::args().nth(1), &scratch)?;
    let started = Instant::now();
    if let Err(error) = all(&program).await {
        println!("{}", scratch.last_words()?);
        return Err(error);
    }
    println!("all held, in {:.1} s", started.elapsed().as_secs_f64());
    Ok(())
}

async fn all(program: &Program) -> Outcome<()> {
    replicas(program).await?;
    fail_over(program).await?;
    forgetful_fail_over(program).await?;
    cluster(program).await
}

fn claim(text: &str, holds: bool) -> Outcome<()> {
    println!("{} {text}", if holds { "ok  " } else { "FAIL" });
    if holds { Ok(()) } else { Err(text.into()) }
}

fn patient() -> ManagerBuilder {
    Manager::builder().request_timeout(PATIENCE)
}

/// What comes of it, unless it takes longer than anything may take.
async fn soon<T, E: Into<Box<dyn Error>>>(
    what: &str,
    work: impl Future<Output = Result<T, E>>,
) -> Outcome<T> {
    match tokio::time::timeout(PATIENCE, work).await {
        Ok(outcome) => outcome.map_err(Into::into),
        Err(_) => Err(format!("{what}: nothing came in {PATIENCE:?}").into()),
    }
}

/// Whether it holds at last.
async fn within<F: Future<Output = bool>>(mut look: impl FnMut() -> F) -> bool {
    let looks = async {
        while !look().await {
            tokio::time::sleep(20 * MS).await;
        }
    };
    tokio::time::timeout(PATIENCE, looks).await.is_ok()
}

// ---- A master with a replica ----

async fn replicas(program: &Program) -> Outcome<()> {
    let master = program.start(&[]).await?;
    let replica = program.start_replica(&master).await?;
    let lock = patient().open(master.url())?.lock("a").ttl(LONG);

    let replicated = lock.clone().replicated(1, PATIENCE);
    let guard = soon("a replicated lock", replicated.acquire()).await?;
    let on_replica: Option<String> = replica.ask("GET khoa:a")?;
    claim(
        "a lock that one replica acknowledged is on it when it is held",
        on_replica.is_some(),
    )?;
    guard.release().await?;

    let two = lock.clone().replicated(2, 100 * MS);
    let few = within(|| async {
        matches!(
            two.try_acquire().await,
            Err(khoa::Error::TooFewReplicas {
                acknowledged: 1,
                needed: 2
            })
        )
    });
    claim(
        "a lock that wants two replicas where there is one is refused",
        few.await,
    )?;
    claim(
        "and is given back",
        master.ask::<i64>("EXISTS khoa:a")? == 0,
    )?;

    let holder = lock.acquire().await?;
    let waiting = tokio::spawn(async move { replicated.acquire_within(PATIENCE).await });
    master.until("LLEN {khoa:a}:queue", "1").await?;
    holder.release().await?;
    let guard = waiting.await??;
    let on_replica: Option<String> = replica.ask("GET khoa:a")?;
    let held = on_replica.is_some_and(|value| value.starts_with(guard.token().as_str()));
    claim("so is one that was waited for", held)
}

// ---- Sentinel ----

/// A master with a replica, and a sentinel that replaces it when it is told to: how soon it would
/// find that out by itself says nothing of the library, and depends on how busy the machine is.
struct Sentinels {
    master: Running,
    replica: Running,
    sentinel: Running,
}

impl Sentinels {
    async fn start(program: &Program) -> Outcome<Self> {
        let master = program.start(&[]).await?;
        let replica = program.start_replica(&master).await?;
        let settings = format!(
            "sentinel monitor main 127.0.0.1 {} 1\n\
             sentinel down-after-milliseconds main 3600000\n\
             sentinel failover-timeout main 600000\n",
            master.port
        );
        let sentinel = program.start_sentinel(&settings).await?;
        // It also stops working when it was kept from it, unless it is told otherwise.
        sentinel.ask::<()>("SENTINEL DEBUG INFO-PERIOD 500 TILT-TRIGGER 3600000")?;
        sentinel
            .until("SENTINEL MASTERS", "num-slaves\n1\n")
            .await?;
        Ok(Self {
            master,
            replica,
            sentinel,
        })
    }

    fn lock(&self) -> Outcome<Lock> {
        let (sentinels, kind) = (vec![self.sentinel.url()], SentinelServerType::Master);
        let client = SentinelClient::build(sentinels, "main".to_owned(), None, kind)?;
        Ok(patient().sentinel(client)?.lock("a").ttl(LONG))
    }

    /// Goes on with the replica; the master must be dead.
    async fn fail_over(&self) -> Outcome<()> {
        self.sentinel.until("SENTINEL FAILOVER main", "OK").await?;
        self.replica.until("ROLE", "master").await?;
        let port = format!("{}\n", self.replica.port);
        let named = "SENTINEL GET-MASTER-ADDR-BY-NAME main";
        self.sentinel.until(named, &port).await
    }
}

async fn fail_over(program: &Program) -> Outcome<()> {
    let mut servers = Sentinels::start(program).await?;
    let lock = servers.lock()?.auto_renew(true).replicated(1, PATIENCE);
    let guard = soon("a replicated lock", lock.acquire()).await?;
    let fence = guard.fencing_token();
    // Only a message can end this wait in time.
    let next = servers.lock()?.wait(Wait::notified().fallback(LONG));
    let next = tokio::spawn(async move { next.acquire_within(PATIENCE).await });
    servers.master.until("LLEN {khoa:a}:queue", "1").await?;

    servers.master.kill();
    servers.fail_over().await?;
    let extended = within(|| async { guard.extend().await.is_ok() }).await;
    claim(
        "a lock that its replica had outlives the fail-over",
        extended && guard.is_valid(),
    )?;
    claim("nobody else got it meanwhile", !next.is_finished())?;
    // The waiter has to come back by itself before it can be handed anything.
    servers
        .replica
        .until("PUBSUB CHANNELS khoa:wake:*", "khoa:wake:")
        .await?;
    servers.replica.until("LLEN {khoa:a}:queue", "1").await?;
    let freed = guard.release().await? == Released::Released;
    let next = next.await??;
    claim("the waiter is woken by the new master", freed)?;
    claim(
        "and its fencing token is higher",
        next.fencing_token() > fence,
    )
}

async fn forgetful_fail_over(program: &Program) -> Outcome<()> {
    let mut servers = Sentinels::start(program).await?;
    let lock = servers.lock()?;
    servers.replica.signal("STOP")?;
    let refused = lock.clone().replicated(1, 100 * MS).try_acquire().await;
    let few = matches!(refused, Err(khoa::Error::TooFewReplicas { .. }));
    claim(
        "a lock that must be replicated is refused while the replica hangs",
        few,
    )?;
    // Cut off, or it would find the lock in what it has not read yet.
    servers.master.ask::<i64>("CLIENT KILL TYPE replica")?;
    let holder = soon("a lock on the master", lock.acquire()).await?;
    servers.master.kill();
    servers.replica.signal("CONT")?;
    servers.fail_over().await?;
    let next = servers.lock()?.acquire_within(PATIENCE).await?;
    claim(
        "one that was not is forgotten by the next master",
        next.is_valid(),
    )?;
    let lost = within(|| async { holder.extend().await.is_err_and(|error| error.is_lost()) });
    claim("its holder is told with the next renewal", lost.await)?;
    let higher = next.fencing_token() > holder.fencing_token();
    claim("and the other's fencing token is higher", higher)?;
    claim(
        "the other's lock is left alone",
        next.extend().await.is_ok(),
    )
}

// ---- Cluster ----

async fn three_nodes(program: &Program) -> Outcome<Vec<Running>> {
    let mut nodes = Vec::new();
    let mut first_bus = 0;
    for number in 0..3 {
        let (node, bus) = program.start_node().await?;
        let first = number * 5462;
        let last = (first + 5461).min(16383);
        node.ask::<String>(&format!("CLUSTER ADDSLOTSRANGE {first} {last}"))?;
        if number == 0 {
            first_bus = bus;
        }
        nodes.push(node);
    }
    for node in &nodes[1..] {
        let seed = nodes[0].port;
        node.ask::<String>(&format!("CLUSTER MEET 127.0.0.1 {seed} {first_bus}"))?;
    }
    for node in &nodes {
        node.until("CLUSTER INFO", "cluster_state:ok").await?;
        node.until("CLUSTER INFO", "cluster_known_nodes:3").await?;
        node.until("CLUSTER INFO", "cluster_slots_ok:16384").await?;
    }
    Ok(nodes)
}

async fn cluster(program: &Program) -> Outcome<()> {
    let mut nodes = three_nodes(program).await?;
    let urls: Vec<String> = nodes.iter().map(Running::url).collect();
    let open = |settings: ManagerBuilder| settings.cluster(ClusterClient::builder(urls.clone()));
    let dedicated = redis::Client::open(urls[0].as_str())?;
    let manager = open(patient().dedicated(dedicated))?;

    let names: Vec<String> = (0..30).map(|number| format!("name-{number}")).collect();
    let mut guards = Vec::new();
    for name in &names {
        guards.push(manager.lock(name).ttl(LONG).acquire().await?);
    }
    let everywhere = nodes
        .iter()
        .all(|node| node.ask::<i64>("DBSIZE").is_ok_and(|keys| keys > 5));
    claim(
        "locks of thirty names spread over three nodes, helper keys with them",
        everywhere,
    )?;
    let listed = manager.holders("name-", 100).await?.len();
    claim("all of them are listed", listed == names.len())?;
    for guard in guards {
        guard.release().await?;
    }
    soon("every script", every_script(&manager)).await?;
    claim("every kind of script finds its keys on one node", true)?;

    let (here, there) = (open(without_polling())?, open(without_polling())?);
    for name in &names {
        soon("a waiter", hand_over(&here, &there, name)).await?;
    }
    claim(
        "waiters for thirty names are woken by push, whichever node it is",
        true,
    )?;

    for name in &names[..6] {
        soon("transactions", count_to_four(&manager, name)).await?;
    }
    claim(
        "transactions at every node lose nothing to one another",
        true,
    )?;

    let across = manager
        .lock_all(["name-0", "name-1", "name-2"])
        .try_acquire()
        .await;
    claim(
        "several names without a common tag are refused",
        across.is_err(),
    )?;
    let replicated = manager
        .lock("name-3")
        .replicated(1, 50 * MS)
        .try_acquire()
        .await;
    let few = matches!(
        replicated,
        Err(khoa::Error::TooFewReplicas {
            acknowledged: 0,
            ..
        })
    );
    claim("the node of the key is asked for its replicas", few)?;
    nodes[0].kill();
    let mut refused = 0;
    for name in &names {
        let lock = manager.lock(name);
        let outcome = tokio::time::timeout(PATIENCE, lock.acquire_within(300 * MS)).await?;
        refused += usize::from(outcome.is_err());
    }
    claim(
        "the loss of a node costs its names alone, or all, but hangs nobody",
        refused >= 5,
    )
}

/// Its clock stands still, so nobody can poll: only a message brings a lock that was busy.
fn without_polling() -> ManagerBuilder {
    Manager::builder()
        .clock(ManualClock::new().clock())
        .request_timeout(LONG)
}

async fn hand_over(here: &Manager, there: &Manager, name: &str) -> Outcome<()> {
    let holder = here.lock(name).acquire().await?;
    let lock = there.lock(name);
    let waiting = tokio::spawn(async move { lock.acquire().await?.release().await });
    while here
        .inspect(name)
        .await?
        .is_none_or(|holder| holder.waiting == 0)
    {
        tokio::time::sleep(MS).await;
    }
    holder.release().await?;
    match waiting.await?? {
        Released::Released => Ok(()),
        other => Err(format!("{name} was {other:?} at its release").into()),
    }
}

/// Four who read, add one and write at the same time.
async fn count_to_four(manager: &Manager, key: &str) -> Outcome<()> {
    let tasks: Vec<_> = (0..4)
        .map(|_| {
            let (manager, key) = (manager.clone(), key.to_owned());
            tokio::spawn(async move {
                let transaction = manager.transaction(&[&key]).within(PATIENCE);
                let add_one = |mut own: redis::aio::MultiplexedConnection| {
                    let key = key.clone();
                    async move {
                        let count: Option<i64> = own.get(&key).await?;
                        Ok(redis::pipe().set(&key, count.unwrap_or(0) + 1).clone())
                    }
                };
                transaction.run::<(String,), _, _>(add_one).await
            })
        })
        .collect();
    for task in tasks {
        task.await??;
    }
    let read = |_| async { Ok(redis::pipe().get(key).clone()) };
    let counted = manager.transaction(&[key]).run::<(i64,), _, _>(read);
    match counted.await?.reply.0 {
        4 => Ok(()),
        other => Err(format!("{key} came to {other}").into()),
    }
}

async fn every_script(manager: &Manager) -> Result<(), khoa::Error> {
    for name in ["plain", "{tag}ged", "br{ace", "br}ace"] {
        let guard = manager.lock(name).acquire().await?;
        guard.extend().await?;
        manager
            .set_fenced([name, "-value"].concat(), "1", &guard.lease())
            .await?;
        manager.inspect(name).await?;
        manager.force_release(name).await?;
        let permit = manager
            .semaphore([name, "-permits"].concat(), 2)
            .acquire()
            .await?;
        permit.extend().await?;
        permit.release().await?;
        let both = manager.read_write([name, "-rw"].concat());
        both.read().acquire().await?.release().await?;
        both.write().acquire().await?.release().await?;
        let election = manager.election([name, "-election"].concat());
        let leadership = election.campaign().await?;
        election.observe().changed().await?;
        leadership.resign().await?;
        manager
            .once_per([name, "-job"].concat(), SECOND)
            .claim()
            .await?;
        let latch = manager.latch([name, "-latch"].concat())?;
        latch.set(1, SECOND).await?;
        latch.count_down(1).await?;
        let queue = manager.queue([name, "-queue"].concat())?;
        queue.push("job").await?;
        queue.take_within(SECOND).await?.done().await?;
        manager
            .fixed_window(5, SECOND)?
            .hit([name, "-hits"].concat())
            .await?;
        manager
            .sliding_window(5, SECOND)?
            .hit([name, "-slides"].concat())
            .await?;
    }
    let both = manager.lock_all(["{t}a", "{t}b"]).acquire().await?;
    both.extend().await?;
    both.release().await?;
    Ok(())
}
