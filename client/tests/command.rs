//! The `khoa` command as shells and cron jobs use it: real processes over the embedded server.
#![cfg(unix)]

use std::process::{Output, Stdio};
use std::time::Duration;

use khoa::{Holder, Manager};
use khoa_server::{Fault, Server};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

/// A server whose clock stands still, so that no lease ends on it by itself.
fn server() -> Server {
    Server::builder().frozen().start().unwrap()
}

fn manager(server: &Server) -> Manager {
    Manager::open(server.url()).unwrap()
}

fn khoa(server: &Server, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_khoa"));
    command
        .args(arguments)
        .env("KHOA_SERVER", server.url())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    command
}

async fn output(server: &Server, arguments: &[&str]) -> Output {
    let mut command = khoa(server, arguments);
    command.stdin(Stdio::null()).output().await.unwrap()
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

/// A command under a lock that has begun, with both ends of its pipes.
struct Running {
    process: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Running {
    /// Runs a shell script under the lock `job`, up to the first line that it prints.
    async fn start(server: &Server, options: &[&str], script: &str) -> Self {
        let arguments = [&["run"], options, &["job", "--", "sh", "-c", script]].concat();
        let mut process = khoa(server, &arguments).spawn().unwrap();
        let input = process.stdin.take().unwrap();
        let output = BufReader::new(process.stdout.take().unwrap());
        let mut running = Self {
            process,
            input,
            output,
        };
        assert_eq!(running.line().await, "begun");
        running
    }

    async fn line(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).await.unwrap();
        line.trim_end().to_owned()
    }

    /// Ends when nobody has the command's output open any more: all that ran of it is dead.
    async fn all_are_dead(&mut self) {
        let mut rest = Vec::new();
        self.output.read_to_end(&mut rest).await.unwrap();
    }

    async fn exit_status(&mut self) -> Option<i32> {
        self.process.wait().await.unwrap().code()
    }

    fn signal(&self, signal: nix::sys::signal::Signal) {
        let pid = i32::try_from(self.process.id().unwrap()).unwrap();
        nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), signal).unwrap();
    }
}

/// A group of two that hears no SIGTERM: only SIGKILL to all of it ends it.
const STUBBORN: &str = "trap '' TERM; sleep 3600 & echo begun; wait; sleep 3600";

#[tokio::test]
async fn a_command_runs_under_the_lock_with_its_fencing_token() {
    let server = server();
    let manager = manager(&server);
    let script =
        "echo begun; echo $KHOA_NAME $KHOA_KEY $KHOA_FENCING_TOKEN; read line; echo got $line";
    let mut running = Running::start(&server, &["--label", "nightly"], script).await;
    let holder = manager.inspect("job").await.unwrap().unwrap();
    assert_eq!(holder.label, b"nightly");
    let token = holder.fencing_token.unwrap();
    assert_eq!(running.line().await, format!("job khoa:job {token}"));
    running.input.write_all(b"input\n").await.unwrap();
    assert_eq!(running.line().await, "got input");
    assert_eq!(running.exit_status().await, Some(0));
    assert_eq!(manager.inspect("job").await.unwrap(), None);
}

#[tokio::test]
async fn the_exit_status_is_that_of_the_command() {
    let server = server();
    for (script, status) in [("exit 7", 7), ("kill -9 $$", 137), ("kill -15 $$", 143)] {
        let run = output(&server, &["run", "job", "--", "sh", "-c", script]).await;
        assert_eq!(run.status.code(), Some(status), "{script}");
    }
    assert_eq!(manager(&server).inspect("job").await.unwrap(), None);
}

#[tokio::test]
async fn a_command_that_cannot_be_run_leaves_no_lock() {
    let server = server();
    let run = output(&server, &["run", "job", "no-such-command", "-x"]).await;
    assert_eq!(run.status.code(), Some(127));
    assert!(
        text(&run.stderr).starts_with("khoa: no-such-command: "),
        "{run:?}"
    );
    let run = output(&server, &["run", "job", "/"]).await;
    assert_eq!(run.status.code(), Some(126));
    assert_eq!(manager(&server).inspect("job").await.unwrap(), None);
}

#[tokio::test]
async fn a_held_lock_keeps_the_command_from_running() {
    let server = server();
    let guard = manager(&server).lock("job").acquire().await.unwrap();
    for (options, status) in [
        (&["--no-wait"][..], 75),
        (&["--wait", "300ms"], 75),
        (&["--no-wait", "-E", "0"], 0),
    ] {
        let arguments = [&["run"], options, &["job", "echo", "ran"]].concat();
        let run = output(&server, &arguments).await;
        assert_eq!(run.status.code(), Some(status), "{options:?}");
        assert_eq!(text(&run.stdout), "");
        assert_eq!(text(&run.stderr), "khoa: job: another holds it\n");
    }
    guard.release().await.unwrap();
}

