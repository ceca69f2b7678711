//! The lock library on real servers in the set-ups that need several of them: a master with a
//! replica, sentinels with a fail-over in the middle of a hold, a cluster of three masters.
//!
//! `real_servers [PATH]`: starts what it needs from a redis-server or valkey-server, on free
//! loopback ports, and ends it. Debian's `redis-tools` is enough: its `redis-check-rdb` is the
//! server under another name. Each claim is a line; the first that fails ends in exit 1.

use std::error::Error;
use std::future::Future;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use khoa::redis::cluster::ClusterClient;
use khoa::redis::sentinel::{SentinelClient, SentinelServerType};
use khoa::redis::{self, FromRedisValue};
use khoa::{Manager, ManagerBuilder, ManualClock, Released};

type Outcome<T> = Result<T, Box<dyn Error>>;

const SECOND: Duration = Duration::from_secs(1);
const MS: Duration = Duration::from_millis(1);
/// No set-up may take longer; a server that never gets ready is a failure.
const PATIENCE: Duration = Duration::from_secs(60);

#[tokio::main]
async fn main() -> Outcome<()> {
    let scratch = Scratch::new()?;
    let program = Program::find(std::env::args().nth(1), &scratch)?;
    let started = Instant::now();
    replicas(&program).await?;
    fail_over(&program).await?;
    forgetful_fail_over(&program).await?;
    cluster(&program).await?;
    println!("all held, in {:.1} s", started.elapsed().as_secs_f64());
    Ok(())
}

fn claim(text: &str, holds: bool) -> Outcome<()> {
    println!("{} {text}", if holds { "ok  " } else { "FAIL" });
    if holds { Ok(()) } else { Err(text.into()) }
}

// ---- A master with a replica ----

async fn replicas(program: &Program) -> Outcome<()> {
    let master = program.start(&[])?;
    let replica = program.start(&master.as_master())?;
    replica
        .until("INFO replication", "master_link_status:up")
        .await?;
    let lock = Manager::open(master.url())?.lock("a");

    let guard = lock.clone().replicated(1, 5 * SECOND).acquire().await?;
    let on_replica: Option<String> = replica.ask("GET khoa:a")?;
    claim(
        "a lock that one replica acknowledged is on it when it is held",
        on_replica.is_some(),
    )?;
    guard.release().await?;

    let refused = lock.clone().replicated(2, 100 * MS).try_acquire().await;
    let few = matches!(
        refused,
        Err(khoa::Error::TooFewReplicas {
            acknowledged: 1,
            needed: 2
        })
    );
    claim(
        "a lock that wants two replicas where there is one is refused",
        few,
    )?;
    claim(
        "and is given back",
        master.ask::<i64>("EXISTS khoa:a")? == 0,
    )?;

    let waiting = lock.clone().replicated(1, 5 * SECOND);
    let holder = lock.acquire().await?;
    let waiting = tokio::spawn(async move { waiting.acquire().await });
    master.until("LLEN {khoa:a}:queue", "1").await?;
    holder.release().await?;
    let guard = waiting.await??;
    let on_replica: Option<String> = replica.ask("GET khoa:a")?;
    let held = on_replica.is_some_and(|value| value.starts_with(guard.token().as_str()));
    claim("so is one that was waited for", held)
}

// ---- Sentinel ----

struct Sentinels {
    master: Running,
    replica: Running,
    sentinel: Running,
}

impl Sentinels {
    async fn start(program: &Program) -> Outcome<Self> {
        let master = program.start(&[])?;
        let replica = program.start(&master.as_master())?;
        let file = program
            .scratch
            .join(format!("sentinel-{}.conf", master.port));
        let (host, port) = ("127.0.0.1", master.port);
        let settings = format!(
            "sentinel monitor main {host} {port} 1\n\
             sentinel down-after-milliseconds main 500\n\
             sentinel failover-timeout main 3000\n"
        );
        std::fs::write(&file, settings)?;
        let sentinel = program.start_with(&[file.to_str().ok_or("a path")?, "--sentinel"], &[])?;
        replica
            .until("INFO replication", "master_link_status:up")
            .await?;
        sentinel
            .until("SENTINEL MASTERS", "num-slaves\n1\n")
            .await?;
        Ok(Self {
            master,
            replica,
            sentinel,
        })
    }

    fn open(&self, settings: ManagerBuilder) -> Outcome<Manager> {
        let (sentinels, kind) = (vec![self.sentinel.url()], SentinelServerType::Master);
        let client = SentinelClient::build(sentinels, "main".to_owned(), None, kind)?;
        Ok(settings.sentinel(client)?)
    }
}

