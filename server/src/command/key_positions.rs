//! Which arguments of a whole request are keys, and what the command does with each.
//!
//! The key specs of the row say so for nearly every command. For the few whose specs are marked
//! `variable_flags`, `incomplete` or unknown, the options of the request decide.

use smallvec::SmallVec;

use super::{Begin, Command, Find, Flags, KeySpec, is_word};
use crate::number;

/// A key of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyPosition {
    /// Where it stands among the arguments, the command's name being at 0.
    pub index: usize,
    /// As [`KeySpec::flags`](super::KeySpec) words them, without those about the spec itself.
    pub flags: &'static str,
}

/// Does the command take keys at all?
pub fn has_keys(command: &Command) -> bool {
    command.keys.iter().any(|spec| !spec.is_not_key())
}

/// The keys of a request in the order of the specs; `None` when the request is malformed.
/// The number of arguments must fit the command's arity.
pub fn key_positions(command: &Command, args: &[&[u8]]) -> Option<Vec<KeyPosition>> {
    let keys = match command.name {
        "sort" => sort_keys(args),
        "migrate" => migrate_keys(args),
        "georadius" => georadius_keys(args, 6),
        "georadiusbymember" => georadius_keys(args, 5),
        _ => spec_keys(command, args)?,
    };
    let may_be_none = command.flags.has(Flags::NO_MANDATORY_KEYS);
    (may_be_none || !keys.is_empty()).then_some(keys)
}

fn spec_keys(command: &Command, args: &[&[u8]]) -> Option<Vec<KeyPosition>> {
    let may_be_none = command.flags.has(Flags::NO_MANDATORY_KEYS);
    let mut keys = Vec::new();
    let mut specs: SmallVec<[&KeySpec; 4]> = command.keys.iter().collect();
    // The references look for keys in another way when a count is no number, and find those that
    // it begins with first.
    specs.sort_by_key(|spec| !counts_oddly(spec, args));
    for spec in specs.into_iter().filter(|spec| !spec.is_not_key()) {
        let flags = variable_flags(command, args).unwrap_or(spec.flags);
        match spec.indices(args) {
            // A count of 0 leaves the command without what it is about.
            Some(indices) if indices.is_empty() && is_counted(spec) && !may_be_none => return None,
            Some(indices) => {
                keys.extend(
                    indices
                        .into_iter()
                        .map(|index| KeyPosition { index, flags }),
                );
            }
            None if may_be_none => return Some(Vec::new()),
            None => return None,
        }
    }
    Some(keys)
}

fn counts_oddly(spec: &KeySpec, args: &[&[u8]]) -> bool {
    let Begin::Index(at) = spec.begin else {
        return false;
    };
    let count = args.get(at).map(|count| number::parse_i64(count));
    is_counted(spec) && count == Some(None)
}

fn is_counted(spec: &KeySpec) -> bool {
    matches!(spec.find, Find::Counted { .. })
}

/// What a command does with its key when that depends on the options.
fn variable_flags(command: &Command, args: &[&[u8]]) -> Option<&'static str> {
    let has = |words: &[&str]| {
        args.iter()
            .skip(3)
            .any(|arg| words.iter().any(|word| is_word(arg, word)))
    };
    match command.name {
        "set" if has(&["GET", "IFNE", "IFDEQ", "IFDNE"]) => Some("RW access update"),
        "set" => Some("OW update"),
        "delex" if args.len() > 2 => Some("RW access delete"),
        "delex" => Some("RM delete"),
        "bitfield" if only_gets(args) => Some("RO access"),
        "bitfield" => Some("RW access update"),
        _ => None,
    }
}

/// Does a BITFIELD only read?
fn only_gets(args: &[&[u8]]) -> bool {
    let mut at = 2;
    while let Some(word) = args.get(at) {
        if is_word(word, "GET") {
            at += 3;
        } else if is_word(word, "OVERFLOW") {
            at += 2;
        } else {
            return false;
        }
    }
    at == args.len()
}

/// The key that SORT reads and the one behind the last STORE. The keys of BY and GET follow from
/// the elements, so they cannot be told.
fn sort_keys(args: &[&[u8]]) -> Vec<KeyPosition> {
    let mut keys = vec![KeyPosition {
        index: 1,
        flags: "RO access",
    }];
    let mut at = 2;
    while let Some(word) = args.get(at) {
        if is_word(word, "LIMIT") {
            at += 2;
        } else if is_word(word, "BY") || is_word(word, "GET") {
            at += 1;
        } else if is_word(word, "STORE") && at + 1 < args.len() {
            keys.truncate(1);
            keys.push(KeyPosition {
                index: at + 1,
                flags: "OW update",
            });
        }
        at += 1;
    }
    keys
}

