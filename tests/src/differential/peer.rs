//! One of the two servers: the connections to it, and its replies as they stood on the wire.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::transcript::wire::{self, Body, Reply, encode};

use super::Words;
use super::vocabulary::client_of;

/// How long a reply that is due may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// Between two looks at a server that is to come to a state.
const PAUSE: Duration = Duration::from_micros(200);

/// Replies and pushes in the order in which they came.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Frames {
    bytes: Vec<u8>,
    ends: Vec<usize>,
}

impl Frames {
    /// Each as it stood on the wire.
    pub fn iter(&self) -> impl Iterator<Item = &[u8]> {
        let starts = std::iter::once(0).chain(self.ends.iter().copied());
        starts
            .zip(&self.ends)
            .map(|(start, &end)| &self.bytes[start..end])
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    fn push(&mut self, frame: &[u8]) {
        self.bytes.extend_from_slice(frame);
        self.ends.push(self.bytes.len());
    }
}

/// Is this frame something that no request asked for, or a confirmation of (un)subscribing?
pub fn is_push(frame: &[u8]) -> bool {
    const KINDS: [&[u8]; 9] = [
        b"message",
        b"pmessage",
        b"smessage",
        b"subscribe",
        b"psubscribe",
        b"ssubscribe",
        b"unsubscribe",
        b"punsubscribe",
        b"sunsubscribe",
    ];
    match frame.first() {
        Some(b'>') => true,
        Some(b'*') if frame.starts_with(b"*3\r\n$") || frame.starts_with(b"*4\r\n$") => {
            let mut lines = frame.split(|&byte| byte == b'\n').skip(2);
            let kind = lines.next().and_then(|line| line.strip_suffix(b"\r"));
            kind.is_some_and(|kind| KINDS.contains(&kind))
        }
        _ => false,
    }
}

/// A frame with its structure.
pub fn read(frame: &[u8]) -> Result<Reply, String> {
    match wire::parse(frame, 0)? {
        Some((reply, used)) if used == frame.len() => Ok(reply),
        _ => Err("a frame that is no reply".to_owned()),
    }
}

/// The length of the first frame, or none while it is incomplete.
fn frame_length(bytes: &[u8]) -> Result<Option<usize>, String> {
    let (mut at, mut due) = (0, 1_usize);
    while due > 0 {
        let Some(end) = memchr::memchr(b'\n', &bytes[at..]) else {
            return Ok(None);
        };
        let line = &bytes[at..at + end];
        let (&tag, rest) = line.split_first().ok_or("an empty line for a reply")?;
        at += end + 1;
        due -= 1;
        let count = || -> Result<i64, String> {
            let text = String::from_utf8_lossy(rest);
            text.trim_end()
                .parse()
                .map_err(|error| format!("length {text:?}: {error}"))
        };
        match tag {
            b'+' | b'-' | b':' | b',' | b'#' | b'(' | b'_' => {}
            b'$' | b'=' | b'!' => {
                at += usize::try_from(count()?).map_or(0, |length| length + 2);
            }
            b'*' | b'~' | b'>' => due += usize::try_from(count()?).unwrap_or(0),
            b'%' => due += 2 * usize::try_from(count()?).unwrap_or(0),
            _ => return Err(format!("not a reply: {:?}", String::from_utf8_lossy(line))),
        }
        if at > bytes.len() {
            return Ok(None);
        }
    }
    Ok(Some(at))
}

/// One connection.
#[derive(Debug)]
struct Link {
    stream: TcpStream,
    buffer: Vec<u8>,
    read: usize,
    id: Vec<u8>,
}

impl Link {
    fn connect(addr: SocketAddr) -> Result<Self, String> {
        let stream = TcpStream::connect(addr).map_err(|error| format!("{addr}: {error}"))?;
        let set = stream
            .set_nodelay(true)
            .and_then(|()| stream.set_read_timeout(Some(PATIENCE)));
        set.map_err(|error| error.to_string())?;
        let (buffer, read, id) = (Vec::new(), 0, Vec::new());
        Ok(Self {
            stream,
            buffer,
            read,
            id,
        })
    }

    fn send(&mut self, bytes: &[u8]) -> Result<(), String> {
        self.stream
            .write_all(bytes)
            .map_err(|error| format!("sending: {error}"))
    }

