//! Decides whether a history is linearizable: can its calls be put into one order, each between
//! its invocation and its return, in which the sequential model gives every answer that was heard?
//!
//! The search is that of Wing and Gong: take any call that no other had to come before, ask the
//! model, go on with the rest, and step back where nothing fits. Lowe's addition makes it quick: a
//! set of calls that was done already with the same state as a result is never looked at twice.
//! Calls that have no object in common are checked apart, as linearizability is local.

use std::collections::HashSet;
use std::hash::Hash;

use super::history::Operation;

/// How many pairs of done calls and state a search may meet before it gives up.
const MOST_STATES: usize = 2_000_000;

/// What an object does when its calls come one after the other.
pub trait Model {
    /// What can be asked.
    type Call;
    /// What can be answered.
    type Outcome;
    /// What is between two calls.
    type State: Clone + Eq + Hash;

    /// What is before the first call.
    fn initial(&self) -> Self::State;

    /// The state after a call, if it can happen now and answers what was heard. When nothing was
    /// heard, any answer will do.
    fn step(
        &self,
        state: &Self::State,
        call: &Self::Call,
        heard: Option<&Self::Outcome>,
    ) -> Option<Self::State>;

    /// The names of the independent objects that a call is about; `None` for all there are.
    fn objects(&self, call: &Self::Call) -> Option<Vec<char>>;
}

/// The calls of a model's clients.
pub type History<M> = [Operation<<M as Model>::Call, <M as Model>::Outcome>];

/// What a check found. Numbers are places in the history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Such an order exists: this one, for each set of objects that belong together.
    Linearizable(Vec<Vec<usize>>),
    /// No order exists for some objects; this is as far as one could come.
    Violation {
        /// An order of as many calls as possible.
        furthest: Vec<usize>,
        /// The calls that could not follow it.
        left: Vec<usize>,
    },
    /// The search grew too large to end.
    Undecided,
}

/// Checks a history against a model.
pub fn check<M: Model>(model: &M, history: &History<M>) -> Verdict {
    let mut orders = Vec::new();
    for part in parts(model, history) {
        match Search::new(model, history, part).run() {
            Verdict::Linearizable(order) => orders.extend(order),
            other => return other,
        }
    }
    Verdict::Linearizable(orders)
}

/// The calls by the objects that they are about, directly or through other calls.
fn parts<M: Model>(model: &M, history: &History<M>) -> Vec<Vec<usize>> {
    let mut parts: Vec<(HashSet<char>, Vec<usize>)> = Vec::new();
    for (at, operation) in history.iter().enumerate() {
        let Some(objects) = model.objects(&operation.call) else {
            return vec![(0..history.len()).collect()];
        };
        let objects: HashSet<char> = objects.into_iter().collect();
        let (mut whole, apart): (Vec<_>, Vec<_>) = parts
            .into_iter()
            .partition(|(others, _)| !others.is_disjoint(&objects));
        whole.push((objects, vec![at]));
        let whole = whole
            .into_iter()
            .reduce(|(mut objects, mut calls), (more, later)| {
                objects.extend(more);
                calls.extend(later);
                (objects, calls)
            });
        parts = apart;
        parts.extend(whole);
    }
    parts.into_iter().map(|(_, calls)| calls).collect()
}

struct Search<'a, M: Model> {
    model: &'a M,
    history: &'a History<M>,
    /// The places of the calls, in the order of their invocations.
    calls: Vec<usize>,
    done: Bits,
    /// How many calls that were answered are not done.
    left: usize,
    seen: HashSet<(Bits, M::State)>,
}

/// A point of the search: what the calls so far came to, and what may come next.
struct Point<S> {
    state: S,
    next: Vec<usize>,
}

impl<'a, M: Model> Search<'a, M> {
    fn new(model: &'a M, history: &'a History<M>, mut calls: Vec<usize>) -> Self {
        calls.sort_by_key(|&at| history[at].invoked);
        let answered = |&&at: &&usize| history[at].returned.is_some();
        Self {
            model,
            history,
            left: calls.iter().filter(answered).count(),
            done: Bits::new(calls.len()),
            seen: HashSet::new(),
            calls,
        }
    }

    fn run(mut self) -> Verdict {
        let mut order: Vec<usize> = Vec::new();
        let mut furthest = Vec::new();
        let mut points = vec![Point {
            state: self.model.initial(),
            next: self.candidates(),
        }];
        while let Some(point) = points.last_mut() {
            if self.left == 0 {
                return Verdict::Linearizable(vec![self.places(&order)]);
            }
            if self.seen.len() > MOST_STATES {
                return Verdict::Undecided;
            }
            let Some(call) = point.next.pop() else {
                points.pop();
                if let Some(call) = order.pop() {
                    self.undo(call);
                }
                continue;
            };
            let Some(state) = self.step(&point.state, call) else {
                continue;
            };
            self.take(call);
            if self.seen.insert((self.done.clone(), state.clone())) {
                order.push(call);
                if order.len() > furthest.len() {
                    furthest.clone_from(&order);
                }
                let next = self.candidates();
                points.push(Point { state, next });
            } else {
                self.undo(call);
            }
        }
        self.violation(&furthest)
    }

    /// The calls that no undone one had to come before, the likeliest last: first to return,
    /// first done.
    fn candidates(&self) -> Vec<usize> {
        let mut next = Vec::new();
        let mut earliest_end = u64::MAX;
        for (call, &at) in self.calls.iter().enumerate() {
            let operation = &self.history[at];
            if operation.invoked > earliest_end {
                break;
            }
            if !self.done.has(call) {
                next.push(call);
                earliest_end = earliest_end.min(operation.end());
            }
        }
        next.sort_by_key(|&call| std::cmp::Reverse(self.history[self.calls[call]].end()));
        next
    }

    fn step(&self, state: &M::State, call: usize) -> Option<M::State> {
        let operation = &self.history[self.calls[call]];
        let heard = operation.returned.as_ref().map(|(_, outcome)| outcome);
        let after = self.model.step(state, &operation.call, heard)?;
        // One that nobody heard of and that changes nothing need not have happened.
        (heard.is_some() || after != *state).then_some(after)
    }

    fn take(&mut self, call: usize) {
        self.done.set(call, true);
        self.left -= self.counts(call);
    }

    fn undo(&mut self, call: usize) {
        self.done.set(call, false);
        self.left += self.counts(call);
    }

    fn counts(&self, call: usize) -> usize {
        usize::from(self.history[self.calls[call]].returned.is_some())
    }

    fn places(&self, calls: &[usize]) -> Vec<usize> {
        calls.iter().map(|&call| self.calls[call]).collect()
    }

    fn violation(&self, furthest: &[usize]) -> Verdict {
        let rest: Vec<usize> = (0..self.calls.len())
            .filter(|call| !furthest.contains(call) && self.counts(*call) == 1)
            .collect();
        Verdict::Violation {
            furthest: self.places(furthest),
            left: self.places(&rest),
        }
    }
}

/// A set of small numbers.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
struct Bits(Vec<u64>);

impl Bits {
    fn new(len: usize) -> Self {
        Self(vec![0; len.div_ceil(64)])
    }

    fn has(&self, number: usize) -> bool {
        self.0[number / 64] & (1 << (number % 64)) != 0
    }

    fn set(&mut self, number: usize, there: bool) {
        let bit = 1 << (number % 64);
        if there {
            self.0[number / 64] |= bit;
        } else {
            self.0[number / 64] &= !bit;
        }
    }
}
