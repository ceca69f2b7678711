//! The work queue.

use std::collections::BTreeSet;

use khoa::{Error, Queue};

use crate::support::{MS, SECOND, World};

fn queue(world: &World) -> Queue {
    world.manager().queue("w").unwrap().visibility(5 * SECOND)
}

#[tokio::test]
async fn jobs_come_out_in_the_order_in_which_they_went_in() {
    let world = World::start();
    let queue = queue(&world);
    for payload in ["a", "b", "c"] {
        queue.push(payload).await.unwrap();
    }
    for payload in ["a", "b", "c"] {
        let job = queue.try_take().await.unwrap().unwrap();
        assert_eq!((job.payload(), job.attempt()), (payload.as_bytes(), 1));
        job.done().await.unwrap();
    }
    assert!(queue.try_take().await.unwrap().is_none());
    assert_eq!(world.ask::<Vec<String>>("KEYS *"), ["{khoa:w}:q-fence"]);
}

#[tokio::test]
async fn the_job_of_a_dead_worker_goes_to_another() {
    let world = World::start();
    let queue = queue(&world);
    queue.push("x").await.unwrap();
    let dead = queue.try_take().await.unwrap().unwrap();
    let first_fence = dead.fencing_token();
    world.advance(5 * SECOND + MS);
    let job = queue.try_take().await.unwrap().unwrap();
    assert_eq!((job.payload(), job.attempt()), (&b"x"[..], 2));
    assert!(job.fencing_token() > first_fence);
    assert!(dead.done().await.unwrap_err().is_lost());
    job.done().await.unwrap();
    assert_eq!(queue.status().await.unwrap().ready, 0);
}

#[tokio::test]
async fn a_worker_that_extends_its_time_keeps_its_job() {
    let world = World::start();
    let queue = queue(&world);
    queue.push("x").await.unwrap();
    let job = queue.try_take().await.unwrap().unwrap();
    world.advance(3 * SECOND);
    job.extend().await.unwrap();
    world.advance(3 * SECOND);
    assert!(queue.try_take().await.unwrap().is_none());
    job.done().await.unwrap();
}

#[tokio::test]
async fn a_dropped_job_is_given_back_at_once() {
    let world = World::start();
    let queue = queue(&world);
    queue.push("x").await.unwrap();
    drop(queue.try_take().await.unwrap().unwrap());
    let job = queue.take_within(60 * SECOND).await.unwrap();
    assert_eq!(job.attempt(), 2);
}

#[tokio::test]
async fn a_waiting_worker_is_woken_by_a_push() {
    let world = World::start();
    let waiting = queue(&world);
    let worker = tokio::spawn(async move { waiting.take_within(60 * SECOND).await.unwrap() });
    world.until("LLEN {khoa:w}:q-waiters", 1).await;
    queue(&world).push("x").await.unwrap();
    assert_eq!(worker.await.unwrap().payload(), b"x");
}

#[tokio::test]
async fn a_waiting_worker_gets_the_job_of_one_that_died() {
    let world = World::start();
    let queue = queue(&world);
    queue.push("x").await.unwrap();
    let _dead = queue.try_take().await.unwrap().unwrap();
    let waiting = queue.clone();
    let worker = tokio::spawn(async move { waiting.take_within(60 * SECOND).await.unwrap() });
    world.until("LLEN {khoa:w}:q-waiters", 1).await;
    assert_eq!(world.drive(worker).await.unwrap().attempt(), 2);
}

#[tokio::test]
async fn a_job_that_fails_too_often_is_set_aside_and_can_be_revived() {
    let world = World::start();
    let queue = queue(&world).max_tries(2);
    queue.push("bad").await.unwrap();
    for _ in 0..2 {
        queue
            .try_take()
            .await
            .unwrap()
            .unwrap()
            .give_back()
            .await
            .unwrap();
    }
    assert!(queue.try_take().await.unwrap().is_none());
    assert_eq!(queue.status().await.unwrap().dead, 1);
    assert_eq!(queue.revive_dead().await.unwrap(), 1);
    assert_eq!(queue.try_take().await.unwrap().unwrap().attempt(), 1);
}

#[tokio::test]
async fn a_job_that_is_put_off_comes_back_after_its_time() {
    let world = World::start();
    let queue = queue(&world);
    queue.push("x").await.unwrap();
    let job = queue.try_take().await.unwrap().unwrap();
    job.retry_after(2 * SECOND).await.unwrap();
    assert!(queue.try_take().await.unwrap().is_none());
    world.advance(2 * SECOND + MS);
    assert!(queue.try_take().await.unwrap().is_some());
}

#[tokio::test]
async fn a_job_pushed_twice_under_one_id_is_one_job() {
    let world = World::start();
    let queue = queue(&world);
    assert!(queue.push_as("order-7", "x").await.unwrap());
    assert!(!queue.push_as("order-7", "x").await.unwrap());
    assert_eq!(queue.status().await.unwrap().ready, 1);
}

#[tokio::test]
async fn a_full_queue_refuses_more() {
    let world = World::start();
    let queue = queue(&world).max_jobs(1);
    queue.push("x").await.unwrap();
    assert!(matches!(
        queue.push("y").await.unwrap_err(),
        Error::InvalidOption { .. }
    ));
}

#[tokio::test]
async fn a_worker_that_gives_up_waiting_leaves_the_queue() {
    let world = World::start();
    let waiting = queue(&world);
    let worker = tokio::spawn(async move { waiting.take_within(SECOND / 2).await });
    world.until("LLEN {khoa:w}:q-waiters", 1).await;
    assert!(world.drive(worker).await.unwrap().unwrap_err().is_timeout());
    world.until("EXISTS {khoa:w}:q-waiters", 0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_workers_do_each_job_exactly_once_when_nobody_fails() {
    let world = World::start();
    let jobs: BTreeSet<String> = (0..100).map(|number| format!("job-{number}")).collect();
    let (sender, mut done) = tokio::sync::mpsc::unbounded_channel();
    for _ in 0..8 {
        let (queue, sender) = (queue(&world), sender.clone());
        tokio::spawn(async move {
            while let Ok(job) = queue.take_within(60 * SECOND).await {
                sender
                    .send(String::from_utf8(job.payload().to_vec()).unwrap())
                    .unwrap();
                job.done().await.unwrap();
            }
        });
    }
    for job in &jobs {
        queue(&world).push(job).await.unwrap();
    }
    let mut seen = Vec::new();
    for _ in 0..jobs.len() {
        seen.push(done.recv().await.unwrap());
    }
    seen.sort();
    assert_eq!(
        seen,
        jobs.into_iter()
            .collect::<BTreeSet<_>>()
            .into_iter()
            .collect::<Vec<_>>()
    );
    world.until("ZCARD {khoa:w}:q-taken", 0).await;
    assert!(done.is_empty());
}
