//! What the workloads read: a tree of texts, a picture, a script. The same bytes each time, so that runs can be
//! compared.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use crate::Result;

/// The input of a workload.
pub(super) enum Input {
    Nothing,
    /// A folder of folders of texts.
    Texts,
    /// A square PNG, with this many pixels on each side.
    Picture {
        side: u32,
    },
    /// A text that is given here.
    Script(&'static str),
}

impl Input {
    /// Makes it below the folder, and says where.
    ///
    /// # Errors
    /// If it can't be written.
    pub(super) fn make(&self, folder: &Path) -> Result<PathBuf> {
        let path = folder.join("input");
        match self {
            Input::Nothing => {}
            Input::Texts => texts(&path)?,
            Input::Picture { side } => fs::write(&path, picture(*side, *side))?,
            Input::Script(text) => fs::write(&path, text)?,
        }
        Ok(path)
    }
}

const FOLDERS: u32 = 20;
const FILES: u32 = 25;
/// Lines of a file.
const LINES: u32 = 5000;

const WORDS: [&str; 16] = [
    "the", "flight", "data", "recorder", "stays", "in", "every", "stream", "of", "starter",
    "Records", "and", "nothing", "is", "lost", "stronger",
];

/// Numbers that look like chance and are the same each time.
struct Numbers(u64);

impl Numbers {
    fn next(&mut self) -> u32 {
        // Knuth's MMIX generator; its upper bits are the better ones.
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005);
        self.0 = self.0.wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as u32
    }
}

fn texts(path: &Path) -> Result<()> {
    let mut numbers = Numbers(1);
    for folder in 0..FOLDERS {
        let folder = path.join(format!("folder{folder}"));
        fs::create_dir_all(&folder)?;
        for file in 0..FILES {
            let mut text = String::new();
            for line in 0..LINES {
                let _ = write!(text, "{line}:");
                for _ in 0..numbers.next() % 12 {
                    let _ = write!(text, " {}", WORDS[numbers.next() as usize % WORDS.len()]);
                }
                text.push('\n');
            }
            fs::write(folder.join(format!("file{file}.txt")), text)?;
        }
    }
    Ok(())
}

/// A PNG of 8-bit RGB: slopes with noise, as photographs have them. Its data are stored as they are.
fn picture(width: u32, height: u32) -> Vec<u8> {
    let mut numbers = Numbers(2);
    let mut lines = Vec::new();
    for y in 0..height {
        // No filter.
        lines.push(0);
        for x in 0..width {
            let noise = (numbers.next() % 8) as u8;
            let slope = |by: u32| (by * 255 / width.max(height)) as u8;
            lines.extend([
                slope(x) ^ noise,
                slope(y),
                slope((x + y) / 2).wrapping_add(noise),
            ]);
        }
    }
    let mut head = [width.to_be_bytes(), height.to_be_bytes()].concat();
    head.extend([8, 2, 0, 0, 0]);
    let mut png = b"\x89PNG\r\n\x1a\n".to_vec();
    chunk(&mut png, *b"IHDR", &head);
    chunk(&mut png, *b"IDAT", &stored(&lines));
    chunk(&mut png, *b"IEND", &[]);
    png
}

/// Length, name, data, and CRC of the last two.
fn chunk(png: &mut Vec<u8>, name: [u8; 4], data: &[u8]) {
    let checked = [&name, data].concat();
    png.extend((data.len() as u32).to_be_bytes());
    png.extend(&checked);
    png.extend(crc32(&checked).to_be_bytes());
}

/// A zlib stream of stored blocks (RFC 1950, RFC 1951).
fn stored(data: &[u8]) -> Vec<u8> {
    let mut stream = vec![0x78, 0x01];
    let mut blocks = data.chunks(usize::from(u16::MAX)).peekable();
    while let Some(block) = blocks.next() {
        let length = block.len() as u16;
        stream.push(u8::from(blocks.peek().is_none()));
        stream.extend(length.to_le_bytes());
        stream.extend((!length).to_le_bytes());
        stream.extend(block);
    }
    stream.extend(adler32(data).to_be_bytes());
    stream
}

fn crc32(data: &[u8]) -> u32 {
    let mut crc = u32::MAX;
    for &byte in data {
        crc ^= u32::from(byte);
        for _ in 0..8 {
            crc = (crc >> 1) ^ (0xedb8_8320 & (crc & 1).wrapping_neg());
        }
    }
    !crc
}

fn adler32(data: &[u8]) -> u32 {
    let (mut a, mut b) = (1_u32, 0_u32);
    for &byte in data {
        a = (a + u32::from(byte)) % 65_521;
        b = (b + a) % 65_521;
    }
    b << 16 | a
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn picture_bytes_pass_other_programs_checks() {
        // The examples of the two checksums' specifications.
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
        assert_eq!(adler32(b"Wikipedia"), 0x11e6_0398);
        let png = picture(3, 2);
        assert_eq!(png, picture(3, 2));
        // Two lines of a byte and three pixels, in one block.
        let stream = &png[8 + 25 + 8..];
        assert_eq!(stream[..7], [0x78, 0x01, 1, 20, 0, 235, 255]);
        assert!(png.ends_with(&[0, 0, 0, 0, b'I', b'E', b'N', b'D', 0xae, 0x42, 0x60, 0x82]));
    }

    #[test]
    fn long_data_are_several_blocks() {
        let stream = stored(&[7; 70_000]);
        assert_eq!(stream[2..7], [0, 0xff, 0xff, 0, 0]);
        assert_eq!(stream[7 + 65_535], 1);
        assert_eq!(stream.len(), 2 + 5 + 65_535 + 5 + 4465 + 4);
    }
}
