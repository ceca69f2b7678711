//! The two packed forms that older versions wrote: ziplists and zipmaps. They are only read.
//!
//! A ziplist starts with its total length and the offset of its last entry (32 bits each) and
//! the number of entries (16 bits) and ends with `0xff`; an entry is the length of the one before
//! it, its encoding, and its content. A zipmap is a count of pairs (one byte) and then, for each
//! pair, a length-prefixed field and value; `0xff` ends it.

use super::BadFormat;

const END: u8 = 0xff;
const HEADER_LEN: usize = 10;
const COUNT_UNKNOWN: u16 = u16::MAX;
/// A length in one byte that says: four more bytes hold it.
const LONG: u8 = 254;

/// The entries of a ziplist, having checked every length that it states.
pub fn entries(ziplist: &[u8]) -> Result<Vec<Vec<u8>>, BadFormat> {
    read_entries(ziplist).ok_or(BadFormat::Data)
}

/// The fields and values of a zipmap, in turn.
pub fn zipmap_items(zipmap: &[u8]) -> Result<Vec<Vec<u8>>, BadFormat> {
    read_zipmap(zipmap).ok_or(BadFormat::Data)
}

fn read_entries(ziplist: &[u8]) -> Option<Vec<Vec<u8>>> {
    let mut rest = ziplist;
    let total = u32::from_le_bytes(array(&mut rest)?) as usize;
    let last_offset = u32::from_le_bytes(array(&mut rest)?) as usize;
    let count = u16::from_le_bytes(array(&mut rest)?);
    let (&END, mut body) = rest.split_last()? else {
        return None;
    };
    if total != ziplist.len() {
        return None;
    }
    let (mut entries, mut previous_len, mut last) = (Vec::new(), 0, HEADER_LEN);
    while !body.is_empty() {
        let before = body.len();
        last = ziplist.len() - 1 - before;
        if entry_length_before(&mut body)? != previous_len {
            return None;
        }
        entries.push(entry_content(&mut body)?);
        previous_len = before - body.len();
    }
    let counted = count == COUNT_UNKNOWN || usize::from(count) == entries.len();
    (counted && last == last_offset).then_some(entries)
}

fn entry_length_before(body: &mut &[u8]) -> Option<usize> {
    match *body.split_off_first()? {
        LONG => Some(u32::from_le_bytes(array(body)?) as usize),
        END => None,
        len => Some(len.into()),
    }
}

fn entry_content(body: &mut &[u8]) -> Option<Vec<u8>> {
    let encoding = *body.split_off_first()?;
    let low = usize::from(encoding & 0x3f);
    let integer = match encoding {
        0x00..=0x3f => return bytes(body, low),
        0x40..=0x7f => {
            let len = low << 8 | usize::from(*body.split_off_first()?);
            return bytes(body, len);
        }
        0x80 => {
            let len = u32::from_be_bytes(array(body)?);
            return bytes(body, len as usize);
        }
        0xc0 => i64::from(i16::from_le_bytes(array(body)?)),
        0xd0 => i64::from(i32::from_le_bytes(array(body)?)),
        0xe0 => i64::from_le_bytes(array(body)?),
        0xf0 => {
            let [a, b, c] = array(body)?;
            i64::from(i32::from_le_bytes([0, a, b, c]) >> 8)
        }
        0xfe => i64::from(i8::from_le_bytes(array(body)?)),
        // Small numbers lie in the encoding itself.
        0xf1..=0xfd => i64::from(encoding & 0x0f) - 1,
        _ => return None,
    };
    Some(itoa::Buffer::new().format(integer).into())
}

fn read_zipmap(zipmap: &[u8]) -> Option<Vec<Vec<u8>>> {
    let (_, mut rest) = zipmap.split_first()?;
    let mut items = Vec::new();
    while *rest.first()? != END {
        let field_len = zipmap_length(&mut rest)?;
        items.push(bytes(&mut rest, field_len)?);
        let value_len = zipmap_length(&mut rest)?;
        // A value may have been shortened in place, leaving so many bytes unused after it.
        let unused = *rest.split_off_first()?;
        items.push(bytes(&mut rest, value_len)?);
        rest.split_off(..usize::from(unused))?;
    }
    (rest == [END]).then_some(items)
}

fn zipmap_length(rest: &mut &[u8]) -> Option<usize> {
    match *rest.split_off_first()? {
        LONG => Some(u32::from_le_bytes(array(rest)?) as usize),
        END => None,
        len => Some(len.into()),
    }
}

fn bytes(rest: &mut &[u8], len: usize) -> Option<Vec<u8>> {
    Some(rest.split_off(..len)?.to_vec())
}

fn array<const N: usize>(rest: &mut &[u8]) -> Option<[u8; N]> {
    let (array, after) = rest.split_first_chunk()?;
    *rest = after;
    Some(*array)
}
