//! Servers as processes of their own, which end with the values that stand for them.

use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use khoa::redis::{self, FromRedisValue};

use crate::{Outcome, PATIENCE, within};

const PAUSE: Duration = Duration::from_millis(10);

/// A server's program and where it may leave files.
pub struct Program {
    path: PathBuf,
    scratch: PathBuf,
}

impl Program {
    pub fn find(named: Option<String>, scratch: &Scratch) -> Outcome<Self> {
        let scratch = scratch.0.clone();
        if let Some(path) = named {
            let path = PathBuf::from(path);
            return Ok(Self { path, scratch });
        }
        let paths = std::env::var_os("PATH").ok_or("no PATH")?;
        let found = |name: &str| {
            std::env::split_paths(&paths)
                .map(|dir| dir.join(name))
                .find(|path| path.is_file())
        };
        if let Some(path) = found("redis-server").or_else(|| found("valkey-server")) {
            return Ok(Self { path, scratch });
        }
        let check = found("redis-check-rdb").ok_or("there is no redis-server")?;
        let path = scratch.join("redis-server");
        std::os::unix::fs::symlink(check, &path)?;
        Ok(Self { path, scratch })
    }

    /// A server without files.
    pub async fn start(&self, settings: &[&str]) -> Outcome<Running> {
        let no_files = ["--save", "", "--appendonly", "no"];
        let at_once = ["--repl-diskless-sync-delay", "0"];
        let settings = [&no_files[..], &at_once, settings].concat();
        self.run(&[], &settings).await
    }

    pub async fn start_replica(&self, master: &Running) -> Outcome<Running> {
        let master = format!("127.0.0.1 {}", master.port);
        let replica = self.start(&["--replicaof", &master]).await?;
        replica
            .until("INFO replication", "master_link_status:up")
            .await?;
        Ok(replica)
    }

    /// A sentinel, which keeps what it learns in a file that begins with these settings.
    pub async fn start_sentinel(&self, settings: &str) -> Outcome<Running> {
        let file = self.scratch.join(format!("sentinel-{}", free_port()?));
        std::fs::write(&file, settings)?;
        let file = file.to_str().ok_or("a path that is no text")?;
        self.run(&[file, "--sentinel"], &[]).await
    }

    /// A node of a cluster, with the port of its bus.
    pub async fn start_node(&self) -> Outcome<(Running, u16)> {
        let bus = free_port()?;
        let port = bus.to_string();
        let settings = ["--cluster-enabled", "yes", "--cluster-port", &port];
        Ok((self.start(&settings).await?, bus))
    }

    async fn run(&self, first: &[&str], settings: &[&str]) -> Outcome<Running> {
        let port = free_port()?;
        let folder = self.scratch.join(port.to_string());
        std::fs::create_dir(&folder)?;
        let log = folder.join("log");
        let child = Command::new(&self.path)
            .args(first)
            .args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--dir"])
            .arg(&folder)
            .args(settings)
            .stdin(Stdio::null())
            .stdout(std::fs::File::create(&log)?)
            .spawn()?;
        let mut running = Running { child, port };
        let begun = Instant::now();
        while running.ask::<String>("PING").is_err() {
            if begun.elapsed() > PATIENCE || running.child.try_wait()?.is_some() {
                let log = std::fs::read_to_string(log)?;
                return Err(format!("a server did not start:\n{log}").into());
            }
            tokio::time::sleep(PAUSE).await;
        }
        Ok(running)
    }
}

/// A server that ends with this value.
pub struct Running {
    child: Child,
    pub port: u16,
}

impl Running {
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    pub fn ask<T: FromRedisValue>(&self, command: &str) -> Outcome<T> {
        let mut words = command.split(' ');
        let mut request = redis::cmd(words.next().unwrap_or_default());
        words.for_each(|word| {
            request.arg(word);
        });
        let client = redis::Client::open(self.url())?;
        let mut connection = client.get_connection_with_timeout(PATIENCE)?;
        connection.set_read_timeout(Some(PATIENCE))?;
        Ok(request.query(&mut connection)?)
    }

    /// Waits until what it answers, a word a line, contains this.
    pub async fn until(&self, command: &str, wanted: &str) -> Outcome<()> {
        let mut last = String::new();
        let holds = within(|| {
            match self.ask::<redis::Value>(command) {
                Ok(answer) => last = text(&answer),
                Err(error) => last = error.to_string(),
            }
            std::future::ready(last.contains(wanted))
        });
        if holds.await {
            return Ok(());
        }
        Err(format!("{command} never said {wanted}, but: {last}").into())
    }

    pub fn signal(&self, name: &str) -> Outcome<()> {
        let (flag, pid) = (format!("-{name}"), self.child.id().to_string());
        Command::new("kill").args([flag, pid]).status()?;
        Ok(())
    }

    pub fn kill(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.kill();
    }
}

fn text(answer: &redis::Value) -> String {
    match answer {
        redis::Value::Array(items) => items.iter().map(text).collect(),
        redis::Value::Int(number) => format!("{number}\n"),
        redis::Value::BulkString(bytes) => format!("{}\n", String::from_utf8_lossy(bytes)),
        redis::Value::Okay => "OK\n".to_owned(),
        redis::Value::SimpleString(line) => format!("{line}\n"),
        other => format!("{other:?}\n"),
    }
}

fn free_port() -> Outcome<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

/// A folder that ends with this value.
pub struct Scratch(PathBuf);

impl Scratch {
    pub fn new() -> Outcome<Self> {
        let path = std::env::temp_dir().join(format!("khoa-real-servers-{}", std::process::id()));
        std::fs::create_dir(&path)?;
        Ok(Self(path))
    }

    /// The end of what each server has said.
    pub fn last_words(&self) -> Outcome<String> {
        let mut words = String::new();
        for folder in std::fs::read_dir(&self.0)? {
            let log = folder?.path().join("log");
            if log.is_file() {
                words += &end_of(&log)?;
            }
        }
        Ok(words)
    }
}

fn end_of(log: &Path) -> std::io::Result<String> {
    let text = std::fs::read_to_string(log)?;
    let lines: Vec<_> = text.lines().collect();
    let last = lines[lines.len().saturating_sub(30)..].join("\n");
    Ok(format!("---- {}\n{last}\n", log.display()))
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all::<&Path>(&self.0);
    }
}
