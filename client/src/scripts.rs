//! The Lua scripts, embedded, and how one is called: by digest first, by text when unknown.

use std::sync::LazyLock;

use redis::Cmd;

/// A script and its digest.
pub(crate) struct Script {
    text: String,
    digest: String,
}

impl Script {
    pub(crate) fn new(parts: &[&str]) -> Self {
        let text = parts.concat();
        let digest = redis::Script::new(&text).get_hash().to_owned();
        Self { text, digest }
    }

    pub(crate) fn by_digest(&self, keys: &[Vec<u8>], args: &[&[u8]]) -> Cmd {
        call("EVALSHA", &self.digest, keys, args)
    }

    pub(crate) fn by_text(&self, keys: &[Vec<u8>], args: &[&[u8]]) -> Cmd {
        call("EVAL", &self.text, keys, args)
    }
}

fn call(verb: &str, script: &str, keys: &[Vec<u8>], args: &[&[u8]]) -> Cmd {
    let mut command = redis::cmd(verb);
    command.arg(script).arg(keys.len()).arg(keys).arg(args);
    command
}

/// The three scripts by which something is held: all take the token first and speak alike.
pub(crate) struct ScriptSet {
    pub(crate) acquire: Script,
    pub(crate) extend: Script,
    pub(crate) release: Script,
    /// Whether a waiter may be granted it by a message, without asking again.
    pub(crate) offers: bool,
}

const WAKE: &str = include_str!("scripts/wake.lua");
const NEXT_WAITER: &str = include_str!("scripts/next_waiter.lua");
const NEXT_FENCE: &str = include_str!("scripts/next_fence.lua");
const OFFER: &str = include_str!("scripts/offer.lua");
const HAND_OVER: &str = include_str!("scripts/hand_over.lua");
const ENQUEUE: &str = include_str!("scripts/enqueue.lua");
const PERMITS: &str = include_str!("scripts/permits.lua");
const SEMAPHORE_ADMIT: &str = include_str!("scripts/semaphore_admit.lua");
const RW_ADMIT: &str = include_str!("scripts/rw_admit.lua");

/// A script made of the given parts and files, in order.
macro_rules! script {
    ($($part:expr),+) => {
        Script::new(&[$($part),+])
    };
}

/// A script that hands something over to waiters, made of what they all use and the given parts.
macro_rules! offering {
    ($($part:expr),+) => {
        script!(WAKE, NEXT_FENCE, OFFER, ENQUEUE, $($part),+)
    };
}

pub(crate) static LOCK: LazyLock<ScriptSet> = LazyLock::new(|| ScriptSet {
    acquire: offering!(HAND_OVER, include_str!("scripts/lock_acquire.lua")),
    extend: script!(include_str!("scripts/lock_extend.lua")),
    release: offering!(HAND_OVER, include_str!("scripts/lock_release.lua")),
    offers: true,
});

pub(crate) static MULTI: LazyLock<ScriptSet> = LazyLock::new(|| ScriptSet {
    acquire: offering!(HAND_OVER, include_str!("scripts/multi_acquire.lua")),
    extend: script!(include_str!("scripts/multi_extend.lua")),
    release: offering!(HAND_OVER, include_str!("scripts/multi_release.lua")),
    // It waits for one of its names and must ask for the others.
    offers: false,
});

pub(crate) static SEMAPHORE: LazyLock<ScriptSet> = LazyLock::new(|| ScriptSet {
    acquire: offering!(
        PERMITS,
        SEMAPHORE_ADMIT,
        include_str!("scripts/semaphore_acquire.lua")
    ),
    extend: script!(PERMITS, include_str!("scripts/semaphore_extend.lua")),
    release: offering!(
        PERMITS,
        SEMAPHORE_ADMIT,
        include_str!("scripts/semaphore_release.lua")
    ),
    offers: true,
});

pub(crate) static READ_WRITE: LazyLock<ScriptSet> = LazyLock::new(|| ScriptSet {
    acquire: offering!(PERMITS, RW_ADMIT, include_str!("scripts/rw_acquire.lua")),
    extend: script!(PERMITS, RW_ADMIT, include_str!("scripts/rw_extend.lua")),
    release: offering!(PERMITS, RW_ADMIT, include_str!("scripts/rw_release.lua")),
    offers: true,
});

pub(crate) static INSPECT: LazyLock<Script> =
    LazyLock::new(|| script!(include_str!("scripts/inspect.lua")));

pub(crate) static FORCE_RELEASE: LazyLock<Script> =
    LazyLock::new(|| offering!(HAND_OVER, include_str!("scripts/force_release.lua")));

pub(crate) static SEMAPHORE_COUNT: LazyLock<Script> =
    LazyLock::new(|| script!(PERMITS, include_str!("scripts/semaphore_count.lua")));

pub(crate) static PERIODIC: LazyLock<Script> =
    LazyLock::new(|| script!(include_str!("scripts/periodic_claim.lua")));

pub(crate) static LATCH: LazyLock<Script> =
    LazyLock::new(|| script!(WAKE, ENQUEUE, include_str!("scripts/latch.lua")));

pub(crate) static FIXED_WINDOW: LazyLock<Script> =
    LazyLock::new(|| script!(include_str!("scripts/fixed_window.lua")));

pub(crate) static SLIDING_WINDOW: LazyLock<Script> =
    LazyLock::new(|| script!(PERMITS, include_str!("scripts/sliding_window.lua")));

const QUEUE_JOBS: &str = include_str!("scripts/queue_jobs.lua");

/// A script over a queue, made of what they all use and the given file.
macro_rules! queue_script {
    ($file:literal) => {
        script!(
            WAKE,
            NEXT_WAITER,
            NEXT_FENCE,
            ENQUEUE,
            PERMITS,
            QUEUE_JOBS,
            include_str!($file)
        )
    };
}

pub(crate) static QUEUE: LazyLock<ScriptSet> = LazyLock::new(|| ScriptSet {
    acquire: queue_script!("scripts/queue_take.lua"),
    extend: queue_script!("scripts/queue_extend.lua"),
    release: queue_script!("scripts/queue_return.lua"),
    // What a worker gets is the job, which only its own request can bring.
    offers: false,
});

pub(crate) static QUEUE_PUSH: LazyLock<Script> =
    LazyLock::new(|| queue_script!("scripts/queue_push.lua"));

pub(crate) static QUEUE_DONE: LazyLock<Script> =
    LazyLock::new(|| queue_script!("scripts/queue_done.lua"));

pub(crate) static QUEUE_STATUS: LazyLock<Script> =
    LazyLock::new(|| queue_script!("scripts/queue_status.lua"));

pub(crate) static RAISE_FENCE: LazyLock<Script> =
    LazyLock::new(|| script!(include_str!("scripts/raise_fence.lua")));

pub(crate) static FENCED_SET: LazyLock<Script> =
    LazyLock::new(|| script!(include_str!("scripts/fenced_set.lua")));
