//! The machine and the tools that the figures come from.

use std::{fmt, path::Path, process::Command};

pub struct Machine {
    computer: String,
    benchmark: String,
}

impl Machine {
    pub fn describe(benchmark: &Path) -> Machine {
        Machine {
            computer: khoa_tests::machine::describe(),
            benchmark: first_line(&mut Command::new(benchmark), "--version"),
        }
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, {}", self.computer, self.benchmark)
    }
}

fn first_line(command: &mut Command, argument: &str) -> String {
    let said = command.arg(argument).output().map(|output| output.stdout);
    let said = String::from_utf8_lossy(&said.unwrap_or_default()).into_owned();
    said.lines().next().unwrap_or_default().to_owned()
}
