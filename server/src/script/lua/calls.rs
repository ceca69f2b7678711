//! What makes Lua code run: loading, protected calls, coroutines; and what keeps an eye on
//! natives that take long.

use std::{
    ffi::{c_char, c_int, c_void},
    mem::MaybeUninit,
    time::{Duration, Instant},
};

use mlua::ffi::{self, lua_State};

use super::{Context, NESTING_MAX, Raised, Stack, pace::looked_and_killed};

/// What natives may do between two looks, in steps of about a nanosecond.
const EFFORT_PER_LOOK: usize = 1 << 20;

// SAFETY of all that follows: as in `stack`.
impl Stack<'_> {
    /// Compiles source text and pushes the function; an error leaves its message. The name
    /// begins with `@` or `=` as Lua's chunk names do.
    pub fn load(&self, source: &[u8], name: &[u8]) -> Result<(), Raised> {
        let mut terminated = Vec::with_capacity(name.len() + 1);
        terminated.extend(name.iter().copied().take_while(|&byte| byte != 0));
        terminated.push(0);
        let memory = &self.context.memory;
        let mut reader = SourceReader {
            context: self.context,
            rest: source,
            began: Instant::now(),
            gave_up: false,
        };
        // SAFETY: loading is a protected call of its own, and the reader outlives it.
        let status = unsafe {
            memory.set_limited(true);
            let data = (&raw mut reader).cast::<c_void>();
            let status = ffi::lua_load(self.state, read_source, data, terminated.as_ptr().cast());
            memory.set_limited(false);
            status
        };
        if reader.gave_up {
            self.pop(1);
            self.push_bytes(reader.problem().as_bytes());
        } else if status == ffi::LUA_OK {
            return Ok(());
        }
        Err(Raised)
    }

    /// Calls the function below `arguments` values on top of the stack; `results` (or all
    /// for none) take their place, or the error value does. A kill goes through every
    /// protected call of the script's.
    pub fn call(&self, arguments: usize, results: Option<usize>) -> Result<(), Raised> {
        self.protected(arguments, results, 0)
    }

    /// The same with the function at `handler` called where an error is raised.
    pub fn call_handled(&self, arguments: usize, handler: i32) -> Result<(), Raised> {
        self.protected(arguments, None, handler)
    }

    fn protected(
        &self,
        arguments: usize,
        results: Option<usize>,
        handler: i32,
    ) -> Result<(), Raised> {
        let results = results.map_or(ffi::LUA_MULTRET, |count| count as c_int);
        let nesting = self.context.nesting.get();
        if nesting >= NESTING_MAX {
            self.pop(arguments + 1);
            self.push_bytes(b"C stack overflow");
            return Err(Raised);
        }
        self.context.nesting.set(nesting + 1);
        self.context.memory.set_limited(true);
        let status = unsafe { ffi::lua_pcall(self.state, arguments as c_int, results, handler) };
        self.context.memory.set_limited(false);
        self.context.nesting.set(nesting);
        if status == ffi::LUA_OK {
            Ok(())
        } else {
            Err(Raised)
        }
    }

    /// Has the script been told to end? Natives that catch errors pass this one on.
    pub fn is_killed(&self) -> bool {
        self.context.control.is_killed()
    }

    /// Looks at the clock and the kill request from within a long loop of a native.
    pub fn look(&self) -> Result<(), Raised> {
        if looked_and_killed(self.context) {
            self.push_bytes(self.context.control.killed_message().as_bytes());
            return Err(Raised);
        }
        Ok(())
    }

    /// Counts what a native does, in steps of about a nanosecond, and looks from time to time.
    pub fn spend(&self, steps: usize) -> Result<(), Raised> {
        let effort = self.context.effort.get() + steps;
        if effort < EFFORT_PER_LOOK {
            self.context.effort.set(effort);
            return Ok(());
        }
        self.context.effort.set(0);
        self.look()
    }

    /// Resumes the coroutine at `thread` with the topmost `arguments` values. Its results
    /// are pushed and counted; an error pushes the error value.
    pub fn resume(&self, thread: i32, arguments: usize) -> Result<usize, Raised> {
        let refuse = |message: &str| {
            self.pop(arguments);
            self.push_bytes(message.as_bytes());
            Err(Raised)
        };
        let nesting = self.context.nesting.get();
        // SAFETY: `lua_resume` is protected; values move between two stacks of one state.
        unsafe {
            let other = ffi::lua_tothread(self.state, thread);
            if other.is_null() {
                return refuse("coroutine expected");
            }
            if let Some(state) = self.unresumable(other) {
                return refuse(state);
            }
            if nesting >= NESTING_MAX {
                return refuse("C stack overflow");
            }
            if ffi::lua_checkstack(other, arguments as c_int) == 0 {
                return refuse("too many arguments to resume");
            }
            ffi::lua_xmove(self.state, other, arguments as c_int);
            self.context.nesting.set(nesting + 1);
            self.context.memory.set_limited(true);
            let status = ffi::lua_resume_(other, arguments as c_int);
            self.context.memory.set_limited(false);
            self.context.nesting.set(nesting);
            if status != ffi::LUA_OK && status != ffi::LUA_YIELD {
                ffi::lua_xmove(other, self.state, 1);
                return Err(Raised);
            }
            let count = ffi::lua_gettop(other);
            if ffi::lua_checkstack(self.state, count + 1) == 0 {
                ffi::lua_settop(other, 0);
                self.push_bytes(b"too many results to resume");
                return Err(Raised);
            }
            ffi::lua_xmove(other, self.state, count);
            Ok(count as usize)
        }
    }

    unsafe fn unresumable(&self, other: *mut lua_State) -> Option<&'static str> {
        unsafe {
            if other == self.state {
                return Some("cannot resume running coroutine");
            }
            match ffi::lua_status(other) {
                ffi::LUA_YIELD => None,
                ffi::LUA_OK => {
                    let mut record = MaybeUninit::<ffi::lua_Debug>::zeroed();
                    if ffi::lua_getstack(other, 0, record.as_mut_ptr()) != 0 {
                        Some("cannot resume normal coroutine")
                    } else if ffi::lua_gettop(other) == 0 {
                        Some("cannot resume dead coroutine")
                    } else {
                        None
                    }
                }
                _ => Some("cannot resume dead coroutine"),
            }
        }
    }

    /// Pushes a new coroutine of the function at `index`.
    pub fn push_thread(&self, index: i32) {
        unsafe {
            let thread = ffi::lua_newthread(self.state);
            ffi::lua_pushvalue(self.state, index);
            ffi::lua_xmove(self.state, thread, 1);
        }
    }
}

