//! Publish and subscribe.

use khoa::Event;

use crate::support::World;

#[tokio::test]
async fn every_subscriber_gets_every_message_in_order() {
    let world = World::start();
    let manager = world.manager();
    let mut subscribers = Vec::new();
    for _ in 0..3 {
        subscribers.push(manager.subscribe(world.channel("news")).await.unwrap());
    }
    for number in 0..10 {
        assert_eq!(
            manager
                .publish(&world.channel("news"), number)
                .await
                .unwrap(),
            3
        );
    }
    for subscriber in &mut subscribers {
        for number in 0..10 {
            let message = number.to_string().into_bytes();
            assert_eq!(subscriber.next().await.unwrap(), Event::Message(message));
        }
    }
}

#[tokio::test]
async fn a_message_without_subscribers_reaches_nobody() {
    let world = World::start();
    assert_eq!(
        world
            .manager()
            .publish(&world.channel("nobody"), "x")
            .await
            .unwrap(),
        0
    );
}
