//! Finds where the frames of a zstd file (RFC 8878) begin and end. Only the headers of frames and of blocks are
//! read. A header's length only says where to read next.
//!
//! | bytes | frame |
//! | --- | --- |
//! | 4 | magic, `28 B5 2F FD` |
//! | 1 | flags: size of the content size, single segment, checksum, size of the dictionary's number |
//! | 0..1 | window, unless it is a single segment |
//! | 0..4 | dictionary's number |
//! | 0..8 | content size: bytes when unpacked, little-endian |
//! | 3 + … | blocks: last (bit 0), kind (bits 1, 2), size (from bit 3 on); the bytes |
//! | 0 or 4 | checksum |
//!
//! A skippable frame has the magic `5x 2A 4D 18`, its size in 4 bytes, and bytes that we skip.

use std::io;

use fdr_formats::bytes::{ByteOrder, Fields, ReadAt, Window};

const MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];
const MAX_HEADER: usize = 18;
const MAX_BLOCK: u64 = 128 << 10;
/// Blocks may be 4 bytes long: not a system call for each.
const WINDOW: usize = 4096;

/// Whether a file that begins with these bytes is compressed by zstd.
pub(crate) fn probe(head: &[u8]) -> bool {
    head.starts_with(&MAGIC) || is_skippable(head)
}

fn is_skippable(head: &[u8]) -> bool {
    matches!(head, [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..])
}

/// One frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Frame {
    /// Its first byte in the file.
    pub(super) offset: u64,
    /// Bytes in the file, as far as that goes.
    pub(super) size: u64,
    /// Bytes when unpacked, where its header says so.
    pub(super) content: Option<u64>,
    /// The file ends within it.
    pub(super) cut: bool,
}

/// What is wrong with a compressed file, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    /// Byte in the compressed file; where it is within a frame, that frame's.
    pub(crate) offset: u64,
    /// What it is.
    pub(crate) what: String,
}

impl Fault {
    pub(super) fn new(offset: u64, what: impl Into<String>) -> Fault {
        Fault {
            offset,
            what: what.into(),
        }
    }
}

/// Goes from frame to frame.
pub(super) struct Frames<'a> {
    window: Window<'a>,
    size: u64,
    next: u64,
}

impl<'a> Frames<'a> {
    pub(super) fn new(bytes: &'a dyn ReadAt) -> Frames<'a> {
        Frames {
            window: Window::new(bytes, WINDOW),
            size: bytes.size(),
            next: 0,
        }
    }

    /// The next frame that holds anything; `None` at the end.
    ///
    /// # Errors
    /// Where the file can't be read.
    pub(super) fn next(&mut self) -> io::Result<Option<Result<Frame, Fault>>> {
        while self.next < self.size {
            let offset = self.next;
            let head = self.window.at(offset, MAX_HEADER, self.size)?;
            if is_skippable(head) {
                let size = head.get(4..8).and_then(|size| size.try_into().ok());
                let size = size.map_or(0, u32::from_le_bytes);
                self.next = offset.saturating_add(8).saturating_add(u64::from(size));
                continue;
            }
            return match Header::parse(head) {
                Ok(header) => self.frame(offset, &header).map(Some),
                Err(what) => Ok(Some(Err(self.damage(offset, what)))),
            };
        }
        Ok(None)
    }

    /// Nothing is looked for behind it.
    fn damage(&mut self, offset: u64, what: &str) -> Fault {
        self.next = self.size;
        Fault::new(offset, what)
    }

    fn frame(&mut self, offset: u64, header: &Header) -> io::Result<Result<Frame, Fault>> {
        let mut at = offset + header.size;
        loop {
            let block = self.window.at(at, 3, self.size)?;
            let Some(&[low, middle, high]) = block.first_chunk() else {
                at = u64::MAX;
                break;
            };
            let block = u32::from_le_bytes([low, middle, high, 0]);
            let size = u64::from(block >> 3);
            let stored = match block >> 1 & 3 {
                0 | 2 if size <= MAX_BLOCK => size,
                1 => 1,
                _ => return Ok(Err(self.damage(at, "no block of zstd's"))),
            };
            at += 3 + stored;
            if block & 1 == 1 || at >= self.size {
                // If the file ends behind a block that is not the last one, the head of the next block is missing.
                at += if block & 1 == 1 { header.checksum } else { 3 };
                break;
            }
        }
        self.next = at.min(self.size);
        Ok(Ok(Frame {
            offset,
            size: self.next - offset,
            content: header.content,
            cut: at > self.size,
        }))
    }
}

/// The bytes of its output that a decoder keeps for the frame with this head. 0: the head is not a frame's.
pub(super) fn window(head: &[u8]) -> u64 {
    let Ok(header) = Header::parse(head) else {
        return 0;
    };
    match (header.content, header.window) {
        (Some(content), Some(window)) => content.min(window),
        (content, window) => content.or(window).unwrap_or(0),
    }
}

struct Header {
    size: u64,
    /// Bytes of the window; `None`: it is the content.
    window: Option<u64>,
    content: Option<u64>,
    /// Bytes of the checksum.
    checksum: u64,
}

impl Header {
    fn parse(head: &[u8]) -> Result<Header, &'static str> {
        const CUT: &str = "the file ends within the head of a frame";
        if !head.starts_with(&MAGIC) {
            return Err(if MAGIC.starts_with(head) {
                CUT
            } else {
                "no frame of zstd's"
            });
        }
        let mut fields = Fields::new(head, ByteOrder::Little);
        let mut parse = || -> Option<Header> {
            fields.bytes(4)?;
            let flags = fields.u8()?;
            let single = flags >> 5 & 1 == 1;
            let window = match single {
                true => None,
                // The upper five bits are a power of two, the lower three eighths of it.
                false => Some(fields.u8().map(|byte| {
                    let base = 1_u64 << (10 + (byte >> 3));
                    base + base / 8 * u64::from(byte & 7)
                })?),
            };
            fields.bytes([0, 1, 2, 4][usize::from(flags & 3)])?;
            let content = match flags >> 6 {
                0 if single => Some(u64::from(fields.u8()?)),
                0 => None,
                1 => Some(u64::from(fields.u16()?) + 256),
                2 => Some(u64::from(fields.u32()?)),
                _ => Some(fields.u64()?),
            };
            Some(Header {
                size: 5
                    + u64::from(!single)
                    + [0, 1, 2, 4][usize::from(flags & 3)]
                    + match flags >> 6 {
                        0 => u64::from(single),
                        power => 1 << power,
                    },
                window,
                content,
                checksum: if flags >> 2 & 1 == 1 { 4 } else { 0 },
            })
        };
        parse().ok_or(CUT)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(bytes: &[u8]) -> Vec<Result<Frame, Fault>> {
        let bytes = bytes.to_vec();
        let mut frames = Frames::new(&bytes);
        let mut all = Vec::new();
        while let Some(frame) = frames.next().unwrap() {
            all.push(frame);
        }
        all
    }

