//! How often a running script is looked at: the more there is that one instruction may go
//! through, the sooner.

use std::{
    cell::Cell,
    ffi::c_int,
    panic::{AssertUnwindSafe, catch_unwind},
    ptr,
};

use mlua::ffi::{self, lua_State};

use super::{Context, context_of, push_bytes, with_host_of};
use crate::script::control::Verdict;

/// Instructions between two looks at the clock and at the kill request, while none of them can
/// take long.
pub(super) const INSTRUCTIONS_PER_LOOK: c_int = 10_000;

/// A block of so many bytes makes instructions slow: it is a long string to compare or to
/// copy, or a large table to walk through.
pub(super) const LARGE_BLOCK: usize = 1 << 15;

/// What instructions may go through between two looks, in bytes: a tenth of a second's work.
const BYTES_PER_LOOK: usize = 1 << 28;

/// The large blocks that a state has, which tell how long an instruction may take.
pub(super) struct Large {
    pub(super) state: Cell<*mut lua_State>,
    /// How many there are by the power of two of their size.
    counts: [Cell<u32>; usize::BITS as usize],
    /// The sizes of which there are any, a bit each.
    sizes: Cell<usize>,
    /// How many instructions the hook lets pass.
    pub(super) pace: Cell<c_int>,
}

impl Large {
    pub(super) fn new() -> Large {
        Large {
            state: Cell::new(ptr::null_mut()),
            counts: std::array::from_fn(|_| Cell::new(0)),
            sizes: Cell::new(0),
            pace: Cell::new(INSTRUCTIONS_PER_LOOK),
        }
    }

    /// Takes note of a block that changed its size.
    fn note(&self, old_size: usize, new_size: usize) {
        if old_size >= LARGE_BLOCK {
            let count = &self.counts[old_size.ilog2() as usize];
            count.set(count.get().saturating_sub(1));
            if count.get() == 0 {
                self.sizes.set(self.sizes.get() & !(1 << old_size.ilog2()));
            }
        }
        if new_size >= LARGE_BLOCK {
            let count = &self.counts[new_size.ilog2() as usize];
            count.set(count.get() + 1);
            self.sizes.set(self.sizes.get() | 1 << new_size.ilog2());
        }
    }

    /// How many instructions may pass by what there is.
    pub(super) fn wanted_pace(&self) -> c_int {
        let largest = self.sizes.get().checked_ilog2().unwrap_or(0);
        let count = BYTES_PER_LOOK >> (largest + 1);
        c_int::try_from(count).map_or(INSTRUCTIONS_PER_LOOK, |count| {
            count.clamp(1, INSTRUCTIONS_PER_LOOK)
        })
    }
}

/// Has the hook come sooner when there is a larger block than before. When the largest is gone
/// the hook itself slows down again.
pub(super) unsafe fn note_large(context: &Context, old_size: usize, new_size: usize) {
    context.large.note(old_size, new_size);
    let pace = context.large.wanted_pace();
    if pace < context.large.pace.get() && !context.control.is_killed() {
        // SAFETY: the caller's state is alive; a hook may be set at any time, even from a signal.
        unsafe { set_pace(context, pace) }
    }
}

pub(super) unsafe fn set_pace(context: &Context, pace: c_int) {
    context.large.pace.set(pace);
    // SAFETY: the caller's state is alive.
    unsafe {
        ffi::lua_sethook(
            context.large.state.get(),
            Some(look),
            ffi::LUA_MASKCOUNT,
            pace,
        );
    }
}

/// The count hook: lets the control block look at the time, and ends a killed script.
unsafe extern "C-unwind" fn look(state: *mut lua_State, _record: *mut ffi::lua_Debug) {
    // SAFETY: the context outlives the state; no value with a destructor is alive at the raise.
    unsafe {
        let context = context_of(state);
        let limited = context.memory.limited.replace(false);
        let killed = looked_and_killed(context);
        if killed {
            push_bytes(state, context.control.killed_message().as_bytes());
            // A protected call of the script's may swallow the error, so the next
            // instruction raises it again.
            let mask = ffi::LUA_MASKCOUNT | ffi::LUA_MASKLINE;
            ffi::lua_sethook(state, Some(look), mask, 1);
        } else if context.large.pace.get() < context.large.wanted_pace() {
            set_pace(context, context.large.wanted_pace());
        }
        context.memory.limited.set(limited);
        if killed {
            ffi::lua_error(state);
        }
    }
}

pub(super) fn looked_and_killed(context: &Context) -> bool {
    let look = || match context.control.look() {
        Verdict::Continue => false,
        Verdict::StillBusy => {
            with_host_of(context, |host| host.on_look());
            false
        }
        Verdict::End => true,
        Verdict::NowBusy => {
            with_host_of(context, |host| {
                context.control.describe(host.describe());
                host.on_busy();
            });
            false
        }
    };
    catch_unwind(AssertUnwindSafe(look)).unwrap_or(true)
}
