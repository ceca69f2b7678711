//! RESP on the wire: requests are decoded piece by piece, replies are encoded in place.
//!
//! The decoder never copies: it remembers where in the read buffer the arguments of the current
//! request lie, and takes up where it stopped when more bytes arrive, so a request may be split
//! at any byte and is still looked at once. Bytes leave the buffer only with a whole request.

use smallvec::SmallVec;

use crate::{
    error::Error,
    number,
    reply::{Protocol, Reply},
};

/// The longest inline request, and the longest header line of the others, in bytes.
pub const INLINE_MAX: usize = 64 * 1024;
/// What a client may send before it has authenticated: arguments, and bytes in one of them.
const UNAUTHENTICATED_ARGS_MAX: i64 = 10;
const UNAUTHENTICATED_BULK_MAX: i64 = 16 * 1024;

const BAD_LINE_END: &str = "invalid CRLF in request";

/// The arguments of a request, the command's name first.
pub type Args<'a> = SmallVec<[&'a [u8]; 8]>;

/// What a request may demand of the decoder.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// `proto-max-bulk-len`, in bytes.
    pub bulk_len: i64,
    pub authenticated: bool,
}

/// The client broke the protocol: it gets this error and the connection ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProtocolError(pub Vec<u8>);

impl ProtocolError {
    fn with(what: &[u8]) -> ProtocolError {
        ProtocolError([b"ERR Protocol error: ", what].concat())
    }

    fn new(what: &str) -> ProtocolError {
        ProtocolError::with(what.as_bytes())
    }
}

/// The progress of one request through the read buffer.
#[derive(Default)]
pub struct Decoder {
    /// Where the next unread byte lies, from the start of the request.
    cursor: usize,
    /// Arguments still to come, once the header of an array was read.
    missing: Option<i64>,
    /// The length of the argument now being read, once its header was read.
    bulk: Option<usize>,
    args: Vec<(usize, usize)>,
    inline: Option<Vec<Vec<u8>>>,
    ahead: Ahead,
}

/// Whole requests of the plainest form, as nearly all are, found at once before their turns:
/// arrays of at most nine words, each shorter than a thousand bytes. So they are within every limit.
#[derive(Default)]
struct Ahead {
    /// How long each is, and where its words end in `words`.
    requests: Vec<(u16, u16)>,
    /// Where each word begins, from the start of its request, and how long it is.
    words: Vec<(u16, u16)>,
    /// How many have had their turn. The buffer begins with the next.
    taken: usize,
}

/// How many requests are looked for ahead, and how many words one of them may have.
pub const AHEAD_MAX: usize = 32;
const PLAIN_WORDS_MAX: usize = 9;

impl Decoder {
    /// Goes on with the request that starts at the beginning of `buffer`, and tells its length
    /// once it is whole. A request without arguments is to be skipped.
    pub fn decode(
        &mut self,
        buffer: &[u8],
        limits: Limits,
    ) -> Result<Option<usize>, ProtocolError> {
        if self.missing.is_none() {
            if let Some(len) = self.ahead.current(buffer) {
                return Ok(Some(len));
            }
            match buffer.first() {
                None => return Ok(None),
                Some(b'*') => {
                    if !self.array_header(buffer, limits)? {
                        return Ok(None);
                    }
                }
                Some(_) => return self.inline_request(buffer),
            }
        }
        while self.missing.is_some_and(|missing| missing > 0) {
            if !self.argument(buffer, limits)? {
                return Ok(None);
            }
        }
        Ok(Some(self.cursor))
    }

    /// The arguments of the request that `decode` found whole in the same buffer.
    pub fn args<'a>(&'a self, buffer: &'a [u8]) -> Args<'a> {
        if !self.ahead.requests.is_empty() {
            return self.ahead.args(buffer);
        }
        match &self.inline {
            Some(args) => args.iter().map(Vec::as_slice).collect(),
            None => self
                .args
                .iter()
                .map(|&(start, len)| &buffer[start..start + len])
                .collect(),
        }
    }

