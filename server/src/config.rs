//! One table of settings: flags, the configuration file, CONFIG and the builder read it.
//!
//! What a setting is named, what it starts as and what it may be is one row. The text of a value
//! is kept as CONFIG GET shows it; what hot paths read is kept as typed values beside it.

use std::{borrow::Cow, fmt::Write};

use crate::{
    clock::Time,
    eviction::Policy,
    number,
    value::{limits::Limits, stream::NodeLimits},
};

mod forms;
mod table;

pub use forms::parse_events;
use forms::{OUTPUT_LIMITS, read_output_limits};
pub use table::{RETIRED, SETTINGS};

/// A setting: its name, its default as text, and what a value must be.
pub struct Setting {
    pub name: &'static str,
    /// An older name of it, or an empty text.
    pub alias: &'static str,
    pub default: &'static str,
    pub kind: Kind,
    pub access: Access,
    /// Shown only to who asks for it by its name.
    pub hidden: bool,
}

/// Who may change a setting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    Free,
    /// Set at the start only.
    Fixed,
    /// At run time only with `enable-protected-configs`.
    Protected,
}

/// What a value may be.
#[derive(Clone, Copy)]
pub enum Kind {
    Text,
    Bool,
    Int {
        min: i64,
        max: i64,
    },
    /// Permissions, in octal digits.
    Octal,
    /// Bytes, with a unit such as `64mb`.
    Memory {
        min: i64,
        max: i64,
    },
    Choice(&'static [&'static str]),
    /// Only the default of what it is elsewhere: the text says why there is nothing to choose.
    Only(&'static Kind, &'static str),
    /// Made by a function of the present value and the one asked for.
    Special(fn(&str, &str) -> Result<String, String>),
}

impl Setting {
    const fn new(name: &'static str, default: &'static str, kind: Kind) -> Setting {
        Setting {
            name,
            alias: "",
            default,
            kind,
            access: Access::Free,
            hidden: false,
        }
    }

    const fn alias(mut self, alias: &'static str) -> Setting {
        self.alias = alias;
        self
    }

    const fn fixed(mut self) -> Setting {
        self.access = Access::Fixed;
        self
    }

    const fn protected(mut self) -> Setting {
        self.access = Access::Protected;
        self
    }

    const fn hidden(mut self) -> Setting {
        self.hidden = true;
        self
    }

    fn is_called(&self, name: &str) -> bool {
        self.name.eq_ignore_ascii_case(name)
            || !self.alias.is_empty() && self.alias.eq_ignore_ascii_case(name)
    }
}

/// The settings that hot paths read, as typed values.
#[derive(Clone, Debug, Default)]
pub struct Hot {
    pub databases: usize,
    pub limits: Limits,
    pub stream_nodes: NodeLimits,
    /// What a sparse `HyperLogLog` may occupy, in bytes.
    pub hll_sparse_max: usize,
    pub max_clients: usize,
    pub notify: u32,
    pub bulk_len_max: i64,
    /// What a client's request may occupy before it is whole, in bytes.
    pub query_buffer_max: usize,
    pub output_normal: OutputLimit,
    pub output_pubsub: OutputLimit,
    /// Of slow requests, large requests and large replies.
    pub logs: [LogLimits; 3],
    /// Seconds after which an idle client is disconnected; 0 for never.
    pub timeout: u64,
    /// Replicas that a write must find; there is never one.
    pub min_replicas: usize,
    pub latency_tracking: bool,
    /// Idle seconds after which a socket's other end is probed; 0 for never.
    pub tcp_keepalive: u64,
    pub protected_mode: bool,
    pub cluster: bool,
    /// What all keys together may occupy, in bytes; 0 for no limit.
    pub max_memory: usize,
    pub eviction: Policy,
    /// Milliseconds from which an event is noted for LATENCY; 0 for never.
    pub latency_threshold: u64,
    /// How many keys are tracked at most; 0 for no limit.
    pub tracking_keys_max: usize,
}

/// What goes into one of the logs of requests.
#[derive(Clone, Copy, Debug, Default)]
pub struct LogLimits {
    /// Microseconds or bytes from which a request is noted; negative for none.
    pub threshold: i64,
    /// How many entries are kept.
    pub max_len: usize,
}

/// How much a client may leave unread before it is disconnected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OutputLimit {
    /// In bytes; 0 for no limit.
    pub hard: usize,
    /// In bytes, for as long as `seconds`; 0 for no limit.
    pub soft: usize,
    pub seconds: u64,
}

