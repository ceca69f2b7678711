//! Users, and what each may run, on which keys and channels.

use std::{
    collections::{BTreeMap, VecDeque},
    sync::Arc,
};

use crate::{
    command::{self, Categories, Command, Flags, key_positions::key_positions},
    error::Error,
    glob, sha256,
};

/// The name of the user that everybody is at first.
pub const DEFAULT: &str = "default";

/// Every user by name.
pub struct Users {
    by_name: BTreeMap<Arc<str>, User>,
    pub log: Log,
    /// There is but the default user, who may do everything: nothing needs to be looked up.
    open: bool,
}

/// A user: how to become it, and what it may do.
#[derive(Clone, Debug)]
pub struct User {
    pub name: Arc<str>,
    pub on: bool,
    /// Any password will do.
    pub no_pass: bool,
    /// Digests of the passwords.
    pub passwords: Vec<String>,
    pub root: Permissions,
    /// Further sets of permissions, each enough by itself.
    pub selectors: Vec<Permissions>,
}

/// What may be run, on which keys and channels.
#[derive(Clone, Debug, Default)]
pub struct Permissions {
    /// The last one that fits a command decides.
    rules: Vec<Rule>,
    all_keys: bool,
    keys: Vec<KeyPattern>,
    all_channels: bool,
    channels: Vec<Vec<u8>>,
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

/// Why a request is denied; the later ones are nearer to being allowed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Denied {
    Command,
    Key(Vec<u8>),
    Channel(Vec<u8>),
}

/// What was denied lately, the newest first.
#[derive(Default)]
pub struct Log {
    entries: VecDeque<LogEntry>,
    next_id: u64,
}

/// Something that was denied, once or several times.
#[derive(Clone, Debug)]
pub struct LogEntry {
    pub id: u64,
    pub count: u64,
    /// `auth`, `command`, `key` or `channel`.
    pub reason: &'static str,
    /// `toplevel`, `multi` or `lua`.
    pub context: &'static str,
    pub object: Vec<u8>,
    pub user: String,
    pub client: Vec<u8>,
    /// When it happened first and last, in milliseconds since 1970.
    pub created: u64,
    pub updated: u64,
}

impl Log {
    /// How long the same thing counts as one entry, in milliseconds.
    const SAME_WITHIN: u64 = 60_000;
    const MAX_LEN: usize = 128;

    pub fn entries(&self) -> impl Iterator<Item = &LogEntry> {
        self.entries.iter()
    }

    pub fn clear(&mut self) {
        self.entries.clear();
    }

    pub fn add(&mut self, mut entry: LogEntry) {
        let same = |known: &LogEntry| {
            let what = |of: &LogEntry| (of.reason, of.context, of.object.clone(), of.user.clone());
            what(known) == what(&entry) && entry.updated - known.updated < Log::SAME_WITHIN
        };
        if let Some(at) = self.entries.iter().position(same)
            && let Some(known) = self.entries.remove(at)
        {
            (entry.id, entry.count) = (known.id, known.count + 1);
            entry.created = known.created;
        } else {
            entry.id = self.next_id;
            self.next_id += 1;
        }
        self.entries.push_front(entry);
        self.entries.truncate(Log::MAX_LEN);
    }
}

impl Denied {
    /// The error of a user's own request.
    pub fn error(&self, user: &str, command: &Command) -> Error {
        Error::owned(match self {
            Denied::Command => format!("NOPERM {}", Denied::command_text(user, command)),
            Denied::Key(_) => "NOPERM No permissions to access a key".to_owned(),
            Denied::Channel(_) => "NOPERM No permissions to access a channel".to_owned(),
        })
    }

    /// The error of a command in a script.
    pub fn script_error(&self, user: &str, command: &Command) -> Error {
        let error = self.error(user, command);
        let text = error
            .as_bytes()
            .strip_prefix(b"NOPERM ")
            .unwrap_or_default();
        Error::owned([b"ERR ACL failure in script: ", text].concat())
    }