    /// Forgets the request that was whole; the next one begins.
    pub fn next(&mut self) {
        if self.ahead.next() {
            return;
        }
        self.cursor = 0;
        self.missing = None;
        self.bulk = None;
        self.args.clear();
        self.args.shrink_to(64);
        self.inline = None;
    }

    /// How many bytes the buffer should have room for to hold the argument being read.
    pub fn wanted(&self) -> usize {
        self.bulk.map_or(0, |len| self.cursor + len + 2)
    }

    /// Whether the request that `decode` found is the first of several that were found at once.
    pub fn leads_others(&self) -> bool {
        self.ahead.taken == 0 && self.ahead.requests.len() > 1
    }

    /// Shows those requests, in the buffer that they were found in.
    pub fn each_ahead<'a>(&self, buffer: &'a [u8], see: impl FnMut(&[&'a [u8]])) {
        self.ahead.each(buffer, see);
    }

    fn array_header(&mut self, buffer: &[u8], limits: Limits) -> Result<bool, ProtocolError> {
        if let Some((count @ 1..=9, len)) = short_header(buffer, b'*') {
            self.cursor = len;
            self.missing = Some(count as i64);
            return Ok(true);
        }
        let Some(line) = header_line(buffer, 1, "too big mbulk count string")? else {
            return Ok(false);
        };
        let count = number::parse_i64(line)
            .filter(|&count| count <= i64::from(i32::MAX))
            .ok_or_else(|| ProtocolError::new("invalid multibulk length"))?;
        if count > UNAUTHENTICATED_ARGS_MAX && !limits.authenticated {
            return Err(ProtocolError::new("unauthenticated multibulk length"));
        }
        self.cursor = 1 + line.len() + 2;
        self.missing = Some(count.max(0));
        Ok(true)
    }

    fn argument(&mut self, buffer: &[u8], limits: Limits) -> Result<bool, ProtocolError> {
        let len = match self.bulk {
            Some(len) => len,
            None => match self.bulk_header(buffer, limits)? {
                Some(len) => len,
                None => return Ok(false),
            },
        };
        if buffer.len() < self.cursor + len + 2 {
            return Ok(false);
        }
        let end = self.cursor + len;
        if buffer[end..end + 2] != *b"\r\n" {
            return Err(ProtocolError::new(BAD_LINE_END));
        }
        self.args.push((self.cursor, len));
        self.cursor = end + 2;
        self.bulk = None;
        self.missing = self.missing.map(|missing| missing - 1);
        Ok(true)
    }

    fn bulk_header(
        &mut self,
        buffer: &[u8],
        limits: Limits,
    ) -> Result<Option<usize>, ProtocolError> {
        let rest = buffer.get(self.cursor..).unwrap_or_default();
        if let Some((bulk, len)) = short_header(rest, b'$') {
            self.cursor += len;
            self.bulk = Some(bulk);
            return Ok(self.bulk);
        }
        let header = header_line(buffer, self.cursor, "too big bulk count string");
        if header == Ok(None) {
            return Ok(None);
        }
        // The type is looked at before the end of the line.
        let first = buffer.get(self.cursor).copied().unwrap_or_default();
        if first != b'$' {
            let what = [b"expected '$', got '", &[first][..], b"'"].concat();
            return Err(ProtocolError::with(&what));
        }
        let line = &header?.unwrap_or_default()[1..];
        let len = number::parse_i64(line)
            .filter(|len| (0..=limits.bulk_len).contains(len))
            .ok_or_else(|| ProtocolError::new("invalid bulk length"))?;
        if len > UNAUTHENTICATED_BULK_MAX && !limits.authenticated {
            return Err(ProtocolError::new("unauthenticated bulk length"));
        }
        self.cursor += 1 + line.len() + 2;
        self.bulk = Some(len as usize);
        Ok(self.bulk)
    }

    fn inline_request(&mut self, buffer: &[u8]) -> Result<Option<usize>, ProtocolError> {
        let Some(end) = memchr::memchr(b'\n', &buffer[self.cursor..]).map(|at| self.cursor + at)
        else {
            // What holds no line end need not be searched again.
            self.cursor = buffer.len();
            if buffer.len() > INLINE_MAX {
                return Err(ProtocolError::new("too big inline request"));
            }
            return Ok(None);
        };
        let line = &buffer[..end];
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let args =
            split_words(line).ok_or_else(|| ProtocolError::new("unbalanced quotes in request"))?;
        self.inline = Some(args);
        Ok(Some(end + 1))
    }
}

impl Ahead {
    /// The length of the request whose turn it is, if there is one; looks for more when all have
    /// had theirs.
    fn current(&mut self, buffer: &[u8]) -> Option<usize> {
        if self.requests.is_empty() {
            self.find(buffer);
        }
        let &(len, _) = self.requests.get(self.taken)?;
        Some(usize::from(len))
    }

