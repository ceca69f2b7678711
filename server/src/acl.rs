//! Users, and what each may run, on which keys, channels and databases.

use std::{borrow::Cow, collections::BTreeMap, sync::Arc};

use crate::{
    command::{Command, Flags},
    error::Error,
    resp::split_words,
    sha256,
};

pub mod file;
mod log;
mod permissions;

pub use log::{Log, LogEntry};
pub use permissions::{Permissions, Request};

/// The name of the user that everybody is at first.
pub const DEFAULT: &str = "default";

/// Every user by name.
pub struct Users {
    by_name: BTreeMap<Arc<str>, User>,
    pub log: Log,
    /// There is but the default user, and nothing is forbidden to it: no need to look.
    unlimited: bool,
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

/// Why a request is denied; the later ones are nearer to being allowed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Denied {
    /// Named by the argument at an index, or the one that is selected.
    Database(Option<usize>),
    Command,
    Key(Vec<u8>),
    Channel(Vec<u8>),
}

/// Why a word about a user says nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused {
    /// It names no command and no category.
    UnknownName,
    Because(&'static str),
}

impl Refused {
    const SYNTAX: Refused = Refused::Because("Syntax error");

    pub fn text(self) -> &'static str {
        match self {
            Refused::UnknownName => "Unknown command or category name in ACL",
            Refused::Because(text) => text,
        }
    }
}

