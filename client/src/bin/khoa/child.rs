//! The command as a group of processes, which is signalled and ended as one.

use std::ffi::OsString;
use std::io::{self, ErrorKind};
use std::process::ExitStatus;

use clap::{Arg, ArgMatches, Command as CommandLine, value_parser};
use nix::sys::signal::{self, Signal};
use nix::unistd::Pid;
use tokio::process::{Child, Command};

use crate::Failure;

/// The hidden subcommand by which this program becomes the command, tied to its parent's life.
pub(crate) const BECOME: &str = "become-command";

/// A command that runs, and where its signals go.
pub(crate) struct Group {
    child: Child,
    target: Option<Pid>,
    foreground: bool,
}

impl Group {
    /// Starts the command, in a group of its own unless it is to stay in the `foreground`.
    pub(crate) fn start(
        command: &[OsString],
        environment: &[(&str, OsString)],
        foreground: bool,
    ) -> Result<Self, Failure> {
        let mut launch = launcher(command);
        launch.envs(environment.iter().cloned()).kill_on_drop(true);
        if !foreground {
            launch.process_group(0);
        }
        let child = launch
            .spawn()
            .map_err(|error| cannot_run(&command[0], &error))?;
        let pid = child.id().and_then(|pid| i32::try_from(pid).ok());
        let target = pid.map(|pid| Pid::from_raw(if foreground { pid } else { -pid }));
        Ok(Self {
            child,
            target,
            foreground,
        })
    }

    /// Completes when the command has ended.
    ///
    /// # Cancel safety
    /// Dropping the future loses nothing.
    pub(crate) async fn ended(&mut self) -> io::Result<ExitStatus> {
        self.child.wait().await
    }

    /// Ends what a command that has ended left behind in its group: it would work without the lock.
    /// In the foreground there is no such group, and the command's number may be another's by now.
    pub(crate) fn end_rest(&self) {
        if !self.foreground {
            self.signal(Signal::SIGKILL);
        }
    }

    /// Sends a signal to all that runs of it.
    pub(crate) fn signal(&self, signal: Signal) {
        if let Some(target) = self.target {
            // Those that are gone already need none.
            let _ = signal::kill(target, signal);
        }
    }
}

/// On Linux by way of this very program, which asks the kernel to be killed when its parent dies:
/// a command must not outlive the process that renews its lease.
#[cfg(target_os = "linux")]
fn launcher(command: &[OsString]) -> Command {
    let mut launch = Command::new("/proc/self/exe");
    launch
        .arg(BECOME)
        .arg(std::process::id().to_string())
        .arg("--")
        .args(command);
    launch
}

#[cfg(not(target_os = "linux"))]
fn launcher(command: &[OsString]) -> Command {
    let mut launch = Command::new(&command[0]);
    launch.args(&command[1..]);
    launch
}

pub(crate) fn become_subcommand() -> CommandLine {
    CommandLine::new(BECOME)
        .hide(true)
        .arg(
            Arg::new("parent")
                .required(true)
                .value_parser(value_parser!(i32)),
        )
        .arg(
            Arg::new("command")
                .required(true)
                .num_args(1..)
                .last(true)
                .value_parser(value_parser!(OsString)),
        )
}

/// Becomes the command; it returns only when that cannot be done.
pub(crate) fn become_command(options: &ArgMatches) -> Failure {
    use std::os::unix::process::CommandExt;
    let parent = options.get_one::<i32>("parent").copied();
    let mut command = options
        .get_many::<OsString>("command")
        .into_iter()
        .flatten();
    let Some(program) = command.next() else {
        return Failure::new(crate::USAGE, "no command");
    };
    #[cfg(target_os = "linux")]
    if let Err(error) = nix::sys::prctl::set_pdeathsig(Signal::SIGKILL) {
        return Failure::new(126, error);
    }
    // A parent that died before the kernel was asked will never be noticed.
    if parent != Some(nix::unistd::getppid().as_raw()) {
        return Failure::new(126, "its parent is gone");
    }
    let error = std::process::Command::new(program).args(command).exec();
    cannot_run(program, &error)
}

/// The exit status is that of shells.
fn cannot_run(program: &OsString, error: &io::Error) -> Failure {
    let status = if error.kind() == ErrorKind::NotFound {
        127
    } else {
        126
    };
    Failure::new(status, format!("{}: {error}", program.display()))
}