    fn find(&mut self, buffer: &[u8]) {
        let mut rest = buffer;
        while self.requests.len() < AHEAD_MAX
            && let Some(len) = self.find_one(rest)
        {
            self.requests.push((len as u16, self.words.len() as u16));
            rest = &rest[len..];
        }
        let whole = self.requests.last().map_or(0, |&(_, end)| end);
        self.words.truncate(usize::from(whole));
    }

    /// Takes down the words of one request and tells its length.
    fn find_one(&mut self, buffer: &[u8]) -> Option<usize> {
        let Some((count @ 1..=PLAIN_WORDS_MAX, mut at)) = short_header(buffer, b'*') else {
            return None;
        };
        for _ in 0..count {
            let (len, header) = short_header(buffer.get(at..)?, b'$')?;
            let start = at + header;
            at = start + len + 2;
            if buffer.get(at - 2..at)? != b"\r\n" {
                return None;
            }
            self.words.push((start as u16, len as u16));
        }
        Some(at)
    }

    fn words_of(&self, request: usize) -> &[(u16, u16)] {
        let start = match request.checked_sub(1) {
            Some(before) => self.requests[before].1,
            None => 0,
        };
        &self.words[usize::from(start)..usize::from(self.requests[request].1)]
    }

    fn args<'a>(&self, buffer: &'a [u8]) -> Args<'a> {
        let mut args = Args::new();
        for &word in self.words_of(self.taken) {
            args.push(word_at(buffer, word));
        }
        args
    }

    /// Goes on to the next. Tells whether the one whose turn it was is one of these.
    fn next(&mut self) -> bool {
        if self.requests.is_empty() {
            return false;
        }
        self.taken += 1;
        if self.taken == self.requests.len() {
            self.requests.clear();
            self.words.clear();
            self.taken = 0;
        }
        true
    }

    fn each<'a>(&self, buffer: &'a [u8], mut see: impl FnMut(&[&'a [u8]])) {
        let mut args: [&[u8]; PLAIN_WORDS_MAX] = [&[]; PLAIN_WORDS_MAX];
        let mut rest = buffer;
        for at in self.taken..self.requests.len() {
            let words = self.words_of(at);
            for (arg, &word) in args.iter_mut().zip(words) {
                *arg = word_at(rest, word);
            }
            see(&args[..words.len()]);
            rest = &rest[usize::from(self.requests[at].0)..];
        }
    }
}

fn word_at(buffer: &[u8], (start, len): (u16, u16)) -> &[u8] {
    let start = usize::from(start);
    &buffer[start..start + usize::from(len)]
}

/// Reads a whole header of one to three digits, as nearly all are: the number, and the length of
/// the header. Such numbers are within every limit but that of an unauthenticated array.
fn short_header(rest: &[u8], kind: u8) -> Option<(usize, usize)> {
    let digit = |byte: u8| usize::from(byte - b'0');
    match *rest {
        [first, one @ b'0'..=b'9', b'\r', b'\n', ..] if first == kind => Some((digit(one), 4)),
        [
            first,
            ten @ b'1'..=b'9',
            one @ b'0'..=b'9',
            b'\r',
            b'\n',
            ..,
        ] if first == kind => Some((digit(ten) * 10 + digit(one), 5)),
        [
            first,
            hundred @ b'1'..=b'9',
            ten @ b'0'..=b'9',
            one @ b'0'..=b'9',
            b'\r',
            b'\n',
            ..,
        ] if first == kind => Some((digit(hundred) * 100 + digit(ten) * 10 + digit(one), 6)),
        _ => None,
    }
}