    /// What ACL DRYRUN says.
    pub fn dry_run(&self, user: &str, command: &Command) -> Vec<u8> {
        let (name, what) = match self {
            Denied::Command => return Denied::command_text(user, command).into_bytes(),
            Denied::Key(name) => (name, "key"),
            Denied::Channel(name) => (name, "channel"),
        };
        let start = format!("User {user} has no permissions to access the '");
        [start.as_bytes(), name, b"' ", what.as_bytes()].concat()
    }

    fn command_text(user: &str, command: &Command) -> String {
        format!(
            "User {user} has no permissions to run the '{}' command",
            command.name
        )
    }

    /// What the log says of it: the reason, and the name of what was denied.
    pub fn logged(&self, command: &Command) -> (&'static str, Vec<u8>) {
        match self {
            Denied::Command => ("command", command.name.as_bytes().to_vec()),
            Denied::Key(name) => ("key", name.clone()),
            Denied::Channel(name) => ("channel", name.clone()),
        }
    }
}

impl Default for Users {
    fn default() -> Users {
        let mut user = User::new(DEFAULT);
        for modifier in ["on", "nopass", "allkeys", "allchannels", "allcommands"] {
            // What the default user begins with is well-formed.
            let _ = user.modify(modifier.as_bytes());
        }
        let by_name = BTreeMap::from([(user.name.clone(), user)]);
        Users {
            by_name,
            log: Log::default(),
            open: true,
        }
    }
}

impl Users {
    pub fn get(&self, name: &[u8]) -> Option<&User> {
        self.by_name.get(std::str::from_utf8(name).ok()?)
    }

    /// Whether everybody may be the default user.
    pub fn default_is_open(&self) -> bool {
        self.open
            || self
                .by_name
                .get(DEFAULT)
                .is_some_and(|user| user.on && user.no_pass)
    }

    pub fn iter(&self) -> impl Iterator<Item = &User> {
        self.by_name.values()
    }

    pub fn put(&mut self, user: User) {
        self.open = false;
        self.by_name.insert(user.name.clone(), user);
    }

    pub fn remove(&mut self, name: &[u8]) -> bool {
        std::str::from_utf8(name).is_ok_and(|name| self.by_name.remove(name).is_some())
    }

    /// Whether the user may make this request. A user that is gone may do nothing.
    pub fn check(&self, name: &str, command: &Command, args: &[&[u8]]) -> Result<(), Denied> {
        if self.open || command.flags.has(Flags::NO_AUTH) {
            return Ok(());
        }
        self.by_name
            .get(name)
            .map_or(Err(Denied::Command), |user| user.check(command, args))
    }
}

impl User {
    pub fn new(name: &str) -> User {
        User {
            name: name.into(),
            on: false,
            no_pass: false,
            passwords: Vec::new(),
            root: Permissions::default(),
            selectors: Vec::new(),
        }
    }

    /// Whether somebody who knows this password may become the user.
    pub fn admits(&self, password: &[u8]) -> bool {
        self.on && (self.no_pass || self.passwords.contains(&sha256::hex_digest(password)))
    }

    fn check(&self, command: &Command, args: &[&[u8]]) -> Result<(), Denied> {
        let mut denied = match self.root.check(command, args) {
            Ok(()) => return Ok(()),
            Err(denied) => denied,
        };
        for selector in &self.selectors {
            match selector.check(command, args) {
                Ok(()) => return Ok(()),
                Err(other) => denied = denied.max(other),
            }
        }
        Err(denied)
    }

