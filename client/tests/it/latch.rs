//! The count-down latch.

use crate::support::{SECOND, World};

#[tokio::test]
async fn those_who_wait_go_on_when_the_count_is_zero() {
    let world = World::start();
    let latch = world.manager().latch("l").unwrap();
    assert!(latch.set(2, 60 * SECOND).await.unwrap());
    assert!(!latch.set(9, 60 * SECOND).await.unwrap());
    let waiters: Vec<_> = (0..3)
        .map(|_| {
            let latch = world.manager().latch("l").unwrap();
            tokio::spawn(async move { latch.wait_within(60 * SECOND).await })
        })
        .collect();
    world.until("LLEN {khoa:l}:latch-queue", 3).await;
    assert_eq!(latch.count_down(1).await.unwrap(), Some(1));
    assert!(waiters.iter().all(|waiter| !waiter.is_finished()));
    assert_eq!(latch.count_down(1).await.unwrap(), Some(0));
    for waiter in waiters {
        waiter.await.unwrap().unwrap();
    }
}

#[tokio::test]
async fn an_open_latch_holds_nobody_and_counts_no_further() {
    let world = World::start();
    let latch = world.manager().latch("l").unwrap();
    latch.set(1, 60 * SECOND).await.unwrap();
    assert_eq!(latch.count_down(5).await.unwrap(), Some(0));
    assert_eq!(latch.count_down(1).await.unwrap(), Some(0));
    latch.wait_within(SECOND).await.unwrap();
}

#[tokio::test]
async fn a_latch_that_is_not_set_cannot_be_counted_down() {
    let world = World::start();
    let latch = world.manager().latch("l").unwrap();
    assert_eq!(latch.count_down(1).await.unwrap(), None);
    assert_eq!(latch.left().await.unwrap(), None);
    assert_eq!(world.ask::<Vec<String>>("KEYS *"), Vec::<String>::new());
}

#[tokio::test]
async fn a_wait_for_a_latch_ends_at_its_limit_and_leaves_the_queue() {
    let world = World::start();
    let latch = world.manager().latch("l").unwrap();
    latch.set(1, 60 * SECOND).await.unwrap();
    let waiter = tokio::spawn({
        let latch = latch.clone();
        async move { latch.wait_within(SECOND / 2).await }
    });
    world.until("LLEN {khoa:l}:latch-queue", 1).await;
    assert!(world.drive(waiter).await.unwrap().unwrap_err().is_timeout());
    assert_eq!(world.ask::<i64>("LLEN {khoa:l}:latch-queue"), 0);
}
