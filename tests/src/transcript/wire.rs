//! A raw client: sends bytes as they are, and reads replies without interpreting them.

use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// The deepest nesting a reply may have.
const MAX_DEPTH: usize = 64;

/// A reply as it stood on the wire: its type byte and what followed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    /// The type byte, such as `+` or `$`.
    pub tag: u8,
    /// What followed it.
    pub body: Body,
}

/// What follows a type byte.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    /// The rest of the line, or the bytes whose length the line gave.
    Text(Vec<u8>),
    /// The length was -1.
    Null,
    /// Elements; a map's keys and values alternate.
    Many(Vec<Reply>),
}

/// What a read came to.
#[derive(Debug, PartialEq, Eq)]
pub enum Received {
    /// A whole reply.
    Reply(Reply),
    /// The server closed the connection.
    Closed,
    /// Nothing whole came in time.
    Nothing,
}

/// One connection to a server.
#[derive(Debug)]
pub struct Client {
    stream: TcpStream,
    buffer: Vec<u8>,
    closed: bool,
}

impl Client {
    /// Connects to `addr`.
    pub fn connect(addr: SocketAddr) -> Result<Self, String> {
        let stream = TcpStream::connect(addr).map_err(|error| format!("{addr}: {error}"))?;
        stream
            .set_nodelay(true)
            .map_err(|error| error.to_string())?;
        Ok(Self {
            stream,
            buffer: Vec::new(),
            closed: false,
        })
    }

    /// Sends bytes; a connection that the server has closed swallows them.
    pub fn send(&mut self, bytes: &[u8]) {
        if self.stream.write_all(bytes).is_err() {
            self.closed = true;
        }
    }

    /// Sends a request as an array of bulk strings.
    pub fn request<W: AsRef<[u8]>>(&mut self, words: &[W]) {
        self.send(&encode(words));
    }

    /// Sends a request and reads its reply, for at most two seconds.
    pub fn call(&mut self, words: &[&str]) -> Result<Reply, String> {
        self.request(words);
        match self.receive(Duration::from_secs(2))? {
            Received::Reply(reply) => Ok(reply),
            other => Err(format!("{}: {other:?}", words.join(" "))),
        }
    }

    /// The next reply, waiting at most `patience` for it.
    pub fn receive(&mut self, patience: Duration) -> Result<Received, String> {
        let deadline = Instant::now() + patience;
        loop {
            if let Some((reply, used)) = parse(&self.buffer, 0)? {
                self.buffer.drain(..used);
                return Ok(Received::Reply(reply));
            }
            if self.closed {
                return Ok(Received::Closed);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(Received::Nothing);
            }
            self.fill(left)?;
        }
    }

    /// The address of this end, as CLIENT LIST shows it.
    pub fn local_addr(&self) -> Result<String, String> {
        let addr = self
            .stream
            .local_addr()
            .map_err(|error| error.to_string())?;
        Ok(format!(" addr={addr} "))
    }

    /// Whether nothing has come that was not read.
    pub fn is_silent(&mut self) -> Result<bool, String> {
        self.fill(Duration::from_millis(1))?;
        Ok(self.buffer.is_empty() && !self.closed)
    }

    /// Closes both halves.
    pub fn shut(&mut self) {
        // A connection that is gone already is as closed as asked for.
        let _ = self.stream.shutdown(Shutdown::Both);
        self.closed = true;
    }

    /// Closes the sending half only.
    pub fn half_close(&self) {
        // A connection that is gone already is as closed as asked for.
        let _ = self.stream.shutdown(Shutdown::Write);
    }

    fn fill(&mut self, patience: Duration) -> Result<(), String> {
        let mut chunk = vec![0; 64 * 1024];
        self.stream
            .set_read_timeout(Some(patience))
            .map_err(|error| error.to_string())?;
        match self.stream.read(&mut chunk) {
            Ok(0) => self.closed = true,
            Ok(length) => self.buffer.extend_from_slice(&chunk[..length]),
            Err(error) => match error.kind() {
                ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted => {}
                _ => self.closed = true,
            },
        }
        Ok(())
    }
}

/// A request as an array of bulk strings.
pub fn encode<W: AsRef<[u8]>>(words: &[W]) -> Vec<u8> {
    let mut out = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        let word = word.as_ref();
        out.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
        out.extend_from_slice(word);
        out.extend_from_slice(b"\r\n");
    }
    out
}

/// The first reply in `bytes` with the length it took, or none while it is incomplete.
pub fn parse(bytes: &[u8], depth: usize) -> Result<Option<(Reply, usize)>, String> {
    let Some(end) = bytes.windows(2).position(|pair| pair == b"\r\n") else {
        return Ok(None);
    };
    let (&tag, line) = bytes[..end]
        .split_first()
        .ok_or("an empty line instead of a reply")?;
    let body = match tag {
        b'+' | b'-' | b':' | b',' | b'#' | b'(' | b'_' => {
            Some((Body::Text(line.to_vec()), end + 2))
        }
        b'$' | b'=' | b'!' => blob(bytes, length(line)?, end + 2)?,
        b'*' | b'~' | b'>' => elements(bytes, length(line)?, end + 2, depth)?,
        b'%' | b'|' => elements(bytes, length(line)?.map(|pairs| pairs * 2), end + 2, depth)?,
        _ => {
            return Err(format!(
                "not a reply: {:?}",
                String::from_utf8_lossy(&bytes[..end])
            ));
        }
    };
    Ok(body.map(|(body, used)| (Reply { tag, body }, used)))
}

/// A length; -1 is none.
fn length(line: &[u8]) -> Result<Option<usize>, String> {
    let line = String::from_utf8_lossy(line);
    if line == "-1" {
        return Ok(None);
    }
    line.parse()
        .map(Some)
        .map_err(|error| format!("length {line:?}: {error}"))
}

fn blob(
    bytes: &[u8],
    length: Option<usize>,
    start: usize,
) -> Result<Option<(Body, usize)>, String> {
    let Some(length) = length else {
        return Ok(Some((Body::Null, start)));
    };
    let end = start + length;
    match bytes.get(end..end + 2) {
        None => Ok(None),
        Some(b"\r\n") => Ok(Some((Body::Text(bytes[start..end].to_vec()), end + 2))),
        Some(other) => Err(format!("{other:?} instead of the end of a bulk string")),
    }
}

fn elements(
    bytes: &[u8],
    count: Option<usize>,
    start: usize,
    depth: usize,
) -> Result<Option<(Body, usize)>, String> {
    let Some(count) = count else {
        return Ok(Some((Body::Null, start)));
    };
    if depth == MAX_DEPTH {
        return Err("the reply is nested too deeply".to_owned());
    }
    let mut used = start;
    let mut many = Vec::new();
    for _ in 0..count {
        let Some((element, length)) = parse(&bytes[used..], depth + 1)? else {
            return Ok(None);
        };
        many.push(element);
        used += length;
    }
    Ok(Some((Body::Many(many), used)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_incomplete_reply_is_not_an_error() {
        let whole = b"*2\r\n$3\r\na\r\n\r\n%1\r\n+k\r\n_\r\n";
        for end in 0..whole.len() {
            assert_eq!(parse(&whole[..end], 0), Ok(None), "{end} bytes");
        }
        assert!(matches!(parse(whole, 0), Ok(Some((_, used))) if used == whole.len()));
    }

    #[test]
    fn a_wrong_length_is_an_error() {
        assert!(parse(b"$2\r\nabc\r\n", 0).is_err());
        assert!(parse(b"*x\r\n", 0).is_err());
        assert!(parse(b"hello\r\n", 0).is_err());
    }
}
