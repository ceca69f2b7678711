//! Turns arguments and a file into settings, starts a server, waits for its end.

use std::{
    fs,
    future::poll_fn,
    io::{self, Read, Write},
    pin::{Pin, pin},
    process::ExitCode,
    task::Poll,
    time::Duration,
};

use clap::{
    Arg, ArgAction, ArgMatches, Command,
    error::{ContextKind, ErrorKind},
};
use khoa_server::{
    Builder, Server, VERSION,
    config::{Config, RETIRED, SETTINGS, Setting},
    settings_file,
};
use tracing_subscriber::{filter::LevelFilter, fmt, layer::SubscriberExt, reload};

/// Unlike that of the system it gives memory back after a burst, also from around what stays, and
/// it has a thread of its own for that.
#[cfg(all(feature = "jemalloc", target_os = "linux"))]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

/// How long the end waits for clients to take the replies to what was executed.
const PATIENCE: Duration = Duration::from_secs(3);

/// The settings that `--help` lists, each with a line about it.
const LISTED: &[(&str, &str)] = &[
    ("port", "The TCP port; 0 for none"),
    ("bind", "The addresses to listen on"),
    ("unixsocket", "A Unix socket to listen on too"),
    ("requirepass", "The password that clients must give"),
    ("databases", "How many numbered databases there are"),
    ("maxclients", "How many clients may be connected"),
    (
        "maxmemory",
        "How much memory the data may take, such as 100mb; 0 for no limit",
    ),
    (
        "loglevel",
        "What is logged: debug, verbose, notice, warning or nothing",
    ),
    ("io-threads", "Threads that serve connections"),
];

fn main() -> ExitCode {
    let matches = match command_line().try_get_matches() {
        Ok(matches) => matches,
        Err(error) => {
            match unknown_option(&error) {
                Some(name) => say(&format!(
                    "unknown setting '{name}'; --help tells what there is"
                )),
                None => drop(error.print()),
            }
            return ExitCode::from(u8::from(error.use_stderr()));
        }
    };
    match run(&matches) {
        Ok(()) => ExitCode::SUCCESS,
        Err(text) => {
            say(&text);
            ExitCode::FAILURE
        }
    }
}

/// Says what went wrong, to whoever may still listen.
fn say(text: &str) {
    let _ = writeln!(io::stderr(), "khoa-server: {text}");
}

fn unknown_option(error: &clap::Error) -> Option<String> {
    let unknown = error.kind() == ErrorKind::UnknownArgument;
    let name = error.get(ContextKind::InvalidArg).filter(|_| unknown)?;
    Some(name.to_string())
}

fn command_line() -> Command {
    let file = Arg::new("file")
        .value_name("FILE")
        .help("A file of `name value` lines; `-` for standard input");
    let command = Command::new("khoa-server")
        .version(VERSION)
        .about("An in-memory lock server that speaks the Redis protocol")
        .after_help("Any other setting that CONFIG GET '*' lists is an option too.")
        .arg(file);
    let user = Arg::new("user")
        .long("user")
        .value_name("NAME RULE")
        .num_args(1..)
        .action(ArgAction::Append)
        .hide(true);
    let retired = RETIRED.iter().map(|name| {
        let option = Arg::new(*name).long(*name).num_args(1..).hide(true);
        option.action(ArgAction::Append)
    });
    command
        .args(SETTINGS.iter().map(option))
        .args(retired)
        .arg(user)
}

fn option(setting: &'static Setting) -> Arg {
    let help = LISTED.iter().find(|(name, _)| *name == setting.name);
    let option = Arg::new(setting.name)
        .long(setting.name)
        .value_name("VALUE")
        .num_args(1..)
        .action(ArgAction::Append)
        .allow_negative_numbers(true)
        .hide(help.is_none());
    let option = match help {
        Some((_, help)) if setting.default.is_empty() => option.help(*help),
        Some((_, help)) => option.help(format!("{help} [default: {}]", setting.default)),
        None => option,
    };
    if setting.alias.is_empty() {
        option
    } else {
        option.alias(setting.alias)
    }
}

