//! Contention of khoa, rslock and distkit on one server in one run, printed as a table.
//!
//! `cargo run --release` starts the embedded server; an argument names another one, and further
//! ones the libraries to measure: `cargo run --release -- redis://127.0.0.1:6379 khoa rslock`.

use std::error::Error;
use std::future::Future;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

const SECTION: Duration = Duration::from_millis(1);
const TTL: Duration = Duration::from_secs(60);

/// What a library must be able to do to take part.
trait Rival: Clone + Send + Sync + 'static {
    const NAME: &'static str;
    /// The commands that the library sends; what scripts call inside is not sent by anyone.
    const SENDS: &'static [&'static str];
    type Held: Send;

    async fn new(url: &str) -> Outcome<Self>;
    fn acquire(&self, name: &str) -> impl Future<Output = Outcome<Self::Held>> + Send;
    fn release(held: Self::Held) -> impl Future<Output = Outcome<()>> + Send;
}

#[derive(Clone)]
struct Khoa(khoa::Manager);

impl Rival for Khoa {
    const NAME: &'static str = "khoa";
    const SENDS: &'static [&'static str] = &["evalsha", "eval", "subscribe"];
    type Held = khoa::Guard;

    async fn new(url: &str) -> Outcome<Self> {
        Ok(Self(khoa::Manager::open(url)?))
    }

    async fn acquire(&self, name: &str) -> Outcome<khoa::Guard> {
        Ok(self.0.lock(name).ttl(TTL).wait_forever().acquire().await?)
    }

    async fn release(held: khoa::Guard) -> Outcome<()> {
        held.release().await?;
        Ok(())
    }
}

#[derive(Clone)]
struct Rslock(rslock::LockManager);

impl Rival for Rslock {
    const NAME: &'static str = "rslock 0.10";
    const SENDS: &'static [&'static str] = &["set", "evalsha", "eval", "script|load"];
    type Held = rslock::LockGuard;

    async fn new(url: &str) -> Outcome<Self> {
        Ok(Self(rslock::LockManager::new(vec![url])))
    }

    async fn acquire(&self, name: &str) -> Outcome<rslock::LockGuard> {
        Ok(self.0.acquire(name, TTL).await?)
    }

    async fn release(held: rslock::LockGuard) -> Outcome<()> {
        held.release().await;
        Ok(())
    }
}

#[derive(Clone)]
struct Distkit(redis::aio::ConnectionManager);

impl Rival for Distkit {
    const NAME: &'static str = "distkit 0.7";
    const SENDS: &'static [&'static str] = &["set", "evalsha", "eval", "script|load"];
    type Held = distkit::lock::MutexGuard;

    async fn new(url: &str) -> Outcome<Self> {
        Ok(Self(
            redis::Client::open(url)?.get_connection_manager().await?,
        ))
    }

    async fn acquire(&self, name: &str) -> Outcome<distkit::lock::MutexGuard> {
        let key = distkit::DistkitRedisKey::try_from(name.to_owned())?;
        let options = distkit::lock::LockOptions::builder(key, self.0.clone())
            .ttl(TTL)
            .max_wait(Duration::from_secs(600))
            .build();
        Ok(distkit::lock::Mutex::new(options).lock().await?)
    }

    async fn release(held: distkit::lock::MutexGuard) -> Outcome<()> {
        held.release().await?;
        Ok(())
    }
}

/// How many of the library's commands the server has seen.
fn sent<R: Rival>(url: &str) -> Outcome<u64> {
    let mut connection = redis::Client::open(url)?.get_connection()?;
    let info: String = redis::cmd("INFO")
        .arg("commandstats")
        .query(&mut connection)?;
    let calls = |name: &&str| -> Option<u64> {
        let rest = info.split(&format!("cmdstat_{name}:calls=")).nth(1)?;
        rest.split(',').next()?.parse().ok()
    };
    Ok(R::SENDS.iter().filter_map(calls).sum())
}

struct Contention {
    total: Duration,
    sections: Duration,
    handovers: Vec<Duration>,
    commands: f64,
    in_order: bool,
}

/// Lets exactly this time pass: a sleep alone would overrun a millisecond by a tenth and more.
fn pass(time: Duration) {
    const OVERRUN: Duration = Duration::from_micros(200);
    let end = Instant::now() + time;
    std::thread::sleep(time.saturating_sub(OVERRUN));
    while Instant::now() < end {
        std::hint::spin_loop();
    }
}

