//! The `khoa` command: runs a program under a lock, and shows and frees locks.

#[cfg(unix)]
mod child;
mod held;
#[cfg(unix)]
mod run;

use std::fmt;
use std::io::{self, Write};
use std::process::ExitCode;
use std::time::Duration;

use clap::{Arg, ArgAction, ArgMatches, Command, value_parser};
use khoa::{Error, Manager};

/// The lock is held by another, and the time to wait for it is over.
const CONFLICT: u8 = 75;
/// The server cannot be reached, or refuses.
const UNAVAILABLE: u8 = 69;
/// The lock was lost, and the command was ended.
const LOST: u8 = 74;
/// The arguments make no sense.
const USAGE: u8 = 2;

const AFTER_HELP: &str = "\
The server is --server or KHOA_SERVER, else redis://127.0.0.1:6379. Times are written as 500ms, 30s, 5m, 1h.";

const RUN_HELP: &str = "\
The command runs in a process group of its own, with KHOA_NAME, KHOA_KEY and KHOA_FENCING_TOKEN in its
environment. The lease is renewed while it runs. When it cannot be renewed the group gets SIGTERM, and
SIGKILL while the lease still lasts, so that it never works beside the next holder; when the lock is known
to be another's it gets SIGKILL at once. What the command leaves running in its group ends with it.
SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1 and SIGUSR2 are passed on.

Exit status: the command's own; 128 and the number of the signal that ended it; 126 or 127 if it cannot be
run; 75 if another holds the lock (or --conflict-exit-code); 74 if the lock was lost; 69 if the server cannot
be reached; 2 for arguments that make no sense.";

/// Why the command did not do what it was asked to, and the exit status that says so.
struct Failure {
    status: u8,
    text: String,
}

impl Failure {
    fn new(status: u8, text: impl fmt::Display) -> Self {
        let text = text.to_string();
        Self { status, text }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let status = match error {
            Error::InvalidName { .. } | Error::InvalidOption { .. } | Error::InvalidTtl { .. } => {
                USAGE
            }
            Error::Lost { .. } => LOST,
            _ => UNAVAILABLE,
        };
        Self::new(status, error)
    }
}

fn main() -> ExitCode {
    let matches = command_line().get_matches();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let outcome = match runtime {
        Ok(runtime) => runtime.block_on(dispatch(&matches)),
        Err(error) => Err(Failure::new(UNAVAILABLE, error)),
    };
    outcome.unwrap_or_else(|failure| {
        say(&failure.text);
        ExitCode::from(failure.status)
    })
}

async fn dispatch(matches: &ArgMatches) -> Result<ExitCode, Failure> {
    match matches.subcommand() {
        #[cfg(unix)]
        Some(("run", options)) => run::run(options).await,
        #[cfg(unix)]
        Some((child::BECOME, options)) => Err(child::become_command(options)),
        Some(("show", options)) => held::show(options).await,
        Some(("release", options)) => held::release(options).await,
        _ => Err(Failure::new(
            USAGE,
            "needs an operating system with process groups",
        )),
    }
}

/// Tells whoever may still listen.
fn say(text: &str) {
    let _ = writeln!(io::stderr(), "khoa: {text}");
}

fn command_line() -> Command {
    let command = Command::new("khoa")
        .version(env!("CARGO_PKG_VERSION"))
        .about("Distributed locks on Redis, Valkey or khoa-server, for shells and cron jobs")
        .after_help(AFTER_HELP)
        .subcommand_required(true)
        .arg_required_else_help(true)
        .subcommand(run_command())
        .subcommand(held::show_command())
        .subcommand(held::release_command());
    #[cfg(unix)]
    let command = command.subcommand(child::become_subcommand());
    command
}

fn run_command() -> Command {
    servers(Command::new("run"))
        .about("Runs a command while holding a lock")
        .after_help(RUN_HELP)
        .arg(name().required(true))
        .arg(
            Arg::new("command")
                .help("The command and its arguments")
                .required(true)
                .num_args(1..)
                .trailing_var_arg(true)
                .allow_hyphen_values(true)
                .value_parser(value_parser!(std::ffi::OsString)),
        )
        .args([
            time("ttl", "How long the lock outlives this process when it dies [default: 30s]"),
            time("wait", "How long to wait for the lock; for ever unless given"),
            flag("no-wait", "Make one attempt").conflicts_with("wait"),
            time("grace", "How long before the end of a lease that cannot be renewed the command gets SIGTERM [default: a quarter of the TTL]"),
            time("max-hold", "The longest hold, renewals included; the command is ended before it is over"),
            time("once-per", "Run only once in each such period in the whole fleet, and do nothing, successfully, for the rest of it"),
            Arg::new("label").long("label").value_name("TEXT").help("What the holder is called by those who look [default: host:pid]"),
            Arg::new("permits")
                .long("permits")
                .value_name("N")
                .help("Let up to N hold it at a time")
                .value_parser(value_parser!(u32).range(1..)),
            flag("shared", "Hold it together with others who share it, never beside --exclusive").conflicts_with("permits"),
            flag("exclusive", "Hold it alone, where others may share it").conflicts_with_all(["permits", "shared"]),
            flag("foreground", "Leave the command in this process group, so that it can read from the terminal; only it, not its children, gets signals then"),
            flag("verbose", "Say when the lock is held and when it was released").short('v'),
            Arg::new("conflict-exit-code")
                .long("conflict-exit-code")
                .short('E')
                .value_name("N")
                .help("The exit status when another holds the lock [default: 75]")
                .value_parser(value_parser!(u8)),
        ])
}

/// A command with the options that say where locks live.
fn servers(command: Command) -> Command {
    command
        .arg(
            Arg::new("server")
                .long("server")
                .value_name("URL")
                .action(ArgAction::Append)
                .help("The server; several make a quorum of independent ones"),
        )
        .arg(
            Arg::new("prefix")
                .long("prefix")
                .value_name("TEXT")
                .help("What every key begins with [default: khoa:]"),
        )
}

fn name() -> Arg {
    Arg::new("name")
        .value_name("NAME")
        .help("The name of the lock")
}

fn flag(name: &'static str, help: &'static str) -> Arg {
    Arg::new(name)
        .long(name)
        .action(ArgAction::SetTrue)
        .help(help)
}

fn time(name: &'static str, help: &'static str) -> Arg {
    Arg::new(name)
        .long(name)
        .value_name("TIME")
        .help(help)
        .value_parser(|text: &str| humantime::parse_duration(text))
}

/// The time that was given for an option.
fn time_of(matches: &ArgMatches, name: &str) -> Option<Duration> {
    matches.get_one::<Duration>(name).copied()
}

/// A manager for each server that was named.
fn managers(matches: &ArgMatches) -> Result<Vec<Manager>, Failure> {
    let urls: Vec<String> = match matches.get_many::<String>("server") {
        Some(urls) => urls.cloned().collect(),
        None => vec![
            std::env::var("KHOA_SERVER").unwrap_or_else(|_| "redis://127.0.0.1:6379".to_owned()),
        ],
    };
    let manager = |(index, url): (usize, String)| {
        let mut builder = Manager::builder().index(index);
        if let Some(prefix) = matches.get_one::<String>("prefix") {
            builder = builder.prefix(prefix);
        }
        builder
            .open(url)
            .map_err(|error| Failure::new(USAGE, error))
    };
    urls.into_iter().enumerate().map(manager).collect()
}
