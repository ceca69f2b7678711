//! What a test can do with an embedded server.

mod support;

use std::{
    io::{Read, Write},
    net::TcpStream,
    time::{Duration, Instant},
};

use khoa_server::{Fault, Server};
use support::connect;

fn server() -> Server {
    Server::builder().frozen().start().unwrap()
}

/// Sends inline requests and reads exactly the reply expected.
#[track_caller]
fn talk(stream: &mut TcpStream, request: &str, reply: &str) {
    stream.write_all(request.as_bytes()).unwrap();
    expect(stream, reply);
}

#[track_caller]
fn expect(stream: &mut TcpStream, reply: &str) {
    let mut got = vec![0; reply.len()];
    stream.read_exact(&mut got).unwrap();
    assert_eq!(String::from_utf8_lossy(&got), reply);
}

#[track_caller]
fn expect_end(stream: &mut TcpStream) {
    let mut rest = Vec::new();
    // A connection that is cut with unread input ends with an error instead of an end.
    let _ = stream.read_to_end(&mut rest);
    assert_eq!(String::from_utf8_lossy(&rest), "");
}

/// Waits for what another thread is about to do, without a bound of its own beyond a hang.
fn until(what: impl Fn() -> bool) {
    let start = Instant::now();
    while !what() {
        assert!(start.elapsed() < Duration::from_secs(20), "it never came");
        std::thread::yield_now();
    }
}

#[test]
fn it_serves_when_start_returns_and_stops_on_drop() {
    for _ in 0..50 {
        let server = Server::start().unwrap();
        let mut client = connect(&server);
        talk(&mut client, "SET k v\r\n", "+OK\r\n");
        let addr = server.addr();
        drop(server);
        expect_end(&mut client);
        assert!(TcpStream::connect(addr).is_err());
    }
}

#[test]
fn hundreds_live_in_one_process() {
    let servers: Vec<Server> = (0..200).map(|_| Server::start().unwrap()).collect();
    for (at, server) in servers.iter().enumerate() {
        server.db(0).set("me", at.to_string());
    }
    for (at, server) in servers.iter().enumerate() {
        let mut client = connect(server);
        let me = at.to_string();
        talk(
            &mut client,
            "GET me\r\n",
            &format!("${}\r\n{me}\r\n", me.len()),
        );
    }
}

#[test]
fn advancing_the_clock_meets_every_deadline_in_order() {
    let server = server();
    server.run(["CONFIG", "SET", "notify-keyspace-events", "Ex"]);
    let expired = server.subscribe(["__keyevent@0__:expired"]);
    for (key, ttl) in [
        ("c", "3000"),
        ("a", "1000"),
        ("b", "2000"),
        ("d", "86400000"),
    ] {
        server.run(["SET", key, "v", "PX", ttl]);
    }
    server.advance(Duration::from_secs(3600));
    let order: Vec<Vec<u8>> = std::iter::from_fn(|| expired.try_next())
        .map(|message| message.payload)
        .collect();
    assert_eq!(order, [b"a", b"b", b"c"]);
    assert_eq!(server.db(0).keys(), [b"d"]);
}

#[test]
fn a_frozen_clock_keeps_a_key_until_the_exact_millisecond() {
    let server = server();
    server.run(["SET", "lock", "token", "NX", "PX", "100"]);
    server.advance(Duration::from_millis(99));
    assert_eq!(server.db(0).ttl("lock"), Some(Duration::from_millis(1)));
    server.advance(Duration::from_millis(1));
    assert!(!server.db(0).exists("lock"));
}

#[test]
fn advancing_the_clock_ends_a_wait_on_the_wire() {
    let server = server();
    let mut client = connect(&server);
    client.write_all(b"BLPOP queue 5\r\n").unwrap();
    until(|| server.blocked_clients() == 1);
    server.advance(Duration::from_secs(5));
    expect(&mut client, "*-1\r\n");
}

#[test]
fn direct_access_serves_a_waiting_client() {
    let server = server();
    let mut client = connect(&server);
    client.write_all(b"BLPOP queue 0\r\n").unwrap();
    until(|| server.blocked_clients() == 1);
    server.db(0).push("queue", "job");
    expect(&mut client, "*2\r\n$5\r\nqueue\r\n$3\r\njob\r\n");
    assert!(server.db(0).list("queue").is_empty());
}

