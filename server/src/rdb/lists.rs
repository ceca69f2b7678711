//! Lists: a chain of listpacks of up to 8 KiB, and of plain strings where one is larger.

use super::{
    BadFormat, Dumped, kind,
    listpack::{self, Element, Listpack},
    reader::Reader,
    seal,
    writer::Writer,
    ziplist,
};

/// How large a node may grow, and what is a string too large for any, in bytes: the default of
/// the setting `list-max-listpack-size`.
const NODE_LEN_MAX: usize = 8192;
/// What the reference reckons an element costs beyond its content, once there is a chain.
const ELEMENT_OVERHEAD: usize = 8;

const PLAIN: u64 = 1;
const PACKED: u64 = 2;

/// Writes a list as if its elements had been pushed one by one at the tail.
pub fn encode_list<T: AsRef<[u8]>>(elements: impl IntoIterator<Item = T>) -> Vec<u8> {
    let mut nodes: Vec<Node> = Vec::new();
    for element in elements {
        push(&mut nodes, element.as_ref());
    }
    let mut writer = Writer::new(kind::LIST_QUICKLIST_2);
    writer.length(nodes.len());
    for node in nodes {
        match node {
            Node::Plain(content) => {
                writer.length(PLAIN as usize);
                writer.string(&content);
            }
            Node::Packed(listpack) => {
                writer.length(PACKED as usize);
                writer.string(listpack.as_bytes());
            }
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
        let container = reader.length()?;
        let node = reader.string()?;
        match container {
            PLAIN => list.push(node),
            PACKED => list.extend(listpack::elements(&node)?.into_iter().map(Element::to_vec)),
            _ => return Err(BadFormat::Data),
        }
    }
    non_empty(list)
}

enum Node {
    Plain(Vec<u8>),
    Packed(Listpack),
}

fn push(nodes: &mut Vec<Node>, content: &[u8]) {
    // A list that is still one listpack is measured without the overhead.
    let overhead = if nodes.len() > 1 { ELEMENT_OVERHEAD } else { 0 };
    if content.len() > NODE_LEN_MAX {
        nodes.push(Node::Plain(content.to_vec()));
        return;
    }
    if let Some(Node::Packed(tail)) = nodes.last_mut()
        && tail.as_bytes().len() + content.len() + overhead <= NODE_LEN_MAX
    {
        tail.push(Element::of(content));
        return;
    }
    let mut listpack = Listpack::new();
    listpack.push(Element::of(content));
    nodes.push(Node::Packed(listpack));
}

fn non_empty(list: Vec<Vec<u8>>) -> Result<Dumped, BadFormat> {
    if list.is_empty() {
        Err(BadFormat::Data)
    } else {
        Ok(Dumped::List(list))
    }
}
