//! A lock with the plain `redis` crate: SET NX PX takes it, a script gives it back.

use std::time::Duration;

use redis::aio::MultiplexedConnection;
use redis::{RedisResult, Script};

/// Runs the work if nobody else holds the lock; `None` when somebody does.
pub(crate) async fn with_lock<T, W: Future<Output = T>>(
    connection: &mut MultiplexedConnection,
    key: &str,
    token: &str,
    ttl: Duration,
    work: W,
) -> RedisResult<Option<T>> {
    let mut take = redis::cmd("SET");
    take.arg(key)
        .arg(token)
        .arg("NX")
        .arg("PX")
        .arg(ttl.as_millis() as u64);
    if take
        .query_async::<Option<String>>(connection)
        .await?
        .is_none()
    {
        return Ok(None);
    }
    let output = work.await;
    let give_back = Script::new(
        "if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
         return redis.call('DEL', KEYS[1])",
    );
    let _: i64 = give_back
        .key(key)
        .arg(token)
        .invoke_async(connection)
        .await?;
    Ok(Some(output))
}

#[allow(
    dead_code,
    reason = "the tests use this file for all but its main function"
)]
#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server = khoa_server::Server::start()?;
    let client = redis::Client::open(server.url())?;
    let mut first = client.get_multiplexed_async_connection().await?;
    let mut second = client.get_multiplexed_async_connection().await?;
    let ttl = Duration::from_secs(10);
    let inner = with_lock(&mut second, "report", "instance-2", ttl, async {});
    let outer = with_lock(&mut first, "report", "instance-1", ttl, inner).await?;
    let meanwhile = outer.ok_or("the lock is free at first")??;
    println!(
        "the second instance, while the first works: {}",
        answer(meanwhile.is_some())
    );
    let afterwards = with_lock(&mut second, "report", "instance-2", ttl, async {}).await?;
    println!(
        "the second instance, after that:            {}",
        answer(afterwards.is_some())
    );
    Ok(())
}

#[allow(dead_code, reason = "only the main function prints")]
fn answer(got_it: bool) -> &'static str {
    if got_it {
        "got the lock"
    } else {
        "was kept out"
    }
}