#[test]
fn time_set_back_leaves_keys_with_their_deadlines() {
    let server = server();
    server.set_time_ms(1_000_000);
    server.run(["SET", "k", "v", "PXAT", "1000500"]);
    server.set_time_ms(900_000);
    assert_eq!(server.db(0).ttl("k"), Some(Duration::from_millis(100_500)));
    server.set_time_ms(1_000_500);
    assert!(!server.db(0).exists("k"));
}

#[test]
fn a_restart_keeps_the_port_and_the_data() {
    let mut server = server();
    let addr = server.addr();
    server.db(0).set("k", "v");
    let mut before = connect(&server);
    talk(&mut before, "GET k\r\n", "$1\r\nv\r\n");
    server.restart().unwrap();
    expect_end(&mut before);
    assert_eq!(server.addr(), addr);
    talk(&mut connect(&server), "GET k\r\n", "$1\r\nv\r\n");
}

#[test]
fn a_restart_can_lose_the_data() {
    let mut server = server();
    server.db(0).set("k", "v");
    let addr = server.addr();
    server.restart_empty().unwrap();
    assert_eq!(server.addr(), addr);
    talk(&mut connect(&server), "GET k\r\n", "$-1\r\n");
}

#[test]
fn a_restart_ends_the_connection_that_comes_at_the_same_moment() {
    let mut server = server();
    for _ in 0..200 {
        let mut client = connect(&server);
        server.restart().unwrap();
        // Its port may have been closed before it was accepted; in any case it is not served.
        let _ = client.write_all(b"PING\r\n");
        expect_end(&mut client);
    }
}

#[tokio::test]
async fn a_restart_ends_a_stream_that_was_not_served_yet() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let mut server = server();
    let mut stream = server.stream();
    server.restart().unwrap();
    // The stream may be closed already.
    let _ = stream.write_all(b"SET k v\r\n").await;
    let mut reply = Vec::new();
    stream.read_to_end(&mut reply).await.unwrap();
    assert_eq!(reply, b"");
    assert!(!server.db(0).exists("k"));
}

#[tokio::test]
async fn one_who_waited_before_a_restart_takes_nothing_after_it() {
    use tokio::io::AsyncWriteExt;
    let mut server = server();
    let mut stream = server.stream();
    stream.write_all(b"BLPOP queue 0\r\n").await.unwrap();
    while server.blocked_clients() == 0 {
        tokio::task::yield_now().await;
    }
    server.restart().unwrap();
    server.db(0).push("queue", "job");
    assert_eq!(server.db(0).list("queue"), [b"job"]);
}

#[tokio::test]
async fn a_connection_from_before_a_restart_does_nothing_to_one_after_it() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let mut server = server();
    let mut before = server.stream();
    before.write_all(b"PING\r\n").await.unwrap();
    let mut reply = [0; 7];
    before.read_exact(&mut reply).await.unwrap();
    server.restart_empty().unwrap();
    // The engine is a new one, so this client has the number of the other.
    let mut after = server.stream();
    after.write_all(b"PING\r\n").await.unwrap();
    after.read_exact(&mut reply).await.unwrap();
    drop(before);
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    assert_eq!(server.connected_clients(), 1);
    after.write_all(b"PING\r\n").await.unwrap();
    after.read_exact(&mut reply).await.unwrap();
    assert_eq!(&reply, b"+PONG\r\n");
}

#[test]
fn those_who_are_cut_off_take_nothing_any_more() {
    let server = server();
    for _ in 0..50 {
        let mut client = connect(&server);
        client.write_all(b"BLPOP queue 0\r\n").unwrap();
        until(|| server.blocked_clients() == 1);
        server.kill_clients();
        server.db(0).push("queue", "job");
        expect_end(&mut client);
        assert_eq!(server.run(["LPOP", "queue"]), "job");
    }
}

#[test]
fn an_error_strikes_every_command_until_it_is_cleared() {
    let server = server();
    let mut client = connect(&server);
    server.fail_with("LOADING not yet");
    talk(&mut client, "PING\r\n", "-LOADING not yet\r\n");
    assert_eq!(server.run(["PING"]), "PONG");
    server.clear_faults();
    talk(&mut client, "PING\r\n", "+PONG\r\n");
}

#[test]
fn a_swallowed_reply_was_executed() {
    let server = server();
    let mut client = connect(&server);
    server.inject_on("SET", Fault::SwallowReply, 1);
    talk(&mut client, "SET k v\r\nPING\r\n", "+PONG\r\n");
    assert_eq!(server.db(0).get("k").as_deref(), Some(&b"v"[..]));
}