/// Hands a source to the compiler piece by piece, so that one which takes too long to compile,
/// such as an expression of a million terms, can be given up.
struct SourceReader<'a> {
    context: &'a Context,
    rest: &'a [u8],
    began: Instant,
    gave_up: bool,
}

impl SourceReader<'_> {
    fn next(&mut self) -> &[u8] {
        const PIECE: usize = 256;
        const TIME_MAX: Duration = Duration::from_secs(1);
        let runs = self.context.control.runs();
        self.gave_up |= if runs {
            looked_and_killed(self.context)
        } else {
            self.began.elapsed() > TIME_MAX
        };
        let len = if self.gave_up {
            0
        } else {
            self.rest.len().min(PIECE)
        };
        let (piece, rest) = self.rest.split_at(len);
        self.rest = rest;
        piece
    }

    fn problem(&self) -> &'static str {
        if self.context.control.is_killed() {
            self.context.control.killed_message()
        } else {
            "script too complex to compile"
        }
    }
}

unsafe extern "C-unwind" fn read_source(
    _state: *mut lua_State,
    data: *mut c_void,
    len: *mut usize,
) -> *const c_char {
    // SAFETY: `data` is the reader that `load` gave, and the source outlives the loading.
    unsafe {
        let piece = (*data.cast::<SourceReader<'_>>()).next();
        *len = piece.len();
        piece.as_ptr().cast()
    }
}