#[tokio::test]
async fn commands_run_one_after_another() {
    let server = server();
    let manager = manager(&server);
    let mut first = Running::start(&server, &[], "echo begun; read line; echo ended").await;
    let second = khoa(&server, &["run", "job", "echo", "second"])
        .spawn()
        .unwrap();
    eventually(async || holder(&manager).await.waiting == 1).await;
    first.input.write_all(b"\n").await.unwrap();
    assert_eq!(first.line().await, "ended");
    let second = second.wait_with_output().await.unwrap();
    assert_eq!(text(&second.stdout), "second\n", "{second:?}");
}

#[tokio::test]
async fn two_share_a_lock_and_none_has_it_alone_beside_them() {
    let server = server();
    let script = "echo begun; read line";
    let mut one = Running::start(&server, &["--shared"], script).await;
    let two = Running::start(&server, &["--shared"], script).await;
    let run = output(&server, &["run", "--exclusive", "--no-wait", "job", "true"]).await;
    assert_eq!(run.status.code(), Some(75));
    drop(two);
    one.input.write_all(b"\n").await.unwrap();
    assert_eq!(one.exit_status().await, Some(0));
}

#[tokio::test]
async fn so_many_run_at_a_time_as_there_are_permits() {
    let server = server();
    let script = "echo begun; read line";
    let _one = Running::start(&server, &["--permits", "2"], script).await;
    let _two = Running::start(&server, &["--permits", "2"], script).await;
    let run = output(
        &server,
        &["run", "--permits", "2", "--no-wait", "job", "true"],
    )
    .await;
    assert_eq!(run.status.code(), Some(75));
}

#[tokio::test]
async fn a_job_runs_once_in_its_period() {
    let server = server();
    let job = ["run", "--once-per", "1h", "job", "echo", "ran"];
    let runs = [output(&server, &job).await, output(&server, &job).await];
    let printed = runs.each_ref().map(|run| text(&run.stdout));
    assert_eq!(printed, ["ran\n", ""]);
    assert!(runs.iter().all(|run| run.status.success()));
    server.advance(Duration::from_secs(3600));
    assert_eq!(text(&output(&server, &job).await.stdout), "ran\n");
}

#[tokio::test]
async fn all_of_a_command_is_killed_when_its_lease_cannot_be_renewed() {
    let server = server();
    let mut running = Running::start(&server, &["--ttl", "400ms"], STUBBORN).await;
    server.inject(Fault::DropBefore);
    running.all_are_dead().await;
    assert_eq!(running.exit_status().await, Some(74));
    server.clear_faults();
    // The server's clock stands still: it was not the key's end that ended the command.
    assert!(manager(&server).inspect("job").await.unwrap().is_some());
}

#[tokio::test]
async fn a_command_may_end_well_before_its_lease_does() {
    let server = server();
    let script = "trap 'echo saved; exit 3' TERM; echo begun; while :; do sleep 0.01; done";
    let mut running = Running::start(&server, &["--ttl", "2s", "--grace", "900ms"], script).await;
    server.inject(Fault::DropBefore);
    assert_eq!(running.line().await, "saved");
    server.clear_faults();
    assert_eq!(running.exit_status().await, Some(3));
}

#[tokio::test]
async fn all_of_a_command_is_killed_when_the_lock_is_taken_away() {
    let server = server();
    let manager = manager(&server);
    let mut running = Running::start(&server, &["--ttl", "300ms"], STUBBORN).await;
    let run = output(&server, &["release", "--force", "job"]).await;
    assert_eq!(run.status.code(), Some(0));
    let guard = manager.lock("job").try_acquire().await.unwrap().unwrap();
    running.all_are_dead().await;
    assert_eq!(running.exit_status().await, Some(74));
    assert_eq!(
        holder(&manager).await.fencing_token,
        Some(guard.fencing_token())
    );
}

#[tokio::test]
async fn what_a_command_leaves_running_ends_with_it() {
    let server = server();
    let mut running = Running::start(&server, &[], "sleep 3600 & echo begun; exit 5").await;
    running.all_are_dead().await;
    assert_eq!(running.exit_status().await, Some(5));
}

#[tokio::test]
async fn signals_are_passed_on_and_the_lock_is_held_to_the_end() {
    let server = server();
    let manager = manager(&server);
    let script =
        "trap 'echo heard; read line; exit 9' TERM; echo begun; while :; do sleep 0.01; done";
    let mut running = Running::start(&server, &[], script).await;
    running.signal(nix::sys::signal::Signal::SIGTERM);
    assert_eq!(running.line().await, "heard");
    assert!(manager.inspect("job").await.unwrap().is_some());
    running.input.write_all(b"\n").await.unwrap();
    assert_eq!(running.exit_status().await, Some(9));
    assert_eq!(manager.inspect("job").await.unwrap(), None);
}

#[tokio::test]
async fn a_signal_ends_the_wait_and_leaves_no_place_in_the_queue() {
    let server = server();
    let manager = manager(&server);
    let guard = manager.lock("job").acquire().await.unwrap();
    let mut waiting = khoa(&server, &["run", "job", "echo", "ran"])
        .spawn()
        .unwrap();
    eventually(async || holder(&manager).await.waiting == 1).await;
    let pid = i32::try_from(waiting.id().unwrap()).unwrap();
    let pid = nix::unistd::Pid::from_raw(pid);
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM).unwrap();
    assert_eq!(waiting.wait().await.unwrap().code(), Some(143));
    eventually(async || holder(&manager).await.waiting == 0).await;
    guard.release().await.unwrap();
}

