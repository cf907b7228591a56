//! A folder's files as one: the `ustar` archive that every `tar` reads and writes, as far as a trace needs
//! it: files of one folder. Must never make a file anywhere but in the folder that it is given.
//!
//! | offset | bytes | field of a head |
//! | --- | --- | --- |
//! | 0 | 100 | name |
//! | 100 | 3 x 8 | mode, owner, group: octal |
//! | 124 | 12 | size: octal, or 80h and a big-endian number |
//! | 136 | 12 | time: octal |
//! | 148 | 8 | sum of the head's bytes, these being spaces: octal |
//! | 156 | 1 | kind: `0` or NUL a file, `5` a folder |
//! | 257 | 8 | `ustar`, NUL, `00`; GNU's own has spaces |
//! | 345 | 155 | what the name begins with, a slash between |
//!
//! The bytes follow, in blocks of 512. Two blocks of zeros are the end.

use std::ffi::OsStr;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

use crate::ui;

const BLOCK: usize = 512;
/// Files of a folder: a trace has one for each thread, and a few.
const MOST_FILES: usize = 65_536;

/// Whether a file that begins with these bytes is an archive.
pub(crate) fn probe(head: &[u8]) -> bool {
    head.get(257..262) == Some(b"ustar")
}

/// Reads as an archive of a folder's files, in the order of their names.
pub(crate) struct Archive {
    /// What the names begin with.
    prefix: Vec<u8>,
    files: std::vec::IntoIter<PathBuf>,
    /// What is left of a head, of the bytes that fill a block, or of the end.
    block: io::Cursor<Vec<u8>>,
    /// The file that is being read, how many bytes it still owes, and how many fill its last block.
    file: Option<(File, u64, u64)>,
    over: bool,
}

impl Archive {
    /// Of a folder that holds files and nothing else, under that name.
    ///
    /// # Errors
    /// Where it holds something else, or can't be read.
    pub(crate) fn of(folder: &Path, name: &OsStr) -> anyhow::Result<Archive> {
        let text = || ui::path(folder);
        let mut files = Vec::new();
        for entry in fs::read_dir(folder).with_context(text)? {
            let entry = entry.with_context(text)?;
            if !entry.file_type().with_context(text)?.is_file() {
                let entry = ui::path(&entry.path());
                bail!(
                    "{entry}: is no regular file: a folder with others than a trace's is not packed"
                );
            }
            files.push(entry.path());
        }
        files.sort();
        let prefix = name.as_bytes();
        let long = files
            .iter()
            .find(|file| file.file_name().unwrap_or_default().len() > 100);
        if let Some(long) = long
            .map(PathBuf::as_path)
            .or((prefix.len() > 155).then_some(folder))
        {
            bail!("{}: the name is too long for an archive", ui::path(long));
        }
        Ok(Archive {
            prefix: prefix.to_vec(),
            files: files.into_iter(),
            block: io::Cursor::default(),
            file: None,
            over: false,
        })
    }

    fn begin(&mut self, path: &Path) -> io::Result<()> {
        let file = File::open(path)?;
        let size = file.metadata()?.len();
        let mut head = [0; BLOCK];
        let mut put = |at: usize, bytes: &[u8]| head[at..][..bytes.len()].copy_from_slice(bytes);
        put(0, path.file_name().unwrap_or_default().as_bytes());
        put(100, b"0000644\0");
        put(108, b"0000000\0");
        put(116, b"0000000\0");
        put(124, &size_field(size));
        put(136, b"00000000000\0");
        put(148, b"        0");
        put(257, b"ustar\0");
        put(263, b"00");
        put(345, &self.prefix);
        let sum: u32 = head.iter().map(|&byte| u32::from(byte)).sum();
        head[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
        self.block = io::Cursor::new(head.to_vec());
        let fill = size.next_multiple_of(BLOCK as u64) - size;
        self.file = Some((file, size, fill));
        Ok(())
    }

    /// What comes when the bytes of a file, or a block, are all read.
    fn go_on(&mut self) -> io::Result<()> {
        match self.files.next() {
            Some(path) => self.begin(&path).map_err(|error| {
                let what = format!("{}: {error}", ui::path(&path));
                io::Error::new(error.kind(), what)
            }),
            None => {
                self.over = true;
                self.block = io::Cursor::new(vec![0; 2 * BLOCK]);
                Ok(())
            }
        }
    }
}

fn size_field(size: u64) -> [u8; 12] {
    let mut field = [0; 12];
    match size < 1 << 33 {
        true => field[..11].copy_from_slice(format!("{size:011o}").as_bytes()),
        false => {
            field[0] = 0x80;
            field[4..].copy_from_slice(&size.to_be_bytes());
        }
    }
    field
}

impl Read for Archive {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let count = self.block.read(buffer)?;
            if count > 0 || buffer.is_empty() {
                return Ok(count);
            }
            match &mut self.file {
                Some((file, left, fill)) if *left > 0 => {
                    let count = file.take(*left).read(buffer)?;
                    if count == 0 {
                        return Err(io::Error::other(
                            "a file became shorter while it was packed",
                        ));
                    }
                    *left -= count as u64;
                    if *left == 0 {
                        self.block = io::Cursor::new(vec![0; *fill as usize]);
                    }
                    return Ok(count);
                }
                _ if self.over => return Ok(0),
                _ => self.go_on()?,
            }
        }
    }
}

