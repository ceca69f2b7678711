//! LATENCY: when something took longer than it should, and how long.

use std::collections::{BTreeMap, VecDeque};

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
}
