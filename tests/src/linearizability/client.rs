//! A client of the store: does its steps over a real connection and notes what it saw.

use std::net::SocketAddr;
use std::sync::LazyLock;
use std::time::Duration;

use super::counts::Counts;
use super::history::{Operation, Stamps};
use super::program::{REFUSAL, Release, Step};
use super::store::{Call, Command, Key, Reply, TICK_MS, When};
use crate::transcript::wire::{Body, Client as Wire, Received, Reply as Raw};

/// After so long without an answer, on any machine, the server hangs.
const PATIENCE: Duration = Duration::from_secs(60);
const RELEASE: &str =
    "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0";
/// Runs the commands that its arguments spell, each after its number of words.
const TOGETHER: &str = "local replies, at = {}, 1
while ARGV[at] do
  local last = at + tonumber(ARGV[at])
  replies[#replies + 1] = redis.call(unpack(ARGV, at + 1, last))
  at = last + 1
end
return replies";

static RELEASE_DIGEST: LazyLock<String> =
    LazyLock::new(|| redis::Script::new(RELEASE).get_hash().to_owned());

type Words = Vec<String>;

/// What a client saw of the store.
pub type Seen = Operation<Call, Reply>;

/// A client with its connection, while it has one.
pub struct Client<'a> {
    number: usize,
    addr: SocketAddr,
    stamps: &'a Stamps,
    connection: Option<Wire>,
    /// The number of the last marker, and of the last wait.
    last: u64,
    /// What it saw so far.
    pub history: Vec<Seen>,
    /// What went wrong so far.
    pub counts: Counts,
    /// Called between the two steps of the seeded bug.
    pub between: Box<dyn FnMut() + Send + 'a>,
}

/// What came of a request.
enum Heard {
    /// An answer to each part.
    Answers(Vec<Reply>),
    /// The server said that it did nothing.
    Refused,
    /// Nobody knows.
    Lost,
}

impl<'a> Client<'a> {
    /// A client that has not connected yet.
    pub fn new(number: usize, addr: SocketAddr, stamps: &'a Stamps) -> Self {
        Self {
            number,
            addr,
            stamps,
            connection: None,
            last: 0,
            history: Vec::new(),
            counts: Counts::default(),
            between: Box::new(|| {}),
        }
    }

    /// Does one step.
    pub fn run(&mut self, step: &Step) {
        match step {
            Step::One(command) => self.perform(Call::One(command.clone()), &[words(command)]),
            Step::Transaction(commands) => {
                let requests = transaction(commands.iter().map(words));
                self.perform(Call::Together(commands.clone()), &requests);
            }
            Step::Script(commands) => {
                let mut request = text(&["EVAL", TOGETHER, "0"]);
                for command in commands {
                    let words = words(command);
                    request.push(words.len().to_string());
                    request.extend(words);
                }
                self.perform(Call::Together(commands.clone()), &[request]);
            }
            Step::Acquire {
                key,
                token,
                ticks,
                nx,
            } => {
                let mut set = Command::Set {
                    key: *key,
                    value: *token,
                    when: When::Missing,
                    ticks: Some(*ticks),
                };
                let claim = Call::One(set.clone());
                if let (false, Command::Set { when, .. }) = (nx, &mut set) {
                    *when = When::Always;
                }
                self.perform(claim, &[words(&set)]);
            }
            Step::Release { key, token, by } => self.release(*key, *token, *by),
            Step::Increment(key) => self.increment(*key),
            Step::Wait { from, into, ticks } => self.wait(from, *into, *ticks),
        }
    }

    /// Sends requests that are one call, whose outcome the last one answers.
    fn perform(&mut self, call: Call, requests: &[Words]) {
        let invoked = self.stamps.next();
        let heard = self.ask(requests);
        self.note(call, invoked, heard);
    }