/// How an archive ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    /// As it should.
    Whole,
    /// In the middle of something.
    CutOff,
}

/// Makes the files of an archive in a folder, which errors call `shown`; of an archive that is cut off,
/// what there is.
///
/// # Errors
/// Where the archive can't be read or holds anything but files of one folder, or the folder can't be
/// written.
pub(super) fn extract(archive: &mut dyn Read, folder: &Path, shown: &str) -> anyhow::Result<End> {
    for _ in 0..MOST_FILES {
        let mut head = Vec::with_capacity(BLOCK);
        archive.take(BLOCK as u64).read_to_end(&mut head)?;
        let Some(head) = head.first_chunk::<BLOCK>() else {
            return Ok(End::CutOff);
        };
        if head.iter().all(|&byte| byte == 0) {
            return Ok(End::Whole);
        }
        let entry =
            Entry::parse(head).context("the archive is damaged, or no archive of a trace")?;
        let mut bytes = archive.take(entry.size);
        let copied = match entry.name {
            None => io::copy(&mut bytes, &mut io::sink())?,
            Some(name) => {
                let name = Path::new(OsStr::from_bytes(&name)).to_owned();
                let path = folder.join(&name);
                let text = || format!("{shown}: {}", ui::path(&name));
                let mut options = OpenOptions::new();
                let file = options.write(true).create_new(true).mode(0o600).open(&path);
                let mut file = file.with_context(text)?;
                io::copy(&mut bytes, &mut file).with_context(text)?
            }
        };
        if copied < entry.size {
            return Ok(End::CutOff);
        }
        let fill = entry.size.next_multiple_of(BLOCK as u64) - entry.size;
        io::copy(&mut archive.take(fill), &mut io::sink())?;
    }
    bail!(
        "the archive has more than {} files",
        ui::count(MOST_FILES as u64)
    )
}

struct Entry {
    /// Of a file, without its folder; `None`: nothing to be made.
    name: Option<Vec<u8>>,
    size: u64,
}

impl Entry {
    fn parse(head: &[u8; BLOCK]) -> Option<Entry> {
        let sum = |at: usize, byte: &u8| match (148..156).contains(&at) {
            true => u64::from(b' '),
            false => u64::from(*byte),
        };
        let sum: u64 = head
            .iter()
            .enumerate()
            .map(|(at, byte)| sum(at, byte))
            .sum();
        if number(&head[148..156])? != sum {
            return None;
        }
        // A later size has no place to go to: a file's end is far before it.
        let size = number(&head[124..136]).filter(|&size| i64::try_from(size).is_ok())?;
        let name = match head[156] {
            0 | b'0' => Some(own_name(text(&head[..100]))?),
            // Folders, and what newer tars say of the next file.
            b'5' | b'g' | b'x' => None,
            _ => return None,
        };
        Some(Entry { name, size })
    }
}

/// The last part of a name; it must be one of a folder's files.
fn own_name(name: &[u8]) -> Option<Vec<u8>> {
    let own = name.rsplit(|&byte| byte == b'/').next()?;
    let good = !own.is_empty() && own != b"." && own != b"..";
    good.then(|| own.to_vec())
}

/// What is before the first NUL.
fn text(field: &[u8]) -> &[u8] {
    field.split(|&byte| byte == 0).next().unwrap_or_default()
}

fn number(field: &[u8]) -> Option<u64> {
    if field.first() == Some(&0x80) {
        let (zeros, number) = field.get(1..)?.split_last_chunk()?;
        return zeros
            .iter()
            .all(|&byte| byte == 0)
            .then(|| u64::from_be_bytes(*number));
    }
    let digits = std::str::from_utf8(text(field)).ok()?.trim();
    u64::from_str_radix(digits, 8).ok()
}