/// The line that begins at `start`, without its line break, once it is whole.
fn header_line<'a>(
    buffer: &'a [u8],
    start: usize,
    too_big: &str,
) -> Result<Option<&'a [u8]>, ProtocolError> {
    let rest = buffer.get(start..).unwrap_or_default();
    match memchr::memchr(b'\r', rest) {
        Some(len) => match rest.get(len + 1) {
            None => Ok(None),
            Some(b'\n') => Ok(Some(&rest[..len])),
            Some(_) => Err(ProtocolError::new(BAD_LINE_END)),
        },
        None if rest.len() > INLINE_MAX => Err(ProtocolError::new(too_big)),
        None => Ok(None),
    }
}

/// Splits a line into words as a shell would: quotes of both kinds, escapes inside double ones.
/// Quoted and bare pieces that touch are one word. `None` when a quote is left open.
pub fn split_words(line: &[u8]) -> Option<Vec<Vec<u8>>> {
    let mut words = Vec::new();
    let mut rest = line;
    loop {
        rest = rest.trim_ascii_start();
        if rest.is_empty() {
            return Some(words);
        }
        let mut word = Vec::new();
        rest = take_word(rest, &mut word)?;
        words.push(word);
    }
}

/// The byte by which telnet announces its own commands; inline requests are read without it.
const TELNET: u8 = 0xff;

fn take_word<'a>(mut rest: &'a [u8], word: &mut Vec<u8>) -> Option<&'a [u8]> {
    while let Some((&byte, tail)) = rest.split_first() {
        rest = match byte {
            b'"' => take_double_quoted(tail, word)?,
            b'\'' => take_single_quoted(tail, word)?,
            _ if byte.is_ascii_whitespace() || byte == 0 => return Some(tail),
            TELNET => tail,
            _ => {
                word.push(byte);
                tail
            }
        };
    }
    Some(rest)
}

fn take_double_quoted<'a>(mut rest: &'a [u8], word: &mut Vec<u8>) -> Option<&'a [u8]> {
    loop {
        match rest {
            [b'"', tail @ ..] => return Some(tail),
            [b'\\', b'x', high, low, tail @ ..] if hex(*high).is_some() && hex(*low).is_some() => {
                word.push(hex(*high)? * 16 + hex(*low)?);
                rest = tail;
            }
            [b'\\', escaped, tail @ ..] => {
                word.push(match escaped {
                    b'n' => b'\n',
                    b'r' => b'\r',
                    b't' => b'\t',
                    b'b' => 8,
                    b'a' => 7,
                    other => *other,
                });
                rest = tail;
            }
            [TELNET, tail @ ..] => rest = tail,
            [byte, tail @ ..] => {
                word.push(*byte);
                rest = tail;
            }
            [] => return None,
        }
    }
}

fn take_single_quoted<'a>(mut rest: &'a [u8], word: &mut Vec<u8>) -> Option<&'a [u8]> {
    loop {
        match rest {
            [b'\'', tail @ ..] => return Some(tail),
            [b'\\', b'\'', tail @ ..] => {
                word.push(b'\'');
                rest = tail;
            }
            [TELNET, tail @ ..] => rest = tail,
            [byte, tail @ ..] => {
                word.push(*byte);
                rest = tail;
            }
            [] => return None,
        }
    }
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).map(|value| value as u8)
}

/// Writes replies as RESP2 or RESP3 to the end of a client's output.
pub struct Encoder<'a> {
    pub out: &'a mut Vec<u8>,
    pub protocol: Protocol,
}

