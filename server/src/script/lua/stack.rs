//! The values on a Lua stack: looking at them, pushing them, tables of them.

use std::{
    ffi::{CStr, c_int, c_void},
    ptr, slice,
};

use mlua::ffi::{self, lua_State};

use super::{
    Argument, Context, Outcome, Raised, Type, context_of, entry_of, push_bytes, with_host_of,
};
use crate::script::{Host, numbers};

/// The stack of one native's call, or of the main thread between runs.
///
/// Indices count from 1 at the bottom and from -1 at the top. Byte slices of strings stay
/// good as long as the string stays on the stack or in a table that does. There is room for
/// twenty values beyond the arguments; whoever needs more asks with [`Stack::ensure`].
pub struct Stack<'a> {
    pub(super) state: *mut lua_State,
    pub(super) context: &'a Context,
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
                    numbers::parse(bytes)
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
                        let name = numbers::name_of_special(value).unwrap_or_default();
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

    pub fn is_c_function(&self, index: i32) -> bool {
        unsafe { ffi::lua_iscfunction(self.state, index) != 0 }
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

    /// Pushes the function of `LuaJIT`'s base library that steps through a table, called by
    /// Lua itself in a `for` loop.
    pub fn push_next_function(&self) {
        unsafe { ffi::lua_pushcclosure(self.state, next_key, 0) }
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
