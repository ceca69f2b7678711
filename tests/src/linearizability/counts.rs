//! What happened how often, so that a report can say what its histories were made of.

use std::collections::BTreeMap;
use std::fmt;

/// Numbers by their names.
#[derive(Clone, Debug, Default)]
pub struct Counts(BTreeMap<&'static str, u64>);

impl Counts {
    /// Counts something.
    pub fn add(&mut self, name: &'static str, number: u64) {
        *self.0.entry(name).or_default() += number;
    }

    /// Takes over what was counted elsewhere.
    pub fn merge(&mut self, other: &Self) {
        for (name, number) in &other.0 {
            self.add(name, *number);
        }
    }

    /// How often it happened.
    pub fn of(&self, name: &str) -> u64 {
        self.0.get(name).copied().unwrap_or_default()
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, number) in &self.0 {
            writeln!(f, "  {name}: {number}")?;
        }
        Ok(())
    }
}
