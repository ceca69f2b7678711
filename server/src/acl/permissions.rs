//! One set of permissions: which commands may be run, on which keys, channels and databases.

use std::collections::BTreeSet;

use super::{Denied, Refused, is_space};
use crate::{
    command::{self, Categories, Command, Flags, is_word, key_positions::key_positions},
    glob, number,
};

/// What may be run, on which keys, channels and databases.
#[derive(Clone, Debug, Default)]
pub struct Permissions {
    /// The last one that fits a command decides.
    rules: Vec<Rule>,
    all_keys: bool,
    keys: Vec<KeyPattern>,
    all_channels: bool,
    channels: Vec<Vec<u8>>,
    databases: Databases,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum Databases {
    #[default]
    All,
    Only(BTreeSet<usize>),
}

/// A request, and where it is made.
#[derive(Clone, Copy)]
pub struct Request<'a> {
    pub command: &'static Command,
    pub args: &'a [&'a [u8]],
    /// The database that is selected, and how many there are.
    pub db: usize,
    pub databases: usize,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Rule {
    allows: bool,
    subject: Subject,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Subject {
    All,
    Category(&'static str, Categories),
    /// A command with its subcommands, or one subcommand by its full name.
    Command(&'static str),
    /// A command only with this first argument.
    FirstArgument(&'static str, String),
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct KeyPattern {
    pattern: Vec<u8>,
    read: bool,
    write: bool,
}

impl Permissions {
    /// Those of a new user or selector.
    pub fn new(all_channels: bool) -> Permissions {
        Permissions {
            all_channels,
            ..Permissions::default()
        }
    }

    /// Is nothing forbidden?
    pub fn are_unlimited(&self) -> bool {
        self.rules == [Rule::all(true)]
            && self.all_keys
            && self.all_channels
            && self.databases == Databases::All
    }

    pub fn read_all_keys(&self) -> bool {
        self.all_keys
            || self
                .keys
                .iter()
                .any(|known| known.read && known.pattern == b"*")
    }

    /// Whether a subscription to a channel (or, as it stands, to a pattern) is allowed.
    pub fn admit_channel(&self, channel: &[u8], is_pattern: bool) -> bool {
        // A pattern is allowed only as it stands: who knows what it would hear otherwise.
        let admits = |known: &Vec<u8>| {
            if is_pattern {
                known == channel
            } else {
                glob::matches(known, channel)
            }
        };
        self.all_channels || self.channels.iter().any(admits)
    }

    /// The rules of commands as ACL GETUSER shows them.
    pub fn commands(&self) -> String {
        let rules: Vec<String> = self.rules.iter().map(Rule::describe).collect();
        if matches!(
            self.rules.first(),
            Some(Rule {
                subject: Subject::All,
                ..
            })
        ) {
            return rules.join(" ");
        }
        ["-@all".to_owned()]
            .into_iter()
            .chain(rules)
            .collect::<Vec<_>>()
            .join(" ")
    }

    /// The patterns of keys as ACL GETUSER shows them.
    pub fn keys(&self) -> Vec<u8> {
        if self.all_keys {
            return b"~*".to_vec();
        }
        let shown: Vec<Vec<u8>> = self.keys.iter().map(KeyPattern::describe).collect();
        shown.join(&b' ')
    }

    /// The patterns of channels as ACL GETUSER shows them.
    pub fn channels(&self) -> Vec<u8> {
        if self.all_channels {
            return b"&*".to_vec();
        }
        let shown: Vec<Vec<u8>> = self
            .channels
            .iter()
            .map(|pattern| [b"&", pattern.as_slice()].concat())
            .collect();
        shown.join(&b' ')
    }

    /// The databases as ACL GETUSER shows them.
    pub fn databases(&self) -> String {
        match &self.databases {
            Databases::All => "alldbs".to_owned(),
            Databases::Only(none) if none.is_empty() => String::new(),
            Databases::Only(some) => {
                let numbers: Vec<String> = some.iter().map(usize::to_string).collect();
                format!("db={}", numbers.join(","))
            }
        }
    }

    /// As ACL LIST shows it.
    pub fn describe(&self) -> Vec<u8> {
        let mut parts = vec![self.keys()];
        if !self.all_channels {
            parts.push(b"resetchannels".to_vec());
        }
        parts.push(self.channels());
        match &self.databases {
            Databases::All => {}
            Databases::Only(none) if none.is_empty() => parts.push(b"resetdbs".to_vec()),
            Databases::Only(_) => parts.push(self.databases().into_bytes()),
        }
        parts.push(self.commands().into_bytes());
        parts.retain(|part| !part.is_empty());
        parts.join(&b' ')
    }

    /// Applies one word of a selector, or one of a user that concerns its permissions.
    pub fn modify(&mut self, modifier: &[u8]) -> Result<(), Refused> {
        let text = std::str::from_utf8(modifier).unwrap_or_default();
        let lower = text.to_ascii_lowercase();
        match (modifier.split_first(), lower.as_str()) {
            (_, "allkeys" | "~*") => (self.all_keys, self.keys) = (true, Vec::new()),
            (_, "resetkeys") => (self.all_keys, self.keys) = (false, Vec::new()),
            (_, "allchannels" | "&*") => (self.all_channels, self.channels) = (true, Vec::new()),
            (_, "resetchannels") => (self.all_channels, self.channels) = (false, Vec::new()),
            (_, "allcommands" | "+@all") => self.rules = vec![Rule::all(true)],
            (_, "nocommands" | "-@all") => self.rules.clear(),
            (_, "alldbs") => self.databases = Databases::All,
            (_, "resetdbs") => self.databases = Databases::Only(BTreeSet::new()),
            _ if lower.starts_with("db=") => self.databases = parse_databases(&lower[3..])?,
            (Some((b'~' | b'%', _)), _) => self.add_keys(modifier)?,
            (Some((b'&', pattern)), _) => self.add_channel(pattern)?,
            (Some((&sign @ (b'+' | b'-'), _)), rule) => {
                // What is no text names no command.
                self.add_rule(sign == b'+', rule.get(1..).unwrap_or_default())?;
            }
            _ => return Err(Refused::SYNTAX),
        }
        Ok(())
    }

    fn add_keys(&mut self, modifier: &[u8]) -> Result<(), Refused> {
        if self.all_keys {
            return Err(Refused::Because(
                "Adding a pattern after the * pattern (or the 'allkeys' flag) is not valid \
                and does not have any effect. Try 'resetkeys' to start with an empty list of \
                patterns",
            ));
        }
        // What follows the kinds is the pattern; a kind without one matches the empty key only.
        let end = modifier.iter().position(|&byte| byte == b'~');
        let (kinds, pattern) = match end {
            Some(at) => (&modifier[..at], &modifier[at + 1..]),
            None => (modifier, &b""[..]),
        };
        let (read, write) = match kinds.to_ascii_uppercase().as_slice() {
            b"" | b"%RW" | b"%WR" => (true, true),
            b"%R" => (true, false),
            b"%W" => (false, true),
            _ => return Err(Refused::SYNTAX),
        };
        check_pattern(pattern)?;
        match self.keys.iter_mut().find(|known| known.pattern == pattern) {
            Some(known) => {
                known.read |= read;
                known.write |= write;
            }
            None => self.keys.push(KeyPattern {
                pattern: pattern.to_vec(),
                read,
                write,
            }),
        }
        Ok(())
    }

    fn add_channel(&mut self, pattern: &[u8]) -> Result<(), Refused> {
        if self.all_channels {
            return Err(Refused::Because(
                "Adding a pattern after the * pattern (or the 'allchannels' flag) is not \
                valid and does not have any effect. Try 'resetchannels' to start with an empty \
                list of channels",
            ));
        }
        check_pattern(pattern)?;
        if !self.channels.iter().any(|known| known == pattern) {
            self.channels.push(pattern.to_vec());
        }
        Ok(())
    }

    fn add_rule(&mut self, allows: bool, name: &str) -> Result<(), Refused> {
        let subject = match Subject::parse(name) {
            // A first argument can only be allowed, so with a minus it is no name.
            Ok(Subject::FirstArgument(..)) | Err(Refused::Because(_)) if !allows => {
                return Err(Refused::UnknownName);
            }
            subject => subject?,
        };
        self.rules.retain(|rule| !subject.covers(&rule.subject));
        self.rules.push(Rule { allows, subject });
        Ok(())
    }

    /// Whether the request may be made.
    pub fn check(&self, request: Request<'_>) -> Result<(), Denied> {
        let Request { command, args, .. } = request;
        if let Databases::Only(allowed) = &self.databases {
            check_databases(allowed, request)?;
        }
        let last = self
            .rules
            .iter()
            .rev()
            .find(|rule| rule.subject.is_about(command, args));
        if !last.is_some_and(|rule| rule.allows) {
            return Err(Denied::Command);
        }
        if !self.all_keys {
            self.check_keys(command, args)?;
        }
        if !self.all_channels {
            self.check_channels(command, args)?;
        }
        Ok(())
    }

    fn check_keys(&self, command: &Command, args: &[&[u8]]) -> Result<(), Denied> {
        for position in key_positions(command, args).unwrap_or_default() {
            let does = |word| position.flags.split(' ').any(|flag| flag == word);
            let reads = does("access");
            let writes = does("insert") || does("delete") || does("update");
            let key = args.get(position.index).copied().unwrap_or_default();
            if !self.admit_key(key, reads, writes) {
                return Err(Denied::Key(key.to_vec()));
            }
        }
        Ok(())
    }

    fn admit_key(&self, key: &[u8], reads: bool, writes: bool) -> bool {
        self.keys.iter().any(|known| {
            known.read >= reads && known.write >= writes && glob::matches(&known.pattern, key)
        })
    }

    fn check_channels(&self, command: &Command, args: &[&[u8]]) -> Result<(), Denied> {
        let named = match command.name {
            "publish" | "spublish" => args.get(1..2),
            "subscribe" | "ssubscribe" | "psubscribe" => args.get(1..),
            _ => None,
        };
        for channel in named.unwrap_or_default() {
            if !self.admit_channel(channel, command.name == "psubscribe") {
                return Err(Denied::Channel(channel.to_vec()));
            }
        }
        Ok(())
    }
}

/// A pattern must fit into a line of the ACL file.
fn check_pattern(pattern: &[u8]) -> Result<(), Refused> {
    if pattern.iter().any(|&byte| is_space(byte)) {
        return Err(Refused::SYNTAX);
    }
    Ok(())
}

/// What follows `db=`: numbers of databases, whether there are so many or not.
fn parse_databases(text: &str) -> Result<Databases, Refused> {
    const OUT_OF_RANGE: Refused = Refused::Because("The provided database ID is out of range");
    let mut allowed = BTreeSet::new();
    for word in text.split(',') {
        let (negative, digits) = match word.as_bytes() {
            [b'-', digits @ ..] => (true, digits),
            [b'+', digits @ ..] | digits => (false, digits),
        };
        if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
            return Err(Refused::SYNTAX);
        }
        let digits = std::str::from_utf8(digits).unwrap_or_default();
        let number: i32 = digits.parse().map_err(|_| OUT_OF_RANGE)?;
        if negative {
            return Err(OUT_OF_RANGE);
        }
        allowed.insert(number as usize);
    }
    Ok(Databases::Only(allowed))
}

/// Whether all databases that a request concerns are among those allowed.
fn check_databases(allowed: &BTreeSet<usize>, request: Request<'_>) -> Result<(), Denied> {
    let Request { command, args, .. } = request;
    if command.flags.has(Flags::ALL_DBS) {
        return Err(Denied::Database(None));
    }
    // A number that is none of a database gets its error from the command itself.
    let named = |at: usize| {
        let number = number::parse_i64(args.get(at).copied()?)?;
        usize::try_from(number)
            .ok()
            .filter(|&db| db < request.databases)
    };
    let check = |places: &[usize]| {
        let denied = places
            .iter()
            .find(|&&at| named(at).is_some_and(|db| !allowed.contains(&db)));
        denied.map_or(Ok(()), |&at| Err(Denied::Database(Some(at))))
    };
    match command.name {
        "select" => return check(&[1]),
        "swapdb" if named(1).is_some() && named(2).is_some() => return check(&[1, 2]),
        "swapdb" => return Ok(()),
        "move" => check(&[2])?,
        "copy" => {
            let words = 3..args.len();
            let places: Vec<usize> = words
                .filter(|&at| is_word(args[at], "DB"))
                .map(|at| at + 1)
                .collect();
            check(&places)?;
        }
        _ => {}
    }
    if is_of_a_database(command) && !allowed.contains(&request.db) {
        return Err(Denied::Database(None));
    }
    Ok(())
}

/// Does the command look into the database that is selected?
fn is_of_a_database(command: &Command) -> bool {
    let of_data = [Categories::KEYSPACE, Categories::READ, Categories::WRITE];
    of_data
        .into_iter()
        .any(|category| command.all_categories().has(category))
        || command::key_positions::has_keys(command)
}

impl Rule {
    fn all(allows: bool) -> Rule {
        Rule {
            allows,
            subject: Subject::All,
        }
    }

    fn describe(&self) -> String {
        let sign = if self.allows { '+' } else { '-' };
        match &self.subject {
            Subject::All => format!("{sign}@all"),
            Subject::Category(name, _) => format!("{sign}@{name}"),
            Subject::Command(name) => format!("{sign}{name}"),
            Subject::FirstArgument(name, argument) => format!("{sign}{name}|{argument}"),
        }
    }
}

impl Subject {
    fn parse(name: &str) -> Result<Subject, Refused> {
        if let Some(category) = name.strip_prefix('@') {
            let known = Categories::NAMES
                .iter()
                .find(|(_, known)| *known == category);
            return known
                .map(|&(category, name)| Subject::Category(name, category))
                .ok_or(Refused::UnknownName);
        }
        if let Some(row) = command::by_name(name.as_bytes()) {
            return Ok(Subject::Command(row.name));
        }
        if name.ends_with('|') && name.matches('|').count() == 1 {
            return Err(Refused::SYNTAX);
        }
        let (parent, argument) = name.split_once('|').ok_or(Refused::UnknownName)?;
        let row = command::by_name(parent.as_bytes()).ok_or(Refused::UnknownName)?;
        if !row.subcommands.is_empty() {
            let (child, _) = argument.split_once('|').ok_or(Refused::UnknownName)?;
            return Err(if command::subcommand(row, child.as_bytes()).is_some() {
                Refused::Because("Allowing first-arg of a subcommand is not supported")
            } else {
                Refused::UnknownName
            });
        }
        if argument.contains('|') {
            return Err(Refused::UnknownName);
        }
        Ok(Subject::FirstArgument(row.name, argument.to_owned()))
    }

    /// Whether a rule about this makes one about the other pointless.
    fn covers(&self, other: &Subject) -> bool {
        let Subject::Command(name) = self else {
            return self == other;
        };
        match other {
            Subject::Command(other) => other
                .strip_prefix(name)
                .is_some_and(|rest| rest.is_empty() || rest.starts_with('|')),
            Subject::FirstArgument(other, _) => other == name,
            _ => false,
        }
    }

    fn is_about(&self, command: &Command, args: &[&[u8]]) -> bool {
        match self {
            Subject::All => true,
            Subject::Category(_, category) => command.all_categories().has(*category),
            Subject::Command(name) => {
                command.name == *name
                    || command
                        .name
                        .split_once('|')
                        .is_some_and(|(parent, _)| parent == *name)
            }
            Subject::FirstArgument(name, argument) => {
                let given = args.get(1).copied().unwrap_or_default();
                command.name == *name && command::is_word(given, argument)
            }
        }
    }
}

impl KeyPattern {
    fn describe(&self) -> Vec<u8> {
        let kind: &[u8] = match (self.read, self.write) {
            (true, false) => b"%R~",
            (false, true) => b"%W~",
            _ => b"~",
        };
        [kind, &self.pattern].concat()
    }
}
