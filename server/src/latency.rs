//! LATENCY: when something took longer than it should, and how long.

use std::{
    collections::{BTreeMap, VecDeque},
    fmt::Write,
};

use crate::clock::Time;

/// So many samples are kept of an event.
const SAMPLES_MAX: usize = 160;

/// What happened to be slow.
#[derive(Clone, Debug, Default)]
pub struct Event {
    /// The second, and the longest time in it in milliseconds; oldest first.
    pub samples: VecDeque<(u64, u64)>,
    /// The longest of all times.
    pub max: u64,
    pub sum: u64,
    pub count: u64,
}

impl Event {
    /// A drawing of the samples, oldest first: each a column as high as it is long, and under it
    /// how long ago it was.
    pub fn graph(&self, now: Time) -> String {
        /// So many columns fit a terminal; the next ones stand below.
        const COLUMNS: usize = 80;
        let times = || self.samples.iter().map(|&(_, millis)| millis);
        let (high, low) = (times().max().unwrap_or(0), times().min().unwrap_or(0));
        let scale = Scale { low, high };
        let mut text = format!(
            "high {high} ms, low {low} ms (all time high {} ms)\n{}\n",
            self.max,
            "-".repeat(COLUMNS)
        );
        let samples: Vec<(u64, u64)> = self.samples.iter().copied().collect();
        for (at, part) in samples.chunks(COLUMNS).enumerate() {
            if at > 0 {
                text.push('\n');
            }
            for row in (0..ROWS).rev() {
                text.extend(part.iter().map(|&(_, millis)| scale.mark(millis, row)));
                text.push('\n');
            }
            text.push_str(&" ".repeat(part.len()));
            text.push('\n');
            let ages: Vec<String> = part.iter().map(|&(second, _)| age(second, now)).collect();
            push_upright(&mut text, &ages);
        }
        text
    }

    /// What the samples have in common, in one line.
    pub fn summary(&self, now: Time) -> String {
        let count = (self.samples.len() as u64).max(1);
        let times = || self.samples.iter().map(|&(_, millis)| millis);
        let mean = times().sum::<u64>() / count;
        let deviation = times().map(|millis| millis.abs_diff(mean)).sum::<u64>() / count;
        let since = self.samples.front().map_or(now.seconds(), |&(at, _)| at);
        let period = now.seconds().saturating_sub(since) as f64 / count as f64;
        format!(
            "{} latency spikes (average {mean}ms, mean deviation {deviation}ms, period \
            {period:.2} sec). Worst all time event {}ms.",
            self.samples.len(),
            self.max
        )
    }
}

/// How many lines a graph has.
const ROWS: u64 = 4;

/// What a graph's lowest and highest columns stand for.
struct Scale {
    low: u64,
    high: u64,
}

impl Scale {
    /// What stands in a row, counted from below, of the column of a sample.
    fn mark(&self, millis: u64, row: u64) -> char {
        /// A row tells so many heights apart.
        const TIPS: [char; 3] = ['_', 'o', '#'];
        let tips = TIPS.len() as u64;
        let steps = ROWS * tips;
        let height = (millis - self.low) * steps / (self.high - self.low).max(1);
        match height.min(steps - 1).checked_sub(row * tips) {
            None => ' ',
            Some(above) => TIPS.get(above as usize).copied().unwrap_or('|'),
        }
    }
}

/// How long ago a second was, in its largest whole unit.
fn age(second: u64, now: Time) -> String {
    let seconds = now.seconds().saturating_sub(second);
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3_600 => format!("{}m", seconds / 60),
        3_600..86_400 => format!("{}h", seconds / 3_600),
        _ => format!("{}d", seconds / 86_400),
    }
}

/// Writes words side by side from top to bottom.
fn push_upright(text: &mut String, words: &[String]) {
    let longest = words.iter().map(String::len).max().unwrap_or(0);
    for row in 0..longest {
        let letters = words.iter().map(|word| word.as_bytes().get(row));
        text.extend(letters.map(|letter| letter.map_or(' ', |&byte| char::from(byte))));
        text.push('\n');
    }
}

