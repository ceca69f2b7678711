//! redis-rs: the two articles on its multiplexed connection, its connection manager, both protocols.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use redis::aio::MultiplexedConnection;
use redis::{AsyncCommands, Client, Script, aio::ConnectionManager};
use tokio::task::JoinSet;

use crate::check::{Address, Outcome, Probe, Scenario, Section, TIMES};

const RELEASE: &str =
    "if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end return redis.call('DEL', KEYS[1])";

pub fn scenarios() -> Vec<Scenario> {
    let named = |topic, story| Scenario {
        name: "redis-rs",
        package: "redis",
        topic,
        story,
    };
    vec![
        named("handshake", |p, a| Box::pin(handshake(p, a))),
        named("lock", |p, a| Box::pin(lock(p, a))),
        named("contention", |p, a| Box::pin(contention(p, a))),
        named("WATCH/MULTI counter", |p, a| Box::pin(counter(p, a))),
        named("queue, rate limit, scans", |p, a| {
            Box::pin(techniques(p, a))
        }),
        named("pub/sub", |p, a| Box::pin(publish_subscribe(p, a))),
    ]
}

async fn connect(address: &Address) -> redis::RedisResult<MultiplexedConnection> {
    Client::open(address.url())?
        .get_multiplexed_async_connection()
        .await
}

async fn acquire(
    db: &mut MultiplexedConnection,
    key: &str,
    token: &str,
    ttl_ms: usize,
) -> redis::RedisResult<bool> {
    let reply: Option<String> = redis::cmd("SET")
        .arg(key)
        .arg(token)
        .arg("NX")
        .arg("PX")
        .arg(ttl_ms)
        .query_async(db)
        .await?;
    Ok(reply.is_some())
}

