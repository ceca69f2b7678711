//! A lock that must have reached replicas before it counts. That it has is seen on real servers
//! only: `tests/real_servers/run`.

use khoa::{Error, Wait};

use crate::support::{MS, SECOND, World};

#[tokio::test]
async fn without_enough_replicas_the_lock_is_refused_and_given_back() {
    let world = World::start();
    let lock = world.manager().lock("a").ttl(3600 * SECOND);
    let lock = lock.replicated(1, 10 * MS);
    let error = world.drive(lock.try_acquire()).await.unwrap_err();
    let few = Error::TooFewReplicas {
        acknowledged: 0,
        needed: 1,
    };
    assert_eq!(error.to_string(), few.to_string());
    assert_eq!(world.ask::<i64>("EXISTS khoa:a"), 0);
    let patient = lock.wait(Wait::fixed(MS).at_most(3)).wait_forever();
    let error = world.drive(patient.acquire()).await.unwrap_err();
    let Error::TimedOut {
        last: Some(last), ..
    } = error
    else {
        panic!("{error}")
    };
    assert!(matches!(*last, Error::TooFewReplicas { .. }), "{last}");
    world.until_clean().await;
}

#[tokio::test]
async fn what_a_replicated_lock_gives_back_goes_to_the_next_waiter() {
    let world = World::start();
    let holder = world.manager().lock("a").acquire().await.unwrap();
    let demanding = world
        .manager()
        .lock("a")
        .replicated(1, 10 * MS)
        .ttl(3600 * SECOND);
    let demanding = tokio::spawn(async move { demanding.acquire_within(SECOND).await });
    world.until("LLEN {khoa:a}:queue", 1).await;
    let modest = world.manager().lock("a");
    let modest = tokio::spawn(async move { modest.acquire().await });
    world.until("LLEN {khoa:a}:queue", 2).await;
    holder.release().await.unwrap();
    assert!(world.drive(modest).await.unwrap().unwrap().is_valid());
    assert!(
        world
            .drive(demanding)
            .await
            .unwrap()
            .unwrap_err()
            .is_timeout()
    );
}

#[tokio::test]
async fn a_server_that_does_not_say_how_many_have_it_is_one_without_replicas() {
    let world = World::start();
    let lock = world.hasty_manager(SECOND).lock("a").replicated(1, 10 * MS);
    lock.clone()
        .replicated(0, 10 * MS)
        .acquire()
        .await
        .unwrap()
        .release()
        .await
        .unwrap();
    world
        .server()
        .inject_on("WAIT", khoa_server::Fault::DropBefore, 1);
    let error = world.drive(lock.try_acquire()).await.unwrap_err();
    assert!(matches!(error, Error::Backend { .. }), "{error}");
    world.until_clean().await;
}

#[tokio::test]
async fn a_quorum_cannot_be_asked_for_its_replicas() {
    let world = World::start();
    let redlock = khoa::Redlock::new([world.manager()]).unwrap();
    let error = redlock
        .lock("a")
        .replicated(1, MS)
        .try_acquire()
        .await
        .unwrap_err();
    assert!(matches!(error, Error::Unsupported { .. }), "{error}");
    world.until_clean().await;
}
