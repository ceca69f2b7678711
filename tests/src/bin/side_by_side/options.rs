//! What the command line says.

use std::{
    env,
    path::{Path, PathBuf},
    process::Command,
};

use crate::{Outcome, program::Program, workloads::Part};

pub const HELP: &str = "\
Measures khoa-server beside reference servers in one run.

side_by_side [OPTIONS]
  --khoa PATH       this binary, instead of building one with cargo build --release
  --redis PATH      a reference, Redis or Valkey; may be given several times
                    (default: redis-server and valkey-server, where the PATH has them)
  --only PART,...   of: commands lock scripts pubsub contention memory starts families growth
                    (default: all but the last two, which take minutes of their own)
  --rounds N        rounds of each workload, in turn on every server (default 5)
  --floor           also measure a server that only counts requests and answers OK
  --output FILE     write the ratios as an SVG chart
  --short           one round of few requests, to see that every workload runs";

pub struct Options {
    khoa: Option<PathBuf>,
    pub references: Vec<PathBuf>,
    pub parts: Vec<Part>,
    pub rounds: usize,
    pub floor: bool,
    pub output: Option<PathBuf>,
    pub short: bool,
    /// redis-benchmark, or Valkey's, which takes the same arguments.
    pub benchmark: PathBuf,
    /// Set in the process that `--floor` starts: where it is to listen.
    pub silent_port: Option<u16>,
}

impl Options {
    /// None asks for help.
    pub fn parse(mut args: impl Iterator<Item = String>) -> Outcome<Option<Options>> {
        let mut options = Options {
            khoa: None,
            references: Vec::new(),
            parts: Vec::new(),
            rounds: 5,
            floor: false,
            output: None,
            short: false,
            benchmark: PathBuf::new(),
            silent_port: None,
        };
        while let Some(name) = args.next() {
            let mut value = || args.next().ok_or_else(|| format!("{name} takes a value"));
            match name.as_str() {
                "--help" | "-h" => return Ok(None),
                "--khoa" => options.khoa = Some(value()?.into()),
                "--redis" => options.references.push(value()?.into()),
                "--only" => options.parts.extend(parts(&value()?)?),
                "--rounds" => options.rounds = value()?.parse()?,
                "--floor" => options.floor = true,
                "--output" => options.output = Some(value()?.into()),
                "--short" => options.short = true,
                "--silent-port" => options.silent_port = Some(value()?.parse()?),
                _ => return Err(format!("unknown option {name}; see --help").into()),
            }
        }
        if options.silent_port.is_none() {
            options.complete()?;
        }
        Ok(Some(options))
    }

    fn complete(&mut self) -> Outcome<()> {
        self.benchmark = ["redis-benchmark", "valkey-benchmark"]
            .into_iter()
            .find_map(on_path)
            .ok_or("install redis-benchmark, which makes the load")?;
        if self.references.is_empty() {
            let found = ["redis-server", "valkey-server"].into_iter();
            self.references = found.filter_map(on_path).collect();
            // One may be a link to the other.
            self.references
                .dedup_by_key(|path| path.canonicalize().unwrap_or_default());
        }
        if self.parts.is_empty() {
            self.parts = Part::USUAL.to_vec();
        }
        if self.short {
            self.rounds = 1;
        }
        self.rounds = self.rounds.max(1);
        Ok(())
    }

    /// The binary named by `--khoa`, or the one that this builds.
    pub fn khoa(&self) -> Outcome<Program> {
        let path = match &self.khoa {
            Some(path) => path.clone(),
            None => build()?,
        };
        Ok(Program::khoa(&path))
    }
}

fn parts(names: &str) -> Outcome<Vec<Part>> {
    let part = |name: &str| {
        let part = Part::ALL.into_iter().find(|part| part.name() == name);
        part.ok_or_else(|| format!("there is no part {name}; see --help").into())
    };
    names.split(',').map(part).collect()
}

fn on_path(name: &str) -> Option<PathBuf> {
    env::split_paths(&env::var_os("PATH")?)
        .map(|folder| folder.join(name))
        .find(|path| path.is_file())
}

/// Builds khoa-server where this very binary was built.
fn build() -> Outcome<PathBuf> {
    let own = env::current_exe()?;
    let target = own.ancestors().nth(2).ok_or("no target folder")?;
    let status = Command::new(env!("CARGO"))
        .args(["build", "--release", "-p", "khoa-server", "--target-dir"])
        .arg(target)
        .current_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join(".."))
        .status()?;
    if !status.success() {
        return Err("khoa-server does not build".into());
    }
    Ok(target.join("release").join("khoa-server"))
}
