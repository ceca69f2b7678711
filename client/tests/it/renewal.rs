//! The watchdog, and what a holder learns when renewal fails (family A of the research file).

use std::future::Future;
use std::time::Duration;

use khoa::{Guard, Loss, Manager, Released};
use khoa_server::Fault;

use crate::support::{MS, SECOND, World, settle};

async fn renewing(manager: &Manager, name: &str, ttl: Duration) -> Guard {
    manager
        .lock(name)
        .ttl(ttl)
        .auto_renew(true)
        .acquire()
        .await
        .unwrap()
}

/// Time passes in small steps; each must find the claim true.
async fn while_time_passes(world: &World, length: Duration, mut check: impl FnMut()) {
    let end = world.clock.clock().now() + length;
    world
        .drive(async {
            while world.clock.clock().now() < end {
                settle().await;
                check();
                world.advance(50 * MS);
            }
        })
        .await;
}

fn pending<F: Future>(future: std::pin::Pin<&mut F>) -> bool {
    let mut context = std::task::Context::from_waker(std::task::Waker::noop());
    future.poll(&mut context).is_pending()
}

// redisson#5698, #5697
#[tokio::test]
async fn a_long_hold_never_comes_near_the_end_of_its_lease() {
    let world = World::start();
    let guard = renewing(&world.manager(), "a", 3 * SECOND).await;
    while_time_passes(&world, 12 * SECOND, || {
        assert!(world.ask::<i64>("PTTL khoa:a") >= 1500);
        assert!(guard.is_valid());
    })
    .await;
    assert_eq!(guard.release().await.unwrap(), Released::Released);
}

// redisson#3712, #2515, #3194
#[tokio::test]
async fn renewal_goes_on_after_the_connection_was_lost_for_a_while() {
    let world = World::start();
    let guard = renewing(&world.manager(), "a", 3 * SECOND).await;
    world.server().inject(Fault::DropBefore);
    while_time_passes(&world, 2 * SECOND, || {}).await;
    world.server().clear_faults();
    while_time_passes(&world, 6 * SECOND, || assert!(guard.is_valid())).await;
    assert_eq!(guard.release().await.unwrap(), Released::Released);
}

#[tokio::test]
async fn renewal_goes_on_after_the_server_was_restarted_with_its_data() {
    let mut world = World::start();
    let manager = world.tcp_manager();
    let guard = renewing(&manager, "a", 3 * SECOND).await;
    world.server_mut().restart().unwrap();
    // Connecting takes time that this clock knows nothing of.
    while manager.inspect("a").await.is_err() {
        tokio::task::yield_now().await;
    }
    for _ in 0..6 {
        world.advance(SECOND);
        while world.ask::<i64>("PTTL khoa:a") < 3000 {
            tokio::task::yield_now().await;
        }
        assert!(guard.is_valid());
    }
    assert_eq!(guard.release().await.unwrap(), Released::Released);
}

// redisson#4698, python-redis-lock#85
#[tokio::test]
async fn a_deleted_lock_is_noticed_within_one_renewal() {
    let world = World::start();
    let guard = renewing(&world.manager(), "a", 3 * SECOND).await;
    let deleted = world.clock.clock().now();
    let _: i64 = world.ask("DEL khoa:a");
    assert_eq!(world.drive(guard.lost()).await, Loss::Gone);
    assert!(world.clock.clock().now() - deleted <= SECOND + 50 * MS);
    assert!(guard.is_lost());
    assert_eq!(world.ask::<i64>("EXISTS khoa:a"), 0);
}

#[tokio::test]
async fn a_lock_taken_by_another_is_noticed_as_such_and_left_alone() {
    let world = World::start();
    let guard = renewing(&world.manager(), "a", 3 * SECOND).await;
    let _: () = world.ask("SET khoa:a somebody-else");
    assert_eq!(world.drive(guard.lost()).await, Loss::TakenByAnother);
    assert_eq!(guard.release().await.unwrap(), Released::TakenByAnother);
    assert_eq!(world.ask::<String>("GET khoa:a"), "somebody-else");
}

