//! What a row says beside its name: flags, categories, where its keys are, what it takes.

/// A set of flags, as COMMAND INFO lists them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Flags(u32);

impl Flags {
    pub const NONE: Flags = Flags(0);
    pub const WRITE: Flags = Flags(1 << 0);
    pub const READONLY: Flags = Flags(1 << 1);
    pub const DENYOOM: Flags = Flags(1 << 2);
    pub const ADMIN: Flags = Flags(1 << 3);
    pub const PUBSUB: Flags = Flags(1 << 4);
    pub const NOSCRIPT: Flags = Flags(1 << 5);
    pub const BLOCKING: Flags = Flags(1 << 6);
    pub const LOADING: Flags = Flags(1 << 7);
    pub const STALE: Flags = Flags(1 << 8);
    pub const SKIP_MONITOR: Flags = Flags(1 << 9);
    pub const SKIP_SLOWLOG: Flags = Flags(1 << 10);
    pub const ASKING: Flags = Flags(1 << 11);
    pub const FAST: Flags = Flags(1 << 12);
    pub const NO_AUTH: Flags = Flags(1 << 13);
    pub const MAY_REPLICATE: Flags = Flags(1 << 14);
    pub const NO_MANDATORY_KEYS: Flags = Flags(1 << 15);
    pub const NO_ASYNC_LOADING: Flags = Flags(1 << 16);
    pub const NO_MULTI: Flags = Flags(1 << 17);
    pub const MOVABLEKEYS: Flags = Flags(1 << 18);
    pub const ALLOW_BUSY: Flags = Flags(1 << 19);
    pub const ALL_DBS: Flags = Flags(1 << 20);

    /// The names, in the order in which COMMAND INFO gives them.
    /// `MAY_REPLICATE` and `ALL_DBS` have none that is shown.
    const NAMES: [(Flags, &'static str); 19] = [
        (Flags::WRITE, "write"),
        (Flags::READONLY, "readonly"),
        (Flags::DENYOOM, "denyoom"),
        (Flags::ADMIN, "admin"),
        (Flags::PUBSUB, "pubsub"),
        (Flags::NOSCRIPT, "noscript"),
        (Flags::BLOCKING, "blocking"),
        (Flags::LOADING, "loading"),
        (Flags::STALE, "stale"),
        (Flags::SKIP_MONITOR, "skip_monitor"),
        (Flags::SKIP_SLOWLOG, "skip_commandlog"),
        (Flags::ASKING, "asking"),
        (Flags::FAST, "fast"),
        (Flags::NO_AUTH, "no_auth"),
        (Flags::NO_MANDATORY_KEYS, "no_mandatory_keys"),
        (Flags::NO_ASYNC_LOADING, "no_async_loading"),
        (Flags::NO_MULTI, "no_multi"),
        (Flags::MOVABLEKEYS, "movablekeys"),
        (Flags::ALLOW_BUSY, "allow_busy"),
    ];

    #[must_use]
    pub const fn with(self, other: Flags) -> Flags {
        Flags(self.0 | other.0)
    }

    /// Several flags at once, for rows.
    pub const fn of<const N: usize>(flags: [Flags; N]) -> Flags {
        let (mut all, mut at) = (0, 0);
        while at < N {
            all |= flags[at].0;
            at += 1;
        }
        Flags(all)
    }

    #[must_use]
    pub const fn without(self, other: Flags) -> Flags {
        Flags(self.0 & !other.0)
    }

    pub const fn has(self, flag: Flags) -> bool {
        self.0 & flag.0 != 0
    }

    pub fn names(self) -> impl Iterator<Item = &'static str> {
        Self::NAMES
            .into_iter()
            .filter(move |&(flag, _)| self.has(flag))
            .map(|(_, name)| name)
    }

