//! Sorted sets: a listpack of members and scores in turn, or pairs from the highest score down.

use std::collections::HashSet;

use super::{
    BadFormat, Dumped, Layout, kind, packed, reader::Reader, seal, writer::Writer, ziplist,
};
use crate::{
    number::{DoubleBuffer, parse_f64},
    value::packed::Packed,
};

/// Lengths of a score in digits that stand for what has no digits.
const NOT_A_NUMBER: u8 = 253;
const INFINITY: u8 = 254;
const NEGATIVE_INFINITY: u8 = 255;

/// Writes a sorted set, given in ascending order.
pub fn encode_sorted_set<T: AsRef<[u8]>>(
    pairs: impl Iterator<Item = (T, f64)>,
    layout: Layout,
) -> Vec<u8> {
    if layout == Layout::Packed {
        let (mut packed, mut digits) = (Packed::new(), DoubleBuffer::new());
        for (member, score) in pairs {
            packed.push_back(member.as_ref());
            // Packed whole numbers are integers, which have no negative zero.
            packed.push_back(digits.format(score + 0.0).as_bytes());
        }
        let mut writer = Writer::new(kind::SORTED_SET_LISTPACK);
        writer.string(&packed.to_listpack());
        return seal(writer);
    }
    let pairs: Vec<(T, f64)> = pairs.collect();
    let mut writer = Writer::new(kind::SORTED_SET_2);
    writer.length(pairs.len());
    for (member, score) in pairs.iter().rev() {
        writer.string(member.as_ref());
        writer.raw(&score.to_le_bytes());
    }
    seal(writer)
}

pub fn decode_with_digits(reader: &mut Reader<'_>) -> Result<Dumped, BadFormat> {
    let mut pairs = Vec::new();
    for _ in 0..reader.length()? {
        let member = reader.string()?;
        let score = match reader.byte()? {
            NOT_A_NUMBER => return Err(BadFormat::Data),
            INFINITY => f64::INFINITY,
            NEGATIVE_INFINITY => f64::NEG_INFINITY,
            len => parse_f64(reader.take(len.into())?).ok_or(BadFormat::Data)?,
        };
        pairs.push((member, score));
    }
    distinct(pairs)
}

pub fn decode_plain(reader: &mut Reader<'_>) -> Result<Dumped, BadFormat> {
    let mut pairs = Vec::new();
    for _ in 0..reader.length()? {
        pairs.push((reader.string()?, f64::from_le_bytes(reader.array()?)));
    }
    distinct(pairs)
}

pub fn decode_ziplist(reader: &mut Reader<'_>) -> Result<Dumped, BadFormat> {
    from_items(ziplist::entries(&reader.string()?)?)
}

pub fn decode_listpack(reader: &mut Reader<'_>) -> Result<Dumped, BadFormat> {
    from_items(packed(reader)?)
}

fn from_items(items: Vec<Vec<u8>>) -> Result<Dumped, BadFormat> {
    let mut items = items.into_iter();
    let mut pairs = Vec::new();
    while let Some(member) = items.next() {
        let score = items.next().and_then(|digits| parse_f64(&digits));
        pairs.push((member, score.ok_or(BadFormat::Data)?));
    }
    distinct(pairs)
}

fn distinct(pairs: Vec<(Vec<u8>, f64)>) -> Result<Dumped, BadFormat> {
    let mut seen = HashSet::new();
    let sound = pairs
        .iter()
        .all(|(member, score)| !score.is_nan() && seen.insert(member));
    if sound && !pairs.is_empty() {
        Ok(Dumped::SortedSet(pairs))
    } else {
        Err(BadFormat::Data)
    }
}
