//! Users as text: the ACL file, and what the settings file declares.

use std::{borrow::Cow, collections::BTreeMap, io, sync::Arc};

use super::{Refused, User, Users, is_name, join_selectors};
use crate::config::Config;

/// The users that a server starts with: those of the ACL file, or else those declared in the
/// settings file. The error says why there can be none.
pub fn at_start(config: &Config) -> Result<Users, String> {
    let mut users = Users::default();
    users.set_default_password(config.get("requirepass").as_bytes());
    let path = config.get("aclfile");
    if path.is_empty() {
        for (name, words) in &config.users {
            users.put(declared(name, words, config.listens_to_all())?);
        }
        return Ok(users);
    }
    if !config.users.is_empty() {
        return Err("users are declared both in the settings and in an aclfile".to_owned());
    }
    let read = read(path, config.listens_to_all())?;
    users.replace(read);
    Ok(users)
}

/// A user as the settings declare it.
fn declared(name: &str, words: &[String], all_channels: bool) -> Result<User, String> {
    let refused = |word: &[u8], why: &str| {
        let word = String::from_utf8_lossy(word);
        format!("user {name}: '{word}': {why}")
    };
    if !is_name(name) {
        return Err(refused(name.as_bytes(), "names have no spaces in them"));
    }
    let mut user = User::new(name, all_channels);
    let words: Vec<&[u8]> = words.iter().map(String::as_bytes).collect();
    for word in join_selectors(&words).map_err(|word| refused(word, UNMATCHED))? {
        user.modify(&word, all_channels)
            .map_err(|why| refused(&word, why.text()))?;
    }
    Ok(user)
}

const UNMATCHED: &str = "Unmatched parenthesis in selector definition";

/// Reads the users of an ACL file, a line each; all lines must be right.
pub fn read(path: &str, all_channels: bool) -> Result<Vec<User>, String> {
    let text = std::fs::read(path).map_err(|error| {
        let why = system_text(&error);
        format!("Error loading ACLs, opening file '{path}': {why}")
    })?;
    let mut reading = Reading {
        path,
        all_channels,
        users: BTreeMap::new(),
        errors: String::new(),
    };
    for (index, line) in text.split(|&byte| byte == b'\n').enumerate() {
        reading.line(index + 1, line.trim_ascii());
    }
    if reading.errors.is_empty() {
        return Ok(reading.users.into_values().collect());
    }
    const UNCHANGED: &str = "WARNING: ACL errors detected, no change to the previously active \
        ACL rules was performed";
    Err(reading.errors + UNCHANGED)
}

/// What the system says of a failure, without the number that Rust adds.
fn system_text(error: &io::Error) -> String {
    let text = error.to_string();
    match text.find(" (os error") {
        Some(end) => text[..end].to_owned(),
        None => text,
    }
}

struct Reading<'a> {
    path: &'a str,
    all_channels: bool,
    users: BTreeMap<Arc<str>, User>,
    errors: String,
}

impl Reading<'_> {
    fn line(&mut self, number: usize, line: &[u8]) {
        if line.is_empty() {
            return;
        }
        let place = format!("{}:{number}", self.path);
        let words: Vec<&[u8]> = line
            .split(|&byte| byte == b' ')
            .map(<[u8]>::trim_ascii)
            .collect();
        let [b"user", name, rules @ ..] = words.as_slice() else {
            return self.error(&format!(
                "{place} should start with user keyword followed by the username. "
            ));
        };
        let name = match std::str::from_utf8(name) {
            Ok(name) if is_name(name) => name,
            _ => {
                let name = String::from_utf8_lossy(name);
                return self.error(&format!(
                    "'{place}: username '{name}' contains invalid characters. "
                ));
            }
        };
        if self.users.contains_key(name) {
            return self.error(&format!(
                "WARNING: Duplicate user '{name}' found on line {number}. "
            ));
        }
        let mut user = User::new(name, self.all_channels);
        match join_selectors(rules) {
            Ok(rules) => self.rules(&mut user, &place, &rules),
            Err(_) => self.error(&format!("{place}: {UNMATCHED}.")),
        }
        self.users.insert(user.name.clone(), user);
    }

    fn rules(&mut self, user: &mut User, place: &str, rules: &[Cow<'_, [u8]>]) {
        let mut told = false;
        for rule in rules {
            let Err(why) = user.modify(rule, self.all_channels) else {
                continue;
            };
            let text = why.text();
            // All unknown names are told, of other errors one a line.
            if why == Refused::UnknownName {
                let rule = String::from_utf8_lossy(rule);
                self.error(&format!(
                    "{place}: Error in applying operation '{rule}': {text}. "
                ));
            } else if !std::mem::replace(&mut told, true) {
                self.error(&format!("{place}: {text}. "));
            }
        }
    }

    fn error(&mut self, text: &str) {
        self.errors.push_str(text);
    }
}

/// Writes the users into an ACL file. The old one stays whole until the new one is.
pub fn write(path: &str, users: &Users) -> io::Result<()> {
    let mut text = Vec::new();
    for user in users.iter() {
        text.extend(user.describe());
        text.push(b'\n');
    }
    let beside = format!("{path}.{}.tmp", std::process::id());
    std::fs::write(&beside, text)?;
    std::fs::rename(&beside, path).inspect_err(|_| drop(std::fs::remove_file(&beside)))
}
