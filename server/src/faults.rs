//! Faults that a test injects: errors, latency, dropped connections, swallowed replies.

use std::time::Duration;

use crate::error::Error;

/// What a fault does to the requests that it strikes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The request is not run and gets this error; the code comes first, such as `ERR down`.
    Error(String),
    /// The request runs after this long; other clients are not held up.
    Latency(Duration),
    /// The connection ends and the request is not run.
    DropBefore,
    /// The request is run, then the connection ends without a reply.
    DropAfter,
    /// The request is run and its reply is never sent; the connection stays.
    SwallowReply,
}

/// A fault, for one command or for all, for some requests or until it is cleared.
#[derive(Clone, Debug)]
pub struct Rule {
    /// In any case; `None` strikes every command.
    pub command: Option<String>,
    pub fault: Fault,
    /// How many more requests it strikes; `None` for all.
    pub times: Option<u64>,
}

/// What is to happen to a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    Pass,
    Delay(Duration),
    Drop,
    DropAfter,
    Swallow,
    Fail(Error),
}

/// The rules in force, first match first.
#[derive(Clone, Debug, Default)]
pub struct Faults {
    rules: Vec<Rule>,
}

impl Faults {
    pub fn active(&self) -> bool {
        !self.rules.is_empty()
    }

    pub fn add(&mut self, rule: Rule) {
        self.rules.push(rule);
    }

    pub fn clear(&mut self) {
        self.rules.clear();
    }

    /// Judges a request by the first rule for its command, and counts the strike.
    pub fn judge(&mut self, args: &[&[u8]]) -> Verdict {
        let name = args.first().copied().unwrap_or_default();
        let strikes = |rule: &Rule| {
            rule.times != Some(0)
                && rule
                    .command
                    .as_ref()
                    .is_none_or(|command| name.eq_ignore_ascii_case(command.as_bytes()))
        };
        let Some(rule) = self.rules.iter_mut().find(|rule| strikes(rule)) else {
            return Verdict::Pass;
        };
        if let Some(times) = &mut rule.times {
            *times -= 1;
        }
        let verdict = match &rule.fault {
            Fault::Error(text) => Verdict::Fail(Error::owned(text.as_bytes())),
            Fault::Latency(delay) => Verdict::Delay(*delay),
            Fault::DropBefore => Verdict::Drop,
            Fault::DropAfter => Verdict::DropAfter,
            Fault::SwallowReply => Verdict::Swallow,
        };
        self.rules.retain(|rule| rule.times != Some(0));
        verdict
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_strikes_its_command_so_many_times() {
        let mut faults = Faults::default();
        let fault = Fault::DropAfter;
        faults.add(Rule {
            command: Some("get".to_owned()),
            fault,
            times: Some(2),
        });
        assert_eq!(faults.judge(&[b"SET", b"k", b"v"]), Verdict::Pass);
        assert_eq!(faults.judge(&[b"GET", b"k"]), Verdict::DropAfter);
        assert_eq!(faults.judge(&[b"gEt", b"k"]), Verdict::DropAfter);
        assert_eq!(faults.judge(&[b"GET", b"k"]), Verdict::Pass);
        assert!(!faults.active());
    }
}
