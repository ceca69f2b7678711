//! What the crates cost whoever builds on them: crates in the tree, a clean build, the size of a program.
//!
//! `build_cost [--short] [NAME...]`, or `build_cost --write`; the short form counts the crates and builds nothing, and
//! `--write` puts some of the rows into the README.
//!
//! Each row is a package of its own with one dependency, outside of this workspace, so that profiles are Cargo's and
//! features are what the row says. Versions are those of this workspace's lock file. The CPU time, of all processes
//! that the build starts, says more than the time by the clock on a machine that does other things too.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};
use std::time::{Duration, Instant};

use clap::{Arg, ArgAction};
use khoa_tests::machine;

/// A way to use one of the crates.
struct Use {
    name: &'static str,
    /// What stands behind the name of the dependency.
    dependency: (&'static str, &'static str),
    /// The program that uses it; the crate's own one where it is none.
    main: Option<&'static str>,
    /// Does the README show it?
    in_readme: bool,
}

/// What the table stands between in the README.
const BEGIN: &str =
    "<!-- build: written by `cargo run -p khoa-tests --bin build_cost -- --write` -->";
const END: &str = "<!-- /build -->";

const STARTS: &str =
    "fn main() { println!(\"{}\", khoa_server::Server::start().unwrap().addr()); }";
const LOCKS: &str = "fn main() { println!(\"{}\", std::any::type_name::<khoa::Lock>()); }";

const USES: &[Use] = &[
    Use {
        name: "the program khoa-server",
        dependency: ("khoa-server", ""),
        main: None,
        in_readme: true,
    },
    Use {
        name: "the program khoa-server without `scripting`",
        dependency: (
            "khoa-server",
            "default-features = false, features = [\"cli\"]",
        ),
        main: None,
        in_readme: true,
    },
    Use {
        name: "the program khoa-server with `jemalloc`",
        dependency: ("khoa-server", "features = [\"jemalloc\"]"),
        main: None,
        in_readme: false,
    },
    Use {
        name: "khoa-server in a test, without `cli`",
        dependency: (
            "khoa-server",
            "default-features = false, features = [\"scripting\"]",
        ),
        main: Some(STARTS),
        in_readme: false,
    },
    Use {
        name: "khoa-server in a test, without `cli` and `scripting`",
        dependency: ("khoa-server", "default-features = false"),
        main: Some(STARTS),
        in_readme: true,
    },
    Use {
        name: "khoa",
        dependency: ("khoa", ""),
        main: Some(LOCKS),
        in_readme: true,
    },
    Use {
        name: "khoa with `memory`, which brings khoa-server along",
        dependency: ("khoa", "features = [\"memory\"]"),
        main: Some(LOCKS),
        in_readme: true,
    },
    Use {
        name: "khoa with all but TLS and `cli`",
        dependency: (
            "khoa",
            "features = [\"blocking\", \"cluster\", \"memory\", \"metrics\", \"sentinel\"]",
        ),
        main: Some(LOCKS),
        in_readme: false,
    },
    Use {
        name: "the program khoa, of its feature `cli`",
        dependency: ("khoa", "features = [\"cli\"]"),
        main: None,
        in_readme: false,
    },
];

fn main() -> ExitCode {
    let matches = clap::Command::new("build_cost")
        .about("Counts the crates that each use of khoa brings along, and times a clean build.")
        .args([
            Arg::new("short")
                .long("short")
                .action(ArgAction::SetTrue)
                .help("Counts only"),
            Arg::new("write")
                .long("write")
                .conflicts_with_all(["short", "name"])
                .action(ArgAction::SetTrue)
                .help("Measures what the README shows, and writes it there"),
            Arg::new("name")
                .num_args(0..)
                .help("Only the uses whose names contain one of these words"),
        ])
        .get_matches();
    let words: Vec<&String> = matches.get_many("name").into_iter().flatten().collect();
    match run(matches.get_flag("short"), matches.get_flag("write"), &words) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("build_cost: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(short: bool, write: bool, words: &[&String]) -> Result<(), String> {
    let wanted = |one: &&Use| {
        let named = words.is_empty() || words.iter().any(|word| one.name.contains(*word));
        named && (one.in_readme || !write)
    };
    let uses: Vec<&Use> = USES.iter().filter(wanted).collect();
    if uses.is_empty() {
        return Err("no use has such a word in its name".to_owned());
    }
    let folder = std::env::temp_dir().join(format!("khoa-build-cost-{}", std::process::id()));
    let told = table(&uses, &folder, short);
    let removed = fs::remove_dir_all(&folder).map_err(|error| error.to_string());
    removed?;
    if write {
        renew_readme(&told?)
    } else {
        told.map(drop)
    }
}

/// Prints each line once it is known, and returns them all.
fn table(uses: &[&Use], folder: &Path, short: bool) -> Result<String, String> {
    let mut text = String::new();
    let mut tell = |line: String| {
        println!("{line}");
        text.push_str(&line);
        text.push('\n');
    };
    tell(format!("{}:\n", circumstances()));
    tell("| use | crates | debug build | CPU | release build | CPU | program |".to_owned());
    tell("| --- | ---: | ---: | ---: | ---: | ---: | ---: |".to_owned());
    for one in uses {
        tell(row(one, folder, short)?);
    }
    Ok(text)
}

fn row(one: &Use, folder: &Path, short: bool) -> Result<String, String> {
    let package = Package::new(one, folder)?;
    let (name, crates) = (one.name, package.crates()?);
    if short {
        return Ok(format!("| {name} | {crates} | | | | | |"));
    }
    let (debug, release) = (package.build("debug")?, package.build("release")?);
    let size = package.size()? as f64 / 1e6;
    package.clear()?;
    Ok(format!(
        "| {name} | {crates} | {debug} | {release} | {size:.1} MB |"
    ))
}

/// The machine, the compiler, and how busy others kept the machine when the builds began.
fn circumstances() -> String {
    let rustc = Command::new("rustc").arg("--version").output();
    let rustc = rustc.map(|output| String::from_utf8_lossy(&output.stdout).into_owned());
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    format!(
        "{}, {}, load {} before",
        machine::describe(),
        rustc.unwrap_or_default().trim(),
        load.split(' ').next().unwrap_or("unknown")
    )
}

fn renew_readme(table: &str) -> Result<(), String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../README.md");
    let readme = fs::read_to_string(&path).map_err(|error| error.to_string())?;
    let parts = readme.split_once(BEGIN).and_then(|(before, rest)| {
        let (_, after) = rest.split_once(END)?;
        Some((before, after))
    });
    let (before, after) = parts.ok_or("README.md has no place for the table")?;
    let renewed = format!("{before}{BEGIN}\n\n{table}\n{END}{after}");
    fs::write(path, renewed).map_err(|error| error.to_string())
}

