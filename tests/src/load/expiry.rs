//! Keys that all end at the same moment, while others go on asking.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

use super::{
    Ground, Outcome,
    client::{Client, Reply},
    ensure,
    figures::{Latencies, rate},
    process::Process,
};
use crate::transcript::wire::encode;

const CLIENTS: usize = 4;
/// Long after all this, in milliseconds since 1970.
const FAR: u64 = 1 << 45;
const BATCH: usize = 10_000;
/// What the slowest of a thousand requests may take meanwhile.
const P999_MAX: Duration = Duration::from_millis(5);

pub fn keys_that_end_in_the_same_second_hold_nobody_up(ground: &Ground) -> Outcome {
    let keys = ground.pick(1_000_000, 100_000);
    let server = Process::start(ground, &[])?;
    let level = server.level()?;
    let mut client = Client::connect_buffered(server.port, 1 << 16)?;

    // In the same millisecond even: what comes at once is hardest. How far off it must be depends
    // on how long setting the keys takes.
    let start = Instant::now();
    fill(&mut client, keys / 10, FAR)?;
    let needed = start.elapsed().as_millis() as u64 * 20;
    let end = time_ms(&mut client)? + needed + 1000;
    let start = Instant::now();
    fill(&mut client, keys, end)?;
    println!("   {keys} keys set: {}", rate(keys, start.elapsed()));
    let now = time_ms(&mut client)?;
    ensure(now < end, || "the keys end before all are set".to_owned())?;

    let done = AtomicBool::new(false);
    let end_at = Instant::now() + Duration::from_millis(end - now);
    let (calm, busy) = thread::scope(|scope| -> Outcome<_> {
        let asking: Vec<_> = (0..CLIENTS)
            .map(|number| {
                let (server, done) = (&server, &done);
                scope.spawn(move || {
                    ask_until(done, server.port, number, end_at).map_err(|error| error.to_string())
                })
            })
            .collect();
        let gone = wait_until_gone(&mut client, keys as u64);
        done.store(true, Ordering::Relaxed);
        let (mut calm, mut busy) = (Latencies::default(), Latencies::default());
        for asking in asking {
            let (before, after) = asking.join().map_err(|_| "a client panicked")??;
            calm.append(before);
            busy.append(after);
        }
        gone?;
        Ok((calm, busy))
    })?;
    println!(
        "   all are gone {:.0} ms after their end",
        end_at.elapsed().as_secs_f64() * 1e3
    );
    println!("   {CLIENTS} clients before:    {calm}");
    println!("   {CLIENTS} clients meanwhile: {busy}");
    if !ground.short {
        ensure(busy.within(0.999) < P999_MAX, || {
            format!("p99.9 is over {P999_MAX:?}")
        })?;
    }
    client.expect(&["FLUSHALL"], &Reply::ok())?;
    drop(client);
    server.returns_to(&level)
}

fn time_ms(client: &mut Client) -> Outcome<u64> {
    let Reply::Array(parts) = client.ask(&["TIME"])? else {
        return Err("TIME answers no pair".into());
    };
    let number = |at: usize| -> Outcome<u64> {
        match parts.get(at) {
            Some(Reply::Bulk(text)) => Ok(String::from_utf8_lossy(text).parse()?),
            _ => Err("TIME answers no numbers".into()),
        }
    };
    Ok(number(0)? * 1000 + number(1)? / 1000)
}

fn fill(client: &mut Client, keys: usize, end: u64) -> Outcome {
    let end = end.to_string();
    for from in (0..keys).step_by(BATCH) {
        let to = (from + BATCH).min(keys);
        let mut requests = Vec::new();
        for number in from..to {
            requests.extend(encode(&[
                "SET",
                &format!("key:{number}"),
                "value",
                "PXAT",
                &end,
            ]));
        }
        client.send_raw(&requests)?;
        for _ in from..to {
            let reply = client.reply()?;
            ensure(reply == Reply::ok(), || format!("SET answered {reply:?}"))?;
        }
    }
    Ok(())
}

/// Asks until all is done; the latencies before the end of the keys, and after.
fn ask_until(
    done: &AtomicBool,
    port: u16,
    number: usize,
    end_at: Instant,
) -> Outcome<(Latencies, Latencies)> {
    let mut client = Client::connect(port)?;
    let (mut before, mut after) = (Latencies::default(), Latencies::default());
    let key = format!("mine:{number}");
    while !done.load(Ordering::Relaxed) {
        let latencies = if Instant::now() < end_at {
            &mut before
        } else {
            &mut after
        };
        latencies.measure(|| client.expect(&["SET", &key, "v"], &Reply::ok()))?;
        latencies.measure(|| client.expect(&["GET", &key], &Reply::bulk("v")))?;
    }
    Ok((before, after))
}

fn wait_until_gone(client: &mut Client, keys: u64) -> Outcome {
    const PATIENCE: Duration = Duration::from_secs(60);
    let start = Instant::now();
    loop {
        let expired = client.info("expired_keys")?;
        if expired == keys {
            return Ok(());
        }
        ensure(start.elapsed() < PATIENCE, || {
            format!("only {expired} keys are gone")
        })?;
        thread::sleep(Duration::from_millis(2));
    }
}