    /// The categories that follow from the flags.
    pub fn implied_categories(self) -> Categories {
        let mut all = Categories::NONE;
        for (flag, category) in [
            (Flags::WRITE, Categories::WRITE),
            (Flags::READONLY, Categories::READ),
            (
                Flags::ADMIN,
                Categories::of([Categories::ADMIN, Categories::DANGEROUS]),
            ),
            (Flags::PUBSUB, Categories::PUBSUB),
            (Flags::BLOCKING, Categories::BLOCKING),
        ] {
            if self.has(flag) {
                all = all.with(category);
            }
        }
        all.with(if self.has(Flags::FAST) {
            Categories::FAST
        } else {
            Categories::SLOW
        })
    }
}

/// A set of ACL categories.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Categories(u32);

impl Categories {
    pub const NONE: Categories = Categories(0);
    pub const KEYSPACE: Categories = Categories(1 << 0);
    pub const READ: Categories = Categories(1 << 1);
    pub const WRITE: Categories = Categories(1 << 2);
    pub const SET: Categories = Categories(1 << 3);
    pub const SORTED_SET: Categories = Categories(1 << 4);
    pub const LIST: Categories = Categories(1 << 5);
    pub const HASH: Categories = Categories(1 << 6);
    pub const STRING: Categories = Categories(1 << 7);
    pub const BITMAP: Categories = Categories(1 << 8);
    pub const HYPERLOGLOG: Categories = Categories(1 << 9);
    pub const GEO: Categories = Categories(1 << 10);
    pub const STREAM: Categories = Categories(1 << 11);
    pub const PUBSUB: Categories = Categories(1 << 12);
    pub const ADMIN: Categories = Categories(1 << 13);
    pub const FAST: Categories = Categories(1 << 14);
    pub const SLOW: Categories = Categories(1 << 15);
    pub const BLOCKING: Categories = Categories(1 << 16);
    pub const DANGEROUS: Categories = Categories(1 << 17);
    pub const CONNECTION: Categories = Categories(1 << 18);
    pub const TRANSACTION: Categories = Categories(1 << 19);
    pub const SCRIPTING: Categories = Categories(1 << 20);

    /// The names, in the order in which ACL CAT gives them.
    pub const NAMES: [(Categories, &'static str); 21] = [
        (Categories::KEYSPACE, "keyspace"),
        (Categories::READ, "read"),
        (Categories::WRITE, "write"),
        (Categories::SET, "set"),
        (Categories::SORTED_SET, "sortedset"),
        (Categories::LIST, "list"),
        (Categories::HASH, "hash"),
        (Categories::STRING, "string"),
        (Categories::BITMAP, "bitmap"),
        (Categories::HYPERLOGLOG, "hyperloglog"),
        (Categories::GEO, "geo"),
        (Categories::STREAM, "stream"),
        (Categories::PUBSUB, "pubsub"),
        (Categories::ADMIN, "admin"),
        (Categories::FAST, "fast"),
        (Categories::SLOW, "slow"),
        (Categories::BLOCKING, "blocking"),
        (Categories::DANGEROUS, "dangerous"),
        (Categories::CONNECTION, "connection"),
        (Categories::TRANSACTION, "transaction"),
        (Categories::SCRIPTING, "scripting"),
    ];

    #[must_use]
    pub const fn with(self, other: Categories) -> Categories {
        Categories(self.0 | other.0)
    }

    /// Several categories at once, for rows.
    pub const fn of<const N: usize>(categories: [Categories; N]) -> Categories {
        let (mut all, mut at) = (0, 0);
        while at < N {
            all |= categories[at].0;
            at += 1;
        }
        Categories(all)
    }

    pub const fn has(self, category: Categories) -> bool {
        self.0 & category.0 != 0
    }

    pub fn names(self) -> impl Iterator<Item = &'static str> {
        Self::NAMES
            .into_iter()
            .filter(move |&(one, _)| self.has(one))
            .map(|(_, name)| name)
    }
}

/// Where some of a command's keys stand in a request, and what it does with them.
#[derive(Clone, Copy, Debug)]
pub struct KeySpec {
    /// `RO`, `RW`, `OW` or `RM`, then what of `access`, `update`, `insert`, `delete`, `not_key`,
    /// `incomplete`, `variable_flags` holds, as COMMAND INFO words them.
    pub flags: &'static str,
    pub notes: &'static str,
    pub begin: Begin,
    pub find: Find,
}

