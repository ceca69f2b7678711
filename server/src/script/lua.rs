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

use std::{
    cell::{Cell, RefCell},
    ffi::{CStr, c_char, c_int, c_void},
    mem::MaybeUninit,
    panic::{AssertUnwindSafe, catch_unwind},
    ptr::{self, NonNull},
    slice,
    sync::Arc,
    time::{Duration, Instant},
};

use mlua::ffi::{self, lua_State};

use super::{Control, Host, control::Verdict};

/// How deeply C functions may call Lua functions that call C functions: each level costs
/// stack of the thread, which Lua knows nothing of.
pub const NESTING_MAX: u32 = 195;

/// Where every main thread's stack holds its error handler, below all else.
const HANDLER: c_int = 1;

/// A state that occupies less than this may grow tenfold between two collections: what there
/// is of it lives on, and to walk it is the larger part of collecting.
const SMALL: usize = 4 << 20;
/// How large a state may grow between two collections, in percent of what was left by the
/// last.
const PAUSE_WHEN_SMALL: c_int = 1000;
const PAUSE: c_int = 200;

/// Instructions between two looks at the clock and at the kill request, while none of them can
/// take long.
const INSTRUCTIONS_PER_LOOK: c_int = 10_000;

/// A block of so many bytes makes instructions slow: it is a long string to compare or to
/// copy, or a large table to walk through.
const LARGE_BLOCK: usize = 1 << 15;

/// What instructions may go through between two looks, in bytes: a tenth of a second's work.
const BYTES_PER_LOOK: usize = 1 << 28;

/// What natives may do between two looks, in steps of about a nanosecond.
const EFFORT_PER_LOOK: usize = 1 << 20;

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

/// The accounts of the allocator that wraps `LuaJIT`'s own.
struct Memory {
    used: Cell<usize>,
    limit: Cell<usize>,
    limited: Cell<bool>,
    /// Whether the state was large when it was last looked at.
    large: Cell<bool>,
    /// An error about the memory is on its way, which may take some more.
    failing: Cell<bool>,
    inner: Cell<Option<(ffi::lua_Alloc, *mut c_void)>>,
}

/// The large blocks that a state has, which tell how long an instruction may take.
struct Large {
    state: Cell<*mut lua_State>,
    /// How many there are by the power of two of their size.
    counts: [Cell<u32>; usize::BITS as usize],
    /// The sizes of which there are any, a bit each.
    sizes: Cell<usize>,
    /// How many instructions the hook lets pass.
    pace: Cell<c_int>,
}

