//! What the operating system knows of this process: memory, processor time, its own name.

use std::{fs, time::Duration};

/// Memory, in bytes; zero where the system does not tell.
#[derive(Clone, Copy, Debug, Default)]
pub struct Memory {
    /// What the process occupies now.
    pub resident: u64,
    /// The most that it ever occupied.
    pub peak: u64,
    /// What the machine has.
    pub machine: u64,
}

/// Processor time since the start.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cpu {
    pub user: Duration,
    pub system: Duration,
    pub children_user: Duration,
    pub children_system: Duration,
}

/// The memory of the process and of the machine.
pub fn memory() -> Memory {
    let resident = resident();
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let machine = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    Memory {
        resident,
        peak: kilobytes(&status, "VmHWM:").max(resident),
        machine: kilobytes(&machine, "MemTotal:"),
    }
}

/// What the process occupies now, in bytes.
pub fn resident() -> u64 {
    let status = fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages: u64 = status
        .split(' ')
        .nth(1)
        .and_then(|pages| pages.parse().ok())
        .unwrap_or(0);
    pages * page_size()
}

fn kilobytes(table: &str, name: &str) -> u64 {
    table
        .lines()
        .find_map(|line| line.strip_prefix(name))
        .and_then(|rest| rest.trim().strip_suffix("kB"))
        .and_then(|number| number.trim().parse::<u64>().ok())
        .unwrap_or(0)
        * 1024
}

#[cfg(unix)]
fn page_size() -> u64 {
    use nix::unistd::{SysconfVar, sysconf};
    sysconf(SysconfVar::PAGE_SIZE)
        .ok()
        .flatten()
        .map_or(4096, |size| size as u64)
}

#[cfg(not(unix))]
fn page_size() -> u64 {
    4096
}

/// The processor time of the process.
#[cfg(unix)]
pub fn cpu() -> Cpu {
    use nix::sys::resource::{UsageWho, getrusage};
    let usage = |who| {
        let usage = getrusage(who).ok();
        let time = |value: Option<nix::sys::time::TimeVal>| {
            value.map_or(Duration::ZERO, |value| {
                Duration::new(value.tv_sec() as u64, value.tv_usec() as u32 * 1000)
            })
        };
        (
            time(usage.map(|usage| usage.user_time())),
            time(usage.map(|usage| usage.system_time())),
        )
    };
    let (user, system) = usage(UsageWho::RUSAGE_SELF);
    let (children_user, children_system) = usage(UsageWho::RUSAGE_CHILDREN);
    Cpu {
        user,
        system,
        children_user,
        children_system,
    }
}

/// The processor time of the process.
#[cfg(not(unix))]
pub fn cpu() -> Cpu {
    Cpu::default()
}

/// The system, its release and the kind of machine, such as `Linux 6.1.0 x86_64`.
#[cfg(unix)]
pub fn system_name() -> String {
    let Ok(names) = nix::sys::utsname::uname() else {
        return std::env::consts::OS.to_owned();
    };
    let [system, release, machine] =
        [names.sysname(), names.release(), names.machine()].map(|name| name.to_string_lossy());
    format!("{system} {release} {machine}")
}

/// The system and the kind of machine.
#[cfg(not(unix))]
pub fn system_name() -> String {
    format!("{} {}", std::env::consts::OS, std::env::consts::ARCH)
}

/// File descriptors that are kept for what is no client, as many as the references keep.
const OTHER_DESCRIPTORS: u64 = 32;

/// How many clients find room if `wanted` are to: that many or fewer. Raises the number of files
/// that the process may have open if it needs to and can.
#[cfg(unix)]
pub fn room_for_clients(wanted: usize) -> usize {
    use nix::sys::resource::{Resource, getrlimit, setrlimit};
    let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE) else {
        return wanted;
    };
    let needed = wanted as u64 + OTHER_DESCRIPTORS;
    let raised = needed.min(hard);
    let open = if soft < raised && setrlimit(Resource::RLIMIT_NOFILE, raised, hard).is_ok() {
        raised
    } else {
        soft
    };
    let room = open.min(needed).saturating_sub(OTHER_DESCRIPTORS);
    usize::try_from(room).unwrap_or(wanted).max(1)
}

/// How many clients find room if `wanted` are to.
#[cfg(not(unix))]
pub fn room_for_clients(wanted: usize) -> usize {
    wanted
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg(target_os = "linux")]
    fn a_running_process_occupies_memory_and_the_peak_is_no_less() {
        let memory = memory();
        assert!(memory.resident > 100_000);
        assert!(memory.peak >= memory.resident);
        assert!(memory.machine > memory.resident);
    }

    #[test]
    #[cfg(unix)]
    fn work_takes_processor_time() {
        let before = cpu().user;
        let mut sum = 0u64;
        while cpu().user == before {
            sum = std::hint::black_box(sum.wrapping_add(1));
        }
        assert!(cpu().user > before);
    }
}
