//! What a pipeline is about to ask for is brought close before it runs.
//!
//! A key among millions lies in memory that no cache holds, and a command can but wait for it.
//! The requests that have come in together tell which keys will be wanted, so the places of all
//! of them are looked at first, one step of the look-up for all keys and then the next: their
//! waits run side by side. Nothing depends on it, and what is read here is thrown away.

use smallvec::SmallVec;

use crate::{
    command::{self, Begin, Command, Find, Flags},
    keyspace::Keyspace,
    number,
    resp::Decoder,
};

/// How many keys are looked at together. More would drive each other out again.
const KEYS_MAX: usize = 64;

/// Looks at what the requests that a decoder found ahead in a buffer will need. A client that ran
/// a command `before` mostly goes on with it.
pub fn warm(
    keys: &Keyspace,
    db: usize,
    mut before: Option<&'static Command>,
    decoder: &Decoder,
    buffer: &[u8],
) {
    let mut wanted: SmallVec<[&[u8]; KEYS_MAX]> = SmallVec::new();
    let mut removals = 0;
    decoder.each_ahead(buffer, |args| {
        let Ok(command) = command::lookup_after(before, args) else {
            return;
        };
        before = Some(command);
        for at in key_indices(command, args) {
            if wanted.len() < KEYS_MAX {
                wanted.push(args[at]);
                removals += usize::from(may_remove(command));
            }
        }
    });
    keys.warm(db, &wanted, removals);
}

/// Is it likely to take keys away? What adds data is not, and what a script does is not known.
fn may_remove(command: &Command) -> bool {
    command.flags.has(Flags::MAY_REPLICATE)
        || command.is_write() && !command.flags.has(Flags::DENYOOM)
}

/// Where the first keys of a request stand, as far as its row tells without a search.
fn key_indices(command: &Command, args: &[&[u8]]) -> impl Iterator<Item = usize> + use<> {
    let (first, end, step) = match command.keys.first().map(|spec| (spec.begin, spec.find)) {
        Some((Begin::Index(first), Find::Range { last: 0, .. })) => (first, first + 1, 1),
        Some((Begin::Index(first), Find::Range { step, .. })) => (first, args.len(), step),
        Some((Begin::Index(count), Find::Counted { first, step, .. })) => {
            let keys = args.get(count).and_then(|count| number::parse_i64(count));
            let keys = keys.and_then(|keys| usize::try_from(keys).ok());
            let first = count + first;
            (
                first,
                first + keys.unwrap_or(0).min(args.len()) * step,
                step,
            )
        }
        _ => (0, 0, 1),
    };
    (first..end.min(args.len())).step_by(step.max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn indices(request: &[&str]) -> Vec<usize> {
        let args: Vec<&[u8]> = request.iter().map(|word| word.as_bytes()).collect();
        let command = command::lookup(&args).unwrap();
        key_indices(command, &args).collect()
    }

    #[test]
    fn the_keys_of_a_request_are_found_by_its_row() {
        assert_eq!(indices(&["GET", "k"]), [1]);
        assert_eq!(indices(&["mset", "a", "1", "b", "2"]), [1, 3]);
        assert_eq!(indices(&["BLMPOP", "0", "2", "a", "b", "LEFT"]), [3, 4]);
        assert_eq!(indices(&["ZINTERCARD", "1", "a"]), [2]);
        assert_eq!(indices(&["OBJECT", "ENCODING", "k"]), [2]);
        assert!(indices(&["PING"]).is_empty());
    }

    #[cfg(feature = "scripting")]
    #[test]
    fn the_keys_of_a_script_are_those_that_it_counts() {
        assert_eq!(indices(&["EVALSHA", "sha", "2", "a", "b", "arg"]), [3, 4]);
        for count in ["99", "9223372036854775807", "-1", "x", ""] {
            let found = indices(&["EVALSHA", "sha", count, "a", "b"]);
            assert!(found.iter().all(|&at| at < 5), "{count}: {found:?}");
        }
    }

    #[test]
    fn counts_that_lie_are_bounded_by_the_request() {
        for count in ["99", "9223372036854775807", "-1", "x", ""] {
            let found = indices(&["BLMPOP", "0", count, "a", "b"]);
            assert!(found.iter().all(|&at| at < 5), "{count}: {found:?}");
        }
    }
}
