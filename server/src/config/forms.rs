//! Settings whose values have a form of their own: each function makes of the present value and the
//! one asked for what is kept, or says what is wrong.

use std::{
    fmt::Write,
    net::{Ipv4Addr, Ipv6Addr},
};

use super::{OutputLimit, in_bounds, parse_memory};
use crate::{keyspace::Class, number};

// ---- client-output-buffer-limit ----

pub const OUTPUT_LIMITS: &str = "client-output-buffer-limit";
/// The classes, in the order in which they are shown; a replica goes by its old name.
const OUTPUT_CLASSES: [&str; 3] = ["normal", "slave", "pubsub"];

/// Takes limits over into those present: a class that is not named keeps its own.
pub fn output_limits(present: &str, asked: &str) -> Result<String, String> {
    let mut limits: Vec<String> = words_by_four(present)
        .map(|words| words.join(" "))
        .collect();
    let asked: Vec<&str> = asked.split_whitespace().collect();
    if !asked.len().is_multiple_of(4) {
        return Err("Wrong number of arguments in buffer limit configuration.".to_owned());
    }
    for words in asked.chunks(4) {
        let class = match words[0].to_ascii_lowercase().as_str() {
            "normal" => 0,
            "slave" | "replica" => 1,
            "pubsub" => 2,
            _ => {
                let text = "Invalid client class specified in buffer limit configuration.";
                return Err(text.to_owned());
            }
        };
        let (hard, soft) = (parse_memory(words[1]), parse_memory(words[2]));
        let seconds = number::parse_u64(words[3].as_bytes());
        let (Some(hard), Some(soft), Some(seconds)) = (hard, soft, seconds) else {
            return Err(
                "Error in hard, soft or soft_seconds setting in buffer limit configuration."
                    .to_owned(),
            );
        };
        limits[class] = format!("{} {hard} {soft} {seconds}", OUTPUT_CLASSES[class]);
    }
    Ok(limits.join(" "))
}

fn words_by_four(text: &str) -> impl Iterator<Item = Vec<&str>> {
    let mut words = text.split_whitespace();
    std::iter::from_fn(move || {
        let four: Vec<&str> = words.by_ref().take(4).collect();
        (four.len() == 4).then_some(four)
    })
}

/// The limits of ordinary clients and of subscribers.
pub fn read_output_limits(text: &str) -> (OutputLimit, OutputLimit) {
    let mut limits = words_by_four(text).map(|words| OutputLimit {
        hard: words[1].parse().unwrap_or(0),
        soft: words[2].parse().unwrap_or(0),
        seconds: words[3].parse().unwrap_or(0),
    });
    let normal = limits.next().unwrap_or_default();
    (normal, limits.nth(1).unwrap_or_default())
}

// ---- Other settings with a form of their own ----

pub fn save_points(_present: &str, asked: &str) -> Result<String, String> {
    const INVALID: &str = "Invalid save parameters";
    let words: Vec<&str> = asked.split_whitespace().collect();
    let numbers: Option<Vec<u64>> = words
        .iter()
        .map(|word| number::parse_u64(word.as_bytes()))
        .collect();
    let numbers = numbers.ok_or(INVALID)?;
    let seconds_are_positive = numbers.iter().step_by(2).all(|&seconds| seconds > 0);
    if !numbers.len().is_multiple_of(2) || !seconds_are_positive {
        return Err(INVALID.to_owned());
    }
    Ok(words.join(" "))
}

pub fn percentiles(_present: &str, asked: &str) -> Result<String, String> {
    let mut text = String::new();
    for word in asked.split_whitespace() {
        let percentile = number::parse_f64(word.as_bytes())
            .ok_or("Invalid latency-tracking-info-percentiles parameters")?;
        if !(0.0..=100.0).contains(&percentile) {
            return Err(
                "latency-tracking-info-percentiles parameters should sit between [0.0,100.0]"
                    .to_owned(),
            );
        }
        let separator = if text.is_empty() { "" } else { " " };
        let _ = write!(text, "{separator}{percentile}");
    }
    Ok(text)
}

pub fn events(_present: &str, asked: &str) -> Result<String, String> {
    parse_events(asked)
        .map(show_events)
        .ok_or_else(|| "Invalid event class character. Use 'Ag$lshzxeKEtmdn'.".to_owned())
}