async fn fail_over(program: &Program) -> Outcome<()> {
    let mut servers = Sentinels::start(program).await?;
    let lock = servers.open(Manager::builder())?.lock("a").ttl(20 * SECOND);
    let guard = lock
        .clone()
        .replicated(1, 5 * SECOND)
        .auto_renew(true)
        .acquire()
        .await?;
    let fence = guard.fencing_token();
    let next = servers.open(Manager::builder())?.lock("a").ttl(20 * SECOND);
    let next = tokio::spawn(async move { next.acquire_within(PATIENCE).await });
    servers.master.until("LLEN {khoa:a}:queue", "1").await?;

    servers.master.kill();
    servers.replica.until("ROLE", "master").await?;
    let extended = within(PATIENCE, || async { guard.extend().await.is_ok() }).await;
    claim(
        "a lock that its replica had outlives the fail-over",
        extended && guard.is_valid(),
    )?;
    claim("nobody else got it meanwhile", !next.is_finished())?;
    // The waiter has to come back by itself before it can be handed anything.
    servers.replica.until("LLEN {khoa:a}:queue", "1").await?;
    servers
        .replica
        .until("PUBSUB CHANNELS khoa:wake:*", "khoa:wake:")
        .await?;
    let released = Instant::now();
    let freed = guard.release().await? == Released::Released;
    let next = next.await??;
    claim(
        "the waiter is woken by the new master",
        freed && released.elapsed() < SECOND,
    )?;
    claim(
        "and its fencing token is higher",
        next.fencing_token() > fence,
    )
}

async fn forgetful_fail_over(program: &Program) -> Outcome<()> {
    let mut servers = Sentinels::start(program).await?;
    // The replica stands still, so that it does not hear of the lock.
    servers.replica.signal("STOP")?;
    let lock = servers.open(Manager::builder())?.lock("a").ttl(20 * SECOND);
    let refused = lock.clone().replicated(1, 100 * MS).try_acquire().await;
    let few = matches!(refused, Err(khoa::Error::TooFewReplicas { .. }));
    claim(
        "a lock that must be replicated is refused while the replica hangs",
        few,
    )?;
    let holder = lock.clone().auto_renew(true).acquire().await?;
    servers.master.kill();
    servers.replica.signal("CONT")?;
    servers.replica.until("ROLE", "master").await?;
    let next = servers
        .open(Manager::builder())?
        .lock("a")
        .acquire_within(PATIENCE)
        .await?;
    claim(
        "one that was not is forgotten by the next master",
        next.is_valid(),
    )?;
    let told = tokio::time::timeout(20 * SECOND, holder.lost())
        .await
        .is_ok();
    claim(
        "its holder is told with the next renewal",
        told && holder.is_lost(),
    )?;
    let higher = next.fencing_token() > holder.fencing_token();
    claim("and the other's fencing token is higher", higher)?;
    claim(
        "the other's lock is left alone",
        next.extend().await.is_ok(),
    )
}

// ---- Cluster ----

