//! Runs a sequence on both servers, a client at a time, and compares what comes back.

use std::ops::Range;
use std::thread::sleep;

use khoa_server::command::{self, spec::Flags};

use crate::transcript::wire::{Body, Reply};

use super::Words;
use super::contents::Contents;
use super::differences::{DIFFERENCES, Reference, name_of, same, same_pushes};
use super::peer::{Frames, Peer, is_push, read};
use super::sequence::{SETTINGS, Sequence, Step};

/// The most requests and bytes that are sent before their replies are read.
const MOST_AT_ONCE: usize = 64;
const MOST_BYTES_AT_ONCE: usize = 64 * 1024;

/// A difference that no row explains.
#[derive(Clone, Debug)]
pub struct Found {
    /// How many steps had been run when it showed.
    pub steps: usize,
    /// What kind of difference it is: two of the same kind are likely the same fault.
    pub kind: String,
    /// The request, and what each server said, for people.
    pub story: String,
}

/// Both servers, and what was counted.
pub struct Pair {
    /// khoa-server.
    pub ours: Peer,
    /// The reference.
    pub theirs: Peer,
    reference: Reference,
    /// How often each row of the differences was needed.
    pub used: Vec<u64>,
    /// Requests that both servers ran.
    pub requests: u64,
}

impl Pair {
    /// Connects to both, and makes the settings that all sequences need.
    pub fn connect(ours: Peer, theirs: Peer) -> Result<Self, String> {
        let mut pair = Self {
            ours,
            theirs,
            reference: Reference::Khoa,
            used: vec![0; DIFFERENCES.len()],
            requests: 0,
        };
        let info = super::peer::text(&pair.theirs.demand(&["INFO", "server"])?);
        pair.reference = Reference::of_info(&info);
        // Events have other names and another order in older ones.
        let events = if pair.reference.is_older() { "" } else { "KEA" };
        pair.both(|peer| {
            peer.demand(&["CONFIG", "SET", "notify-keyspace-events", events])
                .map(drop)
        })?;
        Ok(pair)
    }

    /// Which server the reference is.
    pub fn reference(&self) -> Reference {
        self.reference
    }

    fn both(&mut self, act: impl Fn(&mut Peer) -> Result<(), String>) -> Result<(), String> {
        act(&mut self.ours)?;
        act(&mut self.theirs)
    }

    /// Empties both servers and opens the clients' connections.
    fn prepare(&mut self, sequence: &Sequence) -> Result<(), String> {
        self.both(|peer| {
            peer.renew(sequence.clients, sequence.protocol)?;
            for request in [
                &["FLUSHALL"][..],
                &["SCRIPT", "FLUSH"],
                &["FUNCTION", "FLUSH"],
                &["SELECT", "0"],
            ] {
                peer.demand(request)?;
            }
            for &(name, default, _) in SETTINGS {
                let chosen = sequence.settings.iter().find(|(other, _)| *other == name);
                let value = chosen.map_or(default, |(_, value)| value);
                // An older reference lacks some of them.
                peer.call(&["CONFIG", "SET", name, value])?;
            }
            Ok(())
        })
    }

    /// Runs a sequence; an error means that a server could not be asked at all.
    pub fn run(&mut self, sequence: &Sequence) -> Result<Option<Found>, String> {
        self.prepare(sequence)?;
        let mut run = Run {
            clients: vec![State::default(); sequence.clients],
            pair: self,
            sequence,
            sent: 0,
        };
        match run.steps() {
            Err(Stop::Found(found)) => return Ok(Some(found)),
            Err(Stop::Broken(error)) => return Err(error),
            Ok(()) => {}
        }
        let mut contents = Contents {
            ours: &mut self.ours,
            theirs: &mut self.theirs,
            reference: self.reference,
        };
        let differs = contents.compare()?;
        Ok(differs.map(|(kind, story)| Found {
            steps: sequence.steps.len(),
            kind,
            story,
        }))
    }
}

/// Why a run ended early.
enum Stop {
    Found(Found),
    Broken(String),
}

impl From<String> for Stop {
    fn from(error: String) -> Self {
        Self::Broken(error)
    }
}

