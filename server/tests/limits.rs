//! What settings allow a client: how long it may idle, how much it may leave unread, and more.

mod support;

use std::{
    io::{ErrorKind, Read, Write},
    net::TcpStream,
    time::{Duration, Instant},
};

use khoa_server::Server;
use support::{PATIENCE, connect};

/// A server whose clock stands still.
fn server(settings: &[(&str, &str)]) -> Server {
    let mut builder = Server::builder().frozen();
    for (name, value) in settings {
        builder = builder.setting(name, value);
    }
    builder.start().unwrap()
}

fn send(stream: &mut TcpStream, request: &str) {
    stream
        .write_all(format!("{request}\r\n").as_bytes())
        .unwrap();
}

/// Sends a request and reads a reply of that very text.
fn ask(stream: &mut TcpStream, request: &str, reply: &str) {
    send(stream, request);
    let mut read = vec![0; reply.len()];
    stream.read_exact(&mut read).unwrap();
    assert_eq!(String::from_utf8_lossy(&read), reply, "{request}");
}

/// Reads until the end of the connection and tells how much came.
fn drain(stream: &mut TcpStream) -> usize {
    let (mut total, mut buffer) = (0, vec![0; 1 << 16]);
    loop {
        match stream.read(&mut buffer) {
            Ok(0) => return total,
            Ok(len) => total += len,
            Err(error) if error.kind() == ErrorKind::ConnectionReset => return total,
            Err(error) => panic!("the connection did not end: {error}"),
        }
    }
}

#[test]
fn an_idle_client_is_disconnected_and_a_waiting_one_is_not() {
    let server = server(&[("timeout", "5")]);
    let (mut idle, mut waiting, mut listening) =
        (connect(&server), connect(&server), connect(&server));
    ask(&mut idle, "PING", "+PONG\r\n");
    ask(
        &mut listening,
        "SUBSCRIBE c",
        "*3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n",
    );
    send(&mut waiting, "BLPOP k 0");
    while server.blocked_clients() == 0 {
        std::thread::yield_now();
    }
    server.advance(Duration::from_secs(4));
    ask(&mut idle, "PING", "+PONG\r\n");
    server.advance(Duration::from_secs(7));
    assert_eq!(drain(&mut idle), 0);
    server.run(["RPUSH", "k", "v"]);
    let mut served = [0; 18];
    waiting.read_exact(&mut served).unwrap();
    assert_eq!(&served, b"*2\r\n$1\r\nk\r\n$1\r\nv\r\n");
    assert_eq!(server.publish("c", "still there"), 1);
}

#[test]
fn a_subscriber_over_the_hard_limit_is_dropped() {
    let server = server(&[("client-output-buffer-limit", "pubsub 1mb 0 0")]);
    let mut slow = connect(&server);
    ask(
        &mut slow,
        "SUBSCRIBE c",
        "*3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n",
    );
    // It reads nothing, so that beside the limit only the sockets' buffers take anything.
    let payload = "x".repeat(1 << 20);
    let mut sent = 0;
    while server.publish("c", &payload) == 1 {
        sent += 1;
        assert!(sent < 1000, "the subscriber was never dropped");
    }
    drain(&mut slow);
}

#[test]
fn a_subscriber_over_the_soft_limit_is_dropped_after_its_time() {
    let server = server(&[("client-output-buffer-limit", "pubsub 0 64kb 10")]);
    let mut slow = connect(&server);
    ask(
        &mut slow,
        "SUBSCRIBE c",
        "*3\r\n$9\r\nsubscribe\r\n$1\r\nc\r\n:1\r\n",
    );
    let payload = "x".repeat(1 << 20);
    for _ in 0..64 {
        assert_eq!(server.publish("c", &payload), 1);
    }
    server.advance(Duration::from_secs(8));
    assert_eq!(server.publish("c", "more"), 1);
    server.advance(Duration::from_secs(20));
    assert_eq!(server.publish("c", "more"), 0);
    drain(&mut slow);
}

#[test]
fn replies_over_the_limit_of_ordinary_clients_end_the_connection() {
    let server = server(&[("client-output-buffer-limit", "normal 100kb 0 0")]);
    server.run(["SET", "big", &"x".repeat(200 << 10)]);
    let mut client = connect(&server);
    ask(&mut client, "PING", "+PONG\r\n");
    send(&mut client, "GET big");
    assert_eq!(drain(&mut client), 0);
}

