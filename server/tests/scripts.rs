//! What others meet while a script has the server to itself.
#![cfg(feature = "scripting")]

mod support;

use std::{
    io::{Read, Write},
    net::TcpStream,
    time::{Duration, Instant},
};

use khoa_server::Server;
use support::connect;

#[test]
fn a_client_ends_a_script_that_a_test_runs() {
    let server = Server::builder()
        .setting("busy-reply-threshold", "1")
        .start()
        .unwrap();
    let mut client = connect(&server);
    let start = Instant::now();
    std::thread::scope(|scope| {
        let script = scope.spawn(|| server.run(["EVAL", "while true do end", "0"]));
        // There is nothing to end until it runs, and has done so for long enough.
        while !ask(&mut client, "SCRIPT KILL\r\n", 1).starts_with('+') {
            assert!(start.elapsed() < Duration::from_secs(20), "nothing to end");
        }
        let text = script.join().unwrap().to_string();
        assert!(
            text.contains("Script killed by user with SCRIPT KILL."),
            "{text}"
        );
    });
}

/// Runs something while an endless script has the engine to itself, with a client that is there
/// already; then ends the script.
fn while_a_script_runs(settings: &[(&str, &str)], body: impl FnOnce(&Server, &mut TcpStream)) {
    let mut builder = Server::builder().setting("busy-reply-threshold", "1");
    for (name, value) in settings {
        builder = builder.setting(name, value);
    }
    let server = builder.start().unwrap();
    let mut client = connect(&server);
    std::thread::scope(|scope| {
        let script = scope.spawn(|| server.run(["EVAL", "while true do end", "0"]));
        while !ask(&mut client, "PING\r\n", 1).starts_with("-BUSY") {}
        body(&server, &mut client);
        ask(&mut client, "SCRIPT KILL\r\n", 1);
        script.join().unwrap();
    });
}

/// Sends requests and reads so many lines.
fn ask(stream: &mut TcpStream, requests: &str, lines: usize) -> String {
    stream.write_all(requests.as_bytes()).unwrap();
    let (mut text, mut left, mut byte) = (Vec::new(), lines, [0]);
    while left > 0 {
        stream.read_exact(&mut byte).unwrap();
        text.extend(byte);
        left -= usize::from(byte == *b"\n");
    }
    String::from_utf8(text).unwrap()
}

#[test]
fn nobody_gets_past_maxclients_while_a_script_runs() {
    while_a_script_runs(&[("maxclients", "2")], |server, _| {
        let mut second = connect(server);
        assert!(ask(&mut second, "PING\r\n", 1).starts_with("-BUSY"));
        let mut third = connect(server);
        let refused = ask(&mut third, "", 1);
        assert_eq!(refused, "-ERR max number of clients reached\r\n");
        drop(second);
        // The place is free as soon as the server has noticed.
        while !ask(&mut connect(server), "PING\r\n", 1).starts_with("-BUSY") {}
    });
}

/// As in Valkey: what stands behind the SCRIPT KILL in one pipeline came while the script ran.
#[test]
fn a_pipeline_that_ends_a_script_is_busy_to_its_end() {
    while_a_script_runs(&[], |_, client| {
        let requests = "PING\r\nMULTI\r\nDISCARD\r\nSCRIPT KILL\r\nPING\r\n\r\nGET k\r\n";
        let answers = ask(client, requests, 6);
        let codes: Vec<&str> = answers.lines().map(|line| &line[..3]).collect();
        assert_eq!(codes, ["-BU", "+OK", "+OK", "+OK", "-BU", "-BU"]);
    });
}
