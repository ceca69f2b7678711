//! A Lua state, the memory that it may take, and how the shell runs something in it.

use std::{
    cell::{Cell, RefCell},
    ffi::{c_int, c_void},
    ptr::{self, NonNull},
    sync::Arc,
};

use mlua::ffi::{self, lua_State};

use super::{
    Context, HANDLER, Position, Stack, entry_of, note_position,
    pace::{INSTRUCTIONS_PER_LOOK, LARGE_BLOCK, Large, note_large, set_pace},
};
use crate::script::{Control, Host, Session};

/// The accounts of the allocator that wraps `LuaJIT`'s own.
pub(super) struct Memory {
    pub(super) used: Cell<usize>,
    pub(super) limit: Cell<usize>,
    pub(super) limited: Cell<bool>,
    /// An error about the memory is on its way, which may take some more.
    pub(super) failing: Cell<bool>,
    inner: Cell<Option<(ffi::lua_Alloc, *mut c_void)>>,
}

impl Memory {
    /// Lua code begins or ends to run.
    pub(super) fn set_limited(&self, limited: bool) {
        self.limited.set(limited);
        self.failing.set(false);
    }
}

/// A Lua state and all that belongs to it.
pub struct Machine {
    state: *mut lua_State,
    context: Box<Context>,
}

// SAFETY: a state may be used from any thread, by one at a time, which `&mut self` sees to.
unsafe impl Send for Machine {}

impl Machine {
    /// A bare state without any library, or none when memory is out. The error handler lies
    /// at the bottom of its stack.
    pub fn new(control: Arc<Control>, memory_limit: usize) -> Option<Machine> {
        let context = Box::new(Context {
            memory: Memory {
                used: Cell::new(0),
                limit: Cell::new(memory_limit),
                limited: Cell::new(false),
                failing: Cell::new(false),
                inner: Cell::new(None),
            },
            large: Large::new(),
            effort: Cell::new(0),
            control,
            host: Cell::new(None),
            nesting: Cell::new(0),
            position: RefCell::new(None),
            session: Session::default(),
        });
        // SAFETY: the state is fresh and ours; the context outlives it (see `drop`). LuaJIT's
        // own allocator stays underneath, because it alone knows where its pointers may lie.
        unsafe {
            let state = ffi::luaL_newstate();
            if state.is_null() {
                return None;
            }
            let mut data = ptr::null_mut();
            let inner = ffi::lua_getallocf(state, &raw mut data);
            context.memory.inner.set(Some((inner, data)));
            context.memory.used.set(used_bytes(state));
            let address = ptr::from_ref::<Context>(&context)
                .cast_mut()
                .cast::<c_void>();
            ffi::lua_setallocf(state, allocate, address);
            context.large.state.set(state);
            set_pace(&context, INSTRUCTIONS_PER_LOOK);
            ffi::lua_pushcclosure(state, entry_of(&note_position), 0);
            Some(Machine { state, context })
        }
    }

    /// The stack of the main thread.
    pub fn stack(&mut self) -> Stack<'_> {
        Stack {
            state: self.state,
            context: &self.context,
        }
    }

    /// What the state occupies, in bytes.
    pub fn used_memory(&self) -> usize {
        self.context.memory.used.get()
    }

    pub fn set_memory_limit(&mut self, bytes: usize) {
        self.context.memory.limit.set(bytes);
    }

    /// Calls the function below `arguments` values on top of the stack. The result, or the
    /// error value, takes their place, and `finish` makes something of it. The natives that
    /// both lead to find the host.
    pub fn run<T>(
        &mut self,
        host: Option<&mut dyn Host>,
        arguments: usize,
        finish: impl FnOnce(&Stack<'_>, Result<(), Option<Position>>) -> T,
    ) -> T {
        let context = &*self.context;
        // SAFETY: only the lifetime is forgotten, and the pointer is gone before it ends.
        let host = host.map(|host| unsafe {
            std::mem::transmute::<NonNull<dyn Host + '_>, NonNull<dyn Host + 'static>>(
                NonNull::from(host),
            )
        });
        context.host.set(host);
        let result = self.call_main(arguments);
        let finished = finish(&self.stack(), result);
        self.context.host.set(None);
        finished
    }

    fn call_main(&mut self, arguments: usize) -> Result<(), Option<Position>> {
        let context = &*self.context;
        context.position.replace(None);
        context.nesting.set(0);
        // SAFETY: the function and its arguments are on the stack.
        unsafe {
            context.memory.set_limited(true);
            let status = ffi::lua_pcall(self.state, arguments as c_int, 1, HANDLER);
            context.memory.set_limited(false);
            if context.control.is_killed() {
                // The hook was re-armed for every instruction.
                set_pace(context, context.large.wanted_pace());
            }
            if status == ffi::LUA_OK {
                return Ok(());
            }
            // What may have filled the memory is garbage now, but Lua does not know it yet.
            if context.memory.used.get() > context.memory.limit.get() / 2 {
                ffi::lua_gc(self.state, ffi::LUA_GCCOLLECT, 0);
            }
            Err(context.position.take())
        }
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        // SAFETY: with its own allocator back, LuaJIT gives its whole arena back at once.
        unsafe {
            if let Some((inner, data)) = self.context.memory.inner.get() {
                ffi::lua_setallocf(self.state, inner, data);
            }
            ffi::lua_close(self.state);
        }
    }
}

unsafe fn used_bytes(state: *mut lua_State) -> usize {
    // SAFETY: the caller's state is alive.
    unsafe {
        let kilobytes = ffi::lua_gc(state, ffi::LUA_GCCOUNT, 0) as usize;
        kilobytes * 1024 + ffi::lua_gc(state, ffi::LUA_GCCOUNTB, 0) as usize
    }
}

unsafe extern "C" fn allocate(
    data: *mut c_void,
    block: *mut c_void,
    old_size: usize,
    new_size: usize,
) -> *mut c_void {
    // SAFETY: `data` is the context that `Machine::new` gave, which outlives the state.
    unsafe {
        let context = &*data.cast::<Context>();
        let memory = &context.memory;
        let Some((inner, inner_data)) = memory.inner.get() else {
            return ptr::null_mut();
        };
        let used = memory.used.get() - old_size.min(memory.used.get()) + new_size;
        let limited = memory.limited.get() && !memory.failing.get();
        if new_size > old_size && limited && used > memory.limit.get() {
            return ptr::null_mut();
        }
        let block = inner(inner_data, block, old_size, new_size);
        if new_size == 0 || !block.is_null() {
            memory.used.set(used);
            if old_size.max(new_size) >= LARGE_BLOCK {
                note_large(context, old_size, new_size);
            }
        }
        block
    }
}
