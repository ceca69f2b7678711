//! A queue of work in a list: LPUSH by producers, BRPOP by workers, each task to one of them.

use std::time::Duration;

use redis::{AsyncCommands, AsyncConnectionConfig, RedisResult};

/// Takes tasks until none has come for a while; which ones it did.
pub(crate) async fn work(
    client: redis::Client,
    queue: &str,
    patience: Duration,
) -> RedisResult<Vec<String>> {
    // A blocking pop needs a connection of its own, whose answers may take their time.
    let config = AsyncConnectionConfig::new().set_response_timeout(None);
    let mut connection = client
        .get_multiplexed_async_connection_with_config(&config)
        .await?;
    let mut done = Vec::new();
    loop {
        let next: Option<(String, String)> =
            connection.brpop(queue, patience.as_secs_f64()).await?;
        let Some((_, task)) = next else {
            return Ok(done);
        };
        done.push(task);
    }
}

/// Lets that many workers share the tasks; which ones each of them did.
pub(crate) async fn share(
    url: &str,
    workers: usize,
    tasks: &[String],
    patience: Duration,
) -> Result<Vec<Vec<String>>, Box<dyn std::error::Error>> {
    let client = redis::Client::open(url)?;
    let running: Vec<_> = (0..workers)
        .map(|_| tokio::spawn(work(client.clone(), "tasks", patience)))
        .collect();
    let mut producer = client.get_multiplexed_async_connection().await?;
    for task in tasks {
        let _: i64 = producer.lpush("tasks", task).await?;
    }
    let mut done = Vec::new();
    for worker in running {
        done.push(worker.await??);
    }
    Ok(done)
}

#[allow(
    dead_code,
    reason = "the tests use this file for all but its main function"
)]
#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server = khoa_server::Server::start()?;
    let tasks: Vec<String> = (1..=20).map(|number| format!("task-{number}")).collect();
    let done = share(&server.url(), 3, &tasks, Duration::from_millis(200)).await?;
    for (worker, tasks) in done.iter().enumerate() {
        println!(
            "worker {worker} did {:>2}: {}",
            tasks.len(),
            tasks.join(" ")
        );
    }
    Ok(())
}
