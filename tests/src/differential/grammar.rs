//! Requests from the rows of the command table: each argument that a row names becomes words of its kind.

use std::collections::{BTreeSet, HashMap};

use khoa_server::command::spec::{Arg, Flags, parse_args};
use khoa_server::command::{self, Command};

use super::Words;
use super::differences::{Reference, left_out, word_left_out};
use super::vocabulary::{Vocabulary, client_of};

/// The commands that cost an arm and are no better for being run often.
const RARE: &[&str] = &[
    "flushall",
    "flushdb",
    "swapdb",
    "function|flush",
    "script|flush",
];

/// A row that requests are made from.
pub struct Form {
    /// The row.
    pub row: &'static Command,
    args: Vec<Arg>,
    weight: u32,
}

/// All rows that take part.
pub struct Grammar {
    forms: Vec<Form>,
    total: u32,
    /// Beside which server the requests are to run.
    pub reference: Reference,
}

/// What a reference documents: its commands and subcommands, each with the words that it takes.
pub type Documented = HashMap<String, BTreeSet<String>>;

impl Grammar {
    /// The rows of these groups (all when there are none). What the reference does not document
    /// is left out: it cannot be compared.
    pub fn new(groups: &[String], reference: Reference, documented: Option<&Documented>) -> Self {
        let rows = command::all().flat_map(|row| {
            let own = row.subcommands.is_empty().then_some(row);
            own.into_iter().chain(row.subcommands)
        });
        let wanted = rows.filter(|row| {
            let group = groups.is_empty() || groups.iter().any(|group| group == row.group);
            group && left_out(row.name).is_none()
        });
        let forms: Vec<Form> = wanted.filter_map(|row| form(row, documented)).collect();
        let total = forms.iter().map(|form| form.weight).sum();
        Self {
            forms,
            total,
            reference,
        }
    }

    /// The rows by name.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        self.forms.iter().map(|form| form.row.name)
    }

    /// A row, the useful ones more often.
    pub fn pick(&self, words: &mut Vocabulary) -> &Form {
        let mut at = words.rng.u32(0..self.total);
        for form in &self.forms {
            if at < form.weight {
                return form;
            }
            at -= form.weight;
        }
        &self.forms[0]
    }

    /// The row of this name, if it takes part.
    pub fn form(&self, name: &str) -> Option<&Form> {
        self.forms.iter().find(|form| form.row.name == name)
    }
}

fn form(row: &'static Command, documented: Option<&Documented>) -> Option<Form> {
    let mut args = parse_args(row.args).ok()?;
    let known = match documented {
        Some(documented) => Some(documented.get(row.name)?),
        None => None,
    };
    let is_known = |token: &str| {
        !word_left_out(row.name, token) && known.is_none_or(|known| known.contains(token))
    };
    args.retain_mut(|arg| keep_known(arg, &is_known));
    let weight = weight(row);
    Some(Form { row, args, weight })
}

/// Takes out the parts with a word that is not known; false when nothing is left.
fn keep_known(arg: &mut Arg, is_known: &impl Fn(&str) -> bool) -> bool {
    if arg.token.as_ref().is_some_and(|token| !is_known(token)) {
        return false;
    }
    let before = arg.children.len();
    arg.children.retain_mut(|child| keep_known(child, is_known));
    match arg.kind.as_str() {
        "oneof" => before == 0 || !arg.children.is_empty(),
        _ => before == arg.children.len(),
    }
}

/// Rows that add data come often, so that the others find some; what empties everything hardly ever.
fn weight(row: &Command) -> u32 {
    let (write, adds) = (row.flags.has(Flags::WRITE), row.flags.has(Flags::DENYOOM));
    match row.group {
        _ if RARE.contains(&row.name) => 1,
        "connection" | "server" | "cluster" | "scripting" | "pubsub" | "transactions" => 3,
        _ if row.name.ends_with("|help") => 1,
        _ if write && adds => 40,
        _ if write => 16,
        _ => 20,
    }
}

impl Form {
    /// A request as the row wants it, or one that is wrong in one place.
    pub fn request(&self, words: &mut Vocabulary) -> Words {
        let mut request = self.valid(words);
        // Keys for BYLEX hold members of one score, and are to stay so; an id is each server's own.
        let is_fixed = |word: &Vec<u8>| word.starts_with(b"y") || client_of(word).is_some();
        if words.spoils && words.chance(8) && !request.iter().any(is_fixed) {
            spoil(&mut request, words);
        }
        if words.chance(3) {
            let at = words.rng.usize(0..request.len());
            swap_case(&mut request[at]);
        }
        request
    }

    /// A request as the row wants it, as far as a row can tell.
    pub fn valid(&self, words: &mut Vocabulary) -> Words {
        let name = self.row.name.to_uppercase();
        let mut request: Words = name
            .split('|')
            .map(|part| part.as_bytes().to_vec())
            .collect();
        let mut writer = Writer {
            row: self.row,
            words,
            repeats: 1,
        };
        request.extend(writer.sequence(&self.args));
        fit_bounds(&mut request, words);
        request
    }
}

/// BYSCORE and BYLEX decide what the bounds before them look like.
fn fit_bounds(request: &mut Words, words: &mut Vocabulary) {
    let first = match request[0].as_slice() {
        b"ZADD" if words.chance(15) => return one_score(request, words),
        b"SORT" => return store_sorted(request),
        b"ZRANGE" => 2,
        b"ZRANGESTORE" => 3,
        _ => return,
    };
    let by = request.iter().skip(first + 2).find_map(|word| {
        let is_by = word.starts_with(b"BY");
        is_by.then(|| word.clone())
    });
    if let Some(by) = by {
        if by == b"BYLEX" {
            request[first - 1] = words.lex_key();
        }
        for at in [first, first + 1] {
            if let Some(bound) = words.bound_by(&by) {
                request[at] = bound;
            }
        }
    }
}

