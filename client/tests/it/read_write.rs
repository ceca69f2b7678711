//! The read-write lock.

use khoa::Released;

use crate::support::{MS, SECOND, World};

#[tokio::test]
async fn readers_share_and_a_writer_excludes_everyone() {
    let world = World::start();
    let lock = world.manager().read_write("d");
    let first = lock.read().try_acquire().await.unwrap().unwrap();
    let second = lock.read().try_acquire().await.unwrap().unwrap();
    assert!(lock.write().try_acquire().await.unwrap().is_none());
    first.release().await.unwrap();
    assert!(lock.write().try_acquire().await.unwrap().is_none());
    second.release().await.unwrap();
    let writer = lock.write().try_acquire().await.unwrap().unwrap();
    assert!(lock.read().try_acquire().await.unwrap().is_none());
    assert!(lock.write().try_acquire().await.unwrap().is_none());
    assert_eq!(writer.release().await.unwrap(), Released::Released);
    assert!(lock.read().try_acquire().await.unwrap().is_some());
}

// redisson#2144
#[tokio::test]
async fn a_short_reader_does_not_shorten_a_long_one() {
    let world = World::start();
    let lock = world.manager().read_write("d");
    let _long = lock.read().ttl(10 * SECOND).acquire().await.unwrap();
    let _short = lock.read().ttl(SECOND).acquire().await.unwrap();
    assert!(world.ask::<i64>("PTTL {khoa:d}:readers") > 9000);
    world.advance(SECOND + MS);
    assert!(lock.write().try_acquire().await.unwrap().is_none());
}

// redisson#1458
#[tokio::test]
async fn a_dead_reader_ends_by_itself_while_another_renews() {
    let world = World::start();
    let lock = world.manager().read_write("d");
    let alive = lock.read().ttl(3 * SECOND).acquire().await.unwrap();
    let dead = lock.read().ttl(3 * SECOND).acquire().await.unwrap();
    world.advance(2 * SECOND);
    alive.extend().await.unwrap();
    world.advance(SECOND + MS);
    assert!(dead.is_lost());
    assert_eq!(alive.release().await.unwrap(), Released::Released);
    assert!(lock.write().try_acquire().await.unwrap().is_some());
}

#[tokio::test]
async fn a_waiting_writer_goes_before_later_readers() {
    let world = World::start();
    let lock = world.manager().read_write("d");
    let reader = lock.read().acquire().await.unwrap();
    let writer = tokio::spawn({
        let lock = lock.write();
        async move { lock.acquire().await }
    });
    world.until("LLEN {khoa:d}:rw-queue", 1).await;
    assert!(lock.read().try_acquire().await.unwrap().is_none());
    reader.release().await.unwrap();
    let writer = writer.await.unwrap().unwrap();
    assert!(lock.read().try_acquire().await.unwrap().is_none());
    writer.release().await.unwrap();
}

#[tokio::test]
async fn readers_join_past_a_waiting_writer_when_asked_to() {
    let world = World::start();
    let lock = world.manager().read_write("d").writers_first(false);
    let _reader = lock.read().acquire().await.unwrap();
    let _writer = tokio::spawn({
        let lock = lock.write();
        async move { lock.acquire().await }
    });
    world.until("LLEN {khoa:d}:rw-queue", 1).await;
    assert!(lock.read().try_acquire().await.unwrap().is_some());
}

#[tokio::test]
async fn readers_that_wait_together_enter_together() {
    let world = World::start();
    let lock = world.manager().read_write("d");
    let writer = lock.write().acquire().await.unwrap();
    let readers: Vec<_> = (0..3)
        .map(|_| {
            let lock = lock.read();
            tokio::spawn(async move { lock.acquire().await.unwrap() })
        })
        .collect();
    world.until("LLEN {khoa:d}:rw-queue", 3).await;
    writer.release().await.unwrap();
    let mut held = Vec::new();
    for reader in readers {
        held.push(reader.await.unwrap());
    }
    assert!(held.iter().all(|reader| reader.is_valid()));
}

#[tokio::test]
async fn fencing_tokens_rise_over_readers_and_writers() {
    let world = World::start();
    let lock = world.manager().read_write("d");
    let reader = lock.read().acquire().await.unwrap();
    let other = lock.read().acquire().await.unwrap();
    assert!(other.fencing_token() > reader.fencing_token());
    let highest = other.fencing_token();
    reader.release().await.unwrap();
    other.release().await.unwrap();
    let writer = lock.write().acquire().await.unwrap();
    assert!(writer.fencing_token() > highest);
}
