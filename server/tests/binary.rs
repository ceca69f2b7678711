//! The binary from the outside: its banner, its settings, its errors, its end.
#![cfg(feature = "cli")]

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    process::{Child, Command, Output, Stdio},
};

/// A running server, ended with the test.
struct Running {
    child: Child,
    port: u16,
}

impl Running {
    /// Starts the binary on a port that is free, and waits for its banner.
    fn start(args: &[&str]) -> Running {
        Self::start_with_input(args, "")
    }

    fn start_with_input(args: &[&str], input: &str) -> Running {
        Self::run(binary(), args, input)
    }

    fn run(mut command: Command, args: &[&str], input: &str) -> Running {
        let port = free_port();
        let mut child = command
            .args(args)
            .args(["--port", &port.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        child
            .stdin
            .take()
            .unwrap()
            .write_all(input.as_bytes())
            .unwrap();
        let mut banner = String::new();
        let stdout = child.stdout.as_mut().unwrap();
        BufReader::new(stdout).read_line(&mut banner).unwrap();
        assert!(banner.contains(&port.to_string()), "{banner}");
        Running { child, port }
    }

    fn connect(&self) -> TcpStream {
        TcpStream::connect(("127.0.0.1", self.port)).unwrap()
    }

    fn ask(&self, request: &str) -> String {
        ask(&mut self.connect(), request)
    }

    #[cfg(unix)]
    fn signal(&mut self, name: &str) -> std::process::ExitStatus {
        let id = self.child.id().to_string();
        Command::new("kill").args([name, &id]).status().unwrap();
        self.child.wait().unwrap()
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn binary() -> Command {
    Command::new(env!("CARGO_BIN_EXE_khoa-server"))
}

fn free_port() -> u16 {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}

/// Sends an inline request, then QUIT, and returns all that came back before its `+OK`.
fn ask(stream: &mut TcpStream, request: &str) -> String {
    stream
        .write_all(format!("{request}\r\nQUIT\r\n").as_bytes())
        .unwrap();
    let mut reply = String::new();
    stream.read_to_string(&mut reply).unwrap();
    reply.strip_suffix("+OK\r\n").unwrap_or(&reply).to_owned()
}

fn fails(args: &[&str]) -> String {
    let Output { status, stderr, .. } = binary().args(args).stdin(Stdio::null()).output().unwrap();
    assert_eq!(status.code(), Some(1));
    let text = String::from_utf8(stderr).unwrap();
    assert!(!text.contains("panicked"), "{text}");
    text
}

#[test]
fn it_serves_as_soon_as_the_banner_is_there() {
    let server = Running::start(&[]);
    assert_eq!(server.ask("SET k v"), "+OK\r\n");
    assert_eq!(server.ask("GET k"), "$1\r\nv\r\n");
    let port = format!("${}\r\n{}\r\n", server.port.to_string().len(), server.port);
    assert_eq!(
        server.ask("CONFIG GET port"),
        format!("*2\r\n$4\r\nport\r\n{port}")
    );
}

#[test]
fn options_set_any_setting() {
    let args = [
        "--databases",
        "3",
        "--save",
        "60",
        "1",
        "--save",
        "300",
        "10",
    ];
    let server = Running::start(&[&args[..], &["--slowlog-max-len", "7"]].concat());
    assert_eq!(
        server.ask("CONFIG GET databases"),
        "*2\r\n$9\r\ndatabases\r\n$1\r\n3\r\n"
    );
    assert_eq!(
        server.ask("CONFIG GET save"),
        "*2\r\n$4\r\nsave\r\n$11\r\n60 1 300 10\r\n"
    );
    assert!(
        server
            .ask("CONFIG GET slowlog-max-len")
            .ends_with("$1\r\n7\r\n")
    );
}

#[test]
fn a_file_is_read_and_options_overrule_it() {
    let file = std::env::temp_dir().join(format!("khoa-{}.conf", std::process::id()));
    std::fs::write(
        &file,
        "# mine\ntimeout 77\nmaxclients 55\nrequirepass \"a b\"\n",
    )
    .unwrap();
    let server = Running::start(&[file.to_str().unwrap(), "--maxclients", "56"]);
    assert_eq!(server.ask("PING"), "-NOAUTH Authentication required.\r\n");
    let reply = server.ask("AUTH \"a b\"\r\nCONFIG GET timeout\r\nCONFIG GET maxclients");
    assert_eq!(
        reply,
        "+OK\r\n*2\r\n$7\r\ntimeout\r\n$2\r\n77\r\n*2\r\n$10\r\nmaxclients\r\n$2\r\n56\r\n"
    );
    server.ask("AUTH \"a b\"\r\nCONFIG SET timeout 78\r\nCONFIG REWRITE");
    let rewritten = std::fs::read_to_string(&file).unwrap();
    assert!(rewritten.starts_with("# mine\n"), "{rewritten}");
    assert!(rewritten.contains("\ntimeout 78\n"), "{rewritten}");
    std::fs::remove_file(&file).unwrap();
}

#[test]
fn users_of_a_file_are_there_and_rewritten() {
    let file = std::env::temp_dir().join(format!("khoa-users-{}.conf", std::process::id()));
    std::fs::write(&file, "user alice on nopass ~* +@all\ntimeout 7\n").unwrap();
    let server = Running::start(&[file.to_str().unwrap(), "--user", "bob on +@all -get"]);
    assert_eq!(
        server.ask("AUTH alice x\r\nACL DELUSER bob\r\nCONFIG REWRITE"),
        "+OK\r\n:1\r\n+OK\r\n"
    );
    let rewritten = std::fs::read_to_string(&file).unwrap();
    std::fs::remove_file(&file).unwrap();
    let users: Vec<&str> = rewritten
        .lines()
        .filter(|line| line.starts_with("user "))
        .collect();
    assert_eq!(
        users,
        [
            "user alice on nopass ~* resetchannels +@all",
            "user default on nopass ~* &* +@all"
        ]
    );
}

#[test]
#[cfg(unix)]
fn no_more_clients_may_come_than_the_system_lets_in() {
    let mut shell = Command::new("sh");
    shell
        .args(["-c", "ulimit -n 100; exec \"$0\" \"$@\""])
        .arg(env!("CARGO_BIN_EXE_khoa-server"));
    let server = Running::run(shell, &[], "");
    let get = |value: &str| format!("*2\r\n$10\r\nmaxclients\r\n$2\r\n{value}\r\n");
    assert_eq!(server.ask("CONFIG GET maxclients"), get("68"));
    assert_eq!(server.ask("CONFIG SET maxclients 50"), "+OK\r\n");
    assert_eq!(
        server.ask("CONFIG SET timeout 9 maxclients 69"),
        "-ERR CONFIG SET failed (possibly related to argument 'maxclients') - The operating \
         system is not able to handle the specified number of clients, try with 68\r\n"
    );
    assert_eq!(server.ask("CONFIG GET maxclients"), get("50"));
    assert_eq!(
        server.ask("CONFIG GET timeout"),
        "*2\r\n$7\r\ntimeout\r\n$1\r\n0\r\n"
    );
    assert_eq!(server.ask("CONFIG SET maxclients 68"), "+OK\r\n");
}

#[test]
fn a_dash_reads_standard_input() {
    let server = Running::start_with_input(&["-"], "databases 2\n");
    assert_eq!(server.ask("SELECT 2"), "-ERR DB index is out of range\r\n");
}

#[test]
fn a_port_in_use_is_said_plainly() {
    let server = Running::start(&[]);
    let text = fails(&["--port", &server.port.to_string()]);
    assert!(
        text.contains(&format!("cannot listen on 127.0.0.1:{}", server.port)),
        "{text}"
    );
    assert!(text.contains("try another --port"), "{text}");
}

#[test]
fn settings_that_only_older_versions_knew_pass_without_effect() {
    let file = std::env::temp_dir().join(format!("khoa-old-{}.conf", std::process::id()));
    std::fs::write(&file, "dynamic-hz yes\nio-threads-do-reads no\n").unwrap();
    let server = Running::start(&[file.to_str().unwrap(), "--sanitize-dump-payload", "no"]);
    assert_eq!(server.ask("CONFIG GET dynamic-hz"), "*0\r\n");
    std::fs::remove_file(&file).unwrap();
}

#[test]
fn unknown_settings_and_bad_values_are_said_plainly() {
    assert!(fails(&["--nosuch", "1"]).contains("unknown setting '--nosuch'"));
    assert!(fails(&["--databases", "many"]).contains("--databases: argument couldn't be parsed"));
    assert!(fails(&["--appendonly", "yes"]).contains("nothing is written to disk"));
    assert!(fails(&["/nosuch.conf"]).contains("/nosuch.conf"));
    let file = std::env::temp_dir().join(format!("khoa-bad-{}.conf", std::process::id()));
    std::fs::write(&file, "timeout 1\nnosuch 2\n").unwrap();
    let text = fails(&[file.to_str().unwrap()]);
    assert!(text.contains(":2: nosuch: unknown setting"), "{text}");
    std::fs::remove_file(&file).unwrap();
}

#[test]
fn shutdown_ends_it_without_an_answer() {
    let mut server = Running::start(&[]);
    assert_eq!(server.ask("PING\r\nSHUTDOWN NOSAVE\r\nPING"), "+PONG\r\n");
    assert!(server.child.wait().unwrap().success());
}

#[test]
#[cfg(unix)]
fn signals_end_it_in_good_order() {
    for name in ["-TERM", "-INT"] {
        let mut server = Running::start(&[]);
        let mut waiting = server.connect();
        waiting.write_all(b"PING\r\n").unwrap();
        let mut reply = [0; 7];
        waiting.read_exact(&mut reply).unwrap();
        assert!(server.signal(name).success());
        assert_eq!(
            waiting.read(&mut reply).unwrap(),
            0,
            "the connection was closed"
        );
    }
}

#[cfg(feature = "scripting")]
mod scripts {
    use std::time::{Duration, Instant};

    use super::*;

    /// Has a script run for ever, until it has the server to itself.
    fn keep_busy(server: &Running) -> TcpStream {
        let mut runner = server.connect();
        let script = b"EVAL \"redis.call('set', 'k', 'v') while true do end\" 1 k\r\n";
        runner.write_all(script).unwrap();
        while !server.ask("GET k").starts_with("-BUSY") {}
        runner
    }

    #[test]
    fn shutdown_ends_it_while_a_script_that_wrote_runs() {
        let mut server = Running::start(&["--busy-reply-threshold", "1"]);
        let mut runner = keep_busy(&server);
        assert!(server.ask("SCRIPT KILL").starts_with("-UNKILLABLE"));
        assert_eq!(server.ask("SHUTDOWN NOSAVE"), "");
        assert!(ends_soon(&mut server).success());
        let mut answer = String::new();
        runner.read_to_string(&mut answer).unwrap();
        assert!(answer.starts_with("-ERR"), "{answer}");
    }

    #[test]
    #[cfg(unix)]
    fn a_signal_ends_it_while_a_script_that_wrote_runs() {
        let mut server = Running::start(&["--busy-reply-threshold", "1"]);
        let _runner = keep_busy(&server);
        let id = server.child.id().to_string();
        Command::new("kill").args(["-TERM", &id]).status().unwrap();
        assert!(ends_soon(&mut server).success());
    }

    /// How the binary ends, which must not take long.
    fn ends_soon(server: &mut Running) -> std::process::ExitStatus {
        let start = Instant::now();
        loop {
            if let Some(status) = server.child.try_wait().unwrap() {
                return status;
            }
            assert!(start.elapsed() < Duration::from_secs(10), "it goes on");
            std::thread::yield_now();
        }
    }
}

#[test]
#[cfg(unix)]
fn it_listens_on_a_unix_socket_and_leaves_none_behind() {
    let path = std::env::temp_dir().join(format!("khoa-{}.sock", std::process::id()));
    let mut server = Running::start(&["--unixsocket", path.to_str().unwrap()]);
    let mut stream = std::os::unix::net::UnixStream::connect(&path).unwrap();
    stream.write_all(b"PING\r\n").unwrap();
    let mut reply = [0; 7];
    stream.read_exact(&mut reply).unwrap();
    assert_eq!(&reply, b"+PONG\r\n");
    assert!(server.signal("-TERM").success());
    assert!(!path.exists());
}