// redisson#7272, dynamodb-lock-client PR#116
#[tokio::test]
async fn no_renewal_follows_a_release_however_close_they_are() {
    let world = World::start();
    let manager = world.manager();
    for round in 0..1000 {
        let guard = renewing(&manager, "a", 3 * SECOND).await;
        tokio::task::yield_now().await;
        world.advance(SECOND);
        if round % 2 == 0 {
            tokio::task::yield_now().await;
        }
        assert_eq!(guard.release().await.unwrap(), Released::Released);
        assert_eq!(world.ask::<i64>("EXISTS khoa:a"), 0);
    }
    let before = world.scripts_run();
    while_time_passes(&world, 5 * SECOND, || {}).await;
    assert_eq!(world.scripts_run(), before);
}

// redisson#6483
#[tokio::test]
async fn one_broken_lock_does_not_stop_the_renewal_of_the_others() {
    let world = World::start();
    let manager = world.manager();
    let a = renewing(&manager, "a", 3 * SECOND).await;
    let b = renewing(&manager, "b", 3 * SECOND).await;
    let c = renewing(&manager, "c", 3 * SECOND).await;
    let _: i64 = world.ask("DEL khoa:b");
    let _: i64 = world.ask("LPUSH khoa:b x");
    while_time_passes(&world, 6 * SECOND, || assert!(a.is_valid() && c.is_valid())).await;
    assert_eq!(b.lost().await, Loss::Expired);
}

// redisson#1604
#[tokio::test]
async fn shared_locks_and_permits_are_renewed_too() {
    let world = World::start();
    let manager = world.manager();
    let reader = manager
        .read_write("d")
        .read()
        .ttl(3 * SECOND)
        .auto_renew(true);
    let permit = manager.semaphore("s", 1).ttl(3 * SECOND).auto_renew(true);
    let (reader, permit) = (
        reader.acquire().await.unwrap(),
        permit.acquire().await.unwrap(),
    );
    while_time_passes(&world, 9 * SECOND, || {
        assert!(reader.is_valid() && permit.is_valid());
    })
    .await;
    assert_eq!(reader.release().await.unwrap(), Released::Released);
    assert_eq!(permit.release().await.unwrap(), Released::Released);
}

// redisson#4818, #5623
#[tokio::test]
async fn each_acquisition_has_a_lease_of_its_own() {
    let world = World::start();
    let lock = world.manager().lock("a");
    let short = lock.clone().ttl(SECOND).acquire().await.unwrap();
    short.release().await.unwrap();
    let long = lock.ttl(9 * SECOND).acquire().await.unwrap();
    world.advance(SECOND + MS);
    assert!(long.is_valid());
    assert!(world.ask::<i64>("PTTL khoa:a") > 7000);
}

// RedLock.net#68, python-redis-lock#114, DistributedLock#169
#[tokio::test]
async fn a_holder_that_hangs_loses_the_lock_at_the_cap() {
    let world = World::start();
    let lock = world
        .manager()
        .lock("a")
        .ttl(3 * SECOND)
        .auto_renew(true)
        .max_hold(7 * SECOND);
    let guard = lock.acquire().await.unwrap();
    let began = world.clock.clock().now();
    assert_eq!(world.drive(guard.lost()).await, Loss::HeldTooLong);
    let held = world.clock.clock().now() - began;
    assert!(held > 5 * SECOND && held <= 7 * SECOND, "{held:?}");
    world.advance(200 * MS);
    assert_eq!(world.ask::<i64>("EXISTS khoa:a"), 0);
}

// aioredlock#46
#[tokio::test]
async fn validity_ends_with_the_lease_though_a_renewal_hangs() {
    let world = World::start();
    let guard = renewing(&world.manager(), "a", 3 * SECOND).await;
    let until = guard.valid_until();
    world.server().inject(Fault::Latency(3600 * SECOND));
    assert_eq!(world.drive(guard.lost()).await, Loss::Expired);
    assert!(world.clock.clock().now() - until < 50 * MS);
    assert!(!guard.is_valid());
}

