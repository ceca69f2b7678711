//! Waiting and being woken (families D and E of the research file).

use std::time::Duration;

use khoa::{Error, Guard, Lock, Manager, Wait};
use khoa_server::Fault;
use tokio::task::JoinHandle;

use crate::support::{MS, SECOND, World, dropped_at, settle};

fn waiter(lock: &Lock) -> JoinHandle<Result<khoa::Guard, Error>> {
    let lock = lock.clone();
    tokio::spawn(async move { lock.acquire().await })
}

// redisson#763, #491, #3891, #4744, #5070; miintto/redis-lock-py#3
#[tokio::test]
async fn a_release_at_any_moment_of_the_waiters_way_wakes_it() {
    let world = World::start();
    let mut queued = false;
    for poll in 1.. {
        let lock = world.manager().lock("a").ttl(3600 * SECOND);
        let guard = world
            .manager()
            .lock("a")
            .ttl(3600 * SECOND)
            .acquire()
            .await
            .unwrap();
        let mut wait = Box::pin(lock.acquire());
        tokio::select! {
            biased;
            waited = dropped_at(poll, &mut wait) => assert!(waited.is_none()),
            () = settle() => queued = true,
        }
        guard.release().await.unwrap();
        // No time passes: neither the holder's TTL nor the fallback helps.
        wait.await.unwrap().release().await.unwrap();
        if queued {
            assert!(poll > 3);
            break;
        }
    }
}

#[tokio::test]
async fn a_waiter_gets_the_lock_of_a_holder_that_died() {
    let world = World::start();
    let lock = world.manager().lock("a").ttl(3 * SECOND);
    let dead = lock.acquire().await.unwrap();
    let began = world.clock.clock().now();
    let wait = waiter(&lock);
    let next = world.drive(wait).await.unwrap().unwrap();
    assert!(world.clock.clock().now() - began < 3 * SECOND + 100 * MS);
    assert!(next.fencing_token() > dead.fencing_token());
}

// redisson#4064, #4216
#[tokio::test]
async fn waits_that_ended_leave_no_subscription_and_no_queue() {
    let world = World::start();
    let _holder = world
        .manager()
        .lock("a")
        .ttl(3600 * SECOND)
        .acquire()
        .await
        .unwrap();
    let lock = world.manager().lock("a").max_wait(100 * MS);
    let waits: Vec<_> = (0..1000).map(|_| waiter(&lock)).collect();
    for wait in waits {
        assert!(world.drive(wait).await.unwrap().unwrap_err().is_timeout());
    }
    let gone = async {
        while world.ask::<i64>("EXISTS {khoa:a}:queue") == 1
            || !world.ask::<Vec<String>>("PUBSUB CHANNELS *").is_empty()
        {
            world.advance(SECOND);
            settle().await;
        }
    };
    world.drive(gone).await;
}

// redisson#543, #4033
#[tokio::test]
async fn no_time_to_wait_is_exactly_one_attempt() {
    let world = World::start();
    let lock = world.manager().lock("a").ttl(3600 * SECOND);
    let _holder = lock.acquire_within(Duration::ZERO).await.unwrap();
    let before = world.scripts_run();
    assert!(
        lock.acquire_within(Duration::ZERO)
            .await
            .unwrap_err()
            .is_timeout()
    );
    assert_eq!(world.scripts_run(), before + 1);
    assert!(
        lock.clone()
            .wait(Wait::once())
            .acquire()
            .await
            .unwrap_err()
            .is_timeout()
    );
    settle().await;
    assert_eq!(world.scripts_run(), before + 2);
}

// redis-py#498, PR#3728
#[tokio::test]
async fn a_wait_ends_on_time_though_the_server_accepts_and_never_answers() {
    let world = World::start();
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("redis://{}", silent.local_addr().unwrap());
    let manager = Manager::builder()
        .clock(world.clock.clock())
        .open(url)
        .unwrap();
    let began = world.clock.clock().now();
    let outcome = world
        .drive(manager.lock("a").acquire_within(200 * MS))
        .await;
    let took = world.clock.clock().now() - began;
    assert!(outcome.unwrap_err().is_timeout());
    assert!(took >= 200 * MS && took < 300 * MS, "{took:?}");
}

#[tokio::test]
async fn a_wait_ends_on_time_though_nobody_listens() {
    let world = World::start();
    let closed = std::net::TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let manager = Manager::builder().clock(world.clock.clock());
    let manager = manager.open(format!("redis://{closed}")).unwrap();
    let error = world
        .drive(manager.lock("a").acquire_within(2 * SECOND))
        .await
        .unwrap_err();
    let Error::TimedOut {
        last: Some(last),
        attempts,
        ..
    } = error
    else {
        panic!("{error}")
    };
    assert!(matches!(*last, Error::Backend { .. }), "{last}");
    assert!(attempts > 3, "{attempts}");
}

