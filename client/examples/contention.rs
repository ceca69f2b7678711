//! What a lock over a server must do, measured: exclude, release safely, and hold under contention.
//!
//! `cargo run -p khoa --example contention` starts the server inside this process, so it needs
//! nothing else.

use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use khoa::Manager;
use khoa::redis::{self, AsyncCommands, Script};
use khoa_server::Server;

pub(crate) type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

const TTL: Duration = Duration::from_secs(2);

/// Whether each of two clients got the lock, before and after the first gave it back.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Exclusion {
    pub(crate) first: bool,
    pub(crate) second_meanwhile: bool,
    pub(crate) released: u8,
    pub(crate) second_afterwards: bool,
}

pub(crate) async fn exclusion(url: &str) -> Outcome<Exclusion> {
    let (first, second) = (
        Manager::open(url)?.lock("exclusion"),
        Manager::open(url)?.lock("exclusion"),
    );
    let held = first.try_acquire().await?;
    let second_meanwhile = second.try_acquire().await?.is_some();
    let first = held.is_some();
    let released = match held {
        Some(guard) => u8::from(guard.release().await? == khoa::Released::Released),
        None => 0,
    };
    let second_afterwards = second.try_acquire().await?.is_some();
    Ok(Exclusion {
        first,
        second_meanwhile,
        released,
        second_afterwards,
    })
}

/// What the release script answers to the wrong and to the right token.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct SafeRelease {
    pub(crate) wrong_token: u8,
    pub(crate) still_held: bool,
    pub(crate) right_token: u8,
}

pub(crate) async fn safe_release(url: &str) -> Outcome<SafeRelease> {
    let mut connection = redis::Client::open(url)?
        .get_multiplexed_async_connection()
        .await?;
    take(&mut connection, "safe", "mine").await?;
    let wrong_token = release_by_script(&mut connection, "safe", "not mine").await?;
    let still_held = connection.exists("safe").await?;
    let right_token = release_by_script(&mut connection, "safe", "mine").await?;
    Ok(SafeRelease {
        wrong_token,
        still_held,
        right_token,
    })
}

/// Many tasks that all want one lock.
#[derive(Debug)]
pub(crate) struct Contention {
    pub(crate) acquisitions: usize,
    pub(crate) peak_inside: usize,
    pub(crate) took: Duration,
}

pub(crate) async fn contention(url: &str, tasks: usize) -> Outcome<Contention> {
    let lock = Manager::open(url)?
        .lock("contended")
        .ttl(Duration::from_secs(30));
    let inside = Arc::new(AtomicUsize::new(0));
    let peak = Arc::new(AtomicUsize::new(0));
    let begun = Instant::now();
    let running: Vec<_> = (0..tasks)
        .map(|_| {
            let (lock, inside, peak) = (lock.clone(), Arc::clone(&inside), Arc::clone(&peak));
            tokio::spawn(async move {
                let guard = lock.acquire().await?;
                peak.fetch_max(inside.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                // Everyone else runs meanwhile, and would be seen inside.
                for _ in 0..20 {
                    tokio::task::yield_now().await;
                }
                inside.fetch_sub(1, Ordering::SeqCst);
                guard.release().await
            })
        })
        .collect();
    let mut acquisitions = 0;
    for task in running {
        task.await??;
        acquisitions += 1;
    }
    let peak_inside = peak.load(Ordering::SeqCst);
    Ok(Contention {
        acquisitions,
        peak_inside,
        took: begun.elapsed(),
    })
}

/// Who holds the lock after a late release: the second client, unless its lock was deleted.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct LateRelease {
    pub(crate) answer: u8,
    pub(crate) second_still_holds: bool,
    pub(crate) third_got_in: bool,
}

/// The first client looks, sees its own token, and is overtaken by the end of its lease before it
/// deletes. The server's clock is moved by hand, so it happens every time.
pub(crate) async fn late_get_then_del(server: &Server) -> Outcome<LateRelease> {
    let mut connection = overtaken(server).await?;
    let seen: Option<String> = connection.get("late").await?;
    server.advance(TTL + Duration::from_millis(1));
    take(&mut connection, "late", "second").await?;
    let answer = match seen.as_deref() {
        Some("first") => connection.del("late").await?,
        _ => 0,
    };
    aftermath(connection, answer).await
}

/// The same, with a release that compares and deletes in one step.
pub(crate) async fn late_script(server: &Server) -> Outcome<LateRelease> {
    let mut connection = overtaken(server).await?;
    server.advance(TTL + Duration::from_millis(1));
    take(&mut connection, "late", "second").await?;
    let answer = release_by_script(&mut connection, "late", "first").await?;
    aftermath(connection, answer).await
}

async fn overtaken(server: &Server) -> Outcome<redis::aio::MultiplexedConnection> {
    server.freeze();
    let mut connection = redis::Client::open(server.url())?
        .get_multiplexed_async_connection()
        .await?;
    let _: i64 = connection.del("late").await?;
    take(&mut connection, "late", "first").await?;
    Ok(connection)
}

async fn aftermath(
    mut connection: redis::aio::MultiplexedConnection,
    answer: u8,
) -> Outcome<LateRelease> {
    let holder: Option<String> = connection.get("late").await?;
    let third_got_in = take(&mut connection, "late", "third").await?;
    Ok(LateRelease {
        answer,
        second_still_holds: holder.as_deref() == Some("second"),
        third_got_in,
    })
}

async fn take(connection: &mut impl AsyncCommands, key: &str, token: &str) -> Outcome<bool> {
    let millis = u64::try_from(TTL.as_millis())?;
    let mut set = redis::cmd("SET");
    set.arg(key).arg(token).arg("NX").arg("PX").arg(millis);
    Ok(set
        .query_async::<Option<String>>(connection)
        .await?
        .is_some())
}

async fn release_by_script(
    connection: &mut impl AsyncCommands,
    key: &str,
    token: &str,
) -> Outcome<u8> {
    let release = Script::new(
        "local mine = redis.call('GET', KEYS[1]) == ARGV[1]
         return mine and redis.call('DEL', KEYS[1]) or 0",
    );
    Ok(release.key(key).arg(token).invoke_async(connection).await?)
}

#[allow(
    dead_code,
    reason = "the tests use this file for all but its main function"
)]
#[tokio::main]
async fn main() -> Outcome<()> {
    let server = Server::start()?;
    let url = server.url();

    let seen = exclusion(&url).await?;
    println!("1. Exclusion");
    println!("   A acquires                     {}", seen.first);
    println!(
        "   B acquires, while A holds      {}",
        seen.second_meanwhile
    );
    println!("   A releases                     {}", seen.released);
    println!(
        "   B acquires, after that         {}",
        seen.second_afterwards
    );

    let seen = safe_release(&url).await?;
    println!("2. Safe release");
    println!(
        "   release with the wrong token   {} (still held: {})",
        seen.wrong_token, seen.still_held
    );
    println!("   release with the right token   {}", seen.right_token);

    let seen = contention(&url, 50).await?;
    println!("3. 50 tasks, one lock");
    println!("   acquisitions                   {}", seen.acquisitions);
    println!("   peak inside the section        {}", seen.peak_inside);
    println!("   time for all of them           {:.1?}", seen.took);

    println!("4. A release that comes after the lease has ended and B has acquired");
    for (name, seen) in [
        ("GET, then DEL", late_get_then_del(&server).await?),
        ("script", late_script(&server).await?),
    ] {
        println!(
            "   {name:<14} answers {}; B still holds: {:<5}  C gets in beside B: {}",
            seen.answer, seen.second_still_holds, seen.third_got_in
        );
    }
    Ok(())
}
