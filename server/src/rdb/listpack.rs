//! A listpack: strings and integers in one run of bytes that can be walked both ways.
//!
//! Its total length (32 bits) and the number of elements (16 bits) come first, a byte `0xff`
//! last. An element is its encoding with its content, then the length of that in groups of seven
//! bits, written so that they are read backwards.

use super::{BadFormat, integer};

const HEADER_LEN: usize = 6;
const END: u8 = 0xff;
/// A count that says: too many to count, walk and see.
const COUNT_UNKNOWN: u16 = u16::MAX;

/// An element as it is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Element<'a> {
    Integer(i64),
    Bytes(&'a [u8]),
}

impl<'a> Element<'a> {
    /// The form that such content takes: an integer if it prints as exactly these bytes.
    pub fn of(content: &'a [u8]) -> Element<'a> {
        match integer(content) {
            Some(value) => Element::Integer(value),
            None => Element::Bytes(content),
        }
    }

    pub fn to_vec(self) -> Vec<u8> {
        match self {
            Element::Integer(integer) => itoa::Buffer::new().format(integer).into(),
            Element::Bytes(bytes) => bytes.to_vec(),
        }
    }
}

/// All elements, having checked every length, every back-length, the count and the end.
pub fn elements(listpack: &[u8]) -> Result<Vec<Element<'_>>, BadFormat> {
    let (total, rest) = listpack.split_first_chunk::<4>().ok_or(BadFormat::Data)?;
    let (count, body) = rest.split_first_chunk::<2>().ok_or(BadFormat::Data)?;
    let Some((&END, mut body)) = body.split_last() else {
        return Err(BadFormat::Data);
    };
    if u32::from_le_bytes(*total) as usize != listpack.len() {
        return Err(BadFormat::Data);
    }
    let mut elements = Vec::new();
    while !body.is_empty() {
        elements.push(take_element(&mut body)?);
    }
    let count = u16::from_le_bytes(*count);
    if count != COUNT_UNKNOWN && usize::from(count) != elements.len() {
        return Err(BadFormat::Data);
    }
    Ok(elements)
}

fn take_element<'a>(body: &mut &'a [u8]) -> Result<Element<'a>, BadFormat> {
    let before = body.len();
    let element = take_content(body).ok_or(BadFormat::Data)?;
    let len = before - body.len();
    let mut expected = [0; 5];
    let back_length = write_back_length(len, &mut expected);
    let found = body.split_off(..back_length.len()).ok_or(BadFormat::Data)?;
    if found == back_length {
        Ok(element)
    } else {
        Err(BadFormat::Data)
    }
}

fn take_content<'a>(body: &mut &'a [u8]) -> Option<Element<'a>> {
    let first = *body.split_off_first()?;
    let low = usize::from(first);
    Some(match first {
        0x00..=0x7f => Element::Integer(first.into()),
        0x80..=0xbf => Element::Bytes(body.split_off(..low & 0x3f)?),
        0xc0..=0xdf => {
            let value = (low as i16 & 0x1f) << 8 | i16::from(*body.split_off_first()?);
            // The sign is bit 12: move it to the top and back.
            Element::Integer((value << 3 >> 3).into())
        }
        0xe0..=0xef => {
            let len = (low & 0x0f) << 8 | usize::from(*body.split_off_first()?);
            Element::Bytes(body.split_off(..len)?)
        }
        0xf0 => {
            let len = u32::from_le_bytes(take_array(body)?);
            Element::Bytes(body.split_off(..len as usize)?)
        }
        0xf1 => Element::Integer(i16::from_le_bytes(take_array(body)?).into()),
        0xf2 => {
            let [a, b, c] = take_array(body)?;
            Element::Integer((i32::from_le_bytes([0, a, b, c]) >> 8).into())
        }
        0xf3 => Element::Integer(i32::from_le_bytes(take_array(body)?).into()),
        0xf4 => Element::Integer(i64::from_le_bytes(take_array(body)?)),
        0xf5..=0xff => return None,
    })
}

fn take_array<const N: usize>(body: &mut &[u8]) -> Option<[u8; N]> {
    let (array, rest) = body.split_first_chunk()?;
    *body = rest;
    Some(*array)
}

/// A listpack under construction, whole after every step.
#[derive(Clone, Debug)]
pub struct Listpack {
    bytes: Vec<u8>,
    count: usize,
}

impl Listpack {
    pub fn new() -> Listpack {
        let mut listpack = Listpack {
            bytes: vec![0; HEADER_LEN],
            count: 0,
        };
        listpack.bytes.push(END);
        listpack.note_size();
        listpack
    }

    pub fn len(&self) -> usize {
        self.count
    }

    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    pub fn push(&mut self, element: Element<'_>) {
        self.bytes.pop();
        let start = self.bytes.len();
        write_content(element, &mut self.bytes);
        let len = self.bytes.len() - start;
        let mut buffer = [0; 5];
        self.bytes
            .extend_from_slice(write_back_length(len, &mut buffer));
        self.bytes.push(END);
        self.count += 1;
        self.note_size();
    }

    fn note_size(&mut self) {
        let count = u16::try_from(self.count).unwrap_or(COUNT_UNKNOWN);
        let total = self.bytes.len() as u32;
        self.bytes[..4].copy_from_slice(&total.to_le_bytes());
        self.bytes[4..6].copy_from_slice(&count.to_le_bytes());
    }
}

fn write_content(element: Element<'_>, bytes: &mut Vec<u8>) {
    match element {
        Element::Integer(integer) => write_integer(integer, bytes),
        Element::Bytes(content) => {
            let len = content.len();
            match len {
                0..=0x3f => bytes.push(0x80 | len as u8),
                0x40..=0xfff => bytes.extend((0xe000 | len as u16).to_be_bytes()),
                _ => {
                    bytes.push(0xf0);
                    bytes.extend((len as u32).to_le_bytes());
                }
            }
            bytes.extend_from_slice(content);
        }
    }
}

fn write_integer(integer: i64, bytes: &mut Vec<u8>) {
    match integer {
        0..=127 => bytes.push(integer as u8),
        -4096..=4095 => bytes.extend((0xc000 | (integer as u16 & 0x1fff)).to_be_bytes()),
        -0x8000..=0x7fff => write_sized(0xf1, integer, 2, bytes),
        -0x80_0000..=0x7f_ffff => write_sized(0xf2, integer, 3, bytes),
        -0x8000_0000..=0x7fff_ffff => write_sized(0xf3, integer, 4, bytes),
        _ => write_sized(0xf4, integer, 8, bytes),
    }
}

fn write_sized(encoding: u8, integer: i64, width: usize, bytes: &mut Vec<u8>) {
    bytes.push(encoding);
    bytes.extend(&integer.to_le_bytes()[..width]);
}

/// The length in seven-bit groups, most significant first, all but the first marked as having
/// more before them.
fn write_back_length(len: usize, buffer: &mut [u8; 5]) -> &[u8] {
    let groups = match len {
        0..=0x7f => 1,
        0x80..=0x3fff => 2,
        0x4000..=0x1f_ffff => 3,
        0x20_0000..=0xfff_ffff => 4,
        _ => 5,
    };
    for (n, byte) in buffer[..groups].iter_mut().enumerate() {
        let more_before = if n == 0 { 0 } else { 0x80 };
        *byte = (len >> (7 * (groups - 1 - n))) as u8 & 0x7f | more_before;
    }
    &buffer[..groups]
}