    /// The next frame, moved into `frames`; false when none came in time.
    fn next(&mut self, frames: &mut Frames) -> Result<bool, String> {
        loop {
            if let Some(length) = frame_length(&self.buffer[self.read..])? {
                frames.push(&self.buffer[self.read..self.read + length]);
                self.read += length;
                return Ok(true);
            }
            if !self.fill()? {
                return Ok(false);
            }
        }
    }

    fn fill(&mut self) -> Result<bool, String> {
        self.buffer.drain(..self.read);
        self.read = 0;
        let mut chunk = [0; 16 * 1024];
        match self.stream.read(&mut chunk) {
            Ok(0) => Err("the server closed the connection".to_owned()),
            Ok(length) => {
                self.buffer.extend_from_slice(&chunk[..length]);
                Ok(true)
            }
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) => {
                Ok(false)
            }
            Err(error) => Err(format!("reading: {error}")),
        }
    }

    /// Takes what has come without waiting, and tells whether a reply is among it.
    fn has_reply(&mut self) -> Result<bool, String> {
        let nonblocking = |on| {
            let set = self.stream.set_nonblocking(on);
            set.map_err(|error| error.to_string())
        };
        nonblocking(true)?;
        while self.fill()? {}
        self.stream
            .set_nonblocking(false)
            .map_err(|error| error.to_string())?;
        let mut at = 0;
        while let Some(length) = frame_length(&self.buffer[at..])? {
            if !is_push(&self.buffer[at..at + length]) {
                return Ok(true);
            }
            at += length;
        }
        Ok(false)
    }

    fn call<W: AsRef<[u8]>>(&mut self, request: &[W]) -> Result<Reply, String> {
        self.send(&encode(request))?;
        let mut frames = Frames::default();
        if self.next(&mut frames)? {
            read(&frames.bytes)
        } else {
            Err("no reply in time".to_owned())
        }
    }
}

/// A server, with a connection for each client of a sequence and one to look at it from outside.
#[derive(Debug)]
pub struct Peer {
    addr: SocketAddr,
    control: Link,
    links: Vec<Link>,
    fences: u64,
}

impl Peer {
    /// Connects to the server.
    pub fn connect(addr: SocketAddr) -> Result<Self, String> {
        let (control, links) = (Link::connect(addr)?, Vec::new());
        Ok(Self {
            addr,
            control,
            links,
            fences: 0,
        })
    }

    /// Where it listens.
    pub fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// A request beside the sequence.
    pub fn call<W: AsRef<[u8]>>(&mut self, request: &[W]) -> Result<Reply, String> {
        self.control.call(request)
    }

    /// As [`Peer::call`], for what must not fail.
    pub fn demand(&mut self, request: &[&str]) -> Result<Reply, String> {
        let reply = self.call(request)?;
        if reply.tag == b'-' {
            return Err(format!("{}: {}", request.join(" "), text(&reply)));
        }
        Ok(reply)
    }

    /// Several requests at once beside the sequence.
    pub fn call_all(&mut self, requests: &[Words]) -> Result<Vec<Reply>, String> {
        let bytes: Vec<u8> = requests
            .iter()
            .flat_map(|request| encode(request))
            .collect();
        self.control.send(&bytes)?;
        let mut frames = Frames::default();
        for _ in requests {
            if !self.control.next(&mut frames)? {
                return Err("no reply in time".to_owned());
            }
        }
        frames.iter().map(read).collect()
    }

    /// Closes the connections of the sequence before and opens new ones.
    pub fn renew(&mut self, clients: usize, protocol: u8) -> Result<(), String> {
        self.links.clear();
        self.until("the connections are gone", |peer| {
            Ok(peer.info("clients", "connected_clients")? == 1)
        })?;
        for _ in 0..clients {
            let link = self.open(protocol)?;
            self.links.push(link);
        }
        Ok(())
    }

    fn open(&self, protocol: u8) -> Result<Link, String> {
        let mut link = Link::connect(self.addr)?;
        if protocol != 2 {
            link.call(&["HELLO", &protocol.to_string()])?;
        }
        link.id = text(&link.call(&["CLIENT", "ID"])?).into_bytes();
        Ok(link)
    }

    /// Closes a client's connection, waits until the server has noticed, and opens a new one.
    pub fn reconnect(&mut self, client: usize, protocol: u8) -> Result<(), String> {
        let fresh = self.open(protocol)?;
        let id = std::mem::replace(&mut self.links[client], fresh).id;
        let request: [&[u8]; 4] = [b"CLIENT", b"LIST", b"ID", &id];
        self.until("the connection is gone", |peer| {
            Ok(text(&peer.call(&request)?).is_empty())
        })
    }

