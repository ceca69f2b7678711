//! A value as large as the settings allow, and one that is larger.

use std::{thread, time::Instant};

use super::{
    Ground, Outcome,
    client::{Client, Reply},
    ensure,
    figures::{megabytes, rate},
    process::Process,
};

pub fn a_large_value_is_served_or_refused_as_configured(ground: &Ground) -> Outcome {
    let limit: usize = ground.pick(512, 16) << 20;
    let server = Process::start(ground, &["--proto-max-bulk-len", &limit.to_string()])?;
    let level = server.level()?;
    let mut client = Client::connect_buffered(server.port, 1 << 16)?;

    let value: Vec<u8> = (0..limit).map(|at| (at / 7) as u8).collect();
    let start = Instant::now();
    client.expect(&[b"SET".as_slice(), b"large", &value], &Reply::ok())?;
    println!(
        "   set: {} MB in {}",
        limit >> 20,
        rate(limit >> 10, start.elapsed())
    );
    println!("   memory with it: {}", megabytes(server.resident()?));
    client.expect(&["STRLEN", "large"], &Reply::Integer(limit as i64))?;
    let start = Instant::now();
    let same = client.ask(&["GET", "large"])? == Reply::Bulk(value.clone());
    ensure(same, || "another value came back".to_owned())?;
    println!("   got back: {}", rate(limit >> 10, start.elapsed()));

    // It may grow no further, in whatever way.
    let too_long =
        Reply::Error("ERR string exceeds maximum allowed size (proto-max-bulk-len)".to_owned());
    client.expect(&["APPEND", "large", "x"], &too_long)?;
    client.expect(&["SETRANGE", "large", &limit.to_string(), "x"], &too_long)?;
    client.expect(&["STRLEN", "large"], &Reply::Integer(limit as i64))?;
    client.expect(&["DEL", "large"], &Reply::Integer(1))?;

    refused(&server, limit + 1, &value)?;
    client.expect(&["EXISTS", "large"], &Reply::Integer(0))?;
    let smaller = limit / 2;
    client.expect(
        &["CONFIG", "SET", "proto-max-bulk-len", &smaller.to_string()],
        &Reply::ok(),
    )?;
    refused(&server, limit, &value)?;
    client.expect(&["EXISTS", "large"], &Reply::Integer(0))?;
    drop(client);
    server.returns_to(&level)
}

/// A longer argument than allowed ends the connection before any of it is kept.
fn refused(server: &Process, len: usize, value: &[u8]) -> Outcome {
    let memory = server.resident()?;
    let mut client = server.connect()?;
    let mut writer = client.writer()?;
    let reply = thread::scope(|scope| {
        scope.spawn(move || {
            use std::io::Write;
            let header = format!("*3\r\n$3\r\nSET\r\n$5\r\nlarge\r\n${len}\r\n");
            // The server ends the connection while this is on its way.
            let _ = writer.write_all(header.as_bytes());
            let _ = writer.write_all(value);
        });
        let reply = client.reply();
        client
            .has_ended()
            .and_then(|ended| ensure(ended, || "the connection did not end".to_owned()))?;
        reply
    })?;
    let wanted = Reply::Error("ERR Protocol error: invalid bulk length".to_owned());
    ensure(reply == wanted, || format!("it was refused with {reply:?}"))?;
    let grown = server.resident()?.saturating_sub(memory);
    ensure(grown < (8 << 20), || {
        format!("the refusal cost {}", megabytes(grown))
    })
}
