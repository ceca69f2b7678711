//! One lock over several servers.

use khoa::{Error, Redlock, Released};

use crate::support::{MS, SECOND, World};

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