#[test]
fn the_reply_that_ends_a_wait_can_be_swallowed() {
    let server = server();
    let mut client = connect(&server);
    server.inject_on("BLPOP", Fault::SwallowReply, 1);
    client
        .write_all(b"BLPOP queue 0\r\nLLEN queue\r\nBLPOP queue 1\r\n")
        .unwrap();
    until(|| server.blocked_clients() == 1);
    server.db(0).push("queue", "lost");
    expect(&mut client, ":0\r\n");
    until(|| server.blocked_clients() == 1);
    server.db(0).push("queue", "job");
    expect(&mut client, "*2\r\n$5\r\nqueue\r\n$3\r\njob\r\n");
}

#[test]
fn a_fault_strikes_a_request_after_the_pause_that_holds_it_back() {
    for fault in [Fault::SwallowReply, Fault::DropAfter] {
        let server = server();
        let mut client = connect(&server);
        server.run(["CLIENT", "PAUSE", "10", "WRITE"]);
        server.inject_on("INCR", fault.clone(), 1);
        client.write_all(b"INCR n\r\n").unwrap();
        // Once its bytes are counted, it was offered to the engine and held back.
        until(|| {
            let info = server.run(["INFO", "stats"]).into_bytes().unwrap();
            let info = String::from_utf8(info).unwrap();
            assert!(info.contains("total_net_input_bytes:"));
            !info.contains("total_net_input_bytes:0\r\n")
        });
        assert_eq!(server.calls_of("incr"), 0);
        server.advance(Duration::from_millis(10));
        match fault {
            Fault::DropAfter => expect_end(&mut client),
            _ => talk(&mut client, "PING\r\n", "+PONG\r\n"),
        }
        assert_eq!(server.db(0).get("n").as_deref(), Some(&b"1"[..]));
    }
}

#[test]
fn a_connection_is_dropped_before_or_after_the_command() {
    let server = server();
    let mut client = connect(&server);
    server.inject_on("SET", Fault::DropBefore, 1);
    client.write_all(b"SET before v\r\n").unwrap();
    expect_end(&mut client);
    assert!(!server.db(0).exists("before"));
    let mut client = connect(&server);
    server.inject_on("SET", Fault::DropAfter, 1);
    client.write_all(b"SET after v\r\n").unwrap();
    expect_end(&mut client);
    assert!(server.db(0).exists("after"));
}

#[test]
fn latency_holds_up_the_client_it_strikes_and_no_other() {
    let server = server();
    let (mut slow, mut other) = (connect(&server), connect(&server));
    server.inject_on("GET", Fault::Latency(Duration::from_millis(50)), 1);
    let start = Instant::now();
    slow.write_all(b"GET k\r\n").unwrap();
    talk(&mut other, "PING\r\n", "+PONG\r\n");
    expect(&mut slow, "$-1\r\n");
    assert!(start.elapsed() >= Duration::from_millis(50));
}

#[test]
fn a_password_can_be_asked_for() {
    let server = server();
    server.require_auth(Some("secret"));
    let mut client = connect(&server);
    talk(
        &mut client,
        "GET k\r\n",
        "-NOAUTH Authentication required.\r\n",
    );
    talk(&mut client, "AUTH secret\r\nGET k\r\n", "+OK\r\n$-1\r\n");
    assert!(server.url().contains(":secret@"));
}

#[test]
fn a_seed_repeats_what_is_random() {
    let pick = || {
        let server = Server::builder().seed(7).start().unwrap();
        for n in 0..100 {
            server.db(0).set(format!("key:{n}"), "v");
        }
        (0..20)
            .map(|_| server.run(["RANDOMKEY"]).to_string())
            .collect::<Vec<_>>()
    };
    assert_eq!(pick(), pick());
}

#[test]
fn counters_count() {
    let server = server();
    let mut client = connect(&server);
    talk(
        &mut client,
        "SET a 1\r\nGET a\r\nGET a\r\n",
        "+OK\r\n$1\r\n1\r\n$1\r\n1\r\n",
    );
    assert_eq!((server.calls_of("get"), server.calls_of("set")), (2, 1));
    assert_eq!(
        (server.connected_clients(), server.connections_received()),
        (1, 1)
    );
    drop(client);
    until(|| server.connected_clients() == 0);
}

#[test]
fn the_dump_shows_every_key() {
    let server = server();
    server.run(["SET", "a", "x", "PX", "1500"]);
    server.db(0).push("l", "1");
    assert_eq!(
        server.db(0).dump(),
        "a (string, 1500 ms left) \"x\"\nl (list) [\"1\"]\n"
    );
}