/// What is known of a client while a sequence runs.
#[derive(Clone, Default)]
struct State {
    /// Is it in MULTI, as far as the requests tell?
    in_multi: bool,
    /// The steps that both servers queued.
    queued: Vec<usize>,
    /// The step in which it waits.
    blocked: Option<usize>,
}

struct Run<'a> {
    pair: &'a mut Pair,
    sequence: &'a Sequence,
    clients: Vec<State>,
    /// How many steps have been run.
    sent: usize,
}

impl Run<'_> {
    fn steps(&mut self) -> Result<(), Stop> {
        let mut at = 0;
        while at < self.sequence.steps.len() {
            at = match &self.sequence.steps[at] {
                Step::Request { client, .. } if self.clients[*client].blocked.is_some() => at + 1,
                Step::Request { client, .. } => self.batch(*client, at)?,
                Step::Reconnect(client) => {
                    let (client, protocol) = (*client, self.sequence.protocol);
                    self.pair.both(|peer| peer.reconnect(client, protocol))?;
                    self.clients[client] = State::default();
                    at + 1
                }
                Step::Pause(time) => {
                    sleep(*time);
                    at + 1
                }
            };
            self.settle(at - 1)?;
        }
        self.last_pushes()
    }

    fn request(&self, step: usize) -> &Words {
        match &self.sequence.steps[step] {
            Step::Request { words, .. } => words,
            _ => unreachable!("only requests are asked for by their step"),
        }
    }

    /// Sends a client's next requests and compares the replies. One that may block goes alone.
    fn batch(&mut self, client: usize, start: usize) -> Result<usize, Stop> {
        let (mut end, mut bytes) = (start, 0);
        while let Some(Step::Request {
            client: other,
            words,
        }) = self.sequence.steps.get(end)
        {
            let full = end - start == MOST_AT_ONCE || bytes > MOST_BYTES_AT_ONCE;
            let waits = !self.clients[client].in_multi && may_block(words);
            if waits && end == start && *other == client {
                return self.blocking(client, start);
            }
            if *other != client || full || waits {
                break;
            }
            self.clients[client].follow(words);
            bytes += words.iter().map(Vec::len).sum::<usize>();
            end += 1;
        }
        let fenced = !self.clients[client].in_multi;
        let answered = |step: &&Step| step.words().is_some_and(|words| !subscribes(words));
        let count = self.sequence.steps[start..end]
            .iter()
            .filter(answered)
            .count();
        self.send(client, start..end, fenced)?;
        let (ours, theirs) = if fenced {
            self.gather(end - 1, |peer| peer.up_to_fence(client))?
        } else {
            self.gather(end - 1, |peer| peer.replies(client, count))?
        };
        let steps: Vec<usize> = (start..end).collect();
        self.compare(client, &steps, &ours, &theirs)?;
        Ok(end)
    }

    fn send(&mut self, client: usize, steps: Range<usize>, fenced: bool) -> Result<(), Stop> {
        let sequence = self.sequence;
        let end = steps.end;
        let requests: Vec<&Words> = sequence.steps[steps]
            .iter()
            .filter_map(Step::words)
            .collect();
        self.pair.requests += requests.len() as u64;
        self.sent = end;
        Ok(self
            .pair
            .both(|peer| peer.send(client, &requests, fenced))?)
    }

    /// Sends a request that may wait for others; a short wait is sat out.
    fn blocking(&mut self, client: usize, step: usize) -> Result<usize, Stop> {
        self.send(client, step..step + 1, false)?;
        if !is_brief(self.request(step)) && self.waits(client, step)? {
            self.clients[client].blocked = Some(step);
            return Ok(step + 1);
        }
        let (ours, theirs) = self.gather(step, |peer| peer.replies(client, 1))?;
        self.compare(client, &[step], &ours, &theirs)?;
        Ok(step + 1)
    }

    /// The clients that wait.
    fn blocked(&self) -> Vec<usize> {
        let waits = |&client: &usize| self.clients[client].blocked.is_some();
        (0..self.clients.len()).filter(waits).collect()
    }

    fn gather(
        &mut self,
        step: usize,
        take: impl Fn(&mut Peer) -> Result<Frames, String>,
    ) -> Result<(Frames, Frames), Stop> {
        let (ours, theirs) = (take(&mut self.pair.ours), take(&mut self.pair.theirs));
        match (ours, theirs) {
            (Ok(ours), Ok(theirs)) => Ok((ours, theirs)),
            (ours, theirs) => Err(self.silence(step, &ours, &theirs)),
        }
    }

    fn silence(
        &self,
        step: usize,
        ours: &Result<Frames, String>,
        theirs: &Result<Frames, String>,
    ) -> Stop {
        let say = |one: &Result<Frames, String>| match one {
            Ok(frames) => format!("{} replies", frames.len()),
            Err(error) => error.clone(),
        };
        self.found(step, "silence", &say(ours), &say(theirs))
    }

    fn found(&self, step: usize, kind: &str, ours: &str, theirs: &str) -> Stop {
        let words = self.request(step);
        let plain: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
        let name = name_of(&plain);
        Stop::Found(Found {
            steps: self.sent,
            kind: if kind.starts_with("push") {
                kind.to_owned()
            } else {
                format!("{name}: {kind}")
            },
            story: format!(
                "{}\n  khoa      {ours}\n  reference {theirs}",
                super::report::line(words)
            ),
        })
    }

    /// Whether a client's request waits in both servers.
    fn waits(&mut self, client: usize, step: usize) -> Result<bool, Stop> {
        let others = self.blocked().len() as i64;
        let mut wait = [false; 2];
        let peers = [&mut self.pair.ours, &mut self.pair.theirs];
        for (peer, waits) in peers.into_iter().zip(&mut wait) {
            peer.until("a request is answered or blocks", |peer| {
                Ok(peer.has_reply(client)? || peer.blocked()? > others)
            })?;
            *waits = !peer.has_reply(client)?;
        }
        if wait[0] == wait[1] {
            return Ok(wait[0]);
        }
        let say = |waits| if waits { "blocks" } else { "answers" };
        Err(self.found(step, "blocks on one", say(wait[0]), say(wait[1])))
    }

    /// Compares which of the blocked clients were served meanwhile, and with what.
    fn settle(&mut self, step: usize) -> Result<(), Stop> {
        let blocked = self.blocked();
        if blocked.is_empty() {
            return Ok(());
        }
        let served = [
            served(&mut self.pair.ours, &blocked)?,
            served(&mut self.pair.theirs, &blocked)?,
        ];
        if served[0] != served[1] {
            let say = |served: &[usize]| format!("serves {served:?} of {blocked:?}");
            return Err(self.found_at(step, "serves others", &say(&served[0]), &say(&served[1])));
        }
        for &client in &served[0] {
            let step = self.clients[client].blocked.take().unwrap_or(step);
            let (ours, theirs) = self.gather(step, |peer| peer.replies(client, 1))?;
            self.compare(client, &[step], &ours, &theirs)?;
        }
        Ok(())
    }

    /// As [`Run::found`], for a step that may be no request.
    fn found_at(&self, step: usize, kind: &str, ours: &str, theirs: &str) -> Stop {
        let request = (0..=step)
            .rev()
            .find(|&at| self.sequence.steps[at].words().is_some());
        self.found(request.unwrap_or(step), kind, ours, theirs)
    }

    /// What was sent to clients that asked nothing since.
    fn last_pushes(&mut self) -> Result<(), Stop> {
        let Some(last) = self
            .sequence
            .steps
            .iter()
            .rposition(|step| step.words().is_some())
        else {
            return Ok(());
        };
        for client in 0..self.clients.len() {
            if self.clients[client].blocked.is_none() && !self.clients[client].in_multi {
                self.pair.both(|peer| peer.send(client, &[], true))?;
                let (ours, theirs) = self.gather(last, |peer| peer.up_to_fence(client))?;
                self.compare(client, &[last], &ours, &theirs)?;
            }
        }
        Ok(())
    }

    /// Compares the replies to some steps, and follows what was queued.
    fn compare(
        &mut self,
        client: usize,
        steps: &[usize],
        ours: &Frames,
        theirs: &Frames,
    ) -> Result<(), Stop> {
        let queues = self.clients[client].in_multi
            || !self.clients[client].queued.is_empty()
            || steps.iter().any(|&step| is(self.request(step), "multi"));
        if ours == theirs && !queues {
            return Ok(());
        }
        let mut requests = steps.iter().copied();
        let mut step = steps[0];
        let (mut all_ours, mut all_theirs) = (turns(ours), turns(theirs));
        loop {
            let (ours, theirs) = match (all_ours.next(), all_theirs.next()) {
                (None, None) => return Ok(()),
                (ours, theirs) => (ours.unwrap_or_default(), theirs.unwrap_or_default()),
            };
            self.same_pushes(step, &ours.0, &theirs.0)?;
            match (ours.1, theirs.1) {
                (None, None) => {}
                (Some(ours), Some(theirs)) => {
                    step = next_answered(self.sequence, &mut requests).unwrap_or(step);
                    self.same_or_found(step, client, ours, theirs)?;
                    self.note_queued(client, step, theirs);
                }
                (ours, theirs) => {
                    let say = |frame: Option<&[u8]>| frame.map_or("nothing more".to_owned(), show);
                    return Err(self.found(step, "number of replies", &say(ours), &say(theirs)));
                }
            }
        }
    }

    /// Compares what came unasked between two replies.
    fn same_pushes(&mut self, step: usize, ours: &[&[u8]], theirs: &[&[u8]]) -> Result<(), Stop> {
        if ours == theirs {
            return Ok(());
        }
        let all = |frames: &[&[u8]]| {
            frames
                .iter()
                .map(|frame| read(frame))
                .collect::<Result<Vec<_>, _>>()
        };
        let (one, other) = (all(ours)?, all(theirs)?);
        if same_pushes(&one, &other) {
            return Ok(());
        }
        let differs = one.iter().zip(&other).find(|(one, other)| one != other);
        let kind = differs.map_or("push missing".to_owned(), |(_, other)| match &other.body {
            Body::Many(many) => format!(
                "push of {}",
                many.first().map(super::peer::text).unwrap_or_default()
            ),
            _ => "push".to_owned(),
        });
        let say = |frames: &[&[u8]]| {
            frames
                .iter()
                .map(|frame| show(frame))
                .collect::<Vec<_>>()
                .join(" ")
        };
        Err(self.found(step, &kind, &say(ours), &say(theirs)))
    }

    fn note_queued(&mut self, client: usize, step: usize, theirs: &[u8]) {
        if theirs == b"+QUEUED\r\n" {
            self.clients[client].queued.push(step);
        } else if ["multi", "exec", "discard"]
            .iter()
            .any(|name| is(self.request(step), name))
        {
            self.clients[client].queued.clear();
        }
    }

    fn same_or_found(
        &mut self,
        step: usize,
        client: usize,
        ours: &[u8],
        theirs: &[u8],
    ) -> Result<(), Stop> {
        if ours == theirs {
            return Ok(());
        }
        let (one, other) = (read(ours)?, read(theirs)?);
        let mut used = std::mem::take(&mut self.pair.used);
        let queue =
            is(self.request(step), "exec").then_some(self.clients[client].queued.as_slice());
        let same = self.explained(step, queue, &one, &other, &mut used);
        self.pair.used = used;
        if same {
            return Ok(());
        }
        let kind = format!("{} instead of {}", class(&one), class(&other));
        Err(self.found(step, &kind, &show(ours), &show(theirs)))
    }

    /// Whether rows explain what differs; in EXEC's reply each element by its own request.
    fn explained(
        &self,
        step: usize,
        queue: Option<&[usize]>,
        ours: &Reply,
        theirs: &Reply,
        used: &mut [u64],
    ) -> bool {
        if let (Some(queue), Body::Many(one), Body::Many(other)) = (queue, &ours.body, &theirs.body)
        {
            return ours.tag == theirs.tag
                && one.len() == other.len()
                && queue.len() == one.len()
                && queue
                    .iter()
                    .zip(one.iter().zip(other))
                    .all(|(&step, (one, other))| self.explained(step, None, one, other, used));
        }
        let request: Vec<&[u8]> = self.request(step).iter().map(Vec::as_slice).collect();
        same(&request, self.pair.reference, ours, theirs, used)
    }
}

