//! A command under a lock: it gets the lock's fencing token, and ends before its lease does.

use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::process::ExitStatusExt;
use std::process::{ExitCode, ExitStatus};
use std::time::{Duration, Instant};

use clap::ArgMatches;
use khoa::{Error, Guard, Lease, Lock, MAX_TTL, Manager, OncePer, Redlock, Released};
use nix::sys::signal::Signal;
use tokio::signal::unix::{self, SignalKind};
use tokio::sync::mpsc;

use crate::child::Group;
use crate::{CONFLICT, Failure, LOST, USAGE, managers, say, time_of};

const DEFAULT_TTL: Duration = Duration::from_secs(30);
/// How long what is held, or a place in the queue, may take to be given back in the background
/// before this process ends.
const LEAVING: Duration = Duration::from_millis(200);
/// What is passed on to the command; before there is one, they end the wait.
const PASSED_ON: [(SignalKind, Signal); 6] = [
    (SignalKind::hangup(), Signal::SIGHUP),
    (SignalKind::interrupt(), Signal::SIGINT),
    (SignalKind::quit(), Signal::SIGQUIT),
    (SignalKind::terminate(), Signal::SIGTERM),
    (SignalKind::user_defined1(), Signal::SIGUSR1),
    (SignalKind::user_defined2(), Signal::SIGUSR2),
];

pub(crate) async fn run(options: &ArgMatches) -> Result<ExitCode, Failure> {
    let mut signals = signals()?;
    let margins = Margins::new(options)?;
    let managers = managers(options)?;
    let name = options.get_one::<String>("name").map_or("", String::as_str);
    let lock = configured(lock(options, &managers, name)?, options);
    let once = once_per(options, &managers, name)?;
    let begun = Instant::now();
    let guard = tokio::select! {
        guard = acquire(&lock, options) => guard?,
        Some(signal) = signals.recv() => {
            tokio::time::sleep(LEAVING).await;
            return Ok(ExitCode::from(signalled(signal as i32)));
        }
    };
    let Some(guard) = guard else {
        say(&format!("{name}: another holds it"));
        let status = options.get_one::<u8>("conflict-exit-code").copied();
        return Ok(ExitCode::from(status.unwrap_or(CONFLICT)));
    };
    if options.get_flag("verbose") {
        let (token, waited) = (guard.fencing_token(), begun.elapsed());
        say(&format!(
            "{name}: held after {waited:.1?}, fencing token {token}"
        ));
    }
    let outcome = work(guard, once, options, name, margins, &mut signals).await;
    if outcome.is_err() {
        tokio::time::sleep(LEAVING).await;
    }
    outcome
}

/// Runs the command under the lock, if it is due, and gives that back.
async fn work(
    guard: Guard,
    once: Option<OncePer>,
    options: &ArgMatches,
    name: &str,
    margins: Margins,
    signals: &mut mpsc::UnboundedReceiver<Signal>,
) -> Result<ExitCode, Failure> {
    // Claimed under the lock, so that no period is lost to one that cannot have it.
    if let Some(once) = once
        && !once.claim().await?.mine
    {
        guard.release().await?;
        return Ok(ExitCode::SUCCESS);
    }
    // One that was handed over began with a part of its time, which could be less than the margins.
    guard.extend().await?;
    let command = options.get_many("command").into_iter().flatten();
    let command: Vec<OsString> = command.cloned().collect();
    let foreground = options.get_flag("foreground");
    let group = Group::start(&command, &environment(name, &guard), foreground)?;
    let status = supervise(group, &guard, margins, signals).await?;
    conclude(guard, name, options.get_flag("verbose")).await?;
    Ok(ExitCode::from(exit_status(status)))
}

/// What was asked for: a lock over one server or a quorum, a permit, or a side of a shared lock.
fn lock(options: &ArgMatches, managers: &[Manager], name: &str) -> Result<Lock, Failure> {
    let permits = options.get_one::<u32>("permits");
    let (shared, exclusive) = (options.get_flag("shared"), options.get_flag("exclusive"));
    let [manager] = managers else {
        if permits.is_some() || shared || exclusive || time_of(options, "once-per").is_some() {
            return Err(Failure::new(USAGE, "several servers hold plain locks only"));
        }
        return Ok(Redlock::new(managers.iter().cloned())?.lock(name));
    };
    Ok(match permits {
        Some(permits) => manager.semaphore(name, *permits),
        None if shared => manager.read_write(name).read(),
        None if exclusive => manager.read_write(name).write(),
        None => manager.lock(name),
    })
}