#[test]
fn a_unix_socket_serves_as_a_port_does() {
    let path = std::env::temp_dir().join(format!("khoa-test-{}.sock", std::process::id()));
    let server = Server::builder()
        .no_port()
        .unix_socket(&path)
        .start()
        .unwrap();
    let mut stream = std::os::unix::net::UnixStream::connect(&path).unwrap();
    stream.write_all(b"PING\r\n").unwrap();
    let mut reply = [0; 7];
    stream.read_exact(&mut reply).unwrap();
    assert_eq!(&reply, b"+PONG\r\n");
    drop(server);
    assert!(!path.exists());
}

#[tokio::test(start_paused = true)]
async fn both_ends_share_one_paused_runtime() {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let server = Server::builder().in_runtime().start().unwrap();
    let mut stream = server.stream();
    let start = tokio::time::Instant::now();
    // An hour of waiting takes no time: the runtime jumps to the server's next deadline.
    stream
        .write_all(b"SET k v PX 60000\r\nBLPOP queue 3600\r\nGET k\r\n")
        .await
        .unwrap();
    let mut reply = [0; 15];
    stream.read_exact(&mut reply).await.unwrap();
    assert_eq!(&reply, b"+OK\r\n*-1\r\n$-1\r\n");
    assert_eq!(start.elapsed().as_secs(), 3600);
}

#[test]
fn half_a_connection_still_gets_its_replies() {
    let server = server();
    let mut client = connect(&server);
    let many = "INCR n\r\n".repeat(10_000);
    client.write_all(many.as_bytes()).unwrap();
    client.shutdown(std::net::Shutdown::Write).unwrap();
    let mut replies = String::new();
    client.read_to_string(&mut replies).unwrap();
    assert!(replies.ends_with(":9999\r\n:10000\r\n"));
}

#[test]
fn a_waiter_that_leaves_takes_nothing_along() {
    let server = server();
    let mut client = connect(&server);
    client.write_all(b"BLPOP queue 0\r\n").unwrap();
    until(|| server.blocked_clients() == 1);
    drop(client);
    until(|| server.blocked_clients() == 0);
    server.db(0).push("queue", "job");
    assert_eq!(server.db(0).list("queue"), [b"job"]);
}

#[test]
fn a_message_for_one_client_is_there_before_its_publisher_has_the_reply() {
    let server = server();
    let (mut listener, mut publisher) = (connect(&server), connect(&server));
    talk(
        &mut listener,
        "SUBSCRIBE news\r\n",
        "*3\r\n$9\r\nsubscribe\r\n$4\r\nnews\r\n:1\r\n",
    );
    for _ in 0..100 {
        talk(&mut publisher, "PUBLISH news hello\r\n", ":1\r\n");
        listener.set_nonblocking(true).unwrap();
        expect(
            &mut listener,
            "*3\r\n$7\r\nmessage\r\n$4\r\nnews\r\n$5\r\nhello\r\n",
        );
        listener.set_nonblocking(false).unwrap();
    }
}

#[test]
fn waiters_are_served_in_the_order_in_which_they_came() {
    let server = server();
    let mut clients: Vec<TcpStream> = Vec::new();
    for at in 0..20 {
        let mut client = connect(&server);
        client.write_all(b"BLPOP queue 0\r\n").unwrap();
        clients.push(client);
        until(|| server.blocked_clients() == at + 1);
    }
    for (at, client) in clients.iter_mut().enumerate() {
        server.db(0).push("queue", format!("{at:02}"));
        expect(client, &format!("*2\r\n$5\r\nqueue\r\n$2\r\n{at:02}\r\n"));
    }
}

#[test]
fn keys_migrate_from_one_server_to_another() {
    let (from, to) = (server(), server());
    to.require_auth(Some("secret"));
    for (key, value) in [("a", "1"), ("b", "2")] {
        from.run(["SET", key, value, "PX", "60000"]);
    }
    from.db(0).push("l", "x");
    let mut client = connect(&from);
    let port = to.port();
    let migrate = format!("MIGRATE 127.0.0.1 {port} \"\" 0 5000 AUTH secret KEYS a missing l\r\n");
    talk(&mut client, &migrate, "+OK\r\n");
    assert_eq!(from.db(0).keys(), [b"b"]);
    assert_eq!(
        to.db(0).dump(),
        "a (string, 60000 ms left) \"1\"\nl (list) [\"x\"]\n"
    );
    let again = format!("MIGRATE 127.0.0.1 {port} b 0 5000 COPY\r\n");
    talk(
        &mut client,
        &again,
        "-ERR Target instance replied with error: NOAUTH Authentication required.\r\n",
    );
    assert!(from.db(0).exists("b"));
}

