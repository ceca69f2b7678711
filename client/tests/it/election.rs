//! Leader election.

use crate::support::{SECOND, World};

#[tokio::test]
async fn the_next_candidate_follows_when_the_leader_resigns() {
    let world = World::start();
    let (a, b) = (
        world.manager().election("e").candidate("a"),
        world.manager().election("e").candidate("b"),
    );
    let first = a.campaign().await.unwrap();
    assert_eq!(b.leader().await.unwrap().unwrap().label, b"a");
    let second = tokio::spawn({
        let b = b.clone();
        async move { b.campaign().await.unwrap() }
    });
    world.until("LLEN {khoa:e}:queue", 1).await;
    let term = first.fencing_token();
    first.resign().await.unwrap();
    let second = second.await.unwrap();
    assert!(second.fencing_token() > term);
    assert_eq!(a.leader().await.unwrap().unwrap().label, b"b");
}

#[tokio::test]
async fn an_observer_sees_the_succession() {
    let world = World::start();
    let election = world.manager().election("e").candidate("a");
    let mut observer = election.observe();
    assert_eq!(observer.changed().await.unwrap(), None);
    let leader = election.campaign().await.unwrap();
    assert_eq!(observer.changed().await.unwrap().unwrap().label, b"a");
    leader.resign().await.unwrap();
    assert_eq!(observer.changed().await.unwrap(), None);
}

#[tokio::test]
async fn an_observer_is_told_of_each_change_and_does_not_poll_for_it() {
    let world = World::start();
    let election = world.manager().election("e").candidate("a");
    let mut observer = world.manager().election("e").observe();
    assert_eq!(observer.changed().await.unwrap(), None);
    let mut watched = Vec::new();
    // No time passes: neither the second after which it looks nor a term ends.
    for campaign in [true, false, true] {
        let watch = tokio::spawn(async move { (observer.changed().await, observer) });
        world
            .until(
                "PUBSUB NUMSUB {khoa:e}:leader",
                ("{khoa:e}:leader".to_owned(), 1),
            )
            .await;
        crate::support::settle().await;
        if campaign {
            watched.push(election.campaign().await.unwrap());
        } else {
            watched.pop().unwrap().resign().await.unwrap();
        }
        let (leader, back) = watch.await.unwrap();
        assert_eq!(leader.unwrap().is_some(), campaign);
        observer = back;
    }
}

#[tokio::test]
async fn an_observer_whose_subscription_broke_still_sees_the_change() {
    let world = World::start();
    let election = world.manager().election("e").candidate("a");
    let mut observer = election.observe();
    assert_eq!(observer.changed().await.unwrap(), None);
    world.server().kill_clients();
    let _leader = world.drive(election.campaign()).await.unwrap();
    assert!(world.drive(observer.changed()).await.unwrap().is_some());
}

// kubernetes#23731
#[tokio::test]
async fn a_leader_that_is_replaced_learns_it_and_stops_its_work() {
    let world = World::start();
    let election = world.manager().election("e").term(3 * SECOND);
    let leading = tokio::spawn({
        let election = election.clone();
        async move {
            let leadership = election.campaign().await.unwrap();
            leadership.lost().await
        }
    });
    world.until("EXISTS khoa:e", 1).await;
    assert!(world.manager().force_release("e").await.unwrap());
    let _other = world.manager().lock("e").acquire().await.unwrap();
    assert_eq!(
        world.drive(leading).await.unwrap(),
        khoa::Loss::TakenByAnother
    );
}
