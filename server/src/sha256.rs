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
    state.iter().map(|word| format!("{word:08x}")).collect()
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
    let [mut a, mut b, mut c, mut d, mut e, mut f, mut g, mut h] = *state;
    for (word, constant) in schedule.into_iter().zip(ROUNDS) {
        let turned = e.rotate_right(6) ^ e.rotate_right(11) ^ e.rotate_right(25);
        let first = h
            .wrapping_add(turned)
            .wrapping_add(e & f ^ !e & g)
            .wrapping_add(constant)
            .wrapping_add(word);
        let turned = a.rotate_right(2) ^ a.rotate_right(13) ^ a.rotate_right(22);
        let second = turned.wrapping_add(a & b ^ a & c ^ b & c);
        (h, g, f, e) = (g, f, e, d.wrapping_add(first));
        (d, c, b, a) = (c, b, a, first.wrapping_add(second));
    }
    for (word, mixed) in state.iter_mut().zip([a, b, c, d, e, f, g, h]) {
        *word = word.wrapping_add(mixed);
    }
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
        assert_eq!(hex_digest(&[b'a'; 1_000_000]), long);
    }
}
