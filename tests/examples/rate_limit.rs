//! At most so many requests per window: INCR and EXPIRE in one pipeline.

use std::time::Duration;

use redis::RedisResult;
use redis::aio::MultiplexedConnection;

/// Counts a request of a client; whether it is within the limit.
///
/// The deadline is set only by the first request of a window (NX), or a steady stream of requests
/// would move it on for ever. Both commands are one transaction: a counter never stays without one.
pub(crate) async fn allow(
    connection: &mut MultiplexedConnection,
    client: &str,
    limit: u64,
    window: Duration,
) -> RedisResult<bool> {
    let key = format!("rate:{client}");
    let mut request = redis::pipe();
    request.atomic().incr(&key, 1);
    request
        .cmd("EXPIRE")
        .arg(&key)
        .arg(window.as_secs())
        .arg("NX")
        .ignore();
    let (count,): (u64,) = request.query_async(connection).await?;
    Ok(count <= limit)
}

#[allow(
    dead_code,
    reason = "the tests use this file for all but its main function"
)]
#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server = khoa_server::Server::start()?;
    server.freeze();
    let client = redis::Client::open(server.url())?;
    let mut connection = client.get_multiplexed_async_connection().await?;
    let window = Duration::from_secs(60);
    for round in ["in the first minute", "in the next one"] {
        let mut allowed = 0;
        for _ in 0..8 {
            allowed += u32::from(allow(&mut connection, "203.0.113.9", 5, window).await?);
        }
        println!("8 requests {round}: {allowed} allowed");
        server.advance(window + Duration::from_millis(1));
    }
    Ok(())
}
