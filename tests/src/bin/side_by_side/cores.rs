//! Servers on one half of the cores, and what makes the load on the other.
//!
//! Left to the scheduler, a server now shares the core of its load and then has one to itself, and
//! the cost of an unpipelined command jumps by half between the two. A client on a machine of its
//! own is more like the second.

#[cfg(target_os = "linux")]
mod linux {
    use std::{io, sync::OnceLock};

    use nix::{
        sched::{CpuSet, sched_getaffinity, sched_setaffinity},
        unistd::Pid,
    };

    use crate::Outcome;

    struct Halves {
        servers: CpuSet,
        load: CpuSet,
    }

    /// Unset where there is one core only.
    static HALVES: OnceLock<Halves> = OnceLock::new();

    const THIS_THREAD: Pid = Pid::from_raw(0);

    pub fn split() -> Outcome<()> {
        let allowed = sched_getaffinity(THIS_THREAD)?;
        let cores = (0..CpuSet::count()).filter(|core| allowed.is_set(*core).unwrap_or(false));
        let cores: Vec<usize> = cores.collect();
        if cores.len() < 2 {
            return Ok(());
        }
        let (servers, load) = cores.split_at(cores.len() / 2);
        let halves = HALVES.get_or_init(|| Halves {
            servers: set(servers),
            load: set(load),
        });
        Ok(sched_setaffinity(THIS_THREAD, &halves.load)?)
    }

    fn set(cores: &[usize]) -> CpuSet {
        let mut set = CpuSet::new();
        for core in cores {
            // They came out of such a set.
            let _ = set.set(*core);
        }
        set
    }

    /// Runs what starts a server; a process stays on the cores of the thread that started it.
    pub fn of_servers<T>(start: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        let Some(halves) = HALVES.get() else {
            return start();
        };
        sched_setaffinity(THIS_THREAD, &halves.servers)?;
        let started = start();
        sched_setaffinity(THIS_THREAD, &halves.load)?;
        started
    }
}

#[cfg(target_os = "linux")]
pub use linux::{of_servers, split};

#[cfg(not(target_os = "linux"))]
pub fn split() -> crate::Outcome<()> {
    Ok(())
}

#[cfg(not(target_os = "linux"))]
pub fn of_servers<T>(start: impl FnOnce() -> std::io::Result<T>) -> std::io::Result<T> {
    start()
}
