//! Sequences: what several clients ask in an order that is fixed, transactions, scripts, waiting and messages included.

use std::time::Duration;

use khoa_server::command::spec::Flags;

use super::Words;
use super::differences::{Reference, innermost, request_left_out};
use super::grammar::{Form, Grammar, keys};
use super::lockstep::{is_brief, may_block};
use super::vocabulary::{Vocabulary, id_of};

/// How many clients a sequence has.
pub const CLIENTS: usize = 4;
/// What a key that lives for a millisecond is given to vanish.
const SHORT_LIFE: Duration = Duration::from_millis(4);

/// Where a value changes its encoding, with the default and a limit that is soon reached.
pub const SETTINGS: &[(&str, &str, &str)] = &[
    ("hash-max-listpack-entries", "512", "3"),
    ("hash-max-listpack-value", "64", "8"),
    ("set-max-intset-entries", "512", "3"),
    ("set-max-listpack-entries", "128", "3"),
    ("zset-max-listpack-entries", "128", "3"),
    ("list-max-listpack-size", "-2", "3"),
    ("stream-node-max-entries", "100", "3"),
    ("hll-sparse-max-bytes", "3000", "40"),
];

/// One thing that happens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// A client sends a request.
    Request {
        /// Which client.
        client: usize,
        /// The request; a word can stand for a client's id.
        words: Words,
    },
    /// A client's connection ends and it gets a new one.
    Reconnect(usize),
    /// Time passes.
    Pause(Duration),
}

impl Step {
    /// The request, if it is one.
    pub fn words(&self) -> Option<&Words> {
        match self {
            Self::Request { words, .. } => Some(words),
            _ => None,
        }
    }
}

/// What happens, and under which circumstances.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sequence {
    /// The version of RESP that the clients speak.
    pub protocol: u8,
    /// How many there are.
    pub clients: usize,
    /// Settings that are not at their default.
    pub settings: Vec<(&'static str, String)>,
    /// What happens.
    pub steps: Vec<Step>,
}

/// A sequence of about `length` requests; the same words make the same one.
pub fn generate(grammar: &Grammar, mut words: Vocabulary, protocol: u8, length: usize) -> Sequence {
    // What is wrong is refused by other words, in another order, or not at all.
    words.spoils = !grammar.reference.is_older();
    let mut maker = Maker {
        grammar,
        words,
        protocol,
        clients: vec![Client::default(); CLIENTS],
        steps: Vec::new(),
    };
    let settings = maker.settings();
    while maker.steps.len() < length {
        maker.turn();
    }
    Sequence {
        protocol,
        clients: CLIENTS,
        settings,
        steps: maker.steps,
    }
}

/// What the maker knows of a client.
#[derive(Clone, Default)]
struct Client {
    in_multi: bool,
    subscribed: bool,
    /// The request in which it may be waiting, for so many turns.
    waits: Option<(Words, u32)>,
}

struct Maker<'a> {
    grammar: &'a Grammar,
    words: Vocabulary,
    protocol: u8,
    clients: Vec<Client>,
    steps: Vec<Step>,
}