impl Large {
    fn new() -> Large {
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
    fn wanted_pace(&self) -> c_int {
        let largest = self.sizes.get().checked_ilog2().unwrap_or(0);
        let count = BYTES_PER_LOOK >> (largest + 1);
        c_int::try_from(count).map_or(INSTRUCTIONS_PER_LOOK, |count| {
            count.clamp(1, INSTRUCTIONS_PER_LOOK)
        })
    }
}

impl Memory {
    /// Lua code begins or ends to run.
    fn set_limited(&self, limited: bool) {
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
                large: Cell::new(false),
                failing: Cell::new(false),
                inner: Cell::new(None),
            },
            large: Large::new(),
            effort: Cell::new(0),
            control,
            host: Cell::new(None),
            nesting: Cell::new(0),
            position: RefCell::new(None),
            session: super::Session::default(),
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
            ffi::lua_gc(state, ffi::LUA_GCSETPAUSE, PAUSE_WHEN_SMALL);
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
            set_pause(self.state, context);
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

/// Collects a large state more often than a small one.
unsafe fn set_pause(state: *mut lua_State, context: &Context) {
    let large = context.memory.used.get() >= SMALL;
    if context.memory.large.replace(large) != large {
        let pause = if large { PAUSE } else { PAUSE_WHEN_SMALL };
        // SAFETY: the caller's state is alive.
        unsafe { ffi::lua_gc(state, ffi::LUA_GCSETPAUSE, pause) };
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

/// Has the hook come sooner when there is a larger block than before. When the largest is gone
/// the hook itself slows down again.
unsafe fn note_large(context: &Context, old_size: usize, new_size: usize) {
    context.large.note(old_size, new_size);
    let pace = context.large.wanted_pace();
    if pace < context.large.pace.get() && !context.control.is_killed() {
        // SAFETY: the caller's state is alive; a hook may be set at any time, even from a signal.
        unsafe { set_pace(context, pace) }
    }
}

unsafe fn set_pace(context: &Context, pace: c_int) {
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
        set_pause(state, context);
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

fn looked_and_killed(context: &Context) -> bool {
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

/// The stack of one native's call, or of the main thread between runs.
///
/// Indices count from 1 at the bottom and from -1 at the top. Byte slices of strings stay
/// good as long as the string stays on the stack or in a table that does. There is room for
/// twenty values beyond the arguments; whoever needs more asks with [`Stack::ensure`].
pub struct Stack<'a> {
    state: *mut lua_State,
    context: &'a Context,
}

// SAFETY of all that follows: the state is alive as long as the context is borrowed; the
// memory limit is off, so pushes do not raise; indices of the callers lie on the stack.
impl<'a> Stack<'a> {
    pub fn context(&self) -> &'a Context {
        self.context
    }

    /// Lends the host of this run, if there is one. It is not lent twice at a time.
    pub fn with_host<T>(&self, body: impl FnOnce(&mut dyn Host) -> T) -> Option<T> {
        with_host_of(self.context, body)
    }

    pub fn top(&self) -> usize {
        unsafe { ffi::lua_gettop(self.state) as usize }
    }

    pub fn set_top(&self, top: usize) {
        unsafe { ffi::lua_settop(self.state, top as c_int) }
    }

    pub fn pop(&self, count: usize) {
        unsafe { ffi::lua_settop(self.state, -(count as c_int) - 1) }
    }

    /// Room for so many more values, or an error.
    pub fn ensure(&self, count: usize) -> Result<(), Raised> {
        let room = unsafe { ffi::lua_checkstack(self.state, count as c_int) };
        if room == 0 {
            return Err(self.fail("stack overflow"));
        }
        Ok(())
    }

    /// Room for so many more values?
    pub fn has_room(&self, count: usize) -> bool {
        unsafe { ffi::lua_checkstack(self.state, count as c_int) != 0 }
    }

    pub fn type_of(&self, index: i32) -> Type {
        Type::from_raw(unsafe { ffi::lua_type(self.state, index) })
    }

    pub fn is_nil(&self, index: i32) -> bool {
        matches!(self.type_of(index), Type::Nil | Type::None)
    }

    pub fn boolean(&self, index: i32) -> bool {
        unsafe { ffi::lua_toboolean(self.state, index) != 0 }
    }

    /// The value as a number, by Lua's coercion of strings too.
    pub fn number(&self, index: i32) -> Option<f64> {
        unsafe {
            match ffi::lua_type(self.state, index) {
                ffi::LUA_TNUMBER => Some(ffi::lua_tonumber(self.state, index)),
                ffi::LUA_TSTRING => {
                    let bytes = self.bytes(index)?;
                    super::numbers::parse(bytes)
                }
                _ => None,
            }
        }
    }

    /// The bytes of a string value; none for anything else.
    pub fn bytes(&self, index: i32) -> Option<&[u8]> {
        unsafe {
            if ffi::lua_type(self.state, index) != ffi::LUA_TSTRING {
                return None;
            }
            Some(self.raw_bytes(index))
        }
    }

    /// The value as an argument of a command.
    pub fn argument(&self, index: i32) -> Argument<'_> {
        unsafe {
            match ffi::lua_type(self.state, index) {
                ffi::LUA_TSTRING => Argument::Text(self.raw_bytes(index)),
                ffi::LUA_TNUMBER => Argument::Number(ffi::lua_tonumber(self.state, index)),
                _ => Argument::Other,
            }
        }
    }

    unsafe fn raw_bytes(&self, index: i32) -> &[u8] {
        unsafe {
            let mut len = 0;
            let start = ffi::lua_tolstring(self.state, index, &raw mut len);
            if start.is_null() {
                &[]
            } else {
                slice::from_raw_parts(start.cast::<u8>(), len)
            }
        }
    }

    /// The bytes of a string, or of a number, which becomes a string in its place.
    pub fn text(&self, index: i32) -> Option<&[u8]> {
        unsafe {
            match ffi::lua_type(self.state, index) {
                ffi::LUA_TSTRING => Some(self.raw_bytes(index)),
                ffi::LUA_TNUMBER => {
                    // `LuaJIT` prints these without their sign.
                    let value = ffi::lua_tonumber(self.state, index);
                    if value.is_nan() {
                        let index = self.absolute(index);
                        let name = super::numbers::name_of_special(value).unwrap_or_default();
                        self.push_bytes(name.as_bytes());
                        self.replace(index);
                    }
                    Some(self.raw_bytes(index))
                }
                _ => None,
            }
        }
    }

    /// The address that `tostring` shows of a table, function, thread or userdata.
    pub fn address(&self, index: i32) -> usize {
        unsafe { ffi::lua_topointer(self.state, index) as usize }
    }

    pub fn len(&self, index: i32) -> usize {
        unsafe { ffi::lua_objlen(self.state, index) }
    }

    pub fn push_nil(&self) {
        unsafe { ffi::lua_pushnil(self.state) }
    }

    pub fn push_boolean(&self, value: bool) {
        unsafe { ffi::lua_pushboolean(self.state, c_int::from(value)) }
    }

    pub fn push_number(&self, value: f64) {
        unsafe { ffi::lua_pushnumber(self.state, value) }
    }

    pub fn push_bytes(&self, bytes: &[u8]) {
        unsafe { push_bytes(self.state, bytes) }
    }

    /// A light userdata of address zero: JSON's null.
    pub fn push_null_pointer(&self) {
        unsafe { ffi::lua_pushlightuserdata(self.state, ptr::null_mut()) }
    }

    pub fn is_null_pointer(&self, index: i32) -> bool {
        unsafe {
            ffi::lua_type(self.state, index) == ffi::LUA_TLIGHTUSERDATA
                && ffi::lua_touserdata(self.state, index).is_null()
        }
    }

    /// Pushes the key that no script can make.
    pub fn push_secret(&self) {
        static SECRET: u8 = 0;
        unsafe {
            ffi::lua_pushlightuserdata(self.state, (&raw const SECRET).cast_mut().cast::<c_void>());
        }
    }

    pub fn push_copy(&self, index: i32) {
        unsafe { ffi::lua_pushvalue(self.state, index) }
    }

    pub fn push_table(&self, array: usize, fields: usize) {
        // Sizes are hints: a hostile length must not reserve memory.
        let (array, fields) = (array.min(1 << 20), fields.min(1 << 20));
        unsafe { ffi::lua_createtable(self.state, array as c_int, fields as c_int) }
    }

    pub fn push_native<F>(&self, native: F)
    where
        F: Fn(&Stack<'_>) -> Outcome + Copy + 'static,
    {
        self.push_closure(native, 0);
    }

    /// A native that keeps the topmost `count` values, which are popped.
    pub fn push_closure<F>(&self, native: F, count: usize)
    where
        F: Fn(&Stack<'_>) -> Outcome + Copy + 'static,
    {
        unsafe { ffi::lua_pushcclosure(self.state, entry_of(&native), count as c_int) }
    }

    /// The index of a value that the running closure keeps, from 1.
    #[expect(
        clippy::unused_self,
        reason = "it means nothing without a running closure"
    )]
    pub fn kept(&self, number: i32) -> i32 {
        ffi::lua_upvalueindex(number)
    }

    pub fn insert(&self, index: i32) {
        unsafe { ffi::lua_insert(self.state, index) }
    }

    pub fn remove(&self, index: i32) {
        unsafe { ffi::lua_remove(self.state, index) }
    }

    /// Moves the top value into the place of another.
    pub fn replace(&self, index: i32) {
        unsafe { ffi::lua_replace(self.state, index) }
    }

    /// Replaces the key on top by its value in the table.
    pub fn raw_get(&self, table: i32) {
        unsafe { ffi::lua_rawget_(self.state, table) }
    }

    pub fn raw_get_index(&self, table: i32, index: i32) {
        unsafe { ffi::lua_rawgeti_(self.state, table, index) }
    }

    /// Pushes the field of a table, past any metatable, and tells its type.
    pub fn raw_get_field(&self, table: i32, name: &str) -> Type {
        let table = self.absolute(table);
        self.push_bytes(name.as_bytes());
        self.raw_get(table);
        self.type_of(-1)
    }

    /// Sets the table's field named by the second value from the top to the topmost, and pops
    /// both. The key is neither nil nor NaN.
    pub fn raw_set(&self, table: i32) {
        unsafe { ffi::lua_rawset(self.state, table) }
    }

    pub fn raw_set_index(&self, table: i32, index: i32) {
        unsafe { ffi::lua_rawseti_(self.state, table, index) }
    }

    /// Sets the named field to the topmost value, which is popped.
    pub fn raw_set_field(&self, table: i32, name: &str) {
        let table = self.absolute(table);
        self.push_bytes(name.as_bytes());
        self.insert(-2);
        self.raw_set(table);
    }

    pub fn absolute(&self, index: i32) -> i32 {
        if index < 0 && index > ffi::LUA_REGISTRYINDEX {
            self.top() as i32 + index + 1
        } else {
            index
        }
    }

    /// Replaces the key on top by the next key and its value; pops it and says no at the end.
    /// The key was in the table when the walk passed it.
    pub fn next(&self, table: i32) -> bool {
        unsafe { ffi::lua_next(self.state, table) != 0 }
    }

    pub fn raw_equal(&self, one: i32, other: i32) -> bool {
        unsafe { ffi::lua_rawequal(self.state, one, other) != 0 }
    }

    /// Pushes the value's metatable if it has one.
    pub fn metatable(&self, index: i32) -> bool {
        unsafe { ffi::lua_getmetatable(self.state, index) != 0 }
    }

    /// Makes the table (or nil) on top the metatable of another value, and pops it.
    pub fn set_metatable(&self, index: i32) {
        unsafe {
            ffi::lua_setmetatable(self.state, index);
        }
    }

    /// Pushes the field of the value's metatable if both are there.
    pub fn metafield(&self, index: i32, name: &str) -> bool {
        if !self.metatable(index) {
            return false;
        }
        if self.raw_get_field(-1, name) == Type::Nil {
            self.pop(2);
            return false;
        }
        self.remove(-2);
        true
    }

    /// Keeps the topmost value for Rust to come back to, and pops it.
    pub fn keep(&self) -> i32 {
        unsafe { ffi::luaL_ref(self.state, ffi::LUA_REGISTRYINDEX) }
    }

    pub fn push_kept(&self, reference: i32) {
        unsafe { ffi::lua_rawgeti_(self.state, ffi::LUA_REGISTRYINDEX, reference) }
    }

    pub fn forget(&self, reference: i32) {
        unsafe { ffi::luaL_unref(self.state, ffi::LUA_REGISTRYINDEX, reference) }
    }

    /// Makes a table the globals of the function on top, and of those within it.
    pub fn set_environment(&self, table: i32) {
        self.push_copy(table);
        unsafe {
            ffi::lua_setfenv(self.state, -2);
        }
    }

    /// Makes the table on top the globals of all functions loaded from now on, and pops it.
    pub fn set_globals(&self) {
        unsafe { ffi::lua_replace(self.state, ffi::LUA_GLOBALSINDEX) }
    }

    /// Pushes the table of globals.
    pub fn push_globals(&self) {
        unsafe { ffi::lua_pushvalue(self.state, ffi::LUA_GLOBALSINDEX) }
    }

    /// Opens `LuaJIT`'s own base, string, table, math, os and bit libraries into the globals.
    /// The compiler stays off because the library that would turn it on is not opened.
    pub fn open_libraries(&self) {
        let openers: [(&CStr, ffi::lua_CFunction); 6] = [
            (c"", ffi::luaopen_base),
            (c"table", ffi::luaopen_table),
            (c"string", ffi::luaopen_string),
            (c"math", ffi::luaopen_math),
            (c"os", ffi::luaopen_os),
            (c"bit", ffi::luaopen_bit),
        ];
        for (name, open) in openers {
            unsafe {
                ffi::lua_pushcclosure(self.state, open, 0);
                ffi::lua_pushstring_(self.state, name.as_ptr());
                ffi::lua_call(self.state, 1, 0);
            }
        }
    }

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
        let results = results.map_or(ffi::LUA_MULTRET, |count| count as c_int);
        let nesting = self.context.nesting.get();
        if nesting >= NESTING_MAX {
            self.pop(arguments + 1);
            self.push_bytes(b"C stack overflow");
            return Err(Raised);
        }
        self.context.nesting.set(nesting + 1);
        self.context.memory.set_limited(true);
        let status = unsafe { ffi::lua_pcall(self.state, arguments as c_int, results, 0) };
        self.context.memory.set_limited(false);
        self.context.nesting.set(nesting);
        if status == ffi::LUA_OK {
            Ok(())
        } else {
            Err(Raised)
        }
    }

    /// The same with the function at `handler` called where an error is raised.
    pub fn call_handled(&self, arguments: usize, handler: i32) -> Result<(), Raised> {
        let nesting = self.context.nesting.get();
        if nesting >= NESTING_MAX {
            self.pop(arguments + 1);
            self.push_bytes(b"C stack overflow");
            return Err(Raised);
        }
        self.context.nesting.set(nesting + 1);
        self.context.memory.set_limited(true);
        let status =
            unsafe { ffi::lua_pcall(self.state, arguments as c_int, ffi::LUA_MULTRET, handler) };
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

    pub fn is_c_function(&self, index: i32) -> bool {
        unsafe { ffi::lua_iscfunction(self.state, index) != 0 }
    }

    /// Where the function at a level of the call stack is, and whether it is a native one.
    pub fn position(&self, level: usize) -> Option<(Position, bool)> {
        let record = self.record(level, c"Sl")?;
        // SAFETY: `S` filled the two texts.
        unsafe {
            let native = CStr::from_ptr(record.what).to_bytes() == b"C";
            let source = CStr::from_ptr(record.source).to_bytes().to_vec();
            Some((
                Position {
                    source,
                    line: record.currentline,
                },
                native,
            ))
        }
    }

    fn record(&self, level: usize, what: &CStr) -> Option<ffi::lua_Debug> {
        let mut record = MaybeUninit::<ffi::lua_Debug>::zeroed();
        // SAFETY: all fields may be zero, and the level is filled in before it is asked about.
        unsafe {
            if ffi::lua_getstack(self.state, level as c_int, record.as_mut_ptr()) == 0 {
                return None;
            }
            ffi::lua_getinfo(self.state, what.as_ptr(), record.as_mut_ptr());
            Some(record.assume_init())
        }
    }

    /// Pushes `name:line: ` of the function that called the running native, or nothing of it
    /// when that is native too.
    pub fn push_where(&self, level: usize) {
        unsafe { ffi::luaL_where(self.state, level as c_int) }
    }

    /// An error with the caller's position in front.
    pub fn fail(&self, message: &str) -> Raised {
        self.fail_bytes(message.as_bytes())
    }

    pub fn fail_bytes(&self, message: &[u8]) -> Raised {
        self.push_where(1);
        let mut text = self.bytes(-1).unwrap_or_default().to_vec();
        text.extend_from_slice(message);
        self.pop(1);
        self.push_bytes(&text);
        Raised
    }

    /// An error with no position in front.
    pub fn fail_bare(&self, message: &str) -> Raised {
        self.push_bytes(message.as_bytes());
        Raised
    }

    /// `bad argument #1 to 'name' (…)`.
    pub fn bad_argument(&self, number: usize, problem: &str) -> Raised {
        self.bad_argument_bytes(number, problem.as_bytes())
    }

    pub fn bad_argument_bytes(&self, number: usize, problem: &[u8]) -> Raised {
        let (mut name, mut method) = (Vec::from(b"?"), false);
        if let Some(record) = self.record(0, c"n") {
            // SAFETY: `n` filled both texts, or left the first one empty.
            unsafe {
                if !record.name.is_null() {
                    name = CStr::from_ptr(record.name).to_bytes().to_vec();
                    method = CStr::from_ptr(record.namewhat).to_bytes() == b"method";
                }
            }
        }
        let name = String::from_utf8_lossy(&name);
        let what = if method && number == 1 {
            format!("calling '{name}' on bad self (")
        } else {
            let number = number.saturating_sub(usize::from(method));
            format!("bad argument #{number} to '{name}' (")
        };
        self.fail_bytes(&[what.as_bytes(), problem, b")"].concat())
    }

    /// `bad argument #1 to 'name' (table expected, got nil)`.
    pub fn bad_type(&self, number: usize, expected: &str) -> Raised {
        let got = self.type_of(number as i32).name();
        self.bad_argument(number, &format!("{expected} expected, got {got}"))
    }

    pub fn check_any(&self, number: usize) -> Result<(), Raised> {
        match self.type_of(number as i32) {
            Type::None => Err(self.bad_argument(number, "value expected")),
            _ => Ok(()),
        }
    }

    pub fn check_table(&self, number: usize) -> Result<(), Raised> {
        match self.type_of(number as i32) {
            Type::Table => Ok(()),
            _ => Err(self.bad_type(number, "table")),
        }
    }

    pub fn check_function(&self, number: usize) -> Result<(), Raised> {
        match self.type_of(number as i32) {
            Type::Function => Ok(()),
            _ => Err(self.bad_type(number, "function")),
        }
    }

    pub fn check_number(&self, number: usize) -> Result<f64, Raised> {
        self.number(number as i32)
            .ok_or_else(|| self.bad_type(number, "number"))
    }

    /// A number cut to an integer as the machine's own conversion does it.
    pub fn check_integer(&self, number: usize) -> Result<i64, Raised> {
        self.check_number(number).map(super::numbers::truncate)
    }

    pub fn optional_integer(&self, number: usize, default: i64) -> Result<i64, Raised> {
        if self.is_nil(number as i32) {
            Ok(default)
        } else {
            self.check_integer(number)
        }
    }

    pub fn check_text(&self, number: usize) -> Result<&[u8], Raised> {
        self.text(number as i32)
            .ok_or_else(|| self.bad_type(number, "string"))
    }

    /// Runs the collector as `collectgarbage` asks.
    pub fn collect(&self, step: Option<i64>) -> bool {
        // SAFETY: a collection raises nothing, because scripts cannot make finalisers.
        unsafe {
            match step {
                None => ffi::lua_gc(self.state, ffi::LUA_GCCOLLECT, 0) != 0,
                Some(size) => {
                    let size = size.clamp(0, 1 << 20) as c_int;
                    ffi::lua_gc(self.state, ffi::LUA_GCSTEP, size) != 0
                }
            }
        }
    }

    /// What the state occupies, in bytes.
    pub fn used_memory(&self) -> usize {
        self.context.memory.used.get()
    }

    /// Whether a native may make a value of so many bytes.
    pub fn check_memory(&self, bytes: usize) -> Result<(), Raised> {
        let memory = &self.context.memory;
        if bytes > memory.limit.get().saturating_sub(memory.used.get()) {
            return Err(self.fail_bare("not enough memory"));
        }
        Ok(())
    }

    /// Pushes the function of `LuaJIT`'s base library that steps through a table, called by
    /// Lua itself in a `for` loop.
    pub fn push_next_function(&self) {
        unsafe { ffi::lua_pushcclosure(self.state, next_key, 0) }
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

/// `next`: a raw walk that raises by itself for a key that is not there. A proxy's walk goes
/// over what stands behind it, which natives find under the secret key of its metatable.
unsafe extern "C-unwind" fn next_key(state: *mut lua_State) -> c_int {
    // SAFETY: no frame below has a destructor when Lua raises.
    unsafe {
        ffi::luaL_checktype(state, 1, ffi::LUA_TTABLE);
        ffi::lua_settop(state, 2);
        step_behind_proxy(state);
        if ffi::lua_next(state, 1) != 0 {
            2
        } else {
            ffi::lua_pushnil(state);
            1
        }
    }
}

/// Replaces a proxy at index 1 by the table that stands behind it.
unsafe fn step_behind_proxy(state: *mut lua_State) {
    // SAFETY: the stack has the two arguments and room for three more values.
    unsafe {
        let context = context_of(state);
        let stack = Stack { state, context };
        if !stack.metatable(1) {
            return;
        }
        stack.push_secret();
        stack.raw_get(-2);
        if stack.type_of(-1) == Type::Table {
            stack.replace(1);
            stack.pop(1);
        } else {
            stack.pop(2);
        }
    }
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
