//! As many clients at once as may come.

use std::time::Instant;

use super::{
    Ground, Outcome,
    client::{Client, Reply},
    figures::{megabytes, rate},
    process::Process,
};

pub fn every_one_of_many_connections_is_served(ground: &Ground) -> Outcome {
    let count = ground.pick(10_000, 4_000);
    let server = Process::start(ground, &["--maxclients", &(count + 10).to_string()])?;
    let level = server.level()?;
    let memory = server.resident()?;

    let start = Instant::now();
    let mut clients: Vec<Client> = (0..count)
        .map(|_| server.connect())
        .collect::<Outcome<_>>()?;
    for client in &mut clients {
        client.expect(&["PING"], &Reply::Simple("PONG".to_owned()))?;
    }
    println!(
        "   connected: {count} clients in {}",
        rate(count, start.elapsed())
    );
    let each = server.resident()?.saturating_sub(memory) / count as u64;
    println!("   an idle client takes {:.1} KB", each as f64 / 1024.0);

    // All ask before any of them reads.
    let start = Instant::now();
    for (number, client) in clients.iter_mut().enumerate() {
        let (key, value) = (format!("client:{number}"), number.to_string());
        client.send(&["SET", &key, &value])?;
        client.send(&["GET", &key])?;
    }
    for (number, client) in clients.iter_mut().enumerate() {
        let replies = [client.reply()?, client.reply()?];
        let wanted = [Reply::ok(), Reply::bulk(&number.to_string())];
        super::ensure(replies == wanted, || {
            format!("client {number} got {replies:?}")
        })?;
    }
    println!("   all asked at once: {}", rate(2 * count, start.elapsed()));
    println!("   all connected: {}", megabytes(server.resident()?));

    clients[0].expect(&["FLUSHALL"], &Reply::ok())?;
    drop(clients);
    server.returns_to(&level)
}
