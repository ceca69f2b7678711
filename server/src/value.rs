//! The values that a key can hold, one module per data type.

pub mod bits;
mod digits;
pub mod hash;
pub mod hyperloglog;
pub mod limits;
pub mod list;
pub mod packed;
#[cfg(test)]
pub(crate) mod random;
pub mod rank_tree;
pub mod set;
pub mod sorted_set;
pub mod stream;
mod string;

pub use string::StringValue;

use self::{hash::Hash, list::List, set::Set, sorted_set::SortedSet, stream::Stream};

/// A value of any type, 24 bytes in size: collections take two words, and what is larger lies
/// behind a box.
#[derive(Clone)]
pub enum Value {
    String(StringValue),
    List(List),
    Set(Set),
    SortedSet(SortedSet),
    Hash(Hash),
    Stream(Box<Stream>),
}

/// A data type that a key can hold.
pub trait Kind: Sized {
    fn of(value: &Value) -> Option<&Self>;
    fn of_mut(value: &mut Value) -> Option<&mut Self>;
    fn into_value(self) -> Value;
    /// Is there nothing left in it? Such a value is not kept.
    fn is_empty(&self) -> bool;
}

impl Value {
    pub fn string(bytes: &[u8]) -> Value {
        Value::String(StringValue::new(bytes))
    }

    /// The name that TYPE gives.
    pub fn type_name(&self) -> &'static str {
        match self {
            Value::String(_) => "string",
            Value::List(_) => "list",
            Value::Set(_) => "set",
            Value::SortedSet(_) => "zset",
            Value::Hash(_) => "hash",
            Value::Stream(_) => "stream",
        }
    }

    /// The name that OBJECT ENCODING gives for it under a key.
    pub fn encoding(&self, key: &[u8]) -> &'static str {
        match self {
            Value::String(string) => string.encoding(key),
            Value::List(list) => list.encoding(),
            Value::Set(set) => set.encoding(),
            Value::SortedSet(set) => set.encoding(),
            Value::Hash(hash) => hash.encoding(),
            Value::Stream(_) => "stream",
        }
    }

    /// Some byte of a string that lies outside of the value; 0 of all else.
    pub fn first_byte(&self) -> u8 {
        match self {
            Value::String(string) => string.first_byte(),
            _ => 0,
        }
    }

    /// The earliest moment at which a part of the value ends by itself, in milliseconds.
    pub fn next_part_deadline(&self) -> Option<u64> {
        match self {
            Value::Hash(hash) => hash.next_deadline(),
            _ => None,
        }
    }

    /// What it occupies beside its own 24 bytes; of large collections so many elements are
    /// measured.
    pub fn heap_size(&self, samples: usize) -> usize {
        match self {
            Value::String(string) => string.heap_size(),
            Value::List(list) => list.heap_size(samples),
            Value::Set(set) => set.heap_size(samples),
            Value::SortedSet(set) => set.heap_size(samples),
            Value::Hash(hash) => hash.heap_size(samples),
            Value::Stream(stream) => stream.heap_size(samples),
        }
    }

    /// Does freeing it take so long that it should not be done under the engine's lock?
    pub fn is_costly_to_free(&self) -> bool {
        let elements = match self {
            Value::String(_) => 0,
            Value::List(list) => list.len(),
            Value::Set(set) => set.len(),
            Value::SortedSet(set) => set.len(),
            Value::Hash(hash) => hash.len(),
            Value::Stream(stream) => stream.node_count(),
        };
        elements > COSTLY_LEN
    }
}

/// More elements than this are freed off the engine's lock.
const COSTLY_LEN: usize = 256;

impl Kind for StringValue {
    fn of(value: &Value) -> Option<&StringValue> {
        match value {
            Value::String(string) => Some(string),
            _ => None,
        }
    }

    fn of_mut(value: &mut Value) -> Option<&mut StringValue> {
        match value {
            Value::String(string) => Some(string),
            _ => None,
        }
    }

    fn into_value(self) -> Value {
        Value::String(self)
    }

    /// A string may be empty and is still a value.
    fn is_empty(&self) -> bool {
        false
    }
}

impl Kind for Stream {
    fn of(value: &Value) -> Option<&Stream> {
        match value {
            Value::Stream(stream) => Some(stream),
            _ => None,
        }
    }

    fn of_mut(value: &mut Value) -> Option<&mut Stream> {
        match value {
            Value::Stream(stream) => Some(stream),
            _ => None,
        }
    }

    fn into_value(self) -> Value {
        Value::Stream(Box::new(self))
    }

    /// A stream without entries still has its history and its groups.
    fn is_empty(&self) -> bool {
        false
    }
}

/// A collection: two words within [`Value`], and gone once it is empty.
macro_rules! collection {
    ($($type:ident),*) => {$(
        impl Kind for $type {
            fn of(value: &Value) -> Option<&$type> {
                match value {
                    Value::$type(collection) => Some(collection),
                    _ => None,
                }
            }

            fn of_mut(value: &mut Value) -> Option<&mut $type> {
                match value {
                    Value::$type(collection) => Some(collection),
                    _ => None,
                }
            }

            fn into_value(self) -> Value {
                Value::$type(self)
            }

            fn is_empty(&self) -> bool {
                self.len() == 0
            }
        }
    )*};
}

collection!(List, Set, SortedSet, Hash);