    /// Applies one word of ACL SETUSER; an error is without its beginning.
    pub fn modify(&mut self, modifier: &[u8]) -> Result<(), &'static str> {
        const UNKNOWN_PASSWORD: &str =
            "The password you are trying to remove from the user does not exist";
        let text = std::str::from_utf8(modifier).unwrap_or_default();
        let lower = text.to_ascii_lowercase();
        match (modifier.first(), lower.as_str()) {
            (_, "on") => self.on = true,
            (_, "off") => self.on = false,
            (_, "nopass") => (self.no_pass, self.passwords) = (true, Vec::new()),
            (_, "resetpass") => (self.no_pass, self.passwords) = (false, Vec::new()),
            (_, "reset") => *self = User::new(&self.name),
            (_, "clearselectors") => self.selectors.clear(),
            (_, "sanitize-payload" | "skip-sanitize-payload" | "alldbs") => {}
            (Some(b'>'), _) => self.add_password(sha256::hex_digest(&modifier[1..])),
            (Some(b'#'), _) => self.add_password(digest(&text[1.min(text.len())..])?),
            (Some(b'<'), _) => {
                let removed = self.remove_password(&sha256::hex_digest(&modifier[1..]));
                return removed.then_some(()).ok_or(UNKNOWN_PASSWORD);
            }
            (Some(b'!'), _) => {
                let removed = self.remove_password(&digest(&text[1.min(text.len())..])?);
                return removed.then_some(()).ok_or(UNKNOWN_PASSWORD);
            }
            (Some(b'('), _) => {
                let inner = text
                    .strip_prefix('(')
                    .and_then(|text| text.strip_suffix(')'));
                let mut selector = Permissions::default();
                for word in inner.ok_or(SYNTAX)?.split_ascii_whitespace() {
                    selector.modify(word.as_bytes())?;
                }
                self.selectors.push(selector);
            }
            _ => return self.root.modify(modifier),
        }
        Ok(())
    }

    fn add_password(&mut self, digest: String) {
        self.no_pass = false;
        if !self.passwords.contains(&digest) {
            self.passwords.push(digest);
        }
    }

    fn remove_password(&mut self, digest: &str) -> bool {
        let before = self.passwords.len();
        self.passwords.retain(|known| known != digest);
        self.passwords.len() < before
    }

    /// The user as ACL LIST shows it.
    pub fn describe(&self) -> Vec<u8> {
        let mut line = format!("user {} {}", self.name, if self.on { "on" } else { "off" });
        if self.no_pass {
            line.push_str(" nopass");
        }
        for password in &self.passwords {
            line.push_str(" #");
            line.push_str(password);
        }
        let mut line = line.into_bytes();
        line.push(b' ');
        line.extend(self.root.describe());
        for selector in &self.selectors {
            line.extend(b" (");
            line.extend(selector.describe());
            line.push(b')');
        }
        line
    }
}

const SYNTAX: &str = "Syntax error";

fn digest(text: &str) -> Result<String, &'static str> {
    let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    if text.len() == 64 && text.bytes().all(is_digit) {
        return Ok(text.to_owned());
    }
    Err(
        "The password hash must be exactly 64 characters and contain only lowercase hexadecimal \
        characters",
    )
}

impl Permissions {
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

    fn describe(&self) -> Vec<u8> {
        let mut parts = vec![self.keys()];
        if !self.all_channels {
            parts.push(b"resetchannels".to_vec());
        }
        parts.extend([self.channels(), self.commands().into_bytes()]);
        parts.retain(|part| !part.is_empty());
        parts.join(&b' ')
    }

