//! XRay traces in another layout, which compresses better: the *dense stream* of `fdr pack --dense`, and
//! the way back. It knows the shape of XRay's records and nothing else, so any bytes come back unchanged.
//! Must never trust a length, or hold more than a block.
//!
//! A stream is a row of blocks. Each block stands for [`BLOCK`] bytes of the trace; the last one stands for
//! fewer, perhaps for none. Each block is made and read without the others. A block, little-endian:
//!
//! | offset | size | field |
//! | --- | --- | --- |
//! | 0 | 8 | magic: `FDRDENS` and the version, 1 |
//! | 8 | 8 | offset of its first byte in the trace |
//! | 16 | 4 | bytes of the trace |
//! | 20 | 4 | bytes of the body |
//! | 24 | 4 | kind of the body: 0 the bytes as they are, 1 columns |
//! | 28 | 4 | checksum of the trace's bytes and their offset (`sum`) |
//! | 32 | | body |
//!
//! Columns (`columns`) separate calls, the 8-byte records of functions, from all other bytes. One bit of
//! each call says whether its function is the predicted one (`model`). Two bytes of each call are its time.
//! So the compressor sees few bytes, with similar ones together. The body is the plain bytes of the trace
//! if columns would not be shorter. Damage, other formats and the other byte order are such cases.
//!
//! Source: this project.

mod columns;
mod decode;
mod encode;
mod model;
mod sum;

use crate::bytes::{ByteOrder, Fields};

pub use decode::{Decoder, Fault};
pub use encode::Encoder;

/// Bytes of the trace in each block but the last.
pub const BLOCK: usize = 4 << 20;
/// Bytes of a block's head.
pub const HEAD: usize = 32;
/// Bytes of the largest block, its head included.
pub const LARGEST: usize = HEAD + BLOCK;

/// The last byte is the version.
const MAGIC: [u8; 8] = *b"FDRDENS\x01";

/// Whether a file that begins with these bytes (at least 8) is a dense stream, of any version.
#[must_use]
pub fn probe(head: &[u8]) -> bool {
    head.get(..7) == MAGIC.get(..7)
}

/// What the body of a block is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    AsItIs = 0,
    Columns = 1,
}

/// The head of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// The place of its first byte in the trace.
    pub offset: u64,
    /// Bytes of the trace, at most [`BLOCK`].
    pub plain: usize,
    /// Bytes of the body, at most [`BLOCK`].
    pub body: usize,
    kind: Kind,
    sum: u32,
}

impl Head {
    /// The head at the start of `bytes`.
    ///
    /// # Errors
    /// The fault in words. It has no offset, because the caller knows the place of the bytes.
    pub fn parse(bytes: &[u8]) -> Result<Head, &'static str> {
        let mut fields = Fields::new(bytes, ByteOrder::Little);
        let magic = fields
            .bytes(8)
            .ok_or("the stream ends within the head of a block")?;
        if magic != MAGIC {
            return Err(match probe(magic) {
                true => "a dense stream of another version: unpack it with the fdr of that version",
                false => "no block of a dense stream",
            });
        }
        let mut parse = || {
            let offset = fields.u64()?;
            let (plain, body) = (fields.u32()?, fields.u32()?);
            Some((offset, plain, body, fields.u32()?, fields.u32()?))
        };
        let fields = parse().ok_or("the stream ends within the head of a block")?;
        let (offset, plain, body, kind, sum) = fields;
        let size = |bytes: u32| {
            let bytes = usize::try_from(bytes).ok();
            bytes.filter(|&bytes| bytes <= BLOCK)
        };
        let (Some(plain), Some(body)) = (size(plain), size(body)) else {
            return Err("a block of more than 4 MiB");
        };
        let kind = match kind {
            0 => Kind::AsItIs,
            1 => Kind::Columns,
            _ => return Err("a block of a kind that is none"),
        };
        Ok(Head {
            offset,
            plain,
            body,
            kind,
            sum,
        })
    }

    fn bytes(&self) -> [u8; HEAD] {
        // Both sizes are at most BLOCK.
        let (plain, body) = (self.plain as u32, self.body as u32);
        let mut bytes = [0; HEAD];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..16].copy_from_slice(&self.offset.to_le_bytes());
        bytes[16..20].copy_from_slice(&plain.to_le_bytes());
        bytes[20..24].copy_from_slice(&body.to_le_bytes());
        bytes[24..28].copy_from_slice(&(self.kind as u32).to_le_bytes());
        bytes[28..].copy_from_slice(&self.sum.to_le_bytes());
        bytes
    }
}
