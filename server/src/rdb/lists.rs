//! Lists: a chain of listpacks of some kilobytes each, and of plain strings where one is larger.

use super::{BadFormat, Dumped, kind, packed, reader::Reader, seal, writer::Writer, ziplist};
use crate::value::{limits::Limits, packed::Packed};

/// The lengths that -1 to -5 stand for in `list-max-listpack-size`, in bytes.
const NODE_LENGTHS: [usize; 5] = [4096, 8192, 16384, 32768, 65536];
/// What a node may hold, in bytes, where the setting counts elements.
const SAFE_NODE_LEN: usize = 8192;

const PLAIN: u64 = 1;
const PACKED: u64 = 2;

/// Writes a list, node by node.
pub fn encode_list<'a>(nodes: impl Iterator<Item = &'a Packed>, limits: Limits) -> Vec<u8> {
    let nodes: Vec<&Packed> = nodes.filter(|node| !node.is_empty()).collect();
    let plain_above = node_len_max(limits);
    let mut writer = Writer::new(kind::LIST_QUICKLIST_2);
    writer.length(nodes.len());
    for node in nodes {
        let only = node
            .first()
            .filter(|_| node.len() == 1)
            .map(|at| node.item(at));
        if let Some(element) = only.filter(|element| element.len() > plain_above) {
            writer.length(PLAIN as usize);
            writer.string(&element);
        } else {
            writer.length(PACKED as usize);
            writer.string(&node.to_listpack());
        }
    }
    seal(writer)
}

pub fn decode_plain(reader: &mut Reader<'_>) -> Result<Dumped, BadFormat> {
    let mut list = Vec::new();
    for _ in 0..reader.length()? {
        list.push(reader.string()?);
    }
    non_empty(list)
}

pub fn decode_ziplist(reader: &mut Reader<'_>) -> Result<Dumped, BadFormat> {
    non_empty(ziplist::entries(&reader.string()?)?)
}

pub fn decode_quicklist(reader: &mut Reader<'_>) -> Result<Dumped, BadFormat> {
    let mut list = Vec::new();
    for _ in 0..reader.length()? {
        list.append(&mut ziplist::entries(&reader.string()?)?);
    }
    non_empty(list)
}

pub fn decode_quicklist_2(reader: &mut Reader<'_>) -> Result<Dumped, BadFormat> {
    let mut list = Vec::new();
    for _ in 0..reader.length()? {
        match reader.length()? {
            PLAIN => list.push(reader.string()?),
            PACKED => list.append(&mut packed(reader)?),
            _ => return Err(BadFormat::Data),
        }
    }
    non_empty(list)
}

fn node_len_max(limits: Limits) -> usize {
    let nth = limits.list_max_listpack_size.wrapping_neg().wrapping_sub(1);
    let length = usize::try_from(nth)
        .ok()
        .and_then(|nth| NODE_LENGTHS.get(nth));
    length.copied().unwrap_or(SAFE_NODE_LEN)
}

fn non_empty(list: Vec<Vec<u8>>) -> Result<Dumped, BadFormat> {
    if list.is_empty() {
        Err(BadFormat::Data)
    } else {
        Ok(Dumped::List(list))
    }
}
