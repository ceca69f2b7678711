//! The rate limiters.

use khoa::{Error, RateLimiter};

use crate::support::{MS, SECOND, World};

async fn allowed_of(limiter: &RateLimiter, requests: usize) -> usize {
    let mut allowed = 0;
    for _ in 0..requests {
        allowed += usize::from(limiter.hit("client").await.unwrap().allowed);
    }
    allowed
}

#[tokio::test]
async fn a_fixed_window_allows_its_limit_and_then_waits_for_its_end() {
    let world = World::start();
    let limiter = world.manager().fixed_window(5, SECOND).unwrap();
    assert_eq!(allowed_of(&limiter, 8).await, 5);
    let refused = limiter.hit("client").await.unwrap();
    assert_eq!((refused.allowed, refused.remaining), (false, 0));
    assert!(refused.retry_after <= SECOND && refused.retry_after > SECOND / 2);
    assert!(limiter.hit("another").await.unwrap().allowed);
    world.advance(SECOND + MS);
    assert_eq!(allowed_of(&limiter, 8).await, 5);
}

#[tokio::test]
async fn a_fixed_window_lets_twice_its_limit_through_around_its_end_and_a_sliding_one_does_not() {
    let world = World::start();
    let fixed = world.manager().fixed_window(5, SECOND).unwrap();
    let sliding = world.manager().sliding_window(5, SECOND).unwrap();
    assert_eq!(
        (allowed_of(&fixed, 1).await, allowed_of(&sliding, 1).await),
        (1, 1)
    );
    world.advance(SECOND * 9 / 10);
    assert_eq!(
        (allowed_of(&fixed, 9).await, allowed_of(&sliding, 9).await),
        (4, 4)
    );
    world.advance(SECOND / 10 + MS);
    assert_eq!(
        (allowed_of(&fixed, 9).await, allowed_of(&sliding, 9).await),
        (5, 1)
    );
}

#[tokio::test]
async fn a_sliding_window_says_when_the_next_request_will_pass() {
    let world = World::start();
    let limiter = world.manager().sliding_window(2, SECOND).unwrap();
    assert_eq!(allowed_of(&limiter, 3).await, 2);
    let refused = limiter.hit("client").await.unwrap();
    world.advance(refused.retry_after);
    assert!(limiter.hit("client").await.unwrap().allowed);
}

#[tokio::test]
async fn a_costly_request_is_counted_as_a_whole_or_not_at_all() {
    let world = World::start();
    for limiter in [
        world.manager().fixed_window(5, SECOND).unwrap(),
        world.manager().sliding_window(5, SECOND).unwrap(),
    ] {
        assert!(limiter.take("c", 3).await.unwrap().allowed);
        assert_eq!(limiter.take("c", 3).await.unwrap().remaining, 2);
        assert!(limiter.take("c", 2).await.unwrap().allowed);
        assert!(matches!(
            limiter.take("c", 6).await,
            Err(Error::InvalidOption { .. })
        ));
    }
}

#[tokio::test]
async fn waiting_for_a_limiter_takes_as_long_as_it_said() {
    let world = World::start();
    let limiter = world.manager().sliding_window(1, SECOND).unwrap();
    limiter.hit("client").await.unwrap();
    assert!(
        limiter
            .wait_within("client", SECOND / 2)
            .await
            .unwrap_err()
            .is_timeout()
    );
    let before = world.clock.clock().now();
    let verdict = world
        .drive(limiter.wait_within("client", 5 * SECOND))
        .await
        .unwrap();
    assert!(verdict.allowed);
    assert!(world.clock.clock().now() - before >= SECOND / 2);
}
