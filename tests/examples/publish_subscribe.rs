//! Publish and subscribe: whoever listens hears at once, whoever does not has missed it.

use futures_util::StreamExt;
use redis::AsyncCommands;

/// Lets that many subscribers hear that many messages; what each of them heard.
pub(crate) async fn broadcast(
    url: &str,
    subscribers: usize,
    messages: &[&str],
) -> Result<Vec<Vec<String>>, Box<dyn std::error::Error>> {
    let client = redis::Client::open(url)?;
    let mut listening = Vec::new();
    for _ in 0..subscribers {
        let mut subscription = client.get_async_pubsub().await?;
        // Once this is confirmed, no later message is missed.
        subscription.subscribe("news").await?;
        listening.push(subscription.into_on_message().take(messages.len()));
    }
    let mut publisher = client.get_multiplexed_async_connection().await?;
    for message in messages {
        let receivers: usize = publisher.publish("news", message).await?;
        assert_eq!(receivers, subscribers);
    }
    let mut heard = Vec::new();
    for subscription in listening {
        let messages: Vec<redis::Msg> = subscription.collect().await;
        heard.push(
            messages
                .iter()
                .map(redis::Msg::get_payload)
                .collect::<Result<_, _>>()?,
        );
    }
    Ok(heard)
}

#[allow(
    dead_code,
    reason = "the tests use this file for all but its main function"
)]
#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server = khoa_server::Server::start()?;
    let heard = broadcast(&server.url(), 3, &["one", "two", "three"]).await?;
    for (number, messages) in heard.iter().enumerate() {
        println!("subscriber {number} heard {}", messages.join(", "));
    }
    Ok(())
}
