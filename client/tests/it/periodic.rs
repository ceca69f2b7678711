//! Once per period.

use std::time::Duration;

use khoa::Error;

use crate::support::{MS, World};

#[tokio::test]
async fn of_many_callers_in_a_period_one_runs_the_job() {
    let world = World::start();
    let mut runs = 0;
    for _ in 0..5 {
        let job = world.manager().once_per("p", Duration::from_secs(3600));
        runs += usize::from(job.run(|_| async {}).await.unwrap().is_some());
    }
    assert_eq!(runs, 1);
}

#[tokio::test]
async fn the_next_period_is_claimed_anew() {
    let world = World::start();
    let job = world.manager().once_per("p", Duration::from_secs(1));
    let first = job.claim().await.unwrap();
    assert!(first.mine);
    world.advance(first.next_in + MS);
    let second = job.claim().await.unwrap();
    assert!(second.mine);
    assert_eq!(second.period, first.period + 1);
    assert!(!job.claim().await.unwrap().mine);
}

#[tokio::test]
async fn an_offset_moves_the_beginning_of_a_period() {
    let world = World::start();
    let hour = Duration::from_secs(3600);
    let plain = world.manager().once_per("p", hour).claim().await.unwrap();
    let moved = world
        .manager()
        .once_per("q", hour)
        .offset(hour / 2)
        .claim()
        .await
        .unwrap();
    let apart = plain.next_in.abs_diff(moved.next_in);
    assert!(
        apart.abs_diff(hour / 2) < Duration::from_secs(60),
        "{apart:?}"
    );
}

#[tokio::test]
async fn a_period_of_no_length_is_refused() {
    let job = World::start().manager().once_per("p", Duration::ZERO);
    assert!(matches!(
        job.claim().await.unwrap_err(),
        Error::InvalidTtl { .. }
    ));
}
