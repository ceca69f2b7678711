//! All that the library offers, used once over a manager, however that is connected. The tests of
//! connections in `client/connections` share this file.

use std::time::Duration;

use khoa::{Error, Manager, ManagerBuilder, ManualClock, Released};

const SECOND: Duration = Duration::from_secs(1);

/// What a kind of connection can do besides sending commands.
#[derive(Clone, Copy, PartialEq)]
pub enum Can {
    Listen,
    OnlyAsk,
}

/// Uses every primitive once, and most of their scripts.
pub async fn everything_works(manager: &Manager, can: Can) {
    let guard = manager.lock("lock").acquire().await.unwrap();
    guard.extend().await.unwrap();
    let fence = guard.fencing_token();
    manager
        .set_fenced("value", "1", &guard.lease())
        .await
        .unwrap();
    let held = manager.inspect("lock").await.unwrap().unwrap();
    assert_eq!(held.fencing_token, Some(fence));
    assert!(manager.lock("lock").try_acquire().await.unwrap().is_none());
    let waiting = tokio::spawn({
        let manager = manager.clone();
        async move { manager.lock("lock").acquire().await }
    });
    while manager.inspect("lock").await.unwrap().unwrap().waiting == 0 && can == Can::Listen {
        tokio::task::yield_now().await;
    }
    assert_eq!(guard.release().await.unwrap(), Released::Released);
    let next = waiting.await.unwrap().unwrap();
    assert!(next.fencing_token() > fence);
    if !manager
        .holders("lo", 10)
        .await
        .is_ok_and(|holders| holders.len() == 1)
    {
        assert!(can == Can::OnlyAsk, "a lock is not in the list");
    }
    assert!(manager.force_release("lock").await.unwrap());
    assert!(next.extend().await.unwrap_err().is_lost());

    let permit = manager.semaphore("permits", 2).acquire().await.unwrap();
    permit.extend().await.unwrap();
    assert_eq!(manager.permits_held("permits").await.unwrap(), 1);
    permit.release().await.unwrap();
    let settings = manager.read_write("settings");
    let reading = settings.read().acquire().await.unwrap();
    reading.extend().await.unwrap();
    reading.release().await.unwrap();
    let writing = settings.write().acquire().await.unwrap();
    writing.release().await.unwrap();
    let both = manager.lock_all(["{t}a", "{t}b"]).acquire().await.unwrap();
    both.extend().await.unwrap();
    both.release().await.unwrap();
    let set = khoa::LockSet::new([manager.lock("x"), manager.lock("y")]);
    set.acquire().await.unwrap().release().await.unwrap();
    let owner = manager.lock("tree").reentrant();
    let (outer, inner) = (
        owner.acquire().await.unwrap(),
        owner.acquire().await.unwrap(),
    );
    inner.release().await.unwrap();
    outer.release().await.unwrap();

    let election = manager.election("election").candidate("me");
    let leadership = election.campaign().await.unwrap();
    let leader = election.observe().changed().await.unwrap().unwrap();
    assert_eq!(leader.label, b"me");
    leadership.resign().await.unwrap();
    let hourly = manager.once_per("hourly", 3600 * SECOND);
    assert!(hourly.claim().await.unwrap().mine);
    assert!(!hourly.claim().await.unwrap().mine);
    let latch = manager.latch("latch").unwrap();
    latch.set(1, 60 * SECOND).await.unwrap();
    latch.count_down(1).await.unwrap();
    latch.wait_within(SECOND).await.unwrap();
    let queue = manager.queue("queue").unwrap();
    queue.push("job").await.unwrap();
    let job = queue.take_within(SECOND).await.unwrap();
    assert_eq!(job.payload(), b"job");
    job.done().await.unwrap();
    for limiter in [
        manager.fixed_window(1, 60 * SECOND),
        manager.sliding_window(1, 60 * SECOND),
    ] {
        let limiter = limiter.unwrap();
        assert!(limiter.hit("client").await.unwrap().allowed);
        assert!(!limiter.hit("client").await.unwrap().allowed);
    }
    // Names that say nothing of slots, or something odd.
    for name in ["{", "}", "{}", "a{b}c", "}{", "{{a}}"] {
        let guard = manager.lock(name).acquire().await.unwrap();
        guard.release().await.unwrap();
    }
    match manager.subscribe("news").await {
        Ok(mut news) => {
            manager.publish("news", "hello").await.unwrap();
            assert_eq!(
                news.next().await.unwrap(),
                khoa::Event::Message(b"hello".to_vec())
            );
        }
        Err(Error::Unsupported { .. }) => assert!(can == Can::OnlyAsk),
        Err(error) => panic!("{error}"),
    }
}

/// A waiter gets what is released though no time passes that would let it poll.
pub async fn waiters_are_woken_by_push(open: impl Fn(ManagerBuilder) -> Manager) {
    let clock = ManualClock::new();
    let manager = || {
        let settings = Manager::builder().clock(clock.clock());
        open(settings.request_timeout(3600 * SECOND))
    };
    let (here, there) = (manager(), manager());
    for hold in [SECOND, 3600 * SECOND] {
        let holder = here
            .lock("pushed")
            .ttl(3600 * SECOND)
            .acquire()
            .await
            .unwrap();
        let waiting: Vec<_> = (0..3)
            .map(|number| {
                let manager = if number == 1 {
                    here.clone()
                } else {
                    there.clone()
                };
                tokio::spawn(async move {
                    let lock = manager.lock("pushed").ttl(hold);
                    lock.acquire().await.unwrap().release().await
                })
            })
            .collect();
        while here.inspect("pushed").await.unwrap().unwrap().waiting < 3 {
            tokio::task::yield_now().await;
        }
        holder.release().await.unwrap();
        for waiter in waiting {
            assert_eq!(waiter.await.unwrap().unwrap(), Released::Released);
        }
    }
    let (latch, there) = (
        here.latch("pushed").unwrap(),
        there.latch("pushed").unwrap(),
    );
    latch.set(1, 60 * SECOND).await.unwrap();
    let waiting = tokio::spawn(async move { there.wait_within(3600 * SECOND).await });
    for _ in 0..2000 {
        tokio::task::yield_now().await;
    }
    latch.count_down(1).await.unwrap();
    waiting.await.unwrap().unwrap();
}