    /// Sends a client's requests, and a fence behind them unless its reply would not come at once.
    pub fn send(&mut self, client: usize, requests: &[&Words], fenced: bool) -> Result<(), String> {
        let mut bytes = Vec::new();
        for request in requests {
            let is_plain = request.iter().all(|word| client_of(word).is_none());
            if is_plain {
                bytes.extend(encode(request));
            } else {
                bytes.extend(encode(&self.with_ids(request)));
            }
        }
        if fenced {
            self.fences += 1;
            bytes.extend(encode(&["PING", &self.fence()]));
        }
        self.links[client].send(&bytes)
    }

    fn fence(&self) -> String {
        format!("<fence {:08}>", self.fences)
    }

    fn with_ids(&self, request: &Words) -> Words {
        let resolve = |word: &Vec<u8>| {
            let link = client_of(word).and_then(|client| self.links.get(client));
            link.map_or_else(|| word.clone(), |link| link.id.clone())
        };
        request.iter().map(resolve).collect()
    }

    /// What came for a client up to the last fence.
    pub fn up_to_fence(&mut self, client: usize) -> Result<Frames, String> {
        let end = format!("{}\r\n", self.fence());
        let mut frames = Frames::default();
        while self.links[client].next(&mut frames)? {
            if frames.bytes.ends_with(end.as_bytes()) {
                frames.ends.pop();
                frames
                    .bytes
                    .truncate(frames.ends.last().copied().unwrap_or(0));
                return Ok(frames);
            }
        }
        Err(format!(
            "no reply in time; until then {} came",
            frames.len()
        ))
    }

    /// What came for a client up to so many replies.
    pub fn replies(&mut self, client: usize, count: usize) -> Result<Frames, String> {
        let mut frames = Frames::default();
        let mut due = count;
        while due > 0 {
            let start = frames.bytes.len();
            if !self.links[client].next(&mut frames)? {
                return Err(format!("{due} of {count} replies did not come in time"));
            }
            due -= usize::from(!is_push(&frames.bytes[start..]));
        }
        Ok(frames)
    }

    /// Whether a client has got a reply, without waiting for one.
    pub fn has_reply(&mut self, client: usize) -> Result<bool, String> {
        self.links[client].has_reply()
    }

    /// How many clients wait in a blocking command.
    pub fn blocked(&mut self) -> Result<i64, String> {
        self.info("clients", "blocked_clients")
    }

    fn info(&mut self, section: &str, field: &str) -> Result<i64, String> {
        let info = text(&self.call(&["INFO", section])?);
        let value = info
            .lines()
            .find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
        value
            .and_then(|value| value.parse().ok())
            .ok_or_else(|| format!("INFO {section} has no {field}"))
    }

    /// Looks until something is so, or for as long as patience lasts.
    pub fn until(
        &mut self,
        what: &str,
        mut is_so: impl FnMut(&mut Self) -> Result<bool, String>,
    ) -> Result<(), String> {
        let deadline = Instant::now() + PATIENCE;
        while !is_so(self)? {
            if Instant::now() > deadline {
                return Err(format!("waited in vain until {what}"));
            }
            sleep(PAUSE);
        }
        Ok(())
    }
}

/// The text of a reply, or nothing.
pub fn text(reply: &Reply) -> String {
    match &reply.body {
        Body::Text(text) => String::from_utf8_lossy(text).into_owned(),
        _ => String::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_ends_where_its_last_element_ends() {
        let whole = b"*3\r\n$3\r\na\n\r\r\n%1\r\n+k\r\n_\r\n*-1\r\n";
        for end in 0..whole.len() {
            assert_eq!(frame_length(&whole[..end]), Ok(None), "{end} bytes");
        }
        let more = [&whole[..], b"+OK\r\n"].concat();
        assert_eq!(frame_length(&more), Ok(Some(whole.len())));
    }

    #[test]
    fn pushes_are_told_from_replies() {
        assert!(is_push(b">2\r\n+x\r\n+y\r\n"));
        assert!(is_push(b"*3\r\n$7\r\nmessage\r\n$1\r\nc\r\n$1\r\nm\r\n"));
        assert!(!is_push(b"*3\r\n$1\r\na\r\n$1\r\nc\r\n$1\r\nm\r\n"));
        assert!(!is_push(b"*2\r\n$4\r\npong\r\n$0\r\n\r\n"));
    }
}
