//! Clients that are as slow as they can be, or announce what they never send.

use super::{
    Ground, Outcome,
    client::{Client, Reply},
    ensure,
    figures::{Latencies, megabytes},
    process::Process,
};
use crate::transcript::wire::encode;

/// What a client that sends next to nothing may cost.
const EACH_MAX: u64 = 32 << 10;
/// Beginnings that announce as much as they can.
const ANNOUNCEMENTS: [&str; 3] = [
    "*2\r\n$3\r\nGET\r\n$536870912\r\nx",
    "*2147483647\r\n$4\r\nMGET\r\n",
    "GET an-inline-request-without-an-end",
];

pub fn clients_that_send_a_byte_at_a_time_hold_nobody_up(ground: &Ground) -> Outcome {
    let count = ground.pick(2_000_u32, 500);
    let server = Process::start(ground, &[])?;
    let level = server.level()?;
    let memory = server.resident()?;
    let mut other = server.connect()?;
    let mut slow: Vec<Client> = (0..count)
        .map(|_| server.connect())
        .collect::<Outcome<_>>()?;
    let mut announcing: Vec<Client> = (0..count)
        .map(|_| server.connect())
        .collect::<Outcome<_>>()?;
    for (client, announcement) in announcing.iter_mut().zip(ANNOUNCEMENTS.iter().cycle()) {
        client.send_raw(announcement.as_bytes())?;
    }

    let mut latencies = Latencies::default();
    let requests: Vec<Vec<u8>> = (0..count)
        .map(|number| encode(&["SET", &format!("slow:{number:08}"), "v"]))
        .collect();
    for at in 0..requests[0].len() {
        for (client, request) in slow.iter_mut().zip(&requests) {
            client.send_raw(&request[at..=at])?;
        }
        for _ in 0..20 {
            latencies.measure(|| other.expect(&["SET", "k", "v"], &Reply::ok()))?;
        }
    }
    for client in &mut slow {
        let reply = client.reply()?;
        ensure(reply == Reply::ok(), || {
            format!("a slow client got {reply:?}")
        })?;
    }
    other.expect(&["DBSIZE"], &Reply::Integer(i64::from(count) + 1))?;
    let clients = 2 * u64::from(count);
    let cost = server.peak()?.saturating_sub(memory) / clients;
    println!("   {clients} slow clients; another one meanwhile: {latencies}");
    println!("   each cost {:.1} KB", cost as f64 / 1024.0);
    ensure(cost < EACH_MAX, || format!("each cost {}", megabytes(cost)))?;

    other.expect(&["FLUSHALL"], &Reply::ok())?;
    drop((slow, announcing, other));
    server.returns_to(&level)
}
