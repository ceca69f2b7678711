//! SHA-256, by which passwords are kept.

const ROUNDS: [u32; 64] = round_constants();

/// The digest in lower-case hexadecimal digits.
pub fn hex_digest(message: &[u8]) -> String {
    let mut state = [
        0x6a09_e667,
        0xbb67_ae85,
        0x3c6e_f372,
        0xa54f_f53a,
        0x510e_527f,
        0x9b05_688c,
        0x1f83_d9ab,
        0x5be0_cd19,
    ];
    let mut padded = message.to_vec();
    padded.push(0x80);
    padded.resize(padded.len().next_multiple_of(64), 0);
    if padded.len() < message.len() + 9 {
        padded.resize(padded.len() + 64, 0);
    }
    let length_at = padded.len() - 8;
    padded[length_at..].copy_from_slice(&(message.len() as u64 * 8).to_be_bytes());
    for block in padded.chunks_exact(64) {
        mix(&mut state, block);
    }
    state.map(|word| format!("{word:08x}")).concat()
}

fn mix(state: &mut [u32; 8], block: &[u8]) {
    let mut schedule = [0_u32; 64];
    for (word, bytes) in schedule.iter_mut().zip(block.chunks_exact(4)) {
        *word = bytes
            .iter()
            .fold(0, |word, &byte| word << 8 | u32::from(byte));
    }
    for at in 16..64 {
        let (near, far) = (schedule[at - 2], schedule[at - 15]);
        let near = near.rotate_right(17) ^ near.rotate_right(19) ^ near >> 10;
        let far = far.rotate_right(7) ^ far.rotate_right(18) ^ far >> 3;
        schedule[at] = schedule[at - 16]
            .wrapping_add(far)
            .wrapping_add(schedule[at - 7])
            .wrapping_add(near);
    }
    let mut turning = *state;
    for (word, constant) in schedule.into_iter().zip(ROUNDS) {
        turn(&mut turning, word.wrapping_add(constant));
    }
    for (word, turned) in state.iter_mut().zip(turning) {
        *word = word.wrapping_add(turned);
    }
}

/// One round: every word moves on by one place, and two of them take in the rest.
fn turn(words: &mut [u32; 8], addend: u32) {
    let (first, fifth) = (words[0], words[4]);
    let stirred = fifth.rotate_right(6) ^ fifth.rotate_right(11) ^ fifth.rotate_right(25);
    let chosen = fifth & words[5] ^ !fifth & words[6];
    let fresh = words[7]
        .wrapping_add(stirred)
        .wrapping_add(chosen)
        .wrapping_add(addend);
    let stirred = first.rotate_right(2) ^ first.rotate_right(13) ^ first.rotate_right(22);
    let majority = first & words[1] ^ first & words[2] ^ words[1] & words[2];
    words.rotate_right(1);
    words[4] = words[4].wrapping_add(fresh);
    words[0] = fresh.wrapping_add(stirred).wrapping_add(majority);
}

/// The first 32 bits of the fractional parts of the cube roots of the first 64 primes.
const fn round_constants() -> [u32; 64] {
    let mut constants = [0; 64];
    let (mut found, mut candidate) = (0, 2_u128);
    while found < 64 {
        let mut divisor = 2;
        while divisor * divisor <= candidate && !candidate.is_multiple_of(divisor) {
            divisor += 1;
        }
        if divisor * divisor > candidate {
            constants[found] = cube_root(candidate << 96) as u32;
            found += 1;
        }
        candidate += 1;
    }
    constants
}

/// The largest number whose cube is not larger.
const fn cube_root(number: u128) -> u128 {
    let (mut root, mut bit) = (0_u128, 1_u128 << 40);
    while bit > 0 {
        let next = root | bit;
        if next * next * next <= number {
            root = next;
        }
        bit >>= 1;
    }
    root
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_are_those_of_the_standard() {
        let abc = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(hex_digest(b"abc"), abc);
        let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
        assert_eq!(hex_digest(b""), empty);
        let secret = "2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b";
        assert_eq!(hex_digest(b"secret"), secret);
        let long = "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0";
        assert_eq!(hex_digest(&b"a".repeat(1_000_000)), long);
    }
}