fn run(matches: &ArgMatches) -> Result<(), String> {
    let builder = configured(matches)?;
    let (file, level) = (
        builder.get_setting("logfile"),
        builder.get_setting("loglevel"),
    );
    let set_level = start_log(file, level)?;
    let pid_file = builder.get_setting("pidfile").to_owned();
    let dir = builder.get_setting("dir").to_owned();
    std::env::set_current_dir(&dir).map_err(|error| format!("dir {dir}: {error}"))?;
    let builder = builder.within_open_files();
    let signals = Signals::new().map_err(|error| error.to_string())?;
    let server = builder.start().map_err(|error| explained(&error))?;
    server.on_settings(move |config: &Config| set_level(config.get("loglevel")));
    if !pid_file.is_empty() {
        let text = format!("{}\n", std::process::id());
        fs::write(&pid_file, text).map_err(|error| format!("pidfile {pid_file}: {error}"))?;
    }
    greet(&server);
    let cause = signals.wait(&server);
    tracing::info!(cause, "stopping");
    server.shut_down(PATIENCE);
    if !pid_file.is_empty() {
        let _ = fs::remove_file(&pid_file);
    }
    Ok(())
}

/// The file's settings first, so that options overrule them.
fn configured(matches: &ArgMatches) -> Result<Builder, String> {
    let here = std::env::current_dir().unwrap_or_default();
    let mut builder = Server::builder()
        .try_setting("dir", &here.to_string_lossy())?
        .try_setting("port", "6379")?;
    if let Some(file) = matches.get_one::<String>("file") {
        builder = read_file(builder, file)?;
    }
    for setting in SETTINGS {
        let given = matches.get_occurrences::<String>(setting.name);
        let mut first = true;
        for values in given.into_iter().flatten() {
            let values: Vec<&str> = values.map(String::as_str).collect();
            builder = apply(builder, setting.name, &values, first)
                .map_err(|error| format!("--{}: {error}", setting.name))?;
            first = false;
        }
    }
    let users = matches.get_occurrences::<String>("user");
    for words in users.into_iter().flatten() {
        // Words that begin with a minus would be taken for options, so all may stand in quotes.
        let words: Vec<&str> = words.flat_map(|word| word.split_whitespace()).collect();
        builder =
            apply(builder, "user", &words, true).map_err(|error| format!("--user: {error}"))?;
    }
    Ok(builder)
}

fn read_file(mut builder: Builder, file: &str) -> Result<Builder, String> {
    let lines = if file == "-" {
        let mut text = String::new();
        let read = io::stdin().read_to_string(&mut text);
        read.map_err(|error| format!("standard input: {error}"))?;
        settings_file::parse("standard input", &text)?
    } else {
        let path = fs::canonicalize(file).map_err(|error| format!("{file}: {error}"))?;
        builder = builder.settings_file(&path.to_string_lossy());
        settings_file::read(file)?
    };
    let mut saves = 0;
    for line in lines {
        let values: Vec<&str> = line.values.iter().map(String::as_str).collect();
        saves += usize::from(line.name == "save");
        builder = apply(builder, &line.name, &values, saves <= 1)
            .map_err(|error| format!("{}:{}: {}: {error}", line.file, line.number, line.name))?;
    }
    Ok(builder)
}

/// Sets one setting. Save points that are not the first are added to those before.
fn apply(builder: Builder, name: &str, values: &[&str], first: bool) -> Result<Builder, String> {
    if values.is_empty() {
        return Err("a value is missing".to_owned());
    }
    if name == "user" {
        return builder.try_user(values[0], &values[1..]);
    }
    let mut value = values.join(" ");
    if name == "save" && !first && !value.is_empty() {
        value = format!("{} {value}", builder.get_setting("save"));
    }
    builder.try_setting(name, &value)
}