/// What a clean build took.
struct Cost {
    wall: Duration,
    cpu: Duration,
}

impl std::fmt::Display for Cost {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{:.0} s | {:.0} s",
            self.wall.as_secs_f64(),
            self.cpu.as_secs_f64()
        )
    }
}

/// A package with one dependency, in a folder of its own.
struct Package {
    folder: PathBuf,
    /// The package whose program is built: this one, or the dependency.
    program: &'static str,
}

impl Package {
    fn new(one: &Use, folder: &Path) -> Result<Self, String> {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let (name, more) = one.dependency;
        let place = root.join(if name == "khoa" { "client" } else { "server" });
        let folder = folder.join(one.name.replace(|c: char| !c.is_alphanumeric(), "-"));
        let failed = |error: std::io::Error| error.to_string();
        fs::create_dir_all(folder.join("src")).map_err(failed)?;
        let comma = if more.is_empty() { "" } else { ", " };
        let manifest = format!(
            "[package]\nname = \"user\"\nedition = \"2024\"\n\n[dependencies]\n\
             {name} = {{ path = \"{}\"{comma}{more} }}\n\n[workspace]\n",
            place.display()
        );
        fs::write(folder.join("Cargo.toml"), manifest).map_err(failed)?;
        fs::write(
            folder.join("src/main.rs"),
            one.main.unwrap_or("fn main() {}"),
        )
        .map_err(failed)?;
        fs::copy(root.join("Cargo.lock"), folder.join("Cargo.lock")).map_err(failed)?;
        let program = if one.main.is_some() { "user" } else { name };
        Ok(Self { folder, program })
    }

    fn cargo(&self, args: &[&str]) -> Command {
        let mut cargo = Command::new(std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned()));
        cargo.args(args).current_dir(&self.folder);
        cargo.stdin(Stdio::null());
        cargo.env("CARGO_TARGET_DIR", self.folder.join("target"));
        cargo
    }

    /// How many crates are built, this package left out.
    fn crates(&self) -> Result<usize, String> {
        let tree = [
            "tree",
            "--edges",
            "normal,build",
            "--prefix",
            "none",
            "--no-dedupe",
        ];
        let output = self
            .cargo(&tree)
            .output()
            .map_err(|error| error.to_string())?;
        if !output.status.success() {
            return Err(String::from_utf8_lossy(&output.stderr).into_owned());
        }
        let text = String::from_utf8_lossy(&output.stdout);
        // A name and a version; what follows says where it comes from.
        let name = |line: &str| line.split(' ').take(2).collect::<Vec<_>>().join(" ");
        let names: BTreeSet<String> = text.lines().skip(1).map(name).collect();
        Ok(names.len())
    }

    fn build(&self, profile: &str) -> Result<Cost, String> {
        let mut cargo = self.cargo(&["build", "--quiet", "--package", self.program]);
        if profile == "release" {
            cargo.arg("--release");
        }
        let (start, before) = (Instant::now(), cpu_of_children()?);
        let status = cargo.status();
        let status = status.map_err(|error| error.to_string())?;
        if !status.success() {
            return Err(format!("the build ended with {status}"));
        }
        Ok(Cost {
            wall: start.elapsed(),
            cpu: cpu_of_children()?.saturating_sub(before),
        })
    }

    /// What was built is of no more use, and large.
    fn clear(&self) -> Result<(), String> {
        fs::remove_dir_all(self.folder.join("target")).map_err(|error| error.to_string())
    }

    fn size(&self) -> Result<u64, String> {
        let program = self.folder.join("target/release").join(self.program);
        let found = fs::metadata(&program);
        found
            .map(|program| program.len())
            .map_err(|error| format!("{}: {error}", program.display()))
    }
}

/// What all processes have used that were started here and have ended.
#[cfg(target_os = "linux")]
fn cpu_of_children() -> Result<Duration, String> {
    use nix::sys::resource::{UsageWho, getrusage};
    use nix::sys::time::TimeValLike;
    let usage = getrusage(UsageWho::RUSAGE_CHILDREN).map_err(|error| error.to_string())?;
    let micros = usage.user_time().num_microseconds() + usage.system_time().num_microseconds();
    Ok(Duration::from_micros(micros.unsigned_abs()))
}

#[cfg(not(target_os = "linux"))]
fn cpu_of_children() -> Result<Duration, String> {
    Ok(Duration::ZERO)
}