    /// A frame by hand: a single segment of 5 bytes, `a` and then `bbbb`, and a checksum that this code does not check.
    const BY_HAND: [u8; 18] = [
        0x28, 0xb5, 0x2f, 0xfd, 0x24, 5, // magic; single segment, with a checksum; 5 bytes
        0b1000, 0, 0, b'a', // one byte as it is
        0b10_0011, 0, 0, b'b', // the last: one byte four times
        1, 2, 3, 4,
    ];

    #[test]
    fn frames_are_found_by_their_headers() {
        let frame = |offset| Frame {
            offset,
            size: 18,
            content: Some(5),
            cut: false,
        };
        let skipped = [0x5e, 0x2a, 0x4d, 0x18, 2, 0, 0, 0, 9, 9];
        let bytes = [&BY_HAND[..], &skipped, &BY_HAND].concat();
        assert_eq!(all(&bytes), [Ok(frame(0)), Ok(frame(28))]);
        assert_eq!(all(&skipped), []);
        assert_eq!(all(&[]), []);
        assert!(probe(&bytes) && probe(&skipped) && !probe(b"ustar"));
    }

    #[test]
    fn every_size_of_header_is_known() {
        // A size from 256 to 65,791 is stored in two bytes, less 256.
        for bytes in [0, 1, 255, 256, 300, 65_791, 65_792, 200_000] {
            let packed = zstd::bulk::compress(&vec![7; bytes], 1).unwrap();
            let found = all(&packed);
            assert_eq!(found.len(), 1);
            let frame = found[0].clone().unwrap();
            assert_eq!(frame.content, Some(bytes as u64));
            assert_eq!((frame.offset, frame.size), (0, packed.len() as u64));
            assert!(!frame.cut);
        }
        // Without a size, and with a window.
        let streamed = zstd::stream::encode_all(&[7; 1000][..], 1).unwrap();
        let frame = all(&streamed)[0].clone().unwrap();
        assert_eq!((frame.content, frame.size), (None, streamed.len() as u64));
    }

    #[test]
    fn short_frames_are_cut_at_any_byte() {
        for end in 1..BY_HAND.len() {
            match &all(&BY_HAND[..end])[..] {
                [Ok(frame)] => {
                    assert!(frame.cut && end >= 6, "{end}");
                    assert_eq!(frame.size, end as u64);
                }
                [Err(damage)] => assert!(damage.what.contains("ends within the head"), "{end}"),
                other => panic!("{end}: {other:?}"),
            }
        }
    }

    #[test]
    fn invalid_frames_are_reported_with_offset() {
        let mut bytes = [&BY_HAND[..], b"garbage"].concat();
        let found = all(&bytes);
        assert_eq!(found.len(), 2);
        let damage = found[1].clone().unwrap_err();
        assert_eq!((damage.offset, &*damage.what), (18, "no frame of zstd's"));
        bytes[10] |= 0b110;
        assert_eq!(all(&bytes)[0].clone().unwrap_err().offset, 10);
        // A block is never larger than 128 KiB.
        bytes[10..13].copy_from_slice(&[0xff; 3]);
        bytes[10] = 0b1111_1001;
        assert_eq!(all(&bytes)[0].clone().unwrap_err().offset, 10);
    }
}