impl Denied {
    /// The error of a user's own request.
    pub fn error(&self, user: &str, command: &Command) -> Error {
        Error::owned(match self {
            Denied::Command => format!("NOPERM {}", Denied::command_text(user, command)),
            Denied::Key(_) => "NOPERM No permissions to access a key".to_owned(),
            Denied::Channel(_) => "NOPERM No permissions to access a channel".to_owned(),
            Denied::Database(_) => "NOPERM No permissions to access database".to_owned(),
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

    /// The error of a queued command that was allowed when it was queued.
    pub fn late_error(&self) -> Error {
        let reason = match self {
            Denied::Command => "no permission to execute the command or subcommand",
            Denied::Key(_) => "no permission to touch the specified keys",
            Denied::Channel(_) => "no permission to access one of the channels used as arguments",
            Denied::Database(_) => "no permission",
        };
        Error::owned(format!(
            "NOPERM ACLs rules changed between the moment the transaction was accumulated and the \
            EXEC call. This command is no longer allowed for the following reason: {reason}"
        ))
    }

    /// What ACL DRYRUN says.
    pub fn dry_run(&self, user: &str, command: &Command, args: &[&[u8]]) -> Vec<u8> {
        let (name, what) = match self {
            Denied::Command => return Denied::command_text(user, command).into_bytes(),
            Denied::Database(at) => {
                let start = format!("User {user} has no permissions to access database ");
                let named = args.get(at.unwrap_or(0)).copied().unwrap_or_default();
                return [start.as_bytes(), named].concat();
            }
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
    pub fn logged(&self, command: &Command, args: &[&[u8]]) -> (&'static str, Vec<u8>) {
        let name = command.name.as_bytes();
        match self {
            Denied::Command => ("command", name.to_vec()),
            Denied::Key(name) => ("key", name.clone()),
            Denied::Channel(name) => ("channel", name.clone()),
            Denied::Database(at) => {
                let named = at.and_then(|at| args.get(at).copied());
                ("database", named.unwrap_or(name).to_vec())
            }
        }
    }
}

impl Default for Users {
    fn default() -> Users {
        let mut users = Users {
            by_name: BTreeMap::new(),
            log: Log::default(),
            unlimited: true,
        };
        users.put(User::first());
        users
    }
}

impl Users {
    pub fn get(&self, name: &[u8]) -> Option<&User> {
        self.by_name.get(std::str::from_utf8(name).ok()?)
    }

    /// Whether everybody is the default user without saying so.
    pub fn default_is_open(&self) -> bool {
        self.default_needs_no_password() && self.by_name[DEFAULT].on
    }

    pub fn default_needs_no_password(&self) -> bool {
        self.by_name.get(DEFAULT).is_some_and(|user| user.no_pass)
    }

    /// Gives the default user this password only, or none when it is empty.
    pub fn set_default_password(&mut self, password: &[u8]) {
        if let Some(user) = self.by_name.get_mut(DEFAULT) {
            user.no_pass = password.is_empty();
            user.passwords.clear();
            if !password.is_empty() {
                user.passwords.push(sha256::hex_digest(password));
            }
        }
    }

    pub fn iter(&self) -> impl Iterator<Item = &User> {
        self.by_name.values()
    }

    pub fn put(&mut self, user: User) {
        self.by_name.insert(user.name.clone(), user);
        let mut users = self.by_name.values();
        self.unlimited = users.all(|user| &*user.name == DEFAULT && user.root.are_unlimited());
    }

    pub fn remove(&mut self, name: &[u8]) -> bool {
        std::str::from_utf8(name).is_ok_and(|name| self.by_name.remove(name).is_some())
    }

    /// Puts these users in the place of all others. The log stays.
    pub fn replace(&mut self, users: Vec<User>) {
        self.by_name.clear();
        self.put(User::first());
        for user in users {
            self.put(user);
        }
    }

    /// Whether the user may make this request. A user that is gone may do nothing.
    #[inline]
    pub fn check(&self, name: &str, request: Request<'_>) -> Result<(), Denied> {
        if self.unlimited || request.command.flags.has(Flags::NO_AUTH) {
            return Ok(());
        }
        self.by_name
            .get(name)
            .map_or(Err(Denied::Command), |user| user.check(request))
    }

    /// Whether the user may make a request that reads any key, not only those that it names.
    pub fn reads_all_keys(&self, name: &str, request: Request<'_>) -> bool {
        self.unlimited
            || self.by_name.get(name).is_some_and(|user| {
                user.all_permissions().any(|permissions| {
                    permissions.read_all_keys() && permissions.check(request).is_ok()
                })
            })
    }

    /// Whether the user may go on listening to a channel, or to a pattern.
    pub fn admit_channel(&self, name: &str, channel: &[u8], is_pattern: bool) -> bool {
        self.by_name.get(name).is_some_and(|user| {
            user.all_permissions()
                .any(|permissions| permissions.admit_channel(channel, is_pattern))
        })
    }
}

impl User {
    /// A user that may do nothing yet, but perhaps listen to all channels.
    pub fn new(name: &str, all_channels: bool) -> User {
        User {
            name: name.into(),
            on: false,
            no_pass: false,
            passwords: Vec::new(),
            root: Permissions::new(all_channels),
            selectors: Vec::new(),
        }
    }

    /// The default user as it is at first: everybody, with every right.
    fn first() -> User {
        let mut user = User::new(DEFAULT, true);
        (user.on, user.no_pass) = (true, true);
        for modifier in ["allkeys", "allcommands"] {
            let applied = user.root.modify(modifier.as_bytes());
            debug_assert!(applied.is_ok(), "{modifier} is known");
        }
        user
    }

    /// Whether somebody who knows this password may become the user.
    pub fn admits(&self, password: &[u8]) -> bool {
        self.on && (self.no_pass || self.passwords.contains(&sha256::hex_digest(password)))
    }

    fn all_permissions(&self) -> impl Iterator<Item = &Permissions> {
        std::iter::once(&self.root).chain(&self.selectors)
    }

    fn check(&self, request: Request<'_>) -> Result<(), Denied> {
        let mut denied = match self.root.check(request) {
            Ok(()) => return Ok(()),
            Err(denied) => denied,
        };
        for selector in &self.selectors {
            match selector.check(request) {
                Ok(()) => return Ok(()),
                Err(other) => denied = denied.max(other),
            }
        }
        Err(denied)
    }

    /// Applies one word of ACL SETUSER. What is made anew by it listens to all channels if so
    /// told.
    pub fn modify(&mut self, modifier: &[u8], all_channels: bool) -> Result<(), Refused> {
        const UNKNOWN_PASSWORD: Refused =
            Refused::Because("The password you are trying to remove from the user does not exist");
        let text = std::str::from_utf8(modifier).unwrap_or_default();
        match (modifier.first(), text.to_ascii_lowercase().as_str()) {
            (_, "on") => self.on = true,
            (_, "off") => self.on = false,
            (_, "nopass") => (self.no_pass, self.passwords) = (true, Vec::new()),
            (_, "resetpass") => (self.no_pass, self.passwords) = (false, Vec::new()),
            (_, "reset") => *self = User::new(&self.name, all_channels),
            (_, "clearselectors") => self.selectors.clear(),
            (None, _) | (_, "sanitize-payload" | "skip-sanitize-payload") => {}
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
            (Some(b'('), _) => self.add_selector(modifier, all_channels)?,
            _ => return self.root.modify(modifier),
        }
        Ok(())
    }

    fn add_selector(&mut self, modifier: &[u8], all_channels: bool) -> Result<(), Refused> {
        let inner = modifier
            .strip_prefix(b"(")
            .and_then(|text| text.strip_suffix(b")"))
            .ok_or(Refused::SYNTAX)?;
        let mut selector = Permissions::new(all_channels);
        for word in split_words(inner).unwrap_or_default() {
            selector.modify(&word)?;
        }
        self.selectors.push(selector);
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

fn digest(text: &str) -> Result<String, Refused> {
    let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    if text.len() == 64 && text.bytes().all(is_digit) {
        return Ok(text.to_owned());
    }
    Err(Refused::Because(
        "The password hash must be exactly 64 characters and contain only lowercase hexadecimal \
        characters",
    ))
}

/// Whether a user can be called so.
pub fn is_name(name: &str) -> bool {
    !name.bytes().any(is_space)
}

/// What no name and no pattern may hold, so that each is a word of the ACL file.
fn is_space(byte: u8) -> bool {
    matches!(byte, 0 | b'\x0b') || byte.is_ascii_whitespace()
}

/// Joins the words of each selector into one. The error is the word that opens one without end.
pub fn join_selectors<'a>(words: &[&'a [u8]]) -> Result<Vec<Cow<'a, [u8]>>, &'a [u8]> {
    let mut joined: Vec<Cow<'a, [u8]>> = Vec::with_capacity(words.len());
    let mut open: Option<(&[u8], Vec<u8>)> = None;
    for &word in words {
        let closes = word.ends_with(b")");
        match &mut open {
            Some((_, selector)) => {
                selector.push(b' ');
                selector.extend_from_slice(word);
            }
            None if word.starts_with(b"(") && !closes => open = Some((word, word.to_vec())),
            None => joined.push(Cow::Borrowed(word)),
        }
        if closes && let Some((_, selector)) = open.take() {
            joined.push(Cow::Owned(selector));
        }
    }
    match open {
        Some((word, _)) => Err(word),
        None => Ok(joined),
    }
}
