//! Makes a failing sequence as small as it gets: fewer steps first, then fewer and shorter words.

use super::Words;
use super::sequence::{Sequence, Step};

/// The smallest sequence found that still fails; `fails` must hold for the one that is given.
pub fn shrink(sequence: &Sequence, mut fails: impl FnMut(&Sequence) -> bool) -> Sequence {
    let mut best = sequence.clone();
    loop {
        let before = size(&best);
        fewer_steps(&mut best, &mut fails);
        fewer_clients(&mut best, &mut fails);
        fewer_words(&mut best, &mut fails);
        shorter_words(&mut best, &mut fails);
        fewer_settings(&mut best, &mut fails);
        if size(&best) == before {
            return best;
        }
    }
}

/// What gets less: steps, words and bytes.
fn size(sequence: &Sequence) -> (usize, usize, usize) {
    let words = sequence.steps.iter().filter_map(Step::words);
    let (count, bytes) = words.fold((0, 0), |(count, bytes), words| {
        (
            count + words.len(),
            bytes + words.iter().map(Vec::len).sum::<usize>(),
        )
    });
    (sequence.steps.len(), count, bytes)
}

/// Takes out ever smaller runs of steps, as long as what is left fails.
fn fewer_steps(best: &mut Sequence, fails: &mut impl FnMut(&Sequence) -> bool) {
    let mut run = best.steps.len().div_ceil(2);
    while run > 0 {
        let mut at = best.steps.len();
        while at > 0 {
            let start = at.saturating_sub(run);
            let mut smaller = best.clone();
            smaller.steps.drain(start..at);
            if fails(&smaller) {
                *best = smaller;
            }
            at = start.min(best.steps.len());
        }
        run = if run == 1 { 0 } else { run.div_ceil(2) };
    }
}

/// Lets one client after the other ask what another one asked.
fn fewer_clients(best: &mut Sequence, fails: &mut impl FnMut(&Sequence) -> bool) {
    for from in (1..best.clients).rev() {
        for to in 0..from {
            let mut merged = best.clone();
            for step in &mut merged.steps {
                if let Step::Request { client, .. } | Step::Reconnect(client) = step
                    && *client == from
                {
                    *client = to;
                }
            }
            if merged.steps != best.steps && fails(&merged) {
                *best = merged;
                break;
            }
        }
    }
}

fn fewer_words(best: &mut Sequence, fails: &mut impl FnMut(&Sequence) -> bool) {
    for step in 0..best.steps.len() {
        let mut at = best.steps[step].words().map_or(0, Words::len);
        while at > 1 {
            at -= 1;
            attempt(best, fails, step, |words| {
                words.remove(at);
            });
            at = at.min(best.steps[step].words().map_or(0, Words::len));
        }
    }
}

fn shorter_words(best: &mut Sequence, fails: &mut impl FnMut(&Sequence) -> bool) {
    for step in 0..best.steps.len() {
        for at in 1..best.steps[step].words().map_or(0, Words::len) {
            loop {
                let length = best.steps[step].words().map_or(0, |words| words[at].len());
                let halved = length > 4
                    && attempt(best, fails, step, |words| words[at].truncate(length / 2));
                if !halved {
                    break;
                }
            }
        }
    }
}

fn fewer_settings(best: &mut Sequence, fails: &mut impl FnMut(&Sequence) -> bool) {
    for at in (0..best.settings.len()).rev() {
        let mut fewer = best.clone();
        fewer.settings.remove(at);
        if fails(&fewer) {
            *best = fewer;
        }
    }
}

/// Changes the words of a step if the sequence fails all the same.
fn attempt(
    best: &mut Sequence,
    fails: &mut impl FnMut(&Sequence) -> bool,
    step: usize,
    change: impl Fn(&mut Words),
) -> bool {
    let mut changed = best.clone();
    if let Step::Request { words, .. } = &mut changed.steps[step] {
        change(words);
    }
    let fails = fails(&changed);
    if fails {
        *best = changed;
    }
    fails
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sequence(requests: &[(usize, &str)]) -> Sequence {
        let step = |&(client, text): &(usize, &str)| Step::Request {
            client,
            words: text
                .split(' ')
                .map(|word| word.as_bytes().to_vec())
                .collect(),
        };
        Sequence {
            protocol: 2,
            clients: 3,
            settings: vec![("a-setting", "1".to_owned())],
            steps: requests.iter().map(step).collect(),
        }
    }

    fn position(sequence: &Sequence, name: &[u8]) -> Option<usize> {
        let steps = &sequence.steps;
        steps
            .iter()
            .position(|step| step.words().is_some_and(|words| words[0] == name))
    }

    #[test]
    fn only_what_makes_it_fail_is_left() {
        let noise = [(0, "PING"), (1, "GET a"), (2, "SET k v PX 10")];
        let mut requests = Vec::new();
        for at in 0..200 {
            requests.push(noise[at % 3]);
            match at {
                70 => requests.push((2, "FIRST one two three")),
                120 => requests.push((1, "SECOND abcdefghijklmnop")),
                _ => {}
            }
        }
        let mut attempts = 0;
        let smallest = shrink(&sequence(&requests), |candidate| {
            attempts += 1;
            let (first, second) = (
                position(candidate, b"FIRST"),
                position(candidate, b"SECOND"),
            );
            matches!((first, second), (Some(first), Some(second)) if first < second)
                && candidate
                    .steps
                    .iter()
                    .filter_map(Step::words)
                    .any(|words| words.iter().any(|word| word.starts_with(b"ab")))
        });
        assert_eq!(
            smallest.steps,
            sequence(&[(0, "FIRST"), (0, "SECOND abcd")]).steps
        );
        assert!(smallest.settings.is_empty());
        assert!(attempts < 300, "{attempts} attempts");
    }

    #[test]
    fn what_is_smallest_already_stays() {
        let one = sequence(&[(0, "PING")]);
        assert_eq!(
            shrink(&one, |candidate| candidate.steps == one.steps
                && candidate.settings == one.settings)
            .steps,
            one.steps
        );
    }
}
