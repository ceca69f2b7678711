//! A counter without a lock: WATCH, read, MULTI, write, EXEC, and again when another was faster.

use redis::aio::MultiplexedConnection;
use redis::{AsyncCommands, RedisResult};

/// Adds one and tells how often it had to start again. The connection must be nobody else's:
/// what it watches is its own state.
pub(crate) async fn increment(
    connection: &mut MultiplexedConnection,
    key: &str,
) -> RedisResult<u32> {
    let mut retries = 0;
    loop {
        redis::cmd("WATCH").arg(key).exec_async(connection).await?;
        let count: Option<i64> = connection.get(key).await?;
        // Others have their turn here, so that conflicts do happen.
        tokio::task::yield_now().await;
        let mut write = redis::pipe();
        write.atomic().set(key, count.unwrap_or(0) + 1);
        let committed: Option<(String,)> = write.query_async(connection).await?;
        if committed.is_some() {
            return Ok(retries);
        }
        retries += 1;
    }
}

/// Lets that many tasks increment at the same time; what the counter says then, and all retries.
pub(crate) async fn race(url: &str, tasks: u32) -> Result<(i64, u32), Box<dyn std::error::Error>> {
    let client = redis::Client::open(url)?;
    let start = std::sync::Arc::new(tokio::sync::Barrier::new(tasks as usize));
    let mut running = Vec::new();
    for _ in 0..tasks {
        let mut connection = client.get_multiplexed_async_connection().await?;
        let start = start.clone();
        running.push(tokio::spawn(async move {
            start.wait().await;
            increment(&mut connection, "visits").await
        }));
    }
    let mut retries = 0;
    for task in running {
        retries += task.await??;
    }
    let count = client
        .get_multiplexed_async_connection()
        .await?
        .get("visits")
        .await?;
    Ok((count, retries))
}

#[allow(
    dead_code,
    reason = "the tests use this file for all but its main function"
)]
#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server = khoa_server::Server::start()?;
    let (count, retries) = race(&server.url(), 5).await?;
    println!("5 tasks, final value {count}, {retries} retries on the way");
    Ok(())
}