#[cfg(target_os = "linux")]
#[tokio::test]
async fn a_command_does_not_outlive_the_process_that_renews_its_lease() {
    let server = server();
    let mut running = Running::start(&server, &[], "echo begun; exec sleep 3600").await;
    running.process.start_kill().unwrap();
    running.all_are_dead().await;
}

#[tokio::test]
async fn a_quorum_of_servers_holds_the_lock_of_a_command() {
    let servers = [server(), server(), server()];
    let urls = servers.each_ref().map(Server::url);
    let mut arguments = vec!["run"];
    for url in &urls {
        arguments.extend(["--server", url]);
    }
    arguments.extend(["job", "sh", "-c", "echo begun; read line"]);
    let mut process = khoa(&servers[0], &arguments).spawn().unwrap();
    let input = process.stdin.take().unwrap();
    let mut output = BufReader::new(process.stdout.take().unwrap());
    let mut line = String::new();
    output.read_line(&mut line).await.unwrap();
    let mut holders = 0;
    for server in &servers {
        holders += usize::from(manager(server).inspect("job").await.unwrap().is_some());
    }
    assert!(holders >= 2, "{holders}");
    drop(input);
    assert_eq!(process.wait().await.unwrap().code(), Some(1));
}

#[tokio::test]
async fn who_holds_a_lock_is_shown_without_what_a_terminal_obeys() {
    let server = server();
    let manager = manager(&server);
    let none = output(&server, &["show"]).await;
    assert_eq!((text(&none.stdout), none.status.code()), ("", Some(1)));
    let lock = manager.lock("job").label("evil\x1b[2J");
    let guard = lock.acquire().await.unwrap();
    let token = guard.fencing_token();
    let shown = output(&server, &["show", "jo"]).await;
    let expected = format!(
        "KEY\tHOLDER\tTOKEN\tHELD\tLEFT\tWAITING\nkhoa:job\tevil\\u{{1b}}[2J\t{token}\t0.0s\t10.0s\t0\n"
    );
    assert_eq!(
        (text(&shown.stdout), shown.status.code()),
        (&expected[..], Some(0))
    );
    let exact = output(&server, &["show", "--exact", "jo"]).await;
    assert_eq!(exact.status.code(), Some(1));
}

#[tokio::test]
async fn arguments_that_make_no_sense_are_refused_before_anything_is_sent() {
    let server = server();
    for arguments in [
        &["run", "job"][..],
        &["run", "--ttl", "0s", "job", "true"],
        &["run", "--ttl", "soon", "job", "true"],
        &["run", "--ttl", "10s", "--grace", "5s", "job", "true"],
        &["run", "--once-per", "0s", "job", "true"],
        &["run", "--permits", "0", "job", "true"],
        &["run", "--shared", "--exclusive", "job", "true"],
        &[
            "run",
            "--server",
            "redis://a",
            "--server",
            "redis://b",
            "--shared",
            "job",
            "true",
        ],
        &["run", "--server", "no url", "job", "true"],
        &["release", "job"],
        &["frobnicate"],
    ] {
        let run = output(&server, arguments).await;
        assert_eq!(run.status.code(), Some(2), "{arguments:?}: {run:?}");
    }
    assert_eq!(server.calls_of("evalsha"), 0);
}

#[tokio::test]
async fn a_lock_whose_command_could_not_begin_is_given_back() {
    let server = server();
    let manager = manager(&server);
    let guard = manager.lock("job").acquire().await.unwrap();
    guard.release().await.unwrap();
    // The server knows by now the scripts that acquire and release, but not the one that lengthens.
    server.inject_on("eval", Fault::Error("ERR refused".to_owned()), 1);
    let run = output(&server, &["run", "job", "echo", "ran"]).await;
    assert_eq!((run.status.code(), text(&run.stdout)), (Some(69), ""));
    assert_eq!(manager.inspect("job").await.unwrap(), None);
}

#[tokio::test]
async fn who_reads_no_list_to_its_end_is_no_failure() {
    let server = server();
    let _guard = manager(&server).lock("job").acquire().await.unwrap();
    let mut show = khoa(&server, &["show"]);
    // Nobody reads at the other end of it.
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    let show = show.stdout(writer).output().await.unwrap();
    assert_eq!((show.status.code(), text(&show.stderr)), (Some(0), ""));
}

#[tokio::test]
async fn a_server_that_is_not_there_is_said_so() {
    let url = server().url();
    let run = output(
        &server(),
        &["run", "--server", &url, "--no-wait", "job", "true"],
    )
    .await;
    assert_eq!(run.status.code(), Some(69), "{run:?}");
}

async fn holder(manager: &Manager) -> Holder {
    manager.inspect("job").await.unwrap().unwrap()
}

/// Waits for what another process is about to do.
async fn eventually(mut condition: impl AsyncFnMut() -> bool) {
    for _ in 0..10_000 {
        if condition().await {
            return;
        }
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
    panic!("it never came");
}
