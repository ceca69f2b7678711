//! Hashes: a listpack of fields and values in turn, or pairs, or, where fields expire, triples.
//!
//! The two descendants of the format write expiring fields in ways of their own. Valkey puts the
//! deadline behind each value, all bits set for none. Redis states the earliest deadline first
//! and then, before each field, how much later its own is, counted from one, zero for none; or it
//! keeps deadlines as third elements of a listpack, zero for none.

use std::collections::HashSet;

use super::{
    BadFormat, Dumped, HashField, Layout, kind, packed, reader::Reader, seal, writer::Writer,
    ziplist,
};
use crate::{number::parse_u64, value::packed::Packed};

/// The deadline of a field that has none, as Valkey writes it.
const NO_DEADLINE: i64 = -1;

/// Writes a hash: field, value and when the field expires, in milliseconds of Unix time. One
/// expiring field decides the form, whatever layout is asked for.
pub fn encode_hash<F: AsRef<[u8]>, V: AsRef<[u8]>>(
    fields: impl Iterator<Item = (F, V, Option<u64>)>,
    layout: Layout,
) -> Vec<u8> {
    let fields: Vec<_> = fields.collect();
    let expiring = fields.iter().any(|(_, _, deadline)| deadline.is_some());
    if layout == Layout::Packed && !expiring {
        let mut packed = Packed::new();
        for (field, value, _) in &fields {
            packed.push_back(field.as_ref());
            packed.push_back(value.as_ref());
        }
        let mut writer = Writer::new(kind::HASH_LISTPACK);
        writer.string(&packed.to_listpack());
        return seal(writer);
    }
    let mut writer = Writer::new(if expiring { kind::HASH_2 } else { kind::HASH });
    writer.length(fields.len());
    for (field, value, deadline) in &fields {
        writer.string(field.as_ref());
        writer.string(value.as_ref());
        if expiring {
            writer.raw(
                &deadline
                    .map_or(NO_DEADLINE, |deadline| deadline as i64)
                    .to_le_bytes(),
            );
        }
    }
    seal(writer)
}

/// The last deadline of a field that Redis knows, in milliseconds of Unix time.
const REDIS_DEADLINE_MAX: u64 = 0xFFFF_FFFF_FFFF;

pub fn decode_plain(reader: &mut Reader<'_>) -> Result<Dumped, BadFormat> {
    collect(reader, |reader| {
        Ok((reader.string()?, reader.string()?, None))
    })
}

pub fn decode_expiring(reader: &mut Reader<'_>) -> Result<Dumped, BadFormat> {
    collect(reader, |reader| {
        let (field, value) = (reader.string()?, reader.string()?);
        let deadline = match i64::from_le_bytes(reader.array()?) {
            NO_DEADLINE => None,
            deadline => Some(u64::try_from(deadline).map_err(|_| BadFormat::Data)?),
        };
        Ok((field, value, deadline))
    })
}

pub fn decode_redis_expiring(reader: &mut Reader<'_>) -> Result<Dumped, BadFormat> {
    let earliest = u64::from_le_bytes(reader.array()?);
    collect(reader, |reader| {
        let deadline = match reader.length()? {
            0 => None,
            // The sum may wrap, and only what comes of it has to be a time.
            later => match earliest.wrapping_add(later - 1) {
                deadline @ ..=REDIS_DEADLINE_MAX => Some(deadline),
                _ => return Err(BadFormat::Data),
            },
        };
        Ok((reader.string()?, reader.string()?, deadline))
    })
}

pub fn decode_listpack(reader: &mut Reader<'_>) -> Result<Dumped, BadFormat> {
    from_items(packed(reader)?)
}

pub fn decode_redis_expiring_listpack(reader: &mut Reader<'_>) -> Result<Dumped, BadFormat> {
    let _earliest = reader.array::<8>()?;
    let mut items = packed(reader)?.into_iter();
    let mut fields = Vec::new();
    while let Some(field) = items.next() {
        let value = items.next().ok_or(BadFormat::Data)?;
        let deadline = items
            .next()
            .and_then(|digits| parse_u64(&digits))
            .ok_or(BadFormat::Data)?;
        fields.push((
            field,
            value,
            Some(deadline).filter(|&deadline| deadline != 0),
        ));
    }
    distinct(fields)
}

pub fn decode_ziplist(reader: &mut Reader<'_>) -> Result<Dumped, BadFormat> {
    from_items(ziplist::entries(&reader.string()?)?)
}

pub fn decode_zipmap(reader: &mut Reader<'_>) -> Result<Dumped, BadFormat> {
    from_items(ziplist::zipmap_items(&reader.string()?)?)
}

fn collect<'a>(
    reader: &mut Reader<'a>,
    mut next: impl FnMut(&mut Reader<'a>) -> Result<HashField, BadFormat>,
) -> Result<Dumped, BadFormat> {
    let mut fields = Vec::new();
    for _ in 0..reader.length()? {
        fields.push(next(reader)?);
    }
    distinct(fields)
}

fn from_items(items: Vec<Vec<u8>>) -> Result<Dumped, BadFormat> {
    let mut items = items.into_iter();
    let mut fields = Vec::new();
    while let Some(field) = items.next() {
        fields.push((field, items.next().ok_or(BadFormat::Data)?, None));
    }
    distinct(fields)
}

fn distinct(fields: Vec<HashField>) -> Result<Dumped, BadFormat> {
    let mut seen = HashSet::new();
    let distinct = fields.iter().all(|(field, ..)| seen.insert(field));
    if distinct && !fields.is_empty() {
        Ok(Dumped::Hash(fields))
    } else {
        Err(BadFormat::Data)
    }
}