impl Maker<'_> {
    fn settings(&mut self) -> Vec<(&'static str, String)> {
        let mut settings = Vec::new();
        if self.words.chance(50) {
            for &(name, _, small) in SETTINGS {
                if self.words.chance(60) {
                    settings.push((name, small.to_owned()));
                }
            }
        }
        settings
    }

    fn push(&mut self, client: usize, words: Words) {
        self.steps.push(Step::Request { client, words });
    }

    fn say(&mut self, client: usize, words: &[&[u8]]) {
        self.push(client, words.iter().map(|word| word.to_vec()).collect());
    }

    /// One client does something.
    fn turn(&mut self) {
        let client = self.words.rng.usize(0..CLIENTS);
        if self.clients[client].waits.is_some() {
            return self.release(client);
        }
        if self.clients[client].in_multi {
            return self.transaction(client);
        }
        // In Redis 7.0 what a client tells itself comes before the reply.
        let only_listens = self.protocol == 2 || self.grammar.reference == Reference::Redis7;
        if self.clients[client].subscribed && (only_listens || self.words.chance(50)) {
            return self.listen(client);
        }
        match self.words.rng.u32(0..100) {
            0..66 => self.batch(client),
            66..76 => self.begin(client),
            76..84 => self.scripts(client),
            84..90 => self.publish(client),
            90..95 => self.subscribe(client),
            95..97 if !self.clients[client].subscribed => self.short_life(client),
            97 => self.reconnect(client),
            _ => self.wait(client),
        }
    }

    /// Ordinary requests in a row.
    fn batch(&mut self, client: usize) {
        let count = self.words.rng.usize(1..30);
        for _ in 0..count {
            self.any(client);
            if self.clients[client].waits.is_some() {
                return;
            }
        }
    }

    fn any(&mut self, client: usize) {
        let form = self.grammar.pick(&mut self.words);
        if form.row.name == "watch" && self.clients[client].in_multi {
            return;
        }
        let request = form.request(&mut self.words);
        self.ask(client, request);
    }

    /// Asks, and does what must follow for the servers to stay comparable.
    fn ask(&mut self, client: usize, request: Words) {
        let plain: Vec<&[u8]> = request.iter().map(Vec::as_slice).collect();
        let inner = innermost(&plain);
        // What a draw takes away is gone on one server and not on the other, so all goes.
        let drawn =
            (inner[0].eq_ignore_ascii_case(b"spop") && inner.len() > 1).then(|| inner[1].to_vec());
        if request_left_out(&plain, self.grammar.reference) {
            return;
        }
        if !self.clients[client].in_multi && may_block(&request) && !is_brief(&request) {
            self.clients[client].waits = Some((request.clone(), 0));
        }
        self.push(client, request);
        if let Some(key) = drawn {
            self.say(client, &[b"DEL", &key]);
        }
    }

    fn begin(&mut self, client: usize) {
        if self.words.chance(50)
            && let Some(watch) = self.grammar.form("watch")
        {
            let request = watch.valid(&mut self.words);
            self.push(client, request);
            if self.words.chance(30) {
                let other = self.other(client);
                self.turn_of_other(other);
            }
        }
        self.say(client, &[b"MULTI"]);
        self.clients[client].in_multi = true;
    }

    fn other(&mut self, client: usize) -> usize {
        (client + self.words.rng.usize(1..CLIENTS)) % CLIENTS
    }

    /// Ordinary requests of another client, if it is free for them.
    fn turn_of_other(&mut self, client: usize) {
        let state = &self.clients[client];
        if state.waits.is_none() && !(state.subscribed && self.protocol == 2) && !state.in_multi {
            self.batch(client);
        }
    }

    fn transaction(&mut self, client: usize) {
        for _ in 0..self.words.rng.usize(0..6) {
            if self.words.chance(10) {
                self.script(client);
            } else {
                self.any(client);
            }
        }
        match self.words.rng.u32(0..10) {
            0..7 => self.say(client, &[b"EXEC"]),
            7 => self.say(client, &[b"DISCARD"]),
            8 if self.words.spoils => return self.say(client, &[b"MULTI"]),
            _ => return,
        }
        self.clients[client].in_multi = false;
    }

    fn scripts(&mut self, client: usize) {
        for _ in 0..self.words.rng.usize(1..8) {
            self.script(client);
        }
    }

    /// A request that a script or a function makes.
    fn script(&mut self, client: usize) {
        let form: &Form = self.grammar.pick(&mut self.words);
        if form.row.flags.has(Flags::BLOCKING) && self.grammar.reference == Reference::Redis7 {
            return;
        }
        let inner = form.request(&mut self.words);
        let mut keys: Vec<usize> = keys(form.row, &inner);
        keys.truncate(8);
        let mut request: Words = if self.words.chance(85) {
            vec![
                self.words.one_of(&[b"EVAL", b"EVAL", b"EVAL_RO"]),
                self.words.runner(),
            ]
        } else {
            vec![
                self.words.one_of(&[b"FCALL", b"FCALL_RO"]),
                self.words.one_of(&[b"run", b"look"]),
            ]
        };
        request.push(keys.len().to_string().into_bytes());
        request.extend(keys.iter().filter_map(|&at| inner.get(at).cloned()));
        request.extend(inner);
        self.ask(client, request);
    }

    fn publish(&mut self, client: usize) {
        for _ in 0..self.words.rng.usize(1..6) {
            let name = if self.words.chance(80) {
                "publish"
            } else {
                "spublish"
            };
            if let Some(form) = self.grammar.form(name) {
                let request = form.request(&mut self.words);
                self.push(client, request);
            }
        }
    }

    fn subscribe(&mut self, client: usize) {
        let count = self.words.rng.usize(1..4);
        let mut request = vec![
            self.words
                .one_of(&[b"SUBSCRIBE", b"PSUBSCRIBE", b"SSUBSCRIBE"]),
        ];
        let kind = if request[0] == b"PSUBSCRIBE" {
            "pattern"
        } else {
            "string"
        };
        for _ in 0..count {
            request.push(self.words.value("subscribe", "pubsub", kind, "channel"));
        }
        self.push(client, request);
        self.clients[client].subscribed = true;
    }

    /// What a client that listens to messages asks.
    fn listen(&mut self, client: usize) {
        match self.words.rng.u32(0..10) {
            0..2 => self.subscribe(client),
            2 => self.say(client, &[b"PING"]),
            3 => self.say(client, &[b"PING", b"text"]),
            4 => self.say(client, &[b"GET", b"s1"]),
            5 => {
                let channel = self
                    .words
                    .value("unsubscribe", "pubsub", "string", "channel");
                self.say(client, &[b"UNSUBSCRIBE", &channel]);
            }
            6 => self.reconnect(client),
            _ => {
                for name in [&b"UNSUBSCRIBE"[..], b"PUNSUBSCRIBE", b"SUNSUBSCRIBE"] {
                    self.say(client, &[name]);
                }
                self.clients[client].subscribed = false;
            }
        }
    }

    fn reconnect(&mut self, client: usize) {
        self.steps.push(Step::Reconnect(client));
        self.clients[client] = Client::default();
    }

    /// A key gets a millisecond to live, and nothing happens until that is over.
    fn short_life(&mut self, client: usize) {
        let key = self.words.key("expire", "generic");
        if self.words.chance(50) {
            self.say(client, &[b"SET", &key, b"v", b"PX", b"1"]);
        } else {
            self.say(client, &[b"PEXPIRE", &key, b"1"]);
        }
        self.steps.push(Step::Pause(SHORT_LIFE));
        let look = self
            .words
            .one_of(&[b"EXISTS", b"TYPE", b"PTTL", b"TOUCH", b"DUMP"]);
        self.say(client, &[&look, &key]);
    }

    /// A request that waits for others.
    fn wait(&mut self, client: usize) {
        for _ in 0..20 {
            let form = self.grammar.pick(&mut self.words);
            if form.row.flags.has(Flags::BLOCKING) {
                let request = form.valid(&mut self.words);
                if may_block(&request) {
                    return self.ask(client, request);
                }
            }
        }
    }

    /// Others do what the client may be waiting for; in the end it is let go.
    fn release(&mut self, client: usize) {
        let Some((request, turns)) = self.clients[client].waits.clone() else {
            return;
        };
        let other = self.other(client);
        let state = &self.clients[other];
        if state.waits.is_some() || state.subscribed && self.protocol == 2 {
            return self.reconnect(client);
        }
        if turns < 3 && self.words.chance(80) {
            self.clients[client].waits = Some((request.clone(), turns + 1));
            return self.feed(other, &request);
        }
        if state.in_multi || self.words.chance(10) {
            return self.reconnect(client);
        }
        let how = self.words.one_of(&[b"TIMEOUT", b"ERROR"]);
        self.say(other, &[b"CLIENT", b"UNBLOCK", &id_of(client), &how]);
        self.clients[client].waits = None;
    }

    /// Stores something where a request waits for it.
    fn feed(&mut self, client: usize, request: &Words) {
        let plain: Vec<&[u8]> = request.iter().map(Vec::as_slice).collect();
        let Ok(row) = khoa_server::command::lookup(&plain) else {
            return;
        };
        let name = match row.group {
            "list" => self
                .words
                .rng
                .choice(["lpush", "rpush", "linsert"])
                .unwrap_or("lpush"),
            "sorted-set" => "zadd",
            "stream" => self
                .words
                .rng
                .choice(["xadd", "xadd", "del", "xgroup|destroy"])
                .unwrap_or("xadd"),
            _ => return,
        };
        let (Some(form), keys) = (self.grammar.form(name), keys(row, request)) else {
            return;
        };
        let mut feeding = form.valid(&mut self.words);
        let own = super::grammar::keys(form.row, &feeding);
        if let (Some(&from), Some(&to)) = (self.words.rng.choice(&keys), own.first())
            && let Some(key) = request.get(from)
        {
            feeding[to].clone_from(key);
        }
        self.ask(client, feeding);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sequence(seed: u64) -> Sequence {
        let grammar = Grammar::new(&[], Reference::Khoa, None);
        generate(
            &grammar,
            Vocabulary::new(seed, vec![b"payload".to_vec()]),
            3,
            2000,
        )
    }

    #[test]
    fn a_seed_always_makes_the_same_sequence() {
        assert_eq!(sequence(7), sequence(7));
        assert_ne!(sequence(7), sequence(8));
    }

    #[test]
    fn every_row_that_takes_part_is_asked() {
        let grammar = Grammar::new(&[], Reference::Khoa, None);
        let mut missing: std::collections::BTreeSet<&str> = grammar.names().collect();
        for seed in 0..40 {
            for step in sequence(seed).steps {
                let Some(words) = step.words() else { continue };
                let plain: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
                if let Ok(row) = khoa_server::command::lookup(innermost(&plain)) {
                    missing.remove(row.name);
                }
            }
        }
        assert!(missing.is_empty(), "{missing:?}");
    }
}
