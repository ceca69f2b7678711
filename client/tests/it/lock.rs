//! The plain lock on one server: exclusion, expiry, release, extension and waiting.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use crate::support::{MS, SECOND, World};
use khoa::{Error, Loss, Released};

#[tokio::test]
async fn a_second_holder_is_refused_until_the_first_releases() {
    let world = World::start();
    let lock = world.manager().lock("a");
    let first = lock.try_acquire().await.unwrap().expect("the lock is free");
    assert!(lock.try_acquire().await.unwrap().is_none());
    assert_eq!(first.release().await.unwrap(), Released::Released);
    assert!(lock.try_acquire().await.unwrap().is_some());
}

#[tokio::test]
async fn a_dropped_guard_gives_the_lock_back() {
    let world = World::start();
    let lock = world.manager().lock("a");
    drop(lock.try_acquire().await.unwrap().unwrap());
    world.until("EXISTS khoa:a", 0).await;
}

#[tokio::test]
async fn a_late_release_spares_the_next_holder() {
    let world = World::start();
    let lock = world.manager().lock("a").ttl(SECOND);
    let late = lock.try_acquire().await.unwrap().unwrap();
    world.advance(SECOND + MS);
    let next = lock.try_acquire().await.unwrap().unwrap();
    assert_eq!(late.release().await.unwrap(), Released::TakenByAnother);
    assert!(next.is_valid());
    next.extend().await.unwrap();
}

#[tokio::test]
async fn fencing_tokens_rise() {
    let world = World::start();
    let lock = world.manager().lock("a");
    let mut last = 0;
    for _ in 0..20 {
        let guard = lock.acquire().await.unwrap();
        assert!(guard.fencing_token() > last);
        last = guard.fencing_token();
        guard.release().await.unwrap();
    }
}

#[tokio::test]
async fn an_extension_after_expiry_reports_the_loss_and_creates_nothing() {
    let world = World::start();
    let guard = world
        .manager()
        .lock("a")
        .ttl(SECOND)
        .acquire()
        .await
        .unwrap();
    world.advance(SECOND + MS);
    let error = guard.extend().await.unwrap_err();
    assert!(
        matches!(
            error,
            Error::Lost {
                reason: Loss::Expired
            }
        ),
        "{error}"
    );
    assert_eq!(world.ask::<i64>("EXISTS khoa:a"), 0);
}

#[tokio::test]
async fn a_waiter_is_woken_by_the_release() {
    let world = World::start();
    let lock = world.manager().lock("a").ttl(100 * SECOND);
    let first = lock.acquire().await.unwrap();
    let waiter = tokio::spawn({
        let lock = lock.clone();
        async move { lock.acquire().await }
    });
    world.until("LLEN {khoa:a}:queue", 1).await;
    first.release().await.unwrap();
    let second = waiter.await.unwrap().unwrap();
    assert!(second.is_valid());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn fifty_tasks_hold_the_lock_one_at_a_time() {
    let world = World::start();
    let lock = world.manager().lock("a");
    let inside = Arc::new(AtomicUsize::new(0));
    let peak = Arc::new(AtomicUsize::new(0));
    let tasks: Vec<_> = (0..50)
        .map(|_| {
            let (lock, inside, peak) = (lock.clone(), inside.clone(), peak.clone());
            tokio::spawn(async move {
                let guard = lock.acquire().await.unwrap();
                peak.fetch_max(inside.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                std::thread::sleep(Duration::from_millis(1));
                inside.fetch_sub(1, Ordering::SeqCst);
                guard.release().await.unwrap();
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(peak.load(Ordering::SeqCst), 1);
}