impl KeySpec {
    /// One key, at an index.
    pub const fn one(flags: &'static str, index: usize) -> KeySpec {
        KeySpec::range(flags, index, 0, 1)
    }

    /// Keys from an index to a last one (relative to the first; from the end when negative).
    pub const fn range(flags: &'static str, index: usize, last: i32, step: usize) -> KeySpec {
        let find = Find::Range {
            last,
            step,
            limit: 0,
        };
        KeySpec {
            flags,
            notes: "",
            begin: Begin::Index(index),
            find,
        }
    }

    /// A count of keys at an index, then the keys.
    pub const fn counted(flags: &'static str, index: usize) -> KeySpec {
        let find = Find::Counted {
            at: 0,
            first: 1,
            step: 1,
        };
        KeySpec {
            flags,
            notes: "",
            begin: Begin::Index(index),
            find,
        }
    }

    #[must_use]
    pub const fn noted(self, notes: &'static str) -> KeySpec {
        KeySpec { notes, ..self }
    }

    /// Does a command with this key only read what is stored there?
    pub fn is_read_only(&self) -> bool {
        self.flags.starts_with("RO")
    }

    /// Is it a channel or the like, routed as a key but not one?
    pub fn is_not_key(&self) -> bool {
        self.flags.contains("not_key")
    }

    /// The indices of the keys in a request; `None` when the request is malformed.
    pub fn indices(&self, args: &[&[u8]]) -> Option<Vec<usize>> {
        let begin = match self.begin {
            Begin::Index(index) => index,
            Begin::Keyword { word, from } => match find_keyword(args, word, from) {
                Some(at) => at + 1,
                None => return Some(Vec::new()),
            },
            Begin::Unknown => return Some(Vec::new()),
        };
        let (first, last, step) = match self.find {
            Find::Range { last, step, limit } => {
                (begin, range_end(args.len(), begin, last, limit)?, step)
            }
            Find::Counted { at, first, step } => {
                let count = crate::number::leading_int(args.get(begin + at)?);
                if count <= 0 {
                    return Some(Vec::new());
                }
                let count = usize::try_from(count).ok()?;
                let first = begin + first;
                (
                    first,
                    first.checked_add(count.checked_sub(1)?.checked_mul(step)?)?,
                    step,
                )
            }
            Find::Unknown => return Some(Vec::new()),
        };
        (last < args.len() && first < args.len()).then(|| (first..=last).step_by(step).collect())
    }
}

fn find_keyword(args: &[&[u8]], word: &str, from: i32) -> Option<usize> {
    let matches = |&at: &usize| args[at].eq_ignore_ascii_case(word.as_bytes());
    if from < 0 {
        let start = args.len().checked_sub(from.unsigned_abs() as usize)?;
        (1..=start).rev().find(matches)
    } else {
        (from as usize..args.len()).find(matches)
    }
}

fn range_end(len: usize, begin: usize, last: i32, limit: usize) -> Option<usize> {
    if last >= 0 {
        return Some(begin + last as usize);
    }
    let back = last.unsigned_abs() as usize;
    match limit {
        0 | 1 => len.checked_sub(back),
        // Only the first part of what is left are keys: half of it for 2, and so on.
        _ => (begin + len.checked_sub(begin)? / limit).checked_sub(back),
    }
}

/// Where the search for keys begins.
#[derive(Clone, Copy, Debug)]
pub enum Begin {
    Index(usize),
    /// Behind a word, looked for from an index on; backwards from the end when negative.
    Keyword {
        word: &'static str,
        from: i32,
    },
    Unknown,
}

/// How keys follow from there.
#[derive(Clone, Copy, Debug)]
pub enum Find {
    Range {
        last: i32,
        step: usize,
        limit: usize,
    },
    Counted {
        at: usize,
        first: usize,
        step: usize,
    },
    Unknown,
}