/// Of equal weights the order is left open, so that what is sorted BY others is not stored.
fn store_sorted(request: &mut Words) {
    let at = |name: &[u8]| request.iter().position(|word| word == name);
    if let (Some(by), Some(_), Some(_)) = (at(b"BY"), at(b"ALPHA"), at(b"STORE")) {
        request.drain(by..by + 2);
    }
}

/// Members of one score, the only ones that have an order by BYLEX.
fn one_score(request: &mut Words, words: &mut Vocabulary) {
    *request = vec![b"ZADD".to_vec(), words.lex_key()];
    for _ in 0..words.rng.usize(1..5) {
        request.extend([b"0".to_vec(), words.text()]);
    }
}

fn spoil(request: &mut Words, words: &mut Vocabulary) {
    let at = words.rng.usize(0..request.len());
    match words.rng.u32(0..6) {
        0 => request.truncate(at.max(1)),
        1 if at > 0 => drop(request.remove(at)),
        2 => request.insert(at + 1, request[at].clone()),
        3 => request.push(words.text()),
        4 if at > 0 => {
            let other = words.rng.usize(1..request.len());
            request.swap(at, other);
        }
        _ if at > 0 => request[at] = words.edge(),
        _ => request.push(words.edge()),
    }
}

fn swap_case(word: &mut [u8]) {
    if word.is_ascii() && !word.starts_with(b"<id of") {
        for byte in word {
            *byte ^= if byte.is_ascii_alphabetic() { 0x20 } else { 0 };
        }
    }
}

struct Writer<'a> {
    row: &'static Command,
    words: &'a mut Vocabulary,
    /// How often the argument before came that may come several times: the number of keys, mostly.
    repeats: usize,
}

impl Writer<'_> {
    fn sequence(&mut self, args: &[Arg]) -> Words {
        let mut parts: Vec<(bool, Words)> = Vec::new();
        let mut at = 0;
        while at < args.len() {
            let arg = &args[at];
            if let Some(counted) = args.get(at + 1).filter(|_| is_count(arg)) {
                let mut part = self.counted(counted);
                part.splice(
                    ..0,
                    arg.token.iter().map(|token| token.clone().into_bytes()),
                );
                parts.push((false, part));
                at += 2;
                continue;
            }
            if !arg.optional || self.words.chance(35) {
                let part = self.arg(arg);
                parts.push((arg.optional, part));
            }
            at += 1;
        }
        if self.words.chance(15) {
            self.shuffle_options(&mut parts);
        }
        parts.into_iter().flat_map(|(_, part)| part).collect()
    }

    /// Options that follow each other may come in any order.
    fn shuffle_options(&mut self, parts: &mut [(bool, Words)]) {
        for run in parts.chunk_by_mut(|one, other| one.0 && other.0) {
            self.words.rng.shuffle(run);
        }
    }

    /// A number, and as many of what follows; sometimes the number is wrong.
    fn counted(&mut self, arg: &Arg) -> Words {
        let values = if arg.optional && self.words.chance(30) {
            self.repeats = 0;
            Words::new()
        } else {
            self.arg(arg)
        };
        let mut count = self.repeats as i64;
        if self.words.chance(4) {
            count += self.words.rng.i64(-1..=1);
        }
        let mut part = vec![count.to_string().into_bytes()];
        part.extend(values);
        part
    }

    fn arg(&mut self, arg: &Arg) -> Words {
        let times = if arg.multiple { self.times(arg) } else { 1 };
        let mut part = Words::new();
        for turn in 0..times {
            if let Some(token) = arg
                .token
                .as_ref()
                .filter(|_| turn == 0 || arg.multiple_token)
            {
                part.push(token.clone().into_bytes());
            }
            match arg.kind.as_str() {
                "pure-token" => {}
                "block" => part.extend(self.sequence(&arg.children)),
                "oneof" => {
                    let child = &arg.children[self.words.rng.usize(0..arg.children.len())];
                    part.extend(self.arg(child));
                }
                kind => {
                    let (name, group) = (self.row.name, self.row.group);
                    part.push(self.words.value(name, group, kind, &arg.name));
                }
            }
        }
        if arg.multiple {
            self.repeats = times;
        }
        part
    }

    fn times(&mut self, arg: &Arg) -> usize {
        let one_each = matches!(arg.name.as_str(), "id" | "weight");
        if one_each && self.repeats > 0 && self.words.chance(90) {
            return self.repeats;
        }
        match self.words.rng.u32(0..100) {
            0..50 => 1,
            50..75 => 2,
            75..90 => 3,
            90..98 => self.words.rng.usize(4..8),
            _ => self.words.rng.usize(8..40),
        }
    }
}

/// Does an argument say how many of the next there are?
fn is_count(arg: &Arg) -> bool {
    arg.kind == "integer"
        && arg.name.starts_with("num")
        && !matches!(
            arg.name.as_str(),
            "numreplicas" | "numlocal" | "num-matches"
        )
}

/// The indices of a request's keys, as its row finds them.
pub fn keys(row: &Command, request: &Words) -> Vec<usize> {
    let args: Vec<&[u8]> = request.iter().map(Vec::as_slice).collect();
    let found = row.keys.iter().filter(|spec| !spec.is_not_key());
    let mut keys: Vec<usize> = found
        .filter_map(|spec| spec.indices(&args))
        .flatten()
        .collect();
    keys.sort_unstable();
    keys.dedup();
    keys
}