/// All events by their names.
#[derive(Clone, Debug, Default)]
pub struct Latency {
    events: BTreeMap<&'static str, Event>,
}

impl Latency {
    pub fn note(&mut self, name: &'static str, millis: u64, now: Time) {
        let event = self.events.entry(name).or_default();
        event.max = event.max.max(millis);
        event.sum += millis;
        event.count += 1;
        match event.samples.back_mut() {
            Some((second, longest)) if *second == now.seconds() => {
                *longest = (*longest).max(millis);
            }
            _ => event.samples.push_back((now.seconds(), millis)),
        }
        if event.samples.len() > SAMPLES_MAX {
            event.samples.pop_front();
        }
    }

    /// What was slow, how often and by how much, one event a line.
    pub fn report(&self, now: Time) -> String {
        let mut text = String::new();
        for (number, (name, event)) in self.events.iter().enumerate() {
            let _ = writeln!(text, "{}. {name}: {}", number + 1, event.summary(now));
        }
        text
    }

    pub fn get(&self, name: &[u8]) -> Option<&Event> {
        self.events.get(std::str::from_utf8(name).ok()?)
    }

    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&'static str, &Event)> {
        self.events.iter().map(|(name, event)| (*name, event))
    }

    /// Forgets an event and tells whether there was one.
    pub fn remove(&mut self, name: &[u8]) -> bool {
        std::str::from_utf8(name).is_ok_and(|name| self.events.remove(name).is_some())
    }

    /// Forgets all events and tells how many there were.
    pub fn clear(&mut self) -> usize {
        std::mem::take(&mut self.events).len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_keeps_its_longest_time() {
        let mut latency = Latency::default();
        for (second, millis) in [(1, 5), (1, 9), (1, 7), (2, 3)] {
            latency.note("command", millis, Time::from_millis(second * 1000));
        }
        let event = latency.get(b"command").unwrap();
        assert_eq!(event.samples, [(1, 9), (2, 3)]);
        assert_eq!((event.max, event.sum, event.count), (9, 24, 4));
        assert_eq!((latency.clear(), latency.clear()), (1, 0));
    }

    fn event(samples: &[(u64, u64)]) -> Event {
        let mut latency = Latency::default();
        for &(second, millis) in samples {
            latency.note("command", millis, Time::from_millis(second * 1000));
        }
        latency.get(b"command").unwrap().clone()
    }

    /// As Valkey drew the same samples.
    #[test]
    fn a_graph_has_a_column_for_each_sample() {
        let event = event(&[(31, 52), (32, 150), (34, 30), (35, 304), (36, 100)]);
        let rule = "-".repeat(80);
        assert_eq!(
            event.graph(Time::from_millis(37_000)),
            format!(
                "high 304 ms, low 30 ms (all time high 304 ms)\n{rule}\n   # \n   | \n # |_\n\
                _|_||\n     \n65321\nsssss\n"
            )
        );
        let summary = "5 latency spikes (average 127ms, mean deviation 79ms, period 1.20 sec). \
            Worst all time event 304ms.";
        assert_eq!(event.summary(Time::from_millis(37_000)), summary);
    }

    #[test]
    fn a_graph_of_equal_samples_is_flat_and_a_long_one_is_continued_below() {
        let samples: Vec<(u64, u64)> = (0..81).map(|second| (second, 20)).collect();
        let graph = event(&samples).graph(Time::from_millis(80_000));
        let lines: Vec<&str> = graph.lines().skip(2).collect();
        let (upper, lower) = (" ".repeat(80), "_".repeat(80));
        assert_eq!(lines[..5], [&upper, &upper, &upper, &lower, &upper]);
        assert_eq!(
            lines[5],
            format!(
                "{}{}{}",
                "1".repeat(21),
                "5".repeat(10)
                    + &"4".repeat(10)
                    + &"3".repeat(10)
                    + &"2".repeat(10)
                    + &"1".repeat(10),
                "987654321"
            )
        );
        assert_eq!(lines[8..], ["", " ", " ", " ", "_", " ", "0", "s"]);
    }
}