    fn release(&mut self, key: Key, token: i64, by: Release) {
        let call = Call::One(Command::DeleteIfEqual(key, token));
        let (name, value) = (key.to_string(), token.to_string());
        match by {
            Release::DelIfEq => self.perform(call, &[text(&["DELIFEQ", &name, &value])]),
            Release::Script => {
                let invoked = self.stamps.next();
                let by = |how: &str, script: &str| text(&[how, script, "1", &name, &value]);
                let mut heard = self.ask(&[by("EVALSHA", &RELEASE_DIGEST)]);
                if matches!(&heard, Heard::Answers(replies) if says(replies, "NOSCRIPT")) {
                    heard = self.ask(&[by("EVAL", RELEASE)]);
                }
                self.note(call, invoked, heard);
            }
            Release::Watch => {
                let del = text(&["DEL", &name]);
                self.optimistic(call, key, |held| (held == token).then_some(del));
            }
            Release::GetThenDel => {
                let invoked = self.stamps.next();
                let Heard::Answers(found) = self.ask(&[text(&["GET", &name])]) else {
                    return;
                };
                if found != [Reply::Number(token)] {
                    return self.note(call, invoked, Heard::Answers(vec![Reply::Number(0)]));
                }
                (self.between)();
                let heard = self.ask(&[text(&["DEL", &name])]);
                self.note(call, invoked, heard);
            }
        }
    }

    fn increment(&mut self, key: Key) {
        let call = Call::One(Command::Increment(key));
        self.optimistic(call, key, |value| {
            let more = (value + 1).to_string();
            Some(text(&["SET", &key.to_string(), &more, "KEEPTTL"]))
        });
    }

    /// Watches a key, reads it, and writes what follows from it unless somebody else did
    /// meanwhile. Where nothing follows, the call came to nothing: 0.
    fn optimistic(&mut self, call: Call, key: Key, then: impl FnOnce(i64) -> Option<Words>) {
        let name = key.to_string();
        let invoked = self.stamps.next();
        let found = self.ask(&[text(&["WATCH", &name]), text(&["GET", &name])]);
        let Heard::Answers(found) = found else {
            // Nothing was written; a connection that may still watch is of no use.
            self.connection = None;
            return;
        };
        let value = match found[1] {
            Reply::Number(value) => value,
            _ => 0,
        };
        let Some(write) = then(value) else {
            let _ = self.ask(&[text(&["UNWATCH"])]);
            return self.note(call, invoked, Heard::Answers(vec![Reply::Number(0)]));
        };
        let heard = self.ask(&transaction([write]));
        let heard = match heard {
            Heard::Answers(replies) => match replies.last() {
                Some(Reply::Nil) => return,
                Some(Reply::Many(done)) if *done == [Reply::Ok] => {
                    Heard::Answers(vec![Reply::Number(value + 1)])
                }
                Some(Reply::Many(done)) => Heard::Answers(done.clone()),
                _ => Heard::Answers(replies),
            },
            other => {
                self.connection = None;
                other
            }
        };
        self.note(call, invoked, heard);
    }

    fn wait(&mut self, from: &[Key], into: Option<Key>, ticks: Option<u64>) {
        self.last += 1;
        let id = self.number as u64 * 1000 + self.last;
        let call = Call::Wait {
            id,
            from: from.to_vec(),
            into,
            ticks,
        };
        let seconds = ticks.map_or(0.0, |ticks| (ticks * TICK_MS) as f64 / 1000.0);
        let mut request = match into {
            Some(into) => text(&["BLMOVE", &from[0].to_string(), &into.to_string()]),
            None => text(&["BLPOP"]),
        };
        match into {
            Some(_) => request.extend(text(&["LEFT", "RIGHT"])),
            None => request.extend(from.iter().map(Key::to_string)),
        }
        request.push(seconds.to_string());
        let invoked = self.stamps.next();
        let heard = self.ask(&[request]);
        let refused = matches!(heard, Heard::Refused);
        self.note(call, invoked, heard);
        if refused {
            return;
        }
        let end = self.history.last().and_then(|wait| wait.returned.clone());
        self.history.push(Operation {
            client: self.number,
            call: if end.is_some() {
                Call::Leave(id)
            } else {
                Call::Depart(id)
            },
            invoked,
            returned: end,
        });
    }

    fn note(&mut self, call: Call, invoked: u64, heard: Heard) {
        let returned = match heard {
            Heard::Answers(mut replies) => {
                let reply = replies.pop().unwrap_or(Reply::Nil);
                Some((self.stamps.next(), reply))
            }
            Heard::Refused => return,
            Heard::Lost if call.only_reads() => return,
            Heard::Lost => None,
        };
        self.history.push(Operation {
            client: self.number,
            call,
            invoked,
            returned,
        });
    }

