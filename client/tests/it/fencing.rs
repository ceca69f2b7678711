//! Fencing tokens, which must rise whatever happens to the server.

use khoa::Lock;

use crate::support::{MS, SECOND, World};

async fn token(lock: &Lock) -> u64 {
    let guard = lock.acquire().await.unwrap();
    let token = guard.fencing_token();
    guard.release().await.unwrap();
    token
}

#[tokio::test]
async fn tokens_rise_though_the_clock_stands_still() {
    let world = World::start();
    let lock = world.manager().lock("a");
    let first = token(&lock).await;
    assert_eq!(token(&lock).await, first + 1);
    assert_eq!(token(&lock).await, first + 2);
}

#[tokio::test]
async fn tokens_rise_over_the_loss_of_all_data() {
    let mut world = World::start();
    let lock = world.tcp_manager().lock("a");
    let before = token(&lock).await;
    world.advance(MS);
    world.server_mut().restart_empty().unwrap();
    assert!(world.drive(token(&lock)).await > before);
}

#[tokio::test]
async fn tokens_rise_though_the_servers_clock_is_set_back() {
    let world = World::start();
    let lock = world.manager().lock("a");
    let before = token(&lock).await;
    world
        .server()
        .set_time_ms(world.server().time_ms() - 60_000);
    assert!(token(&lock).await > before);
}

#[tokio::test]
async fn tokens_rise_over_the_expiry_of_their_counter() {
    let world = World::start();
    let lock = world.open(world.builder().fence_kept(SECOND)).lock("a");
    let before = token(&lock).await;
    world.advance(2 * SECOND);
    assert_eq!(world.ask::<i64>("DBSIZE"), 0);
    assert!(token(&lock).await > before);
}

// infrahub#9450: a fail-over promotes a replica that never saw the lock
#[tokio::test]
async fn the_second_holder_after_a_fail_over_has_the_larger_token() {
    let (old, new) = (World::start(), World::start());
    let held = old.manager().lock("a").acquire().await.unwrap();
    new.advance(SECOND);
    let also_held = new.manager().lock("a").acquire().await.unwrap();
    assert!(also_held.fencing_token() > held.fencing_token());
}
