//! Streams: nodes as they are, then what the stream remembers, then its groups.
//!
//! The second version of the form added the first ID, the greatest deleted ID and the counters,
//! the third when a consumer was last active. An unknown counter has all bits set.

use std::collections::BTreeMap;

use super::{BadFormat, Dumped, kind, reader::Reader, seal, writer::Writer};
use crate::{
    bytestr::ByteStr,
    value::{
        packed::Packed,
        stream::{Group, History, Pending, Stream, StreamId},
    },
};

const UNKNOWN: u64 = u64::MAX;

/// The version of the form that a payload is in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Form {
    First,
    WithCounters,
    WithActivity,
}

/// Writes a stream, groups and all that is pending included.
pub fn encode_stream(stream: &Stream) -> Vec<u8> {
    let mut writer = Writer::new(kind::STREAM_3);
    writer.length(stream.node_count());
    for (id, node) in stream.nodes() {
        writer.string(&id.to_bytes());
        writer.string(&node.to_listpack());
    }
    let history = stream.history();
    writer.length(stream.len() as usize);
    write_id(&mut writer, history.last_id);
    write_id(&mut writer, stream.first_id());
    write_id(&mut writer, history.max_deleted_id);
    writer.length(history.entries_added as usize);
    writer.length(stream.groups().len());
    for (name, group) in stream.groups() {
        writer.string(name);
        write_group(&mut writer, group);
    }
    seal(writer)
}

fn write_group(writer: &mut Writer, group: &Group) {
    write_id(writer, group.last_id);
    writer.length(group.entries_read.unwrap_or(UNKNOWN) as usize);
    writer.length(group.pending().len());
    for (id, pending) in group.pending() {
        writer.raw(&id.to_bytes());
        writer.raw(&pending.delivered_ms.to_le_bytes());
        writer.length(pending.deliveries as usize);
    }
    writer.length(group.consumers().len());
    for (name, consumer) in group.consumers() {
        writer.string(name);
        writer.raw(&consumer.seen_ms.to_le_bytes());
        writer.raw(&consumer.active_ms.unwrap_or(UNKNOWN).to_le_bytes());
        writer.length(consumer.pending().len());
        for id in consumer.pending() {
            writer.raw(&id.to_bytes());
        }
    }
}

fn write_id(writer: &mut Writer, id: StreamId) {
    writer.length(id.ms as usize);
    writer.length(id.seq as usize);
}

pub fn decode(reader: &mut Reader<'_>, form: Form) -> Result<Dumped, BadFormat> {
    let mut nodes = Vec::new();
    for _ in 0..reader.length()? {
        let id = <[u8; 16]>::try_from(reader.string()?).map_err(|_| BadFormat::Data)?;
        let packed = Packed::from_listpack(&reader.string()?).ok_or(BadFormat::Data)?;
        nodes.push((StreamId::from_bytes(id), packed));
    }
    let len = reader.length()?;
    let last_id = read_id(reader)?;
    let mut history = History {
        last_id,
        max_deleted_id: StreamId::MIN,
        entries_added: len,
    };
    if form >= Form::WithCounters {
        let _first_id = read_id(reader)?;
        history.max_deleted_id = read_id(reader)?;
        history.entries_added = reader.length()?;
    }
    let mut stream = Stream::from_nodes(nodes, history).ok_or(BadFormat::Data)?;
    if stream.len() != len {
        return Err(BadFormat::Data);
    }
    for _ in 0..reader.length()? {
        let name = reader.string()?;
        let group = read_group(reader, form, &stream)?;
        if !stream.add_group(&name, group) {
            return Err(BadFormat::Data);
        }
    }
    Ok(Dumped::Stream(Box::new(stream)))
}

fn read_group(reader: &mut Reader<'_>, form: Form, stream: &Stream) -> Result<Group, BadFormat> {
    let last_id = read_id(reader)?;
    let entries_read = match form {
        Form::First => stream.entries_up_to(last_id),
        _ => Some(reader.length()?).filter(|&read| read != UNKNOWN),
    };
    let mut group = Group::new(last_id, entries_read);
    let mut delivered = BTreeMap::new();
    for _ in 0..reader.length()? {
        let id = StreamId::from_bytes(reader.array()?);
        let delivery = (u64::from_le_bytes(reader.array()?), reader.length()?);
        if delivered.insert(id, delivery).is_some() {
            return Err(BadFormat::Data);
        }
    }
    for _ in 0..reader.length()? {
        read_consumer(reader, form, &mut group, &mut delivered)?;
    }
    // What is pending is pending with somebody.
    if delivered.is_empty() {
        Ok(group)
    } else {
        Err(BadFormat::Data)
    }
}

fn read_consumer(
    reader: &mut Reader<'_>,
    form: Form,
    group: &mut Group,
    delivered: &mut BTreeMap<StreamId, (u64, u64)>,
) -> Result<(), BadFormat> {
    let name = ByteStr::from(&reader.string()?[..]);
    let seen_ms = u64::from_le_bytes(reader.array()?);
    let active_ms = match form {
        Form::WithActivity => {
            Some(u64::from_le_bytes(reader.array()?)).filter(|&active| active != UNKNOWN)
        }
        _ => Some(seen_ms),
    };
    if !group.add_consumer(&name, seen_ms) {
        return Err(BadFormat::Data);
    }
    if let Some(consumer) = group.consumer_mut(&name) {
        consumer.active_ms = active_ms;
    }
    for _ in 0..reader.length()? {
        let id = StreamId::from_bytes(reader.array()?);
        let (delivered_ms, deliveries) = delivered.remove(&id).ok_or(BadFormat::Data)?;
        group.assign(
            id,
            Pending {
                consumer: name.clone(),
                delivered_ms,
                deliveries,
            },
        );
    }
    Ok(())
}

fn read_id(reader: &mut Reader<'_>) -> Result<StreamId, BadFormat> {
    Ok(StreamId {
        ms: reader.length()?,
        seq: reader.length()?,
    })
}