/// Tasks that all want one lock once, come in a known order, and hold it for a millisecond.
async fn contend<R: Rival>(url: &str, tasks: usize, section: Duration) -> Outcome<Contention> {
    let library = R::new(url).await?;
    let name = format!("contention-{tasks}-{}", std::process::id());
    // Whatever a library opens with its first wait is open before anything is measured.
    let first = library.acquire(&name).await?;
    let waiter = tokio::spawn({
        let (library, name) = (library.clone(), name.clone());
        async move { R::release(library.acquire(&name).await?).await }
    });
    tokio::time::sleep(Duration::from_millis(50)).await;
    R::release(first).await?;
    waiter.await??;
    let first = library.acquire(&name).await?;
    let epoch = Instant::now();
    let released_at = Arc::new(AtomicU64::new(0));
    let handovers = Arc::new(Mutex::new(Vec::new()));
    let order = Arc::new(Mutex::new(Vec::new()));
    let spent = Arc::new(AtomicU64::new(0));
    let mut running = Vec::new();
    for number in 0..tasks {
        let (library, name, released_at) = (library.clone(), name.clone(), released_at.clone());
        let (handovers, order, spent) = (handovers.clone(), order.clone(), spent.clone());
        running.push(tokio::spawn(async move {
            let held = library.acquire(&name).await?;
            let now = epoch.elapsed();
            let released = Duration::from_nanos(released_at.load(Ordering::SeqCst));
            handovers.lock().unwrap().push(now.saturating_sub(released));
            order.lock().unwrap().push(number);
            let entered = Instant::now();
            pass(section);
            spent.fetch_add(entered.elapsed().as_nanos() as u64, Ordering::Relaxed);
            released_at.store(epoch.elapsed().as_nanos() as u64, Ordering::SeqCst);
            R::release(held).await
        }));
        // Lets each of them ask before the next one comes.
        tokio::time::sleep(Duration::from_micros(200)).await;
    }
    tokio::time::sleep(Duration::from_millis(100)).await;
    let commands_before = sent::<R>(url)?;
    let begun = Instant::now();
    released_at.store(epoch.elapsed().as_nanos() as u64, Ordering::SeqCst);
    R::release(first).await?;
    for task in running {
        task.await??;
    }
    let total = begun.elapsed();
    let commands = (sent::<R>(url)? - commands_before) as f64 / tasks as f64;
    let mut handovers = std::mem::take(&mut *handovers.lock().unwrap());
    handovers.sort();
    Ok(Contention {
        total,
        sections: Duration::from_nanos(spent.load(Ordering::Relaxed)),
        handovers,
        commands,
        in_order: order.lock().unwrap().is_sorted(),
    })
}

/// Microseconds and commands of one acquisition and release that nobody else disturbs.
async fn uncontended<R: Rival>(url: &str) -> Outcome<(f64, f64)> {
    const ROUNDS: u32 = 2000;
    let library = R::new(url).await?;
    R::release(library.acquire("uncontended").await?).await?;
    let before = sent::<R>(url)?;
    let begun = Instant::now();
    for _ in 0..ROUNDS {
        R::release(library.acquire("uncontended").await?).await?;
    }
    let elapsed = begun.elapsed();
    let commands = (sent::<R>(url)? - before) as f64 / f64::from(ROUNDS);
    Ok((elapsed.as_secs_f64() * 1e6 / f64::from(ROUNDS), commands))
}

async fn report<R: Rival>(url: &str) -> Outcome<()> {
    let (micros, commands) = uncontended::<R>(url).await?;
    println!(
        "{:<12} uncontended: {micros:.0} µs per acquire and release, {commands:.1} commands",
        R::NAME
    );
    for (tasks, rounds) in [(10, 11), (50, 11), (100, 5), (1000, 1)] {
        let mut runs = Vec::new();
        for _ in 0..rounds {
            let run = contend::<R>(url, tasks, SECTION);
            let Ok(run) = tokio::time::timeout(Duration::from_secs(60), run).await else {
                break;
            };
            runs.push(run?);
            // Who takes so long takes it every time.
            if runs[0].total > Duration::from_secs(5) {
                break;
            }
        }
        runs.sort_by_key(|run| run.total);
        let rounds = runs.len();
        let Some(run) = runs.get(rounds / 2) else {
            println!("{:<12} {tasks:>5} tasks: not done after 60 s", R::NAME);
            continue;
        };
        let at = |share: f64| run.handovers[((run.handovers.len() - 1) as f64 * share) as usize];
        println!(
            "{:<12} {tasks:>5} tasks: {:>8.1} ms in all (median of {rounds:>2}), {:>5.2} x the sections' own time; hand-over p50 {:>7.3} ms, p99 {:>8.3} ms; {:>6.1} commands each; {}",
            R::NAME,
            run.total.as_secs_f64() * 1e3,
            run.total.as_secs_f64() / run.sections.as_secs_f64(),
            at(0.5).as_secs_f64() * 1e3,
            at(0.99).as_secs_f64() * 1e3,
            run.commands,
            if run.in_order {
                "in order"
            } else {
                "out of order"
            },
        );
    }
    Ok(())
}

#[tokio::main(flavor = "multi_thread", worker_threads = 4)]
async fn main() -> Outcome<()> {
    let server = khoa_server::Server::start()?;
    let (urls, names): (Vec<_>, Vec<_>) = std::env::args()
        .skip(1)
        .partition(|arg| arg.contains("://"));
    let url = urls.into_iter().next().unwrap_or_else(|| server.url());
    let wanted = |name: &str| {
        names.is_empty() || names.iter().any(|wanted| name.starts_with(wanted.as_str()))
    };
    println!("server: {url}");
    if wanted(Khoa::NAME) {
        report::<Khoa>(&url).await?;
    }
    if wanted(Distkit::NAME) {
        report::<Distkit>(&url).await?;
    }
    if wanted(Rslock::NAME) {
        report::<Rslock>(&url).await?;
    }
    Ok(())
}
