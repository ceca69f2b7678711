//! What a handler writes its answer to, whoever asked.
//!
//! There are two implementations: RESP bytes into a client's output (`resp::Encoder`) and Lua
//! values onto the Lua stack (`script`). A handler cannot tell them apart, so nothing is ever
//! encoded to be parsed again.

use crate::error::Error;

/// The protocol that the asker speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    Resp2,
    Resp3,
}

/// A sink for exactly one reply. A container is opened with its length and then filled by that
/// many further calls (twice as many for a map).
pub trait Reply {
    /// What the asker speaks: replies that differ by more than their encoding ask this.
    fn protocol(&self) -> Protocol;
    /// Changes what the asker speaks, from this reply on (HELLO); nothing to a script.
    fn set_protocol(&mut self, _protocol: Protocol) {}
    /// Opens an attribute of so many pairs, which the asker may ignore, before the reply proper.
    /// Tells whether it can be written at all; then the pairs must follow.
    fn attribute(&mut self, _pairs: usize) -> bool {
        false
    }
    fn simple(&mut self, text: &str);
    /// The same for a text that a script made up, without line breaks.
    fn status(&mut self, text: &[u8]) {
        self.simple(&String::from_utf8_lossy(text));
    }
    fn error(&mut self, error: &Error);
    fn integer(&mut self, value: i64);
    fn bulk(&mut self, bytes: &[u8]);
    /// Nil where a value is missing: `$-1` or `_`.
    fn null(&mut self);
    /// Nil where an array is missing: `*-1` or `_`.
    fn null_array(&mut self);
    fn array(&mut self, len: usize);
    /// A map of so many pairs; a flat array of twice the length in RESP2.
    fn map(&mut self, pairs: usize);
    /// A set; an array in RESP2.
    fn set(&mut self, len: usize);
    /// A message that answers nothing by itself; an array in RESP2.
    fn push(&mut self, len: usize) {
        self.array(len);
    }
    /// A double; a bulk string of its shortest form in RESP2.
    fn double(&mut self, value: f64);
    /// A double that keeps the digits it is given; a bulk string in RESP2.
    fn decimal(&mut self, digits: &str) {
        match (self.protocol(), digits.parse()) {
            (Protocol::Resp3, Ok(value)) => self.double(value),
            _ => self.bulk(digits.as_bytes()),
        }
    }
    /// A boolean; `1` or `0` in RESP2.
    fn boolean(&mut self, value: bool);
    /// A number of any size, in decimal digits; a bulk string in RESP2.
    fn big_number(&mut self, digits: &[u8]);
    /// Text with a three-letter format such as `txt`; a bulk string in RESP2.
    #[expect(
        clippy::trivially_copy_pass_by_ref,
        reason = "callers have it as a literal"
    )]
    fn verbatim(&mut self, format: &[u8; 3], text: &[u8]);
    /// A place to come back to with [`Reply::rewind`] when what follows turns into an error.
    fn mark(&self) -> usize;
    /// Forgets all that was written since the mark.
    fn rewind(&mut self, mark: usize);
    /// The plain success.
    fn ok(&mut self) {
        self.simple("OK");
    }
}
