//! Extending and releasing what may not be one's own any more (family B of the research file).

use khoa::{Error, Loss, Released};
use khoa_server::Fault;

use crate::support::{MS, SECOND, World};

// RedLock.net#48, #93
#[tokio::test]
async fn an_extension_never_takes_the_lock_from_its_next_holder() {
    let world = World::start();
    let lock = world.manager().lock("a").ttl(10 * SECOND);
    let first = lock.acquire().await.unwrap();
    let _: i64 = world.ask("DEL khoa:a");
    let second = lock.acquire().await.unwrap();
    let value: String = world.ask("GET khoa:a");
    let error = first.extend().await.unwrap_err();
    assert!(
        matches!(
            error,
            Error::Lost {
                reason: Loss::TakenByAnother
            }
        ),
        "{error}"
    );
    assert_eq!(world.ask::<String>("GET khoa:a"), value);
    assert!(second.is_valid());
}

// redlock-rb#36, redis-semaphore#175, redsync#144
#[tokio::test]
async fn an_extension_never_takes_a_lock_that_is_gone() {
    let world = World::start();
    let guard = world
        .manager()
        .lock("a")
        .ttl(10 * SECOND)
        .acquire()
        .await
        .unwrap();
    let _: i64 = world.ask("DEL khoa:a");
    let error = guard.extend().await.unwrap_err();
    assert!(
        matches!(error, Error::Lost { reason: Loss::Gone }),
        "{error}"
    );
    assert_eq!(world.ask::<i64>("EXISTS khoa:a"), 0);
    assert!(matches!(
        guard.extend().await.unwrap_err(),
        Error::Lost { reason: Loss::Gone }
    ));
}

// node-redlock#103
#[tokio::test]
async fn an_extension_updates_the_guard_and_every_view_of_it() {
    let world = World::start();
    let guard = world
        .manager()
        .lock("a")
        .ttl(10 * SECOND)
        .acquire()
        .await
        .unwrap();
    let (view, until) = (guard.lease(), guard.valid_until());
    world.advance(4 * SECOND);
    guard.extend().await.unwrap();
    assert_eq!(guard.valid_until(), until + 4 * SECOND);
    assert_eq!(view.valid_until(), guard.valid_until());
}

#[tokio::test]
async fn an_extension_never_shortens_a_lease() {
    let world = World::start();
    let guard = world
        .manager()
        .lock("a")
        .ttl(10 * SECOND)
        .acquire()
        .await
        .unwrap();
    let until = guard.valid_until();
    guard.extend_to(SECOND).await.unwrap();
    assert_eq!(guard.valid_until(), until);
    assert!(world.ask::<i64>("PTTL khoa:a") > 9000);
    guard.extend_to(60 * SECOND).await.unwrap();
    assert!(guard.remaining() > 59 * SECOND);
}

#[tokio::test]
async fn an_extension_without_an_answer_proves_nothing() {
    let world = World::start();
    let manager = world.hasty_manager(SECOND);
    let guard = manager.lock("a").ttl(10 * SECOND).acquire().await.unwrap();
    guard.extend().await.unwrap();
    let until = guard.valid_until();
    world.advance(2 * SECOND);
    world.server().inject_on("EVALSHA", Fault::SwallowReply, 1);
    let error = world.drive(guard.extend()).await.unwrap_err();
    assert!(matches!(error, Error::Unanswered { .. }), "{error}");
    assert_eq!(guard.valid_until(), until);
    assert!(world.ask::<i64>("PTTL khoa:a") > 8100);
    guard.extend().await.unwrap();
    assert!(guard.valid_until() > until);
}

// node-redlock#168, #131, #65; redsync#81
#[tokio::test]
async fn releasing_what_has_expired_is_a_normal_outcome() {
    let world = World::start();
    let guard = world
        .manager()
        .lock("a")
        .ttl(SECOND)
        .acquire()
        .await
        .unwrap();
    world.advance(SECOND + MS);
    assert_eq!(guard.release().await.unwrap(), Released::Expired);
}

// node-redlock#313, #309; redisson#2665, #3393; DistributedLock#191
#[tokio::test]
async fn a_release_ends_although_the_server_does_not_answer() {
    let world = World::start();
    let manager = world.hasty_manager(SECOND);
    let guard = manager.lock("a").ttl(60 * SECOND).acquire().await.unwrap();
    world.server().inject(Fault::Latency(3600 * SECOND));
    let begun = world.clock.clock().now();
    let error = world.drive(guard.release()).await.unwrap_err();
    assert!(matches!(error, Error::Unanswered { .. }), "{error}");
    assert!(world.clock.clock().now() - begun < 7 * SECOND);
    world.server().clear_faults();
    world.until_clean().await;
}

#[tokio::test]
async fn a_release_whose_answer_was_lost_is_still_a_release() {
    let world = World::start();
    let guard = world
        .manager()
        .lock("a")
        .ttl(60 * SECOND)
        .acquire()
        .await
        .unwrap();
    world.server().inject_on("EVALSHA", Fault::DropAfter, 1);
    assert_eq!(
        world.drive(guard.release()).await.unwrap(),
        Released::Released
    );
    world.until_clean().await;
}

// redis-py#3847, PR#3900
#[tokio::test]
async fn a_release_survives_lost_connections() {
    let world = World::start();
    let guard = world
        .manager()
        .lock("a")
        .ttl(60 * SECOND)
        .acquire()
        .await
        .unwrap();
    world.server().inject_on("EVALSHA", Fault::DropBefore, 5);
    assert_eq!(
        world.drive(guard.release()).await.unwrap(),
        Released::Released
    );
    world.until_clean().await;
}

// kenn/redis-mutex, errorception/redis-lock#30
#[tokio::test]
async fn clocks_of_clients_are_never_compared() {
    let world = World::start();
    let past = khoa::ManualClock::new();
    let future = khoa::ManualClock::new();
    future.advance(1_000_000 * SECOND);
    let with = |clock: &khoa::ManualClock| {
        world
            .open(world.builder().clock(clock.clock()))
            .lock("a")
            .ttl(9 * SECOND)
    };
    let (slow, fast) = (with(&past), with(&future));
    let guard = slow.acquire().await.unwrap();
    assert!(fast.try_acquire().await.unwrap().is_none());
    guard.release().await.unwrap();
    let guard = fast.acquire().await.unwrap();
    assert!(slow.try_acquire().await.unwrap().is_none());
    assert!(guard.is_valid());
}

// keboola PR#1772
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lease_may_be_used_from_many_threads_at_once() {
    let world = World::start();
    let guard = world
        .manager()
        .lock("a")
        .ttl(60 * SECOND)
        .acquire()
        .await
        .unwrap();
    let tasks: Vec<_> = (0..8)
        .map(|_| {
            let lease = guard.lease();
            tokio::spawn(async move {
                for _ in 0..20 {
                    let _ = lease.extend().await;
                }
            })
        })
        .collect();
    assert_eq!(guard.release().await.unwrap(), Released::Released);
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(world.ask::<i64>("EXISTS khoa:a"), 0);
}
