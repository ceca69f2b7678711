//! Looking at locks from outside.

use crate::support::{MS, SECOND, World};

#[tokio::test]
async fn a_holder_is_shown_with_its_label_its_times_and_its_waiters() {
    let world = World::start();
    let manager = world.manager();
    let lock = manager.lock("a").label("night shift").ttl(9 * SECOND);
    let guard = lock.acquire().await.unwrap();
    let waiter = tokio::spawn({
        let lock = lock.clone();
        async move { lock.acquire().await }
    });
    world.until("LLEN {khoa:a}:queue", 1).await;
    world.advance(2 * SECOND);
    let holder = manager.inspect("a").await.unwrap().unwrap();
    assert_eq!(holder.label, b"night shift");
    assert_eq!(guard.label(), holder.label);
    assert_eq!(holder.fencing_token, Some(guard.fencing_token()));
    assert_eq!(holder.waiting, 1);
    assert!(holder.held_for.unwrap() >= 2 * SECOND && holder.held_for.unwrap() < 3 * SECOND);
    assert!(holder.remaining.unwrap() <= 7 * SECOND && holder.remaining.unwrap() > 6 * SECOND);
    waiter.abort();
}

#[tokio::test]
async fn a_free_lock_has_no_holder() {
    assert_eq!(World::start().manager().inspect("a").await.unwrap(), None);
}

#[tokio::test]
async fn holders_are_listed_by_the_beginning_of_their_names() {
    let world = World::start();
    let manager = world.manager();
    let mut guards = Vec::new();
    for name in ["job:1", "job:2", "jobs*", "other"] {
        guards.push(manager.lock(name).acquire().await.unwrap());
    }
    let mut keys: Vec<_> = manager
        .holders("job:", 10)
        .await
        .unwrap()
        .into_iter()
        .map(|h| h.key)
        .collect();
    keys.sort();
    assert_eq!(keys, [b"khoa:job:1", b"khoa:job:2"]);
    assert_eq!(manager.holders("jobs*", 10).await.unwrap().len(), 1);
    assert_eq!(manager.holders("", 10).await.unwrap().len(), 4);
    assert_eq!(manager.holders("", 2).await.unwrap().len(), 2);
}

#[tokio::test]
async fn a_forced_release_passes_the_lock_to_the_next_waiter() {
    let world = World::start();
    let manager = world.manager();
    let lock = manager.lock("a").ttl(100 * SECOND);
    let stuck = lock.acquire().await.unwrap();
    let waiter = tokio::spawn({
        let lock = lock.clone();
        async move { lock.acquire().await.unwrap() }
    });
    world.until("LLEN {khoa:a}:queue", 1).await;
    assert!(manager.force_release("a").await.unwrap());
    let next = waiter.await.unwrap();
    assert!(stuck.extend().await.unwrap_err().is_lost());
    assert!(next.is_valid());
    next.release().await.unwrap();
    assert!(!manager.force_release("a").await.unwrap());
}

#[tokio::test]
async fn the_lock_of_another_library_is_respected_and_shown() {
    let world = World::start();
    let manager = world.open(world.builder().prefix(""));
    let _: () = world.ask("SET orders 5f2a NX PX 1000");
    assert!(
        manager
            .lock("orders")
            .try_acquire()
            .await
            .unwrap()
            .is_none()
    );
    let holder = manager.inspect("orders").await.unwrap().unwrap();
    assert_eq!((holder.fencing_token, holder.label), (None, Vec::new()));
    world.advance(SECOND + MS);
    assert!(
        manager
            .lock("orders")
            .try_acquire()
            .await
            .unwrap()
            .is_some()
    );
}
