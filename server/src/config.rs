//! One table of settings: flags, the configuration file, CONFIG and the builder read it.

use crate::{keyspace::Class, value::limits::Limits};

/// A setting: its name, its default as text, and what a value must be.
pub struct Setting {
    pub name: &'static str,
    pub default: &'static str,
    pub kind: Kind,
    /// May it only be set at the start?
    pub fixed: bool,
}

/// What a value may be.
#[derive(Clone, Copy, Debug)]
pub enum Kind {
    Text,
    Bool,
    Int {
        min: i64,
        max: i64,
    },
    /// Bytes, with a unit such as `64mb`.
    Memory {
        min: i64,
        max: i64,
    },
    Choice(&'static [&'static str]),
}

const fn setting(name: &'static str, default: &'static str, kind: Kind) -> Setting {
    Setting {
        name,
        default,
        kind,
        fixed: false,
    }
}

const fn fixed(name: &'static str, default: &'static str, kind: Kind) -> Setting {
    Setting {
        name,
        default,
        kind,
        fixed: true,
    }
}

const SIZE: Kind = Kind::Int {
    min: 0,
    max: i64::MAX,
};

/// All settings, in alphabetical order.
pub static SETTINGS: &[Setting] = &[
    fixed(
        "databases",
        "16",
        Kind::Int {
            min: 1,
            max: i32::MAX as i64,
        },
    ),
    setting("hash-max-listpack-entries", "512", SIZE),
    setting("hash-max-listpack-value", "64", SIZE),
    setting(
        "list-max-listpack-size",
        "-2",
        Kind::Int {
            min: i32::MIN as i64,
            max: i32::MAX as i64,
        },
    ),
    setting(
        "maxclients",
        "10000",
        Kind::Int {
            min: 1,
            max: u32::MAX as i64,
        },
    ),
    setting("notify-keyspace-events", "", Kind::Text),
    setting(
        "proto-max-bulk-len",
        "536870912",
        Kind::Memory {
            min: 1024 * 1024,
            max: i64::MAX,
        },
    ),
    setting(
        "rdb-version-check",
        "strict",
        Kind::Choice(&["strict", "relaxed"]),
    ),
    setting("requirepass", "", Kind::Text),
    setting("set-max-intset-entries", "512", SIZE),
    setting("set-max-listpack-entries", "128", SIZE),
    setting("set-max-listpack-value", "64", SIZE),
    setting(
        "slowlog-log-slower-than",
        "10000",
        Kind::Int {
            min: -1,
            max: i64::MAX,
        },
    ),
    setting("slowlog-max-len", "128", SIZE),
    setting("zset-max-listpack-entries", "128", SIZE),
    setting("zset-max-listpack-value", "64", SIZE),
];

/// The settings that hot paths read, as typed values.
#[derive(Clone, Debug)]
pub struct Hot {
    pub databases: usize,
    pub limits: Limits,
    pub max_clients: usize,
    pub notify: u32,
    pub bulk_len_max: i64,
    pub pubsub_output_limit: usize,
    pub slowlog_slower_than: i64,
    pub slowlog_max_len: usize,
}

/// The settings of a server.
#[derive(Clone, Debug)]
pub struct Config {
    values: Vec<String>,
    pub hot: Hot,
}

impl Default for Config {
    fn default() -> Self {
        let values = SETTINGS
            .iter()
            .map(|setting| setting.default.to_owned())
            .collect();
        let hot = Hot {
            databases: 16,
            limits: Limits::default(),
            max_clients: 10_000,
            notify: 0,
            bulk_len_max: 512 << 20,
            pubsub_output_limit: 32 << 20,
            slowlog_slower_than: 10_000,
            slowlog_max_len: 128,
        };
        let mut config = Config { values, hot };
        config.refresh();
        config
    }
}

impl Config {
    pub fn get(&self, name: &str) -> &str {
        position(name).map_or("", |at| &self.values[at])
    }