impl OutputLimit {
    /// Does a client with so many bytes unread have to go? `since` keeps when it went over the
    /// soft limit.
    pub fn is_exceeded(self, unread: usize, since: &mut Option<Time>, now: Time) -> bool {
        if self.hard > 0 && unread > self.hard {
            return true;
        }
        if self.soft == 0 || unread <= self.soft {
            *since = None;
            return false;
        }
        let first = *since.get_or_insert(now);
        now.seconds().saturating_sub(first.seconds()) > self.seconds
    }
}

/// The settings of a server.
#[derive(Clone, Debug)]
pub struct Config {
    values: Vec<Cow<'static, str>>,
    pub hot: Hot,
    /// The file that the settings were read from, or an empty text.
    pub file: String,
    /// The users that the file declares, each with the words about it.
    pub users: Vec<(String, Vec<String>)>,
}

impl Default for Config {
    fn default() -> Self {
        let values = SETTINGS
            .iter()
            .map(|setting| Cow::Borrowed(setting.default))
            .collect();
        let mut config = Config {
            values,
            hot: Hot::default(),
            file: String::new(),
            users: Vec::new(),
        };
        config.refresh();
        config
    }
}

/// Why a setting was not set.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    Unknown,
    Fixed,
    Protected,
    Twice,
    /// What the value should be.
    Value(String),
}

impl std::fmt::Display for Refusal {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Refusal::Unknown => "there is no such setting",
            Refusal::Fixed => "can't set immutable config",
            Refusal::Protected => "can't set protected config",
            Refusal::Twice => "duplicate parameter",
            Refusal::Value(text) => text,
        })
    }
}

impl Config {
    /// The value of a setting by its present name.
    pub fn get(&self, name: &str) -> &str {
        SETTINGS
            .binary_search_by(|setting| setting.name.cmp(name))
            .map_or("", |at| &self.values[at])
    }

    pub fn is_on(&self, name: &str) -> bool {
        self.get(name) == "yes"
    }

    pub fn int(&self, name: &str) -> i64 {
        self.get(name).parse().unwrap_or_default()
    }

    /// Every setting that goes by the name, with its value; a name may be a pattern. One that is
    /// no pattern is given back as it was typed.
    pub fn matching(&self, name: &str) -> Vec<(String, &str)> {
        if !name.contains(['*', '?', '[']) {
            let found = position(name).map(|at| (name.to_owned(), &*self.values[at]));
            return found.into_iter().collect();
        }
        let mut found = Vec::new();
        let shown = SETTINGS
            .iter()
            .zip(&self.values)
            .filter(|(setting, _)| !setting.hidden);
        for (setting, value) in shown {
            for known in [setting.name, setting.alias] {
                if crate::glob::matches_any_case(name.as_bytes(), known.as_bytes())
                    && !known.is_empty()
                {
                    found.push((known.to_owned(), &**value));
                }
            }
        }
        found
    }

