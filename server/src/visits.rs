//! What other clients ask of the engine while a script has it to itself.
//!
//! A script holds the engine for as long as it runs. Once that is too long it takes visits:
//! from within its hook it lets those at the engine who came meanwhile, so that they are
//! turned away, or heard, by the same gates as at any other time.

use std::{
    collections::VecDeque,
    sync::atomic::{AtomicBool, Ordering},
};

use parking_lot::Mutex;

use crate::engine::Engine;

/// What a visitor does at the engine. It may be called once the script is over, too.
pub type Visit = Box<dyn FnOnce(&mut Engine) + Send>;

/// The visits that wait for the running script; none are taken while none runs for long.
#[derive(Default)]
pub struct Visits {
    waiting: Mutex<Option<VecDeque<Visit>>>,
    any: AtomicBool,
}

impl Visits {
    /// The script has turned out to run for long: visits are taken from here on.
    pub fn open(&self) {
        self.waiting.lock().get_or_insert_default();
    }

    /// Leaves a visit, which is sure to be made then. Refused while the engine can be locked.
    pub fn leave(&self, visit: Visit) -> Result<(), Visit> {
        let mut waiting = self.waiting.lock();
        let Some(queue) = &mut *waiting else {
            return Err(visit);
        };
        queue.push_back(visit);
        self.any.store(true, Ordering::Relaxed);
        Ok(())
    }

    /// Those that came since the last time.
    pub fn take(&self) -> VecDeque<Visit> {
        if !self.any.load(Ordering::Relaxed) {
            return VecDeque::new();
        }
        self.any.store(false, Ordering::Relaxed);
        let mut waiting = self.waiting.lock();
        waiting.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// The script is over. What was left is still to be made.
    pub fn close(&self) -> VecDeque<Visit> {
        self.waiting.lock().take().unwrap_or_default()
    }
}