    /// Sets a setting; an error says what the value should be.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), String> {
        let at = position(name).ok_or_else(|| format!("unknown setting '{name}'"))?;
        self.values[at] = SETTINGS[at].kind.check(value)?;
        self.refresh();
        Ok(())
    }

    pub fn requires_auth(&self) -> bool {
        !self.get("requirepass").is_empty()
    }

    fn int(&self, name: &str) -> i64 {
        self.get(name).parse().unwrap_or_default()
    }

    fn refresh(&mut self) {
        let size = |config: &Config, name: &str| config.int(name).max(0) as usize;
        self.hot.databases = size(self, "databases");
        self.hot.max_clients = size(self, "maxclients");
        self.hot.notify = parse_events(self.get("notify-keyspace-events")).unwrap_or(0);
        self.hot.bulk_len_max = self.int("proto-max-bulk-len");
        self.hot.slowlog_slower_than = self.int("slowlog-log-slower-than");
        self.hot.slowlog_max_len = size(self, "slowlog-max-len");
        self.hot.limits = Limits {
            list_max_listpack_size: self.int("list-max-listpack-size"),
            hash_max_listpack_entries: size(self, "hash-max-listpack-entries"),
            hash_max_listpack_value: size(self, "hash-max-listpack-value"),
            set_max_intset_entries: size(self, "set-max-intset-entries"),
            set_max_listpack_entries: size(self, "set-max-listpack-entries"),
            set_max_listpack_value: size(self, "set-max-listpack-value"),
            zset_max_listpack_entries: size(self, "zset-max-listpack-entries"),
            zset_max_listpack_value: size(self, "zset-max-listpack-value"),
        };
    }
}

fn position(name: &str) -> Option<usize> {
    SETTINGS
        .iter()
        .position(|setting| setting.name.eq_ignore_ascii_case(name))
}

impl Kind {
    /// The value as it is kept, or what it should be.
    fn check(self, value: &str) -> Result<String, String> {
        match self {
            Kind::Text => Ok(value.to_owned()),
            Kind::Bool => match value {
                "yes" | "no" => Ok(value.to_owned()),
                _ => Err("argument must be 'yes' or 'no'".to_owned()),
            },
            Kind::Int { min, max } => {
                let number: i64 = value
                    .parse()
                    .map_err(|_| "argument couldn't be parsed into an integer".to_owned())?;
                in_bounds(number, min, max)
            }
            Kind::Memory { min, max } => {
                let bytes = parse_memory(value)
                    .ok_or_else(|| "argument must be a memory value".to_owned())?;
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

/// Reads a number of bytes with an optional unit: `1k` is 1000, `1kb` is 1024, and so on.
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
    digits.parse::<i64>().ok()?.checked_mul(unit)
}

/// The letters of `notify-keyspace-events`, in the order in which they are shown.
const EVENT_LETTERS: [(char, Class); 13] = [
    ('g', Class::GENERIC),
    ('$', Class::STRING),
    ('l', Class::LIST),
    ('s', Class::SET),
    ('h', Class::HASH),
    ('z', Class::SORTED_SET),
    ('x', Class::EXPIRED),
    ('e', Class::EVICTED),
    ('t', Class::STREAM),
    ('n', Class::NEW),
    ('K', Class::KEYSPACE),
    ('E', Class::KEYEVENT),
    ('m', Class::KEY_MISS),
];

/// What the letter `A` stands for.
const ALL_EVENTS: &str = "g$lshzxet";

/// Reads `notify-keyspace-events`; `None` when it holds another letter.
pub fn parse_events(text: &str) -> Option<u32> {
    let mut classes = 0;
    for letter in text.chars() {
        if letter == 'A' {
            classes |= parse_events(ALL_EVENTS)?;
        } else {
            classes |= EVENT_LETTERS
                .iter()
                .find(|(known, _)| *known == letter)?
                .1
                .0;
        }
    }
    Some(classes)
}
