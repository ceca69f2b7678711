//! Sets: an array of integers, a listpack, or their members one after another.

use std::collections::HashSet;

use super::{
    BadFormat, Dumped, Layout, intset, kind, packed, reader::Reader, seal, writer::Writer,
};
use crate::{number::parse_i64, value::packed::Packed};

/// Writes a set. For [`Layout::Integers`] all members must be integers.
pub fn encode_set<T: AsRef<[u8]>>(members: impl Iterator<Item = T>, layout: Layout) -> Vec<u8> {
    match layout {
        Layout::Integers => {
            let mut integers: Vec<i64> = members
                .filter_map(|member| parse_i64(member.as_ref()))
                .collect();
            integers.sort_unstable();
            sealed_string(kind::SET_INTSET, &intset::encode(&integers))
        }
        Layout::Packed => {
            let mut packed = Packed::new();
            for member in members {
                packed.push_back(member.as_ref());
            }
            sealed_string(kind::SET_LISTPACK, &packed.to_listpack())
        }
        Layout::Table => {
            let members: Vec<T> = members.collect();
            let mut writer = Writer::new(kind::SET);
            writer.length(members.len());
            for member in &members {
                writer.string(member.as_ref());
            }
            seal(writer)
        }
    }
}

pub fn decode_plain(reader: &mut Reader<'_>) -> Result<Dumped, BadFormat> {
    let mut members = Vec::new();
    for _ in 0..reader.length()? {
        members.push(reader.string()?);
    }
    distinct(members)
}

pub fn decode_intset(reader: &mut Reader<'_>) -> Result<Dumped, BadFormat> {
    let integers = intset::decode(&reader.string()?)?;
    let digits = |&integer: &i64| itoa::Buffer::new().format(integer).into();
    distinct(integers.iter().map(digits).collect())
}

pub fn decode_listpack(reader: &mut Reader<'_>) -> Result<Dumped, BadFormat> {
    distinct(packed(reader)?)
}

fn sealed_string(kind: u8, content: &[u8]) -> Vec<u8> {
    let mut writer = Writer::new(kind);
    writer.string(content);
    seal(writer)
}

fn distinct(members: Vec<Vec<u8>>) -> Result<Dumped, BadFormat> {
    let mut seen = HashSet::new();
    let distinct = members.iter().all(|member| seen.insert(member));
    if distinct && !members.is_empty() {
        Ok(Dumped::Set(members))
    } else {
        Err(BadFormat::Data)
    }
}
