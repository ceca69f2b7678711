//! A client that blocks: it sends requests, one or many, and reads the replies when asked to.

use std::{
    io::{BufRead, BufReader, ErrorKind, Read, Write},
    net::TcpStream,
    time::{Duration, Instant},
};

use super::{Outcome, ensure};
use crate::transcript::wire::encode;

/// A server that leaves a client waiting for so long hangs.
const PATIENCE: Duration = Duration::from_secs(60);
/// What a client keeps of what it has read ahead; small, as there are thousands of clients.
const BUFFER: usize = 1024;

/// A reply in RESP2.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    Simple(String),
    Error(String),
    Integer(i64),
    Bulk(Vec<u8>),
    Null,
    Array(Vec<Reply>),
}

impl Reply {
    pub fn ok() -> Reply {
        Reply::Simple("OK".to_owned())
    }

    pub fn bulk(text: &str) -> Reply {
        Reply::Bulk(text.into())
    }
}

pub struct Client {
    stream: BufReader<TcpStream>,
}

impl Client {
    pub fn connect(port: u16) -> Outcome<Client> {
        Self::connect_buffered(port, BUFFER)
    }

    /// One that reads much.
    pub fn connect_buffered(port: u16, buffer: usize) -> Outcome<Client> {
        let stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_write_timeout(Some(PATIENCE))?;
        Ok(Client {
            stream: BufReader::with_capacity(buffer, stream),
        })
    }

    /// Another handle of the same connection, to write from another thread.
    pub fn writer(&self) -> Outcome<TcpStream> {
        Ok(self.stream.get_ref().try_clone()?)
    }

    pub fn send<W: AsRef<[u8]>>(&mut self, words: &[W]) -> Outcome {
        self.send_raw(&encode(words))
    }

    pub fn send_raw(&mut self, bytes: &[u8]) -> Outcome {
        Ok(self.stream.get_ref().write_all(bytes)?)
    }

    pub fn ask<W: AsRef<[u8]>>(&mut self, words: &[W]) -> Outcome<Reply> {
        self.send(words)?;
        self.reply()
    }

    /// Asks, and wants this reply.
    pub fn expect<W: AsRef<[u8]>>(&mut self, words: &[W], wanted: &Reply) -> Outcome {
        let reply = self.ask(words)?;
        if reply == *wanted {
            return Ok(());
        }
        let name = String::from_utf8_lossy(words[0].as_ref());
        Err(format!("{name} answered {reply:?}, not {wanted:?}").into())
    }

    /// The next reply; the end of the connection is an error.
    pub fn reply(&mut self) -> Outcome<Reply> {
        self.reply_or_end()?
            .ok_or_else(|| "the connection ended".into())
    }

    /// The next reply, or none when the server ended the connection.
    pub fn reply_or_end(&mut self) -> Outcome<Option<Reply>> {
        let mut line = Vec::new();
        match self.stream.read_until(b'\n', &mut line) {
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::ConnectionReset => return Ok(None),
            Err(error) => return Err(error.into()),
        }
        let Some(text) = line.strip_suffix(b"\r\n") else {
            return Ok(None);
        };
        let (tag, text) = text.split_first().ok_or("an empty reply")?;
        let text = String::from_utf8_lossy(text).into_owned();
        Ok(Some(match tag {
            b'+' => Reply::Simple(text),
            b'-' => Reply::Error(text),
            b':' => Reply::Integer(text.parse()?),
            b'$' | b'*' if text == "-1" => Reply::Null,
            b'$' => {
                let mut content = vec![0; text.parse::<usize>()? + 2];
                self.stream.read_exact(&mut content)?;
                content.truncate(content.len() - 2);
                Reply::Bulk(content)
            }
            b'*' => {
                let len = text.parse::<usize>()?;
                let elements: Outcome<Vec<_>> = (0..len).map(|_| self.reply()).collect();
                Reply::Array(elements?)
            }
            _ => return Err(format!("no reply begins with {tag:?}").into()),
        }))
    }

    /// A number that INFO tells.
    pub fn info(&mut self, name: &str) -> Outcome<u64> {
        let Reply::Bulk(text) = self.ask(&["INFO"])? else {
            return Err("INFO answers no text".into());
        };
        let text = String::from_utf8(text)?;
        let prefix = format!("{name}:");
        let value = text.lines().find_map(|line| line.strip_prefix(&*prefix));
        Ok(value
            .ok_or_else(|| format!("INFO tells no {name}"))?
            .trim()
            .parse()?)
    }

    /// Waits until INFO tells this number.
    pub fn wait_for(&mut self, name: &str, wanted: u64) -> Outcome {
        let start = Instant::now();
        loop {
            let found = self.info(name)?;
            if found == wanted {
                return Ok(());
            }
            ensure(start.elapsed() < PATIENCE, || {
                format!("{name} is {found}, not {wanted}")
            })?;
            std::thread::sleep(Duration::from_micros(200));
        }
    }

    /// Whether the server has ended the connection; what it sent before is passed over.
    pub fn has_ended(&mut self) -> Outcome<bool> {
        let mut rest = [0; 4096];
        loop {
            match self.stream.read(&mut rest) {
                Ok(0) => return Ok(true),
                Ok(_) => {}
                Err(error) => match error.kind() {
                    ErrorKind::ConnectionReset => return Ok(true),
                    ErrorKind::WouldBlock | ErrorKind::TimedOut => return Ok(false),
                    _ => return Err(error.into()),
                },
            }
        }
    }
}
