//! A server as a process of its own, so that its memory and its descriptors can be seen.

use std::{
    fs,
    net::{TcpListener, TcpStream},
    process::{Child, Command, ExitStatus, Stdio},
    time::{Duration, Instant},
};

use super::{
    Ground, Outcome,
    client::{Client, Reply},
    ensure,
    figures::megabytes,
};

/// How far above its level memory may stay: what the allocator keeps for the next burst.
const MEMORY_SLACK: u64 = 4 << 20;
/// How long memory may take to return. It judges no timing: only a server that never gives
/// memory back waits so long.
const RETURN_PATIENCE: Duration = Duration::from_secs(20);
/// jemalloc gives memory back over ten seconds; the short form has no time for that.
const QUICK_RETURN: &str = "dirty_decay_ms:500";
const START_PATIENCE: Duration = Duration::from_secs(10);

/// A running server, ended with this value.
pub struct Process {
    child: Child,
    pub port: u16,
}

/// What a process occupied at some moment.
pub struct Level {
    memory: u64,
    descriptors: usize,
}

impl Process {
    /// Starts a server with these settings beside the usual ones.
    pub fn start(ground: &Ground, settings: &[&str]) -> Outcome<Process> {
        Self::run(ground, Command::new(&ground.server), settings)
    }

    /// As `start`, with so many file descriptors and no more.
    pub fn start_with_descriptors(
        ground: &Ground,
        most: usize,
        settings: &[&str],
    ) -> Outcome<Process> {
        let mut shell = Command::new("sh");
        shell
            .args(["-c", &format!("ulimit -n {most}; exec \"$0\" \"$@\"")])
            .arg(&ground.server);
        Self::run(ground, shell, settings)
    }

    fn run(ground: &Ground, mut command: Command, settings: &[&str]) -> Outcome<Process> {
        if ground.short {
            command.env("_RJEM_MALLOC_CONF", QUICK_RETURN);
        }
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        let child = command
            .args(["--port", &port.to_string(), "--bind", "127.0.0.1"])
            .args(["--save", "", "--appendonly", "no"])
            .args(settings)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()?;
        let mut process = Process { child, port };
        process.wait_until_it_listens()?;
        Ok(process)
    }

    fn wait_until_it_listens(&mut self) -> Outcome {
        let start = Instant::now();
        while TcpStream::connect(("127.0.0.1", self.port)).is_err() {
            if let Some(status) = self.child.try_wait()? {
                return Err(format!("the server ended at once: {status}").into());
            }
            ensure(start.elapsed() < START_PATIENCE, || {
                "the server does not listen".to_owned()
            })?;
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(())
    }

    pub fn connect(&self) -> Outcome<Client> {
        Client::connect(self.port)
    }

    /// What the process occupies now, before the load. The peak is counted from here.
    pub fn level(&self) -> Outcome<Level> {
        // Whatever is made with the first client is there before.
        self.connect()?
            .expect(&["PING"], &Reply::Simple("PONG".to_owned()))?;
        let descriptors = self.settled_descriptors()?;
        fs::write(format!("/proc/{}/clear_refs", self.child.id()), "5")?;
        Ok(Level {
            memory: self.resident()?,
            descriptors,
        })
    }

    /// Sees memory and descriptors return to their level, and prints the way there.
    pub fn returns_to(&self, level: &Level) -> Outcome {
        let start = Instant::now();
        let (mut memory, mut descriptors);
        loop {
            memory = self.resident()?;
            descriptors = self.descriptors()?;
            let returned =
                memory <= level.memory + MEMORY_SLACK && descriptors == level.descriptors;
            if returned || start.elapsed() > RETURN_PATIENCE {
                break;
            }
            std::thread::sleep(Duration::from_millis(20));
        }
        println!(
            "   memory: {} before, {} at the peak, {} after {:.1} s",
            megabytes(level.memory),
            megabytes(self.peak()?),
            megabytes(memory),
            start.elapsed().as_secs_f64()
        );
        ensure(memory <= level.memory + MEMORY_SLACK, || {
            format!(
                "memory stays above its level by more than {}",
                megabytes(MEMORY_SLACK)
            )
        })?;
        ensure(descriptors == level.descriptors, || {
            format!(
                "{descriptors} descriptors are open, {} were",
                level.descriptors
            )
        })
    }

    pub fn resident(&self) -> Outcome<u64> {
        self.status("VmRSS:")
    }

    /// The most memory since the last `level`.
    pub fn peak(&self) -> Outcome<u64> {
        self.status("VmHWM:")
    }

    fn status(&self, name: &str) -> Outcome<u64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id()))?;
        let value = status.lines().find_map(|line| line.strip_prefix(name));
        let value = value.and_then(|value| value.trim().strip_suffix(" kB"));
        let kilobytes: u64 = value.ok_or("/proc tells no memory")?.parse()?;
        Ok(kilobytes << 10)
    }

    pub fn descriptors(&self) -> Outcome<usize> {
        Ok(fs::read_dir(format!("/proc/{}/fd", self.child.id()))?.count())
    }

    /// The descriptors once those of clients that left are closed.
    fn settled_descriptors(&self) -> Outcome<usize> {
        let mut last = self.descriptors()?;
        loop {
            std::thread::sleep(Duration::from_millis(50));
            let now = self.descriptors()?;
            if now == last {
                return Ok(now);
            }
            last = now;
        }
    }

    /// User and system time so far.
    pub fn cpu(&self) -> Outcome<Duration> {
        const TICKS_A_SECOND: u64 = 100;
        let stat = fs::read_to_string(format!("/proc/{}/stat", self.child.id()))?;
        let behind_name = stat.rsplit_once(')').ok_or("no process name in /proc")?.1;
        let fields: Vec<&str> = behind_name.split_whitespace().collect();
        let ticks: u64 = fields[11].parse::<u64>()? + fields[12].parse::<u64>()?;
        Ok(Duration::from_millis(ticks * 1000 / TICKS_A_SECOND))
    }

    pub fn signal(&self, name: &str) -> Outcome {
        let id = self.child.id().to_string();
        let status = Command::new("kill").args([name, &id]).status()?;
        ensure(status.success(), || format!("kill {name}: {status}"))
    }

    /// Waits for the end of the process.
    pub fn wait(&mut self) -> Outcome<ExitStatus> {
        Ok(self.child.wait()?)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
