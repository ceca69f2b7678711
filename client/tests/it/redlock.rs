//! One lock over several servers.

use std::future::Future;

use khoa::{Error, Redlock, Released};
use khoa_server::Fault;

use crate::support::{MS, SECOND, World, dropped_at};

fn over(worlds: &[World]) -> Redlock {
    let clock = worlds[0].clock.clock();
    let managers = worlds
        .iter()
        .enumerate()
        .map(|(index, world)| world.open(world.builder().clock(clock.clone()).index(index)));
    Redlock::new(managers).unwrap()
}

fn worlds(number: usize) -> Vec<World> {
    (0..number).map(|_| World::start()).collect()
}

#[tokio::test]
async fn a_majority_excludes_others_and_is_released_everywhere() {
    let worlds = worlds(3);
    let lock = over(&worlds).lock("r");
    let guard = lock.try_acquire().await.unwrap().unwrap();
    assert!(lock.try_acquire().await.unwrap().is_none());
    assert_eq!(guard.release().await.unwrap(), Released::Released);
    for world in &worlds {
        assert_eq!(world.ask::<i64>("EXISTS khoa:r"), 0);
    }
    assert!(lock.try_acquire().await.unwrap().is_some());
}

#[tokio::test]
async fn a_minority_held_by_another_does_not_matter_and_is_left_alone() {
    let worlds = worlds(3);
    let _other = worlds[1].manager().lock("r").acquire().await.unwrap();
    let guard = over(&worlds)
        .lock("r")
        .try_acquire()
        .await
        .unwrap()
        .unwrap();
    assert_eq!(guard.release().await.unwrap(), Released::Released);
    assert_eq!(worlds[1].ask::<i64>("EXISTS khoa:r"), 1);
}

#[tokio::test]
async fn without_a_majority_nothing_stays_behind() {
    let worlds = worlds(3);
    let _one = worlds[0].manager().lock("r").acquire().await.unwrap();
    let _two = worlds[1].manager().lock("r").acquire().await.unwrap();
    assert!(
        over(&worlds)
            .lock("r")
            .try_acquire()
            .await
            .unwrap()
            .is_none()
    );
    assert_eq!(worlds[2].ask::<i64>("EXISTS khoa:r"), 0);
}

#[tokio::test]
async fn fencing_tokens_rise_whichever_majority_grants() {
    let worlds = worlds(3);
    let lock = over(&worlds).lock("r");
    let mut last = 0;
    for round in 0..6 {
        let blocker = worlds[round % 3]
            .manager()
            .lock("r")
            .acquire()
            .await
            .unwrap();
        let guard = lock.acquire().await.unwrap();
        assert!(guard.fencing_token() > last);
        last = guard.fencing_token();
        guard.release().await.unwrap();
        blocker.release().await.unwrap();
    }
}

#[tokio::test]
async fn a_server_that_lost_the_lock_gets_it_back_with_the_next_extension() {
    let worlds = worlds(3);
    let guard = over(&worlds)
        .lock("r")
        .ttl(10 * SECOND)
        .acquire()
        .await
        .unwrap();
    worlds[2].until("EXISTS khoa:r", 1).await;
    let _: i64 = worlds[2].ask("DEL khoa:r");
    guard.extend().await.unwrap();
    assert_eq!(worlds[2].ask::<i64>("EXISTS khoa:r"), 1);
}

#[tokio::test]
async fn an_extension_without_a_majority_is_a_loss() {
    let worlds = worlds(3);
    let guard = over(&worlds)
        .lock("r")
        .ttl(10 * SECOND)
        .acquire()
        .await
        .unwrap();
    for world in &worlds[..2] {
        world.until("EXISTS khoa:r", 1).await;
        let _: i64 = world.ask("DEL khoa:r");
    }
    assert!(guard.extend().await.unwrap_err().is_lost());
    assert_eq!(worlds[0].ask::<i64>("EXISTS khoa:r"), 0);
}

#[tokio::test]
async fn validity_is_the_ttl_less_the_time_since_the_start_and_the_drift() {
    let worlds = worlds(3);
    let guard = over(&worlds)
        .lock("r")
        .ttl(10 * SECOND)
        .acquire()
        .await
        .unwrap();
    assert_eq!(guard.remaining(), (10_000 - 100 - 2) * MS);
}

#[tokio::test]
async fn an_even_number_of_servers_is_refused() {
    let urls = ["redis://127.0.0.1:1/", "redis://127.0.0.1:2/"];
    assert!(matches!(
        Redlock::open(urls),
        Err(Error::InvalidOption { .. })
    ));
    assert!(matches!(
        Redlock::open(Vec::<String>::new()),
        Err(Error::InvalidOption { .. })
    ));
}

