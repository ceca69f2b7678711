//! Clients that wait for the same key.

use std::time::Instant;

use super::{
    Ground, Outcome,
    client::{Client, Reply},
    ensure,
    figures::rate,
    process::Process,
};

pub fn waiters_on_one_key_are_served_in_the_order_they_came(ground: &Ground) -> Outcome {
    let count = ground.pick(1_000, 100);
    let server = Process::start(ground, &[])?;
    let level = server.level()?;
    let mut feeder = server.connect()?;
    let mut waiters: Vec<Client> = (0..count)
        .map(|_| server.connect())
        .collect::<Outcome<_>>()?;

    // One push that serves all, then a push for each.
    wait_all(&mut feeder, &mut waiters)?;
    let elements: Vec<String> = (0..count).map(|number| number.to_string()).collect();
    let mut push = vec!["RPUSH", "queue"];
    push.extend(elements.iter().map(String::as_str));
    let start = Instant::now();
    feeder.expect(&push, &Reply::Integer(count as i64))?;
    check_order(&mut waiters, &elements)?;
    println!("   one push for {count}: {}", rate(count, start.elapsed()));

    wait_all(&mut feeder, &mut waiters)?;
    let start = Instant::now();
    for element in &elements {
        feeder.send(&["RPUSH", "queue", element])?;
    }
    for _ in 0..count {
        let reply = feeder.reply()?;
        ensure(reply == Reply::Integer(1), || {
            format!("a push answered {reply:?}")
        })?;
    }
    check_order(&mut waiters, &elements)?;
    println!("   {count} pushes: {}", rate(count, start.elapsed()));

    // Those who leave take nothing with them, and the others move up.
    wait_all(&mut feeder, &mut waiters)?;
    let mut number = 0;
    waiters.retain(|_| {
        number += 1;
        number % 2 == 0
    });
    feeder.wait_for("blocked_clients", waiters.len() as u64)?;
    let mut push = vec!["RPUSH", "queue"];
    push.extend(elements[..waiters.len()].iter().map(String::as_str));
    feeder.expect(&push, &Reply::Integer(waiters.len() as i64))?;
    check_order(&mut waiters, &elements)?;
    feeder.expect(&["EXISTS", "queue"], &Reply::Integer(0))?;

    drop((waiters, feeder));
    server.returns_to(&level)
}

/// Lets every client wait, each once the one before it does.
fn wait_all(feeder: &mut Client, waiters: &mut [Client]) -> Outcome {
    for (before, waiter) in waiters.iter_mut().enumerate() {
        waiter.send(&["BLPOP", "queue", "0"])?;
        feeder.wait_for("blocked_clients", before as u64 + 1)?;
    }
    Ok(())
}

fn check_order(waiters: &mut [Client], elements: &[String]) -> Outcome {
    for (number, (waiter, element)) in waiters.iter_mut().zip(elements).enumerate() {
        let reply = waiter.reply()?;
        let wanted = Reply::Array(vec![Reply::bulk("queue"), Reply::bulk(element)]);
        ensure(reply == wanted, || format!("waiter {number} got {reply:?}"))?;
    }
    Ok(())
}
