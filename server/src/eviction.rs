//! `maxmemory`: which keys go when the data takes more memory than it may.
//!
//! The sizes of keys are added up while there is a limit. A victim is the worst of a few keys
//! picked at random, as the references do it; so no order of all keys has to be kept.

use crate::{
    config::Config,
    keyspace::{Entry, Keyspace},
    random::Random,
};

/// How keys are chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// None is: commands that would add to the data are refused.
    #[default]
    Never,
    LeastRecentlyUsed,
    LeastFrequentlyUsed,
    Random,
    /// The one that would end first.
    ShortestLived,
}

/// A policy with its settings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Policy {
    pub order: Order,
    /// Only among keys that have a deadline.
    pub volatile_only: bool,
    pub samples: usize,
    pub frequency: Frequency,
}

/// How fast the counter of uses grows and fades.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Frequency {
    /// How much harder each step of the counter is than the one before.
    pub log_factor: u32,
    /// Minutes after which the counter loses one; 0 for never.
    pub decay_minutes: u32,
}

impl Policy {
    pub fn read(config: &Config) -> Policy {
        let name = config.get("maxmemory-policy");
        let (scope, order) = name.split_once('-').unwrap_or((name, ""));
        Policy {
            order: match order {
                "lru" => Order::LeastRecentlyUsed,
                "lfu" => Order::LeastFrequentlyUsed,
                "random" => Order::Random,
                "ttl" => Order::ShortestLived,
                _ => Order::Never,
            },
            volatile_only: scope == "volatile",
            samples: config.int("maxmemory-samples").max(1) as usize,
            frequency: Frequency {
                log_factor: config.int("lfu-log-factor") as u32,
                decay_minutes: config.int("lfu-decay-time") as u32,
            },
        }
    }

    /// How well a key fits to go: the highest rank goes first.
    fn rank(self, entry: &Entry, now_ms: u64) -> u64 {
        match self.order {
            Order::LeastFrequentlyUsed => {
                u64::from(u8::MAX - self.frequency.count(entry.access, now_ms))
            }
            Order::LeastRecentlyUsed => (now_ms / 1000).saturating_sub(u64::from(entry.access)),
            Order::ShortestLived => u64::MAX - entry.deadline().unwrap_or(u64::MAX),
            Order::Random | Order::Never => 0,
        }
    }
}

/// What the counter of a new key is, so that it is not the first to go.
const COUNT_AT_FIRST: u8 = 5;

impl Frequency {
    /// The counter of a key that is made now, with the time that it fades from.
    pub fn first(now_ms: u64) -> u32 {
        Frequency::counted(COUNT_AT_FIRST, now_ms)
    }

    /// A counter that begins to fade now.
    pub fn counted(count: u8, now_ms: u64) -> u32 {
        minutes(now_ms) << 8 | u32::from(count)
    }

    /// The counter as it has faded until now.
    pub fn count(self, access: u32, now_ms: u64) -> u8 {
        let elapsed = minutes(now_ms).wrapping_sub(access >> 8) & 0x00FF_FFFF;
        let lost = elapsed.checked_div(self.decay_minutes).unwrap_or(0);
        ((access & 0xFF).saturating_sub(lost)) as u8
    }

    /// The counter after a further use.
    pub fn used(self, access: u32, now_ms: u64, random: &mut Random) -> u32 {
        let count = self.count(access, now_ms);
        let above = u64::from(count.saturating_sub(COUNT_AT_FIRST));
        let odds = above * u64::from(self.log_factor) + 1;
        let grows = count < u8::MAX && random.below(odds as usize) == 0;
        Frequency::counted(count + u8::from(grows), now_ms)
    }
}

fn minutes(now_ms: u64) -> u32 {
    (now_ms / 60_000) as u32 & 0x00FF_FFFF
}

/// Evicts one key and tells whether there was one to evict.
pub fn evict_one(keys: &mut Keyspace, policy: Policy, random: &mut Random) -> bool {
    if policy.order == Order::Never {
        return false;
    }
    let selected = keys.selected();
    let mut worst: Option<(u64, usize, Vec<u8>)> = None;
    for db in 0..keys.databases() {
        keys.select(db);
        let candidates = if policy.volatile_only {
            keys.sizes(db).1
        } else {
            keys.len()
        };
        if candidates > 0 {
            sample(keys, policy, random, &mut worst);
        }
    }
    let evicted = worst.is_some_and(|(_, db, key)| {
        keys.select(db);
        keys.evict(&key)
    });
    keys.select(selected);
    evicted
}

/// Looks at a few keys of the selected database and keeps the worst.
fn sample(
    keys: &Keyspace,
    policy: Policy,
    random: &mut Random,
    worst: &mut Option<(u64, usize, Vec<u8>)>,
) {
    /// Where few keys have a deadline, so many are looked at for each one wanted.
    const LOOKS: usize = 16;
    let (now_ms, db) = (keys.now().millis(), keys.selected());
    let mut consider = |entry: &Entry| {
        if policy.volatile_only && entry.deadline().is_none() {
            return false;
        }
        let rank = policy.rank(entry, now_ms);
        if worst.as_ref().is_none_or(|(other, _, _)| rank > *other) {
            *worst = Some((rank, db, entry.key().to_vec()));
        }
        true
    };
    let mut found = 0;
    for _ in 0..policy.samples * LOOKS {
        let at = random.below(keys.len());
        found += usize::from(keys.entry_at(at).is_some_and(&mut consider));
        if found == policy.samples {
            return;
        }
    }
    if found == 0 {
        // Hardly any key qualifies: the first that does is better than none.
        keys.entries().any(consider);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counter_grows_slower_the_higher_it_is_and_fades() {
        let frequency = Frequency {
            log_factor: 10,
            decay_minutes: 1,
        };
        let mut random = Random::seeded(1);
        let mut access = Frequency::first(0);
        assert_eq!(frequency.count(access, 0), 5);
        for _ in 0..1000 {
            access = frequency.used(access, 0, &mut random);
        }
        let count = frequency.count(access, 0);
        assert!((10..40).contains(&count), "{count}");
        assert_eq!(frequency.count(access, 3 * 60_000), count - 3);
        assert_eq!(frequency.count(access, 600 * 60_000), 0);
    }
}