// redisson#624, #656, #1175, #1292, #2172
#[tokio::test]
async fn servers_that_hang_cost_one_node_timeout_and_not_one_each() {
    let worlds = worlds(5);
    let clock = worlds[0].clock.clone();
    let lock = over(&worlds).lock("r").ttl(60 * SECOND);
    lock.acquire().await.unwrap().release().await.unwrap();
    for world in &worlds[..3] {
        world.server().inject(Fault::Latency(3600 * SECOND));
    }
    let begun = clock.clock().now();
    let error = drive_all(&worlds, lock.try_acquire()).await.unwrap_err();
    // One timeout for the attempt, one for giving back what was granted.
    assert!(clock.clock().now() - begun <= 2 * 50 * MS + 60 * MS);
    let Error::Quorum {
        needed: 3, errors, ..
    } = error
    else {
        panic!("{error}")
    };
    assert_eq!(errors.len(), 3);
    for world in &worlds {
        world.server().clear_faults();
        assert_eq!(world.ask::<i64>("EXISTS khoa:r"), 0);
    }
}

// redsync#140
#[tokio::test]
async fn a_majority_is_enough_and_nobody_waits_for_the_slowest() {
    let worlds = worlds(5);
    let lock = over(&worlds).lock("r").ttl(60 * SECOND);
    lock.acquire().await.unwrap().release().await.unwrap();
    worlds[4]
        .server()
        .inject_on("EVALSHA", Fault::SwallowReply, 1);
    // No time passes.
    let guard = lock.acquire().await.unwrap();
    worlds[4].until("EXISTS khoa:r", 1).await;
    assert_eq!(
        drive_all(&worlds, guard.release()).await.unwrap(),
        Released::Released
    );
    drive_all(&worlds, async {
        while worlds
            .iter()
            .any(|world| world.ask::<i64>("EXISTS khoa:r") == 1)
        {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

#[tokio::test]
async fn a_minority_that_is_down_stops_nobody() {
    let worlds = worlds(5);
    let lock = over(&worlds).lock("r").ttl(60 * SECOND);
    for world in &worlds[..2] {
        world.server().inject(Fault::DropBefore);
    }
    for _ in 0..3 {
        let guard = drive_all(&worlds, lock.acquire()).await.unwrap();
        drive_all(&worlds, guard.extend()).await.unwrap();
        assert!(
            drive_all(&worlds, lock.try_acquire())
                .await
                .unwrap()
                .is_none()
        );
        assert_eq!(
            drive_all(&worlds, guard.release()).await.unwrap(),
            Released::Released
        );
    }
}

#[tokio::test]
async fn an_error_names_the_servers_that_failed() {
    let worlds = worlds(3);
    for world in &worlds[1..] {
        world.server().fail_with("READONLY for a test");
    }
    let error = over(&worlds).lock("r").try_acquire().await.unwrap_err();
    let Error::Quorum {
        needed: 2, errors, ..
    } = error
    else {
        panic!("{error}")
    };
    let mut nodes: Vec<usize> = errors
        .iter()
        .map(|error| match error {
            Error::Backend { node, .. } => *node,
            other => panic!("{other}"),
        })
        .collect();
    nodes.sort_unstable();
    assert_eq!(nodes, [1, 2]);
}

// redlock(rs) 2.0.0: `ttl - drift - elapsed` underflows
#[tokio::test]
async fn a_majority_that_answers_after_the_ttl_is_no_lock() {
    let worlds = worlds(3);
    let lock = over(&worlds).lock("r");
    lock.acquire().await.unwrap().release().await.unwrap();
    let short = lock.ttl(3 * MS);
    let mut attempt = Box::pin(short.try_acquire());
    assert!(dropped_at(2, &mut attempt).await.is_none());
    worlds[0].clock.advance(10 * MS);
    assert!(drive_all(&worlds, attempt).await.is_err());
}

fn waiter(redlock: &Redlock) -> tokio::task::JoinHandle<Result<khoa::Guard, Error>> {
    let lock = redlock.lock("r").ttl(3600 * SECOND);
    tokio::spawn(async move { lock.acquire().await })
}

async fn queued(worlds: &[World], waiters: u64) {
    for world in worlds {
        world.until("LLEN {khoa:r}:queue", waiters).await;
    }
}

#[tokio::test]
async fn waiters_are_woken_by_push_in_their_order() {
    let worlds = worlds(3);
    let holder = over(&worlds)
        .lock("r")
        .ttl(3600 * SECOND)
        .acquire()
        .await
        .unwrap();
    let (sender, mut order) = tokio::sync::mpsc::unbounded_channel();
    for number in 0..5 {
        let (lock, sender) = (over(&worlds).lock("r").ttl(3600 * SECOND), sender.clone());
        tokio::spawn(async move {
            let guard = lock.acquire().await.unwrap();
            sender.send(number).unwrap();
            guard.release().await.unwrap();
        });
        queued(&worlds, number + 1).await;
    }
    holder.release().await.unwrap();
    // No time passes in which anyone could poll.
    for number in 0..5 {
        assert_eq!(order.recv().await, Some(number));
    }
}

#[tokio::test]
async fn requests_per_hand_over_of_a_quorum_do_not_grow_with_the_waiters() {
    let mut each = Vec::new();
    for waiters in [10, 40] {
        let worlds = worlds(3);
        let redlock = over(&worlds);
        let holder = redlock
            .lock("r")
            .ttl(3600 * SECOND)
            .acquire()
            .await
            .unwrap();
        let waits: Vec<_> = (0..waiters)
            .map(|_| {
                let wait = waiter(&redlock);
                tokio::spawn(async move { wait.await.unwrap()?.release().await })
            })
            .collect();
        queued(&worlds, waiters).await;
        let before = worlds[0].scripts_run();
        holder.release().await.unwrap();
        for wait in waits {
            wait.await.unwrap().unwrap();
        }
        each.push((worlds[0].scripts_run() - before) as f64 / waiters as f64);
    }
    // A release, a request, and the raising of the number on each server.
    assert!(
        each.iter().all(|each| (2.0..=3.5).contains(each)),
        "{each:?}"
    );
}

#[tokio::test]
async fn waiters_of_a_quorum_are_woken_though_a_minority_is_down() {
    let worlds = worlds(3);
    let redlock = over(&worlds);
    let holder = redlock
        .lock("r")
        .ttl(3600 * SECOND)
        .acquire()
        .await
        .unwrap();
    let wait = waiter(&redlock);
    queued(&worlds, 1).await;
    worlds[2].server().inject(Fault::DropBefore);
    let clock = worlds[0].clock.clock();
    let began = clock.now();
    drive_all(&worlds, holder.release()).await.unwrap();
    assert!(drive_all(&worlds, wait).await.unwrap().is_ok());
    // The fallback would come after a second.
    assert!(clock.now() - began < 300 * MS, "{:?}", clock.now() - began);
}

#[tokio::test]
async fn two_waiters_who_were_each_called_by_some_servers_do_not_block_each_other() {
    let worlds = worlds(3);
    let holder = over(&worlds)
        .lock("r")
        .ttl(3600 * SECOND)
        .acquire()
        .await
        .unwrap();
    let waits = [over(&worlds), over(&worlds)].map(|redlock| {
        let wait = waiter(&redlock);
        tokio::spawn(async move { wait.await.unwrap()?.release().await })
    });
    queued(&worlds, 2).await;
    // One server has seen them in the other order, and one has forgotten both.
    let _: String = worlds[1].ask("LMOVE {khoa:r}:queue {khoa:r}:queue LEFT RIGHT");
    let _: i64 = worlds[2].ask("DEL {khoa:r}:queue");
    holder.release().await.unwrap();
    for wait in waits {
        drive_all(&worlds, wait).await.unwrap().unwrap();
    }
}

#[tokio::test]
async fn waits_for_a_quorum_that_ended_leave_nothing_in_any_queue() {
    let worlds = worlds(3);
    let _holder = over(&worlds)
        .lock("r")
        .ttl(3600 * SECOND)
        .acquire()
        .await
        .unwrap();
    let redlock = over(&worlds);
    let waits: Vec<_> = (0..20).map(|_| waiter(&redlock)).collect();
    queued(&worlds, 20).await;
    waits.iter().for_each(tokio::task::JoinHandle::abort);
    queued(&worlds, 0).await;
}

/// Lets time pass on all the servers and the clock that they share.
async fn drive_all<F: Future>(worlds: &[World], work: F) -> F::Output {
    let mut work = std::pin::pin!(work);
    loop {
        for _ in 0..200 {
            tokio::select! {
                biased;
                output = &mut work => return output,
                () = tokio::task::yield_now() => {}
            }
        }
        for world in worlds {
            world.server().advance(5 * MS);
        }
        worlds[0].clock.advance(5 * MS);
    }
}
