//! The machine and the tools that the figures come from.

use std::{fmt, fs, path::Path, process::Command, thread};

use crate::Outcome;

pub struct Machine {
    processor: String,
    cores: usize,
    system: String,
    benchmark: String,
}

impl Machine {
    pub fn describe(benchmark: &Path) -> Outcome<Machine> {
        Ok(Machine {
            processor: processor().unwrap_or_else(|| "unknown processor".to_owned()),
            cores: thread::available_parallelism()?.get(),
            system: system(),
            benchmark: first_line(&mut Command::new(benchmark), "--version"),
        })
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}, {} cores, {}, {}",
            self.processor, self.cores, self.system, self.benchmark
        )
    }
}

fn processor() -> Option<String> {
    let info = fs::read_to_string("/proc/cpuinfo").ok()?;
    let line = info.lines().find(|line| line.starts_with("model name"))?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

fn system() -> String {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    format!("{} {}", std::env::consts::OS, release.trim())
        .trim()
        .to_owned()
}

fn first_line(command: &mut Command, argument: &str) -> String {
    let said = command.arg(argument).output().map(|output| output.stdout);
    let said = String::from_utf8_lossy(&said.unwrap_or_default()).into_owned();
    said.lines().next().unwrap_or_default().to_owned()
}
