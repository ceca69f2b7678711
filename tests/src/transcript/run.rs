//! Plays a transcript on a server, compares every reply, and notes what the file should say.

use std::collections::HashMap;
use std::fmt;
use std::thread::sleep;
use std::time::{Duration, Instant};

use super::document::{Expectation, Item, Kind};
use super::pattern::{self, Order};
use super::target::Target;
use super::text::{Captures, unquote, words};
use super::wire::{Body, Client, Received, encode};

/// How long a reply that is due may take.
const PATIENCE: Duration = Duration::from_secs(3);
/// How long the recorder waits for a reply that may never come.
const DOUBT: Duration = Duration::from_millis(300);
/// How long the recorder waits for one more reply to the same request.
const AFTERTHOUGHT: Duration = Duration::from_millis(2);

/// A reply that was not what the file says.
#[derive(Debug)]
pub struct Difference {
    /// The line of the expectation.
    pub line: usize,
    /// The request before it.
    pub request: String,
    /// The lines of the file.
    pub expected: Vec<String>,
    /// The lines that would have matched.
    pub got: Vec<String>,
}

impl fmt::Display for Difference {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(out, "line {}: {}", self.line, self.request)?;
        for line in &self.expected {
            writeln!(out, "  expected {line}")?;
        }
        for line in &self.got {
            writeln!(out, "       got {line}")?;
        }
        Ok(())
    }
}

/// What playing a transcript came to.
#[derive(Debug, Default)]
pub struct Outcome {
    /// The replies that were not as the file says.
    pub differences: Vec<Difference>,
    /// Why the file could not be played to its end.
    pub stopped: Option<String>,
    /// The file as it would be right.
    pub rewritten: String,
}

impl Outcome {
    /// Whether the server did all that the file says.
    pub fn is_same(&self) -> bool {
        self.differences.is_empty() && self.stopped.is_none()
    }
}

impl fmt::Display for Outcome {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for difference in &self.differences {
            write!(out, "{difference}")?;
        }
        self.stopped
            .iter()
            .try_for_each(|stopped| writeln!(out, "{stopped}"))
    }
}

/// Plays `items` on a server that is ready for them; `record` also fills in what they leave open.
pub fn play(items: &[Item], target: &dyn Target, record: bool) -> Outcome {
    let mut player = Player::new(target, record);
    let played = player.play(items);
    let mut outcome = player.outcome;
    outcome.stopped = played
        .err()
        .map(|(line, error)| format!("line {line}: {error}"));
    outcome
}

/// Why playing stopped, and at which line.
type Stop = (usize, String);

struct Player<'a> {
    target: &'a dyn Target,
    record: bool,
    clients: HashMap<String, Client>,
    current: String,
    captures: Captures,
    order: Order,
    repeat: Option<(u32, u32)>,
    request: String,
    /// A request was sent for which the file has shown no reply yet.
    unanswered: bool,
    outcome: Outcome,
}

impl<'a> Player<'a> {
    fn new(target: &'a dyn Target, record: bool) -> Self {
        Self {
            target,
            record,
            clients: HashMap::new(),
            current: "a".to_owned(),
            captures: Captures::new(),
            order: Order::Kept,
            repeat: None,
            request: String::new(),
            unanswered: false,
            outcome: Outcome::default(),
        }
    }

    fn play(&mut self, items: &[Item]) -> Result<(), Stop> {
        for (index, item) in items.iter().enumerate() {
            let at_line = |error| (item.line, error);
            match &item.kind {
                Kind::Expect(expectation) => {
                    self.expect(item, expectation).map_err(at_line)?;
                }
                kind => {
                    self.keep(&item.text);
                    self.step(kind).map_err(at_line)?;
                }
            }
            let next = items.get(index + 1).map(|next| &next.kind);
            if !matches!(next, Some(Kind::Expect(_))) && sent_something(&item.kind) {
                self.leftovers(item).map_err(at_line)?;
            }
        }
        self.nothing_left(items.last().map_or(0, |item| item.line))
    }

