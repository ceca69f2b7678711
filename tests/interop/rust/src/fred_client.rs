//! fred: its pool, pipelines, transactions, scripts and its subscriber client, over both protocols.

use std::time::Duration;

use fred::prelude::*;
use fred::types::{Expiration, RespVersion, SetOptions, scripts::Script};
use tokio::task::JoinSet;

use crate::check::{Address, Outcome, Probe, Scenario, Section};

const RELEASE: &str =
    "if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end return redis.call('DEL', KEYS[1])";

pub fn scenarios() -> Vec<Scenario> {
    let named = |topic, story| Scenario {
        name: "fred",
        package: "fred",
        topic,
        story,
    };
    vec![
        named("lock over RESP2 and RESP3", |p, a| Box::pin(lock(p, a))),
        named("contention", |p, a| Box::pin(contention(p, a))),
        named("transactions and pipelines", |p, a| {
            Box::pin(transactions(p, a))
        }),
        named("queue and pub/sub", |p, a| Box::pin(messages(p, a))),
    ]
}

fn config(address: &Address, version: RespVersion) -> Result<Config, Error> {
    Ok(Config {
        version,
        ..Config::from_url(&address.url())?
    })
}

async fn connect(address: &Address, version: RespVersion) -> Result<Client, Error> {
    let client = Builder::from_config(config(address, version)?).build()?;
    client.init().await?;
    Ok(client)
}

async fn acquire<C: KeysInterface + Sync>(
    db: &C,
    key: &str,
    token: &str,
    ttl_ms: i64,
) -> Result<bool, Error> {
    let life = Some(Expiration::PX(ttl_ms));
    let reply: Option<String> = db
        .set(key, token, life, Some(SetOptions::NX), false)
        .await?;
    Ok(reply.is_some())
}

async fn lock(p: &Probe, address: &Address) -> Outcome {
    for version in [RespVersion::RESP2, RespVersion::RESP3] {
        let over = format!("over {version:?}");
        let db = connect(address, version).await?;
        let release = Script::from_lua(RELEASE);
        release.load(&db).await?;
        let key = p.key("lock");
        p.equal(
            &format!("A acquires it {over}"),
            acquire(&db, &key, "a", 10_000).await?,
            true,
        );
        p.equal(
            &format!("B is refused {over}"),
            acquire(&db, &key, "b", 10_000).await?,
            false,
        );
        let wrong: i64 = release.evalsha(&db, key.clone(), "b").await?;
        let right: i64 = release.evalsha(&db, key.clone(), "a").await?;
        p.equal(
            &format!("only the right token releases it {over}"),
            (wrong, right),
            (0, 1),
        );
        acquire(&db, &key, "dead", 50).await?;
        let mut tries = 0;
        while !acquire(&db, &key, "heir", 10_000).await? && tries < 1_000 {
            tries += 1;
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
        p.that(
            &format!("a dead holder's lock expires {over}"),
            (5..1_000).contains(&tries),
            tries,
        );
        let late: i64 = release.evalsha(&db, key.clone(), "dead").await?;
        let heir: i64 = release.evalsha(&db, key, "heir").await?;
        p.equal(
            &format!("the late release spares the heir {over}"),
            (late, heir),
            (0, 1),
        );
        db.quit().await?;
    }
    Ok(())
}

async fn contention(p: &Probe, address: &Address) -> Outcome {
    let pool = Builder::from_config(config(address, RespVersion::RESP3)?).build_pool(4)?;
    pool.init().await?;
    let section: &'static Section = Box::leak(Box::default());
    let mut tasks = JoinSet::new();
    for n in 0..30 {
        let (pool, key) = (pool.clone(), p.key("lock"));
        tasks.spawn(async move {
            let token = format!("task {n}");
            while !acquire(&pool, &key, &token, 10_000).await? {
                tokio::time::sleep(Duration::from_millis(2)).await;
            }
            section.pass().await;
            let () = pool.eval(RELEASE, key, token).await?;
            Outcome::Ok(())
        });
    }
    while let Some(ended) = tasks.join_next().await {
        ended??;
    }
    p.equal(
        "30 tasks of a pool of 4 acquire it once each with a peak of 1",
        section.figures(),
        (30, 1),
    );
    pool.quit().await?;
    Ok(())
}

async fn transactions(p: &Probe, address: &Address) -> Outcome {
    let db = connect(address, RespVersion::RESP2).await?;
    let transaction = db.multi();
    let () = transaction
        .set(p.key("n"), 1, Some(Expiration::EX(60)), None, false)
        .await?;
    let () = transaction.incr_by(p.key("n"), 5).await?;
    let () = transaction.get(p.key("n")).await?;
    let replies: (String, i64, i64) = transaction.exec(true).await?;
    p.equal(
        "a transaction answers each command",
        replies,
        ("OK".to_owned(), 6, 6),
    );
    let pipeline = db.pipeline();
    for n in 0..1000 {
        let () = pipeline
            .set(
                p.key(&format!("many:{n}")),
                n,
                Some(Expiration::EX(60)),
                None,
                false,
            )
            .await?;
    }
    let replies: Vec<String> = pipeline.all().await?;
    p.equal("a pipeline of 1000 has 1000 replies", replies.len(), 1000);
    let (mut seen, mut cursor) = (std::collections::HashSet::new(), "0".to_owned());
    loop {
        let (next, page): (String, Vec<String>) = db
            .scan_page(cursor, p.key("many:*"), Some(200), None)
            .await?;
        seen.extend(page);
        if next == "0" {
            break;
        }
        cursor = next;
    }
    p.equal("SCAN finds them", seen.len(), 1000);
    let removed: i64 = db.unlink(Vec::from_iter(seen)).await?;
    p.equal("UNLINK removes them", removed, 1000);
    let () = db.del(p.key("n")).await?;
    db.quit().await?;
    Ok(())
}

async fn messages(p: &Probe, address: &Address) -> Outcome {
    let db = connect(address, RespVersion::RESP3).await?;
    let worker = connect(address, RespVersion::RESP3).await?;
    let queue = p.key("queue");
    let waiting =
        tokio::spawn(async move { worker.brpop::<(String, String), _>(queue, 5.0).await });
    tokio::time::sleep(Duration::from_millis(50)).await;
    let () = db.lpush(p.key("queue"), "job").await?;
    p.equal(
        "BRPOP waits for its element",
        waiting.await??.1.as_str(),
        "job",
    );
    let subscriber =
        Builder::from_config(config(address, RespVersion::RESP3)?).build_subscriber_client()?;
    subscriber.init().await?;
    let mut heard = subscriber.message_rx();
    subscriber.subscribe(p.key("news")).await?;
    // `subscribe` is done when it is sent, so the first messages may come too early to be heard.
    let mut tries = 0;
    while db.publish::<i64, _, _>(p.key("news"), "hello").await? == 0 && tries < 1_000 {
        tries += 1;
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    p.that("PUBLISH reaches the subscriber", tries < 1_000, tries);
    let text = heard.recv().await?.value.convert::<String>()?;
    p.equal("who hears it", text.as_str(), "hello");
    subscriber.quit().await?;
    db.quit().await?;
    Ok(())
}
