//! What clients saw: each call with the moments between which it must have taken effect.

use std::fmt::{self, Debug, Write};
use std::sync::atomic::{AtomicU64, Ordering};

/// The order of invocations and returns, as all threads agree on it.
#[derive(Debug, Default)]
pub struct Stamps(AtomicU64);

impl Stamps {
    /// A moment after every moment that was given out before.
    pub fn next(&self) -> u64 {
        self.0.fetch_add(1, Ordering::SeqCst)
    }

    /// How many moments were given out: it moves while anybody gets on.
    pub fn count(&self) -> u64 {
        self.0.load(Ordering::SeqCst)
    }
}

/// One call of one client.
#[derive(Clone, Debug)]
pub struct Operation<C, O> {
    /// Who called.
    pub client: usize,
    /// What was asked for.
    pub call: C,
    /// The moment before it was sent.
    pub invoked: u64,
    /// The moment after its answer was there, and the answer. Without one it may have taken
    /// effect at any time since, may still do so, or never will.
    pub returned: Option<(u64, O)>,
}

impl<C, O> Operation<C, O> {
    /// The moment by which it had taken effect.
    pub fn end(&self) -> u64 {
        self.returned.as_ref().map_or(u64::MAX, |(end, _)| *end)
    }
}

/// How many operations ran while another client's did, of those that were answered: a history
/// without any proves little.
pub fn overlapping<C, O>(history: &[Operation<C, O>]) -> usize {
    let overlap = |a: &Operation<C, O>, b: &Operation<C, O>| {
        a.client != b.client && a.invoked < b.end() && b.invoked < a.end()
    };
    let answered = || history.iter().filter(|seen| seen.returned.is_some());
    let overlaps = |a: &&Operation<C, O>| answered().any(|b| overlap(a, b));
    answered().filter(overlaps).count()
}

/// A history as text, a line an operation in the order of their invocations.
pub fn table<C: Debug, O: Debug>(history: &[Operation<C, O>]) -> String {
    let mut rows: Vec<_> = history.iter().collect();
    rows.sort_by_key(|operation| operation.invoked);
    let mut text = String::new();
    for operation in rows {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{}", Row(operation));
    }
    text
}

struct Row<'a, C, O>(&'a Operation<C, O>);

impl<C: Debug, O: Debug> fmt::Display for Row<'_, C, O> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Operation {
            client,
            call,
            invoked,
            returned,
        } = self.0;
        write!(f, "{invoked:>5} ")?;
        match returned {
            Some((end, outcome)) => write!(f, "{end:>5}  client {client}  {call:?} -> {outcome:?}"),
            None => write!(f, "    ?  client {client}  {call:?} -> nobody knows"),
        }
    }
}