    fn step(&mut self, kind: &Kind) -> Result<(), String> {
        match kind {
            Kind::Request(words) => self.send(words),
            Kind::Raw(text) => {
                let bytes = unquote(text)?;
                self.begin(text);
                self.client()?.send(&bytes);
                Ok(())
            }
            Kind::Client(name) => {
                self.current.clone_from(name);
                self.client().map(|_| ())
            }
            Kind::Advance(time) => {
                self.target.advance(*time);
                Ok(())
            }
            Kind::Wait(time) => {
                sleep(*time);
                Ok(())
            }
            Kind::Protocol(version) => self.switch_protocol(*version),
            Kind::Repeat(first, last) => {
                self.repeat = Some((*first, *last));
                Ok(())
            }
            Kind::Unordered(order) => {
                self.order = *order;
                Ok(())
            }
            Kind::Close(name) => self.close(name),
            Kind::HalfClose(name) => {
                self.clients.get(name).ok_or("no such client")?.half_close();
                Ok(())
            }
            Kind::Comment | Kind::Config(..) | Kind::Server(_) | Kind::Expect(_) => Ok(()),
        }
    }

    fn client(&mut self) -> Result<&mut Client, String> {
        if !self.clients.contains_key(&self.current) {
            let client = Client::connect(self.target.addr())?;
            self.clients.insert(self.current.clone(), client);
        }
        self.clients
            .get_mut(&self.current)
            .ok_or_else(|| "no client".to_owned())
    }

    fn begin(&mut self, request: &str) {
        request.clone_into(&mut self.request);
        self.unanswered = true;
    }

    fn send(&mut self, text: &str) -> Result<(), String> {
        self.begin(text);
        let Some((first, last)) = self.repeat.take() else {
            let words = words(text, &self.captures)?;
            self.client()?.request(&words);
            return Ok(());
        };
        for number in first..=last {
            self.captures
                .insert("i".to_owned(), number.to_string().into_bytes());
            let bytes = encode(&words(text, &self.captures)?);
            let client = self.client()?;
            client.send(&bytes);
            if number < last {
                client.receive(PATIENCE)?;
            }
        }
        Ok(())
    }

    fn switch_protocol(&mut self, version: u8) -> Result<(), String> {
        let reply = self.client()?.call(&["HELLO", &version.to_string()])?;
        if reply.tag == b'-' {
            Err(format!(
                "HELLO {version}: {}",
                pattern::write(&reply).concat()
            ))
        } else {
            Ok(())
        }
    }

    /// Closes a connection and waits until the server has noticed, so that what follows is certain.
    fn close(&mut self, name: &str) -> Result<(), String> {
        let mut client = self.clients.remove(name).ok_or("no such client")?;
        let peer = client.local_addr()?;
        client.shut();
        self.until(|list| !list.contains(&peer))
    }

    /// Compares the next reply, and keeps the lines of the file if they fit it.
    fn expect(&mut self, item: &Item, expectation: &Expectation) -> Result<(), String> {
        let order = std::mem::replace(&mut self.order, Order::Kept);
        let (fits, got) = match expectation {
            Expectation::Nothing => (true, Vec::new()),
            Expectation::Blocked => {
                let blocked = self.is_blocked()?;
                (
                    blocked,
                    if blocked {
                        Vec::new()
                    } else {
                        self.next_lines()?
                    },
                )
            }
            _ => {
                let received = self.next()?;
                let fits = match (expectation, &received) {
                    (Expectation::Reply(pattern), Received::Reply(reply)) => {
                        pattern::matches(pattern, reply, order, &mut self.captures)
                    }
                    (Expectation::Closed, Received::Closed) => true,
                    _ => false,
                };
                (fits, lines(&received))
            }
        };
        self.unanswered = false;
        if fits {
            self.keep(&item.text);
            return Ok(());
        }
        self.keep(&got);
        self.differ(item.line, &item.text, got)
    }

    fn next(&mut self) -> Result<Received, String> {
        let patience = if self.record { DOUBT } else { PATIENCE };
        self.client()?.receive(patience)
    }

    fn next_lines(&mut self) -> Result<Vec<String>, String> {
        Ok(lines(&self.next()?))
    }