impl<'a> Encoder<'a> {
    pub fn new(out: &'a mut Vec<u8>, protocol: Protocol) -> Encoder<'a> {
        Encoder { out, protocol }
    }

    fn resp3(&self) -> bool {
        self.protocol == Protocol::Resp3
    }

    fn header(&mut self, kind: u8, value: i64) {
        self.out.push(kind);
        self.out
            .extend_from_slice(itoa::Buffer::new().format(value).as_bytes());
        self.out.extend_from_slice(b"\r\n");
    }

    /// The null of a protocol that may be another one.
    pub fn null_of(&mut self, protocol: Protocol) {
        let own = std::mem::replace(&mut self.protocol, protocol);
        self.null();
        self.protocol = own;
    }

    fn line(&mut self, kind: u8, text: &[u8]) {
        self.out.push(kind);
        // A line break inside would end the reply early and forge the next one.
        self.out.extend(text.iter().map(|&byte| match byte {
            b'\r' | b'\n' => b' ',
            other => other,
        }));
        self.out.extend_from_slice(b"\r\n");
    }
}

impl Reply for Encoder<'_> {
    fn protocol(&self) -> Protocol {
        self.protocol
    }

    fn set_protocol(&mut self, protocol: Protocol) {
        self.protocol = protocol;
    }

    fn attribute(&mut self, pairs: usize) -> bool {
        if self.resp3() {
            self.header(b'|', pairs as i64);
        }
        self.resp3()
    }

    fn simple(&mut self, text: &str) {
        self.line(b'+', text.as_bytes());
    }

    fn status(&mut self, text: &[u8]) {
        self.line(b'+', text);
    }

    fn error(&mut self, error: &Error) {
        self.line(b'-', error.as_bytes());
    }

    fn integer(&mut self, value: i64) {
        self.header(b':', value);
    }

    fn bulk(&mut self, bytes: &[u8]) {
        // Most bulk strings are short, and a header of fixed size is one store.
        match bytes.len() as u8 {
            len @ 0..10 if bytes.len() < 10 => {
                self.out
                    .extend_from_slice(&[b'$', b'0' + len, b'\r', b'\n']);
            }
            len @ 10..100 if bytes.len() < 100 => {
                let digits = [b'0' + len / 10, b'0' + len % 10];
                self.out
                    .extend_from_slice(&[b'$', digits[0], digits[1], b'\r', b'\n']);
            }
            _ => self.header(b'$', bytes.len() as i64),
        }
        self.out.extend_from_slice(bytes);
        self.out.extend_from_slice(b"\r\n");
    }

    fn null(&mut self) {
        let nil: &[u8] = if self.resp3() { b"_\r\n" } else { b"$-1\r\n" };
        self.out.extend_from_slice(nil);
    }

    fn null_array(&mut self) {
        let nil: &[u8] = if self.resp3() { b"_\r\n" } else { b"*-1\r\n" };
        self.out.extend_from_slice(nil);
    }

    fn array(&mut self, len: usize) {
        self.header(b'*', len as i64);
    }

    fn map(&mut self, pairs: usize) {
        if self.resp3() {
            self.header(b'%', pairs as i64);
        } else {
            self.header(b'*', pairs as i64 * 2);
        }
    }

    fn set(&mut self, len: usize) {
        let kind = if self.resp3() { b'~' } else { b'*' };
        self.header(kind, len as i64);
    }

    fn push(&mut self, len: usize) {
        let kind = if self.resp3() { b'>' } else { b'*' };
        self.header(kind, len as i64);
    }

    fn double(&mut self, value: f64) {
        let mut buffer = number::DoubleBuffer::new();
        let text = buffer.format(value);
        if self.resp3() {
            self.line(b',', text.as_bytes());
        } else {
            self.bulk(text.as_bytes());
        }
    }

    fn decimal(&mut self, digits: &str) {
        if self.resp3() {
            self.line(b',', digits.as_bytes());
        } else {
            self.bulk(digits.as_bytes());
        }
    }

    fn boolean(&mut self, value: bool) {
        if self.resp3() {
            self.out
                .extend_from_slice(if value { b"#t\r\n" } else { b"#f\r\n" });
        } else {
            self.integer(i64::from(value));
        }
    }

    fn big_number(&mut self, digits: &[u8]) {
        if self.resp3() {
            self.line(b'(', digits);
        } else {
            self.bulk(digits);
        }
    }