    /// Sets a setting at the start of a server.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
        if RETIRED
            .iter()
            .any(|retired| retired.eq_ignore_ascii_case(name))
        {
            return Ok(());
        }
        let at = position(name).ok_or_else(|| format!("unknown setting '{name}'"))?;
        self.values[at] = self.checked(at, value)?.into();
        self.refresh();
        Ok(())
    }

    /// Sets settings of a running server, all or none. The error comes with the index of the
    /// setting that it is about.
    pub fn change(&mut self, pairs: &[(&str, &str)]) -> Result<(), (usize, Refusal)> {
        let mut places = Vec::with_capacity(pairs.len());
        for (index, (name, _)) in pairs.iter().enumerate() {
            let at = self.changeable(name).map_err(|refusal| (index, refusal))?;
            // An old name beside the new one passes in the references, so the last one wins.
            let same = |(other, _): &(&str, &str)| other.eq_ignore_ascii_case(name);
            if pairs[..index].iter().any(same) {
                return Err((index, Refusal::Twice));
            }
            places.push(at);
        }
        let before = self.values.clone();
        for (index, (&at, (_, value))) in places.iter().zip(pairs).enumerate() {
            match self.checked(at, value) {
                Ok(value) => self.values[at] = value.into(),
                Err(text) => {
                    self.values = before;
                    return Err((index, Refusal::Value(text)));
                }
            }
        }
        self.refresh();
        Ok(())
    }

    fn changeable(&self, name: &str) -> Result<usize, Refusal> {
        let at = position(name).ok_or(Refusal::Unknown)?;
        match SETTINGS[at].access {
            Access::Fixed => Err(Refusal::Fixed),
            Access::Protected if !self.is_on("enable-protected-configs") => Err(Refusal::Protected),
            _ => Ok(at),
        }
    }

    fn checked(&self, at: usize, value: &str) -> Result<String, String> {
        let setting = &SETTINGS[at];
        setting.kind.check(setting.default, &self.values[at], value)
    }

    /// Writes the settings that differ from their defaults into the file that they came from,
    /// and the users, unless a file of their own keeps them.
    pub fn rewrite(&self, users: &[Vec<u8>]) -> std::io::Result<()> {
        let old = std::fs::read_to_string(&self.file)?;
        let mut text = String::new();
        for line in old.lines() {
            let name = line.split_whitespace().next().unwrap_or_default();
            if position(name).is_none() && !name.eq_ignore_ascii_case("user") {
                let _ = writeln!(text, "{line}");
            }
        }
        for (setting, value) in SETTINGS.iter().zip(&self.values) {
            if *value != setting.default {
                let _ = writeln!(text, "{} {}", setting.name, quoted(value));
            }
        }
        for user in users {
            let _ = writeln!(text, "{}", String::from_utf8_lossy(user));
        }
        // The old file stays whole until the new one is.
        let beside = format!("{}.rewritten", self.file);
        std::fs::write(&beside, text)?;
        std::fs::rename(&beside, &self.file)
    }

    /// Whether a new user may listen to all channels.
    pub fn listens_to_all(&self) -> bool {
        self.get("acl-pubsub-default") == "allchannels"
    }

    fn refresh(&mut self) {
        let size = |name: &str| self.int(name).max(0) as usize;
        let (output_normal, output_pubsub) = read_output_limits(self.get(OUTPUT_LIMITS));
        self.hot = Hot {
            databases: size(if self.is_on("cluster-enabled") {
                "cluster-databases"
            } else {
                "databases"
            }),
            max_clients: size("maxclients"),
            notify: parse_events(self.get("notify-keyspace-events")).unwrap_or(0),
            bulk_len_max: self.int("proto-max-bulk-len"),
            query_buffer_max: size("client-query-buffer-limit"),
            output_normal,
            output_pubsub,
            logs: [
                ("execution-slower-than", "slow-execution-max-len"),
                ("request-larger-than", "large-request-max-len"),
                ("reply-larger-than", "large-reply-max-len"),
            ]
            .map(|(threshold, max_len)| LogLimits {
                threshold: self.int(&format!("commandlog-{threshold}")),
                max_len: size(&format!("commandlog-{max_len}")),
            }),
            timeout: size("timeout") as u64,
            min_replicas: size("min-replicas-to-write"),
            tcp_keepalive: size("tcp-keepalive") as u64,
            max_memory: size("maxmemory"),
            eviction: Policy::read(self),
            latency_threshold: size("latency-monitor-threshold") as u64,
            cluster: self.is_on("cluster-enabled"),
            tracking_keys_max: size("tracking-table-max-keys"),
            protected_mode: self.is_on("protected-mode"),
            latency_tracking: self.is_on("latency-tracking"),
            stream_nodes: NodeLimits {
                bytes: size("stream-node-max-bytes"),
                entries: size("stream-node-max-entries"),
            },
            hll_sparse_max: size("hll-sparse-max-bytes"),
            limits: Limits {
                list_max_listpack_size: self.int("list-max-listpack-size"),
                hash_max_listpack_entries: size("hash-max-listpack-entries"),
                hash_max_listpack_value: size("hash-max-listpack-value"),
                set_max_intset_entries: size("set-max-intset-entries"),
                set_max_listpack_entries: size("set-max-listpack-entries"),
                set_max_listpack_value: size("set-max-listpack-value"),
                zset_max_listpack_entries: size("zset-max-listpack-entries"),
                zset_max_listpack_value: size("zset-max-listpack-value"),
            },
        };
    }
}

/// A value as a line of the file can hold it.
fn quoted(value: &str) -> String {
    let plain = |c: char| c.is_ascii_graphic() && !matches!(c, '"' | '\\' | '\'' | '#');
    if !value.is_empty() && value.chars().all(|c| plain(c) || c == ' ') {
        return value.to_owned();
    }
    let mut line = String::new();
    crate::monitor::quote(&mut line, value.as_bytes());
    line
}

fn position(name: &str) -> Option<usize> {
    SETTINGS.iter().position(|setting| setting.is_called(name))
}