/// Pushes, and the reply behind them.
type Turn<'a> = (Vec<&'a [u8]>, Option<&'a [u8]>);

/// The replies, each with the pushes before it, and the pushes behind the last one.
fn turns(frames: &Frames) -> impl Iterator<Item = Turn<'_>> {
    let mut frames = frames.iter();
    std::iter::from_fn(move || {
        let mut pushes = Vec::new();
        for frame in frames.by_ref() {
            if !is_push(frame) {
                return Some((pushes, Some(frame)));
            }
            pushes.push(frame);
        }
        (!pushes.is_empty()).then_some((pushes, None))
    })
}

/// Which of the clients that waited have been answered.
fn served(peer: &mut Peer, blocked: &[usize]) -> Result<Vec<usize>, String> {
    let still = usize::try_from(peer.blocked()?).unwrap_or(0);
    let count = blocked.len().saturating_sub(still);
    let mut served = Vec::new();
    peer.until("the clients that were served have their replies", |peer| {
        served.clear();
        for &client in blocked.iter().filter(|_| count > 0) {
            if peer.has_reply(client)? {
                served.push(client);
            }
        }
        Ok(served.len() >= count)
    })?;
    Ok(served)
}

/// The step that a reply belongs to: (un)subscribing has confirmations, which are pushes.
fn next_answered(sequence: &Sequence, requests: &mut impl Iterator<Item = usize>) -> Option<usize> {
    requests.find(|&step| {
        let words = sequence.steps[step].words();
        words.is_some_and(|words| !subscribes(words))
    })
}