/// An argument as COMMAND DOCS describes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Arg {
    pub name: String,
    pub kind: String,
    pub token: Option<String>,
    pub optional: bool,
    pub multiple: bool,
    /// The token is repeated before every value.
    pub multiple_token: bool,
    /// How it is shown when not by its name.
    pub display: Option<String>,
    /// The version that brought it.
    pub since: Option<String>,
    /// The version from which on it is not to be used.
    pub deprecated: Option<String>,
    /// The key spec that it belongs to, when that does not follow from its place.
    pub key_spec: Option<i64>,
    pub children: Vec<Arg>,
}

/// Reads the notation of [`Command::args`](super::Command):
///
/// ```text
/// name:type        a value, such as key:key or ttl:integer
/// WORD             a word that stands for itself; its name is the word in lower case
/// name=WORD        a word whose name differs
/// WORD name:type   a value behind a word, written WORD@name:type
/// <a|b>  name<a|b> one of several
/// (a b)  name(a b) a block; WORD@name(a b) behind a word
/// [a]              optional
/// a...             one or more; a..., with the word repeated: a.!.
/// a{1.2.0 <2.0.0 =text #0}   since and until which version, how shown, of which key spec
/// ```
pub fn parse_args(text: &str) -> Result<Vec<Arg>, String> {
    let mut parser = Parser { rest: text };
    let args = parser.sequence("")?;
    if parser.rest.is_empty() {
        Ok(args)
    } else {
        Err(format!("left over: {}", parser.rest))
    }
}

struct Parser<'a> {
    rest: &'a str,
}

