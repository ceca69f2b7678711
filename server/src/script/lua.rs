//! The one module that speaks the Lua C API, and the thin layer over it that the rest is
//! written in.
//!
//! A Lua error jumps over whatever Rust frames lie between its origin and the protected call
//! that catches it, so three rules hold here. A [`Native`] never raises: it returns
//! [`Raised`] with the error value on top of the stack, and the trampoline raises once every
//! Rust frame with a destructor is gone. While a native runs the memory limit is off, so no
//! push can fail half-way; the trampoline looks at the limit afterwards. And natives use only
//! raw operations, calling back into Lua through protected calls.
#![allow(unsafe_code)]

mod calls;
mod complaints;
mod machine;
mod pace;
mod stack;

use std::{
    cell::{Cell, RefCell},
    ffi::{CStr, c_char, c_int},
    panic::{AssertUnwindSafe, catch_unwind},
    ptr::{self, NonNull},
    sync::Arc,
};

use mlua::ffi::{self, lua_State};

pub use machine::Machine;
pub use stack::Stack;

use super::{Control, Host};
use machine::Memory;
use pace::Large;

/// How deeply C functions may call Lua functions that call C functions: each level costs
/// stack of the thread, which Lua knows nothing of.
pub const NESTING_MAX: u32 = 195;

/// Where every main thread's stack holds its error handler, below all else.
const HANDLER: c_int = 1;

/// An error value lies on top of the stack, to be raised.
#[derive(Debug)]
pub struct Raised;

/// What a native function returns: how many results it pushed.
pub type Outcome = Result<usize, Raised>;

/// The type of a Lua value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Type {
    None,
    Nil,
    Boolean,
    LightUserdata,
    Number,
    String,
    Table,
    Function,
    Userdata,
    Thread,
}

impl Type {
    fn from_raw(raw: c_int) -> Type {
        match raw {
            ffi::LUA_TNIL => Type::Nil,
            ffi::LUA_TBOOLEAN => Type::Boolean,
            ffi::LUA_TLIGHTUSERDATA => Type::LightUserdata,
            ffi::LUA_TNUMBER => Type::Number,
            ffi::LUA_TSTRING => Type::String,
            ffi::LUA_TTABLE => Type::Table,
            ffi::LUA_TFUNCTION => Type::Function,
            ffi::LUA_TTHREAD => Type::Thread,
            ffi::LUA_TNONE => Type::None,
            // Foreign data of LuaJIT's is out of reach of scripts, but would be this.
            _ => Type::Userdata,
        }
    }

    /// The name as error messages give it.
    pub fn name(self) -> &'static str {
        match self {
            Type::None => "no value",
            Type::Nil => "nil",
            Type::Boolean => "boolean",
            Type::LightUserdata | Type::Userdata => "userdata",
            Type::Number => "number",
            Type::String => "string",
            Type::Table => "table",
            Type::Function => "function",
            Type::Thread => "thread",
        }
    }
}

/// A value that a script passes to a command.
pub enum Argument<'a> {
    Text(&'a [u8]),
    Number(f64),
    Other,
}

/// Where an error was raised.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Position {
    pub source: Vec<u8>,
    pub line: i32,
}

/// What a Lua state carries besides its values. It lives at a fixed address for as long as
/// the state.
pub struct Context {
    memory: Memory,
    large: Large,
    /// What natives did since the last look.
    effort: Cell<usize>,
    pub control: Arc<Control>,
    host: Cell<Option<NonNull<dyn Host>>>,
    nesting: Cell<u32>,
    /// What the error handler found out about the last error.
    position: RefCell<Option<Position>>,
    /// Natives keep what they need between calls of one run here.
    pub session: super::Session,
}

