//! Writes lengths and strings in the shortest form that the format has for them.

use super::lzf::Compressor;
use crate::number::parse_i64;

/// Strings up to this length are not worth compressing.
const UNCOMPRESSED_MAX: usize = 20;

/// A payload that grows.
pub struct Writer {
    bytes: Vec<u8>,
    compressor: Compressor,
}

impl Writer {
    pub fn new(kind: u8) -> Writer {
        Writer {
            bytes: vec![kind],
            compressor: Compressor::default(),
        }
    }

    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }

    pub fn raw(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    pub fn length(&mut self, length: usize) {
        match length {
            0..=0x3f => self.bytes.push(length as u8),
            0x40..=0x3fff => self.raw(&(0x4000 | length as u16).to_be_bytes()),
            0x4000..=0xffff_ffff => {
                self.bytes.push(0x80);
                self.raw(&(length as u32).to_be_bytes());
            }
            _ => {
                self.bytes.push(0x81);
                self.raw(&(length as u64).to_be_bytes());
            }
        }
    }

    pub fn string(&mut self, content: &[u8]) {
        if let Some(value) = parse_i64(content).and_then(|value| i32::try_from(value).ok()) {
            self.integer(value);
        } else if !self.compressed(content) {
            self.length(content.len());
            self.raw(content);
        }
    }

    fn integer(&mut self, value: i32) {
        if let Ok(small) = i8::try_from(value) {
            self.raw(&[0xc0, small as u8]);
        } else if let Ok(medium) = i16::try_from(value) {
            self.bytes.push(0xc1);
            self.raw(&medium.to_le_bytes());
        } else {
            self.bytes.push(0xc2);
            self.raw(&value.to_le_bytes());
        }
    }

    fn compressed(&mut self, content: &[u8]) -> bool {
        if content.len() <= UNCOMPRESSED_MAX {
            return false;
        }
        let Some(compressed) = self.compressor.compress(content, content.len() - 4) else {
            return false;
        };
        self.bytes.push(0xc3);
        self.length(compressed.len());
        self.length(content.len());
        self.raw(&compressed);
        true
    }
}