    fn modify(&mut self, modifier: &[u8]) -> Result<(), &'static str> {
        let text = std::str::from_utf8(modifier).unwrap_or_default();
        let lower = text.to_ascii_lowercase();
        match (modifier.split_first(), lower.as_str()) {
            (_, "allkeys" | "~*") => (self.all_keys, self.keys) = (true, Vec::new()),
            (_, "resetkeys") => (self.all_keys, self.keys) = (false, Vec::new()),
            (_, "allchannels" | "&*") => (self.all_channels, self.channels) = (true, Vec::new()),
            (_, "resetchannels") => (self.all_channels, self.channels) = (false, Vec::new()),
            (_, "allcommands" | "+@all") => self.rules = vec![Rule::all(true)],
            (_, "nocommands" | "-@all") => self.rules.clear(),
            (Some((b'~' | b'%', _)), _) => self.add_keys(modifier)?,
            (Some((b'&', pattern)), _) => self.add_channel(pattern)?,
            (Some((b'+', _)), _) => self.add_rule(true, &lower[1..])?,
            (Some((b'-', _)), _) => self.add_rule(false, &lower[1..])?,
            _ => return Err(SYNTAX),
        }
        Ok(())
    }

    fn add_keys(&mut self, modifier: &[u8]) -> Result<(), &'static str> {
        if self.all_keys {
            return Err(
                "Adding a pattern after the * pattern (or the 'allkeys' flag) is not valid \
                and does not have any effect. Try 'resetkeys' to start with an empty list of \
                patterns",
            );
        }
        let at = modifier
            .iter()
            .position(|&byte| byte == b'~')
            .ok_or(SYNTAX)?;
        let kinds = modifier[..at].to_ascii_uppercase();
        let (read, write) = match kinds.as_slice() {
            b"" | b"%RW" | b"%WR" => (true, true),
            b"%R" => (true, false),
            b"%W" => (false, true),
            _ => return Err(SYNTAX),
        };
        let new = KeyPattern {
            pattern: modifier[at + 1..].to_vec(),
            read,
            write,
        };
        if !self.keys.contains(&new) {
            self.keys.push(new);
        }
        Ok(())
    }

    fn add_channel(&mut self, pattern: &[u8]) -> Result<(), &'static str> {
        if self.all_channels {
            return Err(
                "Adding a pattern after the * pattern (or the 'allchannels' flag) is not \
                valid and does not have any effect. Try 'resetchannels' to start with an empty \
                list of channels",
            );
        }
        if !self.channels.iter().any(|known| known == pattern) {
            self.channels.push(pattern.to_vec());
        }
        Ok(())
    }

    fn add_rule(&mut self, allows: bool, name: &str) -> Result<(), &'static str> {
        let subject = Subject::parse(name).ok_or("Unknown command or category name in ACL")?;
        self.rules.retain(|rule| !subject.covers(&rule.subject));
        self.rules.push(Rule { allows, subject });
        Ok(())
    }

    fn check(&self, command: &Command, args: &[&[u8]]) -> Result<(), Denied> {
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
            let admits = |known: &KeyPattern| {
                known.read >= reads && known.write >= writes && glob::matches(&known.pattern, key)
            };
            if !self.keys.iter().any(admits) {
                return Err(Denied::Key(key.to_vec()));
            }
        }
        Ok(())
    }

    fn check_channels(&self, command: &Command, args: &[&[u8]]) -> Result<(), Denied> {
        let named = match command.name {
            "publish" | "spublish" => args.get(1..2),
            "subscribe" | "ssubscribe" | "psubscribe" => args.get(1..),
            _ => None,
        };
        for channel in named.unwrap_or_default() {
            // A pattern is allowed only as it stands: who knows what it would hear otherwise.
            let admits = |known: &Vec<u8>| match command.name {
                "psubscribe" => known == channel,
                _ => glob::matches(known, channel),
            };
            if !self.channels.iter().any(admits) {
                return Err(Denied::Channel(channel.to_vec()));
            }
        }
        Ok(())
    }
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
    fn parse(name: &str) -> Option<Subject> {
        if let Some(category) = name.strip_prefix('@') {
            let known = Categories::NAMES
                .iter()
                .find(|(_, known)| *known == category);
            return known.map(|&(category, name)| Subject::Category(name, category));
        }
        if let Some(row) = command::by_name(name.as_bytes()) {
            return Some(Subject::Command(row.name));
        }
        let (parent, argument) = name.split_once('|')?;
        let row = command::by_name(parent.as_bytes()).filter(|row| row.subcommands.is_empty())?;
        Some(Subject::FirstArgument(row.name, argument.to_owned()))
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