// redislock#27, #28, #74
#[tokio::test]
async fn the_wait_is_not_bound_to_the_ttl() {
    let world = World::start();
    let holder = world
        .manager()
        .lock("a")
        .ttl(30 * SECOND)
        .acquire()
        .await
        .unwrap();
    let wait = waiter(&world.manager().lock("a").ttl(SECOND).max_wait(5 * SECOND));
    world.until("LLEN {khoa:a}:queue", 1).await;
    for _ in 0..6 {
        settle().await;
        world.advance(SECOND / 2);
    }
    holder.release().await.unwrap();
    assert!(wait.await.unwrap().is_ok());
}

// redislock#79; rueidis#653, #630
#[tokio::test]
async fn a_timeout_tells_what_stood_in_the_way() {
    let world = World::start();
    let lock = world.manager().lock("a").max_wait(SECOND);
    let holder = lock.clone().ttl(3600 * SECOND).acquire().await.unwrap();
    let held = world.drive(lock.acquire()).await.unwrap_err();
    assert!(matches!(held, Error::TimedOut { last: None, .. }), "{held}");
    holder.release().await.unwrap();
    world.server().fail_with("LOADING the data set");
    let loading = world.drive(lock.acquire()).await.unwrap_err();
    let Error::TimedOut {
        last: Some(last), ..
    } = loading
    else {
        panic!("{loading}")
    };
    assert!(matches!(&*last, Error::Backend { source, .. } if source.code() == Some("LOADING")));
}

// medusa#15143, discourse PR#17886, consul#9469
#[tokio::test]
async fn requests_per_hand_over_do_not_grow_with_the_waiters() {
    let world = World::start();
    world
        .manager()
        .lock("warm")
        .acquire()
        .await
        .unwrap()
        .release()
        .await
        .unwrap();
    for waiters in [10, 100, 300] {
        let lock = world.manager().lock("a").ttl(SECOND).wait_forever();
        let holder = lock.acquire().await.unwrap();
        let waits: Vec<_> = (0..waiters)
            .map(|_| {
                let lock = lock.clone();
                tokio::spawn(async move { lock.acquire().await?.release().await })
            })
            .collect();
        world.until("LLEN {khoa:a}:queue", waiters).await;
        settle().await;
        let before = world.scripts_run();
        holder.release().await.unwrap();
        for wait in waits {
            wait.await.unwrap().unwrap();
        }
        // The first release, then one for each: what a release hands over is held at once.
        assert_eq!(world.scripts_run() - before, 1 + waiters);
    }
}

#[tokio::test]
async fn a_long_lease_that_was_handed_over_is_held_at_once_and_lengthened_by_one_request() {
    let world = World::start();
    let lock = world.manager().lock("a").ttl(3600 * SECOND);
    // The server knows the scripts when they are counted.
    let holder = lock.acquire().await.unwrap();
    holder.extend().await.unwrap();
    world.manager().inspect("a").await.unwrap();
    holder.release().await.unwrap();
    let holder = lock.acquire().await.unwrap();
    let wait = waiter(&lock);
    world.until("LLEN {khoa:a}:queue", 1).await;
    let before = world.scripts_run();
    let fence = holder.fencing_token();
    holder.release().await.unwrap();
    let guard = wait.await.unwrap().unwrap();
    assert!(guard.is_valid());
    assert!(guard.fencing_token() > fence);
    let held = world.manager().inspect("a").await.unwrap().unwrap();
    assert_eq!(held.fencing_token, Some(guard.fencing_token()));
    lengthened(&world, &guard).await;
    // The release, the inspection and the lengthening.
    assert_eq!(world.scripts_run() - before, 3);
}

/// Lets half a second pass, after which a lease that was handed over is lengthened.
async fn lengthened(world: &World, guard: &Guard) {
    world.advance(500 * MS);
    while guard.remaining() < 3500 * SECOND {
        tokio::task::yield_now().await;
    }
}

#[tokio::test]
async fn a_long_lease_that_was_handed_over_and_is_given_back_soon_costs_nothing_more() {
    let world = World::start();
    let lock = world.manager().lock("a").ttl(3600 * SECOND);
    let (holder, first) = (lock.acquire().await.unwrap(), waiter(&lock));
    // The server knows the scripts when they are counted.
    holder.extend().await.unwrap();
    world.until("LLEN {khoa:a}:queue", 1).await;
    holder.release().await.unwrap();
    let first = first.await.unwrap().unwrap();
    let last = waiter(&lock);
    world.until("LLEN {khoa:a}:queue", 1).await;
    let before = world.scripts_run();
    world.advance(300 * MS);
    first.release().await.unwrap();
    let last = last.await.unwrap().unwrap();
    world.advance(300 * MS);
    assert_eq!(world.scripts_run() - before, 1);
    lengthened(&world, &last).await;
    assert_eq!(world.scripts_run() - before, 2);
}

