//! CRC-64 in the variant of Jones, eight bytes at a step.

/// The polynomial `0xad93d23594c935a9`, its bits in reverse order.
const POLYNOMIAL: u64 = 0x95ac_9329_ac4b_c9b5;

/// `TABLES[n][byte]` is what a byte contributes that `n` more bytes follow.
static TABLES: [[u64; 256]; 8] = tables();

/// The checksum of the bytes.
pub fn checksum(bytes: &[u8]) -> u64 {
    let (words, rest) = bytes.as_chunks::<8>();
    let crc = words
        .iter()
        .fold(0, |crc, word| eight_more(crc ^ u64::from_le_bytes(*word)));
    rest.iter().fold(crc, |crc, &byte| {
        (crc >> 8) ^ TABLES[0][usize::from(byte) ^ (crc & 0xff) as usize]
    })
}

fn eight_more(mixed: u64) -> u64 {
    let bytes = mixed.to_le_bytes();
    (0..8).fold(0, |crc, n| crc ^ TABLES[7 - n][usize::from(bytes[n])])
}

const fn tables() -> [[u64; 256]; 8] {
    let mut tables = [[0; 256]; 8];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = byte as u64;
        let mut n = 0;
        while n < 8 {
            let mut bit = 0;
            while bit < 8 {
                crc = if crc & 1 == 1 {
                    (crc >> 1) ^ POLYNOMIAL
                } else {
                    crc >> 1
                };
                bit += 1;
            }
            tables[n][byte] = crc;
            n += 1;
        }
        byte += 1;
    }
    tables
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_check_value_of_the_variant_comes_out() {
        assert_eq!(checksum(b"123456789"), 0xe9c6_d914_c4b8_d9ca);
    }

    #[test]
    fn steps_of_eight_and_of_one_agree_at_every_length() {
        let bytes: Vec<u8> = (0..100u8).map(|n| n.wrapping_mul(37)).collect();
        for len in 0..bytes.len() {
            let bit_by_bit = bytes[..len].iter().fold(0u64, |crc, &byte| {
                (0..8).fold(crc ^ u64::from(byte), |crc, _| {
                    if crc & 1 == 1 {
                        (crc >> 1) ^ POLYNOMIAL
                    } else {
                        crc >> 1
                    }
                })
            });
            assert_eq!(checksum(&bytes[..len]), bit_by_bit);
        }
    }
}
