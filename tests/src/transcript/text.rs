//! Quoting: bytes as readable text and back, without losing any.

use std::collections::HashMap;

/// Values captured by earlier replies, by name.
pub type Captures = HashMap<String, Vec<u8>>;

/// The longest repeated byte run that is still written out.
const LONGEST_PLAIN_RUN: usize = 64;

/// Bytes in double quotes; a long run of one byte is written as `"a"*1000`.
pub fn quote(bytes: &[u8]) -> String {
    if let Some(&first) = bytes.first()
        && bytes.len() > LONGEST_PLAIN_RUN
        && bytes.iter().all(|&byte| byte == first)
    {
        return format!("{}*{}", quote(&[first]), bytes.len());
    }
    format!("\"{}\"", escape(bytes, b"\""))
}

/// Bytes as a word of a request, in quotes only if they would not be read back otherwise.
pub fn quote_if_needed(bytes: &[u8]) -> String {
    let is_plain = |byte: &u8| byte.is_ascii_graphic() && !b"\"'$\\".contains(byte);
    if bytes.is_empty() || !bytes.iter().all(is_plain) {
        return quote(bytes);
    }
    String::from_utf8_lossy(bytes).into_owned()
}

/// Bytes as printable ASCII; the backslash and `special` bytes are escaped too.
pub fn escape(bytes: &[u8], special: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len());
    for &byte in bytes {
        match byte {
            b'\n' => out.push_str("\\n"),
            b'\r' => out.push_str("\\r"),
            b'\t' => out.push_str("\\t"),
            b'\\' => out.push_str("\\\\"),
            b'"' if special.contains(&byte) => out.push_str("\\\""),
            b' '..=b'~' if !special.contains(&byte) => out.push(char::from(byte)),
            _ => out.extend(["\\x", &format!("{byte:02x}")]),
        }
    }
    out
}

/// The bytes that [`escape`] wrote.
pub fn unescape(text: &str) -> Result<Vec<u8>, String> {
    let mut cursor = Cursor::new(text);
    let mut out = Vec::new();
    while let Some(byte) = cursor.next() {
        out.push(if byte == b'\\' {
            cursor.escaped()?
        } else {
            byte
        });
    }
    Ok(out)
}

/// One double-quoted text with an optional repeat count, as [`quote`] writes it.
pub fn unquote(text: &str) -> Result<Vec<u8>, String> {
    let mut words = words(text, &Captures::new())?;
    match (words.pop(), words.is_empty()) {
        (Some(word), true) => Ok(word),
        _ => Err(format!("expected one quoted text: {text}")),
    }
}

/// Splits a request into its words, with quotes, repeats and captured values resolved.
pub fn words(text: &str, captures: &Captures) -> Result<Vec<Vec<u8>>, String> {
    let mut cursor = Cursor::new(text);
    let mut words = Vec::new();
    while cursor.skip_blanks() {
        words.push(cursor.word(captures)?);
    }
    Ok(words)
}

struct Cursor<'a> {
    bytes: &'a [u8],
}

impl<'a> Cursor<'a> {
    fn new(text: &'a str) -> Self {
        Self {
            bytes: text.as_bytes(),
        }
    }

    fn peek(&self) -> Option<u8> {
        self.bytes.first().copied()
    }

    fn next(&mut self) -> Option<u8> {
        let (&first, rest) = self.bytes.split_first()?;
        self.bytes = rest;
        Some(first)
    }

    /// Whether something is left after the blanks.
    fn skip_blanks(&mut self) -> bool {
        while self.peek() == Some(b' ') {
            self.next();
        }
        !self.bytes.is_empty()
    }

    /// A word is a run of plain, quoted and captured pieces up to the next blank.
    fn word(&mut self, captures: &Captures) -> Result<Vec<u8>, String> {
        let mut word = Vec::new();
        while let Some(byte) = self.peek().filter(|&byte| byte != b' ') {
            self.next();
            match byte {
                b'"' => {
                    let piece = self.until_quote(b'"')?;
                    word.extend(piece.repeat(self.repeat_count()?));
                }
                b'\'' => word.extend(self.until_quote(b'\'')?),
                b'$' if self.peek() == Some(b'{') => word.extend(self.captured(captures)?),
                _ => word.push(byte),
            }
        }
        Ok(word)
    }

    fn until_quote(&mut self, quote: u8) -> Result<Vec<u8>, String> {
        let mut piece = Vec::new();
        loop {
            match self.next().ok_or("a quote is not closed")? {
                byte if byte == quote => return Ok(piece),
                b'\\' if quote == b'"' => piece.push(self.escaped()?),
                byte => piece.push(byte),
            }
        }
    }

    fn escaped(&mut self) -> Result<u8, String> {
        match self.next().ok_or("a backslash ends the text")? {
            b'n' => Ok(b'\n'),
            b'r' => Ok(b'\r'),
            b't' => Ok(b'\t'),
            b'x' => {
                let digits = [self.next().unwrap_or(0), self.next().unwrap_or(0)];
                let digits = std::str::from_utf8(&digits).map_err(|error| error.to_string())?;
                u8::from_str_radix(digits, 16).map_err(|error| format!("\\x{digits}: {error}"))
            }
            byte => Ok(byte),
        }
    }

    fn repeat_count(&mut self) -> Result<usize, String> {
        if self.peek() != Some(b'*') {
            return Ok(1);
        }
        self.next();
        let mut digits = String::new();
        while let Some(digit) = self.peek().filter(u8::is_ascii_digit) {
            self.next();
            digits.push(char::from(digit));
        }
        digits
            .parse()
            .map_err(|error| format!("repeat count: {error}"))
    }

    fn captured(&mut self, captures: &Captures) -> Result<Vec<u8>, String> {
        self.next();
        let mut name = String::new();
        loop {
            match self.next().ok_or("${ is not closed")? {
                b'}' => break,
                byte => name.push(char::from(byte)),
            }
        }
        captures
            .get(&name)
            .cloned()
            .ok_or_else(|| format!("nothing was captured as {name}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quoting_keeps_every_byte() {
        let every_byte: Vec<u8> = (0..=255).collect();
        for bytes in [
            b"".to_vec(),
            b"plain".to_vec(),
            every_byte,
            b"a".repeat(1000),
        ] {
            assert_eq!(unquote(&quote(&bytes)), Ok(bytes));
        }
    }

    #[test]
    fn words_are_split_as_in_a_shell() {
        let mut captures = Captures::new();
        captures.insert("id".to_owned(), b"42".to_vec());
        let words = words(r#"SET k"\x00" '' "ab"*3 n${id}"#, &captures).unwrap();
        assert_eq!(words, [&b"SET"[..], b"k\0", b"", b"ababab", b"n42"]);
    }

    #[test]
    fn an_open_quote_is_an_error() {
        assert!(words("GET \"k", &Captures::new()).is_err());
    }
}