#[tokio::test]
async fn a_lease_is_lengthened_though_the_runtime_that_looked_after_all_has_ended() {
    let world = World::start();
    let (manager, name) = (world.tcp_manager(), "LLEN {khoa:a}:queue");
    let lock = manager.lock("a").ttl(3600 * SECOND);
    let holder = lock.acquire().await.unwrap();
    let here = waiter(&lock);
    world.until(name, 1).await;
    // Both wait with one manager; the first to be handed something begins the work.
    let other = manager.lock("b").ttl(3600 * SECOND);
    let holder_b = other.acquire().await.unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    let there = runtime.spawn(async move { other.acquire().await });
    world.until("LLEN {khoa:b}:queue", 1).await;
    holder_b.release().await.unwrap();
    let there = there.await.unwrap().unwrap();
    holder.release().await.unwrap();
    let here = here.await.unwrap().unwrap();
    runtime.shutdown_background();
    lengthened(&world, &here).await;
    drop(there);
}

#[tokio::test]
async fn what_was_handed_over_to_a_waiter_that_hangs_passes_on_after_two_seconds() {
    let world = World::start();
    let lock = world.manager().lock("a").ttl(3600 * SECOND);
    let holder = lock.acquire().await.unwrap();
    // Its runtime stands still: the connection listens, and nobody reads what it hears.
    let (manager, queued) = (world.tcp_manager(), "LLEN {khoa:a}:queue");
    let hanging = std::thread::scope(|scope| {
        let hang = || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap();
            runtime.spawn(async move { manager.lock("a").acquire().await.map(drop) });
            runtime.block_on(world.until(queued, 1));
            runtime
        };
        scope.spawn(hang).join().unwrap()
    });
    holder.release().await.unwrap();
    assert!(world.ask::<i64>("PTTL khoa:a") <= 2000);
    world.advance(2 * SECOND);
    assert!(lock.try_acquire().await.unwrap().is_some());
    hanging.shutdown_background();
}

// portalocker#144
#[tokio::test]
async fn a_free_lock_takes_one_request_and_no_time() {
    let world = World::start();
    let lock = world.manager().lock("a");
    lock.acquire().await.unwrap().release().await.unwrap();
    let before = world.scripts_run();
    let guard = lock.acquire().await.unwrap();
    assert_eq!(world.scripts_run(), before + 1);
    guard.release().await.unwrap();
    assert_eq!(world.scripts_run(), before + 2);
}

// rueidis#244, PR#261; rueidis#602
#[tokio::test]
async fn a_connection_that_cannot_subscribe_polls_and_does_not_spin() {
    let world = World::start();
    let client = redis::Client::open(world.url()).unwrap();
    let config = redis::AsyncConnectionConfig::new().set_response_timeout(None);
    let connection = client
        .get_multiplexed_async_connection_with_config(&config)
        .await
        .unwrap();
    let lock = world
        .builder()
        .connection(connection)
        .lock("a")
        .ttl(3600 * SECOND);
    let holder = lock.acquire().await.unwrap();
    let before = world.scripts_run();
    let wait = waiter(&lock.clone().max_wait(60 * SECOND));
    for _ in 0..100 {
        settle().await;
        world.advance(100 * MS);
    }
    let polls = world.scripts_run() - before;
    assert!((30..=250).contains(&polls), "{polls}");
    holder.release().await.unwrap();
    assert!(world.drive(wait).await.unwrap().is_ok());
}

#[tokio::test]
async fn a_waiter_whose_subscription_broke_comes_back() {
    let world = World::start();
    let lock = world.manager().lock("a").ttl(3600 * SECOND);
    let holder = world
        .manager()
        .lock("a")
        .ttl(3600 * SECOND)
        .acquire()
        .await
        .unwrap();
    let wait = waiter(&lock);
    world.until("LLEN {khoa:a}:queue", 1).await;
    world.server().kill_clients();
    settle().await;
    world.drive(holder.release()).await.unwrap();
    world
        .drive(wait)
        .await
        .unwrap()
        .unwrap()
        .release()
        .await
        .unwrap();
    world.until_clean().await;
}

