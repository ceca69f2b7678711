//! Dropped futures, lost replies, panics and dead runtimes leave nothing behind (family C).

use std::sync::Arc;

use khoa::{Error, Lock, LockSet};
use khoa_server::Fault;

use crate::support::{SECOND, World, dropped_at, settle};

/// Drops an acquisition at each of its await points; the server must be clean after each.
async fn dropped_everywhere(world: &World, lock: &Lock) -> usize {
    for poll in 0.. {
        let acquired = dropped_at(poll, Box::pin(lock.acquire())).await;
        if let Some(guard) = acquired {
            guard.unwrap().release().await.unwrap();
            return poll;
        }
        world.until_clean().await;
    }
    unreachable!()
}

// Agenta PR#6284; redlock-rb#76
#[tokio::test]
async fn an_acquisition_dropped_at_any_await_point_leaves_nothing_behind() {
    let world = World::start();
    for _ in 0..20 {
        let fresh = world.manager();
        assert!(dropped_everywhere(&world, &fresh.lock("a")).await > 0);
        assert!(dropped_everywhere(&world, &fresh.lock("a")).await > 0);
    }
}

// redisson#4456; redis-semaphore README
#[tokio::test]
async fn the_same_holds_for_every_kind_of_lock() {
    let world = World::start();
    let manager = world.manager();
    let kinds = [
        manager.lock_all(["a", "b", "c"]),
        manager.semaphore("s", 2),
        manager.read_write("d").read(),
        manager.read_write("d").write(),
    ];
    for kind in kinds {
        assert!(dropped_everywhere(&world, &kind).await > 0);
    }
}

#[tokio::test]
async fn a_wait_dropped_at_any_await_point_leaves_nothing_behind() {
    let world = World::start();
    let holder = world.manager().lock("a").ttl(3600 * SECOND);
    for poll in 0..60 {
        let waiting = world.manager().lock("a").ttl(3600 * SECOND);
        let guard = holder.acquire().await.unwrap();
        let wait = dropped_at(poll, Box::pin(waiting.acquire()));
        let release = async {
            settle().await;
            guard.release().await.unwrap();
        };
        // At some polls the wait ends by itself, with the lock.
        let (waited, ()) = world.drive(async { tokio::join!(wait, release) }).await;
        if let Some(guard) = waited {
            guard.unwrap().release().await.unwrap();
        }
        world.until_clean().await;
    }
}

#[tokio::test]
async fn a_waiter_that_gives_up_as_its_turn_comes_passes_it_on() {
    let world = World::start();
    let lock = world.manager().lock("a").ttl(3600 * SECOND);
    for _ in 0..50 {
        let guard = lock.acquire().await.unwrap();
        let first = tokio::spawn({
            let lock = lock.clone();
            async move { lock.acquire().await.unwrap() }
        });
        world.until("LLEN {khoa:a}:queue", 1).await;
        let second = tokio::spawn({
            let lock = lock.clone();
            async move { lock.acquire().await.unwrap() }
        });
        world.until("LLEN {khoa:a}:queue", 2).await;
        guard.release().await.unwrap();
        first.abort();
        drop(first.await);
        // No time passes: the turn of the one that gave up does not have to run out.
        second.await.unwrap().release().await.unwrap();
    }
}

// redlock-rb#76
#[tokio::test]
async fn a_lock_acquired_without_an_answer_is_given_back() {
    let world = World::start();
    let lock = world.hasty_manager(SECOND).lock("a").ttl(3600 * SECOND);
    lock.acquire().await.unwrap().release().await.unwrap();
    world.server().inject_on("EVALSHA", Fault::SwallowReply, 1);
    let error = world.drive(lock.try_acquire()).await.unwrap_err();
    assert!(matches!(error, Error::Unanswered { .. }), "{error}");
    world.until_clean().await;
}

#[tokio::test]
async fn a_connection_lost_after_the_server_did_its_work_costs_nothing() {
    let world = World::start();
    let lock = world.manager().lock("a").ttl(3600 * SECOND);
    lock.acquire().await.unwrap().release().await.unwrap();
    for _ in 0..20 {
        world.server().inject_on("EVALSHA", Fault::DropAfter, 1);
        let guard = world.drive(lock.acquire()).await.unwrap();
        guard.extend().await.unwrap();
        assert!(lock.try_acquire().await.unwrap().is_none());
        guard.release().await.unwrap();
        world.until_clean().await;
    }
}

// redsync PR#151, blnk#354, ncps PR#913
#[tokio::test]
async fn clean_up_goes_on_while_the_server_cannot_be_reached() {
    let world = World::start();
    let lock = world.manager().lock("a").ttl(60 * SECOND);
    let guard = lock.acquire().await.unwrap();
    world.server().inject(Fault::DropBefore);
    drop(guard);
    for _ in 0..20 {
        settle().await;
        world.advance(SECOND / 2);
    }
    assert_eq!(world.ask::<i64>("EXISTS khoa:a"), 1);
    world.server().clear_faults();
    world.until_clean().await;
}

#[tokio::test]
async fn clean_up_ends_when_the_lease_is_over() {
    let world = World::start();
    let guard = world
        .manager()
        .lock("a")
        .ttl(5 * SECOND)
        .acquire()
        .await
        .unwrap();
    world.server().inject(Fault::DropBefore);
    drop(guard);
    for _ in 0..40 {
        settle().await;
        world.advance(SECOND / 2);
    }
    let received = world.server().connections_received();
    for _ in 0..40 {
        settle().await;
        world.advance(SECOND / 2);
    }
    assert_eq!(world.server().connections_received(), received);
}