/// Asks for 40 MB without reading any of it, far more than the sockets' buffers take.
fn ask_and_read_nothing(server: &Server) -> TcpStream {
    server.db(0).set("big", "x".repeat(1 << 20));
    let mut client = connect(server);
    let requests = "GET big\r\n".repeat(40) + "SET done 1\r\n";
    client.write_all(requests.as_bytes()).unwrap();
    let start = Instant::now();
    while !server.db(0).exists("done") {
        assert!(start.elapsed() < PATIENCE, "the requests were not read on");
        std::thread::yield_now();
    }
    client
}

#[test]
fn a_pipeline_is_read_on_while_its_replies_are_not() {
    let server = server(&[]);
    let mut client = ask_and_read_nothing(&server);
    for _ in 0..40 {
        let mut reply = vec![0; (1 << 20) + 12];
        client.read_exact(&mut reply).unwrap();
        assert_eq!(&reply[..12], b"$1048576\r\nxx");
    }
    let mut last = [0; 5];
    client.read_exact(&mut last).unwrap();
    assert_eq!(&last, b"+OK\r\n");
}

#[test]
fn replies_over_the_soft_limit_of_ordinary_clients_end_the_connection_after_its_time() {
    let server = server(&[("client-output-buffer-limit", "normal 0 1mb 10")]);
    let mut slow = ask_and_read_nothing(&server);
    server.advance(Duration::from_secs(20));
    assert!(drain(&mut slow) < 40 << 20);
}

#[test]
fn a_request_over_the_query_buffer_limit_ends_the_connection() {
    let server = server(&[("client-query-buffer-limit", "1mb")]);
    let mut client = connect(&server);
    send(&mut client, "*2\r\n$3\r\nGET\r\n$5000000");
    // The server may close before all of it is sent.
    let _ = client.write_all(&vec![b'x'; 3 << 20]);
    drain(&mut client);
    assert_eq!(server.run(["PING"]), "PONG");
}

#[test]
fn no_more_clients_come_than_maxclients() {
    let server = server(&[("maxclients", "2")]);
    let (mut one, mut two) = (connect(&server), connect(&server));
    ask(&mut one, "PING", "+PONG\r\n");
    ask(&mut two, "PING", "+PONG\r\n");
    let mut third = connect(&server);
    let mut refusal = String::new();
    third.read_to_string(&mut refusal).unwrap();
    assert_eq!(refusal, "-ERR max number of clients reached\r\n");
    ask(&mut one, "CONFIG SET maxclients 3", "+OK\r\n");
    ask(&mut connect(&server), "PING", "+PONG\r\n");
}

#[test]
fn writes_want_replicas_when_the_settings_do() {
    let server = server(&[("min-replicas-to-write", "1")]);
    let mut client = connect(&server);
    ask(
        &mut client,
        "SET k v",
        "-NOREPLICAS Not enough good replicas to write.\r\n",
    );
    ask(&mut client, "GET k", "$-1\r\n");
}

#[test]
fn keys_are_evicted_so_that_the_data_fits() {
    let server = server(&[]);
    server.run(["CONFIG", "SET", "maxmemory-policy", "allkeys-lru"]);
    let evicted = server.subscribe(["__keyevent@0__:evicted"]);
    server.run(["CONFIG", "SET", "notify-keyspace-events", "Ee"]);
    for key in 0..200 {
        server.run(["SET", &format!("old:{key}"), &"x".repeat(1000)]);
    }
    server.advance(Duration::from_secs(10));
    // A limit, however far, makes the server reckon from now on, whatever other tests take here.
    server.run(["CONFIG", "SET", "maxmemory", "100gb"]);
    let info = String::from_utf8(server.run(["INFO", "memory"]).into_bytes().unwrap()).unwrap();
    let used: usize = info
        .lines()
        .find_map(|line| line.strip_prefix("used_memory:"))
        .unwrap()
        .parse()
        .unwrap();
    server.run(["CONFIG", "SET", "maxmemory", &(used + 20_000).to_string()]);
    let mut client = connect(&server);
    for key in 0..50 {
        ask(
            &mut client,
            &format!("SET new:{key} {}", "x".repeat(1000)),
            "+OK\r\n",
        );
    }
    let kept = |prefix: &str| {
        let keys = server.db(0).keys();
        keys.iter()
            .filter(|key| key.starts_with(prefix.as_bytes()))
            .count()
    };
    // The least recently used go first: with samples of five hardly ever a new one.
    assert!(kept("new:") > 40, "{}", kept("new:"));
    assert!((100..200).contains(&kept("old:")), "{}", kept("old:"));
    let first = evicted.next_within(Duration::from_secs(5)).unwrap();
    assert_eq!(first.channel, b"__keyevent@0__:evicted");
}