fn explained(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::AddrInUse => {
            format!("{error}. Another server may be running there: try another --port")
        }
        io::ErrorKind::PermissionDenied => {
            format!("{error}. Ports below 1024 are often reserved: try another --port")
        }
        _ => error.to_string(),
    }
}

/// Starts logging to the file, or to standard error; returns what changes the level later.
fn start_log(file: &str, level: &str) -> Result<impl Fn(&str) + Send + 'static, String> {
    let (filter, handle) = reload::Layer::new(level_filter(level));
    let layer = fmt::layer().with_target(false).with_ansi(false);
    let subscriber = tracing_subscriber::registry().with(filter);
    let set = if file.is_empty() {
        tracing::subscriber::set_global_default(subscriber.with(layer.with_writer(io::stderr)))
    } else {
        let opened = fs::File::options().create(true).append(true).open(file);
        let opened = opened.map_err(|error| format!("logfile {file}: {error}"))?;
        let writer = std::sync::Mutex::new(opened);
        tracing::subscriber::set_global_default(subscriber.with(layer.with_writer(writer)))
    };
    set.map_err(|error| error.to_string())?;
    Ok(move |level: &str| {
        // Only fails once the program is ending.
        let _ = handle.modify(|filter| *filter = level_filter(level));
    })
}

fn level_filter(level: &str) -> LevelFilter {
    match level {
        "debug" => LevelFilter::TRACE,
        "verbose" => LevelFilter::DEBUG,
        "warning" => LevelFilter::WARN,
        "nothing" => LevelFilter::OFF,
        _ => LevelFilter::INFO,
    }
}

fn greet(server: &Server) {
    let mut out = io::stdout();
    let (place, client) = match server.addrs() {
        [] => ("a Unix socket".to_owned(), "redis-cli -s SOCKET".to_owned()),
        [first, ..] => (first.to_string(), format!("redis-cli -p {}", first.port())),
    };
    // Nobody has to be there to read it.
    let _ = writeln!(out, "khoa {VERSION} listens on {place}");
    let _ = writeln!(out, "Try: {client} SET lock:order:7 me NX PX 30000");
    let _ = out.flush();
}

/// Ready with its name once a signal came.
type End = Pin<Box<dyn Future<Output = &'static str>>>;

/// What ends the program from outside. It is listened for from the moment this is made, so that
/// no signal finds the program unprepared.
struct Signals {
    runtime: tokio::runtime::Runtime,
    ends: Vec<End>,
}

impl Signals {
    fn new() -> io::Result<Signals> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let entered = runtime.enter();
        let ends = listened_for()?;
        drop(entered);
        Ok(Signals { runtime, ends })
    }

    /// Waits for a signal or for a client's SHUTDOWN; tells which it was.
    fn wait(mut self, server: &Server) -> &'static str {
        self.runtime.block_on(async {
            let mut stopped = pin!(server.stopped());
            poll_fn(|context| {
                if stopped.as_mut().poll(context).is_ready() {
                    return Poll::Ready("SHUTDOWN");
                }
                let mut polls = self.ends.iter_mut().map(|end| end.as_mut().poll(context));
                polls.find(Poll::is_ready).unwrap_or(Poll::Pending)
            })
            .await
        })
    }
}

#[cfg(unix)]
fn listened_for() -> io::Result<Vec<End>> {
    use tokio::signal::unix::{SignalKind, signal};
    let mut ends: Vec<End> = Vec::new();
    for (name, kind) in [
        ("SIGINT", SignalKind::interrupt()),
        ("SIGTERM", SignalKind::terminate()),
    ] {
        let mut signal = signal(kind)?;
        ends.push(Box::pin(async move {
            signal.recv().await;
            name
        }));
    }
    Ok(ends)
}

#[cfg(not(unix))]
fn listened_for() -> io::Result<Vec<End>> {
    Ok(vec![Box::pin(async {
        match tokio::signal::ctrl_c().await {
            Ok(()) => "Ctrl-C",
            Err(_) => std::future::pending().await,
        }
    })])
}
