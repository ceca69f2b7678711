//! SIGTERM while clients are at it.
//!
//! Nothing of the data is left after the end, so what was done is told by a witness: a subscriber
//! to the events of the keys, whose connection, like every other, ends once all that was said on
//! it is written. A request that was done has its event; one that was acknowledged has its reply.
//! Clients read until the end of their connections. A request that was done and whose
//! acknowledgement was lost would be no harm beyond what a broken connection always leaves open,
//! yet a client that reads on gets every one, so none may be missing either.

use std::{
    collections::HashMap,
    io::Write,
    net::TcpStream,
    thread,
    time::{Duration, Instant},
};

use super::{
    Ground, Outcome,
    client::{Client, Reply},
    ensure,
    process::Process,
};
use crate::transcript::wire::encode;

const CLIENTS: usize = 8;
/// Requests that a client has under way at once.
const AHEAD: usize = 50;
const READ_BUFFER: usize = 1 << 16;

pub fn a_stop_under_load_acknowledges_what_was_done_and_nothing_else(ground: &Ground) -> Outcome {
    let rounds = ground.pick(10, 3);
    let (mut done, mut acknowledged, mut slowest) = (0, 0, Duration::ZERO);
    for _ in 0..rounds {
        let round = stop_once(ground)?;
        done += round.done;
        acknowledged += round.acknowledged;
        slowest = slowest.max(round.took);
    }
    println!("   {rounds} stops: {done} requests done, {acknowledged} of them acknowledged");
    println!(
        "   the slowest stop took {:.0} ms",
        slowest.as_secs_f64() * 1e3
    );
    Ok(())
}

struct Round {
    done: u64,
    acknowledged: u64,
    took: Duration,
}

fn stop_once(ground: &Ground) -> Outcome<Round> {
    let mut server = Process::start(
        ground,
        &[
            "--notify-keyspace-events",
            "E$",
            "--client-output-buffer-limit",
            "pubsub 0 0 0",
        ],
    )?;
    let mut witness = Client::connect_buffered(server.port, READ_BUFFER)?;
    witness.ask(&["SUBSCRIBE", "__keyevent@0__:incrby"])?;
    let port = server.port;
    let (events, replies, took) = thread::scope(|scope| -> Outcome<_> {
        let witness = scope.spawn(move || count_events(witness).map_err(|error| error.to_string()));
        let clients: Vec<_> = (0..CLIENTS)
            .map(|number| {
                scope.spawn(move || load(port, number).map_err(|error| error.to_string()))
            })
            .collect();
        thread::sleep(Duration::from_millis(ground.pick(1000, 200)));
        let start = Instant::now();
        server.signal("-TERM")?;
        let status = server.wait()?;
        let took = start.elapsed();
        ensure(status.success(), || {
            format!("the server ended with {status}")
        })?;
        let events = witness.join().map_err(|_| "the witness panicked")??;
        let replies: Outcome<Vec<u64>> = clients
            .into_iter()
            .map(|client| Ok(client.join().map_err(|_| "a client panicked")??))
            .collect();
        Ok((events, replies?, took))
    })?;
    let mut round = Round {
        done: 0,
        acknowledged: 0,
        took,
    };
    for (number, acknowledged) in replies.into_iter().enumerate() {
        let [done, twin] = ["", ":twin"].map(|twin| {
            let key = format!("{}{twin}", key(number));
            events.get(key.as_bytes()).copied().unwrap_or(0)
        });
        ensure(acknowledged > 0, || {
            format!("client {number} had no time to ask")
        })?;
        ensure(acknowledged == done, || {
            format!("client {number}: {done} requests were done, {acknowledged} acknowledged")
        })?;
        ensure(
            twin == if is_transactional(number) { done } else { 0 },
            || format!("client {number}: half a transaction was done"),
        )?;
        round.done += done;
        round.acknowledged += acknowledged;
    }
    Ok(round)
}

fn key(number: usize) -> String {
    format!("counter:{number}")
}

/// Every other client does its work in transactions.
fn is_transactional(number: usize) -> bool {
    number % 2 == 1
}

/// How often each key was incremented, until the end of the connection.
fn count_events(mut witness: Client) -> Outcome<HashMap<Vec<u8>, u64>> {
    let mut events = HashMap::new();
    while let Some(reply) = witness.reply_or_end()? {
        let Reply::Array(mut parts) = reply else {
            return Err(format!("the witness got {reply:?}").into());
        };
        let Some(Reply::Bulk(key)) = parts.pop() else {
            return Err("an event without its key".into());
        };
        *events.entry(key).or_default() += 1;
    }
    Ok(events)
}

/// Increments until the connection ends; how often that was acknowledged.
fn load(port: u16, number: usize) -> Outcome<u64> {
    let mut client = Client::connect_buffered(port, READ_BUFFER)?;
    let request = if is_transactional(number) {
        let twin = format!("{}:twin", key(number));
        [
            encode(&["MULTI"]),
            encode(&["INCR", &key(number)]),
            encode(&["INCR", &twin]),
            encode(&["EXEC"]),
        ]
        .concat()
    } else {
        encode(&["INCR", &key(number)])
    };
    let mut writer = client.writer()?;
    send(&mut writer, &request.repeat(AHEAD));
    let mut acknowledged = 0;
    while let Some(reply) = client.reply_or_end()? {
        let value = match reply {
            Reply::Integer(value) => value,
            Reply::Array(values) => match values[..] {
                [Reply::Integer(one), Reply::Integer(other)] if one == other => one,
                _ => return Err(format!("EXEC answered {values:?}").into()),
            },
            Reply::Simple(_) => continue,
            other => return Err(format!("INCR answered {other:?}").into()),
        };
        acknowledged += 1;
        ensure(value == acknowledged as i64, || {
            format!("increment {acknowledged} answered {value}")
        })?;
        send(&mut writer, &request);
    }
    Ok(acknowledged)
}

/// Sends on a connection that the server may have ended.
fn send(writer: &mut TcpStream, bytes: &[u8]) {
    let _ = writer.write_all(bytes);
}
