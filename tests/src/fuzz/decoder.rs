//! The decoder of requests: however its bytes are split, the same requests come out.

use khoa_server::fuzzing::Requests;

use super::seeds;
use crate::transcript::wire::encode;

/// What `proto-max-bulk-len` may be.
const BULK_LENS: [i64; 4] = [16, 1024, 1 << 20, 512 << 20];
/// So many places are tried for a split in two.
const SPLITS_MAX: usize = 64;

/// The requests, and the error that ended them.
type Read = (Vec<Vec<Vec<u8>>>, Option<Vec<u8>>);

/// The first byte chooses the limits, the others are what a client sends.
pub fn run(input: &[u8]) {
    let Some((&mode, bytes)) = input.split_first() else {
        return;
    };
    let whole = read(mode, [bytes]);
    assert_eq!(read(mode, bytes.chunks(1)), whole, "byte by byte");
    let step = bytes.len() / SPLITS_MAX + 1;
    for at in (0..bytes.len()).step_by(step) {
        let (one, two) = bytes.split_at(at);
        assert_eq!(read(mode, [one, two]), whole, "split at {at}");
    }
    let requests: Vec<_> = whole
        .0
        .into_iter()
        .filter(|args| !args.is_empty())
        .collect();
    let encoded: Vec<u8> = requests.iter().flat_map(|args| encode(args)).collect();
    assert_eq!(read(u8::MAX, [&encoded[..]]), (requests, None), "encoded");
}

fn read<'a>(mode: u8, pieces: impl IntoIterator<Item = &'a [u8]>) -> Read {
    let bulk_len = BULK_LENS[usize::from(mode >> 1 & 3)];
    let mut decoder = Requests::new(bulk_len, mode & 1 == 1);
    let mut requests = Vec::new();
    for piece in pieces {
        decoder.feed(piece);
        loop {
            match decoder.next_request() {
                Ok(Some(args)) => requests.push(args),
                Ok(None) => break,
                Err(error) => return (requests, Some(error)),
            }
        }
    }
    (requests, None)
}

pub fn seeds() -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    for (mode, bytes) in (0..8_u8).cycle().zip(seeds::streams()) {
        all.push([&[mode], &bytes[..]].concat());
    }
    all
}
