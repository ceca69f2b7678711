//! Locks as people see them: who holds which, and how one is freed whose holder will not.

use std::fmt::Write as _;
use std::io::{self, Write as _};
use std::process::ExitCode;
use std::time::Duration;

use clap::{ArgMatches, Command};
use khoa::{Holder, Manager};

use crate::{Failure, USAGE, flag, managers, name, say, servers};

/// How many locks are listed at most.
const LISTED: usize = 1000;

pub(crate) fn show_command() -> Command {
    servers(Command::new("show"))
        .about("Shows who holds a lock, since when, for how long, and how many wait")
        .after_help("Exit status: 0 if any is held, 1 if none is.")
        .arg(name().help("What the names begin with; all without it"))
        .arg(flag("exact", "Only the lock of this very name").requires("name"))
}

pub(crate) fn release_command() -> Command {
    servers(Command::new("release"))
        .about("Takes a lock from its holder, and gives it to the next who waits")
        .after_help("The holder learns of it with its next renewal, and may be at work until then.\n\nExit status: 0 if it was held, 1 if it was not.")
        .arg(name().required(true))
        .arg(flag("force", "Say that you know that the holder may be at work").required(true))
}

pub(crate) async fn show(options: &ArgMatches) -> Result<ExitCode, Failure> {
    let manager = one(options)?;
    let name = options.get_one::<String>("name").map_or("", String::as_str);
    let held = if options.get_flag("exact") {
        manager.inspect(name).await?.into_iter().collect()
    } else {
        manager.holders(name, LISTED).await?
    };
    // Who does not read to the end wants no more.
    let _ = io::stdout().write_all(table(&held).as_bytes());
    if held.len() == LISTED {
        say(&format!("there may be more than these {LISTED}"));
    }
    Ok(ExitCode::from(u8::from(held.is_empty())))
}

pub(crate) async fn release(options: &ArgMatches) -> Result<ExitCode, Failure> {
    let manager = one(options)?;
    let name = options.get_one::<String>("name").map_or("", String::as_str);
    let was_held = manager.force_release(name).await?;
    Ok(ExitCode::from(u8::from(!was_held)))
}

fn one(options: &ArgMatches) -> Result<Manager, Failure> {
    match &mut managers(options)?[..] {
        [manager] => Ok(manager.clone()),
        _ => Err(Failure::new(USAGE, "ask one server at a time")),
    }
}

/// A line for each, columns apart by tabs so that `cut` and `column` can work on them.
fn table(held: &[Holder]) -> String {
    if held.is_empty() {
        return String::new();
    }
    let mut text = "KEY\tHOLDER\tTOKEN\tHELD\tLEFT\tWAITING\n".to_owned();
    for holder in held {
        let token = holder
            .fencing_token
            .map_or("-".to_owned(), |token| token.to_string());
        let _ = writeln!(
            text,
            "{}\t{}\t{token}\t{}\t{}\t{}",
            shown(&holder.key),
            shown(&holder.label),
            seconds(holder.held_for),
            seconds(holder.remaining),
            holder.waiting,
        );
    }
    text
}

/// Bytes that others chose, without what a terminal would obey.
fn shown(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let plain = text.chars().flat_map(|c| {
        let odd = c.is_control();
        let escaped = odd.then(|| c.escape_default());
        escaped.into_iter().flatten().chain((!odd).then_some(c))
    });
    let plain: String = plain.collect();
    if plain.is_empty() {
        "-".to_owned()
    } else {
        plain
    }
}

fn seconds(time: Option<Duration>) -> String {
    time.map_or("-".to_owned(), |time| format!("{:.1}s", time.as_secs_f64()))
}
