//! A great many requests on one connection.

use std::{
    io::Write,
    net::TcpStream,
    thread,
    time::{Duration, Instant},
};

use super::{
    Ground, Outcome,
    client::{Client, Reply},
    ensure,
    figures::{megabytes, rate},
    process::Process,
};
use crate::transcript::wire::encode;

/// Requests that are written in one piece.
const BATCH: usize = 10_000;
const READ_BUFFER: usize = 1 << 16;

pub fn a_long_pipeline_is_answered_whole_and_in_order(ground: &Ground) -> Outcome {
    let count = ground.pick(1_000_000, 100_000);
    let server = Process::start(ground, &[])?;
    let level = server.level()?;
    let mut client = Client::connect_buffered(server.port, READ_BUFFER)?;
    let mut writer = client.writer()?;
    let start = Instant::now();
    let cpu = server.cpu()?;
    thread::scope(|scope| -> Outcome {
        let writing = scope.spawn(move || send_all(&mut writer, count));
        read_all(&mut client, count)?;
        writing.join().map_err(|_| "the writer panicked")??;
        Ok(())
    })?;
    let cpu = server.cpu()?.saturating_sub(cpu);
    println!("   {count} requests: {}", rate(count, start.elapsed()));
    println!(
        "   {:.2} µs of processor time each",
        cpu.as_secs_f64() * 1e6 / count as f64
    );
    client.expect(&["DEL", "counter"], &Reply::Integer(1))?;
    drop(client);
    server.returns_to(&level)
}

/// Many a client library sends the whole of a pipeline before it reads the first reply.
pub fn a_long_pipeline_may_be_sent_before_its_first_reply_is_read(ground: &Ground) -> Outcome {
    const REPLY: usize = 100;
    let count = ground.pick(1_000_000, 100_000);
    let server = Process::start(ground, &[])?;
    let level = server.level()?;
    let mut client = Client::connect_buffered(server.port, READ_BUFFER)?;
    let value = "v".repeat(REPLY);
    client.expect(&["SET", "key", &value], &Reply::ok())?;
    let start = Instant::now();
    for _ in 0..count / BATCH {
        client.send_raw(&encode(&["GET", "key"]).repeat(BATCH))?;
    }
    println!("   {count} requests sent: {}", rate(count, start.elapsed()));
    let wanted = Reply::bulk(&value);
    for number in 0..count {
        let reply = client.reply()?;
        ensure(reply == wanted, || {
            format!("request {number} got {reply:?}")
        })?;
    }
    println!("   and all replies read: {}", rate(count, start.elapsed()));
    client.expect(&["DEL", "key"], &Reply::Integer(1))?;
    drop(client);
    server.returns_to(&level)
}

/// What a client leaves unread is bounded, however much it asks for.
pub fn a_client_that_never_reads_is_not_read_from_for_ever(ground: &Ground) -> Outcome {
    /// What may lie unread, and what a growing buffer takes while the old one is still there.
    const UNREAD_MAX: u64 = 256 << 20;
    const GROWTH: u64 = 3;
    const VALUE: usize = 1 << 20;
    const ASKED: usize = 4096;
    let server = Process::start(ground, &[])?;
    let level = server.level()?;
    let memory = server.resident()?;
    let mut other = server.connect()?;
    other.expect(&["SET", "key", &"v".repeat(VALUE)], &Reply::ok())?;
    let mut client = Client::connect_buffered(server.port, READ_BUFFER)?;
    client.send_raw(&encode(&["GET", "key"]).repeat(ASKED))?;
    let answered = wait_until_it_stops(&mut other)?;
    println!(
        "   asked for {}, {} were prepared",
        megabytes((ASKED * VALUE) as u64),
        megabytes(answered * VALUE as u64)
    );
    ensure(answered < ASKED as u64 / 4, || {
        "the server never stopped".to_owned()
    })?;
    let cost = server.peak()?.saturating_sub(memory);
    ensure(cost < UNREAD_MAX * GROWTH, || {
        format!("it cost {}", megabytes(cost))
    })?;

    // Once it reads, it gets all that it asked for.
    let wanted = Reply::Bulk(vec![b'v'; VALUE]);
    for number in 0..ground.pick(ASKED, answered as usize * 2) {
        let reply = client.reply()?;
        ensure(reply == wanted, || {
            format!("request {number} got another value")
        })?;
    }
    drop(client);
    other.expect(&["DEL", "key"], &Reply::Integer(1))?;
    drop(other);
    server.returns_to(&level)
}

/// Waits until the server answers no more; how many GETs it has answered.
fn wait_until_it_stops(client: &mut Client) -> Outcome<u64> {
    const STILL: Duration = Duration::from_millis(500);
    let (mut last, mut since) = (0, Instant::now());
    while since.elapsed() < STILL {
        let hits = client.info("keyspace_hits")?;
        if hits != last {
            (last, since) = (hits, Instant::now());
        }
        thread::sleep(Duration::from_millis(5));
    }
    Ok(last)
}

fn send_all(writer: &mut TcpStream, count: usize) -> std::io::Result<()> {
    let batch = encode(&["INCR", "counter"]).repeat(BATCH);
    (0..count / BATCH).try_for_each(|_| writer.write_all(&batch))
}

fn read_all(client: &mut Client, count: usize) -> Outcome {
    for number in 1..=count as i64 {
        let reply = client.reply()?;
        ensure(reply == Reply::Integer(number), || {
            format!("request {number} got {reply:?}")
        })?;
    }
    Ok(())
}
