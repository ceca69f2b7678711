//! Measures khoa-server beside reference servers in one run: CPU time per operation, and starts.
//!
//! `side_by_side [--rounds N] [--khoa PATH] [--redis PATH]... [--only CASE]`: rounds alternate
//! between the servers, each on a loopback port of its own; redis-benchmark makes the load and
//! must be installed. What is printed are ratios to each reference, with the median and the
//! spread of the rounds. CPU time is the server process's own, user and system, so that a busy
//! machine blurs it less than wall time. It judges nothing: timings decide no test.

use std::{
    error::Error,
    fmt::Write as _,
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

type Outcome<T> = Result<T, Box<dyn Error>>;

const TOKEN: &str = "0123456789abcdef0123456789abcdef";
const UNLOCK: &str =
    "if redis.call('GET',KEYS[1])==ARGV[1] then return redis.call('DEL',KEYS[1]) else return 0 end";
const CLIENTS: &str = "50";
const KEYS: &str = "100000";
/// Operations of a round, without and with pipelining.
const OPERATIONS: [(u32, u32); 2] = [(1, 100_000), (16, 1_000_000)];

fn main() -> Outcome<()> {
    let options = Options::parse()?;
    let mut servers = vec![Running::start("khoa", &options.khoa)?];
    for path in &options.references {
        servers.push(Running::start("", path)?);
    }
    for server in &mut servers {
        server.name = server.describe()?;
        println!("{}: {}", server.name, server.path.display());
    }
    println!(
        "{} rounds, {CLIENTS} clients, {KEYS} keys; CPU µs per operation",
        options.rounds
    );
    for (case, command) in cases() {
        if options.only.as_deref().is_some_and(|only| only != case) {
            continue;
        }
        for (pipeline, operations) in OPERATIONS {
            measure(&servers, &options, case, &command, pipeline, operations)?;
        }
    }
    drop(servers);
    embedded_starts(options.rounds);
    binary_starts(&options.khoa)
}

/// What a lock costs: taking, reading, giving back.
fn cases() -> Vec<(&'static str, Vec<String>)> {
    let words = |words: &[&str]| words.iter().map(ToString::to_string).collect();
    vec![
        (
            "set-nx-px",
            words(&["SET", "key:__rand_int__", TOKEN, "NX", "PX", "30000"]),
        ),
        ("get", words(&["GET", "key:__rand_int__"])),
        (
            "unlock-evalsha",
            words(&["EVALSHA", "{sha}", "1", "key:__rand_int__", TOKEN]),
        ),
    ]
}

struct Options {
    rounds: usize,
    khoa: PathBuf,
    references: Vec<PathBuf>,
    only: Option<String>,
}

impl Options {
    fn parse() -> Outcome<Options> {
        let built = Path::new(env!("CARGO_MANIFEST_DIR")).join("../target/release/khoa-server");
        let mut options = Options {
            rounds: 5,
            khoa: built,
            references: Vec::new(),
            only: None,
        };
        let mut args = std::env::args().skip(1);
        while let Some(name) = args.next() {
            let value = args.next().ok_or_else(|| format!("{name} takes a value"))?;
            match name.as_str() {
                "--rounds" => options.rounds = value.parse()?,
                "--khoa" => options.khoa = value.into(),
                "--redis" => options.references.push(value.into()),
                "--only" => options.only = Some(value),
                _ => return Err(format!("unknown option {name}").into()),
            }
        }
        if !options.khoa.exists() {
            return Err("build it first: cargo build --release -p khoa-server".into());
        }
        Ok(options)
    }
}

/// A server process, ended with this value.
struct Running {
    name: String,
    path: PathBuf,
    child: Child,
    port: u16,
}

impl Running {
    fn start(name: &str, path: &Path) -> Outcome<Running> {
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let mut command = Command::new(path);
        command.args(["--port", &port.to_string(), "--bind", "127.0.0.1"]);
        if name.is_empty() {
            command.args(["--save", "", "--appendonly", "no"]);
        }
        let child = command
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        let running = Running {
            name: name.to_owned(),
            path: path.to_owned(),
            child,
            port,
        };
        let start = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            if start.elapsed() > Duration::from_secs(10) {
                return Err(format!("{} does not listen", path.display()).into());
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(running)
    }

    /// Sends one request and reads one reply line, and the line behind it for a string.
    fn ask(&self, words: &[&str]) -> Outcome<String> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port))?;
        let mut request = format!("*{}\r\n", words.len());
        for word in words {
            let _ = write!(request, "${}\r\n{word}\r\n", word.len());
        }
        stream.write_all(request.as_bytes())?;
        let mut reader = BufReader::new(stream);
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let Some(len) = line.strip_prefix('$') else {
            return Ok(line.trim().to_owned());
        };
        let mut content = vec![0; len.trim().parse()?];
        reader.read_exact(&mut content)?;
        Ok(String::from_utf8(content)?)
    }

    fn describe(&self) -> Outcome<String> {
        let info = self.ask(&["INFO", "server"])?;
        let field = |name: &str| {
            info.lines()
                .find_map(|line| line.strip_prefix(name))
                .map(|text| text.trim().to_owned())
        };
        let known = [
            ("khoa", "khoa_version:"),
            ("valkey", "valkey_version:"),
            ("redis", "redis_version:"),
        ];
        let found = known
            .iter()
            .find_map(|(kind, name)| Some(format!("{kind} {}", field(name)?)));
        Ok(found.unwrap_or_else(|| "unknown".to_owned()))
    }

    /// User and system time so far.
    fn cpu(&self) -> Outcome<Duration> {
        const TICKS_A_SECOND: u64 = 100;
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.child.id()))?;
        let behind_name = stat.rsplit_once(')').ok_or("no process name in /proc")?.1;
        let fields: Vec<&str> = behind_name.split_whitespace().collect();
        let ticks: u64 = fields[11].parse::<u64>()? + fields[12].parse::<u64>()?;
        Ok(Duration::from_millis(ticks * 1000 / TICKS_A_SECOND))
    }

    /// CPU microseconds per operation under one run of the load.
    fn round(&self, command: &[String], pipeline: u32, operations: u32) -> Outcome<f64> {
        let before = self.cpu()?;
        let status = Command::new("redis-benchmark")
            .args([
                "-p",
                &self.port.to_string(),
                "-c",
                CLIENTS,
                "-r",
                KEYS,
                "-q",
            ])
            .args(["-n", &operations.to_string(), "-P", &pipeline.to_string()])
            .args(command)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()?;
        if !status.success() {
            return Err("redis-benchmark failed".into());
        }
        Ok(self.cpu()?.saturating_sub(before).as_secs_f64() * 1e6 / f64::from(operations))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn measure(
    servers: &[Running],
    options: &Options,
    case: &str,
    command: &[String],
    pipeline: u32,
    operations: u32,
) -> Outcome<()> {
    let mut costs: Vec<Vec<f64>> = vec![Vec::new(); servers.len()];
    for round in 0..=options.rounds {
        for (server, costs) in servers.iter().zip(&mut costs) {
            let sha = server.ask(&["SCRIPT", "LOAD", UNLOCK])?;
            let command: Vec<String> = command
                .iter()
                .map(|word| word.replace("{sha}", &sha))
                .collect();
            let cost = server.round(&command, pipeline, operations)?;
            // The first round only warms caches and fills the keys.
            if round > 0 {
                costs.push(cost);
            }
        }
    }
    let own = Spread::of(&costs[0]);
    println!("{case} -P {pipeline}: khoa {own}");
    for (server, costs) in servers.iter().zip(&costs).skip(1) {
        let reference = Spread::of(costs);
        println!(
            "    {:14} {reference}   ×{:.2}",
            server.name,
            own.median / reference.median
        );
    }
    Ok(())
}

/// The median, the least and the most.
struct Spread {
    median: f64,
    least: f64,
    most: f64,
}

impl Spread {
    fn of(values: &[f64]) -> Spread {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let at = |place: usize| sorted.get(place).copied().unwrap_or(f64::NAN);
        Spread {
            median: at(sorted.len() / 2),
            least: at(0),
            most: at(sorted.len().max(1) - 1),
        }
    }
}

impl std::fmt::Display for Spread {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{:.3} ({:.3} to {:.3})",
            self.median, self.least, self.most
        )
    }
}

/// How long an embedded server takes to start and to stop again.
fn embedded_starts(rounds: usize) {
    let times: Vec<f64> = (0..rounds * 20)
        .map(|_| {
            let start = Instant::now();
            drop(khoa_server::Server::start());
            start.elapsed().as_secs_f64() * 1e3
        })
        .collect();
    println!("Server::start() and stop: {} ms", Spread::of(&times));
}

/// How long it takes from running the binary until it accepts a connection.
fn binary_starts(khoa: &Path) -> Outcome<()> {
    let mut times = Vec::new();
    for _ in 0..20 {
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let start = Instant::now();
        let mut child = Command::new(khoa)
            .args(["--port", &port.to_string()])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            std::thread::yield_now();
        }
        times.push(start.elapsed().as_secs_f64() * 1e3);
        child.kill()?;
        child.wait()?;
    }
    println!("the binary listens after {} ms", Spread::of(&times));
    Ok(())
}