async fn acquire_waiting(db: &mut MultiplexedConnection, key: &str, token: &str) -> Outcome {
    while !acquire(db, key, token, 10_000).await? {
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    Ok(())
}

async fn release(
    db: &mut MultiplexedConnection,
    key: &str,
    token: &str,
) -> redis::RedisResult<usize> {
    Script::new(RELEASE)
        .key(key)
        .arg(token)
        .invoke_async(db)
        .await
}

/// One contending process: counts carelessly while it holds the lock.
pub async fn contend(address: &Address, key: &str) -> Outcome {
    let mut db = connect(address).await?;
    let token = std::process::id().to_string();
    let count = format!("{key}:count");
    for _ in 0..TIMES {
        acquire_waiting(&mut db, key, &token).await?;
        let seen: Option<usize> = db.get(&count).await?;
        tokio::time::sleep(Duration::from_millis(1)).await;
        let () = db.set_ex(&count, seen.unwrap_or(0) + 1, 60).await?;
        if release(&mut db, key, &token).await? != 1 {
            return Err("the lock was lost".into());
        }
    }
    Ok(())
}

async fn handshake(p: &Probe, address: &Address) -> Outcome {
    for protocol in ["resp2", "resp3"] {
        let url = format!("{}/?protocol={protocol}", address.url());
        let mut db = Client::open(url)?
            .get_multiplexed_async_connection()
            .await?;
        let pong: String = redis::cmd("PING").query_async(&mut db).await?;
        p.equal(&format!("PING over {protocol}"), pong.as_str(), "PONG");
    }
    let mut managed = ConnectionManager::new(Client::open(address.url())?).await?;
    let () = managed.set_ex(p.key("managed"), "x", 60).await?;
    let value: String = managed.get_del(p.key("managed")).await?;
    p.equal(
        "a connection manager reads what it wrote",
        value.as_str(),
        "x",
    );
    Ok(())
}

async fn lock(p: &Probe, address: &Address) -> Outcome {
    let mut db = connect(address).await?;
    let key = p.key("lock");
    let () = redis::cmd("SCRIPT")
        .arg("FLUSH")
        .query_async(&mut db)
        .await?;
    p.equal(
        "A acquires it",
        acquire(&mut db, &key, "a", 10_000).await?,
        true,
    );
    p.equal(
        "B is refused",
        acquire(&mut db, &key, "b", 10_000).await?,
        false,
    );
    p.equal(
        "a wrong token releases nothing",
        release(&mut db, &key, "b").await?,
        0,
    );
    p.equal("the right one does", release(&mut db, &key, "a").await?, 1);
    acquire(&mut db, &key, "dead", 100).await?;
    let start = Instant::now();
    acquire_waiting(&mut db, &key, "heir").await?;
    let waited = start.elapsed();
    p.that(
        "a dead holder's lock is free at its deadline",
        (50..2_000).contains(&waited.as_millis()),
        waited,
    );
    p.equal(
        "the late release spares the heir",
        release(&mut db, &key, "dead").await?,
        0,
    );
    release(&mut db, &key, "heir").await?;
    Ok(())
}

async fn contention(p: &Probe, address: &Address) -> Outcome {
    let db = connect(address).await?;
    let section: &'static Section = Box::leak(Box::default());
    let mut tasks = JoinSet::new();
    for n in 0..50 {
        let (mut db, key) = (db.clone(), p.key("lock"));
        tasks.spawn(async move {
            let token = format!("task {n}");
            acquire_waiting(&mut db, &key, &token).await?;
            section.pass().await;
            release(&mut db, &key, &token).await?;
            Outcome::Ok(())
        });
    }
    while let Some(ended) = tasks.join_next().await {
        ended??;
    }
    p.equal(
        "50 tasks acquire it once each with a peak of 1",
        section.figures(),
        (50, 1),
    );
    let key = p.key("processes");
    p.in_processes("redis-rs", address, &key).await?;
    let count: usize = connect(address)
        .await?
        .get_del(format!("{key}:count"))
        .await?;
    p.equal("and no count is lost", count, 75);
    Ok(())
}

async fn counter(p: &Probe, address: &Address) -> Outcome {
    let key = p.key("counter");
    let retries: &'static AtomicUsize = Box::leak(Box::default());
    let () = connect(address).await?.set_ex(&key, 0, 60).await?;
    let mut tasks = JoinSet::new();
    for _ in 0..5 {
        let (mut db, key) = (connect(address).await?, key.clone());
        tasks.spawn(async move {
            while !increment(&mut db, &key).await? {
                retries.fetch_add(1, Ordering::Relaxed);
            }
            Outcome::Ok(())
        });
    }
    while let Some(ended) = tasks.join_next().await {
        ended??;
    }
    let last: usize = connect(address).await?.get_del(&key).await?;
    p.equal(
        &format!(
            "5 tasks count to 5 ({} retries)",
            retries.load(Ordering::Relaxed)
        ),
        last,
        5,
    );
    Ok(())
}

/// Tells whether EXEC was carried out.
async fn increment(db: &mut MultiplexedConnection, key: &str) -> redis::RedisResult<bool> {
    let () = redis::cmd("WATCH").arg(key).query_async(db).await?;
    let seen: usize = db.get(key).await?;
    let done: Option<(String,)> = redis::pipe()
        .atomic()
        .set_ex(key, seen + 1, 60)
        .query_async(db)
        .await?;
    Ok(done.is_some())
}

async fn techniques(p: &Probe, address: &Address) -> Outcome {
    let mut db = connect(address).await?;
    let (mut worker, queue) = (connect(address).await?, p.key("queue"));
    let waiting = tokio::spawn(async move {
        let item: redis::RedisResult<(String, String)> = worker.brpop(queue, 5.0).await;
        item
    });
    tokio::time::sleep(Duration::from_millis(50)).await;
    let () = db.lpush(p.key("queue"), "job").await?;
    p.equal(
        "BRPOP waits for its element",
        waiting.await??.1.as_str(),
        "job",
    );
    let mut allowed = Vec::new();
    for _ in 0..7 {
        let (hits, _): (usize, usize) = redis::pipe()
            .incr(p.key("rate"), 1)
            .expire(p.key("rate"), 60)
            .query_async(&mut db)
            .await?;
        allowed.push(hits <= 5);
    }
    p.equal(
        "INCR and EXPIRE let 5 of 7 requests pass",
        allowed,
        [vec![true; 5], vec![false; 2]].concat(),
    );
    let () = db.del(p.key("rate")).await?;
    let mut pipe = redis::pipe();
    for n in 0..1000 {
        pipe.set_ex(p.key(&format!("many:{n}")), n, 60);
    }
    let replies: Vec<String> = pipe.query_async(&mut db).await?;
    p.equal("a pipeline of 1000 has 1000 replies", replies.len(), 1000);
    let mut seen = std::collections::HashSet::new();
    let mut pages = db.scan_match::<_, String>(p.key("many:*")).await?;
    while let Some(key) = pages.next_item().await {
        seen.insert(key?);
    }
    drop(pages);
    p.equal("SCAN finds them", seen.len(), 1000);
    let removed: usize = db.unlink(Vec::from_iter(seen)).await?;
    p.equal("UNLINK removes them", removed, 1000);
    Ok(())
}

async fn publish_subscribe(p: &Probe, address: &Address) -> Outcome {
    let (sender, mut heard) = tokio::sync::mpsc::unbounded_channel();
    let config = redis::AsyncConnectionConfig::new().set_push_sender(sender);
    let url = format!("{}/?protocol=resp3", address.url());
    let mut listener = Client::open(url)?
        .get_multiplexed_async_connection_with_config(&config)
        .await?;
    listener.subscribe(p.key("news")).await?;
    let receivers: usize = connect(address)
        .await?
        .publish(p.key("news"), "hello")
        .await?;
    p.equal("PUBLISH reaches a subscriber over RESP3 push", receivers, 1);
    let message = loop {
        let push = heard.recv().await.ok_or("the connection ended")?;
        if push.kind == redis::PushKind::Message {
            break push;
        }
    };
    p.equal(
        "who hears it",
        message.data[1].clone(),
        redis::Value::BulkString(b"hello".to_vec()),
    );
    Ok(())
}
