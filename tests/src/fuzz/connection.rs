//! Whole connections of any bytes: what comes back are whole replies, and the server goes on.

use std::time::Duration;

use khoa_server::Server;
use khoa_server::fuzzing::limit_script_memory;
use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, ReadHalf, WriteHalf};
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};

use super::{seeds, watch};

/// How many clients there may be.
pub const CLIENTS: usize = 4;
/// What the data may occupy, in bytes, and what a Lua state may.
const DATA_MAX: &str = "32mb";
const SCRIPT_MEMORY_MAX: usize = 16 << 20;
/// By the clock of the paused runtime, which goes on at once when nobody has anything to do.
const PATIENCE: Duration = Duration::from_secs(1000);
const MOMENT: Duration = Duration::from_millis(1);

/// What would reach out of the process, or lift the limits that are watched.
const LEFT_OUT: [&str; 5] = [
    "migrate",
    "maxmemory",
    "proto-max-bulk-len",
    "client-output-buffer-limit",
    "client-query-buffer-limit",
];

/// What one of the clients, or the clock, does next.
pub enum Step {
    Send(usize, Vec<u8>),
    Close(usize),
    Advance(Duration),
}

/// The first byte says in pieces of how many bytes the others are sent.
pub fn run(input: &[u8]) {
    let Some((&size, bytes)) = input.split_first() else {
        return;
    };
    let size = if size == 0 { bytes.len() } else { size.into() };
    let pieces = bytes.chunks(size.max(1));
    let steps = pieces.map(|piece| Step::Send(0, piece.to_vec())).collect();
    talk(steps);
}

/// Lets clients and the server talk, and tells how many replies each client got.
pub fn talk(steps: Vec<Step>) -> Vec<usize> {
    let lower = sent(&steps).to_ascii_lowercase();
    let says = |word: &str| {
        lower
            .windows(word.len())
            .any(|part| part == word.as_bytes())
    };
    if LEFT_OUT.iter().any(|word| says(word)) {
        return vec![0; CLIENTS];
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime");
    runtime.block_on(async {
        let server = start();
        let watched = watch::scripts(&server);
        let mut clients: [Option<Client>; CLIENTS] = Default::default();
        for step in steps {
            match step {
                Step::Send(number, bytes) => {
                    let client = clients[number].get_or_insert_with(|| Client::new(&server));
                    client.send(&bytes).await;
                }
                Step::Close(number) => drop(clients[number].take()),
                Step::Advance(time) => server.advance(time),
            }
            sleep(MOMENT).await;
        }
        let mut replies = Vec::new();
        let is_held = says("pause");
        for client in clients {
            let heard = match client {
                Some(client) => client.finish().await,
                None => Some(0),
            };
            assert!(heard.is_some() || is_held, "the connection does not end");
            replies.push(heard.unwrap_or(0));
        }
        let mut client = Client::new(&server);
        client.send(b"PING\r\n").await;
        let answered = client.finish().await.is_some_and(|replies| replies > 0);
        assert!(answered || is_held || says("shutdown"), "no answer to PING");
        drop(watched);
        replies
    })
}

/// All that is sent, without the byte that inline requests are read without.
fn sent(steps: &[Step]) -> Vec<u8> {
    let bytes = steps.iter().flat_map(|step| match step {
        Step::Send(_, bytes) => &bytes[..],
        Step::Close(_) | Step::Advance(_) => &[],
    });
    bytes.copied().filter(|&byte| byte != 0xff).collect()
}

fn start() -> Server {
    let server = Server::builder()
        .in_runtime()
        .seed(1)
        .setting("maxmemory", DATA_MAX)
        .setting("proto-max-bulk-len", "1mb")
        .setting("client-query-buffer-limit", "2mb")
        .start()
        .expect("a server");
    limit_script_memory(&server, SCRIPT_MEMORY_MAX);
    server
}

/// A client that reads all the time and only counts the replies.
struct Client {
    to_server: WriteHalf<DuplexStream>,
    replies: JoinHandle<usize>,
}

impl Client {
    fn new(server: &Server) -> Client {
        let (from_server, to_server) = tokio::io::split(server.stream());
        let replies = tokio::spawn(count_replies(from_server));
        Client { to_server, replies }
    }

    async fn send(&mut self, bytes: &[u8]) {
        // A server that has closed the connection, or holds the client back, takes nothing.
        let _ = timeout(PATIENCE, self.to_server.write_all(bytes)).await;
    }

    /// Ends the sending half and waits for the other to end.
    async fn finish(mut self) -> Option<usize> {
        let _ = self.to_server.shutdown().await;
        let replies = timeout(PATIENCE, self.replies).await.ok()?;
        Some(replies.expect("only whole replies"))
    }
}

/// Reads to the end of the connection. What the server sends by itself does not count.
async fn count_replies(mut from_server: ReadHalf<DuplexStream>) -> usize {
    /// Beyond this much of an unfinished reply, it is looked at when it has doubled.
    const OFTEN: usize = 64 * 1024;
    let (mut bytes, mut replies, mut look_at) = (Vec::new(), 0, 0);
    while from_server.read_buf(&mut bytes).await.unwrap_or(0) > 0 {
        if bytes.len() < look_at {
            continue;
        }
        let mut at = 0;
        while let Some(len) = reply_len(&bytes[at..]) {
            replies += usize::from(bytes[at] != b'>');
            at += len;
        }
        bytes.drain(..at);
        look_at = if bytes.len() > OFTEN {
            bytes.len() * 2
        } else {
            0
        };
    }
    let mut rest = &bytes[..];
    while let Some(len) = reply_len(rest) {
        replies += usize::from(rest[0] != b'>');
        rest = &rest[len..];
    }
    assert!(rest.is_empty(), "half a reply: {}", rest.escape_ascii());
    replies
}

/// The length of the reply at the beginning, with the attributes before it, once it is whole.
fn reply_len(bytes: &[u8]) -> Option<usize> {
    let (mut at, mut missing) = (0, 1);
    while missing > 0 {
        let rest = &bytes[at..];
        let end = rest.windows(2).position(|pair| pair == b"\r\n")?;
        let (&tag, line) = rest[..end].split_first().expect("a type byte");
        at += end + 2;
        missing -= 1;
        match tag {
            b'+' | b'-' | b':' | b',' | b'#' | b'(' | b'_' => {}
            b'$' | b'=' | b'!' => {
                if let Some(len) = length(line) {
                    let end = bytes.get(at + len..at + len + 2)?;
                    assert_eq!(end, b"\r\n", "the end of a string");
                    at += len + 2;
                }
            }
            b'*' | b'~' | b'>' => missing += length(line).unwrap_or(0),
            b'%' => missing += 2 * length(line).unwrap_or(0),
            b'|' => missing += 2 * length(line).unwrap_or(0) + 1,
            _ => panic!("not a reply: {}", rest.escape_ascii()),
        }
    }
    Some(at)
}

/// A length; -1 is none.
fn length(line: &[u8]) -> Option<usize> {
    match std::str::from_utf8(line) {
        Ok("-1") => None,
        text => Some(
            text.ok()
                .and_then(|text| text.parse().ok())
                .expect("a length"),
        ),
    }
}

pub fn seeds() -> Vec<Vec<u8>> {
    let sizes = [0, 7, 0, 1].iter().cycle();
    let streams = seeds::streams().into_iter().zip(sizes);
    let seed = |(bytes, &size): (Vec<u8>, &u8)| [&[size], &bytes[..]].concat();
    streams.map(seed).collect()
}
