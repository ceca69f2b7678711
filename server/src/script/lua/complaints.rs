//! Errors as Lua words them, with where they come from; and what natives check of their
//! arguments.

use std::{
    ffi::{CStr, c_int},
    mem::MaybeUninit,
};

use mlua::ffi;

use super::{Position, Raised, Stack, Type};
use crate::script::numbers;

// SAFETY of all that follows: as in `stack`.
impl Stack<'_> {
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
        self.check_number(number).map(numbers::truncate)
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

    /// Whether a native may make a value of so many bytes.
    pub fn check_memory(&self, bytes: usize) -> Result<(), Raised> {
        let memory = &self.context.memory;
        if bytes > memory.limit.get().saturating_sub(memory.used.get()) {
            return Err(self.fail_bare("not enough memory"));
        }
        Ok(())
    }
}
