//! A reply as a value, for tests that run commands directly.

use std::fmt;

/// A reply.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum Answer {
    /// What stands for nothing.
    Nil,
    /// A status such as `OK`.
    Simple(String),
    /// The whole text, its code first.
    Error(String),
    /// A whole number.
    Integer(i64),
    /// A number with a fraction.
    Double(f64),
    /// True or false.
    Boolean(bool),
    /// A string of any bytes.
    Bytes(Vec<u8>),
    /// An array, a set or a push.
    List(Vec<Answer>),
    /// Keys with their values, in the order sent.
    Map(Vec<(Answer, Answer)>),
}

/// Containers nested deeper than this are not read.
const DEPTH_MAX: u32 = 128;

impl Answer {
    /// Reads one RESP3 reply from the beginning of `bytes`; tells what is left behind it.
    pub(crate) fn parse(bytes: &[u8]) -> Option<(Answer, &[u8])> {
        parse(bytes, 0)
    }

    /// The content of a string or a status.
    pub fn into_bytes(self) -> Option<Vec<u8>> {
        match self {
            Answer::Bytes(bytes) => Some(bytes),
            Answer::Simple(text) => Some(text.into_bytes()),
            _ => None,
        }
    }

    /// The number of an integer reply.
    pub fn into_integer(self) -> Option<i64> {
        match self {
            Answer::Integer(value) => Some(value),
            _ => None,
        }
    }

    /// The strings of a list; whatever else is in it is left out.
    pub fn into_list(self) -> Vec<Vec<u8>> {
        match self {
            Answer::List(items) => items.into_iter().filter_map(Answer::into_bytes).collect(),
            _ => Vec::new(),
        }
    }

    /// Does it stand for nothing?
    pub fn is_nil(&self) -> bool {
        *self == Answer::Nil
    }

    /// Is it an error?
    pub fn is_error(&self) -> bool {
        matches!(self, Answer::Error(_))
    }
}

fn parse(bytes: &[u8], depth: u32) -> Option<(Answer, &[u8])> {
    if depth > DEPTH_MAX {
        return None;
    }
    let end = bytes.windows(2).position(|pair| pair == b"\r\n")?;
    let (kind, line, rest) = (*bytes.first()?, &bytes[1..end], &bytes[end + 2..]);
    let text = || String::from_utf8_lossy(line).into_owned();
    let number = || std::str::from_utf8(line).ok()?.parse::<i64>().ok();
    let answer = match kind {
        b'+' => Answer::Simple(text()),
        b'-' => Answer::Error(text()),
        b':' => Answer::Integer(number()?),
        b'_' => Answer::Nil,
        b'#' => Answer::Boolean(line == b"t"),
        b',' => Answer::Double(std::str::from_utf8(line).ok()?.parse().ok()?),
        b'(' => Answer::Bytes(line.to_vec()),
        b'$' | b'=' => return parse_bytes(kind, number()?, rest),
        b'*' | b'~' | b'>' => {
            let (items, rest) = parse_items(number()?, rest, depth)?;
            return Some((Answer::List(items), rest));
        }
        b'%' => {
            let (items, rest) = parse_items(number()?.checked_mul(2)?, rest, depth)?;
            let mut pairs = Vec::new();
            let mut items = items.into_iter();
            while let (Some(key), Some(value)) = (items.next(), items.next()) {
                pairs.push((key, value));
            }
            return Some((Answer::Map(pairs), rest));
        }
        _ => return None,
    };
    Some((answer, rest))
}

fn parse_bytes(kind: u8, len: i64, rest: &[u8]) -> Option<(Answer, &[u8])> {
    let Ok(len) = usize::try_from(len) else {
        return Some((Answer::Nil, rest));
    };
    // A verbatim string begins with its format and a colon.
    let skip = if kind == b'=' { 4 } else { 0 };
    let content = rest.get(skip..len)?.to_vec();
    Some((Answer::Bytes(content), rest.get(len + 2..)?))
}

fn parse_items(len: i64, mut rest: &[u8], depth: u32) -> Option<(Vec<Answer>, &[u8])> {
    let mut items = Vec::new();
    for _ in 0..len.max(0) {
        let (item, left) = parse(rest, depth + 1)?;
        items.push(item);
        rest = left;
    }
    Some((items, rest))
}

impl PartialEq<i64> for Answer {
    fn eq(&self, other: &i64) -> bool {
        matches!(self, Answer::Integer(value) if value == other)
    }
}

impl PartialEq<&str> for Answer {
    fn eq(&self, other: &&str) -> bool {
        match self {
            Answer::Bytes(bytes) => bytes == other.as_bytes(),
            Answer::Simple(text) | Answer::Error(text) => text == other,
            _ => false,
        }
    }
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Answer::Nil => f.write_str("(nil)"),
            Answer::Simple(text) => f.write_str(text),
            Answer::Error(text) => write!(f, "(error) {text}"),
            Answer::Integer(value) => write!(f, "{value}"),
            Answer::Double(value) => write!(f, "{value}"),
            Answer::Boolean(value) => write!(f, "{value}"),
            Answer::Bytes(bytes) => write!(f, "\"{}\"", bytes.escape_ascii()),
            Answer::List(items) => {
                f.write_str("[")?;
                for (at, item) in items.iter().enumerate() {
                    write!(f, "{}{item}", if at > 0 { ", " } else { "" })?;
                }
                f.write_str("]")
            }
            Answer::Map(pairs) => {
                f.write_str("{")?;
                for (at, (key, value)) in pairs.iter().enumerate() {
                    write!(f, "{}{key}: {value}", if at > 0 { ", " } else { "" })?;
                }
                f.write_str("}")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_of_every_type_are_read() {
        let bytes = b"%1\r\n$1\r\na\r\n*3\r\n:1\r\n_\r\n=5\r\ntxt:b\r\n";
        let (answer, rest) = Answer::parse(bytes).unwrap();
        assert!(rest.is_empty());
        assert_eq!(answer.to_string(), r#"{"a": [1, (nil), "b"]}"#);
    }

    #[test]
    fn half_a_reply_is_none() {
        let bytes = b"*2\r\n$1\r\na\r\n:1\r\n";
        for end in 0..bytes.len() {
            assert_eq!(Answer::parse(&bytes[..end]), None);
        }
    }
}
