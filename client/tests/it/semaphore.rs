//! The counting semaphore.

use khoa::{Error, Released};

use crate::support::{MS, SECOND, World};

#[tokio::test]
async fn no_more_permits_are_held_than_the_limit() {
    let world = World::start();
    let semaphore = world.manager().semaphore("s", 3);
    let mut held = Vec::new();
    for _ in 0..3 {
        held.push(semaphore.try_acquire().await.unwrap().unwrap());
    }
    assert!(semaphore.try_acquire().await.unwrap().is_none());
    assert_eq!(world.manager().permits_held("s").await.unwrap(), 3);
    assert_eq!(
        held.pop().unwrap().release().await.unwrap(),
        Released::Released
    );
    assert!(semaphore.try_acquire().await.unwrap().is_some());
}

#[tokio::test]
async fn a_permit_ends_by_its_own_ttl_and_spares_the_others() {
    let world = World::start();
    let semaphore = world.manager().semaphore("s", 2);
    let short = semaphore
        .clone()
        .ttl(SECOND)
        .try_acquire()
        .await
        .unwrap()
        .unwrap();
    let long = semaphore
        .clone()
        .ttl(9 * SECOND)
        .try_acquire()
        .await
        .unwrap()
        .unwrap();
    world.advance(SECOND + MS);
    assert!(short.is_lost());
    assert!(long.is_valid());
    long.extend().await.unwrap();
    let _third = semaphore
        .try_acquire()
        .await
        .unwrap()
        .expect("the first permit has ended");
    assert!(semaphore.try_acquire().await.unwrap().is_none());
    assert_eq!(short.release().await.unwrap(), Released::Expired);
}

#[tokio::test]
async fn waiters_get_permits_in_their_order() {
    let world = World::start();
    let semaphore = world.manager().semaphore("s", 1).ttl(100 * SECOND);
    let first = semaphore.acquire().await.unwrap();
    let (sender, mut order) = tokio::sync::mpsc::unbounded_channel();
    for number in 0..5 {
        let (semaphore, sender) = (semaphore.clone(), sender.clone());
        tokio::spawn(async move {
            let permit = semaphore.acquire().await.unwrap();
            sender.send(number).unwrap();
            permit.release().await.unwrap();
        });
        world.until("LLEN {khoa:s}:queue", number + 1).await;
    }
    first.release().await.unwrap();
    for number in 0..5 {
        assert_eq!(order.recv().await, Some(number));
    }
}

#[tokio::test]
async fn a_semaphore_without_permits_is_refused_before_anything_is_sent() {
    let world = World::start();
    let error = world
        .manager()
        .semaphore("s", 0)
        .try_acquire()
        .await
        .unwrap_err();
    assert!(matches!(error, Error::InvalidOption { .. }), "{error}");
}

#[tokio::test]
async fn nothing_is_left_of_a_semaphore_but_its_fencing_counter() {
    let world = World::start();
    let semaphore = world.manager().semaphore("s", 2);
    let permits = [
        semaphore.acquire().await.unwrap(),
        semaphore.acquire().await.unwrap(),
    ];
    for permit in permits {
        permit.release().await.unwrap();
    }
    assert_eq!(world.ask::<Vec<String>>("KEYS *"), ["{khoa:s}:fence"]);
}