/// Lends the host of this run, if there is one. It is not lent twice at a time.
fn with_host_of<T>(context: &Context, body: impl FnOnce(&mut dyn Host) -> T) -> Option<T> {
    struct Back<'a>(&'a Cell<Option<NonNull<dyn Host>>>, NonNull<dyn Host>);
    impl Drop for Back<'_> {
        fn drop(&mut self) {
            self.0.set(Some(self.1));
        }
    }
    let host = context.host.take()?;
    let mut back = Back(&context.host, host);
    // SAFETY: the pointer is good until `Machine::run` takes it away, and being taken out of
    // its place while lent it is the only one.
    Some(body(unsafe { back.1.as_mut() }))
}

unsafe fn context_of<'a>(state: *mut lua_State) -> &'a Context {
    // SAFETY: every state of ours has its context as the allocator's data.
    unsafe {
        let mut data = ptr::null_mut();
        ffi::lua_getallocf(state, &raw mut data);
        &*data.cast::<Context>()
    }
}

unsafe fn push_bytes(state: *mut lua_State, bytes: &[u8]) {
    // SAFETY: the bytes are copied.
    unsafe { ffi::lua_pushlstring_(state, bytes.as_ptr().cast::<c_char>(), bytes.len()) }
}

/// The C function that runs a native. The native is a function item, so it has no data and
/// its type alone names it.
unsafe extern "C-unwind" fn entry<F>(state: *mut lua_State) -> c_int
where
    F: Fn(&Stack<'_>) -> Outcome + Copy + 'static,
{
    // SAFETY: when `lua_error` jumps, `shielded` has returned and nothing here needs dropping.
    unsafe {
        match shielded::<F>(state) {
            pushed if pushed >= 0 => pushed,
            _ => ffi::lua_error(state),
        }
    }
}

fn entry_of<F>(_native: &F) -> ffi::lua_CFunction
where
    F: Fn(&Stack<'_>) -> Outcome + Copy + 'static,
{
    const { assert!(size_of::<F>() == 0, "a native is a function item") };
    entry::<F>
}

/// Runs the native with the memory limit off. Returns how many results are on the stack, or
/// -1 for an error value on top of it.
unsafe fn shielded<F>(state: *mut lua_State) -> c_int
where
    F: Fn(&Stack<'_>) -> Outcome + Copy + 'static,
{
    // SAFETY: `F` has no data, so a value of it may be made of nothing.
    unsafe {
        let native = NonNull::<F>::dangling().read();
        let context = context_of(state);
        let memory = &context.memory;
        let limited = memory.limited.replace(false);
        let stack = Stack { state, context };
        let outcome = catch_unwind(AssertUnwindSafe(|| native(&stack)));
        let result = match outcome {
            Ok(Ok(_)) if limited && memory.used.get() > memory.limit.get() => {
                memory.failing.set(true);
                push_bytes(state, b"not enough memory");
                -1
            }
            Ok(Ok(pushed)) => pushed as c_int,
            Ok(Err(Raised)) => -1,
            Err(_) => {
                ffi::lua_settop(state, 0);
                push_bytes(state, b"internal error");
                -1
            }
        };
        memory.limited.set(limited);
        result
    }
}

/// The error handler of a run: notes where the error was raised and leaves it as it is.
fn note_position(stack: &Stack<'_>) -> Outcome {
    let position = match stack.position(1) {
        Some((_, true)) => stack.position(2).map(|(position, _)| position),
        found => found.map(|(position, _)| position),
    };
    stack.context.position.replace(position);
    Ok(1)
}

/// Prints a float by C's rules: the format has one conversion that takes a double.
pub fn print_float(format: &CStr, value: f64) -> Vec<u8> {
    unsafe extern "C" {
        fn snprintf(buffer: *mut c_char, size: usize, format: *const c_char, ...) -> c_int;
    }
    let mut buffer = vec![0_u8; 512];
    loop {
        let size = buffer.len();
        // SAFETY: the callers build the format from a checked list of flags and one letter of
        // `eEfgG`, so one double is what it takes.
        let len = unsafe { snprintf(buffer.as_mut_ptr().cast(), size, format.as_ptr(), value) };
        let len = usize::try_from(len).unwrap_or(0);
        if len < size {
            buffer.truncate(len);
            return buffer;
        }
        buffer.resize(len + 1, 0);
    }
}
