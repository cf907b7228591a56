//! Reads gzip (RFC 1952) and xz. A gzip file has members one after the other, and an xz file has streams. One thread
//! decodes each from its beginning.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};

use fdr_formats::bytes::ReadAt;
use flate2::bufread::GzDecoder;
use liblzma::bufread::XzDecoder;
use liblzma::stream::Stream;

use super::frames::Fault;
use super::inflate::Failure;
use super::unpack::{Unpacked, write};
use crate::memory::{self, BorrowedMemory};

const BUFFER: usize = 128 << 10;
/// What the decoder of `xz -9` takes, the most of all levels, and a little more. Files that want more are
/// refused.
const XZ_MEMORY: u64 = 72 << 20;

/// How a file is compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Codec {
    Gzip,
    Xz,
}

/// How a file that begins so is compressed; `None`: by neither.
pub(super) fn codec(head: &[u8]) -> Option<Codec> {
    match head {
        [0x1f, 0x8b, 8, ..] => Some(Codec::Gzip),
        [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => Some(Codec::Xz),
        _ => None,
    }
}

impl Codec {
    fn part(self) -> &'static str {
        match self {
            Codec::Gzip => "gzip member",
            Codec::Xz => "xz stream",
        }
    }

    /// Decodes one member.
    pub(super) fn decoder<'a>(self, from: impl BufRead + 'a) -> io::Result<Box<dyn Read + 'a>> {
        Ok(match self {
            Codec::Gzip => Box::new(GzDecoder::new(from)),
            Codec::Xz => {
                let stream = Stream::new_stream_decoder(XZ_MEMORY, 0)?;
                Box::new(XzDecoder::new_stream(from, stream))
            }
        })
    }
}

/// A file from some byte on.
struct From<'a> {
    bytes: &'a dyn ReadAt,
    at: u64,
}

impl Read for From<'_> {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.bytes.read_at(self.at, buffer)?;
        self.at += count as u64;
        Ok(count)
    }
}

/// The offset of the next byte that the decoder has not consumed.
fn position(reader: &BufReader<From<'_>>) -> u64 {
    reader.get_ref().at - reader.buffer().len() as u64
}

/// Unpacks all members into an empty file.
///
/// # Errors
/// See [`Failure`]. Damage is not an error: the bytes before it are unpacked.
pub(super) fn unpack(
    codec: Codec,
    packed: &dyn ReadAt,
    out: &File,
    most: u64,
    progress: &(dyn Fn(u64) + Sync),
) -> Result<Unpacked, Failure> {
    let _window = (codec == Codec::Xz).then(|| BorrowedMemory::new(XZ_MEMORY));
    memory::check().map_err(Failure::Input)?;
    let mut reader = BufReader::with_capacity(
        BUFFER,
        From {
            bytes: packed,
            at: 0,
        },
    );
    let mut buffer = vec![0; BUFFER];
    let mut bytes = 0;
    let damage = loop {
        let begin = next_member(&mut reader).map_err(Failure::Input)?;
        let mut head = [0; 6];
        let count = packed.read_at(begin, &mut head).map_err(Failure::Input)?;
        if count == 0 {
            break None;
        }
        if self::codec(&head[..count]) != Some(codec) {
            let what = format!("it is no {}", codec.part());
            break Some(Fault::new(begin, what));
        }
        let start = bytes;
        let mut decoder = codec.decoder(&mut reader).map_err(Failure::Input)?;
        let end = loop {
            match decoder.read(&mut buffer) {
                Ok(0) => break None,
                Ok(count) if count as u64 > most.saturating_sub(bytes) => {
                    return Err(Failure::MemoryRefusal);
                }
                Ok(count) => {
                    write(out, &buffer[..count], bytes).map_err(Failure::Output)?;
                    bytes += count as u64;
                    progress(count as u64);
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                    let what = format!("the file ends within this {}", codec.part());
                    break Some(Fault::new(begin, what));
                }
                Err(error) => {
                    // Discards the bytes of this member, because any of them may be wrong.
                    bytes = start;
                    break Some(Fault::new(begin, error.to_string()));
                }
            }
        };
        if end.is_some() {
            break end;
        }
    };
    // Zeros at the end were not written.
    out.set_len(bytes).map_err(Failure::Output)?;
    Ok(Unpacked { bytes, damage })
}

/// Zeros may follow a member: tapes have them behind those of gzip, and xz fills up with them.
fn next_member(reader: &mut BufReader<From<'_>>) -> io::Result<u64> {
    loop {
        let bytes = reader.fill_buf()?;
        let zeros = bytes.iter().take_while(|&&byte| byte == 0).count();
        let on = zeros > 0 && zeros == bytes.len();
        reader.consume(zeros);
        if !on {
            return Ok(position(reader));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;
    use crate::output_file;

    #[test]
    fn what_is_larger_than_allowed_is_refused() {
        let zeros = vec![0; 100_000];
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
        let mut xz = liblzma::write::XzEncoder::new(Vec::new(), 9);
        gzip.write_all(&zeros).unwrap();
        xz.write_all(&zeros).unwrap();
        for (codec, packed) in [
            (Codec::Gzip, gzip.finish().unwrap()),
            (Codec::Xz, xz.finish().unwrap()),
        ] {
            assert_eq!(self::codec(&packed), Some(codec));
            let out = output_file::unnamed().unwrap();
            let of = |most| unpack(codec, &packed, &out, most, &|_| {});
            assert!(
                matches!(of(99_999), Err(Failure::MemoryRefusal)),
                "{codec:?}"
            );
            let whole = Unpacked {
                bytes: 100_000,
                damage: None,
            };
            assert_eq!(of(100_000).unwrap(), whole, "{codec:?}");
            assert_eq!(out.metadata().unwrap().len(), 100_000);
        }
    }
}