// redis-semaphore#24, #9, #199; node-redlock#283
#[tokio::test]
async fn a_process_that_was_paused_finds_its_lease_lost() {
    let world = World::start();
    let lock = world.manager().lock("a").ttl(3 * SECOND);
    let guard = lock.clone().auto_renew(true).acquire().await.unwrap();
    world.advance(6 * SECOND);
    assert!(guard.is_lost());
    assert!(guard.check().unwrap_err().is_lost());
    let other = lock.acquire().await.unwrap();
    assert!(other.fencing_token() > guard.fencing_token());
    assert_eq!(guard.release().await.unwrap(), Released::TakenByAnother);
}

// redis-semaphore#205, PR#206
#[tokio::test]
async fn a_release_beside_a_renewal_is_no_loss() {
    let world = World::start();
    for _ in 0..100 {
        let guard = renewing(&world.manager(), "a", 3 * SECOND).await;
        let lease = guard.lease();
        let mut lost = std::pin::pin!(lease.lost());
        let (extended, released) = tokio::join!(lease.extend(), guard.release());
        assert_eq!(released.unwrap(), Released::Released);
        assert!(extended.is_ok() || extended.unwrap_err().is_lost());
        assert!(pending(lost.as_mut()));
        assert!(!lease.is_lost() && !lease.is_valid());
    }
}

// rslock 0.10: a lease below half a second was renewed every millisecond
#[tokio::test]
async fn a_short_lease_is_renewed_in_proportion() {
    let world = World::start();
    let guard = renewing(&world.manager(), "a", 300 * MS).await;
    let before = world.scripts_run();
    while_time_passes(&world, 3 * SECOND, || assert!(guard.is_valid())).await;
    let renewals = world.scripts_run() - before;
    assert!((20..=60).contains(&renewals), "{renewals}");
}

// client-go#448: the holder must stop before others may begin
#[tokio::test]
async fn a_holder_stops_believing_before_the_server_lets_others_in() {
    let world = World::start();
    for ttl in [5 * MS, 100 * MS, 10 * SECOND, 3600 * SECOND] {
        let guard = world.manager().lock("a").ttl(ttl).acquire().await.unwrap();
        let on_server = Duration::from_millis(world.ask::<u64>("PTTL khoa:a"));
        assert!(guard.remaining() < on_server);
        guard.release().await.unwrap();
    }
}

#[tokio::test]
async fn work_under_a_lock_is_dropped_when_the_lock_is_lost() {
    let world = World::start();
    let lock = world.manager().lock("a").ttl(3 * SECOND);
    let (started, begun) = tokio::sync::oneshot::channel();
    let work = lock.run(|_| async {
        started.send(()).unwrap();
        std::future::pending::<()>().await;
    });
    let rival = async {
        begun.await.unwrap();
        let _: i64 = world.ask("DEL khoa:a");
    };
    let (outcome, ()) = world.drive(async { tokio::join!(work, rival) }).await;
    assert!(outcome.unwrap_err().is_lost());
}

#[tokio::test]
async fn work_that_ends_after_its_lease_is_no_success() {
    let world = World::start();
    let lock = world.manager().lock("a").ttl(3 * SECOND);
    let outcome = lock.run(|_| async { world.advance(4 * SECOND) }).await;
    assert!(outcome.unwrap_err().is_lost());
}

#[tokio::test]
async fn work_under_a_lock_may_last_many_leases() {
    let world = World::start();
    let lock = world.manager().lock("a").ttl(3 * SECOND);
    let clock = world.clock.clock();
    let end = clock.now() + 10 * SECOND;
    let work = lock.run(|lease| async move {
        while clock.now() < end {
            assert!(lease.is_valid());
            tokio::task::yield_now().await;
        }
        7
    });
    assert_eq!(world.drive(work).await.unwrap(), 7);
    assert_eq!(world.ask::<i64>("EXISTS khoa:a"), 0);
}

// redis-py PR#661
#[tokio::test]
async fn work_does_not_begin_without_the_lock() {
    let world = World::start();
    let lock = world
        .manager()
        .lock("a")
        .ttl(3600 * SECOND)
        .max_wait(SECOND);
    let _holder = lock.acquire().await.unwrap();
    let work = lock.run(|_| async { panic!("nobody may be here") });
    assert!(world.drive(work).await.unwrap_err().is_timeout());
}
