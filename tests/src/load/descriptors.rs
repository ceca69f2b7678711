//! No file descriptor left: by clients alone, and by what else the server has open.

use std::net::TcpListener;

use super::{
    Ground, Outcome,
    client::{Client, Reply},
    ensure,
    process::Process,
};

const DESCRIPTORS: usize = 256;
/// As in the references, so many are kept for what is not a client.
const KEPT: usize = 32;

pub fn out_of_descriptors_new_clients_are_refused_and_old_ones_served(ground: &Ground) -> Outcome {
    let server = Process::start_with_descriptors(ground, DESCRIPTORS, &[])?;
    let level = server.level()?;
    clients_alone(&server)?;
    server.returns_to(&level)?;
    clients_and_errands(&server)?;
    server.returns_to(&level)
}

fn clients_alone(server: &Process) -> Outcome {
    let most = DESCRIPTORS - KEPT;
    let mut clients = served(server, most)?;
    let setting = Reply::Array(vec![
        Reply::bulk("maxclients"),
        Reply::bulk(&most.to_string()),
    ]);
    clients[0].expect(&["CONFIG", "GET", "maxclients"], &setting)?;
    let full = Reply::Error("ERR max number of clients reached".to_owned());
    for _ in 0..DESCRIPTORS {
        let mut refused = server.connect()?;
        let reply = refused.reply()?;
        ensure(reply == full, || format!("one too many got {reply:?}"))?;
        ensure(refused.has_ended()?, || {
            "its connection did not end".to_owned()
        })?;
    }
    println!("   {most} clients are served, {DESCRIPTORS} more were refused");
    ping_all(&mut clients)?;
    // As many as leave may come.
    clients.truncate(most / 2);
    clients[0].wait_for("connected_clients", most as u64 / 2)?;
    clients.extend(served(server, most - most / 2)?);
    ping_all(&mut clients)
}

/// MIGRATE takes a second descriptor for each client that waits for it.
fn clients_and_errands(server: &Process) -> Outcome {
    let silent = TcpListener::bind("127.0.0.1:0")?;
    let port = silent.local_addr()?.port().to_string();
    let mut clients = served(server, DESCRIPTORS / 2 - 20)?;
    let mut other = clients.pop().ok_or("no client")?;
    for (number, client) in clients.iter_mut().enumerate() {
        let key = format!("key:{number}");
        client.expect(&["SET", &key, "v"], &Reply::ok())?;
        client.send(&["MIGRATE", "127.0.0.1", &port, &key, "0", "60000"])?;
    }
    let (mut connected, mut refused) = (Vec::new(), 0);
    while refused < 10 {
        let mut client = server.connect()?;
        client.send(&["PING"])?;
        match client.reply_or_end()? {
            Some(reply) => {
                ensure(reply == Reply::Simple("PONG".to_owned()), || {
                    format!("a new client got {reply:?}")
                })?;
                connected.push(client);
                ensure(connected.len() < DESCRIPTORS, || {
                    "nobody was refused".to_owned()
                })?;
            }
            None => refused += 1,
        }
        other.expect(&["PING"], &Reply::Simple("PONG".to_owned()))?;
    }
    println!(
        "   with {} errands under way {} more clients are served, {refused} were refused",
        clients.len(),
        connected.len(),
    );
    ping_all(&mut connected)?;
    drop(silent);
    for client in &mut clients {
        let reply = client.reply()?;
        let failed = matches!(&reply, Reply::Error(text) if text.starts_with("IOERR"));
        ensure(failed, || format!("MIGRATE answered {reply:?}"))?;
    }
    ping_all(&mut clients)?;
    ping_all(&mut served(server, 10)?)?;
    other.expect(&["DBSIZE"], &Reply::Integer(clients.len() as i64))?;
    other.expect(&["FLUSHALL"], &Reply::ok())
}

fn served(server: &Process, count: usize) -> Outcome<Vec<Client>> {
    let mut clients = (0..count)
        .map(|_| server.connect())
        .collect::<Outcome<Vec<_>>>()?;
    ping_all(&mut clients)?;
    Ok(clients)
}

fn ping_all(clients: &mut [Client]) -> Outcome {
    for client in clients {
        client.expect(&["PING"], &Reply::Simple("PONG".to_owned()))?;
    }
    Ok(())
}
