//! The second article's five techniques, over the plain `redis` crate.

use std::collections::BTreeSet;
use std::time::Duration;

use khoa_server::Server;

#[path = "../examples/locked_section.rs"]
mod locked_section;
#[path = "../examples/optimistic_counter.rs"]
mod optimistic_counter;
#[path = "../examples/publish_subscribe.rs"]
mod publish_subscribe;
#[path = "../examples/rate_limit.rs"]
mod rate_limit;
#[path = "../examples/worker_queue.rs"]
mod worker_queue;

async fn connect(server: &Server) -> redis::aio::MultiplexedConnection {
    let client = redis::Client::open(server.url()).unwrap();
    client.get_multiplexed_async_connection().await.unwrap()
}

#[tokio::test]
async fn a_lock_keeps_a_second_instance_out_until_it_is_given_back() {
    let server = Server::start().unwrap();
    let (mut first, mut second) = (connect(&server).await, connect(&server).await);
    let ttl = Duration::from_secs(10);
    let inner = locked_section::with_lock(&mut second, "k", "second", ttl, async {});
    let outer = locked_section::with_lock(&mut first, "k", "first", ttl, inner)
        .await
        .unwrap();
    assert_eq!(outer.unwrap().unwrap(), None);
    let after = locked_section::with_lock(&mut second, "k", "second", ttl, async { 7 }).await;
    assert_eq!(after.unwrap(), Some(7));
    assert!(!server.db(0).exists("k"));
}

#[tokio::test]
async fn a_lock_whose_holder_died_is_free_after_its_ttl() {
    let server = Server::start().unwrap();
    server.freeze();
    server.run(["SET", "k", "dead", "NX", "PX", "10000"]);
    let ttl = Duration::from_secs(10);
    for (wait, wanted) in [
        (Duration::ZERO, None),
        (ttl + Duration::from_millis(1), Some(())),
    ] {
        server.advance(wait);
        let mut second = connect(&server).await;
        let taken = locked_section::with_lock(&mut second, "k", "second", ttl, async {}).await;
        assert_eq!(taken.unwrap(), wanted);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn five_tasks_count_to_five_with_optimistic_transactions() {
    let server = Server::start().unwrap();
    let (count, retries) = optimistic_counter::race(&server.url(), 5).await.unwrap();
    assert_eq!(count, 5);
    // Every EXEC that was refused is a retry, and there were five that were not.
    assert_eq!(server.calls_of("exec"), 5 + u64::from(retries));
}

#[tokio::test]
async fn a_counter_that_changed_under_the_watch_is_read_again() {
    let server = Server::start().unwrap();
    let mut connection = connect(&server).await;
    let increment = optimistic_counter::increment(&mut connection, "visits");
    let interfere = async {
        while server.calls_of("get") == 0 {
            tokio::task::yield_now().await;
        }
        server.run(["SET", "visits", "40"]);
    };
    let (retries, ()) = tokio::join!(increment, interfere);
    // Whether the interference came before or after EXEC, nothing is lost.
    let wanted = if retries.unwrap() == 1 { "41" } else { "40" };
    assert_eq!(server.run(["GET", "visits"]), wanted);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn workers_do_each_task_exactly_once() {
    let server = Server::start().unwrap();
    let tasks: Vec<String> = (0..200).map(|number| format!("task-{number}")).collect();
    let patience = Duration::from_millis(300);
    let done = worker_queue::share(&server.url(), 5, &tasks, patience)
        .await
        .unwrap();
    let all: Vec<String> = done.into_iter().flatten().collect();
    assert_eq!(all.len(), tasks.len());
    assert_eq!(
        all.into_iter().collect::<BTreeSet<_>>(),
        tasks.into_iter().collect()
    );
}

#[tokio::test]
async fn a_window_allows_its_limit_and_the_next_one_begins_anew() {
    let server = Server::start().unwrap();
    server.freeze();
    let mut connection = connect(&server).await;
    let window = Duration::from_secs(60);
    for _ in 0..3 {
        let mut verdicts = Vec::new();
        for _ in 0..7 {
            verdicts.push(
                rate_limit::allow(&mut connection, "c", 5, window)
                    .await
                    .unwrap(),
            );
            server.advance(Duration::from_secs(1));
        }
        assert_eq!(verdicts, [true, true, true, true, true, false, false]);
        server.advance(Duration::from_secs(54));
    }
}

#[tokio::test]
async fn every_subscriber_hears_every_message_in_order() {
    let server = Server::start().unwrap();
    let heard = publish_subscribe::broadcast(&server.url(), 3, &["a", "b", "c"])
        .await
        .unwrap();
    assert_eq!(heard, vec![vec!["a", "b", "c"]; 3]);
}

#[tokio::test]
async fn a_message_without_listeners_is_gone() {
    let server = Server::start().unwrap();
    assert_eq!(server.publish("news", "nobody hears this"), 0);
    let mut late = redis::Client::open(server.url())
        .unwrap()
        .get_async_pubsub()
        .await
        .unwrap();
    late.subscribe("news").await.unwrap();
    assert_eq!(server.publish("news", "somebody does"), 1);
}