/// Events of types that modules bring; there are none, but the letter is known.
const MODULE_EVENTS: Class = Class(1 << 30);

/// The letters of `notify-keyspace-events`, in the order in which they are shown.
const EVENT_LETTERS: [(char, Class); 14] = [
    ('g', Class::GENERIC),
    ('$', Class::STRING),
    ('l', Class::LIST),
    ('s', Class::SET),
    ('h', Class::HASH),
    ('z', Class::SORTED_SET),
    ('x', Class::EXPIRED),
    ('e', Class::EVICTED),
    ('t', Class::STREAM),
    ('d', MODULE_EVENTS),
    ('n', Class::NEW),
    ('K', Class::KEYSPACE),
    ('E', Class::KEYEVENT),
    ('m', Class::KEY_MISS),
];

/// What the letter `A` stands for.
const ALL_EVENTS: &str = "g$lshzxetd";

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

fn show_events(classes: u32) -> String {
    let all = parse_events(ALL_EVENTS).unwrap_or_default();
    let everything = classes & all == all;
    let mut text = String::new();
    if everything {
        text.push('A');
    }
    for (letter, class) in EVENT_LETTERS {
        let covered = everything && ALL_EVENTS.contains(letter);
        if classes & class.0 != 0 && !covered {
            text.push(letter);
        }
    }
    text
}

pub fn memory_or_percent(_present: &str, asked: &str) -> Result<String, String> {
    let percent = asked
        .strip_suffix('%')
        .and_then(|digits| number::parse_u64(digits.as_bytes()));
    if percent.is_some() {
        return Ok(asked.to_owned());
    }
    let bytes = parse_memory(asked).ok_or("argument must be a memory or percent value")?;
    Ok(bytes.to_string())
}

/// Bytes, or -1 for any number of them.
pub fn bytes_or_any(_present: &str, asked: &str) -> Result<String, String> {
    let number = number::parse_i64(asked.as_bytes()).or_else(|| parse_memory(asked));
    in_bounds(
        number.ok_or("argument must be a memory value")?,
        -1,
        i64::MAX,
    )
}

pub fn ipv4(_present: &str, asked: &str) -> Result<String, String> {
    if asked.is_empty() || asked.parse::<Ipv4Addr>().is_ok() {
        return Ok(asked.to_owned());
    }
    Err("Invalid IPv4 address".to_owned())
}

pub fn ipv6(_present: &str, asked: &str) -> Result<String, String> {
    if asked.is_empty() || asked.parse::<Ipv6Addr>().is_ok() {
        return Ok(asked.to_owned());
    }
    Err("Invalid IPv6 address".to_owned())
}

pub fn rdma_bind(_present: &str, asked: &str) -> Result<String, String> {
    if asked.is_empty() {
        return Ok(String::new());
    }
    Err("No RDMA building support.".to_owned())
}

/// The scores of a master, of a replica and of a child.
pub fn oom_scores(_present: &str, asked: &str) -> Result<String, String> {
    let words: Vec<&str> = asked.split_whitespace().collect();
    if words.len() != 3 {
        return Err("wrong number of arguments".to_owned());
    }
    let is_score = |word: &&str| {
        number::parse_i64(word.as_bytes()).is_some_and(|score| (-2000..=2000).contains(&score))
    };
    if !words.iter().all(is_score) {
        let text = "Invalid oom-score-adj-values, elements must be between -2000 and 2000.";
        return Err(text.to_owned());
    }
    Ok(words.join(" "))
}

/// A text with names in braces.
pub fn process_title(_present: &str, asked: &str) -> Result<String, String> {
    const NAMES: [&str; 7] = [
        "title",
        "listen-addr",
        "server-mode",
        "port",
        "tls-port",
        "unixsocket",
        "config-file",
    ];
    let is_known = |part: &str| {
        part.split_once('}')
            .is_some_and(|(name, _)| NAMES.contains(&name))
    };
    if !asked.is_empty() && asked.split('{').skip(1).all(is_known) {
        return Ok(asked.to_owned());
    }
    Err("template format is invalid or contains unknown variables".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn event_classes_are_shown_in_their_own_order() {
        for (given, shown) in [("KEA", "AKE"), ("Kgxdm", "gxdKm"), ("AKEmn", "AnKEm")] {
            assert_eq!(events("", given).as_deref(), Ok(shown));
        }
    }
}
