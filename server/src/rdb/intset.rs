//! A sorted array of integers of one width: how small sets of integers are stored.
//!
//! Width in bytes and count come first, as 32-bit numbers, then the integers, little end first.

use super::BadFormat;

/// The members, in decimal digits, ascending.
pub fn decode(bytes: &[u8]) -> Result<Vec<i64>, BadFormat> {
    let (width, rest) = bytes.split_first_chunk::<4>().ok_or(BadFormat::Data)?;
    let (count, rest) = rest.split_first_chunk::<4>().ok_or(BadFormat::Data)?;
    let members: Vec<i64> = match u32::from_le_bytes(*width) {
        2 => widened(rest, |&bytes| i16::from_le_bytes(bytes).into())?,
        4 => widened(rest, |&bytes| i32::from_le_bytes(bytes).into())?,
        8 => widened(rest, |&bytes| i64::from_le_bytes(bytes))?,
        _ => return Err(BadFormat::Data),
    };
    let whole = members.len() as u64 == u64::from(u32::from_le_bytes(*count));
    let ascending = members.is_sorted_by(|a, b| a < b);
    if whole && ascending {
        Ok(members)
    } else {
        Err(BadFormat::Data)
    }
}

/// The members must be ascending.
pub fn encode(members: &[i64]) -> Vec<u8> {
    let fits = |min: i64, max: i64| members.iter().all(|n| (min..=max).contains(n));
    let width: usize = if fits(i16::MIN.into(), i16::MAX.into()) {
        2
    } else if fits(i32::MIN.into(), i32::MAX.into()) {
        4
    } else {
        8
    };
    let mut bytes = Vec::with_capacity(8 + width * members.len());
    bytes.extend((width as u32).to_le_bytes());
    bytes.extend((members.len() as u32).to_le_bytes());
    for member in members {
        bytes.extend(&member.to_le_bytes()[..width]);
    }
    bytes
}

fn widened<const N: usize>(
    bytes: &[u8],
    widen: impl Fn(&[u8; N]) -> i64,
) -> Result<Vec<i64>, BadFormat> {
    match bytes.as_chunks() {
        (chunks, []) => Ok(chunks.iter().map(widen).collect()),
        _ => Err(BadFormat::Data),
    }
}
