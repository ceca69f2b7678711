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
}

const NEXT_WAITER: &str = include_str!("scripts/next_waiter.lua");
const NEXT_FENCE: &str = include_str!("scripts/next_fence.lua");
const ENQUEUE: &str = include_str!("scripts/enqueue.lua");

pub(crate) static LOCK: LazyLock<ScriptSet> = LazyLock::new(|| ScriptSet {
    acquire: Script::new(&[
        NEXT_WAITER,
        NEXT_FENCE,
        ENQUEUE,
        include_str!("scripts/lock_acquire.lua"),
    ]),
    extend: Script::new(&[include_str!("scripts/lock_extend.lua")]),
    release: Script::new(&[NEXT_WAITER, include_str!("scripts/lock_release.lua")]),
});

pub(crate) static INSPECT: LazyLock<Script> =
    LazyLock::new(|| Script::new(&[include_str!("scripts/inspect.lua")]));

pub(crate) static FORCE_RELEASE: LazyLock<Script> =
    LazyLock::new(|| Script::new(&[NEXT_WAITER, include_str!("scripts/force_release.lua")]));
