//! The re-entrant lock.

use khoa::Released;

use crate::support::{MS, SECOND, World};

#[tokio::test]
async fn an_owner_enters_again_and_others_wait_for_its_last_exit() {
    let world = World::start();
    let lock = world.manager().lock("t");
    let (owner, other) = (lock.reentrant(), lock.reentrant());
    let outer = owner.acquire().await.unwrap();
    let inner = owner.acquire().await.unwrap();
    assert_eq!(owner.depth().await, 2);
    assert!(other.try_acquire().await.unwrap().is_none());
    assert_eq!(inner.release().await.unwrap(), None);
    assert!(other.try_acquire().await.unwrap().is_none());
    assert_eq!(outer.release().await.unwrap(), Some(Released::Released));
    assert!(other.try_acquire().await.unwrap().is_some());
}

// redisson#2224, #6662, #6878
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_owner_is_a_handle_and_not_a_thread() {
    let world = World::start();
    let owner = world.manager().lock("t").reentrant();
    let outer = owner.acquire().await.unwrap();
    let tasks: Vec<_> = (0..8)
        .map(|_| {
            let owner = owner.clone();
            tokio::spawn(async move { owner.acquire().await.unwrap() })
        })
        .collect();
    for task in tasks {
        assert_eq!(task.await.unwrap().fencing_token(), outer.fencing_token());
    }
    assert_eq!(outer.release().await.unwrap(), Some(Released::Released));
}

// redisson#84
#[tokio::test]
async fn entries_of_one_owner_at_the_same_time_share_one_lease() {
    let world = World::start();
    let owner = world.manager().lock("t").reentrant();
    let (a, b) = tokio::join!(owner.acquire(), owner.acquire());
    assert_eq!(a.unwrap().fencing_token(), b.unwrap().fencing_token());
}

#[tokio::test]
async fn an_owner_whose_lease_is_over_is_told_so_instead_of_starting_another() {
    let world = World::start();
    let owner = world.manager().lock("t").ttl(SECOND).reentrant();
    let outer = owner.acquire().await.unwrap();
    world.advance(SECOND + MS);
    assert!(owner.acquire().await.unwrap_err().is_lost());
    drop(outer);
    assert!(owner.acquire().await.unwrap().is_valid());
}