// redisson#3004
#[tokio::test]
async fn a_patient_waiter_keeps_its_place_for_as_long_as_it_takes() {
    let world = World::start();
    let lock = world.manager().lock("a").ttl(30 * SECOND).wait_forever();
    let holder = lock.clone().auto_renew(true).acquire().await.unwrap();
    let first = waiter(&lock);
    world.until("LLEN {khoa:a}:queue", 1).await;
    let _second = waiter(&lock);
    world.until("LLEN {khoa:a}:queue", 2).await;
    for _ in 0..140 {
        settle().await;
        world.advance(5 * SECOND);
    }
    assert!(holder.is_valid());
    holder.release().await.unwrap();
    assert!(first.await.unwrap().is_ok());
}

#[tokio::test]
async fn waiters_of_several_processes_are_served_in_their_order() {
    let world = World::start();
    let holder = world
        .manager()
        .lock("a")
        .ttl(3600 * SECOND)
        .acquire()
        .await
        .unwrap();
    let (sender, mut order) = tokio::sync::mpsc::unbounded_channel();
    for number in 0..20 {
        let (lock, sender) = (world.manager().lock("a").ttl(3600 * SECOND), sender.clone());
        tokio::spawn(async move {
            let guard = lock.acquire().await.unwrap();
            sender.send(number).unwrap();
            guard.release().await.unwrap();
        });
        world.until("LLEN {khoa:a}:queue", number + 1).await;
    }
    holder.release().await.unwrap();
    for number in 0..20 {
        assert_eq!(order.recv().await, Some(number));
    }
}

// As in the middle of a fail-over.
#[tokio::test]
async fn a_waiter_that_could_not_subscribe_takes_its_place_as_soon_as_it_can() {
    let world = World::start();
    let holder = world.manager().lock("a").ttl(3600 * SECOND);
    let holder = holder.acquire().await.unwrap();
    world.server().inject_on("SUBSCRIBE", Fault::DropBefore, 3);
    let mut wait = waiter(&world.manager().lock("a").max_wait(60 * SECOND));
    let queued = async {
        tokio::select! {
            () = world.until("LLEN {khoa:a}:queue", 1) => {}
            _ = &mut wait => panic!("it polled to the end"),
        }
    };
    world.drive(queued).await;
    holder.release().await.unwrap();
    // No time passes any more: it does not poll.
    assert!(wait.await.unwrap().is_ok());
}

// what nobody has, 2: a dead waiter leaves at once
#[tokio::test]
async fn dead_waiters_never_block_the_queue() {
    let world = World::start();
    let holder = world
        .manager()
        .lock("a")
        .ttl(3600 * SECOND)
        .acquire()
        .await
        .unwrap();
    for number in 0..3 {
        let doomed = world.manager().lock("a").ttl(3600 * SECOND);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let runtime = tokio::runtime::Runtime::new().unwrap();
                runtime.spawn(async move { doomed.acquire().await.map(drop) });
                runtime.block_on(world.until("LLEN {khoa:a}:queue", number + 1));
                // The runtime ends as a killed process would: nothing can clean up any more.
                runtime.shutdown_background();
            });
        });
    }
    let alive = waiter(&world.manager().lock("a").ttl(3600 * SECOND));
    world.until("LLEN {khoa:a}:queue", 4).await;
    // The end of a process reaches the server when its connections do.
    let listening = || world.ask::<String>("CLIENT LIST TYPE pubsub");
    while listening().lines().count() > 1 {
        tokio::task::yield_now().await;
    }
    holder.release().await.unwrap();
    // No time passes: nobody waits for the dead.
    assert!(alive.await.unwrap().is_ok());
}

#[tokio::test]
async fn a_newcomer_does_not_overtake_those_who_wait() {
    let world = World::start();
    let lock = world.manager().lock("a").ttl(3600 * SECOND);
    let holder = lock.acquire().await.unwrap();
    let wait = waiter(&lock);
    world.until("LLEN {khoa:a}:queue", 1).await;
    let _: i64 = world.ask("DEL khoa:a");
    drop(holder);
    assert!(lock.try_acquire().await.unwrap().is_none());
    assert!(wait.await.unwrap().is_ok());
}

// etcd, curator#727: a request that is repeated finds what the first one did
#[tokio::test]
async fn an_acquisition_finds_itself_again_after_a_lost_answer() {
    let world = World::start();
    let lock = world.manager().lock("a").ttl(3600 * SECOND);
    lock.acquire().await.unwrap().release().await.unwrap();
    world.server().inject_on("EVALSHA", Fault::DropAfter, 3);
    let guard = world.drive(lock.acquire()).await.unwrap();
    assert!(guard.is_valid());
    assert_eq!(world.ask::<i64>("EXISTS {khoa:a}:queue"), 0);
}
