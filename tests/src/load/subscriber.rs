//! A client that others send more than it reads.

use std::time::Instant;

use super::{
    Ground, Outcome,
    client::Reply,
    ensure,
    figures::{Latencies, megabytes, rate},
    process::Process,
};

const MESSAGE: usize = 64 << 10;
/// The hard limit of the default settings.
const LIMIT: usize = 32 << 20;
/// What a subscriber may cost beyond its limit: a buffer grows by doubling, and while it does,
/// the old and the new one are there.
const GROWTH: usize = 3;

pub fn a_subscriber_that_never_reads_costs_no_more_than_its_limit(ground: &Ground) -> Outcome {
    let messages = ground.pick(1 << 30, 96 << 20) / MESSAGE;
    let server = Process::start(ground, &[])?;
    let level = server.level()?;
    let memory = server.resident()?;
    let mut subscriber = server.connect()?;
    let mut publisher = server.connect()?;
    let mut other = server.connect()?;
    subscriber.ask(&["SUBSCRIBE", "news"])?;

    let payload = "x".repeat(MESSAGE);
    let (mut received, mut latencies) = (0, Latencies::default());
    let start = Instant::now();
    for number in 0..messages {
        match publisher.ask(&["PUBLISH", "news", &payload])? {
            Reply::Integer(1) => received = number + 1,
            Reply::Integer(0) => {}
            reply => return Err(format!("PUBLISH answered {reply:?}").into()),
        }
        latencies.measure(|| other.expect(&["SET", "k", "v"], &Reply::ok()))?;
    }
    println!(
        "   published: {} in {}",
        megabytes((messages * MESSAGE) as u64),
        rate(messages, start.elapsed())
    );
    println!(
        "   dropped after {}",
        megabytes((received * MESSAGE) as u64)
    );
    println!("   another client meanwhile: {latencies}");

    let peak = server.peak()?.saturating_sub(memory);
    ensure(peak < (LIMIT * GROWTH) as u64, || {
        format!("it cost {}", megabytes(peak))
    })?;
    ensure(received < messages, || "it was never dropped".to_owned())?;
    ensure(subscriber.has_ended()?, || {
        "its connection did not end".to_owned()
    })?;
    other.expect(&["DEL", "k"], &Reply::Integer(1))?;
    drop((subscriber, publisher, other));
    server.returns_to(&level)
}
