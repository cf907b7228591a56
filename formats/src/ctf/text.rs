//! The bytes of the metadata file: plain text, or text in packets.
//!
//! A metadata packet, in the byte order of its magic number. Source: CTF 1.8.3, section 7.1.
//!
//! | offset | size | field | unit |
//! | --- | --- | --- | --- |
//! | 0 | 4 | magic `0x75D11D57` | |
//! | 4 | 16 | UUID of the trace | |
//! | 20 | 4 | checksum, not looked at | |
//! | 24 | 4 | size of head and text | bits |
//! | 28 | 4 | size of the packet | bits |
//! | 32 | 1 | compression, 0 | |
//! | 33 | 1 | encryption, 0 | |
//! | 34 | 1 | kind of checksum | |
//! | 35 | 2 | major and minor version | |

use std::fs::File;
use std::io::Read;
use std::path::Path;

use crate::bytes::{ByteOrder, Fields};
use crate::error::Error;

const MAGIC: u32 = 0x75D1_1D57;
const HEAD: usize = 37;
/// The longest metadata that is read.
const MAX_METADATA: u64 = 32 << 20;
/// The first bytes of a plain text.
const PLAIN: &[u8] = b"/* CTF 1.8";

/// The text, and its places in the file.
#[derive(Debug, Default)]
pub(super) struct Text {
    pub(super) text: String,
    /// Bytes of the file.
    pub(super) size: u64,
    /// The beginning of a piece in `text` and in the file, and the beginning and end of its packet.
    pub(super) packets: Vec<(usize, u64, u64, u64)>,
}

impl Text {
    /// The byte offset in the file of a place in the text.
    pub(super) fn offset(&self, place: usize) -> u64 {
        let before = self.packets.iter().rev().find(|piece| piece.0 <= place);
        before.map_or(place as u64, |piece| piece.1 + (place - piece.0) as u64)
    }
}

/// Whether these bytes may be the beginning of a metadata file.
pub(super) fn probe(head: &[u8]) -> bool {
    head.starts_with(PLAIN) || order(head).is_some()
}

fn order(head: &[u8]) -> Option<ByteOrder> {
    let magic = head.first_chunk::<4>()?;
    [ByteOrder::Little, ByteOrder::Big]
        .into_iter()
        .find(|order| {
            let number = match order {
                ByteOrder::Little => u32::from_le_bytes(*magic),
                ByteOrder::Big => u32::from_be_bytes(*magic),
            };
            number == MAGIC
        })
}

/// Reads a metadata file.
pub(super) fn read(path: &Path) -> Result<Text, Error> {
    let mut bytes = Vec::new();
    File::open(path)?
        .take(MAX_METADATA + 1)
        .read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MAX_METADATA {
        let what = format!(
            "the metadata is longer than {} MiB, which no program writes",
            MAX_METADATA >> 20
        );
        return Err(Error::format(MAX_METADATA, what));
    }
    let size = bytes.len() as u64;
    let Some(order) = order(&bytes) else {
        let text = String::from_utf8(bytes);
        return Ok(Text {
            text: text.unwrap_or_else(|bad| String::from_utf8_lossy(bad.as_bytes()).into_owned()),
            size,
            packets: Vec::new(),
        });
    };
    let mut text = Text {
        size,
        ..Text::default()
    };
    let mut at = 0;
    while let Some(rest) = bytes.get(at..).filter(|rest| !rest.is_empty()) {
        let (start, end, packet) = packet(rest, order)
            .map_err(|what| Error::format(at as u64, format!("of the metadata: {what}")))?;
        let piece = rest.get(start..end).unwrap_or(&[]);
        let place = (
            text.text.len(),
            (at + start) as u64,
            at as u64,
            (at + packet) as u64,
        );
        text.packets.push(place);
        text.text.push_str(&String::from_utf8_lossy(piece));
        at += packet;
    }
    Ok(text)
}

/// Beginning and end of the text in the first packet, and the end of the packet.
fn packet(bytes: &[u8], order: ByteOrder) -> Result<(usize, usize, usize), String> {
    let mut fields = Fields::new(bytes, order);
    let mut head = || {
        let (magic, _uuid) = (fields.u32()?, fields.bytes(16)?);
        let (_checksum, content, packet) = (fields.u32()?, fields.u32()?, fields.u32()?);
        let (compression, encryption) = (fields.u8()?, fields.u8()?);
        let _scheme_and_version = fields.bytes(3)?;
        Some((magic, content, packet, compression, encryption))
    };
    let Some((magic, content, packet, compression, encryption)) = head() else {
        return Err(format!(
            "the file ends inside a packet's head of {HEAD} bytes"
        ));
    };
    if magic != MAGIC {
        return Err(format!("0x{magic:08x} is not the magic number of a packet"));
    }
    if (compression, encryption) != (0, 0) {
        return Err("compressed or encrypted packets are not supported".into());
    }
    let (content, packet) = ((content / 8) as usize, (packet / 8) as usize);
    if content < HEAD || packet < content || bytes.len() < content {
        return Err(format!(
            "a packet of {packet} bytes with a content of {content} bytes"
        ));
    }
    // The last packet may lack its padding.
    Ok((HEAD, content, packet.min(bytes.len())))
}