    fn verbatim(&mut self, format: &[u8; 3], text: &[u8]) {
        if !self.resp3() {
            return self.bulk(text);
        }
        self.header(b'=', text.len() as i64 + 4);
        self.out.extend_from_slice(format);
        self.out.push(b':');
        self.out.extend_from_slice(text);
        self.out.extend_from_slice(b"\r\n");
    }

    fn mark(&self) -> usize {
        self.out.len()
    }

    fn rewind(&mut self, mark: usize) {
        self.out.truncate(mark);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMITS: Limits = Limits {
        bulk_len: 1 << 20,
        authenticated: true,
    };

    /// Decodes all of `input`, offered in pieces that end at every multiple of `step`.
    fn decode_all(input: &[u8], step: usize) -> Result<Vec<Vec<Vec<u8>>>, ProtocolError> {
        let (mut decoder, mut requests) = (Decoder::default(), Vec::new());
        let (mut start, mut end) = (0, 0);
        while end < input.len() {
            end = (end + step).min(input.len());
            while let Some(len) = decoder.decode(&input[start..end], LIMITS)? {
                let args: Vec<Vec<u8>> = decoder
                    .args(&input[start..end])
                    .iter()
                    .map(|arg| arg.to_vec())
                    .collect();
                if !args.is_empty() {
                    requests.push(args);
                }
                decoder.next();
                start += len;
            }
        }
        Ok(requests)
    }

    #[test]
    fn requests_found_ahead_are_those_that_then_come() {
        let input = b"*2\r\n$3\r\nGET\r\n$4\r\n\r\n\0k\r\n*3\r\n$12\r\nabcdefghijkl\r\n$0\r\n\r\n$1\r\n*\r\n*1\r\n$4\r\nPING\r\nPING\r\n*0\r\n";
        let all = decode_all(input, input.len()).unwrap();
        let mut decoder = Decoder::default();
        for len in 0..=input.len() {
            let mut seen = Vec::new();
            decoder.ahead = Ahead::default();
            decoder.ahead.current(&input[..len]);
            decoder.each_ahead(input, |args| {
                seen.push(args.iter().map(|arg| arg.to_vec()).collect::<Vec<_>>());
            });
            let whole = [0, 23, 59, 73].partition_point(|&end| end <= len) - 1;
            assert_eq!(seen, all[..whole], "{len}");
        }
    }

    #[test]
    fn requests_split_at_any_byte_are_the_same_requests() {
        let input = b"*2\r\n$3\r\nGET\r\n$4\r\n\r\n\0k\r\n*0\r\n*-1\r\nPING \"a b\\x41\"\r\n\r\n*1\r\n$0\r\n\r\n";
        let expect = decode_all(input, input.len()).unwrap();
        assert_eq!(expect.len(), 3);
        assert_eq!(expect[0], [b"GET".to_vec(), b"\r\n\0k".to_vec()]);
        assert_eq!(expect[1], [b"PING".to_vec(), b"a bA".to_vec()]);
        for step in 1..input.len() {
            assert_eq!(
                decode_all(input, step).unwrap(),
                expect,
                "in pieces of {step}"
            );
        }
    }

    #[test]
    fn broken_requests_get_the_reference_errors() {
        let cases: [(&[u8], &str); 7] = [
            (b"*abc\r\n", "invalid multibulk length"),
            (b"*2147483648\r\n", "invalid multibulk length"),
            (b"*1\r\nPING\r\n", "expected '$', got 'P'"),
            (b"*1\r\n$-1\r\n", "invalid bulk length"),
            (b"*1\r\n$9000000000000000000\r\n", "invalid bulk length"),
            (b"SET \"a\r\n", "unbalanced quotes in request"),
            (b"*1\r\n$4\r\nPINGxx", "invalid CRLF in request"),
        ];
        for (input, what) in cases {
            assert_eq!(decode_all(input, 1), Err(ProtocolError::new(what)));
        }
    }

    #[test]
    fn an_error_cannot_forge_a_second_reply() {
        let mut out = Vec::new();
        Encoder::new(&mut out, Protocol::Resp2).error(&Error::text("ERR a\r\n+OK"));
        assert_eq!(out, b"-ERR a  +OK\r\n");
    }
}
