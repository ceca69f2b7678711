//! A byte string that keeps up to 22 bytes in itself and longer ones on the heap.
//!
//! Keys, fields and members are mostly short, so most of them cost no allocation.

use std::{fmt, ops::Deref};

/// The longest content that needs no allocation, in bytes.
pub const INLINE_MAX: usize = 22;

/// An immutable byte string of 24 bytes in size.
#[derive(Clone)]
pub enum ByteStr {
    Inline { len: u8, bytes: [u8; INLINE_MAX] },
    Heap(Box<[u8]>),
}

impl ByteStr {
    pub fn new(content: &[u8]) -> ByteStr {
        if content.len() > INLINE_MAX {
            return ByteStr::Heap(content.into());
        }
        let mut bytes = [0; INLINE_MAX];
        bytes[..content.len()].copy_from_slice(content);
        ByteStr::Inline {
            len: content.len() as u8,
            bytes,
        }
    }

    /// What it holds outside of itself, in bytes.
    pub fn heap_size(&self) -> usize {
        match self {
            ByteStr::Inline { .. } => 0,
            ByteStr::Heap(bytes) => bytes.len(),
        }
    }
}

impl Deref for ByteStr {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        match self {
            ByteStr::Inline { len, bytes } => &bytes[..usize::from(*len)],
            ByteStr::Heap(bytes) => bytes,
        }
    }
}

impl AsRef<[u8]> for ByteStr {
    fn as_ref(&self) -> &[u8] {
        self
    }
}

impl From<&[u8]> for ByteStr {
    fn from(content: &[u8]) -> ByteStr {
        ByteStr::new(content)
    }
}

impl PartialEq for ByteStr {
    fn eq(&self, other: &ByteStr) -> bool {
        **self == **other
    }
}

impl Eq for ByteStr {}

impl PartialOrd for ByteStr {
    fn partial_cmp(&self, other: &ByteStr) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for ByteStr {
    fn cmp(&self, other: &ByteStr) -> std::cmp::Ordering {
        (**self).cmp(&**other)
    }
}

impl std::hash::Hash for ByteStr {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        (**self).hash(state);
    }
}

impl std::borrow::Borrow<[u8]> for ByteStr {
    fn borrow(&self) -> &[u8] {
        self
    }
}

impl fmt::Debug for ByteStr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "\"{}\"", self.escape_ascii())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn content_of_any_length_comes_back() {
        for len in 0..100 {
            let content: Vec<u8> = (0..len).collect();
            assert_eq!(&*ByteStr::new(&content), &content[..]);
        }
    }

    #[test]
    fn it_is_no_larger_than_a_vec() {
        assert_eq!(size_of::<ByteStr>(), 24);
        assert_eq!(size_of::<Option<ByteStr>>(), 24);
    }
}