/// The third argument of MIGRATE, or what stands behind KEYS when that one is empty.
fn migrate_keys(args: &[&[u8]]) -> Vec<KeyPosition> {
    const FLAGS: &str = "RW access delete";
    let mut at = 6;
    while let Some(word) = args.get(at) {
        if is_word(word, "AUTH") {
            at += 1;
        } else if is_word(word, "AUTH2") {
            at += 2;
        } else if is_word(word, "KEYS") && at + 1 < args.len() {
            if !args[3].is_empty() {
                return Vec::new();
            }
            return (at + 1..args.len())
                .map(|index| KeyPosition {
                    index,
                    flags: FLAGS,
                })
                .collect();
        }
        at += 1;
    }
    vec![KeyPosition {
        index: 3,
        flags: FLAGS,
    }]
}

/// The key that is searched, at 1, and the one behind the last STORE or STOREDIST.
fn georadius_keys(args: &[&[u8]], options_from: usize) -> Vec<KeyPosition> {
    let mut keys = vec![KeyPosition {
        index: 1,
        flags: "RO access",
    }];
    let mut at = options_from;
    while let (Some(word), Some(_)) = (args.get(at), args.get(at + 1)) {
        if is_word(word, "STORE") || is_word(word, "STOREDIST") {
            at += 1;
            keys.truncate(1);
            keys.push(KeyPosition {
                index: at,
                flags: "OW update",
            });
        }
        at += 1;
    }
    keys
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command::{Begin, Categories};

    fn positions(command: &Command, request: &str) -> Option<Vec<(usize, &'static str)>> {
        let args: Vec<&[u8]> = request.split(' ').map(str::as_bytes).collect();
        Some(
            key_positions(command, &args)?
                .into_iter()
                .map(|key| (key.index, key.flags))
                .collect(),
        )
    }

    #[test]
    fn options_decide_what_is_done_with_the_key() {
        const SET: Command = Command {
            name: "set",
            arity: -3,
            keys: &[KeySpec::one("RW access update variable_flags", 1)],
            ..Command::BASE
        };
        assert_eq!(
            positions(&SET, "set k v px 1"),
            Some(vec![(1, "OW update")])
        );
        assert_eq!(
            positions(&SET, "set k v get"),
            Some(vec![(1, "RW access update")])
        );
        assert_eq!(positions(&SET, "set k get"), Some(vec![(1, "OW update")]));
    }

    #[test]
    fn the_last_store_of_sort_counts() {
        const SORT: Command = Command {
            name: "sort",
            arity: -2,
            keys: &[KeySpec::one("RO access", 1)],
            ..Command::BASE
        };
        assert_eq!(
            positions(&SORT, "sort k by store limit 0 1 store a STORE b"),
            Some(vec![(1, "RO access"), (10, "OW update")])
        );
        assert_eq!(
            positions(&SORT, "sort k get store"),
            Some(vec![(1, "RO access")])
        );
    }

    #[test]
    fn migrate_names_its_keys_in_one_of_two_places() {
        const MIGRATE: Command = Command {
            name: "migrate",
            arity: -6,
            keys: &[KeySpec::one("RW access delete", 3)],
            ..Command::BASE
        };
        let flags = "RW access delete";
        assert_eq!(
            positions(&MIGRATE, "migrate h 1 k 0 5"),
            Some(vec![(3, flags)])
        );
        assert_eq!(
            positions(&MIGRATE, "migrate h 1  0 5 auth keys keys a b"),
            Some(vec![(9, flags), (10, flags)])
        );
        assert_eq!(positions(&MIGRATE, "migrate h 1 k 0 5 keys a"), None);
    }

    #[test]
    fn a_count_of_no_keys_is_malformed_unless_the_command_can_do_without() {
        const COUNTED: Command = Command {
            name: "lmpop",
            arity: -4,
            flags: Flags::WRITE,
            categories: Categories::LIST,
            keys: &[KeySpec {
                flags: "RW access delete",
                notes: "",
                begin: Begin::Index(1),
                find: Find::Counted {
                    at: 0,
                    first: 1,
                    step: 1,
                },
            }],
            ..Command::BASE
        };
        const OPTIONAL: Command = Command {
            flags: Flags::NO_MANDATORY_KEYS,
            arity: -3,
            ..COUNTED
        };
        assert_eq!(positions(&COUNTED, "lmpop 0 a left"), None);
        assert_eq!(positions(&COUNTED, "lmpop 9 a left"), None);
        assert_eq!(positions(&OPTIONAL, "x 0 a"), Some(vec![]));
        assert_eq!(positions(&OPTIONAL, "x 9 a"), Some(vec![]));
    }
}
