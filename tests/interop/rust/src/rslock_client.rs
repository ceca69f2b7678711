//! rslock: acquire, extend, `using`, a quorum over three databases, contention of tasks and processes.

use std::time::Duration;

use redis::{AsyncCommands, Client};
use rslock::{LockError, LockManager};
use tokio::task::JoinSet;

use crate::check::{Address, Outcome, Probe, Scenario, Section, TIMES};

const LEASE: Duration = Duration::from_secs(10);

pub fn scenarios() -> Vec<Scenario> {
    let named = |topic, story| Scenario {
        name: "rslock",
        package: "rslock",
        topic,
        story,
    };
    vec![
        named("acquire, extend, release", |p, a| Box::pin(lock(p, a))),
        named("automatic extension", |p, a| {
            Box::pin(automatic_extension(p, a))
        }),
        named("quorum of three", |p, a| Box::pin(quorum(p, a))),
        named("contention", |p, a| Box::pin(contention(p, a))),
    ]
}

fn manager(address: &Address) -> LockManager {
    LockManager::new(vec![address.url()])
}

async fn connect(address: &Address) -> redis::RedisResult<redis::aio::MultiplexedConnection> {
    Client::open(address.url())?
        .get_multiplexed_async_connection()
        .await
}

/// One contending process: counts carelessly while it holds the lock.
pub async fn contend(address: &Address, key: &str) -> Outcome {
    let mut db = connect(address).await?;
    let locks = manager(address);
    let count = format!("{key}:count");
    for _ in 0..TIMES {
        let guard = locks.acquire(key.as_bytes(), LEASE).await?;
        let seen: Option<usize> = db.get(&count).await?;
        tokio::time::sleep(Duration::from_millis(1)).await;
        let () = db.set_ex(&count, seen.unwrap_or(0) + 1, 60).await?;
        guard.release().await;
    }
    Ok(())
}

async fn lock(p: &Probe, address: &Address) -> Outcome {
    let mut locks = manager(address);
    locks.set_retry(1, Duration::from_millis(5));
    let mut db = connect(address).await?;
    let key = p.key("lock");
    let held = locks.lock(key.as_bytes(), LEASE).await?;
    let value: Vec<u8> = db.get(&key).await?;
    p.equal("the key holds the lock's value", value, held.val.clone());
    let refused = locks.lock(key.as_bytes(), LEASE).await;
    p.that(
        "another is refused",
        matches!(refused, Err(LockError::Unavailable)),
        &refused,
    );
    let held = locks.extend(&held, Duration::from_secs(60)).await?;
    let left: i64 = db.pttl(&key).await?;
    p.that(
        "extend gives the new life",
        (50_000..=60_000).contains(&left),
        left,
    );
    p.equal("it is not free", locks.is_freed(&held).await?, false);
    held.release().await;
    p.equal("release frees it", db.exists::<_, bool>(&key).await?, false);
    let guard = locks
        .acquire(key.as_bytes(), Duration::from_millis(100))
        .await?;
    let heir = manager(address).acquire(key.as_bytes(), LEASE).await?;
    guard.release().await;
    p.equal(
        "a late release spares the heir",
        locks.is_freed(&heir.lock).await?,
        false,
    );
    heir.release().await;
    Ok(())
}

async fn automatic_extension(p: &Probe, address: &Address) -> Outcome {
    let mut db = connect(address).await?;
    let key = p.key("lock");
    let work = async || {
        let mut always = true;
        for _ in 0..12 {
            tokio::time::sleep(Duration::from_millis(100)).await;
            always &= db.exists::<_, bool>(&key).await.unwrap_or(false);
        }
        always
    };
    let kept = manager(address)
        .using(key.as_bytes(), Duration::from_secs(1), work)
        .await?;
    p.equal("work longer than the lease keeps the key", kept, true);
    p.equal(
        "and then frees it",
        connect(address).await?.exists::<_, bool>(&key).await?,
        false,
    );
    Ok(())
}

/// Three databases of the one server stand for three nodes.
async fn quorum(p: &Probe, address: &Address) -> Outcome {
    let urls: Vec<String> = (0..3).map(|n| format!("{}/{n}", address.url())).collect();
    let mut locks = LockManager::new(urls.clone());
    locks.set_retry(1, Duration::from_millis(5));
    let key = p.key("lock");
    let mut nodes = Vec::new();
    for url in urls {
        nodes.push(
            Client::open(url)?
                .get_multiplexed_async_connection()
                .await?,
        );
    }
    let () = nodes[0].pset_ex(&key, "a stranger", 5_000).await?;
    let held = locks.lock(key.as_bytes(), LEASE).await?;
    p.that(
        "two of three nodes are enough",
        held.validity_time > 9_000,
        held.validity_time,
    );
    held.release().await;
    let () = nodes[1].pset_ex(&key, "a stranger", 5_000).await?;
    let refused = locks.lock(key.as_bytes(), LEASE).await;
    p.that(
        "one of three is not",
        matches!(refused, Err(LockError::Unavailable)),
        &refused,
    );
    p.equal(
        "and the one is given back",
        nodes[2].exists::<_, bool>(&key).await?,
        false,
    );
    for node in &mut nodes[..2] {
        let () = node.del(&key).await?;
    }
    Ok(())
}

async fn contention(p: &Probe, address: &Address) -> Outcome {
    let section: &'static Section = Box::leak(Box::default());
    let locks = manager(address);
    let mut tasks = JoinSet::new();
    for _ in 0..20 {
        let (locks, key) = (locks.clone(), p.key("lock"));
        tasks.spawn(async move {
            let guard = locks.acquire(key.as_bytes(), LEASE).await?;
            section.pass().await;
            guard.release().await;
            Outcome::Ok(())
        });
    }
    while let Some(ended) = tasks.join_next().await {
        ended??;
    }
    p.equal(
        "20 tasks acquire it once each with a peak of 1",
        section.figures(),
        (20, 1),
    );
    let key = p.key("processes");
    p.in_processes("rslock", address, &key).await?;
    let count: usize = connect(address)
        .await?
        .get_del(format!("{key}:count"))
        .await?;
    p.equal("and no count is lost", count, 75);
    Ok(())
}
