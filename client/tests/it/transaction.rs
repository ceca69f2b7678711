//! Optimistic transactions.

use khoa::redis::{self, AsyncCommands};
use khoa::{Committed, Error, Wait};

use crate::support::{SECOND, World};

async fn increment(manager: khoa::Manager) -> Committed<(String,)> {
    let increment = |mut connection: redis::aio::MultiplexedConnection| async move {
        let count: i64 = connection.get::<_, Option<i64>>("n").await?.unwrap_or(0);
        Ok(redis::pipe().set("n", count + 1).clone())
    };
    // How much time passes meanwhile is not for this machine's load to say.
    let transaction = manager.transaction(&["n"]).within(3600 * SECOND);
    transaction.run(increment).await.unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn concurrent_increments_lose_nothing() {
    let world = World::start();
    let tasks: Vec<_> = (0..10)
        .map(|_| tokio::spawn(increment(world.manager())))
        .collect();
    for task in tasks {
        assert_eq!(world.drive(task).await.unwrap().reply.0, "OK");
    }
    assert_eq!(world.ask::<i64>("GET n"), 10);
}

#[tokio::test]
async fn a_conflict_is_counted_and_the_work_done_again() {
    let world = World::start();
    let (rival, mut rounds) = (world.manager(), 0);
    let done = world.manager().transaction(&["n"]).run(|mut connection| {
        rounds += 1;
        let interferes = rounds == 1;
        let rival = rival.clone();
        async move {
            let count: Option<i64> = connection.get("n").await?;
            if interferes {
                increment(rival).await;
            }
            Ok(redis::pipe().set("n", count.unwrap_or(0) + 10).clone())
        }
    });
    let done: Committed<(String,)> = world.drive(done).await.unwrap();
    assert_eq!(done.conflicts, 1);
    assert_eq!(world.ask::<i64>("GET n"), 11);
}

#[tokio::test]
async fn a_transaction_that_always_loses_gives_up_where_it_was_told_to() {
    let world = World::start();
    let rival = world.manager();
    let lost = world
        .manager()
        .transaction(&["n"])
        .wait(Wait::once())
        .run(|_| {
            let rival = rival.clone();
            async move {
                increment(rival).await;
                Ok(redis::pipe().set("n", -1).clone())
            }
        });
    let lost: Result<Committed<()>, Error> = lost.await;
    assert!(lost.unwrap_err().is_timeout());
    assert_eq!(world.ask::<i64>("GET n"), 1);
}