async fn cluster(program: &Program) -> Outcome<()> {
    let mut nodes = Vec::new();
    for _ in 0..3 {
        let bus = free_port()?.to_string();
        nodes.push(program.start(&["--cluster-enabled", "yes", "--cluster-port", &bus])?);
        let node = &nodes[nodes.len() - 1];
        let first = (nodes.len() - 1) * 5462;
        let last = (first + 5461).min(16383);
        node.ask::<String>(&format!("CLUSTER ADDSLOTSRANGE {first} {last}"))?;
        let (seed, seed_bus) = (nodes[0].port, &nodes[0].bus);
        if let (true, Some(bus)) = (nodes.len() > 1, seed_bus) {
            node.ask::<String>(&format!("CLUSTER MEET 127.0.0.1 {seed} {bus}"))?;
        }
    }
    for node in &nodes {
        node.until("CLUSTER INFO", "cluster_state:ok").await?;
        node.until("CLUSTER INFO", "cluster_known_nodes:3").await?;
    }
    let urls: Vec<String> = nodes.iter().map(Running::url).collect();
    let open = |settings: ManagerBuilder| settings.cluster(ClusterClient::builder(urls.clone()));
    let manager = open(Manager::builder())?;

    let names: Vec<String> = (0..30).map(|number| format!("name-{number}")).collect();
    let mut guards = Vec::new();
    for name in &names {
        guards.push(manager.lock(name).acquire().await?);
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
    claim(
        "every kind of script finds its keys on one node",
        every_script(&manager).await.is_ok(),
    )?;

    // This clock stands still, so nobody can poll: only a message brings the lock.
    let clock = ManualClock::new();
    let patient = || {
        Manager::builder()
            .clock(clock.clock())
            .request_timeout(3600 * SECOND)
    };
    let (here, there) = (open(patient())?, open(patient())?);
    let mut woken = 0;
    for name in &names {
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
        let released = tokio::time::timeout(PATIENCE, waiting).await???;
        woken += usize::from(released == Released::Released);
    }
    claim(
        "waiters for thirty names are woken by push, whichever node it is",
        woken == 30,
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
        let outcome = manager.lock(name).acquire_within(300 * MS).await;
        refused += usize::from(outcome.is_err());
    }
    claim(
        "the loss of a node costs its names alone, or all, but hangs nobody",
        refused >= 5,
    )
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

// ---- Processes ----

/// A server's program and where it may leave files.
struct Program {
    path: PathBuf,
    scratch: PathBuf,
}

impl Program {
    fn find(named: Option<String>, scratch: &Scratch) -> Outcome<Self> {
        let scratch = scratch.0.clone();
        if let Some(path) = named {
            let path = PathBuf::from(path);
            return Ok(Self { path, scratch });
        }
        let paths = std::env::var_os("PATH").ok_or("no PATH")?;
        let found = |name: &str| {
            std::env::split_paths(&paths)
                .map(|dir| dir.join(name))
                .find(|path| path.is_file())
        };
        if let Some(path) = found("redis-server").or_else(|| found("valkey-server")) {
            return Ok(Self { path, scratch });
        }
        let check = found("redis-check-rdb").ok_or("there is no redis-server")?;
        let path = scratch.join("redis-server");
        std::os::unix::fs::symlink(check, &path)?;
        Ok(Self { path, scratch })
    }

    fn start(&self, settings: &[&str]) -> Outcome<Running> {
        let no_files = [
            "--save",
            "",
            "--appendonly",
            "no",
            "--repl-diskless-sync-delay",
            "0",
        ];
        self.start_with(&[], &[&no_files, settings].concat())
    }

    fn start_with(&self, first: &[&str], settings: &[&str]) -> Outcome<Running> {
        let port = free_port()?;
        let folder = self.scratch.join(port.to_string());
        std::fs::create_dir(&folder)?;
        let child = Command::new(&self.path)
            .args(first)
            .args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--dir"])
            .arg(&folder)
            .args(settings)
            .stdin(Stdio::null())
            .stdout(std::fs::File::create(folder.join("log"))?)
            .spawn()?;
        let bus = settings.iter().position(|word| *word == "--cluster-port");
        let running = Running {
            child,
            port,
            bus: bus
                .and_then(|at| settings.get(at + 1))
                .map(ToString::to_string),
        };
        let begun = Instant::now();
        while running.ask::<String>("PING").is_err() {
            if begun.elapsed() > PATIENCE {
                return Err(std::fs::read_to_string(folder.join("log"))?.into());
            }
            std::thread::sleep(10 * MS);
        }
        Ok(running)
    }
}

/// A server that ends with this value.
struct Running {
    child: Child,
    port: u16,
    bus: Option<String>,
}

impl Running {
    fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// The settings of a replica of this one.
    fn as_master(&self) -> [&'static str; 2] {
        [
            "--replicaof",
            Box::leak(format!("127.0.0.1 {}", self.port).into_boxed_str()),
        ]
    }

    fn ask<T: FromRedisValue>(&self, command: &str) -> Outcome<T> {
        let mut words = command.split(' ');
        let mut request = redis::cmd(words.next().unwrap_or_default());
        words.for_each(|word| {
            request.arg(word);
        });
        let client = redis::Client::open(self.url())?;
        let mut connection = client.get_connection_with_timeout(SECOND)?;
        connection.set_read_timeout(Some(SECOND))?;
        Ok(request.query(&mut connection)?)
    }

    /// Waits until what it answers, a word a line, contains this.
    async fn until(&self, command: &str, wanted: &str) -> Outcome<()> {
        let holds = within(PATIENCE, || async {
            let answer = self.ask::<redis::Value>(command);
            answer.is_ok_and(|answer| text(&answer).contains(wanted))
        });
        if holds.await {
            Ok(())
        } else {
            Err(format!("{command}: no {wanted}").into())
        }
    }

    fn signal(&self, name: &str) -> Outcome<()> {
        let (flag, pid) = (format!("-{name}"), self.child.id().to_string());
        Command::new("kill").args([flag, pid]).status()?;
        Ok(())
    }

    fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.kill();
    }
}

fn text(answer: &redis::Value) -> String {
    match answer {
        redis::Value::Array(items) => items.iter().map(text).collect(),
        redis::Value::Int(number) => format!("{number}\n"),
        redis::Value::BulkString(bytes) => format!("{}\n", String::from_utf8_lossy(bytes)),
        other => format!("{other:?}\n"),
    }
}

async fn within<F: Future<Output = bool>>(limit: Duration, mut look: impl FnMut() -> F) -> bool {
    let begun = Instant::now();
    while begun.elapsed() < limit {
        if look().await {
            return true;
        }
        tokio::time::sleep(20 * MS).await;
    }
    false
}

fn free_port() -> Outcome<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

/// A folder that ends with this value.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Outcome<Self> {
        let path = std::env::temp_dir().join(format!("khoa-real-servers-{}", std::process::id()));
        std::fs::create_dir(&path)?;
        Ok(Self(path))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all::<&Path>(&self.0);
    }
}
