//! Several locks as one, on one server and across servers.

use khoa::{Error, LockSet};

use crate::support::{MS, SECOND, World};

#[tokio::test]
async fn all_the_names_are_taken_or_none_of_them() {
    let world = World::start();
    let manager = world.manager();
    let c = manager.lock("c").acquire().await.unwrap();
    let all = manager.lock_all(["a", "b", "c"]);
    assert!(all.try_acquire().await.unwrap().is_none());
    assert_eq!(world.ask::<i64>("EXISTS khoa:a khoa:b"), 0);
    c.release().await.unwrap();
    let held = all.try_acquire().await.unwrap().unwrap();
    for name in ["a", "b", "c"] {
        assert!(manager.lock(name).try_acquire().await.unwrap().is_none());
    }
    held.release().await.unwrap();
    assert_eq!(world.ask::<i64>("EXISTS khoa:a khoa:b khoa:c"), 0);
}

#[tokio::test]
async fn the_fencing_token_is_above_those_of_all_the_names() {
    let world = World::start();
    let manager = world.manager();
    let mut highest = 0;
    for name in ["a", "b", "c", "b"] {
        let guard = manager.lock(name).acquire().await.unwrap();
        highest = highest.max(guard.fencing_token());
        guard.release().await.unwrap();
    }
    let all = manager.lock_all(["c", "a", "b"]).acquire().await.unwrap();
    let token = all.fencing_token();
    assert!(token > highest);
    all.release().await.unwrap();
    for name in ["a", "b", "c"] {
        assert!(manager.lock(name).acquire().await.unwrap().fencing_token() > token);
    }
}

#[tokio::test]
async fn a_waiter_for_several_is_woken_and_holds_nothing_meanwhile() {
    let world = World::start();
    let manager = world.manager();
    let (a, b) = (manager.lock("a"), manager.lock("b"));
    let (held_a, held_b) = (a.acquire().await.unwrap(), b.acquire().await.unwrap());
    let waiter = tokio::spawn({
        let all = manager.lock_all(["a", "b"]);
        async move { all.acquire().await.unwrap() }
    });
    world.until("LLEN {khoa:a}:queue", 1).await;
    held_a.release().await.unwrap();
    world.until("LLEN {khoa:b}:queue", 1).await;
    assert_eq!(world.ask::<i64>("EXISTS khoa:a"), 0);
    held_b.release().await.unwrap();
    waiter.await.unwrap().release().await.unwrap();
    assert_eq!(
        world.ask::<i64>("EXISTS khoa:a khoa:b {khoa:a}:queue {khoa:b}:queue"),
        0
    );
}

// redisson#4050, #467
#[tokio::test]
async fn opposite_orders_of_names_do_not_deadlock() {
    let world = World::start();
    let manager = world.manager();
    let tasks: Vec<_> = (0..10)
        .map(|number| {
            let names = if number % 2 == 0 {
                ["a", "b"]
            } else {
                ["b", "a"]
            };
            let all = manager.lock_all(names);
            tokio::spawn(async move { all.acquire().await.unwrap().release().await.unwrap() })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
}

#[tokio::test]
async fn an_extension_of_several_fails_as_a_whole_when_one_is_lost() {
    let world = World::start();
    let held = world
        .manager()
        .lock_all(["a", "b"])
        .ttl(5 * SECOND)
        .acquire()
        .await
        .unwrap();
    world.advance(SECOND);
    let _: i64 = world.ask("DEL khoa:b");
    assert!(held.extend().await.unwrap_err().is_lost());
    assert!(world.ask::<i64>("PTTL khoa:a") <= 4000);
}

#[tokio::test]
async fn no_names_and_too_many_names_are_refused() {
    let manager = World::start().manager();
    let none = manager
        .lock_all::<&str>([])
        .try_acquire()
        .await
        .unwrap_err();
    assert!(matches!(none, Error::InvalidOption { .. }));
    let many = (0..=khoa::MAX_LOCKS).map(|number| number.to_string());
    let many = manager.lock_all(many).try_acquire().await.unwrap_err();
    assert!(matches!(many, Error::InvalidOption { .. }));
}

// redisson#4456
#[tokio::test]
async fn a_set_across_servers_gives_back_what_it_took_when_it_cannot_have_all() {
    let (east, west) = (World::start(), World::start());
    let set = LockSet::new([
        east.manager().lock("a"),
        east.manager().lock("b"),
        west.manager().lock("c").wait(khoa::Wait::once()),
    ]);
    let c = west.manager().lock("c").acquire().await.unwrap();
    assert!(set.acquire().await.unwrap_err().is_timeout());
    east.until("EXISTS khoa:a khoa:b", 0).await;
    c.release().await.unwrap();
    let held = set.acquire().await.unwrap();
    assert!(held.is_valid());
    assert_eq!(held.guards().len(), 3);
    held.release().await.unwrap();
    assert_eq!(east.ask::<i64>("EXISTS khoa:a khoa:b"), 0);
}

#[tokio::test]
async fn a_set_is_lost_with_the_first_of_its_locks() {
    let (east, west) = (World::start(), World::start());
    let set = LockSet::new([
        east.manager().lock("a").ttl(SECOND),
        west.manager().lock("b").ttl(99 * SECOND),
    ]);
    let held = set.acquire().await.unwrap();
    east.advance(SECOND + MS);
    held.lost().await;
    assert!(!held.is_valid());
}