impl Kind {
    /// The value as it is kept, or what it should be.
    fn check(self, default: &str, present: &str, value: &str) -> Result<String, String> {
        match self {
            Kind::Text => Ok(value.to_owned()),
            Kind::Bool => match value.to_ascii_lowercase().as_str() {
                known @ ("yes" | "no") => Ok(known.to_owned()),
                _ => Err("argument must be 'yes' or 'no'".to_owned()),
            },
            Kind::Int { min, max } => {
                let number = number::parse_i64(value.as_bytes())
                    .ok_or("argument couldn't be parsed into an integer")?;
                in_bounds(number, min, max)
            }
            Kind::Octal => match u32::from_str_radix(value, 8) {
                Ok(bits) if bits <= 0o777 => Ok(format!("{bits:o}")),
                Ok(_) => Err("argument must be between 0 and 777 inclusive".to_owned()),
                Err(_) => Err("argument couldn't be parsed into an integer".to_owned()),
            },
            Kind::Memory { min, max } => {
                let bytes = parse_memory(value).ok_or("argument must be a memory value")?;
                in_bounds(bytes, min, max)
            }
            Kind::Choice(choices) => {
                let found = choices
                    .iter()
                    .find(|choice| choice.eq_ignore_ascii_case(value));
                found.map(|&choice| choice.to_owned()).ok_or_else(|| {
                    format!(
                        "argument(s) must be one of the following: {}",
                        choices.join(", ")
                    )
                })
            }
            Kind::Only(kind, reason) => {
                let value = kind.check(default, present, value)?;
                if value == default {
                    return Ok(value);
                }
                Err(format!("argument can only be '{default}': {reason}"))
            }
            Kind::Special(make) => make(present, value),
        }
    }
}

fn in_bounds(value: i64, min: i64, max: i64) -> Result<String, String> {
    if (min..=max).contains(&value) {
        return Ok(value.to_string());
    }
    Err(format!(
        "argument must be between {min} and {max} inclusive"
    ))
}

/// Reads a number of bytes with an optional unit: `1k` is 1000, `1kb` is 1024, and so on. An
/// empty text is 0.
pub fn parse_memory(text: &str) -> Option<i64> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit: i64 = match text[digits.len()..].to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" => 1000,
        "kb" => 1 << 10,
        "m" => 1_000_000,
        "mb" => 1 << 20,
        "g" => 1_000_000_000,
        "gb" => 1 << 30,
        _ => return None,
    };
    if text.is_empty() {
        return Some(0);
    }
    number::parse_u64(digits.as_bytes())
        .and_then(|number| i64::try_from(number).ok())?
        .checked_mul(unit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_sorted_and_every_default_is_a_value() {
        for pair in SETTINGS.windows(2) {
            assert!(pair[0].name < pair[1].name, "{}", pair[1].name);
        }
        for setting in SETTINGS {
            let checked = setting
                .kind
                .check(setting.default, setting.default, setting.default);
            assert_eq!(checked.as_deref(), Ok(setting.default), "{}", setting.name);
        }
    }

    #[test]
    fn no_name_stands_twice() {
        let mut seen = std::collections::HashSet::new();
        for setting in SETTINGS {
            assert!(seen.insert(setting.name), "{}", setting.name);
            assert!(setting.alias.is_empty() || seen.insert(setting.alias));
        }
    }

    #[test]
    fn several_settings_change_together_or_not_at_all() {
        let mut config = Config::default();
        let refused = config.change(&[("timeout", "7"), ("maxmemory", "abc")]);
        let text = "argument must be a memory value".to_owned();
        assert_eq!(refused, Err((1, Refusal::Value(text))));
        assert_eq!(config.get("timeout"), "0");
        assert_eq!(
            config.change(&[("TIMEOUT", "7"), ("maxmemory", "1mb")]),
            Ok(())
        );
        assert_eq!(config.hot.timeout, 7);
        let twice = config.change(&[("timeout", "1"), ("Timeout", "2")]);
        assert_eq!(twice, Err((1, Refusal::Twice)));
    }

    #[test]
    fn an_output_limit_replaces_only_its_class() {
        let mut config = Config::default();
        config
            .set(OUTPUT_LIMITS, "normal 1mb 2kb 5 replica 1 2 3")
            .unwrap();
        assert_eq!(
            config.get(OUTPUT_LIMITS),
            "normal 1048576 2048 5 slave 1 2 3 pubsub 33554432 8388608 60"
        );
        assert_eq!(config.hot.output_normal.soft, 2048);
        assert_eq!(config.hot.output_pubsub.hard, 32 << 20);
    }
}
