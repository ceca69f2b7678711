//! The servers: how each is started and ended, and what its process has used so far.

use std::{
    fs,
    net::{TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use crate::{Outcome, cores};

/// What can be started, as often as wanted.
#[derive(Clone)]
pub struct Program {
    kind: Kind,
    pub path: PathBuf,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Khoa,
    Redis,
    Silent,
}

impl Program {
    pub fn khoa(path: &Path) -> Program {
        Program {
            kind: Kind::Khoa,
            path: path.to_owned(),
        }
    }

    /// Redis or Valkey.
    pub fn redis(path: &Path) -> Program {
        Program {
            kind: Kind::Redis,
            path: path.to_owned(),
        }
    }

    /// This binary again, as the server that does nothing.
    pub fn silent() -> Outcome<Program> {
        Ok(Program {
            kind: Kind::Silent,
            path: std::env::current_exe()?,
        })
    }

    fn spawn(&self, port: u16) -> Outcome<Child> {
        let port = port.to_string();
        let mut command = Command::new(&self.path);
        match self.kind {
            Kind::Khoa => command.args(["--port", &port, "--bind", "127.0.0.1"]),
            Kind::Redis => command
                .args(["--port", &port, "--bind", "127.0.0.1"])
                .args(["--save", "", "--appendonly", "no"]),
            Kind::Silent => command.args(["--silent-port", &port]),
        };
        command
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let child = cores::of_servers(|| command.spawn());
        child.map_err(|error| format!("{}: {error}", self.path.display()).into())
    }

    /// Milliseconds from running it until it answers PING.
    pub fn time_to_start(&self) -> Outcome<f64> {
        let port = free_port()?;
        let begun = Instant::now();
        let child = Guarded(self.spawn(port)?);
        wait_for(port, begun)?;
        redis::cmd("PING").exec(&mut connect(port)?)?;
        let millis = begun.elapsed().as_secs_f64() * 1e3;
        drop(child);
        Ok(millis)
    }
}

/// A server that runs until this is dropped.
pub struct Running {
    pub name: String,
    pub program: Program,
    pub port: u16,
    child: Guarded,
}

impl Running {
    pub fn start(program: Program) -> Outcome<Running> {
        let port = free_port()?;
        let child = Guarded(program.spawn(port)?);
        wait_for(port, Instant::now())?;
        let name = match program.kind {
            Kind::Silent => "floor".to_owned(),
            Kind::Khoa | Kind::Redis => describe(port)?,
        };
        Ok(Running {
            name,
            program,
            port,
            child,
        })
    }

    /// The floor answers OK to everything, which few workloads can live with.
    pub fn is_real(&self) -> bool {
        self.program.kind != Kind::Silent
    }

    /// Neither khoa nor the floor.
    pub fn is_reference(&self) -> bool {
        self.program.kind == Kind::Redis
    }

    pub fn connect(&self) -> Outcome<redis::Connection> {
        connect(self.port)
    }

    /// User and system time of all its threads so far.
    pub fn cpu(&self) -> Outcome<Duration> {
        process::cpu(self.child.0.id())
    }

    /// Bytes of memory that are in use, as the kernel sees it.
    pub fn resident(&self) -> Outcome<u64> {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.0.id()))?;
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
        let kib = line.and_then(|rest| rest.split_whitespace().next());
        Ok(kib.ok_or("no VmRSS in /proc")?.parse::<u64>()? * 1024)
    }

    /// Waits until it has stopped working at what it was told before: what is freed late is not
    /// counted to the next workload.
    pub fn settle(&self) -> Outcome<()> {
        let mut before = self.cpu()?;
        for _ in 0..1000 {
            std::thread::sleep(Duration::from_millis(3));
            let now = self.cpu()?;
            if now.saturating_sub(before) < Duration::from_micros(500) {
                break;
            }
            before = now;
        }
        Ok(())
    }
}

/// A process that ends with this value.
struct Guarded(Child);

impl Drop for Guarded {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn free_port() -> Outcome<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

fn wait_for(port: u16, begun: Instant) -> Outcome<()> {
    while TcpStream::connect(("127.0.0.1", port)).is_err() {
        if begun.elapsed() > Duration::from_secs(10) {
            return Err("a server does not listen".into());
        }
        std::thread::sleep(Duration::from_micros(50));
    }
    Ok(())
}

fn connect(port: u16) -> Outcome<redis::Connection> {
    Ok(redis::Client::open(("127.0.0.1", port))?.get_connection()?)
}

/// What the server calls itself, and its version.
fn describe(port: u16) -> Outcome<String> {
    let info: String = redis::cmd("INFO")
        .arg("server")
        .query(&mut connect(port)?)?;
    let field = |name: &str| info.lines().find_map(|line| line.strip_prefix(name));
    let known = [
        ("khoa", "khoa_version:"),
        ("Valkey", "valkey_version:"),
        ("Redis", "redis_version:"),
    ];
    let found = known
        .iter()
        .find_map(|(kind, name)| Some(format!("{kind} {}", field(name)?)));
    found.ok_or_else(|| "a server does not say what it is".into())
}

#[cfg(target_os = "linux")]
mod process {
    use std::time::Duration;

    use nix::{time::ClockId, unistd::Pid};

    use crate::Outcome;

    /// By the clock of the process, which counts nanoseconds; /proc counts hundredths of seconds.
    pub fn cpu(id: u32) -> Outcome<Duration> {
        let clock = ClockId::pid_cpu_clock_id(Pid::from_raw(id.cast_signed()))?;
        Ok(clock.now()?.into())
    }
}

#[cfg(not(target_os = "linux"))]
mod process {
    use std::time::Duration;

    use crate::Outcome;

    pub fn cpu(_id: u32) -> Outcome<Duration> {
        Err("the CPU time of another process is read on Linux only".into())
    }
}
