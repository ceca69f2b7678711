//! SLOWLOG and COMMANDLOG: requests that took long or were large, newest first.

use std::collections::VecDeque;

use crate::{clock::Time, session::Session};

/// Longer requests are cut for the log: arguments, and bytes of each.
const ARGS_MAX: usize = 32;
const ARG_LEN_MAX: usize = 128;

/// A request that was slow or large.
#[derive(Clone, Debug)]
pub struct Entry {
    pub id: u64,
    pub at: Time,
    /// Microseconds, or bytes.
    pub value: i64,
    pub args: Vec<Vec<u8>>,
    pub addr: String,
    pub name: Vec<u8>,
}

/// The log.
#[derive(Debug, Default)]
pub struct SlowLog {
    entries: VecDeque<Entry>,
    next_id: u64,
}

impl SlowLog {
    pub fn add(&mut self, session: &Session, args: &[&[u8]], value: i64, at: Time, max_len: usize) {
        let id = self.next_id;
        self.next_id += 1;
        let (addr, name) = (session.addr.clone(), session.name.clone());
        self.entries.push_front(Entry {
            id,
            at,
            value,
            args: cut(args),
            addr,
            name,
        });
        self.entries.truncate(max_len);
    }

    /// Newest first.
    pub fn iter(&self) -> impl Iterator<Item = &Entry> {
        self.entries.iter()
    }

    pub fn len(&self) -> usize {
        self.entries.len()
    }

    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    pub fn clear(&mut self) {
        self.entries.clear();
    }
}

fn cut(args: &[&[u8]]) -> Vec<Vec<u8>> {
    let kept = if args.len() > ARGS_MAX {
        ARGS_MAX - 1
    } else {
        args.len()
    };
    let mut cut: Vec<Vec<u8>> = args[..kept].iter().map(|arg| cut_one(arg)).collect();
    if kept < args.len() {
        cut.push(format!("... ({} more arguments)", args.len() - kept).into_bytes());
    }
    cut
}

fn cut_one(arg: &[u8]) -> Vec<u8> {
    if arg.len() <= ARG_LEN_MAX {
        return arg.to_vec();
    }
    let more = format!("... ({} more bytes)", arg.len() - ARG_LEN_MAX);
    [&arg[..ARG_LEN_MAX], more.as_bytes()].concat()
}