    /// Sends requests with a marker behind them: an answer that does not come before the
    /// marker's never will, and nobody has to wait to know it.
    fn ask(&mut self, requests: &[Words]) -> Heard {
        self.last += 1;
        let marker = format!("marker {}", self.last);
        let mut bytes = Vec::new();
        for request in requests {
            bytes.extend(crate::transcript::wire::encode(request));
        }
        bytes.extend(crate::transcript::wire::encode(&["ECHO", &marker]));
        let wire = self.connection.get_or_insert_with(|| connect(self.addr));
        wire.send(&bytes);
        let mut replies = Vec::new();
        loop {
            match wire.receive(PATIENCE) {
                Ok(Received::Reply(raw)) if is_text(&raw, &marker) => break,
                Ok(Received::Reply(raw)) => replies.push(reply(&raw)),
                Ok(Received::Closed) => {
                    self.connection = None;
                    self.counts.add("connection gone under a call", 1);
                    return Heard::Lost;
                }
                Ok(Received::Nothing) => panic!("no answer to {requests:?} within {PATIENCE:?}"),
                Err(error) => panic!("{requests:?}: {error}"),
            }
        }
        if says(&replies, REFUSAL) || says(&replies, "EXECABORT") {
            self.counts.add("call refused", 1);
            return Heard::Refused;
        }
        if replies.len() < requests.len() {
            self.counts.add("reply swallowed", 1);
            return Heard::Lost;
        }
        Heard::Answers(replies)
    }
}

/// A connection; the server may be on its way down or up again.
fn connect(addr: SocketAddr) -> Wire {
    let begun = std::time::Instant::now();
    loop {
        match Wire::connect(addr) {
            Ok(wire) => return wire,
            Err(error) if begun.elapsed() > PATIENCE => panic!("{error}"),
            Err(_) => std::thread::yield_now(),
        }
    }
}

/// Whether the last answer is this error.
fn says(replies: &[Reply], error: &str) -> bool {
    matches!(replies.last(), Some(Reply::Error(text)) if text.starts_with(error))
}

fn is_text(raw: &Raw, wanted: &str) -> bool {
    raw.tag == b'$' && matches!(&raw.body, Body::Text(text) if text == wanted.as_bytes())
}

fn reply(raw: &Raw) -> Reply {
    match &raw.body {
        Body::Null => Reply::Nil,
        Body::Many(items) => Reply::Many(items.iter().map(reply).collect()),
        Body::Text(text) => {
            let text = String::from_utf8_lossy(text);
            let mut letters = text.chars();
            match (raw.tag, text.parse(), letters.next(), letters.next()) {
                (b'+', ..) => Reply::Ok,
                (b'-', ..) => Reply::Error(text.into_owned()),
                (_, Ok(number), ..) => Reply::Number(number),
                (_, _, Some(key), None) => Reply::Key(key),
                _ => Reply::Error(format!("unexpected: {text}")),
            }
        }
    }
}

fn transaction(commands: impl IntoIterator<Item = Words>) -> Vec<Words> {
    let mut requests = vec![text(&["MULTI"])];
    requests.extend(commands);
    requests.push(text(&["EXEC"]));
    requests
}

fn text(words: &[&str]) -> Words {
    words.iter().map(ToString::to_string).collect()
}

fn words(command: &Command) -> Words {
    let line = match command {
        Command::Get(key) => format!("GET {key}"),
        Command::Set {
            key,
            value,
            when,
            ticks,
        } => {
            let when = match when {
                When::Always => "",
                When::Missing => " NX",
                When::Present => " XX",
            };
            let px = ticks.map_or_else(String::new, |ticks| format!(" PX {}", ticks * TICK_MS));
            format!("SET {key} {value}{when}{px}")
        }
        Command::Delete(key) => format!("DEL {key}"),
        Command::DeleteIfEqual(key, value) => format!("DELIFEQ {key} {value}"),
        Command::Increment(key) => format!("INCR {key}"),
        Command::Expire(key, ticks) => format!("PEXPIRE {key} {}", ticks * TICK_MS),
        Command::TimeLeft(key) => format!("PTTL {key}"),
        Command::Push(key, value) => format!("RPUSH {key} {value}"),
        Command::Pop(key) => format!("LPOP {key}"),
        Command::Length(key) => format!("LLEN {key}"),
    };
    line.split(' ').map(str::to_owned).collect()
}