    /// Notes a difference; without a reply there is no telling what the next one belongs to.
    fn differ(&mut self, line: usize, expected: &[String], got: Vec<String>) -> Result<(), String> {
        let silent = got.iter().any(|line| line == "< <nothing>");
        let expected = expected.to_vec();
        let request = self.request.clone();
        let difference = Difference {
            line,
            request,
            expected,
            got,
        };
        self.outcome.differences.push(difference);
        if silent && !self.record {
            Err("no reply came".to_owned())
        } else {
            Ok(())
        }
    }

    /// Records replies that the file does not mention.
    fn leftovers(&mut self, item: &Item) -> Result<(), String> {
        if !self.record || item.kind == Kind::Expect(Expectation::Nothing) {
            return Ok(());
        }
        let mut got = Vec::new();
        if std::mem::take(&mut self.unanswered) {
            got = match self.client()?.receive(DOUBT)? {
                Received::Nothing if self.is_blocked()? => vec!["< <blocked>".to_owned()],
                received => lines(&received),
            };
        }
        while let Received::Reply(reply) = self.client()?.receive(AFTERTHOUGHT)? {
            got.extend(lines(&Received::Reply(reply)));
        }
        if got.is_empty() {
            return Ok(());
        }
        self.keep(&got);
        self.differ(item.line, &[], got)
    }

    /// At the end no client may have a reply left that the file does not mention.
    fn nothing_left(&mut self, end: usize) -> Result<(), Stop> {
        let mut names: Vec<String> = self.clients.keys().cloned().collect();
        names.sort();
        for name in names {
            self.current.clone_from(&name);
            let received = self
                .client()
                .and_then(|client| client.receive(AFTERTHOUGHT));
            match received {
                Ok(Received::Reply(reply)) => {
                    let got = lines(&Received::Reply(reply)).join("\n");
                    return Err((
                        0,
                        format!("client {name} has a reply left at the end: {got}"),
                    ));
                }
                Err(error) => return Err((end, error)),
                _ => {}
            }
        }
        Ok(())
    }

    /// Whether the current client waits in the server, which may take a moment to come true.
    fn is_blocked(&mut self) -> Result<bool, String> {
        let client = self.client()?;
        let addr = client.local_addr()?;
        let waits = |list: &str| {
            list.lines()
                .any(|line| line.contains(&addr) && field(line, "flags").contains('b'))
        };
        Ok(self.until(waits).is_ok() && self.client()?.is_silent()?)
    }

    /// Waits until CLIENT LIST is as told; a connection of its own keeps the others untouched.
    fn until(&mut self, is_so: impl Fn(&str) -> bool) -> Result<(), String> {
        let mut control = Client::connect(self.target.addr())?;
        let deadline = Instant::now() + if self.record { DOUBT } else { PATIENCE };
        loop {
            let reply = control.call(&["CLIENT", "LIST"])?;
            let Body::Text(list) = reply.body else {
                return Err("CLIENT LIST gave no text".to_owned());
            };
            if is_so(&String::from_utf8_lossy(&list)) {
                return Ok(());
            }
            if Instant::now() > deadline {
                return Err("CLIENT LIST did not become as expected".to_owned());
            }
            sleep(Duration::from_millis(1));
        }
    }

    fn keep(&mut self, lines: &[String]) {
        for line in lines {
            self.outcome.rewritten.push_str(line);
            self.outcome.rewritten.push('\n');
        }
    }
}

/// Whether replies may be due after this line.
fn sent_something(kind: &Kind) -> bool {
    matches!(kind, Kind::Request(_) | Kind::Raw(_) | Kind::Expect(_))
}

/// The value of `name=value` in a line of CLIENT LIST.
fn field<'a>(line: &'a str, name: &str) -> &'a str {
    line.split(' ')
        .find_map(|pair| {
            pair.strip_prefix(name)
                .and_then(|rest| rest.strip_prefix('='))
        })
        .unwrap_or("")
}

/// What was received, as lines of a transcript.
fn lines(received: &Received) -> Vec<String> {
    match received {
        Received::Reply(reply) => pattern::write(reply)
            .iter()
            .map(|line| format!("< {line}"))
            .collect(),
        Received::Closed => vec!["< <closed>".to_owned()],
        Received::Nothing => vec!["< <nothing>".to_owned()],
    }
}