/// Is a request answered by confirmations alone?
fn subscribes(words: &Words) -> bool {
    words[0].to_ascii_lowercase().ends_with(b"subscribe")
}

impl State {
    /// Follows MULTI and its ends as the requests tell them.
    fn follow(&mut self, words: &Words) {
        if words.len() == 1 {
            if is(words, "multi") {
                self.in_multi = true;
            } else if is(words, "exec") || is(words, "discard") {
                self.in_multi = false;
            }
        }
    }
}

fn is(words: &Words, name: &str) -> bool {
    words[0].eq_ignore_ascii_case(name.as_bytes())
}

/// May this request wait for others?
pub fn may_block<W: AsRef<[u8]>>(words: &[W]) -> bool {
    let Some(row) = command::by_name(words[0].as_ref()) else {
        return false;
    };
    let has_block = || {
        words
            .iter()
            .any(|word| word.as_ref().eq_ignore_ascii_case(b"block"))
    };
    row.flags.has(Flags::BLOCKING) && (!row.name.starts_with("xread") || has_block())
}

/// The timeout of a request that may block, in seconds.
pub fn timeout<W: AsRef<[u8]>>(words: &[W]) -> Option<f64> {
    let number = |word: &W| {
        std::str::from_utf8(word.as_ref())
            .ok()?
            .trim()
            .parse::<f64>()
            .ok()
    };
    let block = words
        .iter()
        .position(|word| word.as_ref().eq_ignore_ascii_case(b"block"));
    match words[0].as_ref().to_ascii_lowercase().as_slice() {
        b"xread" | b"xreadgroup" => number(words.get(block? + 1)?).map(|millis| millis / 1000.0),
        b"wait" | b"waitaof" => number(words.last()?).map(|millis| millis / 1000.0),
        b"blmpop" | b"bzmpop" => number(words.get(1)?),
        _ => number(words.last()?),
    }
}

/// The longest timeout that a run waits for, in seconds.
pub const BRIEF: f64 = 0.05;

/// Does the request wait so briefly that the run waits with it?
pub fn is_brief(words: &Words) -> bool {
    timeout(words).is_some_and(|seconds| seconds > 0.0 && seconds <= BRIEF)
}

/// What sort of reply it is: its type, and the text of an error.
fn class(reply: &Reply) -> String {
    match (&reply.body, reply.tag) {
        (Body::Text(text), b'-' | b'+') => {
            let text = String::from_utf8_lossy(text);
            format!(
                "{}{}",
                char::from(reply.tag),
                text.chars().take(60).collect::<String>()
            )
        }
        (Body::Null, tag) => format!("{}-1", char::from(tag)),
        (_, tag) => char::from(tag).to_string(),
    }
}

/// A frame for people, cut where it is long.
fn show(frame: &[u8]) -> String {
    const LONGEST: usize = 600;
    let text = crate::transcript::text::escape(&frame[..frame.len().min(LONGEST)], b"");
    if frame.len() > LONGEST {
        format!("{text}…")
    } else {
        text
    }
}
