//! What the benches share: the names and scripts of a lock, and a shuffled order.

pub const TOKEN: &[u8] = b"0123456789abcdef0123456789abcdef";

pub const UNLOCK: &[u8] =
    b"if redis.call('GET',KEYS[1])==ARGV[1] then return redis.call('DEL',KEYS[1]) else return 0 end";

/// The names of so many locks.
pub fn names(count: usize) -> Vec<Vec<u8>> {
    let name = |number| format!("lock:resource:{number:07}").into_bytes();
    (0..count).map(name).collect()
}

/// Places below `count`, each once and again in the next turn, in an order that is always the
/// same and that no cache foresees.
pub fn shuffled(count: usize) -> impl Iterator<Item = usize> {
    // A prime that divides no count used here, so that the steps meet every place.
    const STEP: usize = 7_368_787;
    (1..).map(move |turn: usize| turn.wrapping_mul(STEP) % count)
}

/// A request as a client sends it.
pub fn request(words: &[&[u8]]) -> Vec<u8> {
    let mut bytes = format!("*{}\r\n", words.len()).into_bytes();
    for word in words {
        bytes.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
        bytes.extend_from_slice(word);
        bytes.extend_from_slice(b"\r\n");
    }
    bytes
}