#[tokio::test]
async fn a_set_of_locks_dropped_at_any_await_point_leaves_nothing_behind() {
    let world = World::start();
    for poll in 0.. {
        let manager = world.manager();
        let set = LockSet::new([manager.lock("a"), manager.lock("b"), manager.lock("c")]);
        if let Some(held) = dropped_at(poll, Box::pin(set.acquire())).await {
            held.unwrap().release().await.unwrap();
            break;
        }
        world.until_clean().await;
    }
    world.until_clean().await;
}

// redis-py#3847
#[tokio::test]
async fn a_release_dropped_at_any_await_point_still_happens() {
    let world = World::start();
    let lock = world.manager().lock("a").ttl(3600 * SECOND);
    for poll in 0.. {
        let guard = lock.acquire().await.unwrap();
        let released = dropped_at(poll, Box::pin(guard.release())).await.is_some();
        world.until_clean().await;
        if released {
            break;
        }
    }
}

// redis-py#818, #554
#[tokio::test]
async fn a_lock_never_exists_without_an_end() {
    let world = World::start();
    let manager = world.manager();
    for (kind, key) in [
        (manager.lock("a"), "khoa:a"),
        (manager.semaphore("s", 1), "khoa:s"),
        (manager.read_write("d").read(), "{khoa:d}:readers"),
        (manager.read_write("d").write(), "khoa:d"),
    ] {
        let guard = kind.acquire().await.unwrap();
        assert!(world.ask::<i64>(&format!("PTTL {key}")) > 0, "{key}");
        guard.release().await.unwrap();
    }
    for key in world.ask::<Vec<String>>("KEYS *") {
        assert!(world.ask::<i64>(&format!("PTTL {key}")) > 0, "{key}");
    }
}

// rslock PR#6, redlock-rs PR#11
#[test]
fn a_guard_may_be_dropped_outside_a_runtime_and_after_its_end() {
    let world = World::start();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let lock = world.manager().lock("a").ttl(3600 * SECOND);
    let guard = runtime.block_on(lock.acquire()).unwrap();
    drop(guard);
    runtime.block_on(world.until_clean());
    let guard = runtime.block_on(lock.acquire()).unwrap();
    drop(runtime);
    drop(guard);
    assert_eq!(world.ask::<i64>("EXISTS khoa:a"), 1);
}

#[test]
fn a_manager_works_on_the_next_runtime_after_one_ended() {
    let world = World::start();
    let lock = world.manager().lock("a");
    for _ in 0..3 {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let held = runtime.block_on(async { lock.acquire().await?.release().await });
        assert_eq!(held.unwrap(), khoa::Released::Released);
    }
}

#[tokio::test]
async fn a_panic_gives_the_lock_back() {
    let world = World::start();
    let lock = world.manager().lock("a").ttl(3600 * SECOND);
    let work = tokio::spawn({
        let lock = lock.clone();
        async move {
            lock.run(|_| async { std::panic::panic_any("on purpose") })
                .await
        }
    });
    assert!(work.await.unwrap_err().is_panic());
    world.until_clean().await;
}

// rslock 0.10: `using` cancelled leaves the key
#[tokio::test]
async fn work_that_is_cancelled_gives_the_lock_back() {
    let world = World::start();
    let lock = world.manager().lock("a").ttl(3600 * SECOND);
    let work = tokio::spawn({
        let lock = lock.clone();
        async move { lock.run(|_| std::future::pending::<()>()).await }
    });
    world.until("EXISTS khoa:a", 1).await;
    settle().await;
    work.abort();
    drop(work.await);
    world.until_clean().await;
}

// redlock(rs) 2.0.0: validity underflows when the server is slow
#[tokio::test]
async fn a_grant_that_arrives_after_its_lease_is_no_guard() {
    let world = World::start();
    let manager = world.manager();
    manager
        .lock("warm")
        .acquire()
        .await
        .unwrap()
        .release()
        .await
        .unwrap();
    let lock = manager.lock("a").ttl(SECOND);
    let mut attempt = Box::pin(lock.try_acquire());
    let waker = Arc::new(tokio::sync::Notify::new());
    tokio::select! {
        biased;
        _ = &mut attempt => panic!("the answer cannot be here yet"),
        () = waker.notified() => unreachable!(),
        () = std::future::ready(()) => {}
    }
    world.clock.advance(2 * SECOND);
    let error = attempt.await.unwrap_err();
    assert!(error.is_lost(), "{error}");
    world.until_clean().await;
}

// etcd#17470
#[tokio::test]
async fn a_failed_acquisition_renews_nothing() {
    let world = World::start();
    let lock = world.manager().lock("a").ttl(3 * SECOND).auto_renew(true);
    let _holder = world
        .manager()
        .lock("a")
        .ttl(3600 * SECOND)
        .acquire()
        .await
        .unwrap();
    assert!(lock.try_acquire().await.unwrap().is_none());
    assert!(
        world
            .drive(lock.acquire_within(SECOND))
            .await
            .unwrap_err()
            .is_timeout()
    );
    settle().await;
    let before = world.scripts_run();
    for _ in 0..100 {
        settle().await;
        world.advance(SECOND / 10);
    }
    assert_eq!(world.scripts_run(), before);
}