fn configured(lock: Lock, options: &ArgMatches) -> Lock {
    let lock = lock
        .ttl(ttl(options))
        .auto_renew(true)
        .max_hold(time_of(options, "max-hold").unwrap_or(Duration::MAX))
        .wait_forever();
    match options.get_one::<String>("label") {
        Some(label) => lock.label(label),
        None => lock,
    }
}

fn ttl(options: &ArgMatches) -> Duration {
    time_of(options, "ttl").unwrap_or(DEFAULT_TTL)
}

/// The lock, or none when another holds it for too long.
async fn acquire(lock: &Lock, options: &ArgMatches) -> Result<Option<Guard>, Error> {
    let guard = match time_of(options, "wait") {
        _ if options.get_flag("no-wait") => return lock.try_acquire().await,
        Some(limit) => lock.acquire_within(limit).await,
        None => lock.acquire().await,
    };
    match guard {
        Ok(guard) => Ok(Some(guard)),
        Err(Error::TimedOut { last: None, .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

/// The job that is to run once in each period, if it is one.
fn once_per(
    options: &ArgMatches,
    managers: &[Manager],
    name: &str,
) -> Result<Option<OncePer>, Failure> {
    let Some(period) = time_of(options, "once-per") else {
        return Ok(None);
    };
    if period.is_zero() || period > MAX_TTL {
        let text = format!("a period of {period:?} is not allowed");
        return Err(Failure::new(USAGE, text));
    }
    Ok(Some(managers[0].once_per(name, period)))
}

fn environment(name: &str, lease: &Lease) -> [(&'static str, OsString); 3] {
    [
        ("KHOA_NAME", name.into()),
        ("KHOA_KEY", OsString::from_vec(lease.key().to_vec())),
        (
            "KHOA_FENCING_TOKEN",
            lease.fencing_token().to_string().into(),
        ),
    ]
}

/// How long before the end of a lease the command is told to end, and made to.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Margins {
    terminate: Duration,
    kill: Duration,
}

impl Margins {
    fn new(options: &ArgMatches) -> Result<Self, Failure> {
        Self::of(ttl(options), time_of(options, "grace"))
            .ok_or_else(|| Failure::new(USAGE, "--grace must be shorter than half the TTL"))
    }

    /// None when the command would be told before a renewal had its chance.
    fn of(ttl: Duration, grace: Option<Duration>) -> Option<Self> {
        let terminate = grace.unwrap_or(ttl / 4);
        let kill = (ttl / 50).clamp(Duration::from_millis(20), Duration::from_secs(1));
        let kill = kill.min(ttl / 8);
        (terminate < ttl / 2).then_some(Self {
            terminate: terminate.max(kill),
            kill,
        })
    }
}

/// What the end of a lease asks of the command.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Verdict {
    /// Nothing yet; look again then.
    WorkUntil(Instant),
    Terminate,
    Kill,
}

/// What to do with a command at this moment, whose lease is proven until then.
fn verdict(now: Instant, valid_until: Instant, margins: Margins, terminated: bool) -> Verdict {
    let left = valid_until.saturating_duration_since(now);
    if left <= margins.kill {
        Verdict::Kill
    } else if terminated {
        Verdict::WorkUntil(now + left.saturating_sub(margins.kill))
    } else if left <= margins.terminate {
        Verdict::Terminate
    } else {
        Verdict::WorkUntil(now + left.saturating_sub(margins.terminate))
    }
}

/// Waits for the command's end, passes signals on to it, and ends it before its lease does.
async fn supervise(
    mut group: Group,
    lease: &Lease,
    margins: Margins,
    signals: &mut mpsc::UnboundedReceiver<Signal>,
) -> Result<ExitStatus, Failure> {
    let mut terminated = false;
    let mut failure = None;
    let status = loop {
        let look_again = match verdict(Instant::now(), lease.valid_until(), margins, terminated) {
            _ if failure.is_some() => None,
            Verdict::WorkUntil(moment) => Some(moment),
            Verdict::Terminate => {
                say("the lease cannot be renewed: SIGTERM to the command");
                group.signal(Signal::SIGTERM);
                terminated = true;
                continue;
            }
            Verdict::Kill => {
                group.signal(Signal::SIGKILL);
                failure = Some("the lease could not be renewed: SIGKILL to the command".to_owned());
                None
            }
        };
        tokio::select! {
            biased;
            reason = lease.lost(), if failure.is_none() => {
                group.signal(Signal::SIGKILL);
                failure = Some(format!("the lock is lost, {reason}: SIGKILL to the command"));
            }
            status = group.ended() => break status,
            Some(signal) = signals.recv() => group.signal(signal),
            () = at(look_again) => {}
        }
    };
    group.end_rest();
    match failure {
        Some(text) => Err(Failure::new(LOST, text)),
        None => status.map_err(|error| Failure::new(126, error)),
    }
}

async fn at(moment: Option<Instant>) {
    match moment {
        Some(moment) => tokio::time::sleep_until(moment.into()).await,
        None => std::future::pending().await,
    }
}

/// Gives the lock back. A command that ended after its lease, unnoticed, is no success.
async fn conclude(guard: Guard, name: &str, verbose: bool) -> Result<(), Failure> {
    guard.check()?;
    let held = guard.held_for();
    match guard.release().await {
        Ok(Released::Released) if verbose => say(&format!("{name}: released after {held:.1?}")),
        Ok(_) => {}
        // The work is done, and was under the lease: the lock ends with its TTL.
        Err(error) => say(&format!("{name}: the release was not confirmed: {error}")),
    }
    Ok(())
}

fn exit_status(status: ExitStatus) -> u8 {
    let code = status.code().and_then(|code| u8::try_from(code).ok());
    code.unwrap_or_else(|| signalled(status.signal().unwrap_or_default()))
}

fn signalled(signal: i32) -> u8 {
    128_u8.saturating_add(u8::try_from(signal).unwrap_or_default())
}

/// The signals that this process gets, in one place, so that none comes unheard.
fn signals() -> Result<mpsc::UnboundedReceiver<Signal>, Failure> {
    let (sender, receiver) = mpsc::unbounded_channel();
    for (kind, signal) in PASSED_ON {
        let mut stream = unix::signal(kind).map_err(|error| Failure::new(USAGE, error))?;
        let sender = sender.clone();
        tokio::spawn(async move {
            while stream.recv().await.is_some() && sender.send(signal).is_ok() {}
        });
    }
    Ok(receiver)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn margins() -> Margins {
        Margins::of(30 * SECOND, None).unwrap()
    }

    #[test]
    fn a_command_is_told_to_end_and_then_made_to_before_the_lease_is_over() {
        let now = Instant::now();
        let at = |left: Duration, terminated| verdict(now, now + left, margins(), terminated);
        let told = now + Duration::from_millis(22_500);
        assert_eq!(at(30 * SECOND, false), Verdict::WorkUntil(told));
        assert_eq!(at(30 * SECOND / 4, false), Verdict::Terminate);
        let killed = now + Duration::from_millis(6_900);
        assert_eq!(at(30 * SECOND / 4, true), Verdict::WorkUntil(killed));
        assert_eq!(at(30 * SECOND / 50, true), Verdict::Kill);
    }

    #[test]
    fn a_process_that_was_paused_past_the_end_kills_at_once() {
        let now = Instant::now();
        assert_eq!(verdict(now + SECOND, now, margins(), false), Verdict::Kill);
    }

    #[test]
    fn a_renewal_has_its_chance_before_the_command_is_told() {
        let ttl = 30 * SECOND;
        assert_eq!(Margins::of(ttl, Some(ttl / 2)), None);
        assert!(Margins::of(ttl, Some(ttl / 3)).is_some());
    }

    #[test]
    fn margins_stay_within_the_shortest_lease() {
        for millis in [1, 2, 10, 100] {
            let ttl = Duration::from_millis(millis);
            let margins = Margins::of(ttl, None).unwrap();
            assert!(
                margins.kill <= margins.terminate && margins.terminate < ttl / 2,
                "{margins:?}"
            );
        }
    }
}
