//! What stands for `scripting.rs` in a build without Lua: no command, and nothing that ever runs.

use std::sync::Arc;

use super::{Command, Error};

/// EVAL and the others are unknown commands here.
pub const COMMANDS: &[Command] = &[];

/// Holds nothing.
#[derive(Default)]
pub struct Scripting {
    pub control: Arc<Control>,
}

impl Scripting {
    pub fn set_memory_limit(&mut self, _bytes: usize) {}

    pub fn cached(&self) -> usize {
        0
    }

    pub fn evicted(&self) -> u64 {
        0
    }

    pub fn used_memory(&self) -> (usize, usize) {
        (0, 0)
    }
}

/// Sees no script run.
#[derive(Default)]
pub struct Control;

/// Who asks a script to end.
pub enum Killer {
    Shutdown,
}

/// There is nothing to be ended.
pub struct NothingRuns;

impl Control {
    pub fn set_threshold_ms(&self, _threshold_ms: i64) {}

    pub fn is_busy(&self) -> bool {
        false
    }

    pub fn take_was_busy(&self) -> bool {
        false
    }

    /// No request is refused with it.
    pub fn busy_error(&self) -> Error {
        Error::text("BUSY")
    }

    pub fn has_looked(&self) -> bool {
        false
    }

    pub fn note_slow(&self) {}

    pub fn kill(&self, _killer: Killer) -> Result<(), NothingRuns> {
        Err(NothingRuns)
    }

    pub fn libraries(&self) -> (u64, u64) {
        (0, 0)
    }
}
