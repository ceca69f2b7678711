//! A transcript file as a list of lines that know what they mean.

use std::time::Duration;

use super::pattern::{self, Order, Pattern};
use super::target::Setting;
use super::text::{Captures, words};

/// One line of a transcript, or the lines of one reply.
#[derive(Debug)]
pub struct Item {
    /// The number of the first line, from 1.
    pub line: usize,
    /// The text as it stands in the file.
    pub text: Vec<String>,
    /// What it means.
    pub kind: Kind,
}

/// What a line asks the runner to do.
#[derive(Debug, PartialEq)]
pub enum Kind {
    /// Nothing: a comment or an empty line.
    Comment,
    /// Send these words, still quoted.
    Request(String),
    /// Send this quoted text as it is.
    Raw(String),
    /// Compare what comes next.
    Expect(Expectation),
    /// Go on as this client.
    Client(String),
    /// Move the clock.
    Advance(Duration),
    /// Really wait, for what no clock moves, such as a script that runs.
    Wait(Duration),
    /// Switch the protocol.
    Protocol(u8),
    /// Send the next request once for each number.
    Repeat(u32, u32),
    /// How far the order of the next reply counts.
    Unordered(Order),
    /// Close a client's connection.
    Close(String),
    /// Close a client's sending half.
    HalfClose(String),
    /// A setting that holds for the whole file.
    Config(String, String),
    /// Who the file was recorded from.
    Server(Vec<String>),
}

/// What is to come from the server.
#[derive(Debug, PartialEq)]
pub enum Expectation {
    /// A reply.
    Reply(Pattern),
    /// No reply, since the request waits.
    Blocked,
    /// No reply, since none is due.
    Nothing,
    /// The end of the connection.
    Closed,
    /// Something, to be filled in by the recorder.
    Unknown,
}

/// Reads a transcript; an error names its line.
pub fn parse(source: &str) -> Result<Vec<Item>, String> {
    let mut items: Vec<Item> = Vec::new();
    for (index, text) in source.lines().enumerate() {
        if text.starts_with("<  ")
            && let Some(Item { text: lines, .. }) = items
                .last_mut()
                .filter(|item| item.text[0].starts_with("< "))
        {
            lines.push(text.to_owned());
            continue;
        }
        let text = vec![text.to_owned()];
        items.push(Item {
            line: index + 1,
            text,
            kind: Kind::Comment,
        });
    }
    for item in &mut items {
        item.kind = kind(&item.text).map_err(|error| format!("line {}: {error}", item.line))?;
    }
    Ok(items)
}

/// The settings that a transcript needs.
pub fn settings(items: &[Item]) -> Result<Vec<Setting>, String> {
    let mut settings = Vec::new();
    for item in items {
        if let Kind::Config(name, value) = &item.kind {
            let value = words(value, &Captures::new())?.concat();
            settings.push((name.clone(), String::from_utf8_lossy(&value).into_owned()));
        }
    }
    Ok(settings)
}

fn kind(lines: &[String]) -> Result<Kind, String> {
    let text = lines[0].as_str();
    if text.is_empty() || text.starts_with('#') {
        Ok(Kind::Comment)
    } else if let Some(words) = text.strip_prefix("> ") {
        Ok(Kind::Request(words.to_owned()))
    } else if let Some(bytes) = text.strip_prefix(">raw ") {
        Ok(Kind::Raw(bytes.to_owned()))
    } else if text.starts_with("< ") {
        expectation(lines).map(Kind::Expect)
    } else if let Some(directive) = text.strip_prefix('@') {
        self::directive(directive)
    } else {
        Err(format!("not understood: {text}"))
    }
}

fn expectation(lines: &[String]) -> Result<Expectation, String> {
    match lines[0].as_str() {
        "< <blocked>" => Ok(Expectation::Blocked),
        "< <nothing>" => Ok(Expectation::Nothing),
        "< <closed>" => Ok(Expectation::Closed),
        "< ?" => Ok(Expectation::Unknown),
        _ => {
            let lines: Vec<&str> = lines.iter().map(|line| &line[2..]).collect();
            pattern::parse(&lines).map(Expectation::Reply)
        }
    }
}

fn directive(text: &str) -> Result<Kind, String> {
    let (name, argument) = text.split_once(' ').unwrap_or((text, ""));
    match name {
        "client" => Ok(Kind::Client(argument.to_owned())),
        "advance" => duration(argument).map(Kind::Advance),
        "wait" => duration(argument).map(Kind::Wait),
        "resp2" => Ok(Kind::Protocol(2)),
        "resp3" => Ok(Kind::Protocol(3)),
        "repeat" => repeat(argument),
        "unordered" => order(argument).map(Kind::Unordered),
        "close" => Ok(Kind::Close(argument.to_owned())),
        "halfclose" => Ok(Kind::HalfClose(argument.to_owned())),
        "config" => {
            let (name, value) = argument.split_once(' ').unwrap_or((argument, ""));
            Ok(Kind::Config(name.to_owned(), value.to_owned()))
        }
        "server" => Ok(Kind::Server(
            argument.split(' ').map(str::to_owned).collect(),
        )),
        _ => Err(format!("unknown directive: @{text}")),
    }
}

fn duration(text: &str) -> Result<Duration, String> {
    let (number, unit) = match (text.strip_suffix("ms"), text.strip_suffix('s')) {
        (Some(number), _) => (number, 1),
        (None, Some(number)) => (number, 1000),
        _ => return Err(format!("a time is given in s or ms: {text}")),
    };
    let number: u64 = number.parse().map_err(|error| format!("{text}: {error}"))?;
    Ok(Duration::from_millis(number * unit))
}

fn repeat(text: &str) -> Result<Kind, String> {
    let number = |text: &str| text.parse().map_err(|error| format!("{text}: {error}"));
    let (first, last) = text
        .split_once("..")
        .ok_or_else(|| format!("not a range: {text}"))?;
    Ok(Kind::Repeat(number(first)?, number(last)?))
}

fn order(text: &str) -> Result<Order, String> {
    match text {
        "" => Ok(Order::Free),
        "pairs" => Ok(Order::FreePairs),
        "deep" => Ok(Order::FreeDeep),
        _ => Err(format!("unknown order: {text}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_nested_reply_is_one_item() {
        let items = parse("> MGET a b\n< *2\n<   $\"1\"\n<   $-1\n< +OK\n").unwrap();
        assert_eq!(items.len(), 3);
        assert_eq!(items[1].text.len(), 3);
        assert_eq!(items[2].line, 5);
    }

    #[test]
    fn an_unknown_line_is_named() {
        assert!(parse("> PING\nPONG\n").unwrap_err().starts_with("line 2"));
    }
}