// Both of these would take far longer than a read may, if they took the square of the number.

/// A request in the form that carries any bytes.
fn request<'a>(words: impl IntoIterator<Item = &'a str>) -> String {
    let words: Vec<&str> = words.into_iter().collect();
    let bulks = words
        .iter()
        .map(|word| format!("${}\r\n{word}\r\n", word.len()));
    format!("*{}\r\n{}", words.len(), bulks.collect::<String>())
}

#[test]
fn watching_a_great_many_keys_takes_no_more_than_their_number() {
    let server = server();
    let mut client = connect(&server);
    let keys: Vec<String> = (0..30_000).map(|at| format!("key:{at}")).collect();
    let names = || keys.iter().map(String::as_str);
    let watch = request(["WATCH"].into_iter().chain(names()).chain(names()));
    talk(&mut client, &watch, "+OK\r\n");
    let mut other = connect(&server);
    talk(&mut other, "SET key:29999 v\r\n", "+OK\r\n");
    talk(&mut client, "MULTI\r\n", "+OK\r\n");
    talk(&mut client, "EXEC\r\n", "*-1\r\n");
}

#[test]
fn values_of_another_type_for_a_great_many_awaited_keys_hold_nobody_up() {
    let server = server();
    let mut waiter = connect(&server);
    let mut client = connect(&server);
    let keys: Vec<String> = (0..30_000).map(|at| format!("key:{at}")).collect();
    let names = || keys.iter().map(String::as_str);
    let pop = request(["BLPOP"].into_iter().chain(names()).chain(["0"]));
    waiter.write_all(pop.as_bytes()).unwrap();
    until(|| server.blocked_clients() == 1);
    let set = request(
        ["MSET"]
            .into_iter()
            .chain(names().flat_map(|key| [key, "v"])),
    );
    talk(&mut client, &set, "+OK\r\n");
    talk(&mut client, "DEL key:0\r\n", ":1\r\n");
    talk(&mut client, "RPUSH key:0 a\r\n", ":1\r\n");
    expect(&mut waiter, "*2\r\n$5\r\nkey:0\r\n$1\r\na\r\n");
}

#[test]
fn keys_past_their_time_stay_hidden_while_nothing_removes_them() {
    let server = Server::builder()
        .frozen()
        .setting("enable-debug-command", "yes")
        .start()
        .unwrap();
    server.run(["DEBUG", "SET-ACTIVE-EXPIRE", "0"]);
    server.run(["SET", "gone", "v", "PX", "10"]);
    server.db(0).set("stays", "v");
    server.advance(Duration::from_millis(20));
    assert_eq!(server.db(0).keys(), [b"stays"]);
    assert_eq!(server.run(["SCAN", "0"]).to_string(), r#"["0", ["stays"]]"#);
    assert!(!server.db(0).exists("gone"));
}

#[test]
fn a_cluster_finds_the_keys_of_a_slot_whatever_becomes_of_them() {
    let server = Server::builder()
        .frozen()
        .setting("cluster-enabled", "yes")
        .setting("cluster-databases", "2")
        .start()
        .unwrap();
    let slot = server
        .run(["CLUSTER", "KEYSLOT", "a"])
        .into_integer()
        .unwrap();
    let count = || {
        let request = ["CLUSTER", "COUNTKEYSINSLOT", &slot.to_string()];
        server.run(request).into_integer().unwrap()
    };
    for request in [
        "SET {a}1 x",
        "SET {a}2 x PX 50",
        "SET {a}3 x",
        "SET {a}3 y",
        "RENAME {a}3 {a}4",
        "COPY {a}4 {a}5",
        "RPUSH {a}6 x",
        "LPOP {a}6",
        "DEL {a}5",
        "SET b x",
    ] {
        server.run(request.split(' '));
    }
    assert_eq!(count(), 3);
    server.advance(Duration::from_millis(51));
    assert_eq!(count(), 2);
    server.run(["FLUSHALL"]);
    assert_eq!(count(), 0);
    server.run(["SET", "{a}1", "x"]);
    assert_eq!(count(), 1);
}

/// The references take too long for it to be in a transcript.
#[test]
fn random_patterns_match_in_time() {
    let server = Server::builder()
        .setting("enable-debug-command", "yes")
        .start()
        .unwrap();
    let answer = server.run(["DEBUG", "STRINGMATCH-TEST"]);
    assert_eq!(answer, "Apparently the server did not crash: test passed");
}
