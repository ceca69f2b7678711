//! What a request leaves for the shell to do, because it needs a socket: keys on their way to
//! another server. The request waits meanwhile, and nobody else does.

use std::{io, time::Duration};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};

use crate::{
    bytestr::ByteStr, command::serialization, engine::Engine, error::Error, keyspace::Event,
    reply::Reply, session::ClientId,
};

/// The longest reply that is read from the other server, in bytes.
const REPLY_MAX: usize = 64 * 1024;

/// Keys to be restored on another server.
#[derive(Debug)]
pub struct Errand {
    pub client: ClientId,
    pub host: String,
    pub port: u16,
    pub from: usize,
    pub to: i64,
    /// For connecting, and again for the talk.
    pub timeout: Duration,
    pub login: Option<Login>,
    pub replace: bool,
    /// Do the keys stay here too?
    pub copy: bool,
    pub parcels: Vec<Parcel>,
}

/// How to be let in.
#[derive(Debug)]
pub struct Login {
    pub user: Option<Vec<u8>>,
    pub password: Vec<u8>,
}

/// A key with its serialised value; a TTL of 0 is none.
#[derive(Debug)]
pub struct Parcel {
    pub key: ByteStr,
    pub ttl_ms: u64,
    pub payload: Vec<u8>,
}

/// What came of an errand: how many keys arrived, and the first error.
pub struct Outcome {
    arrived: usize,
    error: Option<Error>,
}

impl Errand {
    /// Takes the keys there. Takes no longer than twice the timeout.
    pub async fn run(&self) -> Outcome {
        let failed = |what: &str| Outcome {
            arrived: 0,
            error: Some(Error::owned(format!(
                "IOERR error or timeout {what} target instance"
            ))),
        };
        let connect = TcpStream::connect((self.host.as_str(), self.port));
        let Ok(Ok(stream)) = timeout(self.timeout, connect).await else {
            // A refused connection shows only when it is written to, in the references' words.
            return failed("writing to");
        };
        match timeout(self.timeout, self.talk(stream)).await {
            Ok(Ok(outcome)) => outcome,
            _ => failed("reading from"),
        }
    }

    async fn talk(&self, mut stream: TcpStream) -> io::Result<Outcome> {
        stream.write_all(&self.requests()).await?;
        let mut replies = Replies::default();
        let mut outcome = Outcome {
            arrived: 0,
            error: None,
        };
        let before = 1 + usize::from(self.login.is_some());
        for at in 0..before + self.parcels.len() {
            let line = replies.next(&mut stream).await?;
            if let Some(text) = line.strip_prefix(b"-") {
                let prefix = b"ERR Target instance replied with error: ".as_slice();
                outcome
                    .error
                    .get_or_insert(Error::owned([prefix, text].concat()));
                if at < before {
                    break;
                }
            } else if at >= before && outcome.error.is_none() {
                outcome.arrived += 1;
            }
        }
        Ok(outcome)
    }

    /// Everything that is to be said, in one piece.
    fn requests(&self) -> Vec<u8> {
        let mut out = Vec::new();
        if let Some(login) = &self.login {
            let user = login.user.as_deref().into_iter();
            let words = std::iter::once(&b"AUTH"[..])
                .chain(user)
                .chain([&login.password[..]]);
            request(&mut out, &words.collect::<Vec<_>>());
        }
        request(&mut out, &[b"SELECT", self.to.to_string().as_bytes()]);
        for parcel in &self.parcels {
            let ttl = parcel.ttl_ms.to_string();
            let mut words: Vec<&[u8]> =
                vec![b"RESTORE", &parcel.key, ttl.as_bytes(), &parcel.payload];
            if self.replace {
                words.push(b"REPLACE");
            }
            request(&mut out, &words);
        }
        out
    }

    /// Ends the request that waits for it. A key that arrived goes away here, unless it was
    /// changed meanwhile or is to stay.
    pub fn finish(&self, engine: &mut Engine, outcome: &Outcome) {
        if !self.copy {
            engine.keys.select(self.from);
            for parcel in &self.parcels[..outcome.arrived] {
                let limits = engine.config.hot.limits;
                let same = engine.keys.peek(&parcel.key).is_some_and(|entry| {
                    serialization::encode(&entry.value, limits) == parcel.payload
                });
                if same {
                    engine.keys.delete(&parcel.key, Event::generic("del"));
                }
            }
        }
        engine.end_wait(self.client, |_, reply: &mut dyn Reply| {
            match &outcome.error {
                Some(error) => reply.error(error),
                None => reply.ok(),
            }
        });
        engine.after_changes();
    }
}

fn request(out: &mut Vec<u8>, words: &[&[u8]]) {
    out.extend_from_slice(format!("*{}\r\n", words.len()).as_bytes());
    for word in words {
        out.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
        out.extend_from_slice(word);
        out.extend_from_slice(b"\r\n");
    }
}

/// One-line replies as they come in.
#[derive(Default)]
struct Replies {
    buffer: Vec<u8>,
}

impl Replies {
    async fn next(&mut self, stream: &mut TcpStream) -> io::Result<Vec<u8>> {
        loop {
            if let Some(end) = self.buffer.windows(2).position(|pair| pair == b"\r\n") {
                let line = self.buffer[..end].to_vec();
                self.buffer.drain(..end + 2);
                return Ok(line);
            }
            if self.buffer.len() > REPLY_MAX || stream.read_buf(&mut self.buffer).await? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
    }
}