impl Parser<'_> {
    fn sequence(&mut self, closers: &str) -> Result<Vec<Arg>, String> {
        let mut args = Vec::new();
        loop {
            self.rest = self.rest.trim_start_matches([' ', '|']);
            match self.rest.chars().next() {
                None => return Ok(args),
                Some(next) if closers.contains(next) => return Ok(args),
                Some(_) => args.push(self.arg()?),
            }
        }
    }

    fn arg(&mut self) -> Result<Arg, String> {
        if self.eat("[") {
            let mut inner = self.sequence("]")?;
            self.expect("]")?;
            if inner.len() != 1 {
                return Err(format!("brackets hold one argument, before: {}", self.rest));
            }
            let mut arg = inner.remove(0);
            arg.optional = true;
            return Ok(self.repeated(arg));
        }
        let word = self.word();
        let (token, name) = match word.split_once('@') {
            Some((token, name)) => (Some(token.to_owned()), name.to_owned()),
            None => (None, word),
        };
        let mut arg = Arg {
            name,
            kind: String::new(),
            token,
            optional: false,
            multiple: false,
            multiple_token: false,
            display: None,
            since: None,
            deprecated: None,
            key_spec: None,
            children: Vec::new(),
        };
        if self.eat("<") {
            arg.kind = String::from("oneof");
            arg.children = self.sequence(">")?;
            self.expect(">")?;
        } else if self.eat("(") {
            arg.kind = String::from("block");
            arg.children = self.sequence(")")?;
            self.expect(")")?;
        } else if let Some((name, kind)) = arg.name.clone().split_once(':') {
            arg.name = String::from(name);
            arg.kind = String::from(kind);
        } else {
            arg.kind = String::from("pure-token");
            let (name, token) = match arg.name.split_once('=') {
                Some((name, token)) => (name.to_owned(), token.to_owned()),
                None => (arg.name.to_lowercase(), arg.name.clone()),
            };
            arg.name = name;
            arg.token = Some(token);
        }
        self.annotate(&mut arg)?;
        if arg.name.is_empty() && arg.kind == "pure-token" {
            return Err(format!("an argument is missing before: {}", self.rest));
        }
        Ok(self.repeated(arg))
    }

    fn annotate(&mut self, arg: &mut Arg) -> Result<(), String> {
        if !self.eat("{") {
            return Ok(());
        }
        let (notes, rest) = self.rest.split_once('}').ok_or("a brace is left open")?;
        self.rest = rest;
        for note in notes.split(' ') {
            if let Some(text) = note.strip_prefix('=') {
                arg.display = Some(text.to_owned());
            } else if let Some(version) = note.strip_prefix('<') {
                arg.deprecated = Some(version.to_owned());
            } else if let Some(spec) = note.strip_prefix('#') {
                arg.key_spec = Some(spec.parse().map_err(|_| format!("no number: {note}"))?);
            } else if note.starts_with(|c: char| c.is_ascii_digit()) {
                arg.since = Some(note.to_owned());
            } else {
                return Err(format!("what is {note}?"));
            }
        }
        Ok(())
    }

    fn repeated(&mut self, mut arg: Arg) -> Arg {
        if self.eat("...") {
            arg.multiple = true;
        } else if self.eat(".!.") {
            arg.multiple = true;
            arg.multiple_token = true;
        }
        arg
    }

    fn word(&mut self) -> String {
        let end = self
            .rest
            .char_indices()
            .find(|&(at, c)| " []<>()|{".contains(c) || self.rest[at..].starts_with("..."))
            .or_else(|| self.rest.find(".!.").map(|at| (at, '.')))
            .map_or(self.rest.len(), |(at, _)| at);
        let end = self.rest.find(".!.").map_or(end, |at| at.min(end));
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        word.to_owned()
    }

    fn eat(&mut self, text: &str) -> bool {
        match self.rest.strip_prefix(text) {
            Some(rest) => {
                self.rest = rest;
                true
            }
            None => false,
        }
    }

    fn expect(&mut self, text: &str) -> Result<(), String> {
        if self.eat(text) {
            Ok(())
        } else {
            Err(format!("{text} expected before: {}", self.rest))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_found_where_the_spec_says() {
        let request = |text: &'static str| -> Vec<&'static [u8]> {
            text.split(' ').map(str::as_bytes).collect()
        };
        let mset = KeySpec::range("OW update", 1, -1, 2);
        assert_eq!(mset.indices(&request("mset a 1 b 2")), Some(vec![1, 3]));
        let eval = KeySpec::counted("RW access update", 2);
        assert_eq!(eval.indices(&request("eval s 2 a b c")), Some(vec![3, 4]));
        assert_eq!(eval.indices(&request("eval s 9 a b c")), None);
        assert_eq!(eval.indices(&request("eval s 0")), Some(vec![]));
        let xread = KeySpec {
            flags: "RO access",
            notes: "",
            begin: Begin::Keyword {
                word: "STREAMS",
                from: 1,
            },
            find: Find::Range {
                last: -1,
                step: 1,
                limit: 2,
            },
        };
        assert_eq!(
            xread.indices(&request("xread count 1 streams a b 0 0")),
            Some(vec![4, 5])
        );
    }

    #[test]
    fn the_argument_notation_nests() {
        let args = parse_args(
            "key:key value:string [condition<NX|XX|IFEQ@comparison:string>] [data(a:string b:integer)...] GET@pattern:pattern.!.",
        )
        .unwrap();
        assert_eq!(args.len(), 5);
        assert_eq!(
            (args[2].kind.as_str(), args[2].children.len()),
            ("oneof", 3)
        );
        assert_eq!(args[2].children[2].token.as_deref(), Some("IFEQ"));
        assert!(args[3].multiple && args[3].optional);
        assert!(args[4].multiple_token && args[4].token.as_deref() == Some("GET"));
    }

    #[test]
    fn an_argument_carries_notes_about_itself() {
        let args = parse_args("[ADDR@addr:string{=ip:port 6.2.0}...] A{<2.0.0} b:key{#1}").unwrap();
        assert_eq!(args[0].display.as_deref(), Some("ip:port"));
        assert_eq!(args[0].since.as_deref(), Some("6.2.0"));
        assert!(args[0].optional && args[0].multiple);
        assert_eq!(args[1].deprecated.as_deref(), Some("2.0.0"));
        assert_eq!(args[2].key_spec, Some(1));
    }

    #[test]
    fn a_broken_notation_is_refused() {
        for bad in [
            "[a:b",
            "<A|B",
            "(a:string",
            "a:b ]",
            "A{1.0.0",
            "A{x}",
            "A{#x}",
        ] {
            assert!(parse_args(bad).is_err(), "{bad}");
        }
    }
}
